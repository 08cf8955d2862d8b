"""PodDisruptionBudgets: how many of which pods may be disrupted now.

Rules of this module
  1. What may be disrupted is what the disruption controller last wrote; nothing is counted here.
  2. A budget without a selector, or with one that cannot be read, covers no pod.

Not here: which pods are disrupted (`plugins.default_preemption`).

Source: policy/v1 PodDisruptionBudget, Kubernetes 1.36.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model.keys import ObjectKey
from scheduler.model.label_selectors import Selector

DISRUPTION_BUDGET: Final = "PodDisruptionBudget"


class DisruptionBudget(msgspec.Struct, frozen=True, gc=False):
    """One budget, for pods of its namespace.

    Args:
        selector: An empty one selects all pods for the API, and none for preemption, as upstream.
        allowed: `status.disruptionsAllowed`: how many more pods may go.
        disrupted_pods: Names of pods whose eviction the API server has granted already; they are counted in `allowed`.
    """

    key: ObjectKey
    selector: Selector
    allowed: int = 0
    disrupted_pods: frozenset[str] = frozenset()
