"""Features of the kubelet that a pod can only run with.

Not here: the nodes that declare them (`plugins.node_declared_features`). Features that matter when a running pod is
changed (resizes, web sockets) are the API server's.

Source: k8s.io/component-helpers nodedeclaredfeatures/features v0.38.0-beta.0 (InferForScheduling); none of them has a
last version yet. All hold whatever the release: a node that is too old cannot declare them.
"""

from __future__ import annotations

from typing import Final

from scheduler.model.objects import Pod

RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
VOLUME_BIND_MOUNT_OPTIONS: Final = "VolumeBindMountOptions"  # 1.37; an older API server drops what asks for it
POD_CERTIFICATE_MLDSA: Final = "PodCertificateMLDSA"  # 1.38, as is the next
SECURITY_PROFILE_OCI: Final = "SecurityProfileOCI"
_MLDSA: Final = frozenset({"MLDSA44", "MLDSA65", "MLDSA87"})


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
    projected = [one.projected.sources or () for one in spec.volumes or () if one.projected is not None]
    certificates = [source.pod_certificate for sources in projected for source in sources]
    if any(one is not None and one.key_type in _MLDSA for one in certificates):
        required += (POD_CERTIFICATE_MLDSA,)
    contexts = (spec.security_context, *[one.security_context for one in containers])
    profiles = [one.seccomp_profile for one in contexts if one is not None]
    if any(one is not None and one.type == "OCI" for one in profiles):
        required += (SECURITY_PROFILE_OCI,)
    return required
