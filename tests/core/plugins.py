"""Small plugins for tests of the framework and the core, simple enough to be obviously right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from allocator import DeviceId
from scheduler.framework.api import (
    Action,
    Hint,
    PostFilterResult,
    PreBindDone,
    PreBindFailed,
    PreBindWait,
    PreBindWrite,
    PreFilterResult,
    ReserveResult,
    Resource,
)
from scheduler.framework.decisions import WriteClaimStatus
from scheduler.framework.status import SKIP, SUCCESS, Status
from scheduler.model.claim import Consumer
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey
from tests import builders

ALL_CHANGES = tuple((resource, ~Action(0)) for resource in Resource)


@dataclass(frozen=True)
class Reject:
    """Filter: reject the nodes for which `is_rejected(pod, node info)`; remembers nothing about what it reads."""

    is_rejected: Callable = lambda pod, info: False
    name: str = "Reject"
    reason: str = "node(s) were rejected"
    wakes_on: tuple = ALL_CHANGES
    calls: list = field(default_factory=list)
    hinted: list = field(default_factory=list)
    hint_: Hint = Hint.QUEUE

    def signature(self, cycle, view):
        return self.name

    def filter(self, cycle, node, view):
        self.calls.append(node.name)
        return Status.unschedulable(self.reason) if self.is_rejected(cycle.pod, node) else SUCCESS

    def hint(self, pod, change, view):
        self.hinted.append((pod.metadata.name, change))
        return self.hint_


@dataclass(frozen=True)
class Slots:
    """Filter: at most `size` pods on a node."""

    size: int = 1
    name: str = "Slots"
    wakes_on: tuple = (
        (Resource.ASSIGNED_POD, Action.DELETE),
        (Resource.NODE, Action.ADD),
        (Resource.POD, Action.UPDATE_POD_LABEL),
    )
    calls: list = field(default_factory=list)

    def signature(self, cycle, view):
        return ()

    def filter(self, cycle, node, view):
        self.calls.append(node.name)
        return SUCCESS if len(node.pods) < self.size else Status.unschedulable("Too many pods")

    def hint(self, pod, change, view):
        return Hint.QUEUE


@dataclass(frozen=True)
class Prefer:
    """Score by the integer in the node's label `score`."""

    name: str = "Prefer"
    weight: int = 1
    wakes_on: tuple = ()
    calls: list = field(default_factory=list)

    def signature(self, cycle, view):
        return ()

    def pre_score(self, cycle, nodes, view):
        return SUCCESS

    def score(self, cycle, node, view):
        self.calls.append(node.name)
        return int(node.node.labels.get("score", "0"))

    def hint(self, pod, change, view):
        return Hint.SKIP


@dataclass(frozen=True)
class Scaled(Prefer):
    """Score by the integer in the node's label `most`; the largest becomes 100."""

    name: str = "Scaled"

    def score(self, cycle, node, view):
        return int(node.node.labels.get("most", "0"))

    def normalize_score(self, cycle, scores):
        largest = max(*scores.values(), 1)
        for name, score in scores.items():
            scores[name] = score * 100 // largest


@dataclass(frozen=True)
class Zoned:
    """Filter by facts: at most `size` pods in the nodes that share a value of the label `zone`."""

    size: int = 1
    name: str = "Zoned"
    wakes_on: tuple = ((Resource.ASSIGNED_POD, Action.DELETE), (Resource.NODE, Action.ADD))
    facts: list = field(default_factory=list)
    calls: list = field(default_factory=list)

    def signature(self, cycle, view):
        return ()

    def fact(self, cycle, node, view):
        self.facts.append(node.name)
        return node.node.labels.get("zone", len(node.pods))

    def lookups(self, cycle):
        return 1

    def moment(self, cycle, view):
        return object()  # never the same

    def filter_fact(self, cycle, fact, view):
        self.calls.append(fact)
        if isinstance(fact, str):
            fact = sum(len(info.pods) for info in view.node_infos.values() if info.node.labels.get("zone") == fact)
        return SUCCESS if fact < self.size else Status.unschedulable("zone is full")

    def hint(self, pod, change, view):
        return Hint.QUEUE


@dataclass(frozen=True)
class Emptier:
    """Score by facts: 100 for the zone with the fewest pods, 0 for all others; `seen` is what it was asked about."""

    name: str = "Emptier"
    weight: int = 1
    wakes_on: tuple = ()
    seen: list = field(default_factory=list)

    def signature(self, cycle, view):
        return ()

    def fact(self, cycle, node, view):
        return node.node.labels.get("zone", "")

    def lookups(self, cycle):
        return 1

    def score_facts(self, cycle, facts, view):
        self.seen.append(dict(facts))
        pods = dict.fromkeys(facts, 0)
        for info in view.node_infos.values():
            zone = info.node.labels.get("zone", "")
            if zone in pods:
                pods[zone] += len(info.pods)
        return {zone: 100 * (number == min(pods.values())) for zone, number in pods.items()}

    def hint(self, pod, change, view):
        return Hint.SKIP


@dataclass(frozen=True)
class Gate:
    """PreEnqueue: keep out pods with the label `hold`."""

    name: str = "Gate"
    wakes_on: tuple = ((Resource.POD, Action.UPDATE_POD_LABEL),)

    def pre_enqueue(self, pod, view):
        held = "hold" in (pod.metadata.labels or {})
        return Status.unresolvable("held back") if held else SUCCESS

    def hint(self, pod, change, view):
        return Hint.QUEUE


