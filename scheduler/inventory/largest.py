"""The largest request for devices of a class that fits somewhere: asked of the allocator, never estimated.

Nodes are asked in the order of how many devices they could give at most, so most need not be asked at all.

Rules of this module
  1. An answer that is called exact is: the allocator found that count, and refused one more wherever there is room.
  2. Work is bounded by steps of the search; where they end early, the answer says that it is not exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from allocator import (
    NO_SHARE_IDS,
    RESULTS_MAX,
    Allocated,
    AllocationError,
    AllocationRequest,
    BudgetExhausted,
    Claim,
    ClaimSpec,
    Features,
    FreeDevices,
    Inventory,
    Ledger,
    NodeView,
    Unfinished,
    allocate_in_parts,
    decode_claim_spec,
)
from scheduler.inventory.device_answer import Largest
from scheduler.inventory.parts import Parts

_STEPS_MAX: Final = 100_000
_STEPS_OF_A_QUESTION: Final = 10_000
_STEPS_OF_A_PART: Final = 1_000  # some 4 ms
_NODES_OF_A_PART: Final = 1_000
_QUESTIONS_MAX: Final = 2_000
NEARNESS: Final = ("numa", "pcie", "nvlink", "clique", "fabric", "island", "socket")
"""Words in the last part of an attribute's name which say that devices with one value are near each other."""


class Offered(NamedTuple):
    """What one node has of a class."""

    node: NodeView
    devices: FreeDevices
    in_use: Ledger


class Asking:
    """Questions about one inventory."""

    def __init__(self, inventory: Inventory, features: Features) -> None:
        self._inventory: Final = inventory
        self._features: Final = features

    def largest(self, device_class: str, offered: Iterable[Offered], attribute: str = "") -> Parts[Largest]:
        """The largest count that fits on one node.

        Args:
            offered: Nodes with free devices of the class.
            attribute: What all devices must have in common; "" for nothing.
        """
        bounds = []
        for number, each in enumerate(offered, 1):
            bounds.append((self._most(each.devices, attribute), each))
            if not number % _NODES_OF_A_PART:
                yield
        bounds.sort(key=lambda bound: (-bound[0], bound[1].node.name))
        best, where, exact, steps, questions = 0, None, True, 0, 0
        for most, one in bounds:
            low, high = best, most
            while low < high:
                if steps >= _STEPS_MAX or questions >= _QUESTIONS_MAX:
                    exact = False
                    break
                # The whole is the likeliest answer where nothing is known, one more than the best where something is.
                middle = high if high == most and not best else (low + 1 if low == best else (low + high + 1) // 2)
                questions += 1
                found, spent = yield from self._fits(device_class, middle, one, attribute)
                yield
                steps += spent
                if found:
                    low = middle
                else:
                    exact = exact and found is not None
                    high = middle - 1
            if low > best:
                best, where = low, one.node.name
        return Largest(within=attribute or "node", count=best, node=where, exact=exact)

    def _most(self, devices: FreeDevices, attribute: str) -> int:
        """No request for more fits: a claim is given no device twice, not even one that others share."""
        pools, _, free = devices
        if not attribute:
            return min(free.bit_count(), RESULTS_MAX)
        counts: Counter[object] = Counter()
        for number in pools.numbers_among(free):
            view, _ = pools.usable[number]
            mask = pools.among(free, number)
            values = view.attribute(attribute, self._features)
            if values.unknown or values.failed:
                return min(free.bit_count(), RESULTS_MAX)
            for value, having in values.masks.items():
                counts[value] += (mask & having).bit_count()
        return min(max(counts.values(), default=0), RESULTS_MAX)

    def _fits(self, device_class: str, count: int, one: Offered, attribute: str) -> Parts[tuple[bool | None, int]]:
        """Whether so many fit (None: not known), and the steps that it took."""
        claim = Claim("", "largest", _request(device_class, count, attribute))
        question = AllocationRequest(
            (claim,), one.node, self._inventory, one.in_use, self._features, _STEPS_OF_A_QUESTION, NO_SHARE_IDS
        )
        try:
            while isinstance(outcome := allocate_in_parts(question, pause_after=_STEPS_OF_A_PART), Unfinished):
                yield
        except AllocationError as error:
            return False, error.steps
        if isinstance(outcome, BudgetExhausted):
            return None, outcome.steps
        return isinstance(outcome, Allocated), outcome.steps


def _request(device_class: str, count: int, attribute: str) -> ClaimSpec:
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    devices: dict[str, Any] = {"requests": [{"name": "largest-request", "exactly": exactly}]}
    if attribute:
        devices["constraints"] = [{"matchAttribute": attribute}]
    return decode_claim_spec({"devices": devices})


def nearness_attributes(inventory: Inventory) -> list[str]:
    """Fully qualified names of the published attributes that say which devices are near each other."""
    found: set[str] = set()
    for slice_ in inventory.slices.values():
        for device in slice_.devices:
            for name in device.attributes:
                if name in found:
                    continue
                last = name.rpartition("/")[2].lower()
                if any(word in last for word in NEARNESS):
                    found.add(name if "/" in name else f"{slice_.driver}/{name}")
    return sorted(found)
