"""What several plugins say of other pods that keep a pod from nodes, and that these end."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.model.group import key_of_group
from scheduler.model.keys import NodeName
from scheduler.model.objects import Pod
from scheduler.model.owners import controller_of
from scheduler.why.reasons import Fix, Whom
from scheduler.why.say import Pods


def importance(pod: Pod) -> tuple[int, str]:
    """By which pods are sorted, the least important first."""
    return pod.spec.priority or 0, str(pod.key)


def ending(pod: Pod, pods: Sequence[Pod], nodes: Sequence[NodeName], on: tuple[NodeName, ...] = ()) -> Fix:
    """That these pods on `nodes` end, all of them.

    Args:
        on: Where that may help; on their nodes alone, unless it is said.
    """
    is_theirs = any(one.metadata.namespace != pod.metadata.namespace for one in pods)
    fields = {"pods": Pods.of(pods), "nodes": tuple(nodes)}
    return Fix(
        "pods-ended",
        fields,
        on or tuple(nodes),
        whom=Whom.OTHERS if is_theirs else Whom.OWN,
        removed=tuple([one.uid for one in pods]),
    )


def is_one_of_a_group(pod: Pod) -> bool:
    """Whether the pod has mates that no controller makes: to edit the rules of one of them is no advice."""
    return key_of_group(pod) is not None and controller_of(pod) is None
