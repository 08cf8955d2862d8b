"""Amounts of resources that pods ask for and nodes have, as ints.

Units: cpu in milli, everything else in base units (bytes, devices), each rounded up once, after summing exactly.

Rules of this module
  1. Only resources that count on a node are kept: cpu, memory, ephemeral-storage and scalar resources
     (hugepages-*, attachable-volumes-*, extended and other prefixed names).
  2. A sum is exact (in nano) until its end; rounding each container by itself would ask for more than the pod does.
  3. A quantity that cannot be read counts as absent here; `invalid_quantities` names it, so that its pod is refused
     with a reason and no other pod or node suffers.

Not here: whether a pod fits (plugins.node_resources_fit) and who runs where (model.node_info).

Cost: one dict pass over the containers; texts are parsed once per distinct text.

Source: k8s.io/component-helpers resource/helpers.go (PodRequests, AggregateContainerRequests) and
pkg/scheduler/framework/types.go (SetMaxResource) v1.36.3. In-place resize (status resources) is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from cel.quantity import Quantity
from scheduler.model.objects import Container, Node, Pod, ResourceRequirements

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
NON_ZERO_CPU_MILLI: Final = 100  # DefaultMilliCPURequest: what scoring assumes a container without a request uses
NON_ZERO_MEMORY_BYTES: Final = 200 * 1024 * 1024  # DefaultMemoryRequest

_NANO: Final = 10**9
_NANO_PER_MILLI: Final = 10**6
_SCORING_DEFAULTS: Final = {CPU: NON_ZERO_CPU_MILLI * _NANO_PER_MILLI, MEMORY: NON_ZERO_MEMORY_BYTES * _NANO}
_POD_LEVEL: Final = frozenset({CPU, MEMORY})
_EXACT_TEXTS_MAX: Final = 65_536

Amount: TypeAlias = str | int | float


@lru_cache(maxsize=_EXACT_TEXTS_MAX)
def _parse_nano(text: str) -> int | None:
    try:
        return Quantity.parse(text).nano
    except ValueError:
        return None


def parse_nano(amount: Amount) -> int | None:
    """The quantity in units of 10^-9, or None when it is none. Bare JSON numbers mean their decimal text."""
    return _parse_nano(amount if isinstance(amount, str) else str(amount))


def is_scalar_resource(name: str) -> bool:
    """Whether `name` is counted on nodes besides cpu, memory and ephemeral-storage (IsScalarResourceName)."""
    return "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def is_extended_resource(name: str) -> bool:
    """Whether `name` is an extended resource: a domain that is not Kubernetes' own, and not `requests.`."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def pod_requests(pod: Pod) -> dict[str, int]:
    """What `pod` needs of its node: cpu in milli, others in base units; names asked with 0 are kept.

    Regular containers and sidecars add up; an init container needs itself plus the sidecars started before it, and the
    larger of both counts. Pod-level requests replace the sums of cpu, memory and hugepages; overhead is added last.
    The pod itself (`pods`) is not in here.
    """
    return _rounded(_sum_nano(pod, {}))


def pod_scoring_requests(pod: Pod) -> dict[str, int]:
    """As `pod_requests`, but a container that asks for no cpu or memory counts 100 milli and 200 MiB.

    Scores are made from these, so that pods without requests spread too (upstream's NonZeroRequested).
    """
    return _rounded(_sum_nano(pod, _SCORING_DEFAULTS))


def node_allocatable(node: Node) -> dict[str, int]:
    """`status.allocatable` of counted resources and `pods`, in the units of `pod_requests`, rounded up too."""
    nano = {
        name: amount
        for name, text in (node.status.allocatable or {}).items()
        if (name == PODS or _is_counted(name)) and (amount := parse_nano(text)) is not None
    }
    return _rounded(nano)


def invalid_quantities(pod: Pod) -> tuple[str, ...]:
    """One sentence for each request of `pod` that is no quantity; empty for every pod an API server accepted."""
    return tuple(
        f'{field}["{name}"]: "{amount}" is not a quantity (use forms like 500m, 2 or 1Gi)'
        for field, amounts in _request_maps(pod)
        for name, amount in sorted(amounts.items())
        if parse_nano(amount) is None
    )


def _request_maps(pod: Pod) -> Iterator[tuple[str, Mapping[str, Amount]]]:
    for index, container in enumerate(pod.spec.init_containers or ()):
        yield f"spec.initContainers[{index}].resources.requests", _requests_of(container.resources)
    for index, container in enumerate(pod.spec.containers or ()):
        yield f"spec.containers[{index}].resources.requests", _requests_of(container.resources)
    yield "spec.resources.requests", _requests_of(pod.spec.resources)
    yield "spec.overhead", pod.spec.overhead or {}


def _requests_of(resources: ResourceRequirements | None) -> Mapping[str, Amount]:
    return (resources.requests or {}) if resources is not None else {}


def _is_counted(name: str) -> bool:
    return name in {CPU, MEMORY, EPHEMERAL_STORAGE} or is_scalar_resource(name)


def _sum_nano(pod: Pod, defaults: Mapping[str, int]) -> dict[str, int]:
    spec = pod.spec
    total: dict[str, int] = {}
    for container in spec.containers or ():
        _add(total, _container_nano(container, defaults))
    if spec.init_containers:
        _add_init_containers(total, spec.init_containers, defaults)
    if spec.resources is not None:
        for name, amount in (spec.resources.requests or {}).items():
            if (name in _POD_LEVEL or name.startswith("hugepages-")) and (nano := parse_nano(amount)) is not None:
                total[name] = nano
    if spec.overhead:
        _add(total, _counted_nano(spec.overhead))
    return total


def _add_init_containers(
    total: dict[str, int], init_containers: tuple[Container, ...], defaults: Mapping[str, int]
) -> None:
    sidecars: dict[str, int] = {}
    largest: dict[str, int] = {}
    for container in init_containers:
        needed = _container_nano(container, defaults)
        if container.restart_policy == "Always":
            _add(total, needed)
            _add(sidecars, needed)
            needed = sidecars
        else:
            _add(needed, sidecars)
        _raise_to(largest, needed)
    _raise_to(total, largest)


def _container_nano(container: Container, defaults: Mapping[str, int]) -> dict[str, int]:
    nano = _counted_nano(_requests_of(container.resources))
    for name, amount in defaults.items():
        nano.setdefault(name, amount)
    return nano


def _counted_nano(amounts: Mapping[str, Amount]) -> dict[str, int]:
    return {
        name: nano for name, amount in amounts.items() if _is_counted(name) and (nano := parse_nano(amount)) is not None
    }


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, nano in amounts.items():
        total[name] = total.get(name, 0) + nano


def _raise_to(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, nano in amounts.items():
        if name not in total or nano > total[name]:
            total[name] = nano


def _rounded(nano: Mapping[str, int]) -> dict[str, int]:
    return {name: -(-amount // (_NANO_PER_MILLI if name == CPU else _NANO)) for name, amount in nano.items()}
