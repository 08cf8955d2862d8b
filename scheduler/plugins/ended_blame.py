"""What is no fix among pods that are alike, and that others end: for each plugin that other pods keep from nodes.

Rules of this module
  1. That a sibling ends (a pod of the same controller or group) is no fix: it comes back, and waits instead of the pod.
  2. That one pod of a group has other rules than its mates is none, either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.model.group import key_of_group
from scheduler.model.keys import NodeName
from scheduler.model.objects import Pod
from scheduler.why.reasons import Fix, Whom
from scheduler.why.say import Pods


def said_pods(pods: Sequence[Pod]) -> Pods:
    """The pods in what is said of them."""
    return Pods(tuple([(one.key, one.spec.priority or 0) for one in pods]))


def importance(pod: Pod) -> tuple[int, str]:
    """By which pods are sorted, the least important first."""
    return pod.spec.priority or 0, str(pod.key)


def ending(pod: Pod, pods: Sequence[Pod], nodes: Sequence[NodeName], on: tuple[NodeName, ...] = ()) -> Iterator[Fix]:
    """That these pods on `nodes` end, all of them.

    Args:
        on: Where that may help; on their nodes alone, unless it is said.
    """
    if pods and not any(is_sibling(pod, one) for one in pods):
        whom = Whom(any(one.metadata.namespace != pod.metadata.namespace for one in pods))
        fields = {"pods": said_pods(pods), "nodes": tuple(nodes)}
        yield Fix("pods-ended", fields, on or tuple(nodes), whom=whom, removed=tuple([one.uid for one in pods]))


def is_sibling(pod: Pod, other: Pod) -> bool:
    """Whether one controller has made both, or both are of one group."""
    if controller := _controller(pod):
        return controller == _controller(other)
    group = key_of_group(pod)
    return group is not None and group == key_of_group(other)


def is_one_of_a_group(pod: Pod) -> bool:
    """Whether the pod has mates that a person would have to edit one by one, as no controller makes them."""
    return key_of_group(pod) is not None and not _controller(pod)


def _controller(pod: Pod) -> str:
    return next((one.uid for one in pod.metadata.owner_references or () if one.controller), "")
