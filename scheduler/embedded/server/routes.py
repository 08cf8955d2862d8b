"""The API by paths, verbs, bodies and content types: one function call per request into `rest`, and its reply.

Rules of this module
  1. Nothing in here awaits: a request cannot interleave with another.
  2. Every refusal is a Status body with the right code.

Not here: HTTP (`http_server`), what the verbs mean (`rest`), watches (`watches`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

import orjson

from scheduler.embedded.server import discovery
from scheduler.embedded.server.apply import apply_configuration
from scheduler.embedded.server.field_validation import STRICT, check_fields
from scheduler.embedded.server.incoming import Incoming, drop_nulls
from scheduler.embedded.server.list_params import ListParams, parse_list_params
from scheduler.embedded.server.list_rules import rules_of_patch
from scheduler.embedded.server.object_store import Stored
from scheduler.embedded.server.pagination import Lists
from scheduler.embedded.server.patches import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    apply_json_patch,
    apply_merge_patch,
    apply_strategic_merge_patch,
)
from scheduler.embedded.server.rest import Api
from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.embedded.server.statuses import (
    ApiError,
    bad_request,
    method_not_allowed,
    no_such_path,
    unsupported_media_type,
)
from scheduler.embedded.server.strategy import Object
from scheduler.embedded.server.views import JSON_TYPE, View, wants_table
from scheduler.validation.field_errors import Json

_LOG: Final = logging.getLogger(__name__)
_PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)
_SUCCESS: Final[dict[str, Json]] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


@dataclass(slots=True)
class Target:
    """What a path names."""

    kind: ServedKind
    namespace: str
    name: str
    sub_resource: str


@dataclass(slots=True)
class Reply:
    """What a request is answered: HTTP code and body."""

    body: bytes
    code: int = 200
    content_type: str = JSON_TYPE
    headers: dict[str, str] = field(default_factory=dict)


def refusal(error: ApiError, incoming: Incoming) -> Reply:
    """The reply that says what is wrong with a request."""
    _LOG.debug("%s %s: %d %s", incoming.method, incoming.path, error.code, error.message)
    return Reply(orjson.dumps(error.status()), error.code, headers=dict(error.headers))


class Routes:
    """Answers requests."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.lists = Lists(api)

    def reply_to(self, incoming: Incoming) -> Reply:
        """The answer to a request that is no watch."""
        try:
            return self._respond(incoming)
        except ApiError as error:
            return refusal(error, incoming)

    def watched(self, incoming: Incoming) -> tuple[View, str, ListParams] | None:
        """What a watch is to show, of which namespace; None for other requests. Raises ApiError."""
        if incoming.method != "GET" or not incoming.is_watch:
            return None
        target = self._resolve(incoming.path)
        if target is None or target.name:
            return None
        return self._view(target.kind, incoming), target.namespace, parse_list_params(incoming.query, target.kind)

    # -- routing -----------------------------------------------------------------------------------

    def _resolve(self, path: str) -> Target | None:
        """The kind, namespace, name and sub-resource of a resource path; None for other paths.

        Raises:
            ApiError: 404, a path below /api or /apis that names nothing.
        """
        steps = path.strip("/").split("/")
        if steps[0] == "api" and len(steps) > 2:
            group, version, rest = "", steps[1], steps[2:]
        elif steps[0] == "apis" and len(steps) > 3:
            group, version, rest = steps[1], steps[2], steps[3:]
        else:
            return None
        namespace = ""
        # /namespaces/NS/RESOURCE... is a path inside a namespace; /namespaces/NS[/status|/finalize] the namespace.
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        kind = self._api.registry.by_path(group, version, rest[0])
        if kind is None or len(rest) > 3 or (namespace and not kind.is_namespaced):
            raise no_such_path()
        name = rest[1] if len(rest) > 1 else ""
        sub_resource = rest[2] if len(rest) > 2 else ""
        if kind.is_namespaced and name and not namespace:
            raise no_such_path()
        if sub_resource in ("attach", "exec", "log", "portforward"):
            raise bad_request(f"{kind.plural}/{sub_resource}: no container runs in an embedded cluster")
        if sub_resource and sub_resource not in kind.sub_resource_names:
            raise no_such_path()
        return Target(kind, namespace, name, sub_resource)

    def _respond(self, incoming: Incoming) -> Reply:
        if incoming.path.startswith("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"):
            return self._access_review(incoming)
        target = self._resolve(incoming.path)
        if target is None:
            return self._self_description(incoming)
        if target.sub_resource and target.sub_resource != "status":
            return self._sub_resource(target, incoming)
        match incoming.method:
            case "GET" if target.name:
                return self._get(target, incoming)
            case "GET":
                return self._list(target, incoming)
            case "POST" if not target.name:
                return self._create(target, incoming)
            case "PUT" if target.name:
                return self._put(target, incoming)
            case "PATCH" if target.name:
                return self._patch(target, incoming)
            case "DELETE" if target.name and not target.sub_resource:
                return self._delete(target, incoming)
            case "DELETE" if not target.name:
                return self._delete_collection(target, incoming)
            case _:
                raise method_not_allowed(target.kind.group, target.kind.plural, incoming.method.lower())

    # -- reading -----------------------------------------------------------------------------------

    def _view(self, kind: ServedKind, incoming: Incoming) -> View:
        includes = incoming.query.get("includeObject") == "Object"
        return View(kind, is_table=wants_table(incoming.accept), includes_object=includes)

    def _get(self, target: Target, incoming: Incoming) -> Reply:
        view = self._view(target.kind, incoming)
        return Reply(view.one(self._api.get(target.kind, target.namespace, target.name)))

    def _list(self, target: Target, incoming: Incoming) -> Reply:
        params = parse_list_params(incoming.query, target.kind)
        return Reply(self.lists.page(self._view(target.kind, incoming), target.namespace, params))

    # -- writing -----------------------------------------------------------------------------------

    def _written(self, kind: ServedKind, stored: Stored, incoming: Incoming, status: int = 200) -> Reply:
        warnings = kind.strategy.warnings(stored.obj, self._api) if incoming.method != "DELETE" else ()
        headers = {"Warning": ", ".join(f'299 - "{text}"' for text in warnings)} if warnings else {}
        return Reply(self._view(kind, incoming).one(stored), status, headers=headers)

    def _check_kind(self, kind: ServedKind, obj: Object) -> None:
        said_version, said_kind = obj.get("apiVersion"), obj.get("kind")
        if said_version and said_version != kind.api_version:
            expected = f"the expected API version ({kind.api_version})"
            raise bad_request(f"the API version in the data ({said_version}) does not match {expected}")
        if said_kind and said_kind != kind.kind:
            raise bad_request(
                f'{said_kind} in version "{said_version}" cannot be handled as a {kind.kind}: '
                f'no kind "{said_kind}" is registered for this path'
            )

    def _stored_shape(self, kind: ServedKind, obj: Object) -> Object:
        return kind.to_storage(obj) if kind.to_storage is not None else obj

    def _whole_object(self, kind: ServedKind, incoming: Incoming) -> Object:
        """The body of a POST or PUT, in its stored shape."""
        obj = incoming.object_body()
        self._check_kind(kind, obj)
        if incoming.query.get("fieldValidation") == STRICT:
            check_fields(kind, obj)
        return self._stored_shape(kind, obj)

    def _create(self, target: Target, incoming: Incoming) -> Reply:
        obj = self._whole_object(target.kind, incoming)
        if target.kind.is_namespaced and not target.namespace:
            raise bad_request("an empty namespace may not be set during creation")
        stored = self._api.create(target.kind, target.namespace, obj, incoming.write_options())
        return self._written(target.kind, stored, incoming, 201)

    def _put(self, target: Target, incoming: Incoming) -> Reply:
        kind = target.kind
        obj, options = self._whole_object(kind, incoming), incoming.write_options()
        try:
            self._api.get(kind, target.namespace, target.name)
        except ApiError as missing:
            if missing.code != 404 or not kind.strategy.allows_create_on_update:
                raise
            obj.setdefault("metadata", {}).setdefault("name", target.name)
            return self._written(kind, self._api.create(kind, target.namespace, obj, options), incoming, 201)
        stored = self._api.update(
            kind,
            target.namespace,
            target.name,
            lambda old: obj,
            sub_resource=target.sub_resource,
            is_replacement=True,
            options=options,
        )
        return self._written(kind, stored, incoming)

    def _patch(self, target: Target, incoming: Incoming) -> Reply:
        kind = target.kind
        media = incoming.content_type
        if media not in _PATCH_TYPES:
            raise unsupported_media_type(media, _PATCH_TYPES)
        patch = incoming.json_body()
        options = incoming.write_options()
        if media == APPLY_PATCH:
            return self._apply(target, incoming, patch)

        def change(old: Object) -> Object:
            shown = kind.from_storage(old) if kind.from_storage is not None else old
            if media == JSON_PATCH:
                new = apply_json_patch(shown, patch)
            elif media == MERGE_PATCH:
                if not isinstance(patch, dict):
                    raise bad_request("merge patch must be an object")
                new = apply_merge_patch(shown, patch)
            else:
                new = apply_strategic_merge_patch(shown, patch, rules_of_patch(kind.kind))
            return self._stored_shape(kind, new)

        sub_resource = target.sub_resource
        stored = self._api.update(
            kind, target.namespace, target.name, change, sub_resource=sub_resource, options=options
        )
        return self._written(kind, stored, incoming)

    def _apply(self, target: Target, incoming: Incoming, configuration: Json) -> Reply:
        if not isinstance(configuration, dict):
            raise bad_request("the applied configuration must be an object")
        drop_nulls(configuration)
        self._check_kind(target.kind, configuration)
        configuration = self._stored_shape(target.kind, configuration)
        if not incoming.query.get("fieldManager"):
            raise bad_request(
                "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch"
            )
        stored, is_new = apply_configuration(
            self._api,
            target.kind,
            target.namespace,
            target.name,
            configuration,
            sub_resource=target.sub_resource,
            options=incoming.write_options(),
        )
        return self._written(target.kind, stored, incoming, 201 if is_new else 200)

    def _delete(self, target: Target, incoming: Incoming) -> Reply:
        kind = target.kind
        stored, is_gone = self._api.delete(kind, target.namespace, target.name, incoming.delete_options())
        if not is_gone or kind.strategy.returns_deleted_object:
            return self._written(kind, stored, incoming)
        details = {"name": target.name, "kind": kind.plural, "uid": stored.uid}
        if kind.group:
            details["group"] = kind.group
        return Reply(orjson.dumps({**_SUCCESS, "details": details}))

    def _delete_collection(self, target: Target, incoming: Incoming) -> Reply:
        params = parse_list_params(incoming.query, target.kind)
        options = incoming.delete_options()
        chosen = self._api.select(target.kind, target.namespace, params.labels, params.fields)
        for stored in chosen:
            try:
                self._api.delete(target.kind, stored.namespace, stored.name, options)
            except ApiError as error:
                if error.code != 404:
                    raise
        body = View(target.kind).listing(chosen, {"resourceVersion": str(self._api.store.revision)})
        return Reply(body)

    # -- sub-resources and other paths -------------------------------------------------------------

    def _sub_resource(self, target: Target, incoming: Incoming) -> Reply:
        kind = target.kind
        served = kind.sub_resources[target.sub_resource]
        if incoming.method != served.method:
            what = f"{kind.plural}/{target.sub_resource}"
            raise method_not_allowed(kind.group, what, incoming.method.lower())
        body, options = incoming.object_body(), incoming.write_options()
        written = served.answer(self._api, kind, target.namespace, target.name, body, options=options)
        if written is not None:
            return self._written(kind, written, incoming)
        return Reply(orjson.dumps({**_SUCCESS, "code": 201}), 201)

    def _access_review(self, incoming: Incoming) -> Reply:
        if incoming.method != "POST":
            raise method_not_allowed("authorization.k8s.io", "selfsubjectaccessreviews", incoming.method.lower())
        head = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
        spec = incoming.object_body().get("spec") or {}
        return Reply(orjson.dumps({**head, "spec": spec, "status": {"allowed": True}}), 201)

    def _self_description(self, incoming: Incoming) -> Reply:
        if incoming.method not in ("GET", "HEAD"):
            raise method_not_allowed("", incoming.path, incoming.method.lower())
        body, content_type = discovery.answer(self._api.registry, incoming.path, self._api.minor)
        return Reply(body, content_type=content_type)
