"""Workloads: kinds that are not there, missing names and images, and templates of claims written into a pod spec.

A template inside of a pod spec never was: `resourceClaimTemplates` (as `volumeClaimTemplates` of a StatefulSet). It
becomes a ResourceClaimTemplate of its own, named after the workload, that the pod names.

Rules of this module
  1. An object that is taken out of another stands beside it, and is written or refused with it (same document).

Not here: which claims a pod names, and what comes of it (`pod_rules`); single fields (`schema`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from scheduler.lint.findings import FieldPath
from scheduler.lint.modernize import modernize_structure
from scheduler.lint.view import V1, View, copy_plain, mapping, mappings, text
from scheduler.model.nearest import near
from scheduler.validation.api_fields import kinds_in, versions_of

_CORE_GROUPS: Final = ("", "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "rbac.authorization.k8s.io")
_CONTAINER_LISTS: Final = ("initContainers", "containers")
_INLINE: Final = ("resourceClaimTemplate", "claimTemplate", "template", "spec")
_FIELD_REFS: Final = tuple(
    f"{which}.{name}" for which in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)
_SELECTING: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
_PODS_MAX: Final = 100_000
_SET_BY_DRIVERS: Final = "_VISIBLE_DEVICES"


def separate_templates(views: Sequence[View]) -> list[View]:
    """The views, each followed by what was taken out of its pod specs; templates come before who names them."""
    names = {(view.namespace, view.object_name) for view in views if view.kind == "ResourceClaimTemplate"}
    result: list[View] = []
    for view in views:
        if not view.is_dra:
            for path, spec in view.pod_specs:
                for made in list(_inline(view, path, spec, names)):
                    modernize_structure(made)
                    result.append(made)
        result.append(view)
    return result


def _inline(view: View, path: FieldPath, spec: dict[str, Any], names: set[tuple[str, str]]) -> Iterator[View]:
    templates = spec.get("resourceClaimTemplates")
    if isinstance(templates, list):
        yield from _listed(view, path, spec, templates, names)
    for index, entry in mappings(spec.get("resourceClaims")):
        field = next((name for name in _INLINE if isinstance(entry.get(name), dict)), None)
        if field is None or entry.get("resourceClaimName") or entry.get("resourceClaimTemplateName"):
            continue
        here: FieldPath = (*path, "resourceClaims", index)
        inner = entry[field] if field == "spec" else entry[field].get("spec")
        made = _template(view, text(entry.get("name")), inner, names)
        _report_inline(
            view, (*here, field), f"a pod's claim has no {field}; a ResourceClaimTemplate is an object of its own", made
        )
        if made is not None:
            del entry[field]
            entry["resourceClaimTemplateName"] = made.object_name
            made.moved(
                ("spec", "spec"),
                (*view.origin(here), field) if field == "spec" else (*view.origin(here), field, "spec"),
            )
            yield made


def _listed(
    view: View, path: FieldPath, spec: dict[str, Any], templates: list[Any], names: set[tuple[str, str]]
) -> Iterator[View]:
    here: FieldPath = (*path, "resourceClaimTemplates")
    claims = spec.get("resourceClaims", [])
    made: list[tuple[str, View]] = []
    for index, entry in mappings(templates):
        name = text(entry.get("name")) or text(mapping(entry.get("metadata")).get("name"))
        one = _template(view, name, entry.get("spec"), names)
        if one is not None:
            one.moved(("spec", "spec"), (*view.origin(here), index, "spec"))
            made.append((name, one))
    can = len(made) == len(templates) and bool(made) and isinstance(claims, list)
    declared = {text(claim.get("name")): claim for _, claim in mappings(claims)}
    _report_inline(
        view,
        here,
        "a pod spec has no resourceClaimTemplates; a ResourceClaimTemplate is an object of its own",
        *((one for _, one in made) if can else (None,)),
    )
    if not can:
        return
    del spec["resourceClaimTemplates"]
    for name, one in made:
        if name not in declared:
            declared[name] = {"name": name}
            claims.append(declared[name])
        declared[name].setdefault("resourceClaimTemplateName", one.object_name)
        yield one
    spec["resourceClaims"] = claims


def _template(view: View, name: str, inner: Any, names: set[tuple[str, str]]) -> View | None:
    """A ResourceClaimTemplate for a claim of a pod; None when its text does not say enough."""
    spec = mapping(inner)
    if isinstance(spec.get("spec"), dict) and "devices" not in spec:
        spec = spec["spec"]
    if not name or not view.object_name or not isinstance(spec.get("devices"), dict):
        return None
    own = f"{view.object_name}-{name}"
    if (view.namespace, own) in names or len(own) > 253:
        return None
    names.add((view.namespace, own))
    made = View(view.document)
    metadata = {"name": own}
    if namespace := text(mapping(view.obj.get("metadata")).get("namespace")):
        metadata["namespace"] = namespace
    made.obj = {
        "apiVersion": V1,
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": copy_plain(spec)},
    }
    made.is_changed = True
    return made


def _report_inline(view: View, path: FieldPath, message: str, *made: View | None) -> None:
    done = [one.object_name for one in made if one is not None]
    can = bool(done) and len(done) == len(made)
    view.never_valid(
        "inline-template",
        path,
        message,
        "kind: ResourceClaimTemplate with spec.spec.devices; in the pod resourceClaims: [{name: ..., "
        "resourceClaimTemplateName: ...}]",
        converted=f"ResourceClaimTemplate {', '.join(done)}, named in resourceClaims" if can else "",
        key=True,
    )


def complete_selector(view: View) -> None:
    """A workload without a selector, whose template has labels: these, as in the API's first versions."""
    spec = mapping(view.obj.get("spec"))
    labels = mapping(mapping(mapping(spec.get("template")).get("metadata")).get("labels"))
    if view.kind not in _SELECTING or view.obj.get("apiVersion") != "apps/v1" or "selector" in spec:
        return
    shown = ", ".join(f"{name}: {value}" for name, value in labels.items()) or f"app: {view.object_name or '...'}"
    view.error(
        "missing-field",
        ("spec",),
        "selector is missing"
        + (
            "; it must select the template's labels" if labels else ", and so are the template's labels that it selects"
        ),
        f"selector: {{matchLabels: {{{shown}}}}}" + ("" if labels else f", template.metadata: {{labels: {{{shown}}}}}"),
        converted=f"selector: {{matchLabels: {{{shown}}}}}" if labels else "",
    )
    if labels:
        rest = {name: value for name, value in spec.items() if name == "replicas"}
        others = {name: value for name, value in spec.items() if name != "replicas"}
        spec.clear()
        spec |= rest | {"selector": {"matchLabels": dict(labels)}} | others


