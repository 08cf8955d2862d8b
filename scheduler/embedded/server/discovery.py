"""What the server says about itself: versions, groups, resources, OpenAPI.

The lists are served group by group: every client reads those where a server has no aggregated form. Of OpenAPI there is
as much as kubectl needs to see that the server validates fields itself, and to fall back on the merge keys it has built
in: no schemas, so no `kubectl explain`.

Source: k8s.io/apiserver v0.36.3 pkg/endpoints/discovery/, kube-openapi pkg/handler3; what kubectl looks for in OpenAPI:
k8s.io/cli-runtime v0.36.3 pkg/resource/query_param_verifier_v3.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import orjson

from scheduler.embedded.server.patches import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from scheduler.embedded.server.served_kinds import Registry, ServedKind
from scheduler.embedded.server.statuses import no_such_path
from scheduler.embedded.server.views import JSON_TYPE
from scheduler.validation.api_fields import NEWEST
from scheduler.validation.field_errors import Json

GIT_VERSION: Final = "v1.37.2+dra-scheduler-embedded"
ACCESS_REVIEW: Final = ServedKind("authorization.k8s.io/v1", "SelfSubjectAccessReview", is_namespaced=False)

_ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS: Final = ("get", "patch", "update")
_VERSION: Final = {
    "major": "1",
    "minor": "37",
    "gitVersion": GIT_VERSION,
    "gitCommit": "embedded",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "cpython",
    "platform": "python/asyncio",
}


def answer(registry: Registry, path: str, minor: int = NEWEST) -> tuple[bytes, str]:
    """Body and content type for a path that names no resource. Raises ApiError: 404, nothing is there."""
    groups = _versions_by_group(registry)
    found: Json
    match path.strip("/").split("/"):
        case ["healthz" | "livez" | "readyz"]:
            return b"ok", "text/plain"
        case ["version"]:
            other = _VERSION | {"minor": str(minor), "gitVersion": f"v1.{minor}.0+dra-scheduler-embedded"}
            found = _VERSION if minor == NEWEST else other
        case ["api"]:
            found = {"kind": "APIVersions", "versions": groups[""], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            listed = [_group(name, versions) for name, versions in groups.items() if name]
            found = {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["api", version] if version in groups[""]:
            found = _resources(registry, "", version)
        case ["apis", group] if group in groups:
            found = _group(group, groups[group])
        case ["apis", group, version] if version in groups.get(group, ()):
            found = _resources(registry, group, version)
        case ["openapi", "v3"]:
            found = _openapi_index(groups)
        case ["openapi", "v3", "api", version] if version in groups[""]:
            found = _openapi(registry, "", version)
        case ["openapi", "v3", "apis", group, version] if version in groups.get(group, ()):
            found = _openapi(registry, group, version)
        case _:
            raise no_such_path()
    return orjson.dumps(found), JSON_TYPE


def _versions_by_group(registry: Registry) -> dict[str, list[str]]:
    versions: dict[str, list[str]] = {}
    for kind in (*registry.kinds, ACCESS_REVIEW):
        listed = versions.setdefault(kind.group, [])
        if kind.version not in listed:
            listed.append(kind.version)
    return versions


def _kinds(registry: Registry, group: str, version: str) -> Iterator[ServedKind]:
    return (kind for kind in (*registry.kinds, ACCESS_REVIEW) if (kind.group, kind.version) == (group, version))


def _verbs(kind: ServedKind) -> Iterable[str]:
    return ("create",) if kind is ACCESS_REVIEW else _ALL_VERBS


def _names(kind: ServedKind) -> dict[str, Json]:
    names: dict[str, Json] = {}
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return names


def _sub_resources(kind: ServedKind) -> Iterator[tuple[str, tuple[str, str, str], Iterable[str]]]:
    """Name, group and version and kind of the body, verbs."""
    own = (kind.group, kind.version, kind.kind)
    if kind.has_status:
        yield "status", own, _STATUS_VERBS
    for name, sub in kind.sub_resources.items():
        yield name, sub.body if any(sub.body) else own, (sub.verb,)


# -- group by group --------------------------------------------------------------------------------


def _group(name: str, versions: list[str]) -> dict[str, Json]:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(registry: Registry, group: str, version: str) -> dict[str, Json]:
    resources: list[Json] = []
    for kind in _kinds(registry, group, version):
        scope = {"namespaced": kind.is_namespaced}
        head = {"name": kind.plural, "singularName": kind.singular, **scope, "kind": kind.kind}
        resources.append({**head, "verbs": list(_verbs(kind)), **_names(kind)})
        for name, (body_group, body_version, body_kind), verbs in _sub_resources(kind):
            head = {"name": f"{kind.plural}/{name}", "singularName": "", **scope, "kind": body_kind}
            other = {"group": body_group, "version": body_version} if body_group != group else {}
            resources.append({**head, "verbs": list(verbs), **other})
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


# -- OpenAPI ---------------------------------------------------------------------------------------


def _openapi_index(groups: Mapping[str, list[str]]) -> dict[str, Json]:
    paths = [f"apis/{name}/{v}" if name else f"api/{v}" for name, versions in groups.items() for v in versions]
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash=embedded"} for path in paths}}


def _openapi(registry: Registry, group: str, version: str) -> dict[str, Json]:
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    query = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    # Strategic merge is not listed on purpose: without schemas kubectl uses the merge keys it knows.
    body: Json = {"content": {media: {} for media in (APPLY_PATCH, JSON_PATCH, MERGE_PATCH)}}
    paths: dict[str, Json] = {}
    for kind in _kinds(registry, group, version):
        scope = "/namespaces/{namespace}" if kind.is_namespaced else ""
        paths[f"{root}{scope}/{kind.plural}/{{name}}"] = {
            "patch": {
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind.kind},
                "parameters": query,
                "requestBody": body,
                "responses": {"200": {"description": "OK"}},
            }
        }
    info = {"title": "Kubernetes (embedded)", "version": GIT_VERSION}
    return {"openapi": "3.0.0", "info": info, "paths": paths}
