"""Who has which device at every revision of the cluster, by a watch of all claims and pods.

    ledger = Ledger("ours")
    ledger.observe_claim(claim, is_gone=False); ledger.observe_pod(pod, is_gone=False)
    ledger.problems(Writes(audit_log.read(), {token: "instance 0"}))

A snapshot every few seconds can miss what is wrong for a moment; here each change is looked at. Revisions of etcd are
one sequence for all kinds, so what of two things came first is told by their resourceVersions.

Rules
  1. No two of our claims ever have one device; but where one of them was written by a process after another had the
     lease, no two of our pods are bound on it. Such a write was on its way for longer than ADR 0019 allows for.
  2. None of our pods is bound on a device that another scheduler's claim was given before ours and still had
     (ADR 0010). What the other one gives away a second time is its own matter, and counted.

Not here: how the objects are watched (`run`), what a single state must be (`invariants`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.controlplane.audit import POLICY, Write
from tests.integration.api import Object

# With what the server answers to writes on claims: their revisions say which write made what the watch shows.
AUDITED: Final = {
    **POLICY,
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {
            "level": "RequestResponse",
            "resources": [{"group": "resource.k8s.io", "resources": ["resourceclaims/status"]}],
        },
        *POLICY["rules"],
    ],
}

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


class Writes:
    """Which of our processes wrote what, by the API server's audit log.

    Args:
        writes: Of everybody, in the order of their answers.
        names: Of our processes, by the id of their token.
    """

    def __init__(self, writes: Sequence[Write], names: Mapping[str, str]) -> None:
        ours = [one for one in writes if one.token in names and one.is_accepted]
        self._names: Final = names
        self._by_revision: Final = {one.revision: one for one in ours if one.revision}
        self._leases: Final = [one for one in ours if one.what == "leases"]

    def is_late(self, revision: int) -> bool:
        """Whether another process had the lease when the server received the write that made this revision."""
        write = self._by_revision.get(revision)
        return write is not None and self._holder_at(write.came_s) not in ("", write.token)

    def text(self, revision: int) -> str:
        write = self._by_revision.get(revision)
        if write is None:
            return f"revision {revision} was written by nobody of ours"
        holder = self._names.get(self._holder_at(write.came_s), "nobody")
        own = [lease.done_s for lease in self._leases if lease.token == write.token and lease.done_s < write.came_s]
        renewed = f"{write.came_s - own[-1]:.2f} s after its last renewal" if own else "without a lease"
        writer = f"revision {revision} was written by {self._names[write.token]}"
        return f"{writer} at {write.came_s:.2f}, {renewed}, when {holder} had the lease"

    def _holder_at(self, seconds: float) -> str:
        return next((one.token for one in reversed(self._leases) if one.done_s <= seconds), "")


class Ledger:
    """Fed with every change; objects may be told again, and deletions may come late, but of one kind in order."""

    def __init__(self, namespace: str) -> None:
        self._namespace: Final = namespace
        self._now: Final[dict[Device, list[Hold]]] = defaultdict(list)
        self._of_claim: Final[dict[str, dict[Device, Hold]]] = {}
        self._collisions: Final[list[tuple[Hold, Hold]]] = []
        self._bound: Final[dict[str, int]] = {}
        self._doubled: Final[list[tuple[Hold, Hold]]] = []
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

    def problems(self, writes: Writes) -> list[str]:
        """What has broken a rule so far."""
        found = []
        for first, second in self._doubled:
            bound = self._both_bound(first, second)
            if bound or not (writes.is_late(first.since) or writes.is_late(second.since)):
                text = f"given to {second.claim} at revision {second.since}, which {first.claim} has had since"
                who = "; ".join(writes.text(hold.since) for hold in (first, second))
                found.append(
                    f"{_text(second.device)} was {text} {first.since}; {who}; {bound or 'no pods bound on it'}"
                )
        for first, second in self._collisions:
            for pod, bound_at in self._bindings(second):
                if first.had_it_at(bound_at) and second.had_it_at(bound_at):
                    text = f"pod {pod} of {second.claim} was bound at {bound_at}"
                    found.append(f"{_text(second.device)} was {first.claim}'s since revision {first.since}, yet {text}")
        return found

    def late(self, writes: Writes) -> int:
        """How often a device had two of our claims because a write came after another process had the lease."""
        return sum(writes.is_late(one.since) or writes.is_late(other.since) for one, other in self._doubled)

    def _bindings(self, hold: Hold) -> list[tuple[str, int]]:
        return [(pod, self._bound[pod]) for pod in sorted(hold.pods) if pod in self._bound]

    def _both_bound(self, first: Hold, second: Hold) -> str:
        """Two pods that were bound on one device at one moment."""
        for one, one_at in self._bindings(first):
            for other, other_at in self._bindings(second):
                moment = max(one_at, other_at)
                if one != other and first.had_it_at(moment) and second.had_it_at(moment):
                    return f"pods {one} and {other} were bound on it at {one_at} and {other_at}"
        return ""

    def _compare(self, hold: Hold) -> None:
        for other in self._now[hold.device]:
            if hold.is_ours and other.is_ours:
                self._doubled.append((other, hold))
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
