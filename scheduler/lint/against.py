"""Names that a cluster does not have: templates, claims, labels, pools and their generations, taint rules.

All of these findings are warnings, because a cluster changes.

Not here: drivers and attributes in expressions (`selector_rules`), classes (`claim_rules`), how many pods fit
(`capacity_check`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from allocator import DecodeError, FaultKind, PoolId, ResourceSlice, decode_slice, pool_faults
from scheduler.lint.context import Context
from scheduler.lint.findings import FieldPath
from scheduler.lint.pod_rules import PodSpec
from scheduler.lint.published import Published
from scheduler.lint.taken import features_of
from scheduler.lint.view import View, mapping, mappings, sequence, text
from scheduler.model.nearest import listed, nearest

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


def check_against(context: Context, specs: Sequence[PodSpec]) -> None:
    """Compare what the files name with what is there."""
    _pools(context)
    _faults(context)
    published = context.published
    if published is None:
        return
    names = _Names(context, published)
    labels = _labels_of(published)
    for pod in specs:
        _claims(pod, names)
        if published.nodes:
            _labels(pod, labels)
    for view in context.views:
        if view.is_dra and view.kind == "DeviceTaintRule" and published.slices:
            _taint_rule(view, published)


class _Names:
    """The names of templates and claims, of the cluster and the files, by namespace."""

    def __init__(self, context: Context, published: Published) -> None:
        self._by_place: dict[tuple[str, str], set[str]] = {}
        self._namespaces: dict[tuple[str, str], set[str]] = {}
        for kind, there in (
            ("ResourceClaimTemplate", published.templates),
            ("ResourceClaim", published.claims),
        ):
            for namespace, name in there:
                self._add(kind, namespace, name)
        for view in context.views:
            if view.is_dra and view.kind in ("ResourceClaimTemplate", "ResourceClaim"):
                self._add(view.kind, view.namespace, view.object_name)

    def _add(self, kind: str, namespace: str, name: str) -> None:
        self._by_place.setdefault((kind, namespace), set()).add(name)
        self._namespaces.setdefault((kind, name), set()).add(namespace)

    def known(self, kind: str, namespace: str) -> set[str]:
        return self._by_place.get((kind, namespace), set())

    def namespaces(self, kind: str, name: str) -> set[str]:
        return self._namespaces.get((kind, name), set())


def _claims(pod: PodSpec, names: _Names) -> None:
    for index, entry in mappings(pod.spec.get("resourceClaims")):
        for field, kind in (
            ("resourceClaimTemplateName", "ResourceClaimTemplate"),
            ("resourceClaimName", "ResourceClaim"),
        ):
            name = text(entry.get(field))
            known = names.known(kind, pod.view.namespace)
            if not name or name in known:
                continue
            elsewhere = sorted(names.namespaces(kind, name))
            pod.view.warning(
                "unknown-template" if kind == "ResourceClaimTemplate" else "unknown-claim",
                (*pod.path, "resourceClaims", index, field),
                f"there is no {kind} {name} in namespace {pod.view.namespace}, of the cluster or these files: the pod "
                "waits",
                nearest(name, known) or (f"one of this name is in {', '.join(elsewhere)}" if elsewhere else ""),
            )


def _labels_of(published: Published) -> dict[str, set[str]]:
    """The values of each label, of all nodes."""
    labels: dict[str, set[str]] = {}
    for name, node in published.nodes.items():
        own = mapping(mapping(node.get("metadata")).get("labels"))
        for key, value in {"kubernetes.io/hostname": name, **own}.items():
            labels.setdefault(key, set()).add(str(value))
    return labels


def _labels(pod: PodSpec, labels: dict[str, set[str]]) -> None:
    for path, key, values in _wanted(pod):
        there = labels.get(key)
        if there is None:
            message, fix = f"no node here has the label {key}", nearest(key, labels)
        elif values and not there & set(values):
            message, fix = f"no node here has {key}: {' or '.join(values)}", listed(there)
        else:
            continue
        pod.view.warning("unknown-label", path, message, fix, key=there is None)


def _wanted(pod: PodSpec) -> Iterator[tuple[FieldPath, str, list[str]]]:
    """Path, key and values (empty for any) of the labels that a node must have."""
    for key, value in mapping(pod.spec.get("nodeSelector")).items():
        yield (*pod.path, "nodeSelector", key), key, [str(value)]
    outer: FieldPath = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    required: Any = pod.spec
    for step in outer:
        required = mapping(required).get(str(step))
    terms = list(mappings(mapping(required).get("nodeSelectorTerms")))
    if len(terms) != 1:
        return  # of several terms, one is enough
    for index, term in terms:
        for number, rule in mappings(term.get("matchExpressions")):
            if rule.get("operator") in ("In", "Exists"):
                here: FieldPath = (*pod.path, *outer, "nodeSelectorTerms", index, "matchExpressions", number)
                yield (*here, "key"), text(rule.get("key")), [str(each) for each in sequence(rule.get("values"))]


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
    published, features = context.published, features_of(context)
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
    nodes = published.nodes.keys() if published is not None and published.nodes else None
    for pool, slices in pools.items():
        for fault in pool_faults(slices.values(), nodes, features):
            found = next((views[name] for name in fault.slices if name in views), None)
            if fault.kind in _FAULTS and found is not None:
                code, path = _FAULTS[fault.kind]
                found.warning(code, path, f"pool {pool.pool}: {fault.text}")
