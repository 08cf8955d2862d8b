"""The last hour, as this process has seen it: what was given out, who waited, what was left in pieces.

Rules of this module
  1. It is bounded: so many moments, so many changes, so many pods. What is older is forgotten.
  2. Of what changes between two moments and back nothing is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from scheduler.core.machine import Machine
from scheduler.model.claim import ResourceClaim
from scheduler.offline.utilization import utilization
from scheduler.ui.pictures import Document

EVERY_S: Final = 30.0
_MOMENTS_MAX: Final = 120
_CHANGES_MAX: Final = 500
_WAITING_MAX: Final = 50
_NAMED_MAX: Final = 8


class _Moment(NamedTuple):
    at_ms: int
    waiting: int
    classes: Mapping[str, tuple[float, float]]
    """Of each class's devices the share that is given out, and the share that is scattered (`utilization`)."""


class Past:
    """Fed now and then with what is observed."""

    def __init__(self) -> None:
        self._moments: Final[deque[_Moment]] = deque(maxlen=_MOMENTS_MAX)
        self._changes: Final[deque[Document]] = deque(maxlen=_CHANGES_MAX)
        self._held: dict[str, tuple[str, ...]] | None = None
        self._since: dict[str, int] = {}

    def observe(self, machine: Machine, now_ms: int) -> None:
        """Note the moment."""
        held = dict(_holders(machine))
        before, self._held = self._held, held
        if before is not None:
            for name in sorted(before.keys() | held.keys()):
                gone, new = set(before.get(name, ())), set(held.get(name, ()))
                for what, devices in (("given back", gone - new), ("given out", new - gone)):
                    if devices:
                        self._changes.append(_change(now_ms, what, name, sorted(devices)))
        waiting = set(_waiting(machine))
        self._since = {name: self._since.get(name, now_ms) for name in waiting}
        shares = {name: (float(one.share), float(one.fragmentation)) for name, one in utilization(machine).items()}
        self._moments.append(_Moment(now_ms, len(waiting), shares))

    def document(self) -> Document:
        """The moments as columns, the oldest first; changes and pods that wait, the newest and the longest first."""
        names = sorted({name for one in self._moments for name in one.classes})
        longest = sorted(self._since.items(), key=lambda one: (one[1], one[0]))
        return {
            "everySeconds": EVERY_S,
            "at": [one.at_ms for one in self._moments],
            "waiting": [one.waiting for one in self._moments],
            "classes": {
                name: {
                    "share": [one.classes[name][0] if name in one.classes else None for one in self._moments],
                    "scattered": [one.classes[name][1] if name in one.classes else None for one in self._moments],
                }
                for name in names
            },
            "changes": [*reversed(self._changes)],
            "longest": [{"pod": name, "since": since} for name, since in longest[:_WAITING_MAX]],
        }


def _holders(machine: Machine) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Of each claim that has devices: its name, and theirs."""
    for claim in machine.store.claims.values():
        if claim.allocation is not None and claim.allocation.results:
            yield _name_of(claim), tuple(map(str, claim.allocation.device_ids()))


def _name_of(claim: ResourceClaim) -> str:
    return f"{claim.key.namespace}/{claim.key.name}"


def _change(now_ms: int, what: str, claim: str, devices: list[str]) -> Document:
    named = devices[:_NAMED_MAX]
    return {"at": now_ms, "what": what, "claim": claim, "devices": named, "more": len(devices) - len(named)}


def _waiting(machine: Machine) -> Iterator[str]:
    for pod in machine.store.pods.values():
        if pod.node_name is None and not pod.is_terminal and not pod.is_deleting:
            yield f"{pod.metadata.namespace}/{pod.metadata.name}"
