"""Amounts of resources that pods ask for and nodes have, as ints.

Units: cpu in milli, all other resources in base units (bytes, devices), rounded up once, after the exact sum.

Rules of this module
  1. Only resources that count on a node are kept: cpu, memory, ephemeral-storage and scalar resources
     (hugepages-*, attachable-volumes-*, extended and other prefixed names).
  2. A sum is exact (in nano) until its end; rounding each container by itself would ask for more than the pod does.
  3. A quantity that cannot be read counts as absent. `PodAmounts.problems` names it, so only its pod is refused, with a
     reason.

Not here: whether a pod fits (`plugins.node_resources_fit`), the pods of a node (`model.node_info`).

Cost: pods that ask for the same amounts share one computation and its (never changed) result; a look-up is linear in
the containers. Texts are parsed once per distinct text.

Source: k8s.io/component-helpers resource/helpers.go (PodRequests, AggregateContainerRequests) and
pkg/scheduler/framework/types.go (CalculateResource, SetMaxResource) v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from allocator.values.json_fields import FieldError, quantity
from scheduler.model.objects import Container, Node, NodeAllocatableClaim, Pod
from scheduler.model.sized_cache import SizedCache

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"  # before a DeviceClass's name
NON_ZERO_CPU_MILLI: Final = 100  # DefaultMilliCPURequest: what scoring assumes a container without a request uses
NON_ZERO_MEMORY_BYTES: Final = 200 * 1024 * 1024  # DefaultMemoryRequest

_NANO: Final = 10**9
_NANO_PER_MILLI: Final = 10**6
_SCORING_DEFAULTS: Final = {CPU: NON_ZERO_CPU_MILLI * _NANO_PER_MILLI, MEMORY: NON_ZERO_MEMORY_BYTES * _NANO}
_POD_LEVEL: Final = frozenset({CPU, MEMORY})
_ORDER: Final = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2}

Amount: TypeAlias = str | int | float
_Amounts: TypeAlias = tuple[tuple[str, Amount], ...]
_NOTHING: Final[_Amounts] = ()


class ResourceRequest(NamedTuple):
    """All amounts that make up a pod's sums, as written: equal ones have equal sums."""

    containers: tuple[_Amounts, ...]
    init_containers: tuple[tuple[bool, _Amounts], ...]  # (is a sidecar, what it asks)
    pod_level: _Amounts
    overhead: _Amounts
    claims: _Amounts = ()  # a name may occur several times
    running: _Amounts = ()  # of the pod as a whole, as its status says; overhead comes on top, as upstream has it


def parse_nano(amount: Amount) -> int | None:
    """The quantity in units of 10^-9, or None when it is none. Bare JSON numbers mean their decimal text."""
    try:
        return quantity(amount if isinstance(amount, str) else str(amount)).nano
    except FieldError:
        return None


def is_scalar_resource(name: str) -> bool:
    """Whether `name` is counted on nodes besides cpu, memory and ephemeral-storage (IsScalarResourceName)."""
    return ("/" in name and (not name.startswith("requests.") or "kubernetes.io/" in name)) or name.startswith(
        ("hugepages-", "attachable-volumes-")
    )


