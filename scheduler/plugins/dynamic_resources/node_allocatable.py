"""What a pod's claims take of the node's own cpu and memory, where drivers publish devices made of them (KEP-5517).

A device may say so (`nodeAllocatableResources`; in 1.36 `nodeAllocatableResourceMappings`): each allocation of it takes
so much cpu, or as much as is consumed of one of its capacities (its mapping), and so much more for each pod and each
container that uses it (its overhead, 1.37). That counts beside the requests of the pod's containers. Kubelets and other
schedulers read it in the pod's status: the note, `status.nodeAllocatableResourceClaimStatuses`.

Rules of this module
  1. A claim takes the sum over its devices; a capacity that was not consumed takes nothing.
  2. A claim with a mapping is for one pod; one with overhead alone may be shared. By 1.36's form every such claim is
     for one pod, and a container must use it.
  3. Pod-level requests are all that a pod takes, so they must cover containers and claims.
  4. Of a device the newest generation of its pool counts.

Not here: waiting until the note is written (`core.pod_writes`), how pods on nodes count (`model.node_info`).

Cost: nothing while no slice has such devices; else one look-up for each device of an allocation.

Source: pkg/scheduler/framework/plugins/dynamicresources/nodeallocatabledynamicresources.go 1.36.3 and 1.37.2. Differs
on purpose: a device is looked up with its driver, not by pool and name alone, and claims that were allocated before
this cycle count (both as 1.37, whatever the release); the note is conditional on the pod's revision; a container that
names two requests of a claim counts once; limits of pods are not compared with what claims take (1.37). As 1.38,
whatever the release: a capacity has one name, and nothing takes less than nothing. Not as 1.38: overhead counts once
for each container, and not as they run, so that kubelets of 1.37 agree.

See docs/adr/0018-node-allocatable-resources.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from allocator import Allocation, Device, DeviceId, DeviceResult, Inventory
from allocator.requests.capacity import own_amounts
from cel.quantity import Quantity
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import Decision, PatchExtendedResources, PatchNodeAllocatable
from scheduler.framework.status import Status
from scheduler.model.claim import is_usable_on
from scheduler.model.keys import ClaimKey
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import NodeAllocatableClaim, Pod
from scheduler.model.pod_group import is_reserved_for
from scheduler.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    Amount,
    amounts_with_claims,
    asked_in_spec,
    take_the_same,
)
from scheduler.plugins.dynamic_resources.resolved_claims import PodClaims, claim_names

_NANO: Final = 10**9
_ZERO: Final = Quantity.from_int(0)
_FIELD_136: Final = "NodeAllocatableResourceMappings"
_FIELD: Final = "NodeAllocatableResources"
_OF_NODES: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})


class Share(NamedTuple):
    """What an allocated device takes of one resource.

    Attributes:
        amount: Times what is consumed of `capacity` where that is set.
        field: That says it: of 1.36 or of 1.37.
    """

    resource: str
    capacity: str | None
    amount: Quantity | None
    field: str


class Overhead(NamedTuple):
    """What an allocated device takes of one resource besides."""

    resource: str
    per_pod: Quantity | None
    per_container: Quantity | None


class Taken(NamedTuple):
    """What an allocation takes, by resource; `by_136` is what devices map by 1.36's form."""

    by_136: dict[str, Amount]
    mapping: dict[str, Amount]
    overhead: dict[str, tuple[Quantity | None, Quantity | None]]


class _NoteWritten:
    """In a cycle whose PreBind wrote the pod's note, or may have written it."""


class UnreadableShareError(ValueError):
    """It is not known what a claim takes; the text names the device and the reason."""


def is_counted(view: ClusterView) -> bool:
    """Whether any claim could take anything of a node."""
    return view.features.node_allocatable_resources and view.inventory.takes_of_nodes


