"""What of the observed objects is left out, as it cannot be read or has a field that nobody here acts on.

Rules of this module
  1. The smallest part is left out: of a slice the device, else the object.
  2. One text for each field and reason, which names the first object and counts the others; after the first TEXTS_MAX
     reasons the others are only counted.

Not here: what is kept from others' eyes (`left_out`), objects that the API server refuses (`offline_cluster`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from allocator import DeviceClass, ResourceSlice
from scheduler.core.ground.inputs import Observed
from scheduler.kube.watched_kind import Broken, Seen, WatchedKind
from scheduler.model.claim import ResourceClaim
from scheduler.model.nearest import near
from scheduler.model.pod_group import PodGroup
from scheduler.validation.api_fields import fields_of

TEXTS_MAX: Final = 20
_TYPES_OF_SLICES: Final = (
    *("ResourceSliceSpec", "ResourcePool", "Device", "DeviceCapacity", "DeviceCounterConsumption"),
    *("CapacityRequestPolicy", "CapacityRequestPolicyRange", "DeviceTaint", "CounterSet", "Counter"),
)


class LeftOutParts:
    """Collects them as objects are observed."""

    def __init__(self) -> None:
        self._first: Final[dict[tuple[str, str], str]] = {}  # by kind and reason
        self._names: Final[dict[tuple[str, str], set[str]]] = {}
        self._others: Final[set[tuple[str, str]]] = set()

    def look_at(self, kind: WatchedKind, seen: Seen | Broken) -> None:
        """Note what of an object is left out, if anything is."""
        if isinstance(seen, Broken):
            self._note(kind.name, str(seen.name), f"{kind.name} {seen.name} cannot be read", seen.reason)
        elif isinstance(seen.input, Observed):
            for name, what, why, *field in _left_out_of(seen.input.object):
                self._note(kind.name, name, what, why, *field)

    @property
    def texts(self) -> list[str]:
        """What a person reads."""
        counts = {key: len(names) - 1 for key, names in self._names.items()}
        texts = [f"{text}{f' (and {counts[key]} more)' if counts[key] else ''}" for key, text in self._first.items()]
        return [*texts, f"{len(self._others)} more are left out, for other reasons"] if self._others else texts

    def _note(self, kind: str, name: str, what: str, why: str, field: str = "") -> None:
        if len(self._first) >= TEXTS_MAX and (kind, why) not in self._first:
            self._others.add((kind, name))
            return
        if (kind, why) not in self._first:
            self._first[kind, why] = f"{what}: {why}{_hint(field)}"
        self._names.setdefault((kind, why), set()).add(name)


def _left_out_of(found: object) -> Iterator[tuple[str, ...]]:
    """The name of each part, what it is, why it is left out, and the field where that may be misspelt."""
    match found:
        case ResourceSlice(unread=(path, *_)):
            yield found.name, f"ResourceSlice {found.name} is left out", _unknown(path), path
        case ResourceSlice():
            for device in found.devices:
                if device.unread:
                    what, path = f"device {device.name} of ResourceSlice {found.name} is left out", device.unread[0]
                    yield str(device.id), what, _unknown(path), path
        case DeviceClass(unread=(path, *_)):
            yield found.name, f"DeviceClass {found.name} is left out", _unknown(path), path
        case PodGroup(unread=(path, *_)):
            yield str(found.key), f"PodGroup {found.key} is left out, its pods wait", _unknown(path), path
        case ResourceClaim(problem=str(problem)):
            yield str(found.key), f"ResourceClaim {found.key} is left out, its pods wait", problem
        case _:
            pass


def _unknown(path: str) -> str:
    return f"this scheduler does not know the field {path}"


def _hint(path: str) -> str:
    name = path.rpartition(".")[2]
    meant = near(name, _fields_of_slices(), 0.75)
    return f" (did you mean {meant}?)" if meant else ""


@cache
def _fields_of_slices() -> tuple[str, ...]:
    """What files may have misspelt."""
    return tuple(sorted({name for of in _TYPES_OF_SLICES for name in fields_of(of)}))
