"""Who makes a pod: its controller, the pods that are made beside it, and whether one comes back when it ends."""

from __future__ import annotations

from scheduler.model.group import key_of_group
from scheduler.model.objects import OwnerReference, Pod


def controller_of(pod: Pod) -> OwnerReference | None:
    """None for a pod that somebody made by hand."""
    return next((one for one in pod.metadata.owner_references or () if one.controller), None)


def is_sibling(pod: Pod, other: Pod) -> bool:
    """Whether both are of one controller, or of one group."""
    ours, theirs = controller_of(pod), controller_of(other)
    if ours is not None and theirs is not None and ours.uid == theirs.uid:
        return True
    group = key_of_group(pod)
    return group is not None and group == key_of_group(other)


def ends_in_vain(other: Pod, pod: Pod) -> bool:
    """Whether `pod` gains nothing when the other one ends.

    A sibling comes back, or waits instead; a DaemonSet's pod and a static one come back to their node.
    """
    maker = controller_of(other)
    comes_back = maker is not None and maker.kind in ("DaemonSet", "Node")
    return comes_back or is_sibling(pod, other)
