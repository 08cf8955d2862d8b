"""Features of the kubelet that a pod can only run with.

Not here: the nodes that declare them (`plugins.node_declared_features`). Features that matter when a running pod is
changed (resizes, web sockets) are the API server's.

Source: k8s.io/component-helpers nodedeclaredfeatures/features v0.37.2 (InferForScheduling); none of them has a last
version yet.
"""

from __future__ import annotations

from typing import Final

from scheduler.model.objects import Pod

RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
VOLUME_BIND_MOUNT_OPTIONS: Final = "VolumeBindMountOptions"  # 1.37; an older API server drops what asks for it


def required_features(pod: Pod) -> tuple[str, ...]:
    """What a node must declare to run `pod`; empty for nearly all pods."""
    spec = pod.spec
    required: tuple[str, ...] = ()
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    if any(rule.action == "RestartAllContainers" for one in containers for rule in one.restart_policy_rules or ()):
        required += (RESTART_ALL_CONTAINERS,)
    if spec.host_network and spec.host_users is False:
        required += (USER_NAMESPACES_HOST_NETWORK,)
    if any(mount.bind_mount_options for one in containers for mount in one.volume_mounts or ()):
        required += (VOLUME_BIND_MOUNT_OPTIONS,)
    return required
