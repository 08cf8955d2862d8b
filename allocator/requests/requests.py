"""Claims and classes to a plan: what must be picked, in which order, and what is wrong before any search.

A plan depends on the specs of the claims, the classes they name and the features; not on claim names,
nodes or devices. It is made once and used for thousands of nodes.

Source: `Allocate` (checks before the search) and `validateDeviceRequest` of
structured/internal/incubating/allocator_incubating.go v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple, TypeAlias, TypeVar

from allocator.requests.capacity import Consumption, consume
from allocator.requests.selectors import Derivation, Matcher
from allocator.requests.slot_records import ENTRY_BYTES, SlotKey, SlotRecord
from allocator.values.features import Features
from allocator.values.meter import Meter
from allocator.values.model import (
    RESULTS_MAX,
    AllocationConfig,
    AllocationError,
    Claim,
    ClaimSpec,
    Constraint,
    Device,
    DeviceCapacity,
    DeviceClass,
    DeviceToleration,
    Request,
    RequestAlternative,
)
from cel.quantity import Quantity

N = TypeVar("N", "Matcher", "Derivation")
_SERIALS: Final = count()
_CONSUMPTION_MAX: Final = 1_024
_PLAN_BYTES: Final = 3_000
"""A plan, and each of its slots with compiled selectors."""
_NOTHING_DERIVED: Final[Mapping[str, Derivation]] = {}


class Slot:
    """One way to serve one request: an exact request, or one entry of a firstAvailable list.

    Attributes:
        claim: Index of the claim.
        request: Index of the request among all requests of all claims.
        label: `req` or `req/sub`, as in results; `name` is the bare name errors use; `base` the request's.
        details: What is asked for; `device_class` the class it names.
        is_all: Whether all matching devices are wanted; else `count` of them.
        constraints: Indices of the claim's constraints that count devices of this slot.
        derivations: By name, the attributes that these constraints ask for and the request derives.
        key: Equal for slots that accept the same devices; for caches. `record` counts what is in them.
    """

    def __init__(
        self,
        *,
        index: int,
        claim: int,
        request: int,
        base: str,
        details: RequestAlternative,
        is_sub: bool,
        device_class: DeviceClass,
        matcher: Matcher,
        constraints: tuple[int, ...],
        derivations: Mapping[str, Derivation],
        features: Features,
        record: SlotRecord,
    ) -> None:
        self.index: Final = index
        self.claim: Final = claim
        self.request: Final = request
        self.base: Final = base
        self.name: Final = details.name
        self.label: Final = f"{base}/{details.name}" if is_sub else details.name
        self.details: Final = details
        self.device_class: Final = device_class
        self.is_all: Final = details.allocation_mode == "All"
        self.count: Final = details.count
        self.is_admin: Final = bool(details.admin_access) and not is_sub
        self.matcher: Final = matcher
        self.features: Final = features
        self.constraints: Final = constraints
        self.derivations: Final = derivations
        self.capacity: Final[Mapping[str, Quantity]] = dict(details.capacity_requests or ())
        self.record: Final = record
        self.key: Final = record.key
        self._consumption: Final[dict[tuple[int, str], tuple[Mapping[str, DeviceCapacity], Consumption | None]]] = {}

    def consumption_of(self, device: Device) -> Consumption | None:
        """As `consume`; devices of a driver whose capacities are one object share what is found, as masks keep it.

        Raises:
            CapacityError: as `consume`.
        """
        capacity, driver = device.capacity, device.id.driver
        known = self._consumption.get((id(capacity), driver))
        if known is not None and known[0] is capacity:
            return known[1]
        found = consume(self.capacity, capacity, self.features, driver)
        if len(self._consumption) >= _CONSUMPTION_MAX:
            self._consumption.clear()
        self._consumption[id(capacity), driver] = capacity, found
        return found

    def __repr__(self) -> str:
        return f"Slot({self.claim}:{self.label})"


@dataclass(frozen=True, eq=False)
class RequestPlan:
    """The slots of one request, in the order they are tried."""

    index: int
    claim: int
    name: str
    is_list: bool
    slots: tuple[Slot, ...]


Check: TypeAlias = str | Slot | None
"""A step of the checks before the search: a text to fail with, an All slot whose devices must be listed, or
(None) the number of devices of the requests so far."""


class ClaimPlan:
    """A claim's requests and constraints.

    Attributes:
        checks: Done in order before the search; a text raises AllocationError("claim NAME" + text).
        has_config: Whether the claim or a class brings any configuration.
        configs: The allocation's configuration by the slots that serve the requests; kept by `result`.
    """

    def __init__(
        self, index: int, spec: ClaimSpec, requests: tuple[RequestPlan, ...], checks: tuple[Check, ...]
    ) -> None:
        self.index: Final = index
        self.spec: Final = spec
        self.requests: Final = requests
        self.checks: Final = checks
        self.constraints: Final[tuple[Constraint, ...]] = spec.constraints
        self.has_config: Final = bool(spec.config) or any(
            slot.device_class.config for request in requests for slot in request.slots
        )
        self.configs: Final[dict[tuple[Slot, ...], tuple[AllocationConfig, ...]]] = {}


class Plan:
    """Everything that can be known about claims without looking at devices.

    Attributes:
        serial: Its own, and never another plan's.
        classes: The classes that the claims name, as they were; None for one that was not there.
        records: Of its slots, each once.
        is_exact: No slot wants all devices and nothing is wrong: `claims[].checks` are empty.
        is_unconstrained: In addition no slot is under a constraint.
    """

    def __init__(
        self, claims: tuple[ClaimPlan, ...], features: Features, classes: Mapping[str, DeviceClass | None]
    ) -> None:
        self.serial: Final = next(_SERIALS)
        self.classes: Final = tuple(classes.items())
        self.claims: Final = claims
        self.features: Final = features
        self.requests: Final = tuple(request for claim in claims for request in claim.requests)
        self.slots: Final = tuple(slot for request in self.requests for slot in request.slots)
        self.records: Final = tuple({slot.key: slot.record for slot in self.slots}.values())
        self.is_exact: Final = not any(claim.checks for claim in claims)
        self.is_unconstrained: Final = self.is_exact and not any(claim.constraints for claim in claims)


class SlotMeaning(NamedTuple):
    """What slots that accept the same devices have in common."""

    matcher: Matcher
    derivations: tuple[tuple[str, Derivation], ...]
    tolerations: tuple[DeviceToleration, ...]
    capacity_requests: tuple[tuple[str, str], ...]
    features: Features

    @property
    def answering(self) -> Iterator[AnyAnswering]:
        """Whatever answers for such slots."""
        yield self.matcher
        for _, derivation in self.derivations:
            yield derivation


AnyAnswering: TypeAlias = Matcher | Derivation


class Draft:
    """What a plan that is not finished has made, which nobody else may use; counted among the users."""

    def __init__(self) -> None:
        self.answering: Final[dict[AnyAnswering, None]] = {}
        self.records: Final[dict[SlotRecord, None]] = {}


class Planner:
    """Makes plans; remembers compiled selectors by what they say, and slot keys by what they mean."""

    def __init__(self, classes: Mapping[str, DeviceClass], meter: Meter) -> None:
        self._classes: Final = classes
        self._meter: Final = meter
        self._answering: Final[dict[object, AnyAnswering]] = {}
        self._records: Final[dict[SlotMeaning, SlotRecord]] = {}
        self._by_key: Final[dict[SlotKey, tuple[SlotMeaning, SlotRecord]]] = {}
        self._serial = count()
        self._draft = Draft()
        self._named: Final[dict[str, DeviceClass | None]] = {}

    def discount_masks(self, keys: Iterable[SlotKey]) -> None:
        """Masks that were kept with a pool for these slots are gone."""
        for key in keys:
            if key in self._by_key:
                self._by_key[key][1].discount_mask()

    def discount_candidates(self, keys: Iterable[SlotKey]) -> None:
        """Candidates that were kept with a node's pools for these slots are gone."""
        for key in keys:
            if key in self._by_key:
                self._by_key[key][1].discount_candidates()

    def discount_all_candidates(self) -> None:
        """What was kept with all nodes' pools is gone."""
        for _, record in self._by_key.values():
            record.discount_candidates(all_of_them=True)

    def size(self, plan: Plan) -> int:
        """Bytes that are kept for the plan, with its part of what it shares with others."""
        entries = 0
        for record in plan.records:
            meaning, _ = self._by_key[record.key]
            entries += (record.entries + sum(one.size // one.users for one in meaning.answering)) // record.users
        return _PLAN_BYTES * (1 + len(plan.slots)) + ENTRY_BYTES * entries

    def forget_slots(self, key: SlotKey) -> None:
        """Slots with this key are gone, and what answers for them if it has no others."""
        meaning, _ = self._by_key.pop(key)
        del self._records[meaning]
        for one in meaning.answering:
            self._let_go(one)

    def _let_go(self, one: AnyAnswering) -> None:
        one.users -= 1
        if not one.users and self._answering.get(one.meaning) is one:
            del self._answering[one.meaning]

    def discard(self, draft: Draft) -> list[SlotKey]:
        """The plan is finished, or nobody wants it any more. Returns the slots that no plan has."""
        for one in draft.answering:
            self._let_go(one)
        for record in draft.records:
            record.users -= 1
        return [record.key for record in draft.records if not record.users]

    def plan(self, specs: Sequence[ClaimSpec], features: Features, draft: Draft) -> Plan:
        """The plan for claims with these specs, in this order; `draft` is that of an earlier attempt, or a new one.

        Raises:
            PausedError: compiling their selectors takes longer than is allowed now.
        """
        self._draft = draft
        self._named.clear()
        claims: list[ClaimPlan] = []
        slots = requests = 0
        for index, spec in enumerate(specs):
            claim = _ClaimPlanner(self, index, spec, features, slots=slots, requests=requests).run()
            claims.append(claim)
            requests += len(claim.requests)
            slots += sum(len(request.slots) for request in claim.requests)
        return Plan(tuple(claims), features, self._named)

    def is_current(self, plan: Plan) -> bool:
        """Whether the classes that its claims name are as they were."""
        return all(self._classes.get(name) is known for name, known in plan.classes)

    def device_class(self, name: str) -> DeviceClass | None:
        found = self._named[name] = self._classes.get(name)
        return found

    def matcher(self, device_class: DeviceClass, details: RequestAlternative, features: Features) -> Matcher:
        key = (device_class.selectors, details.selectors, features)
        return self._prepared(key, lambda: Matcher(*key, meter=self._meter, meaning=key), Matcher)

    def derivation(self, expression: str, features: Features) -> Derivation:
        key = (expression, features)
        return self._prepared(key, lambda: Derivation(*key, meter=self._meter, meaning=key), Derivation)

    def _prepared(self, key: object, make: Callable[[], N], kind: type[N]) -> N:
        """What answers so, one for all slots; it is compiled."""
        known = self._answering.get(key)
        if known is None:
            known = self._answering[key] = make()
        assert isinstance(known, kind)
        if known not in self._draft.answering:
            self._draft.answering[known] = None
            known.users += 1
        if not known.is_ready:
            known.prepare()
        return known

    def record(
        self, matcher: Matcher, derivations: Mapping[str, Derivation], details: RequestAlternative, features: Features
    ) -> SlotRecord:
        amounts = tuple((name, str(amount)) for name, amount in details.capacity_requests or ())
        meaning = SlotMeaning(matcher, tuple(sorted(derivations.items())), details.tolerations, amounts, features)
        record = self._records.get(meaning)
        if record is None:
            record = self._records[meaning] = SlotRecord(next(self._serial), len(derivations))
            self._by_key[record.key] = meaning, record
            for one in meaning.answering:
                one.users += 1
        if record not in self._draft.records:
            self._draft.records[record] = None
            record.users += 1
        return record


class _ClaimPlanner:
    """One claim. Stops at the first problem: what would be checked later cannot matter any more."""

    def __init__(
        self, planner: Planner, claim: int, spec: ClaimSpec, features: Features, *, slots: int, requests: int
    ) -> None:
        self._planner = planner
        self._claim = claim
        self._spec = spec
        self._features = features
        self._next_slot = slots
        self._next_request = requests
        self._checks: list[Check] = []
        self._plans: list[RequestPlan] = []

    def run(self) -> ClaimPlan:
        for request in self._spec.requests:
            problem = self._request(request) or (self._count_problem() if self._features.has_137_semantics else "")
            if problem:
                self._checks.append(problem)
                break
        else:
            problem = self._count_problem() or self._constraint_problem()
            if problem:
                self._checks.append(problem)
        return ClaimPlan(self._claim, self._spec, tuple(self._plans), tuple(self._checks))

    def _request(self, request: Request) -> str:
        features = self._features
        subs = request.first_available
        if subs and not features.prioritized_list:
            return f", request {request.name}: has subrequests, but the DRAPrioritizedList feature is disabled"
        if not features.consumable_capacity and not features.is_stable_variant:
            disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
            if request.exactly is not None and request.exactly.capacity_requests is not None:
                return f", request {request.name}: {disabled}"
            for sub in subs:
                if sub.capacity_requests is not None:
                    return f", subrequest {sub.name}: {disabled}"
        if not request.alternatives:
            return f", request {request.name}: missing device class name (unsupported request type?)"
        slots: list[Slot] = []
        problem = ""
        for details in request.alternatives:
            problem = self._alternative_problem(details, is_sub=bool(subs))
            device_class = self._planner.device_class(details.device_class_name)
            if problem or device_class is None:
                break
            matcher = self._planner.matcher(device_class, details, features)
            constraints = self._scope(request.name, details.name if subs else "")
            derivations = self._derivations(details, constraints)
            slot = Slot(
                index=self._next_slot + len(slots),
                claim=self._claim,
                request=self._next_request,
                base=request.name,
                details=details,
                is_sub=bool(subs),
                device_class=device_class,
                matcher=matcher,
                constraints=constraints,
                derivations=derivations,
                features=features,
                record=self._planner.record(matcher, derivations, details, features),
            )
            slots.append(slot)
            if slot.is_all:
                self._checks.append(slot)
            elif details.allocation_mode != "ExactCount":
                problem = f", request {details.name}: unsupported count mode {details.allocation_mode}"
                break
        self._plans.append(RequestPlan(self._next_request, self._claim, request.name, bool(subs), tuple(slots)))
        self._next_request += 1
        self._next_slot += len(slots)
        return problem

    def _alternative_problem(self, details: RequestAlternative, *, is_sub: bool) -> str:
        prefix = f", request {details.name}"
        if details.derived and self._features.has_137_semantics and not self._features.derived_attributes:
            return f"{prefix}: cannot handle request with derived attributes, the feature is disabled"
        for index, selector in enumerate(details.selectors):
            if selector.expression is None:
                return f"{prefix}, selector #{index}: CEL expression empty (unsupported selector type?)"
        if not self._features.admin_access and details.admin_access is not None and not is_sub:
            return f"{prefix}: admin access is requested, but the feature is disabled"
        name = details.device_class_name
        if not name:
            return f"{prefix}: missing device class name (unsupported request type?)"
        device_class = self._planner.device_class(name)
        if device_class is not None and device_class.unread:
            return f"{prefix}: device class {name} has the unknown field {device_class.unread[0]}"
        if device_class is None:
            return f'{prefix}: could not retrieve device class {name}: deviceclass.resource.k8s.io "{name}" not found'
        return ""

    def _scope(self, request: str, sub: str) -> tuple[int, ...]:
        names = {request, f"{request}/{sub}"} if sub else {request}
        return tuple(
            index
            for index, constraint in enumerate(self._spec.constraints)
            if not constraint.requests or names.intersection(constraint.requests)
        )

    def _derivations(self, details: RequestAlternative, constraints: Sequence[int]) -> Mapping[str, Derivation]:
        if not (details.derived and self._features.has_137_semantics):
            return _NOTHING_DERIVED
        wanted = {self._spec.constraints[index].attribute for index in constraints}
        expressions = {name: expression for name, expression in details.derived if name in wanted}
        return {name: self._planner.derivation(expression, self._features) for name, expression in expressions.items()}

    def _count_problem(self) -> str:
        """How many devices an All slot wants is known when its devices are listed, so the check waits for that."""
        if self._checks:
            self._checks.append(None)
            return ""
        counts = [(request.name, [slot.count for slot in request.slots]) for request in self._plans]
        return count_problem(counts, self._features)

    def _constraint_problem(self) -> str:
        for index, constraint in enumerate(self._spec.constraints):
            has_distinct = constraint.distinct_attribute is not None and not self._features.is_stable_variant
            if constraint.match_attribute is None and not has_distinct:
                return f", constraint #{index}: empty constraint (unsupported constraint type?)"
        return ""


def count_problem(counts: Sequence[tuple[str, Sequence[int]]], features: Features) -> str:
    """What is wrong with the number of devices: (request name, devices per alternative) of one claim."""
    total = 0
    for name, alternatives in counts:
        least = min(alternatives)
        if features.has_137_semantics and least > RESULTS_MAX - total:
            return (
                f", request {name}: adding {least} devices exceeds the claim limit of {RESULTS_MAX}, "
                f"with {total} already accounted for"
            )
        total += least
    if total > RESULTS_MAX:
        return f": number of requested devices {total} exceeds the claim limit of {RESULTS_MAX}"
    return ""


def claim_error(claim: Claim, problem: str) -> AllocationError:
    """The error for a problem text of a plan."""
    return AllocationError(f"claim {claim}{problem}")