def resources_of(allocation: Allocation, inventory: Inventory) -> Taken | None:
    """What an allocation takes; None for most.

    Raises:
        UnreadableShareError: A share depends on a capacity, and the allocation consumes no capacity at all.
    """
    totals: dict[str, dict[str, Quantity]] = {_FIELD_136: {}, _FIELD: {}}
    overhead: dict[str, tuple[Quantity | None, Quantity | None]] = {}
    for result in allocation.results:
        for share in _shares(result.device_id, inventory):
            if isinstance(share, Overhead):
                per_pod, per_container = overhead.get(share.resource, (None, None))
                overhead[share.resource] = _plus(per_pod, share.per_pod), _plus(per_container, share.per_container)
            elif (taken := _taken(share, result)) is not None:
                total = totals[share.field]
                total[share.resource] = total[share.resource].add(taken) if share.resource in total else taken
    if not (totals[_FIELD_136] or totals[_FIELD] or overhead):
        return None
    return Taken(_texts(totals[_FIELD_136]), _texts(totals[_FIELD]), dict(sorted(overhead.items())))


def _texts(total: Mapping[str, Quantity]) -> dict[str, Amount]:
    return {name: str(amount) for name, amount in sorted(total.items())}


def take_of_node(
    claims: PodClaims, found: Sequence[Allocation], node: NodeInfo, pod: Pod, view: ClusterView
) -> tuple[NodeAllocatableClaim, ...] | Status:
    """What all claims of the pod take of `node` itself, as the note says it; or why that cannot be.

    Args:
        found: Allocations of the unallocated claims, the special claim's last.
    """
    allocations = [(claim.key, allocation) for claim, allocation in zip(claims.unallocated, found, strict=False)]
    special = claims.special
    if special is not None:
        stored = special.stored.allocation if special.stored is not None else None
        special_one = found[-1] if len(found) > len(claims.unallocated) else stored
        if special_one is not None:
            allocations.append((special.key, special_one))
    # A claim whose allocation cannot be used here would be allocated anew.
    allocations += [
        (claim.key, claim.allocation)
        for claim in claims.claims
        if claim.allocation is not None and is_usable_on(claim.allocation, node.host)
    ]
    notes = note_of(pod, allocations, view.inventory)
    if isinstance(notes, Status) or not notes:
        return notes
    return refuse_too_much(pod, notes, node) or notes


def note_to_write(
    cycle: Cycle, takes: tuple[NodeAllocatableClaim, ...], writes: Iterable[Decision], view: ClusterView
) -> tuple[Decision, ...]:
    """PreBind: the write of the note; nothing when it is written, or beside another write to the pod.

    Two writes to one pod at once would only refuse each other.
    """
    pod = view.pod(cycle.pod.uid) if view.features.node_allocatable_resources else None
    if pod is None or any(isinstance(one, PatchExtendedResources) for one in writes):
        return ()
    note = _difference(pod, takes)
    if note:
        cycle.put(_NoteWritten())
    return note


def note_to_take_back(cycle: Cycle, view: ClusterView) -> tuple[Decision, ...]:
    """Unreserve: the write that empties this attempt's note, while the pod has no node."""
    pod = view.pod(cycle.pod.uid) if cycle.find(_NoteWritten) is not None else None
    return _difference(pod, ()) if pod is not None and pod.node_name is None and not pod.is_deleting else ()


def _difference(pod: Pod, wanted: tuple[NodeAllocatableClaim, ...]) -> tuple[Decision, ...]:
    stored = pod.status.node_allocatable_resource_claim_statuses or ()
    if (not stored and not wanted) or take_the_same(stored, wanted):
        return ()
    return (PatchNodeAllocatable(pod.key, pod.uid, pod.metadata.revision, wanted),)


def note_of(
    pod: Pod, allocations: Iterable[tuple[ClaimKey, Allocation]], inventory: Inventory
) -> tuple[NodeAllocatableClaim, ...] | Status:
    """What the pod's status must say, sorted by claim; or why these allocations cannot be used."""
    users: dict[str, list[str]] | None = None
    notes: list[NodeAllocatableClaim] = []
    for key, allocation in allocations:
        try:
            resources = resources_of(allocation, inventory)
        except UnreadableShareError as error:
            return Status.error(f"claim {key}, {error}")
        if resources is not None:
            users = _users(pod) if users is None else users
            notes.append(_note(key.name, tuple(users.get(key.name, ())), resources))
    notes.sort(key=lambda note: note.resource_claim_name)
    for note in notes:
        if note.resources and not note.containers:
            return Status.unresolvable(
                f"claim {note.resource_claim_name}: node-allocatable resource claim not referenced by any container "
                "within the pod"
            )
    return tuple(notes)


