"""What the server says about itself: versions, groups, resources, OpenAPI.

`kubectl` reads the aggregated form of /api and /apis; older clients walk the lists group by group. The
OpenAPI documents hold paths and parameters, with empty schemas: enough for kubectl to see that fields are
validated by the server, and to fall back on the merge keys it has built in.

Source: k8s.io/apiserver v0.36.3 pkg/endpoints/discovery/, kube-openapi pkg/handler3.
"""

from typing import Final

from scheduler.embedded.server.kinds import ALL_VERBS, STATUS_VERBS, Kind, Registry
from scheduler.embedded.server.patches import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from scheduler.validation.field_errors import Json

GIT_VERSION: Final = "v1.36.3+dra-scheduler-embedded"
AGGREGATED_TYPE: Final = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"

_SUB_RESOURCE_KINDS: Final = {
    "status": ("", "", ""),
    "finalize": ("", "", ""),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
}
_SUB_RESOURCE_VERBS: Final = {
    "status": STATUS_VERBS,
    "finalize": ("update",),
    "binding": ("create",),
    "eviction": ("create",),
    "scale": STATUS_VERBS,
}

ACCESS_REVIEW: Final = ("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview")


def version() -> dict[str, Json]:
    """The body of /version."""
    return {
        "major": "1",
        "minor": "36",
        "gitVersion": GIT_VERSION,
        "gitCommit": "embedded",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "cpython",
        "platform": "python/asyncio",
    }


def groups_of(registry: Registry) -> dict[str, list[str]]:
    """Group -> versions, the access review's group included."""
    groups = registry.groups()
    groups.setdefault(ACCESS_REVIEW[0], [ACCESS_REVIEW[1]])
    return groups


def sub_resources_of(kind: Kind) -> tuple[str, ...]:
    """The sub-resources served for a kind."""
    return (*(("status",) if kind.has_status else ()), *kind.sub_resources)


def core_versions() -> dict[str, Json]:
    """The body of /api in the old form."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(registry: Registry) -> dict[str, Json]:
    """The body of /apis in the old form."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [group(name, versions) for name, versions in groups_of(registry).items() if name],
    }


def group(name: str, versions: list[str]) -> dict[str, Json]:
    """One APIGroup."""
    listed = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(registry: Registry, group_name: str, version_name: str) -> dict[str, Json]:
    """The body of /api/v1 or /apis/GROUP/VERSION in the old form."""
    resources: list[Json] = []
    for kind in registry.of_version(group_name, version_name):
        resources.append(
            {
                "name": kind.plural,
                "singularName": kind.singular,
                "namespaced": kind.is_namespaced,
                "kind": kind.kind,
                "verbs": list(ALL_VERBS),
                **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
                **({"categories": list(kind.categories)} if kind.categories else {}),
            }
        )
        for sub in sub_resources_of(kind):
            sub_group, sub_version, sub_kind = _SUB_RESOURCE_KINDS[sub]
            entry: dict[str, Json] = {
                "name": f"{kind.plural}/{sub}",
                "singularName": "",
                "namespaced": kind.is_namespaced,
                "kind": sub_kind or kind.kind,
                "verbs": list(_SUB_RESOURCE_VERBS[sub]),
            }
            if sub_group:
                entry |= {"group": sub_group, "version": sub_version}
            resources.append(entry)
    if (group_name, version_name) == ACCESS_REVIEW[:2]:
        resources.append(
            {
                "name": ACCESS_REVIEW[2],
                "singularName": "",
                "namespaced": False,
                "kind": ACCESS_REVIEW[3],
                "verbs": ["create"],
            }
        )
    group_version = f"{group_name}/{version_name}" if group_name else version_name
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def aggregated(registry: Registry, *, is_core: bool, form_version: str) -> dict[str, Json]:
    """The aggregated form of /api (core group) or /apis (all others)."""
    items: list[Json] = []
    for name, versions in groups_of(registry).items():
        if bool(name) is is_core:
            continue
        items.append(
            {
                "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
                "versions": [
                    {"version": v, "resources": _aggregated_resources(registry, name, v), "freshness": "Current"}
                    for v in versions
                ],
            }
        )
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{form_version}",
        "metadata": {},
        "items": items,
    }


