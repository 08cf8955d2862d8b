"""The answers of commands as the page draws them: devices as columns, which are a tenth of the size of rows.

Numbers are those of `scheduler.inventory` and `scheduler.explain`; nothing is counted here but how often names occur.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import structs

from allocator import Device, DeviceId, NodeView
from allocator.values.pool_attribute import lookup_attribute
from cel.quantity import Quantity
from scheduler.core.machine import Machine
from scheduler.explain import NotThereError
from scheduler.explain.waiting import AllWaiting, Waiting, alike
from scheduler.framework.diagnosis import taint_text
from scheduler.inventory import DeviceList
from scheduler.inventory.device_answer import DeviceSummary, User
from scheduler.inventory.physical_devices import counter_sets, physical_devices
from scheduler.model.claim import ResourceClaim
from scheduler.model.keys import ClaimKey
from scheduler.model.owners import owner_of
from scheduler.offline.alike import maker_of
from scheduler.ui.answers import DeviceColumns, Devices, DeviceUser, OneDevice, Pending, PendingRow

_ATTRIBUTES_MAX: Final = 40
_TEXT_MAX: Final = 200
_NOMINATED_MAX: Final = 100
_USERS_MAX: Final = 200
"""Of one device; shares of it are as many as tenants like."""
_LABELS_MAX: Final = 40
_RACKS_MAX: Final = 200
_NEAR: Final = {"numa": "numa", "pcie": "pcieroot"}
"""What can be the columns of a node, and the word in the last part of an attribute's name that says so."""
_NEAR_MAX: Final = 8
"""So many attributes say it; each driver may have one of its own."""

Document: TypeAlias = dict[str, Any]


class Shape(NamedTuple):
    """How devices are put together.

    Attributes:
        by: The attribute whose values are the groups; "": their nodes are, and the rest counts.
        near: The columns of a node: `numa`, `pcie`, `none`; "": NUMA nodes where they are published.
        rack: The label by which nodes are put together; "" for none.
    """

    by: str = ""
    near: str = ""
    rack: str = ""


def devices_picture(machine: Machine, found: DeviceList, shape: Shape = Shape()) -> Devices:  # noqa: B008 - immutable
    """All devices, in the order of the list."""
    published = published_devices(machine)
    devices = [published.get(DeviceId(one.driver, one.pool, one.device)) for one in found.devices]
    names = Counter(name for device in devices if device is not None for name in full_names(device))
    nears = [] if shape.by else [one for one in _NEAR if any(_says(name, one) for name in names)]
    near = shape.near if shape.near in nears else nears[0] if nears[:1] == ["numa"] and not shape.near else ""
    near_names = [name for name, _ in names.most_common() if near and _says(name, near)][:_NEAR_MAX]
    infos = machine.store.node_infos
    hosts = [] if shape.by else [info.host for info in infos.values()]
    texts: dict[str, int] = {}
    columns: dict[str, list[int]] = {name: [] for name in DeviceColumns.__struct_fields__}
    for one, device in zip(found.devices, devices, strict=True):
        group = _value(device, [shape.by])[:_TEXT_MAX] if shape.by else one.node or ""
        beside = _value(device, near_names)[:_TEXT_MAX]
        row = (one.device, one.pool, one.driver, one.node or "", one.state, group, beside)
        for column, text in zip(columns.values(), row, strict=True):
            column.append(texts.setdefault(text, len(texts)))
    in_use = {index for index, one in enumerate(found.devices) if one.state in ("used", "shared")}
    sets = counter_sets(machine.store.inventory.slices.values())
    return Devices(
        count=len(found.devices),
        nodes=len(infos),
        states=found.states,
        classes=found.classes,
        by=shape.by,
        attributes=sorted(name for name, _ in names.most_common(_ATTRIBUTES_MAX)),
        near=near,
        nears=nears,
        rack="" if shape.by else shape.rack,
        labels=_rack_labels(hosts),
        racks={host.name: value for host in hosts if (value := host.labels.get(shape.rack))},
        shares=[(index, share) for index, one in enumerate(found.devices) if (share := _share(one))],
        nominated=dict(_nominated(machine)),
        frames=[] if shape.by else physical_devices(devices, in_use, sets),
        texts=[*texts],
        columns=DeviceColumns(**columns),
        left_out=found.left_out,
        notes=found.notes,
    )


def _says(name: str, near: str) -> bool:
    return _NEAR[near] in name.rpartition("/")[2].lower()


def _value(device: Device | None, names: Iterable[str]) -> str:
    """Of the first of these attributes that the device has; "" where it has none."""
    found = (lookup_attribute(device, name) for name in names) if device is not None else ()
    return next((str(one.value) for one in found if one is not None), "")


def _rack_labels(hosts: Collection[NodeView]) -> list[str]:
    """The labels that put nodes together: they have at least two values, and fewer than nodes; those of most nodes."""
    values: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for host in hosts:
        counts.update(host.labels.keys())
        for name, value in host.labels.items():
            known = values.setdefault(name, set())
            if len(known) <= _RACKS_MAX:
                known.add(value)
    fitting = [name for name, count in counts.most_common() if 2 <= len(values[name]) <= min(_RACKS_MAX, count - 1)]
    return sorted(fitting[:_LABELS_MAX])