def _note(name: str, containers: tuple[str, ...], taken: Taken) -> NodeAllocatableClaim:
    mapping = tuple([_entry(resource, quantity=amount) for resource, amount in taken.mapping.items()])
    overhead = tuple(
        _entry(resource, perPod=per_pod, perContainer=per_container)
        for resource, (per_pod, per_container) in taken.overhead.items()
    )
    return NodeAllocatableClaim(name, containers, taken.by_136 or None, mapping or None, overhead or None)


def _entry(resource: str, **amounts: Amount | Quantity | None) -> dict[str, Amount | None]:
    entry: dict[str, Amount | None] = {"name": resource}
    return entry | {field: str(amount) for field, amount in amounts.items() if amount is not None}


def refuse_shared(claims: PodClaims, pod: Pod, node: NodeInfo, view: ClusterView) -> Status | None:
    """Why the pod cannot use a claim that takes of nodes, beside other pods that do."""
    if not view.features.node_allocatable_resources or not (node.claim_users or claims.takes_of_nodes):
        return None
    for claim in claims.claims:
        if claim.allocation is None:
            continue
        users = node.claim_users.get(claim.key, 0) if is_usable_on(claim.allocation, node.host) else 0
        name = claim.key.name
        if _is_mapped(claim.allocation, view.inventory):
            if users or (claim.reserved_for and not is_reserved_for(claim, pod)):
                return Status.unresolvable(
                    f"node allocatable resource claim {name} has a mapped device and cannot be shared across pods"
                )
        elif users:
            used = "shared by multiple pods" if users > 1 else "is already used by another pod"
            return Status.unresolvable(f"node allocatable resource claim {name} {used}")
    return None


def _is_mapped(allocation: Allocation, inventory: Inventory) -> bool:
    """By 1.37's form."""
    return any(
        isinstance(share, Share) and share.field == _FIELD
        for result in allocation.results
        for share in _shares(result.device_id, inventory)
    )


def refuse_too_much(pod: Pod, notes: tuple[NodeAllocatableClaim, ...], node: NodeInfo) -> Status | None:
    """Why the pod with what its claims take does not fit; None when it does."""
    amounts = amounts_with_claims(pod, notes)
    if amounts.short_at_pod_level is not None:
        return Status.unresolvable(
            f"pod level request for {amounts.short_at_pod_level} is insufficient to cover the aggregated container and "
            "node-allocatable DRA requests"
        )
    reasons: list[str] = []
    is_unresolvable = False
    for name, amount in amounts.needed:
        total = node.allocatable.get(name, 0)
        if (name in _OF_NODES or name.startswith("hugepages-")) and amount > total - node.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
            is_unresolvable = is_unresolvable or amount > total
    if not reasons:
        return None
    return Status.unresolvable(*reasons) if is_unresolvable else Status.unschedulable(*reasons)


def shape_of_node(pod: Pod, claims: PodClaims, view: ClusterView) -> Hashable:
    """All of the pod and its claims that `note_of` and `refuse_too_much` read, beside what is allocated anew."""
    users = _users(pod)
    taken: list[object] = []
    for claim in claims.claims:
        taken.append(len(users[claim.key.name]) if claim.key.name in users else claim.key)
        if claim.allocation is not None:
            try:
                taken.append(str(resources_of(claim.allocation, view.inventory)))
            except UnreadableShareError as error:
                taken.append(str(error))
    special = claims.special
    if special is not None:
        taken.append(special.key)
        if special.stored is not None and special.stored.allocation is not None:
            taken.append(tuple(special.stored.allocation.device_ids()))
    return asked_in_spec(pod), tuple(taken)


