"""Server-side apply: create, or a merge by the lists' keys. Nobody owns fields.

So nobody is refused for another manager's fields, and what a configuration no longer names stays (docs/adr/0009).

Source: k8s.io/apiserver v0.36.3 pkg/endpoints/handlers/patch.go (applyPatcher).
"""

from __future__ import annotations

import orjson

from scheduler.embedded.server.list_rules import rules_of_apply
from scheduler.embedded.server.object_store import Stored
from scheduler.embedded.server.patches import apply_strategic_merge_patch
from scheduler.embedded.server.rest import DEFAULT_WRITE, Api, WriteOptions
from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.embedded.server.statuses import bad_request, not_found
from scheduler.embedded.server.strategy import Object


def apply_configuration(
    api: Api,
    kind: ServedKind,
    namespace: str,
    name: str,
    configuration: Object,
    *,
    sub_resource: str,
    options: WriteOptions = DEFAULT_WRITE,
) -> tuple[Stored, bool]:
    """Apply a configuration.

    Returns:
        The object, and whether the apply created it.

    Raises:
        ApiError: 400, 404 (apply to a sub-resource of nothing), 422.
    """
    metadata = configuration.setdefault("metadata", {})
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    if metadata.setdefault("name", name) != name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
    configuration = _relevant(kind, configuration, sub_resource)
    if api.store.get(kind.kind_id, namespace, name) is None:
        if sub_resource:
            raise not_found(kind.group, kind.plural, name)
        return api.create(kind, namespace, configuration, options), True

    def change(live: Object) -> Object:
        given = orjson.loads(orjson.dumps(configuration))
        return apply_strategic_merge_patch(live, given, rules_of_apply(kind.kind))

    return api.update(kind, namespace, name, change, sub_resource=sub_resource, options=options), False


def _relevant(kind: ServedKind, configuration: Object, sub_resource: str) -> Object:
    """What of the configuration the end point does not reset."""
    if sub_resource == "status":
        metadata = {
            field: configuration["metadata"][field]
            for field in ("name", "namespace", "uid", "resourceVersion")
            if field in configuration["metadata"]
        }
        return {"metadata": metadata, "status": configuration.get("status") or {}}
    if kind.has_status:
        return {member: value for member, value in configuration.items() if member != "status"}
    return configuration
