"""Which taints a toleration covers, of devices and of nodes; which taints keep a request off a device.

Source: k8s.io/dynamic-resource-allocation resourceclaim/devicetoleration.go (`ToleratesTaint`) and
`taintPreventsAllocation` of the incubating allocator, v0.36.3. Admin access does not bypass taints, and
`tolerationSeconds` matters to eviction only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from allocator.values.model import DeviceTaint, DeviceToleration


class TaintLike(Protocol):
    """A taint of a device or of a node."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class TolerationLike(TaintLike, Protocol):
    """A toleration of a request or of a pod; an empty `operator` means Equal, an empty `effect` or `key` means any."""

    @property
    def operator(self) -> str: ...


def tolerates(toleration: TolerationLike, taint: TaintLike) -> bool:
    """Whether the toleration covers the taint. An unknown operator covers nothing."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False


def prevent_allocation(taints: Iterable[DeviceTaint], tolerations: Iterable[DeviceToleration]) -> bool:
    """Whether any taint keeps a request with these tolerations off the device.

    Only the effects NoSchedule and NoExecute do; None and effects of the future are ignored.
    """
    known = tuple(tolerations)
    return any(
        taint.effect in ("NoSchedule", "NoExecute") and not any(tolerates(toleration, taint) for toleration in known)
        for taint in taints
    )