def check_workload(view: View, minor: int) -> None:
    """Kinds, names, counts, images and references to resources of what is no DRA object."""
    if view.is_dra:
        return
    api_version = text(view.obj.get("apiVersion"))
    if not _kind(view, api_version, minor):
        return
    metadata = mapping(view.obj.get("metadata"))
    if not metadata.get("name") and not metadata.get("generateName"):
        name = view.kind.lower()
        fix = f"metadata: {{name: my-{name}}}" if not metadata else f"name: my-{name}"
        view.error("missing-field", ("metadata",), "metadata has no name", fix)
    for field in ("replicas", "parallelism"):
        count = mapping(view.obj.get("spec")).get(field)
        if isinstance(count, int) and count > _PODS_MAX:
            message = f"{count} pods: clusters are made for 150000, and simulate and explain make {_PODS_MAX} at most"
            view.warning("many-pods", ("spec", field), message, "a smaller number")
    for path, spec in view.pod_specs:
        _named_twice(view, path, spec)
        for list_name in _CONTAINER_LISTS:
            for index, container in mappings(spec.get(list_name)):
                here: FieldPath = (*path, list_name, index)
                if not container.get("image"):
                    view.error("missing-field", here, "image is missing", "image: ...")
                _field_refs(view, here, container)


def _named_twice(view: View, path: FieldPath, spec: dict[str, Any]) -> None:
    """Containers of one name, whichever list they are in, and volumes."""
    for noun, list_names in (("container", (*_CONTAINER_LISTS, "ephemeralContainers")), ("volume", ("volumes",))):
        seen: set[str] = set()
        for list_name in list_names:
            for index, entry in mappings(spec.get(list_name)):
                name = text(entry.get("name"))
                if name and name in seen:
                    message = f"another {noun} is called {name}; the API refuses two of one name"
                    view.error("duplicate", (*path, list_name, index, "name"), message, "give it a name of its own")
                seen.add(name)


def _kind(view: View, api_version: str, minor: int) -> bool:
    """Whether Kubernetes has this kind; a kind that its API version cannot have is reported."""
    known = kinds_in(api_version, minor)
    if view.kind in known:
        return True
    is_of_another = view.kind in kinds_in(api_version)
    if view.group not in _CORE_GROUPS and not is_of_another:
        return False
    versions = versions_of(view.kind, minor) or versions_of(view.kind)
    if versions:
        right = next((each for each in versions if each.partition("/")[0] == view.group and view.group), versions[0])
        view.error(
            "wrong-api-version",
            ("apiVersion",),
            f"{view.kind} is not in {api_version}{f' of Kubernetes 1.{minor}' if is_of_another else ''}",
            f"apiVersion: {right}",
        )
        return False
    meant = near(view.kind, sorted(known), 0.7)
    view.error(
        "wrong-kind",
        ("kind",),
        f"{api_version} has no kind {view.kind}",
        f"kind: {meant}" if meant else f"there are: {', '.join(sorted(known))}" if known else "",
    )
    return False


def _field_refs(view: View, path: FieldPath, container: dict[str, Any]) -> None:
    """`resourceFieldRef` knows amounts of resources, and nothing of claims."""
    kept: list[dict[str, Any]] = []
    for index, entry in mappings(container.get("env")):
        here: FieldPath = (*path, "env", index)
        reference = mapping(mapping(entry.get("valueFrom")).get("resourceFieldRef"))
        resource = reference.get("resource")
        if resource is None or resource in _FIELD_REFS or ".hugepages-" in str(resource):
            view.moved((*path, "env", len(kept)), view.origin(here))
            kept.append(entry)
            continue
        is_set = text(entry.get("name")).endswith(_SET_BY_DRIVERS) and str(resource).startswith("claims.")
        if not is_set:
            kept.append(entry)
        view.never_valid(
            "resource-field-ref",
            (*here, "valueFrom", "resourceFieldRef", "resource"),
            f"there is no {resource}: resourceFieldRef knows {', '.join(_FIELD_REFS[:3])} and the same of requests"
            + ("; drivers put their devices and their variables into containers themselves" if is_set else ""),
            f"leave {entry.get('name')} out" if is_set else "resource: limits.memory",
            converted=f"{entry.get('name')} is left out" if is_set else "",
        )
    if len(kept) != len(list(mappings(container.get("env")))):
        container["env"] = kept
        if not kept:
            del container["env"]
