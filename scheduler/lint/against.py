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
from scheduler.model.nearest import listed, nearest
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
    "missing-slices": ("incomplete-pool", ("spec", "pool", "resourceSliceCount")),
    "older-generation": ("old-generation", ("spec", "pool", "generation")),
}
"""Code and place of what `pool_faults` finds."""


def check_against(context: Context) -> None:
    """Compare what the files name with what is there."""
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
