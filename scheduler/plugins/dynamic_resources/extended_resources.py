"""Extended resources served by devices: which class stands behind a resource name, and what a pod's special claim asks.

A pod may ask for `example.com/gpu: 2` as it asks for cpu. If a DeviceClass names that resource, devices of the class
serve it, through one *special claim* that the scheduler makes for the pod. On a node whose kubelet reports the resource
as allocatable, the device plugin serves it instead.

Rules of this module
  1. The newest class of a name wins; of equally old classes the lower class name. The implicit name
     `deviceclass.resource.kubernetes.io/<class>` always means that class.
  2. A container's request is named `container-<index>-request-<position>`: index over init and then regular containers,
     position of the resource among all that the container requests, sorted.
  3. A short-lived init container uses the devices of sidecars and regular containers at later indices. Of what init
     containers need beyond these, only the largest request stays, and the other containers are mapped to it.

Not here: making, storing and cleaning up the special claim (`special_claim_step`).

Source: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go (createRequestsAndMappings) 1.36.3,
k8s.io/dynamic-resource-allocation deviceclass/extendedresourcecache v0.36.3. Differs on purpose: the classes are looked
up afresh whenever one changed, and a class that lost its explicit name keeps its implicit one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from allocator import ClaimSpec, DeviceClass, Inventory, decode_claim_spec
from scheduler.model.objects import Container, ContainerExtendedResource, Pod
from scheduler.model.resources import IMPLICIT_PREFIX, is_served_resource, parse_nano, pod_amounts
from scheduler.model.special_claim import DeviceCount, special_claim_spec

_NANO: Final = 10**9


class SpecialRequests(Struct, frozen=True):
    """What the special claim asks for, sorted by request name, and where each container finds its devices."""

    requests: tuple[DeviceCount, ...]
    mappings: tuple[ContainerExtendedResource, ...]


def decoded_spec(requests: tuple[DeviceCount, ...]) -> ClaimSpec:
    """The special claim's spec; equal requests give the same object as long as somebody has it."""
    return decode_claim_spec(special_claim_spec(requests))


def class_by_resource(inventory: Inventory) -> Mapping[str, str]:
    """Class name by explicit or implicit extended resource name; computed once per change of a class."""
    inventory = inventory.classes_of
    known = _known.get(inventory)
    if known is None or known[0] != inventory.classes_revision:
        known = _known[inventory] = (inventory.classes_revision, _resolve(inventory.classes.values()))
    return known[1]


def requested_resources(pod: Pod) -> tuple[str, ...]:
    """Names of the extended resources that `pod` asks for at all (more than 0), sorted."""
    return tuple(sorted(name for name, _ in pod_amounts(pod).needed if is_served_resource(name)))


def special_requests(pod: Pod, classes: Mapping[str, str]) -> SpecialRequests:
    """What the special claim must ask for.

    Args:
        classes: Class name by resource, for the resources that devices serve on the node in question.
    """
    containers = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    init_count = len(pod.spec.init_containers or ())
    short_lived = [
        index for index, one in enumerate(containers) if index < init_count and one.restart_policy != "Always"
    ]
    requests: list[DeviceCount] = []
    mappings: list[ContainerExtendedResource] = []
    for resource in sorted(classes):
        lasting: list[DeviceCount | None] = [None] * len(containers)
        for index, container in enumerate(containers):
            if index not in short_lived:
                made = _serve(index, container, resource, classes[resource], ())
                lasting[index] = made.request
                mappings += made.mappings
        passing = [
            _serve(index, containers[index], resource, classes[resource], lasting[index:]) for index in short_lived
        ]
        largest = max(
            (made.request for made in passing if made.request is not None), key=lambda one: one.count, default=None
        )
        own = {made.request.name for made in passing if made.request is not None}
        for made in passing:
            for mapping in made.mappings:
                is_merged = largest is not None and mapping.request_name in own
                mappings.append(
                    replace(mapping, request_name=largest.name) if is_merged and largest is not None else mapping
                )
        requests += [request for request in (largest, *lasting) if request is not None]
    return SpecialRequests(tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings))


class _Served(Struct, frozen=True):
    """What one container adds for one resource."""

    request: DeviceCount | None
    mappings: tuple[ContainerExtendedResource, ...]


def _serve(
    index: int, container: Container, resource: str, device_class: str, reusable: Sequence[DeviceCount | None]
) -> _Served:
    amounts = (container.resources.requests or {}) if container.resources is not None else {}
    wanted = _whole(amounts.get(resource, 0))
    if not wanted:
        return _Served(None, ())
    used: list[ContainerExtendedResource] = []
    for request in reusable:
        if request is not None and wanted > 0:
            wanted -= request.count
            used.append(ContainerExtendedResource(container.name, resource, request.name))
    if wanted <= 0:
        return _Served(None, tuple(used))
    request = DeviceCount(f"container-{index}-request-{sorted(amounts).index(resource)}", device_class, wanted)
    return _Served(request, (*used, ContainerExtendedResource(container.name, resource, request.name)))


def _whole(amount: str | int | float) -> int:
    """The amount as a number of devices; 0 for what is no whole number, which the API server refuses."""
    nano = parse_nano(amount)
    return nano // _NANO if nano is not None and nano % _NANO == 0 else 0


def _resolve(classes: Iterable[DeviceClass]) -> Mapping[str, str]:
    by_age = sorted(classes, key=lambda one: one.name)
    by_age.sort(key=lambda one: one.creation_timestamp, reverse=True)  # stable: equal ages keep the order of names
    resolved: dict[str, str] = {}
    for one in by_age:
        if one.extended_resource_name:
            resolved.setdefault(one.extended_resource_name, one.name)
    return resolved | {IMPLICIT_PREFIX + one.name: one.name for one in by_age}


_known: WeakKeyDictionary[Inventory, tuple[int, Mapping[str, str]]] = WeakKeyDictionary()
