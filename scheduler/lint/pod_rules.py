"""Pods, and the templates of workloads: which claims they name, and what will come of it.

Not here: `source` of old pods (`modernize`), which fit (`scheduler.explain.linted`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from scheduler.lint.context import Context
from scheduler.lint.findings import NEVER_VALID, FieldPath
from scheduler.lint.view import View, mapping, mappings, request_parts, text
from scheduler.model.nearest import nearest
from scheduler.validation.api_fields import type_of

_CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_REPLICATED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
_CLAIM_FIELDS: Final = ("name", "resourceClaimName", "resourceClaimTemplateName")
_GENERIC_DOMAINS: Final = frozenset(("com", "io", "org", "net", "dev", "k8s", "example"))

MANY: Final = 10**9
"""Replicas of what has one pod on each node."""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod spec of a view, and how many pods it makes (`replicas`; for an autoscaler its maximum)."""

    view: View
    path: FieldPath
    spec: dict[str, Any]
    replicas: int


def check_pods(context: Context) -> None:
    """Report on every pod spec of the files that names claims."""
    for pod in _pod_specs(context):
        _claims(pod)
        _containers_claims(pod, context)
        _twice(pod, context)
        _shared(pod)
        _preset_node(pod, context)


def _pod_specs(context: Context) -> Iterator[PodSpec]:
    most = autoscaled(context.views)
    for view in context.views:
        replicas = max(_replicas(view), most.get((view.kind, view.namespace, view.object_name), 0))
        for path, spec in view.pod_specs:
            if not isinstance(spec.get("containers"), list):
                continue  # a group of pods has claims too, and nothing that uses them
            if spec.get("resourceClaims") is not None or any(
                mapping(container.get("resources")).get("claims") for _, container in _containers((), spec)
            ):
                yield PodSpec(view, path, spec, replicas)


def autoscaled(views: Iterable[View]) -> dict[tuple[str, str, str], int]:
    """The most pods that autoscalers make of workloads, by kind, namespace and name."""
    most: dict[tuple[str, str, str], int] = {}
    for view in views:
        spec = mapping(view.obj.get("spec"))
        if view.kind == "HorizontalPodAutoscaler" and isinstance(spec.get("maxReplicas"), int):
            target = mapping(spec.get("scaleTargetRef"))
            key = text(target.get("kind")), view.namespace, text(target.get("name"))
            most[key] = max(spec["maxReplicas"], most.get(key, 0))
    return most


def _replicas(view: View) -> int:
    if view.kind == "DaemonSet":
        return MANY
    name = {"Job": "parallelism"}.get(view.kind, "replicas" if view.kind in _REPLICATED else "")
    count = mapping(view.obj.get("spec")).get(name) if name else 1
    return count if isinstance(count, int) and not isinstance(count, bool) else 1


def _containers(path: FieldPath, spec: dict[str, Any]) -> Iterator[tuple[FieldPath, dict[str, Any]]]:
    for name in _CONTAINER_LISTS:
        for index, container in mappings(spec.get(name)):
            yield (*path, name, index), container


def _claims(pod: PodSpec) -> None:
    """Entries of spec.resourceClaims, and claims that no container uses.

    Fields of Kubernetes' own kinds `schema` knows; here they are looked at in other kinds, and what it cannot say.
    """
    is_own = type_of(text(pod.view.obj.get("apiVersion")), pod.view.kind) is not None
    used = {
        text(entry.get("name"))
        for _, container in _containers(pod.path, pod.spec)
        for _, entry in mappings(mapping(container.get("resources")).get("claims"))
    }
    seen: set[str] = set()
    claims = pod.spec.get("resourceClaims")
    if claims is not None and not isinstance(claims, list) and not is_own:
        pod.view.error("invalid-value", (*pod.path, "resourceClaims"), "must be a list")
    for index, entry in mappings(claims):
        here: FieldPath = (*pod.path, "resourceClaims", index)
        name = text(entry.get("name"))
        unknown = [field for field in entry if field not in _CLAIM_FIELDS and field != "source"]
        for field in unknown:
            if not is_own:
                fix = nearest(field, _CLAIM_FIELDS) or f"known here: {', '.join(_CLAIM_FIELDS)}"
                pod.view.error("unknown-field", (*here, field), f"there is no field {field} here", fix, key=True)
        given = [field for field in _CLAIM_FIELDS[1:] if entry.get(field)]
        if len(given) != 1 and "source" not in entry and not (unknown and not given):
            pod.view.error(
                "one-of",
                here,
                "exactly one of resourceClaimName, resourceClaimTemplateName is needed",
                "resourceClaimTemplateName gives each pod a claim of its own; resourceClaimName shares one",
            )
        if not name:
            if not is_own:
                pod.view.error("missing-field", here, "name is missing", "name: ...")
        elif name in seen:
            pod.view.error("duplicate", (*here, "name"), f"claim {name} is there twice")
        elif name not in used:
            pod.view.warning(
                "unused-claim",
                (*here, "name"),
                f"no container names the claim {name}: its devices are taken for the pod, and none of its containers "
                "is given them; that is as it should be where the driver works on the pod, as network drivers do",
                f"else containers[].resources.claims: [{{name: {name}}}]",
            )
        seen.add(name)