def published_devices(machine: Machine) -> Mapping[DeviceId, Device]:
    """By identity."""
    return {one.id: one for slice_ in machine.store.inventory.slices.values() for one in slice_.devices}


def full_names(device: Device) -> Iterator[str]:
    """Of its attributes, each with its domain."""
    return (name if "/" in name else f"{device.id.driver}/{name}" for name in device.attributes)


def _share(one: DeviceSummary) -> int:
    """How much of a device is consumed, in percent, of the capacity of which most is; 0 where nobody shares it."""
    if not any(user.consumed for user in one.users):
        return 0
    amounts = ((Quantity.parse(each.left), Quantity.parse(each.total)) for each in one.capacity.values())
    return max((100 - 100 * left.nano // total.nano for left, total in amounts if total.nano > 0), default=0)


def _nominated(machine: Machine) -> Iterator[tuple[str, list[str]]]:
    """The nodes that pods wait for, by what preemption has decided, and these pods."""
    found: dict[str, list[str]] = {}
    for pod in machine.store.pods.values():
        if pod.status.nominated_node_name and pod.node_name is None and not pod.is_terminal:
            found.setdefault(pod.status.nominated_node_name, []).append(f"{pod.metadata.namespace}/{pod.metadata.name}")
    for node, pods in sorted(found.items())[:_NOMINATED_MAX]:
        yield node, sorted(pods)[:_NOMINATED_MAX]


def device_picture(machine: Machine, found: DeviceList, key: tuple[str, str, str]) -> OneDevice:
    """One device by driver, pool and name, with its attributes. Raises NotThereError where there is none."""
    summary = next((one for one in found.devices if (one.driver, one.pool, one.device) == key), None)
    if summary is None:
        raise NotThereError(f"there is no device {'/'.join(key)}")
    driver, pool, name = key
    is_ambiguous = any((one.pool, one.device) == (pool, name) and one.driver != driver for one in found.devices)
    device = published_devices(machine).get(DeviceId(*key))
    attributes = device.attributes if device is not None else {}
    taints = device.taints if device is not None else ()
    users = tuple(_user(machine, one) for one in summary.users[:_USERS_MAX])
    return OneDevice(
        **{**structs.asdict(summary), "users": users},
        more=len(summary.users) - len(users),
        name=f"{driver}/{pool}/{name}" if is_ambiguous else f"{pool}/{name}",
        tainted={taint_text(one): one.time_added for one in taints if one.time_added},
        attributes={name: {one.kind: one.value} for name, one in sorted(attributes.items())},
        nominated=dict(_nominated(machine)).get(summary.node or "", []),
    )


def _user(machine: Machine, user: User) -> DeviceUser:
    namespace, _, name = user.claim.partition("/")
    claim = machine.store.claim(ClaimKey(namespace, name))
    makers = [maker for maker, _ in owners_of(machine, claim)] if claim is not None else []
    owners = tuple(dict.fromkeys(one for one in makers if not one.startswith("pod ")))
    since = claim.allocation.allocation_timestamp if claim is not None and claim.allocation is not None else None
    return DeviceUser(**structs.asdict(user), owners=owners, since=since)


def owners_of(machine: Machine, claim: ResourceClaim) -> Iterator[tuple[str, str]]:
    """Who makes each pod that a claim is reserved for, and this pod, NAMESPACE/NAME."""
    for user in claim.reserved_for:
        if user.pod_uid is not None:
            key = claim.key.namespace, user.name
            yield maker_of(key, user.pod_uid, machine).edited, "/".join(key)


def first_notes(notes: Sequence[str], most: int) -> tuple[str, ...]:
    """So many of them, and last how many are left out."""
    left = len(notes) - most
    return (*notes[:most], *([f"{left} more {'note is' if left == 1 else 'notes are'} left out"] if left > 0 else ()))


def pending_picture(found: AllWaiting) -> Pending:
    """A row for each pod that waits, or for those of one owner and cause, and how many pods there are of each kind."""
    return Pending(
        waiting=found.count,
        not_asked=found.count - len(found.pods),
        kinds=dict(Counter(map(_kind, found.pods)).most_common()),
        problems=tuple(found.problems),
        notes=tuple(found.notes),
        pods=tuple(map(_row, alike(found.pods))),
    )


def count_running(machine: Machine, owners: Collection[str]) -> dict[str, int]:
    """The pods of these owners that have a node, and neither have ended nor are being deleted.

    Some 10 microseconds for each pod of their namespaces.
    """
    namespaces = {owner.split("/")[1] for owner in owners}
    pods = (one for one in machine.store.pods.values() if one.node_name and one.metadata.namespace in namespaces)
    running = (one for one in pods if not one.is_terminal and not one.is_deleting)
    return Counter(owner for pod in running if (owner := owner_of(pod)) in owners)


def _row(pods: Sequence[Waiting]) -> PendingRow:
    """Pods alike, by the first of them."""
    first = pods[0]
    return PendingRow(
        namespace=first.key[0],
        names=tuple([one.key[1] for one in pods]),
        owner=first.maker.owner,
        created=min(filter(None, (one.created for one in pods)), default=""),
        outcome=first.outcome,
        node=first.node,
        kind=_kind(first),
        cause=first.cause,
        change=first.change,
        first_look=first.is_first_look,
    )


def _kind(one: Waiting) -> str:
    return one.kind or one.outcome
