"""Node taints and the tolerations of pods.

The operators Lt and Gt are behind an alpha gate upstream and tolerate nothing here.

Not here: device taints (the allocator's), and what an untolerated taint leads to (the plugins').

Source: k8s.io/api core/v1/toleration.go (ToleratesTaint) v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allocator.requests.device_taints import tolerates
from scheduler.model.objects import Node, Pod, Taint, Toleration

REPELLING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})
FEW_TOLERATIONS: Final = 8
"""More than these are not gone through for each taint."""
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether at least one toleration tolerates `taint`."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


class Tolerance:
    """What many tolerations cover together, found out with a few look-ups however many they are: a pod may have
    thousands. Says the same as `is_tolerated`."""

    __slots__ = ("_any_value", "_of_value")

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._of_value: Final[set[tuple[str, str, str]]] = set()
        self._any_value: Final[set[tuple[str, str]]] = set()
        for one in tolerations:
            if one.operator == "Exists":
                self._any_value.add((one.key, one.effect))
            elif one.operator in ("", "Equal"):
                self._of_value.add((one.key, one.value, one.effect))

    def covers(self, taint: Taint) -> bool:
        key, value, effect = taint.key, taint.value, taint.effect
        any_value, of_value = self._any_value, self._of_value
        return (
            (key, effect) in any_value
            or (key, "") in any_value
            or (key, value, effect) in of_value
            or (key, value, "") in of_value
            or ("", effect) in any_value
            or ("", "") in any_value
            or ("", value, effect) in of_value
            or ("", value, "") in of_value
        )


def find_untolerated(node: Node, pod: Pod, tolerance: Tolerance | None = None) -> Taint | None:
    """The first taint of `node` that keeps `pod` off it, or None; `tolerance` is that of its tolerations, if known."""
    tolerations = pod.spec.tolerations or ()
    for taint in node.spec.taints or ():
        if taint.effect in REPELLING_EFFECTS:
            is_covered = tolerance.covers(taint) if tolerance is not None else is_tolerated(taint, tolerations)
            if not is_covered:
                return taint
    return None
