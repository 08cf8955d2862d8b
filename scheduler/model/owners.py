"""Who makes a pod: its controller, the pods that are made beside it, and whether one comes back when it ends."""

from __future__ import annotations

from scheduler.model.group import key_of_group
from scheduler.model.objects import OwnerReference, Pod


def controller_of(pod: Pod) -> OwnerReference | None:
    """None for a pod that somebody made by hand."""
    return next((one for one in pod.metadata.owner_references or () if one.controller), None)


def deployment_of(pod: Pod) -> str:
    """The name of its Deployment, "" where it has none.

    A Deployment's ReplicaSet has its name, and the hash of the template that the pod has as a label.
    """
    owner, suffix = controller_of(pod), f"-{(pod.metadata.labels or {}).get('pod-template-hash', '')}"
    is_made = owner is not None and owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix)
    return owner.name.removesuffix(suffix) if owner is not None and is_made else ""


def edited_object(pod: Pod) -> str:
    """What a person edits to change the pod: itself, or what makes such pods; `deployment default/web`."""
    kind, key = _made_by(pod)
    return f"{kind.lower()} {key}"


def owner_of(pod: Pod) -> str:
    """Whose pod it is: its group's, its maker's, or its own; `PodGroup/default/train`."""
    if (group := key_of_group(pod)) is not None:
        return f"{'PodGroup' if group.is_pod_group else 'Group'}/{group}"
    return "/".join(_made_by(pod))


def _made_by(pod: Pod) -> tuple[str, str]:
    owner, deployment = controller_of(pod), deployment_of(pod)
    if owner is None:
        return "Pod", str(pod.key)
    kind, name = ("Deployment", deployment) if deployment else (owner.kind, owner.name)
    return kind, f"{pod.metadata.namespace}/{name}"


def is_rolled_out(pod: Pod, other: Pod) -> bool:
    """Whether both are of one Deployment, and of different revisions: one takes the other's place."""
    ours, theirs = controller_of(pod), controller_of(other)
    is_of_one = pod.metadata.namespace == other.metadata.namespace and deployment_of(pod) == deployment_of(other) != ""
    return is_of_one and ours is not None and theirs is not None and ours.uid != theirs.uid


def is_replica(pod: Pod, other: Pod) -> bool:
    """Whether both are of one controller, or of one Deployment."""
    ours, theirs = controller_of(pod), controller_of(other)
    return (ours is not None and theirs is not None and ours.uid == theirs.uid) or is_rolled_out(pod, other)


def is_sibling(pod: Pod, other: Pod) -> bool:
    """Whether both are of one controller, of one Deployment, or of one group."""
    group = key_of_group(pod)
    return is_replica(pod, other) or (group is not None and group == key_of_group(other))


def ends_in_vain(other: Pod, pod: Pod) -> bool:
    """Whether `pod` gains nothing when the other one ends.

    A sibling comes back, or waits instead; a DaemonSet's pod and a static one come back to their node.
    """
    maker = controller_of(other)
    comes_back = maker is not None and maker.kind in ("DaemonSet", "Node")
    return comes_back or is_sibling(pod, other)