def _aggregated_resources(registry: Registry, group_name: str, version_name: str) -> list[Json]:
    resources: list[Json] = []
    for kind in registry.of_version(group_name, version_name):
        entry: dict[str, Json] = {
            "resource": kind.plural,
            "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            "scope": "Namespaced" if kind.is_namespaced else "Cluster",
            "singularResource": kind.singular,
            "verbs": list(ALL_VERBS),
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        subs: list[Json] = []
        for sub in sub_resources_of(kind):
            sub_group, sub_version, sub_kind = _SUB_RESOURCE_KINDS[sub]
            response = (
                {"group": sub_group, "version": sub_version, "kind": sub_kind} if sub_kind else entry["responseKind"]
            )
            subs.append({"subresource": sub, "responseKind": response, "verbs": list(_SUB_RESOURCE_VERBS[sub])})
        if subs:
            entry["subresources"] = subs
        resources.append(entry)
    if (group_name, version_name) == ACCESS_REVIEW[:2]:
        resources.append(
            {
                "resource": ACCESS_REVIEW[2],
                "responseKind": {"group": group_name, "version": version_name, "kind": ACCESS_REVIEW[3]},
                "scope": "Cluster",
                "singularResource": "",
                "verbs": ["create"],
            }
        )
    return resources


# -- OpenAPI ---------------------------------------------------------------------------------------


def openapi_v3_index(registry: Registry) -> dict[str, Json]:
    """The body of /openapi/v3."""
    paths = {
        path: {"serverRelativeURL": f"/openapi/v3/{path}?hash=embedded"}
        for name, versions in registry.groups().items()
        for path in ([f"apis/{name}/{v}" for v in versions] if name else [f"api/{v}" for v in versions])
    }
    return {"paths": paths}


def openapi_v3(registry: Registry, group_name: str, version_name: str) -> dict[str, Json]:
    """The OpenAPI 3 document of one group and version."""
    paths: dict[str, Json] = {}
    schemas: dict[str, Json] = {}
    for kind in registry.of_version(group_name, version_name):
        root = f"/apis/{group_name}/{version_name}" if group_name else f"/api/{version_name}"
        scope = "/namespaces/{namespace}" if kind.is_namespaced else ""
        collection, item = f"{root}{scope}/{kind.plural}", f"{root}{scope}/{kind.plural}/{{name}}"
        identity = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        paths[collection] = {
            "get": _operation(identity, "list"),
            "post": _operation(identity, "post", writes=True),
        }
        paths[item] = {
            "get": _operation(identity, "get"),
            "put": _operation(identity, "put", writes=True),
            "patch": _operation(identity, "patch", writes=True),
            "delete": _operation(identity, "delete"),
        }
        schemas[f"{group_name or 'core'}.{version_name}.{kind.kind}"] = {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "x-kubernetes-group-version-kind": [identity],
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes (embedded)", "version": GIT_VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(identity: dict[str, str], action: str, *, writes: bool = False) -> dict[str, Json]:
    operation: dict[str, Json] = {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": identity,
        "responses": {"200": {"description": "OK"}},
    }
    if writes:
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in ("dryRun", "fieldManager", "fieldValidation")
        ]
    if action == "patch":
        # Strategic merge is not listed on purpose: without schemas kubectl uses the merge keys it knows.
        operation["requestBody"] = {"content": {media: {} for media in (APPLY_PATCH, JSON_PATCH, MERGE_PATCH)}}
    return operation


def openapi_v2_protobuf() -> bytes:
    """An OpenAPI 2 document without definitions, in the protobuf form that client-go asks for."""
    title, release = b"Kubernetes (embedded)", GIT_VERSION.encode()
    info = b"\x0a" + bytes([len(title)]) + title + b"\x12" + bytes([len(release)]) + release
    return b"\x0a\x032.0" + b"\x12" + bytes([len(info)]) + info


def openapi_v2() -> dict[str, Json]:
    """The same document as JSON."""
    return {"swagger": "2.0", "info": {"title": "Kubernetes (embedded)", "version": GIT_VERSION}, "paths": {}}
