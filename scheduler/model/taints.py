"""Node taints and the tolerations of pods.

The operators Lt and Gt are behind an alpha gate upstream and tolerate nothing here.

Not here: device taints (the allocator's), and what an untolerated taint leads to (the plugins').

Source: k8s.io/api core/v1/toleration.go (ToleratesTaint) v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allocator.taints import tolerates
from scheduler.model.objects import Node, Pod, Taint, Toleration

REPELLING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether at least one toleration tolerates `taint`."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def find_untolerated(node: Node, pod: Pod) -> Taint | None:
    """The first taint of `node` that keeps `pod` off it, or None."""
    return next(
        (
            taint
            for taint in node.spec.taints or ()
            if taint.effect in REPELLING_EFFECTS and not is_tolerated(taint, pod.spec.tolerations or ())
        ),
        None,
    )
