"""The answers of commands as the page draws them: devices as columns, which are a tenth of the size of rows.

Numbers are those of `scheduler.inventory` and `scheduler.explain`; nothing is counted here but how often names occur.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import structs, to_builtins

from allocator import Device, DeviceId
from allocator.values.pool_attribute import lookup_attribute
from cel.quantity import Quantity
from scheduler.core.machine import Machine
from scheduler.explain.waiting import AllWaiting, Waiting, alike
from scheduler.inventory import DeviceList
from scheduler.inventory.device_answer import DeviceSummary
from scheduler.ui.answers import Pending, PendingRow

_ATTRIBUTES_MAX: Final = 40
_TEXT_MAX: Final = 200
_NOMINATED_MAX: Final = 100
_COLUMNS: Final = ("device", "pool", "driver", "node", "state", "group", "within")

Document: TypeAlias = dict[str, Any]


def devices_picture(machine: Machine, found: DeviceList, by: str = "") -> Document:
    """All devices, in the order of the list.

    Args:
        by: The attribute whose values are the groups; without one their nodes are.
    """
    published = published_devices(machine)
    names: Counter[str] = Counter()
    texts: dict[str, int] = {}
    columns: dict[str, list[int]] = {name: [] for name in _COLUMNS}
    for one in found.devices:
        device = published.get(DeviceId(one.driver, one.pool, one.device))
        group, within = one.node or "", ""
        if device is not None:
            names.update(full_names(device))
            within = ", ".join(sorted({each.counter_set for each in device.consumes_counters}))
        if by:
            attribute = lookup_attribute(device, by) if device is not None else None
            group = str(attribute.value) if attribute is not None else ""
        row = (one.device, one.pool, one.driver, one.node or "", one.state, group[:_TEXT_MAX], within)
        for column, text in zip(columns.values(), row, strict=True):
            column.append(texts.setdefault(text, len(texts)))
    document: Document = to_builtins(structs.replace(found, devices=(), pools=(), nodes=()))
    del document["devices"], document["pools"]
    document |= {
        "count": len(found.devices),
        "by": by,
        "attributes": sorted(name for name, _ in names.most_common(_ATTRIBUTES_MAX)),
        "shares": [[index, share] for index, one in enumerate(found.devices) if (share := _share(one))],
        "nominated": dict(_nominated(machine)),
        "nodes": len(machine.store.node_infos),
        "texts": [*texts],
        "columns": columns,
    }
    return document


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


def device_picture(machine: Machine, found: DeviceList, key: tuple[str, str, str]) -> Document | None:
    """One device by driver, pool and name, with its attributes; None where there is none."""
    summary = next((one for one in found.devices if (one.driver, one.pool, one.device) == key), None)
    if summary is None:
        return None
    device = published_devices(machine).get(DeviceId(*key))
    attributes = device.attributes if device is not None else {}
    since = [
        claim.allocation.allocation_timestamp or ""
        for claim in machine.store.claims.values()
        if claim.allocation is not None and DeviceId(*key) in claim.allocation.device_ids()
    ]
    document: Document = to_builtins(summary)
    document["attributes"] = {name: {one.kind: one.value} for name, one in sorted(attributes.items())}
    document["since"] = min(filter(None, since), default=None)
    document["nominated"] = dict(_nominated(machine)).get(summary.node or "", [])
    return document


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


def _row(pods: Sequence[Waiting]) -> PendingRow:
    """Pods alike, by the first of them."""
    first = pods[0]
    return PendingRow(
        namespace=first.key[0],
        name=first.key[1],
        names=tuple([one.key[1] for one in pods]),
        label=first.maker.named(first.key, len(pods)),
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
