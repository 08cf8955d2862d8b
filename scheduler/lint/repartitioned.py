"""Claims with a device that is gone from a pool of partitions: its hardware is given out twice.

Looked for in the files and the cluster together: slices of a file take the place of the cluster's of the same name, so
new slices can be compared with the claims of a running cluster before they are published.

Not here: what counts as gone (`allocator.vanished_devices`), what `explain` says
(`offline.after_binding`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from allocator import (
    Allocation,
    DecodeError,
    DeviceId,
    Features,
    PoolId,
    ResourceSlice,
    decode_allocation,
    decode_slice,
    newest_slices,
    vanished_devices,
)
from scheduler.lint.context import Context
from scheduler.lint.published import Published
from scheduler.lint.view import View, mapping

_Key = tuple[str, str]


class Lost(NamedTuple):
    """A device that a claim has and its pool of partitions has not."""

    claim: _Key
    device: DeviceId


def check_repartitioned(context: Context) -> None:
    """Report on the claims and slices of the files."""
    published = context.published
    slices = {one.name: one for one in published.slices} if published is not None else {}
    allocations = dict(published.allocations) if published is not None else {}
    claims: dict[_Key, View] = {}
    partitions: dict[PoolId, View] = {}
    for view in context.views:
        try:
            if view.is_dra and view.kind == "ResourceSlice":
                slice_ = decode_slice(view.obj)
                slices[slice_.name] = slice_
                if any(device.consumes_counters for device in slice_.devices):
                    partitions.setdefault(slice_.pool_id, view)
            elif view.is_dra and view.kind == "ResourceClaim":
                stored = mapping(view.obj.get("status")).get("allocation")
                if stored is not None:
                    key = (view.namespace or "default", view.object_name)
                    claims[key], allocations[key] = view, decode_allocation(stored)
        except (DecodeError, ValueError, TypeError, AttributeError):
            continue  # other rules say what is wrong with it
    for lost in _lost(slices, allocations):
        name = "/".join(lost.claim)
        if lost.claim in claims:
            results = [device == lost.device for device in allocations[lost.claim].device_ids()]
            claims[lost.claim].warning(
                "device-repartitioned",
                ("status", "allocation", "devices", "results", results.index(True), "device"),
                f"pool {lost.device.pool} does not publish {lost.device.device} any more, and publishes partitions: "
                "its hardware can be given to other claims too",
                "end the pods of this claim; change what a pool publishes only while its devices are idle",
            )
        slice_view = partitions.get(lost.device.pool_id)
        if slice_view is not None:
            slice_view.warning(
                "device-repartitioned",
                ("spec", "devices"),
                f"ResourceClaim {name} has device {lost.device.device}, which this pool does not publish any more: "
                "partitions that are the same hardware can be given out as well",
                "publish this when the device is idle (drain the node), or end the pods of that claim first",
                key=True,
            )


def repartitioned(published: Published) -> list[str]:
    """The same of a cluster alone, one line for each device."""
    slices = {one.name: one for one in published.slices}
    return [
        f"ResourceClaim {'/'.join(lost.claim)}: pool {lost.device.pool} does not publish its device "
        f"{lost.device.device} any more, and publishes partitions: its hardware can be given to other claims too"
        for lost in _lost(slices, published.allocations)
    ]


def _lost(slices: Mapping[str, ResourceSlice], allocations: Mapping[_Key, Allocation]) -> Iterator[Lost]:
    by_pool: dict[PoolId, list[ResourceSlice]] = {}
    for slice_ in slices.values():
        by_pool.setdefault(slice_.pool_id, []).append(slice_)
    held: dict[PoolId, dict[str, list[_Key]]] = {}
    for key, allocation in sorted(allocations.items()):
        for result in allocation.results:
            if not result.admin_access:
                devices = held.setdefault(result.device_id.pool_id, {})
                devices.setdefault(result.device, []).append(key)
    features = Features()
    for pool in sorted(held):
        for name in vanished_devices(newest_slices(by_pool.get(pool, ()), features), held[pool].keys()) or ():
            for key in held[pool][name]:
                yield Lost(key, DeviceId(*pool, name))