def _containers_claims(pod: PodSpec, context: Context) -> None:
    """Claims that a container names and the pod does not have, and requests that the claim does not have."""
    entries = {text(entry.get("name")): entry for _, entry in mappings(pod.spec.get("resourceClaims"))}
    for path, container in _containers(pod.path, pod.spec):
        for index, used in mappings(mapping(container.get("resources")).get("claims")):
            here: FieldPath = (*path, "resources", "claims", index)
            name = used.get("name")
            if not isinstance(name, str) or name not in entries:
                pod.view.error(
                    "undeclared-claim",
                    (*here, "name"),
                    f"the pod has no claim {name!r} in spec.resourceClaims; the API refuses it",
                    nearest(text(name), list(filter(None, entries)))
                    or f"spec.resourceClaims: [{{name: {name}, resourceClaimTemplateName: ...}}]",
                )
                continue
            spec = claim_spec_of(pod.view, entries[name], context)
            request = used.get("request")
            if spec is None or not isinstance(request, str) or not request:
                continue
            known = {text(each.get("name")) for _, each in mappings(mapping(spec.get("devices")).get("requests"))}
            if request.partition("/")[0] not in known:
                pod.view.error(
                    "unknown-request",
                    (*here, "request"),
                    f"the claim has no request {request}; the container would not start",
                    f"it has: {', '.join(sorted(filter(None, known)))}",
                )


def claim_spec_of(view: View, entry: dict[str, Any], context: Context) -> dict[str, Any] | None:
    """The spec of the claim or template that an entry of spec.resourceClaims names, when the files have it."""
    for field, kind in (
        ("resourceClaimName", "ResourceClaim"),
        ("resourceClaimTemplateName", "ResourceClaimTemplate"),
    ):
        if isinstance(entry.get(field), str):
            return context.claim_spec(kind, view.namespace, entry[field])
    return None


def _twice(pod: PodSpec, context: Context) -> None:
    """A device by extended resource and by claim in one container."""
    entries = {text(entry.get("name")): entry for _, entry in mappings(pod.spec.get("resourceClaims"))}
    for path, container in _containers(pod.path, pod.spec):
        resources = mapping(container.get("resources"))
        used = [text(claim.get("name")) for _, claim in mappings(resources.get("claims"))]
        vendors: set[str] = set()
        is_known = True
        for name in used:
            names = _device_sources(pod.view, entries.get(name, {}), context)
            is_known = is_known and bool(names)
            vendors.update(part for source in names for part in _words(source))
        if not used:
            continue
        reported: set[str] = set()
        for list_name in ("limits", "requests"):
            for resource in mapping(resources.get(list_name)):
                domain, slash, _ = resource.partition("/")
                if not slash or domain.endswith("kubernetes.io") or resource in reported:
                    continue
                if is_known and not set(_words(domain)) & vendors:
                    continue  # another vendor's device
                reported.add(resource)
                pod.view.warning(
                    "device-twice",
                    (*path, "resources", list_name, resource),
                    f"the container asks for {resource} and for the claim {', '.join(used)}: it gets two devices "
                    "if both are meant for one",
                    f"leave out either {list_name} {resource} or the claim",
                    key=True,
                )


def _device_sources(view: View, entry: dict[str, Any], context: Context) -> set[str]:
    """Driver names, or else class names, of what a claim asks for; empty when the claim is not known."""
    spec = claim_spec_of(view, entry, context)
    names: set[str] = set()
    for _, _, part in request_parts((), spec or {}):
        class_name = text(part.get("deviceClassName"))
        names |= context.drivers_of_class(class_name) or ({class_name} if class_name else set())
    return names


def _words(name: str) -> list[str]:
    """The parts of a domain that say whose it is."""
    parts = name.split(".")
    return [part for part in parts if part not in _GENERIC_DOMAINS] or parts


def _shared(pod: PodSpec) -> None:
    """Replicas that share one claim."""
    if pod.replicas <= 1:
        return
    for index, entry in mappings(pod.spec.get("resourceClaims")):
        name = entry.get("resourceClaimName")
        if not isinstance(name, str):
            continue
        count = "the pods of all nodes" if pod.replicas == MANY else f"all {pod.replicas} pods"
        pod.view.warning(
            "replicas-share-claim",
            (*pod.path, "resourceClaims", index, "resourceClaimName"),
            f"{count} of {pod.view.document.name} share the one claim {name}, and its devices"
            + (", so they can run only where those are" if pod.replicas == MANY else ""),
            "for a device each: resourceClaimTemplateName, naming a ResourceClaimTemplate",
        )


def _preset_node(pod: PodSpec, context: Context) -> None:
    """A pod that no scheduler will look at, with claims that only a scheduler allocates."""
    if not pod.spec.get("nodeName"):
        return
    for index, entry in mappings(pod.spec.get("resourceClaims")):
        name = text(entry.get("resourceClaimName"))
        published = context.published
        if published is not None and (pod.view.namespace, name) in published.allocated:
            continue
        pod.view.warning(
            "claim-nobody-allocates",
            (*pod.path, "resourceClaims", index),
            "nodeName is preset, so no scheduler allocates this claim, and the kubelet waits for ever"
            + (f" unless {name} is allocated already" if name and published is None else ""),
            "leave nodeName out, and use nodeSelector: {kubernetes.io/hostname: ...}",
            served="" if name else NEVER_VALID,
        )