@dataclass(frozen=True)
class Patience:
    """PreBind: pods with the label `wait` wait for ever."""

    name: str = "Patience"
    wakes_on: tuple = ()

    def pre_bind(self, cycle, node, view):
        if "wait" in (cycle.pod.metadata.labels or {}):
            return PreBindWait(cycle.now_ms + 10**9)
        return PreBindDone()

    def hint(self, pod, change, view):
        return Hint.SKIP


@dataclass(frozen=True)
class Helper:
    """PostFilter: answers `result`."""

    result: PostFilterResult = field(
        default_factory=lambda: PostFilterResult(Status.unschedulable("still not schedulable"))
    )
    name: str = "Helper"
    wakes_on: tuple = ()
    seen: list = field(default_factory=list)

    def post_filter(self, cycle, verdicts, view, dry_run):
        self.seen.append(dict(verdicts))
        return self.result

    def hint(self, pod, change, view):
        return Hint.SKIP


@dataclass(frozen=True)
class Given:
    """The claims of a pod and the devices given to the unallocated ones."""

    claims: tuple
    allocations: dict


@dataclass(frozen=True)
class TinyDevices:
    """All extension points that a claim passes: one device `gpu-<n>` for each claim, `count` on each node.

    A miniature of DynamicResources without classes, selectors or slices.
    """

    count: int = 2
    name: str = "TinyDevices"
    wakes_on: tuple = (
        (Resource.CLAIM, Action.ADD | Action.UPDATE | Action.DELETE),
        (Resource.NODE, Action.ADD),
        (Resource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
    )

    def concerned(self, change, view):
        if change.resource is not Resource.CLAIM:
            return None
        old, new = change.old, change.new
        is_freed = old is not None and old.allocation is not None and (new is None or new.allocation is None)
        return None if is_freed else view.users_of((new or old).key)

    def hint(self, pod, change, view):
        return Hint.QUEUE

    def pre_enqueue(self, pod, view):
        return SUCCESS if self._claims(pod, view) is not None else Status.unresolvable("claim not found")

    def pre_filter(self, cycle, view):
        claims = self._claims(cycle.pod, view)
        if claims is None:
            return PreFilterResult(Status.unresolvable("claim not found"))
        if not claims:
            return PreFilterResult(SKIP)
        for claim in claims:
            if claim.allocation is None and view.is_held(claim.uid):
                return PreFilterResult(
                    Status.unresolvable(f"resource claim {claim.key} is in the process of being allocated")
                )
        cycle.put(Given(claims, {}))
        return PreFilterResult(SUCCESS)

    def signature(self, cycle, view):
        claims = cycle.get(Given).claims
        return (
            sum(claim.allocation is None for claim in claims),
            tuple(sorted(claim.allocation.results[0].pool for claim in claims if claim.allocation is not None)),
        )

    def filter(self, cycle, node, view):
        claims = cycle.get(Given).claims
        if any(claim.allocation is not None and claim.allocation.results[0].pool != node.name for claim in claims):
            return Status.unresolvable("resourceclaim not available on the node")
        wanted = sum(claim.allocation is None for claim in claims)
        if wanted > len(self._free(node, view)):
            return Status.unresolvable("cannot allocate all claims")
        return SUCCESS

    def reserve(self, cycle, node, view):
        given = cycle.find(Given)
        if given is None:
            return ReserveResult(SUCCESS)
        free = self._free(node, view)
        held = []
        for claim in given.claims:
            if claim.allocation is None:
                allocation = builders.allocation(free.pop(0), pool=node.name)
                given.allocations[claim.key] = allocation
                held.append(Held(claim.key, claim.uid, allocation))
        return ReserveResult(SUCCESS, tuple(held))

    def unreserve(self, cycle, node, view):
        given = cycle.find(Given)
        writes = []
        for known in given.claims if given is not None else ():
            claim = view.claim(known.key)
            if claim is not None and claim.is_reserved_for(cycle.pod.uid):
                rest = tuple(one for one in claim.reserved_for if one.uid != cycle.pod.uid)
                writes.append(WriteClaimStatus(claim.key, claim.uid, claim.revision, reserved_for=rest))
        return tuple(writes)

    def pre_bind(self, cycle, node, view):
        given = cycle.find(Given)
        for known in given.claims if given is not None else ():
            claim = view.claim(known.key)
            if claim is None or claim.uid != known.uid or claim.is_deleting:
                return PreBindFailed(Status.error(f"claim {known.key} got deleted in the meantime"))
            planned = given.allocations.get(known.key)
            if claim.allocation is not None and planned not in (None, claim.allocation):
                return PreBindFailed(Status.error(f"claim {known.key} got allocated elsewhere in the meantime"))
            if claim.allocation is None and planned is None:
                return PreBindFailed(Status.error(f"claim {known.key} got deallocated elsewhere in the meantime"))
            if not claim.is_reserved_for(cycle.pod.uid):
                me = Consumer("pods", cycle.pod.metadata.name, cycle.pod.uid)
                write = WriteClaimStatus(
                    claim.key,
                    claim.uid,
                    claim.revision,
                    allocation=planned if claim.allocation is None else None,
                    reserved_for=(*claim.reserved_for, me),
                )
                return PreBindWrite((write,), is_last=known is given.claims[-1])
        return PreBindDone()

    def _claims(self, pod, view):
        claims = []
        names = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses or ()}
        for entry in pod.spec.resource_claims or ():
            name = entry.resource_claim_name or names.get(entry.name)
            claim = view.claim(ClaimKey(pod.metadata.namespace, name)) if name else None
            if claim is None:
                return None
            claims.append(claim)
        return tuple(claims)

    def _free(self, node, view):
        names = [f"gpu-{index}" for index in range(self.count)]
        return [name for name in names if not view.in_use.holds(DeviceId(builders.DRIVER, node.name, name))]
