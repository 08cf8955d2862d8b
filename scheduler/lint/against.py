"""What only a cluster can tell of names: templates, claims, labels, pools and their generations, taint rules.

All of these are warnings: a cluster changes.

Not here: drivers and attributes in expressions (`selectors`), classes (`claim_rules`), how many pods fit
(`capacity_check`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from scheduler.lint.context import Context
from scheduler.lint.documents import FieldPath
from scheduler.lint.findings import Severity
from scheduler.lint.pods import PodSpec
from scheduler.lint.published import Published
from scheduler.lint.view import View, mapping, mappings, sequence, text


def check_against(context: Context, specs: Sequence[PodSpec]) -> None:
    """Compare what the files name with what is there."""
    _pools(context)
    published = context.published
    if published is None:
        return
    for pod in specs:
        _claims(pod, context, published)
        if published.nodes:
            _labels(pod, published)
    for view in context.views:
        if view.is_dra and view.kind == "DeviceTaintRule" and published.slices:
            _taint_rule(view, published)


def _claims(pod: PodSpec, context: Context, published: Published) -> None:
    for index, entry in mappings(pod.spec.get("resourceClaims")):
        for field, kind, there in (
            ("resourceClaimTemplateName", "ResourceClaimTemplate", published.templates),
            ("resourceClaimName", "ResourceClaim", set(published.claims) | published.allocated),
        ):
            name = text(entry.get(field))
            namespace = pod.view.namespace
            if not name or (namespace, name) in there or context.find(kind, namespace, name) is not None:
                continue
            known = {each for space, each in there if space == namespace}
            known |= {view.object_name for view in context.views if view.kind == kind and view.namespace == namespace}
            elsewhere = sorted(space for space, each in there if each == name)
            pod.view.report(
                "unknown-template" if kind == "ResourceClaimTemplate" else "unknown-claim",
                Severity.WARNING,
                (*pod.path, "resourceClaims", index, field),
                f"there is no {kind} {name} in namespace {namespace}, of the cluster or these files: the pod waits",
                _near(name, known) or (f"one of this name is in {', '.join(elsewhere)}" if elsewhere else ""),
            )


def _labels(pod: PodSpec, published: Published) -> None:
    labels: dict[str, set[str]] = {}
    for node in published.nodes.values():
        for key, value in mapping(mapping(node.get("metadata")).get("labels")).items():
            labels.setdefault(key, set()).add(str(value))
    for name, node in published.nodes.items():
        hostname = mapping(mapping(node.get("metadata")).get("labels")).get("kubernetes.io/hostname", name)
        labels.setdefault("kubernetes.io/hostname", set()).add(str(hostname))
    for path, key, values in _wanted(pod):
        there = labels.get(key)
        if there is None:
            message, fix = f"no node here has the label {key}", _near(key, labels)
        elif values and not there & set(values):
            message = f"no node here has {key}: {' or '.join(values)}"
            fix = f"there are: {', '.join(sorted(there)[:10])}"
        else:
            continue
        pod.view.report("unknown-label", Severity.WARNING, path, message, fix, key=there is None)


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
            view.report(
                "taint-rule-without-devices",
                Severity.WARNING,
                ("spec", "deviceSelector", field),
                f"no device that the rule names has the {field} {wanted}: it taints nothing",
                _near(wanted, names) or f"there are: {', '.join(names[:10])}",
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
                view.report(
                    "old-generation",
                    Severity.WARNING,
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
            current[0].report(
                "incomplete-pool",
                Severity.WARNING,
                ("spec", "pool", "resourceSliceCount"),
                f"{found} of the {wanted} slices of the pool {key[1]} are there: no device of it is given out "
                "before all are",
                f"resourceSliceCount: {len(names)}, or the other slices",
            )


def _near(name: str, known: object) -> str:
    close = get_close_matches(name, [str(each) for each in known], 1) if isinstance(known, set | dict | list) else []
    return f"did you mean {close[0]}?" if close else ""