def _users(pod: Pod) -> dict[str, list[str]]:
    """The containers that use each claim, init containers first."""
    names = claim_names(pod)
    users: dict[str, list[str]] = {}
    for container in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())):
        for use in (container.resources.claims if container.resources is not None else None) or ():
            name = names.get(use.name)
            if name is not None and container.name not in users.setdefault(name, []):
                users[name].append(container.name)
    return users


def _taken(share: Share, result: DeviceResult) -> Quantity | None:
    """What one device takes; None when its share does not depend on anything that was consumed."""
    if share.capacity is None:
        return share.amount if share.amount is not None else _ZERO
    if not result.consumed_capacity:
        raise UnreadableShareError(
            f"device {result.device}: ConsumedCapacity is nil, but Capacity key '{share.capacity}' is set in "
            f"{share.field} for resource {share.resource}"
        )
    amounts = own_amounts(result.driver, result.consumed_capacity)
    consumed = amounts.get(share.capacity.removeprefix(f"{result.driver}/"))
    if consumed is None:
        return None
    product = consumed.nano * (share.amount.nano if share.amount is not None else _NANO)
    if product < 0:
        raise UnreadableShareError(
            f"device {result.device}: computed node-allocatable footprint for resource {share.resource} must not be "
            f"negative, got {Quantity(-(-product // _NANO), -9, True, consumed.format)}"
        )
    return consumed if share.amount is None else Quantity(-(-product // _NANO), -9, True, consumed.format)


def _plus(one: Quantity | None, other: Quantity | None) -> Quantity | None:
    return other if one is None else one if other is None else one.add(other)


def _shares(device: DeviceId, inventory: Inventory) -> tuple[Share | Overhead, ...]:
    revision, known = _known.get(inventory, (-1, {}))
    if revision != inventory.revision:
        known = {}
        _known[inventory] = (inventory.revision, known)
    if device not in known:
        found = _published(device, inventory)
        known[device] = _read(found) if found is not None else ()
    return known[device]


def _published(device: DeviceId, inventory: Inventory) -> Device | None:
    slices = inventory.slices_of_pool(device.pool_id).values()
    newest = max((slice_.generation for slice_ in slices), default=0)
    for slice_ in slices:
        if slice_.generation == newest:
            for one in slice_.devices:
                if one.name == device.device:
                    return one
    return None


def _read(device: Device) -> tuple[Share | Overhead, ...]:
    """The API server has checked what devices say; what still cannot be read takes nothing."""
    shares: list[Share | Overhead] = []
    for resource, mapping in sorted((device.node_allocatable_resource_mappings or {}).items()):
        if isinstance(mapping, Mapping) and (amount := _amount(mapping, "allocationMultiplier")) is not _UNREADABLE:
            shares.append(Share(resource, mapping.get("capacityKey") or None, amount, _FIELD_136))
    for resource, said in sorted((device.node_allocatable_resources or {}).items()):
        mapping, overhead = (said.get("mapping"), said.get("overhead")) if isinstance(said, Mapping) else (None, None)
        if isinstance(mapping, Mapping):
            capacity = mapping.get("capacityKey") or None
            amount = _amount(mapping, "capacityMultiplier" if capacity else "deviceMultiplier")
            if amount is not _UNREADABLE and (capacity or amount is not None):
                shares.append(Share(resource, capacity, amount, _FIELD))
        if isinstance(overhead, Mapping):
            amounts = [_amount(overhead, field) for field in ("perPod", "perContainer")]
            per_pod, per_container = (one if one is not _UNREADABLE else None for one in amounts)
            if per_pod is not None or per_container is not None:
                shares.append(Overhead(resource, per_pod, per_container))
    return tuple(shares)


def _amount(said: Mapping[str, Any], field: str) -> Quantity | None:
    """None where it says nothing."""
    text = said.get(field)
    if text is None:
        return None
    try:
        return Quantity.parse(str(text))
    except ValueError:
        return _UNREADABLE


_UNREADABLE: Final = Quantity.from_int(-1)
_known: WeakKeyDictionary[Inventory, tuple[int, dict[DeviceId, tuple[Share | Overhead, ...]]]] = WeakKeyDictionary()
