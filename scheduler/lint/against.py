"""Slices of files that make no pool together with the others, and taint rules that taint nothing.

All of these findings are warnings, because a cluster changes.

Not here: drivers and attributes in expressions (`selector_rules`), classes (`claim_rules`), which pods fit
(`scheduler.explain.linted`).
"""

from __future__ import annotations

from typing import Final

from allocator import DecodeError, FaultKind, Features, PoolId, ResourceSlice, decode_slice, pool_faults
from scheduler.lint.context import Context
from scheduler.lint.findings import FieldPath
from scheduler.lint.published import Published
from scheduler.lint.view import View, mapping, text
from scheduler.validation.nearest import listed, nearest
from scheduler.validation.releases import release_of

_FAULTS: Final[dict[FaultKind, tuple[str, FieldPath]]] = {
    "two-nodes": ("contradicting-slices", ("spec", "pool", "name")),
    "counts-disagree": ("contradicting-slices", ("spec", "pool", "resourceSliceCount")),
    "surplus-slices": ("contradicting-slices", ("spec", "pool", "resourceSliceCount")),
    "device-twice": ("contradicting-slices", ("spec", "devices")),
    "counter-set-twice": ("contradicting-slices", ("spec", "sharedCounters")),
    "unknown-counter": ("unknown-counter", ("spec", "devices")),
    "counter-too-small": ("counter-too-small", ("spec", "devices")),
    "unknown-node": ("unknown-node", ("spec",)),
}
"""Code and place of what `pool_faults` finds; slices that are missing or older `_pools` finds."""


def check_against(context: Context) -> None:
    """Compare what the files name with what is there."""
    _pools(context)
    _faults(context)
    published = context.published
    if published is None:
        return
    for view in context.views:
        if view.is_dra and view.kind == "DeviceTaintRule" and published.slices:
            _taint_rule(view, published)


def _taint_rule(view: View, published: Published) -> None:
    selector = mapping(mapping(view.obj.get("spec")).get("deviceSelector"))
    devices = (device.id for each in published.slices for device in each.devices)
    left = [(device.driver, device.pool, device.device) for device in devices]
    for number, field in enumerate(("driver", "pool", "device")):
        wanted = text(selector.get(field))
        if not wanted:
            continue
        matching = [device for device in left if device[number] == wanted]
        if not matching:
            names = sorted({device[number] for device in left})
            view.warning(
                "taint-rule-without-devices",
                ("spec", "deviceSelector", field),
                f"no device that the rule names has the {field} {wanted}: it taints nothing",
                nearest(wanted, names) or listed(names),
            )
            return
        left = matching


def _pools(context: Context) -> None:
    """Slices of a generation that is over, and pools of which slices are missing."""
    views = [view for view in context.views if view.is_dra and view.kind == "ResourceSlice"]
    by_pool: dict[tuple[str, str], list[tuple[int, View]]] = {}
    for view in views:
        spec = mapping(view.obj.get("spec"))
        pool = mapping(spec.get("pool"))
        generation = pool.get("generation", 0)
        if isinstance(generation, int) and not isinstance(generation, bool):
            by_pool.setdefault((text(spec.get("driver")), text(pool.get("name"))), []).append((generation, view))
    known = context.published.generations if context.published is not None else {}
    for key, members in by_pool.items():
        there = known.get(key)
        newest = max(*(generation for generation, _ in members), there[0] if there is not None else 0)
        current = [view for generation, view in members if generation == newest]
        for generation, view in members:
            if generation < newest:
                view.warning(
                    "old-generation",
                    ("spec", "pool", "generation"),
                    f"the pool {key[1]} has a generation {newest}: schedulers pass over slices of older ones",
                    f"generation: {newest}",
                )
        if not current:
            continue
        wanted = mapping(mapping(current[0].obj.get("spec")).get("pool")).get("resourceSliceCount")
        names = {view.object_name for view in current}
        more = there[1] if there is not None and there[0] == newest else 0
        found = max(len(names), more)
        if isinstance(wanted, int) and found < wanted:
            current[0].warning(
                "incomplete-pool",
                ("spec", "pool", "resourceSliceCount"),
                f"{found} of the {wanted} slices of the pool {key[1]} are there: no device of it is given out "
                "before all are",
                f"resourceSliceCount: {len(names)}, or the other slices",
            )


def _faults(context: Context) -> None:
    """Pools of which slices contradict each other, those of the cluster among them."""
    published, features = context.published, Features(kubernetes=release_of(context.settings.minor))
    pools: dict[PoolId, dict[str, ResourceSlice]] = {}
    views: dict[str, View] = {}
    for view in context.views:
        if view.is_dra and view.kind == "ResourceSlice" and not any(each.is_error for each in view.findings):
            try:
                slice_ = decode_slice(view.obj)
            except (DecodeError, ValueError, TypeError):
                continue
            pools.setdefault(slice_.pool_id, {})[slice_.name] = slice_
            views[slice_.name] = view
    for slice_ in published.slices if published is not None else ():
        if slice_.pool_id in pools:
            pools[slice_.pool_id].setdefault(slice_.name, slice_)
    nodes = published.nodes if published is not None and published.nodes else None
    for pool, slices in pools.items():
        for fault in pool_faults(slices.values(), nodes, features):
            found = next((views[name] for name in fault.slices if name in views), None)
            if fault.kind in _FAULTS and found is not None:
                code, path = _FAULTS[fault.kind]
                found.warning(code, path, f"pool {pool.pool}: {fault.text}")
