"""That pods end: a fix of each plugin that other pods keep from nodes.

Rules of this module
  1. That a sibling ends (a pod of the same controller) is no fix: it comes back, and waits instead of the pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    """Whether one controller has made both."""
    return (uid := _controller(pod)) != "" and uid == _controller(other)


def _controller(pod: Pod) -> str:
    return next((one.uid for one in pod.metadata.owner_references or () if one.controller), "")
