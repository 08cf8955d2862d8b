"""Features of the kubelet that a pod can only run with.

Not here: the nodes that declare them (`plugins.node_declared_features`). Features that matter when a running pod is
changed (resizes, web sockets) are the API server's.

Source: k8s.io/component-helpers nodedeclaredfeatures/features v0.36.3 (InferForScheduling); none of them has a last
version yet.
"""

from __future__ import annotations

from typing import Final

from scheduler.model.objects import Pod

RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"


def required_features(pod: Pod) -> tuple[str, ...]:
    """What a node must declare to run `pod`; empty for nearly all pods."""
    spec = pod.spec
    required: tuple[str, ...] = ()
    if any(
        rule.action == "RestartAllContainers"
        for containers in (spec.containers, spec.init_containers)
        for one in containers or ()
        for rule in one.restart_policy_rules or ()
    ):
        required += (RESTART_ALL_CONTAINERS,)
    if spec.host_network and spec.host_users is False:
        required += (USER_NAMESPACES_HOST_NETWORK,)
    return required
