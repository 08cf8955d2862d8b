"""Who has which device at every revision of the cluster, by a watch of all claims and pods.

    ledger = Ledger("ours")
    ledger.observe_claim(claim, is_gone=False); ledger.observe_pod(pod, is_gone=False)
    ledger.problems()

A snapshot every few seconds can miss what is wrong for a moment; here each change is looked at. Revisions of etcd are
one sequence for all kinds, so what of two things came first is told by their resourceVersions.

Rules
  1. No two of our claims ever have one device.
  2. None of our pods is bound on a device that another scheduler's claim was given before ours and still had
     (ADR 0010). What the other one gives away a second time is its own matter, and counted.

Not here: how the objects are watched (`run`), what a single state must be (`invariants`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.integration.api import Object

Device = tuple[str, str, str]


@dataclass(slots=True)
class Hold:
    """A claim has a device from one revision until another; `pods`: uids for which it was ever reserved."""

    device: Device
    claim: str
    is_ours: bool
    since: int
    until: int | None = None
    pods: set[str] = field(default_factory=set)

    def had_it_at(self, revision: int) -> bool:
        return self.since < revision and (self.until is None or revision < self.until)


class Ledger:
    """Fed with every change; objects may be told again, and deletions may come late, but of one kind in order."""

    def __init__(self, namespace: str) -> None:
        self._namespace: Final = namespace
        self._now: Final[dict[Device, list[Hold]]] = defaultdict(list)
        self._of_claim: Final[dict[str, dict[Device, Hold]]] = {}
        self._collisions: Final[list[tuple[Hold, Hold]]] = []
        self._bound: Final[dict[str, int]] = {}
        self._found: Final[list[str]] = []
        self._is_exact = True
        self.counts: Final[Counter[str]] = Counter()

    def observe_claim(self, claim: Object, *, is_gone: bool) -> None:
        metadata, status = claim["metadata"], claim.get("status") or {}
        revision = int(metadata["resourceVersion"])
        name = f"{metadata['namespace']}/{metadata['name']}"
        held = self._of_claim.setdefault(metadata["uid"], {})
        devices = set() if is_gone else set(devices_of(claim))
        for device in set(held) - devices:
            gone = held.pop(device)
            gone.until = revision
            self._now[device].remove(gone)
        for device in sorted(devices - set(held)):
            hold = Hold(device, name, metadata["namespace"] == self._namespace, revision)
            held[device] = hold
            self._compare(hold)
            self._now[device].append(hold)
        consumers = {consumer["uid"] for consumer in status.get("reservedFor") or ()}
        for hold in held.values():
            hold.pods |= consumers
        if is_gone:
            del self._of_claim[metadata["uid"]]

    def observe_listed(self, claims: Sequence[Object]) -> None:
        """Some changes may not have been told: whoever is not among these is gone, since when is not known.

        So what was given before and after that cannot be told either, and is not judged by rule 2.
        """
        there = {claim["metadata"]["uid"] for claim in claims}
        for uid in set(self._of_claim) - there:
            for device, hold in self._of_claim.pop(uid).items():
                hold.until = hold.since
                self._now[device].remove(hold)
        self.counts["lists of all claims"] += 1
        self._is_exact = False
        for claim in claims:
            self.observe_claim(claim, is_gone=False)
        self._is_exact = True

    def observe_pod(self, pod: Object, *, is_gone: bool) -> None:
        if pod["spec"].get("nodeName") and not is_gone:
            self._bound.setdefault(pod["metadata"]["uid"], int(pod["metadata"]["resourceVersion"]))

    def problems(self) -> list[str]:
        """What has broken a rule so far."""
        found = list(self._found)
        for first, second in self._collisions:
            for pod in sorted(second.pods):
                bound = self._bound.get(pod)
                if bound is not None and first.had_it_at(bound) and second.had_it_at(bound):
                    text = f"pod {pod} of {second.claim} was bound at {bound}"
                    found.append(f"{_text(second.device)} was {first.claim}'s since revision {first.since}, yet {text}")
        return found

    def _compare(self, hold: Hold) -> None:
        for other in self._now[hold.device]:
            if hold.is_ours and other.is_ours:
                text = (
                    f"given to {hold.claim} at revision {hold.since}, which {other.claim} has had since {other.since}"
                )
                self._found.append(f"{_text(hold.device)} was {text}")
            elif hold.is_ours:
                self.counts["ours gave what the other scheduler had given"] += 1
                if self._is_exact:
                    self._collisions.append((other, hold))
            elif other.is_ours:
                self.counts["the other scheduler gave what ours had given"] += 1
            else:
                self.counts["the other scheduler gave twice"] += 1


def devices_of(claim: Object) -> Iterable[Device]:
    """Of its allocation."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        yield result["driver"], result["pool"], result["device"]


def _text(device: Device) -> str:
    return "/".join(device)
