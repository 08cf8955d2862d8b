"""JSON patch, JSON merge patch and strategic merge patch: pure functions from object to object.

Rules of this module
  1. The object given may be changed; the result is what counts. Callers pass a private copy.
  2. A patch that cannot be applied is an `ApiError` that says where: 400 (cannot be read) or 422.

Not here: server-side apply around its merge (`apply`).

Source: RFC 6902 through the jsonpatch library; RFC 7386; for strategic merge patch
k8s.io/apimachinery v0.36.3 pkg/util/strategicpatch/patch.go. Of its directives `$patch` (replace,
delete, merge), `$retainKeys` and `$deleteFromPrimitiveList/…` are obeyed; `$setElementOrder/…` orders the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import jsonpatch
import jsonpointer

from scheduler.embedded.server.list_rules import REPLACED, ListRule
from scheduler.embedded.server.statuses import ApiError, bad_request
from scheduler.validation.field_errors import Json

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList/"
_ELEMENT_ORDER: Final = "$setElementOrder/"


def apply_json_patch(obj: dict[str, Json], operations: Json) -> dict[str, Json]:
    """Apply an RFC 6902 patch.

    Raises:
        ApiError: 400 when it is not a patch, 422 when an operation does not fit the object.
    """
    if not isinstance(operations, list):
        raise bad_request("json patch must be a list of operations")
    try:
        patched: Json = jsonpatch.JsonPatch(operations).apply(obj, in_place=True)
    except (jsonpatch.JsonPatchConflict, jsonpatch.JsonPatchTestFailed, jsonpointer.JsonPointerException) as error:
        raise _unprocessable(str(error)) from error
    except (jsonpatch.JsonPatchException, TypeError, KeyError) as error:
        raise bad_request(f"invalid json patch: {error}") from error
    if not isinstance(patched, dict):
        raise _unprocessable("the patch replaces the whole object by something that is not an object")
    return patched


def _unprocessable(why: str) -> ApiError:
    return ApiError(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
        {"causes": [{"reason": "UnexpectedServerResponse", "message": why}]},
    )


def apply_merge_patch(target: Json, patch: Json) -> Json:
    """Apply an RFC 7386 patch: null deletes, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = apply_merge_patch(target.get(key), value)
    return target


def apply_strategic_merge_patch(obj: dict[str, Json], patch: Json, rules: Mapping[str, ListRule]) -> dict[str, Json]:
    """Apply a strategic merge patch, merging lists by `rules`.

    Raises:
        ApiError: 400 when the patch, or an entry of a keyed list in it, has the wrong shape.
    """
    if not isinstance(patch, dict):
        raise bad_request("strategic merge patch must be an object")
    return _merge_map(obj, patch, rules, "")


def _merge_map(
    target: dict[str, Json], patch: dict[str, Json], rules: Mapping[str, ListRule], path: str
) -> dict[str, Json]:
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f'Unknown patch type "{directive}" in field "{path or "."}"')
    retained = patch.get("$retainKeys")
    if retained is not None:
        for key in [key for key in target if key not in retained]:
            del target[key]
    orders: dict[str, list[Json]] = {}
    for key, value in patch.items():
        if key in ("$patch", "$retainKeys"):
            continue
        if key.startswith(_ELEMENT_ORDER):
            orders[key.removeprefix(_ELEMENT_ORDER)] = value
        elif key.startswith(_DELETE_PRIMITIVES):
            name = key.removeprefix(_DELETE_PRIMITIVES)
            target[name] = [entry for entry in target.get(name) or () if entry not in value]
        else:
            _merge_member(target, key, value, rules, f"{path}.{key}" if path else key)
    for name, order in orders.items():
        rule = rules.get(f"{path}.{name}" if path else name, REPLACED)
        if isinstance(target.get(name), list):
            target[name] = _ordered(target[name], order, rule)
    return target


def _merge_member(target: dict[str, Json], key: str, value: Json, rules: Mapping[str, ListRule], path: str) -> None:
    if value is None:
        target.pop(key, None)
        return
    rule = rules.get(path, REPLACED)
    current = target.get(key)
    if isinstance(value, dict) and not rule.is_atomic_map:
        target[key] = _merge_map(current if isinstance(current, dict) else {}, value, rules, path)
    elif isinstance(value, list) and rule.keys:
        target[key] = _merge_keyed_list(current or [], value, rule, rules, path)
    elif isinstance(value, list) and rule.is_set:
        merged = list(current or ())
        target[key] = merged + [entry for entry in value if entry not in merged]
    else:
        target[key] = value


def _merge_keyed_list(
    current: list[Json], patch: list[Json], rule: ListRule, rules: Mapping[str, ListRule], path: str
) -> list[Json]:
    merged: list[Json] = list(current)
    for entry in patch:
        if not isinstance(entry, dict):
            raise bad_request(f"expected an object in field {path}, found {entry!r}")
        if entry.get("$patch") == "replace":
            # A directive entry: everything else in the patch is the new list.
            return [other for other in patch if not (isinstance(other, dict) and "$patch" in other)]
        if missing := [key for key in rule.keys if key not in entry and key not in rule.defaults]:
            raise bad_request(f"map: {entry!r} does not contain declared merge key: {missing[0]}, in field {path}")
        identity = _identity(entry, rule)
        at = next((i for i, old in enumerate(merged) if _identity(old, rule) == identity), None)
        if entry.get("$patch") == "delete":
            if at is not None:
                del merged[at]
        elif at is None:
            merged.append(_merge_map({}, entry, rules, path))
        else:
            merged[at] = _merge_map(merged[at], entry, rules, path)
    return merged


def _identity(entry: Mapping[str, Json], rule: ListRule) -> list[Json]:
    return [entry.get(key, rule.defaults.get(key)) for key in rule.keys]


def _ordered(entries: list[Json], order: list[Json], rule: ListRule) -> list[Json]:
    """Put the entries named by `order` into that order; the others keep their places behind."""

    def identity(entry: Json) -> Json:
        return _identity(entry, rule) if rule.keys and isinstance(entry, dict) else entry

    wanted = [identity(entry) for entry in order]
    named = [entry for entry in entries if identity(entry) in wanted]
    named.sort(key=lambda entry: wanted.index(identity(entry)))
    others = [entry for entry in entries if identity(entry) not in wanted]
    return named + others