def is_extended_resource(name: str) -> bool:
    """Whether `name` is an extended resource: a domain that is not Kubernetes' own, and not `requests.`."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def is_served_resource(name: str) -> bool:
    """Whether a DeviceClass may stand behind the resource `name`, by its extended or by its implicit name."""
    return is_extended_resource(name) or name.startswith(IMPLICIT_PREFIX)


class PodAmounts(Struct, frozen=True):
    """All sums over one pod's requests.

    Attributes:
        requests: What the pod needs of its node: cpu in milli, others in base units; names asked with 0 are kept. The
            pod itself (`pods`) is not in here.
        scoring: The same, but a container that asks for no cpu or memory counts 100 milli and 200 MiB. Scores use these
            amounts, so that pods without requests spread, too (upstream's NonZeroRequested). With pod-level requests
            only a resource counts so that nothing of the pod asks for.
        scoring_itself: The same for the pod that is being scored: until 1.37 upstream leaves pod-level requests out.
        scoring_itself_138: The same with pod-level requests, in the place of what they name.
        needed: `requests` without zeros: cpu, memory, ephemeral-storage, then others by name.
        problems: One sentence for each request that is no quantity; empty for every pod an API server accepted.
        short_at_pod_level: The first resource of which containers and claims together ask for more than the pod-level
            request; None for a pod without such requests.
    """

    requests: Mapping[str, int]
    scoring: Mapping[str, int]
    scoring_itself: Mapping[str, int]
    scoring_itself_138: Mapping[str, int]
    needed: tuple[tuple[str, int], ...]
    problems: tuple[str, ...]
    short_at_pod_level: str | None = None


_LAST: Final[list[tuple[Pod | None, PodAmounts]]] = [(None, PodAmounts({}, {}, {}, {}, (), ()))]
"""The pod that was asked about last: several plugins ask about the same one, and then it is counted on its node."""


def pod_amounts(pod: Pod) -> PodAmounts:
    """Sum up what `pod` asks for in its spec.

    Regular containers and sidecars add up; an init container needs itself plus the sidecars started before it, and the
    larger of both counts. Pod-level requests replace the sums of cpu, memory and hugepages; overhead is added last.
    """
    last = _LAST[0]
    if last[0] is pod:
        return last[1]
    amounts = _amounts(asked_in_spec(pod))
    _LAST[0] = (pod, amounts)
    return amounts


def amounts_with_claims(pod: Pod, claims: Iterable[NodeAllocatableClaim]) -> PodAmounts:
    """What `pod` takes of its node: the requests of its containers, and what its claims take."""
    taken = tuple([item for one in claims for item in _taken_by(one)])
    return _amounts(_asked_by_status(pod)._replace(claims=taken))


def counted_amounts(pod: Pod) -> PodAmounts:
    """What a pod on a node takes of it, with the claims that its status lists.

    While a container is resized it counts with the largest of what is wanted, admitted and in effect; what is wanted is
    left out once the kubelet has said that it can never be. So does an init container that has ended, and the pod as a
    whole with what its own status says, which kubelets from 1.37 on write with the overhead in it: they admit pods by
    these sums. Neither 1.36 nor 1.37 counts more than this.
    """
    status = pod.status
    if status.node_allocatable_resource_claim_statuses:
        return amounts_with_claims(pod, status.node_allocatable_resource_claim_statuses)
    if not (status.container_statuses or status.init_container_statuses or status.resources):
        return pod_amounts(pod)  # it does not run yet
    return _amounts(_asked_by_status(pod))


def take_the_same(left: Iterable[NodeAllocatableClaim], right: Iterable[NodeAllocatableClaim]) -> bool:
    """Whether both list equal amounts for the same claims, however the quantities are written."""
    return _taken(left) == _taken(right)


def _taken(claims: Iterable[NodeAllocatableClaim]) -> dict[str, tuple[frozenset[str], dict[str, int]]]:
    found = {}
    for one in claims:
        amounts: dict[str, int] = {}
        for name, amount in _taken_by(one):
            amounts[name] = amounts.get(name, 0) + (parse_nano(amount) or 0)
        found[one.resource_claim_name] = frozenset(one.containers or ()), amounts
    return found


def _taken_by(claim: NodeAllocatableClaim) -> Iterator[tuple[str, Amount]]:
    """What one claim takes; overhead counts once for the pod and once for each container."""
    yield from (claim.resources or {}).items()
    for one in (*(claim.mapping or ()), *(claim.overhead or ())):
        name = str(one.get("name"))
        for field, times in (("quantity", 1), ("perPod", 1), ("perContainer", len(claim.containers or ()))):
            if (amount := one.get(field)) is not None:
                yield name, f"{times * (parse_nano(amount) or 0)}n"


def asked_in_spec(pod: Pod) -> ResourceRequest:
    """The amounts in the pod's spec."""
    spec = pod.spec
    init_containers = spec.init_containers
    return ResourceRequest(
        tuple([_items(container) for container in spec.containers or ()]),
        tuple([(one.restart_policy == "Always", _items(one)) for one in init_containers]) if init_containers else (),
        tuple((spec.resources.requests or {}).items()) if spec.resources is not None else (),
        tuple(spec.overhead.items()) if spec.overhead else (),
    )


def _asked_by_status(pod: Pod) -> ResourceRequest:
    asked, spec, status = asked_in_spec(pod), pod.spec, pod.status
    if not (status.container_statuses or status.init_container_statuses or status.resources):
        return asked
    known = {one.name: one for one in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}
    pending = next((one for one in status.conditions or () if one.type == "PodResizePending"), None)
    is_infeasible = pending is not None and pending.reason == "Infeasible"

    def effective(container: Container, amounts: _Amounts) -> _Amounts:
        found = known.get(container.name)
        if found is None:
            return amounts
        runs, admitted = found.resources, found.allocated_resources or {}
        actuated = (runs.requests if runs is not None else None) or {}
        return _largest(amounts, actuated, admitted, is_infeasible and runs is not None)

    pod_level, running = asked.pod_level, _NOTHING
    if status.resources is not None:
        actuated, admitted = status.resources.requests, status.allocated_resources
        if _has_pod_level(pod_level):
            largest = dict(_largest(pod_level, actuated or {}, admitted or {}, is_infeasible))
            pod_level = tuple([(name, largest.get(name, 0)) for name, _ in pod_level])
        if actuated is not None and admitted is not None:
            running = _largest((), actuated, admitted, is_infeasible)
    containers = zip(spec.containers or (), asked.containers, strict=True)
    init_containers = zip(spec.init_containers or (), asked.init_containers, strict=True)
    return ResourceRequest(
        tuple([effective(container, amounts) for container, amounts in containers]),
        tuple([(stays, effective(one, amounts)) for one, (stays, amounts) in init_containers]),
        pod_level,
        asked.overhead,
        running=running,
    )


def _largest(
    wanted: _Amounts, actuated: Mapping[str, Amount], admitted: Mapping[str, Amount], is_infeasible: bool
) -> _Amounts:
    largest = {} if is_infeasible else dict(wanted)
    for amounts in (actuated, admitted):
        if amounts == largest:
            continue  # nearly always
        for name, amount in amounts.items():
            known = largest.get(name)
            if known is None or (parse_nano(amount) or 0) > (parse_nano(known) or 0):
                largest[name] = amount
    return tuple(largest.items())


def _has_pod_level(amounts: _Amounts) -> bool:
    return any(name in _POD_LEVEL or name.startswith("hugepages-") for name, _ in amounts)


def node_allocatable(node: Node) -> dict[str, int]:
    """`status.allocatable` of counted resources and `pods`, in the units of `PodAmounts.requests`, rounded up too."""
    nano = {
        name: amount
        for name, text in (node.status.allocatable or {}).items()
        if (name == PODS or _is_counted(name)) and (amount := parse_nano(text)) is not None
    }
    return _rounded(nano)


def _items(container: Container) -> _Amounts:
    resources = container.resources
    return tuple(resources.requests.items()) if resources is not None and resources.requests else ()


_SUMS: Final[SizedCache[ResourceRequest, PodAmounts]] = SizedCache(30_000)
"""Of some 300 bytes for an amount. Without it a plain pod takes 7 % more CPU (benchmarks.deciding --workload
spread-default), and every pod of a dump 8 us more."""


def _amounts(asked: ResourceRequest) -> PodAmounts:
    found = _SUMS.get(asked)
    if found is None:
        written = sum(map(len, (*asked.containers, asked.pod_level, asked.overhead, asked.claims, asked.running)))
        size = 8 + len(asked.containers) + written + sum(1 + len(one) for _, one in asked.init_containers)
        found = _SUMS.put(asked, _sum_up(asked), size)
    return found


def _sum_up(asked: ResourceRequest) -> PodAmounts:
    total = _sum_nano(asked, {})
    requests = _rounded(total)
    needed = [(name, amount) for name, amount in requests.items() if amount > 0]
    needed.sort(key=lambda item: (_ORDER.get(item[0], len(_ORDER)), item[0]))
    scoring = scoring_itself = scoring_138 = _rounded(_sum_nano(asked._replace(pod_level=()), _SCORING_DEFAULTS))
    short = None
    if _has_pod_level(asked.pod_level):
        missing = {name: amount for name, amount in _SCORING_DEFAULTS.items() if name not in total}
        scoring = _rounded(_sum_nano(asked, missing))
        scoring_138 = _rounded(_sum_nano(asked, _SCORING_DEFAULTS))
        short = _short_at_pod_level(asked, total)
    return PodAmounts(requests, scoring, scoring_itself, scoring_138, tuple(needed), _problems(asked), short)


def _short_at_pod_level(asked: ResourceRequest, total: Mapping[str, int]) -> str | None:
    parts = _sum_nano(asked._replace(pod_level=()), {})
    return next((name for name, nano in sorted(total.items()) if parts.get(name, 0) > nano), None)


def _problems(asked: ResourceRequest) -> tuple[str, ...]:
    fields = [(f"spec.initContainers[{index}].resources.requests", one) for index, (_, one) in enumerate(asked[1])]
    fields += [(f"spec.containers[{index}].resources.requests", one) for index, one in enumerate(asked.containers)]
    fields += [("spec.resources.requests", asked.pod_level), ("spec.overhead", asked.overhead)]
    return tuple(
        f'{field}["{name}"]: "{str(amount)[:64]}" is not a quantity (use forms like 500m, 2 or 1Gi)'
        for field, amounts in fields
        for name, amount in sorted(amounts, key=lambda item: item[0])
        if parse_nano(amount) is None
    )


def _is_counted(name: str) -> bool:
    return name in _ORDER or is_scalar_resource(name)


def _sum_nano(asked: ResourceRequest, defaults: Mapping[str, int]) -> dict[str, int]:
    total: dict[str, int] = {}
    for amounts in asked.containers:
        _add(total, _container_nano(amounts, defaults))
    sidecars: dict[str, int] = {}
    largest: dict[str, int] = {}
    for is_sidecar, amounts in asked.init_containers:
        needed = _container_nano(amounts, defaults)
        if is_sidecar:
            _add(total, needed)
            _add(sidecars, needed)
            needed = sidecars
        else:
            _add(needed, sidecars)
        _raise_to(largest, needed)
    _raise_to(total, largest)
    for name, amount in asked.claims:
        if _is_counted(name) and (nano := parse_nano(amount)) is not None:
            total[name] = total.get(name, 0) + nano
    _raise_to(total, _counted_nano(asked.running))
    for name, amount in asked.pod_level:
        if (name in _POD_LEVEL or name.startswith("hugepages-")) and (nano := parse_nano(amount)) is not None:
            total[name] = nano
    _add(total, _counted_nano(asked.overhead))
    return total


def _container_nano(amounts: _Amounts, defaults: Mapping[str, int]) -> dict[str, int]:
    nano = _counted_nano(amounts)
    for name, amount in defaults.items():
        nano.setdefault(name, amount)
    return nano


def _counted_nano(amounts: _Amounts) -> dict[str, int]:
    return {name: nano for name, amount in amounts if _is_counted(name) and (nano := parse_nano(amount)) is not None}


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, nano in amounts.items():
        total[name] = total.get(name, 0) + nano


def _raise_to(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, nano in amounts.items():
        if name not in total or nano > total[name]:
            total[name] = nano


def _rounded(nano: Mapping[str, int]) -> dict[str, int]:
    return {name: -(-amount // (_NANO_PER_MILLI if name == CPU else _NANO)) for name, amount in nano.items()}
