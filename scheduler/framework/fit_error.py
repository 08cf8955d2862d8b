"""The message of a pod that fits no node, in kube-scheduler's words.

Source: `FitError.Error` of pkg/scheduler/framework/types.go, `findNodesThatFitPod` of pkg/scheduler/schedule_one.go,
v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from scheduler.framework.status import Status

NO_NODES: Final = "no nodes available to schedule pods"


def fit_error(
    nodes: int,
    *,
    pre_filter: str = "",
    reasons: Mapping[str, int] = MappingProxyType({}),
    post_filter: str = "",
) -> str:
    """`0/25 nodes are available: 25 cannot allocate all claims. no new claims to deallocate`.

    Args:
        nodes: How many nodes there are.
        pre_filter: What PreFilter says against the pod; then no node was asked, and `reasons` do not count.
        reasons: How many nodes gave each reason; shown in the order of the texts, so 10 comes before 2.
        post_filter: What PostFilter adds, with a full stop of its own where it has one.
    """
    listed = pre_filter or ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    message = f"0/{nodes} nodes are available:"
    if listed:
        message = f"{message} {listed}."
    return f"{message} {post_filter}" if post_filter else message


def count_reasons(verdicts: Iterable[Status]) -> dict[str, int]:
    """How many of the verdicts give each reason; a node with two reasons counts for both."""
    reasons: dict[str, int] = {}
    for status in verdicts:
        for reason in status.reasons:
            reasons[reason] = reasons.get(reason, 0) + 1
    return reasons


def not_named(narrowing: Iterable[str]) -> Status:
    """The verdict about a node that PreFilter's node names leave out.

    Args:
        narrowing: Names of the plugins that named nodes.
    """
    return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowing))}]")
