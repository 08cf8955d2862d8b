"""Server-side apply: a configuration laid over an object by the fields its manager owns.

Source: k8s.io/apiserver v0.36.3 pkg/endpoints/handlers/patch.go (applyPatcher), sigs.k8s.io/structured-merge-diff/v6.
"""

from __future__ import annotations

from typing import Final

import orjson

from scheduler.embedded.server.field_managers import (
    BEFORE_FIRST_APPLY,
    Conflict,
    Manager,
    decode_managers,
    encode_managers,
    find_conflicts,
    merge_applied,
    owned_values,
    remove_given_up,
)
from scheduler.embedded.server.list_rules import rules_of_kind
from scheduler.embedded.server.rest import Api, WriteOptions
from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.embedded.server.statuses import ApiError, bad_request, not_found
from scheduler.embedded.server.store import Stored
from scheduler.embedded.server.strategy import Object
from scheduler.validation.field_errors import Json

KUBECTL: Final = "kubectl"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def apply_configuration(
    api: Api,
    kind: ServedKind,
    namespace: str,
    name: str,
    configuration: Object,
    *,
    sub_resource: str,
    options: WriteOptions,
    force: bool,
) -> tuple[Stored, bool]:
    """Apply a configuration.

    Returns:
        The object, and whether the apply created it.

    Raises:
        ApiError: 400, 404 (apply to a sub-resource of nothing), 409 (another manager's fields), 422.
    """
    metadata = configuration.setdefault("metadata", {})
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    if metadata.setdefault("name", name) != name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
    configuration = _relevant(kind, configuration, sub_resource)
    rules = rules_of_kind(kind.kind)
    applied = owned_values(configuration, rules)
    paths = set(applied)
    manager = Manager(options.manager, "Apply", sub_resource, kind.api_version, api.now(), paths)
    if api.store.get(kind.kind_id, namespace, name) is None:
        if sub_resource:
            raise not_found(kind.group, kind.plural, name)
        configuration["metadata"]["managedFields"] = encode_managers([manager])
        return api.create(kind, namespace, configuration, options), True

    def owner_before(live: Object, manager: Manager) -> Manager:
        """Who owns what is there when the first apply comes."""
        client_side = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
        if client_side and manager.name == KUBECTL:
            # kubectl goes on with what it applied from the client's side, as its own migration would have it.
            try:
                paths = set(owned_values(orjson.loads(client_side), rules))
            except orjson.JSONDecodeError:
                paths = set()
            return Manager(KUBECTL, "Apply", "", kind.api_version, manager.time, paths)
        return Manager(BEFORE_FIRST_APPLY, "Update", "", kind.api_version, manager.time, set(owned_values(live, rules)))

    def change(live: Object) -> Object:
        managers = decode_managers(live)
        if not managers:
            managers = [owner_before(live, manager)]
        previous = next((entry for entry in managers if entry.key == manager.key), None)
        others = [entry for entry in managers if entry.key != manager.key]
        conflicts = find_conflicts(owned_values(live, rules), applied, others)
        if conflicts and not force:
            raise _refusal(conflicts)
        for entry in others:
            entry.paths -= {conflict.path for conflict in conflicts}
        merged: Object = merge_applied(live, orjson.loads(orjson.dumps(configuration)), rules)
        if previous is not None:
            owned_by_others = set().union(*(entry.paths for entry in others)) if others else set()
            remove_given_up(merged, previous.paths - paths, paths | owned_by_others)
            if previous.paths == paths:
                manager.time = previous.time
        # In its old place, so that an apply that changes nothing writes nothing.
        place = managers.index(previous) if previous is not None else len(others)
        merged["metadata"]["managedFields"] = encode_managers([*others[:place], manager, *others[place:]])
        return merged

    stored = api.update(kind, namespace, name, change, sub_resource=sub_resource, manages_fields=True, options=options)
    return stored, False


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


def _refusal(conflicts: list[Conflict]) -> ApiError:
    causes: list[dict[str, Json]] = []
    lines: dict[str, list[str]] = {}
    for conflict in conflicts:
        using = f" using {conflict.api_version}" if conflict.operation == "Update" else ""
        who = f'conflict with "{conflict.manager}"{using}'
        causes.append({"reason": "FieldManagerConflict", "message": who, "field": conflict.field})
        lines.setdefault(who, []).append(conflict.field)
    count = f"{len(conflicts)} conflict{'s' if len(conflicts) > 1 else ''}"
    if len(conflicts) == 1:
        text = f"{next(iter(lines))}: {conflicts[0].field}"
    else:
        text = ", ".join(f"{who}:\n- " + "\n- ".join(fields) for who, fields in lines.items())
    return ApiError(409, "Conflict", f"Apply failed with {count}: {text}", {"causes": causes})
