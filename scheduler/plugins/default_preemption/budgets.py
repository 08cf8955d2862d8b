"""Which pods no PodDisruptionBudget allows to go. A preference, never a veto.

Rules of this module
  1. Pods are counted in the order given, against every budget that covers them, also those that are violated.
  2. From 1.38 on as the eviction API: an empty selector covers all pods of its namespace. Before it covers none, nor
     does any selector cover a pod without labels.

Source: filterPodsWithPDBViolation of pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go v1.36.3,
FilterVictimsWithPDBViolation of pkg/scheduler/framework/preemption/util.go v1.38.0-beta.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.keys import ObjectKey, PodUid
from scheduler.model.objects import Pod


def violating_pods(
    pods: Iterable[Pod], budgets_of: Callable[[str], Sequence[DisruptionBudget]], *, is_138: bool
) -> frozenset[PodUid]:
    """Those of `pods`, the most important first, that would have to stay if budgets were obeyed."""
    left: dict[ObjectKey, int] = {}
    return frozenset(pod.uid for pod in pods if _violates(pod, budgets_of(pod.metadata.namespace), left, is_138))


def _violates(pod: Pod, budgets: Iterable[DisruptionBudget], left: dict[ObjectKey, int], is_138: bool) -> bool:
    """Whether a budget is used up; takes the pod out of those it is counted against.

    Args:
        left: How many pods may go, of budgets that were looked at.
    """
    labels = pod.metadata.labels or {}
    if not labels and not is_138:
        return False
    for budget in budgets:
        if (budget.selector.is_empty and not is_138) or not budget.selector.matches(labels):
            continue
        if pod.metadata.name in budget.disrupted_pods:
            continue  # its eviction is granted, and counted in what is left
        left[budget.key] = left.get(budget.key, budget.allowed) - 1
        if left[budget.key] < 0:
            return True
    return False
