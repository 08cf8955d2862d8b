"""The query of a LIST or WATCH request, parsed and checked.

Source: k8s.io/apimachinery v0.36.3 pkg/apis/meta/internalversion/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.embedded.server.field_selectors import ObjectPredicate, parse_field_selector
from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.embedded.server.statuses import bad_request, invalid_object
from scheduler.model.label_selectors import SelectorTextError, TextSelector, parse_label_selector
from scheduler.validation.field_errors import FieldError, forbidden, not_supported

EXACT: Final = "Exact"
NOT_OLDER_THAN: Final = "NotOlderThan"


@dataclass(frozen=True, slots=True)
class ListParams:
    """What a LIST or WATCH asks for."""

    labels: TextSelector | None
    fields: ObjectPredicate | None
    is_watch: bool
    resource_version: str
    version_match: str
    limit: int
    continue_token: str
    timeout_s: float | None
    bookmarks: bool
    send_initial_events: bool | None

    @property
    def revision(self) -> int:
        """The resource version as a number; 0 when absent. Raises ApiError: 400, not a number."""
        if not self.resource_version:
            return 0
        try:
            return int(self.resource_version)
        except ValueError:
            raise bad_request(f'resourceVersion: Invalid value: "{self.resource_version}": must be a number') from None


def parse_list_params(query: Mapping[str, str], kind: ServedKind) -> ListParams:
    """Read the query. Raises ApiError: 400 for what cannot be parsed, 422 for combinations that are not allowed."""
    initial = query.get("sendInitialEvents")
    params = ListParams(
        labels=_label_selector(query.get("labelSelector", "")),
        fields=parse_field_selector(query.get("fieldSelector", ""), kind.field_paths),
        is_watch=_flag(query, "watch"),
        resource_version=query.get("resourceVersion", ""),
        version_match=query.get("resourceVersionMatch", ""),
        limit=_number(query, "limit"),
        continue_token=query.get("continue", ""),
        timeout_s=float(_number(query, "timeoutSeconds")) if query.get("timeoutSeconds") else None,
        bookmarks=_flag(query, "allowWatchBookmarks"),
        send_initial_events=None if initial is None else _flag(query, "sendInitialEvents"),
    )
    errors = _watch_errors(params) if params.is_watch else _list_errors(params)
    if errors:
        raise invalid_object("meta.k8s.io", "ListOptions", "", errors)
    return params


def _label_selector(text: str) -> TextSelector | None:
    if not text.strip():
        return None
    try:
        return parse_label_selector(text)
    except SelectorTextError as error:
        raise bad_request(f'unable to parse label selector "{text}": {error}') from None


def _flag(query: Mapping[str, str], name: str) -> bool:
    # Go's conversion: anything but "false" and "0" is true, an empty value included.
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number') from None


def _list_errors(params: ListParams) -> list[FieldError]:
    errors: list[FieldError] = []
    match = params.version_match
    path = "resourceVersionMatch"
    if match:
        if not params.resource_version:
            errors.append(forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if params.continue_token:
            errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in (EXACT, NOT_OLDER_THAN):
            errors.append(not_supported(path, match, (EXACT, NOT_OLDER_THAN, "")))
        if match == EXACT and params.resource_version == "0":
            errors.append(forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if params.send_initial_events is not None:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(params: ListParams) -> list[FieldError]:
    errors: list[FieldError] = []
    match = params.version_match
    path = "resourceVersionMatch"
    if params.send_initial_events is not None and match != NOT_OLDER_THAN:
        errors.append(forbidden(path, f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"))
    if match:
        if params.send_initial_events is None:
            errors.append(
                forbidden(path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            )
        if match != NOT_OLDER_THAN:
            errors.append(not_supported(path, match, (NOT_OLDER_THAN,)))
        if params.continue_token:
            errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
    return errors
