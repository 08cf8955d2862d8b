"""The API over HTTP: paths, verbs, bodies, content types; one function call per request into `rest`.

Rules of this module
  1. A request is applied between two awaits, after its body has been read: it cannot interleave with another.
  2. Every refusal is a Status body with the right code; an error of ours is a 500 that says which.

Not here: what the verbs mean (`rest`), watches (`watches`), the process around it (`cluster`).
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

import orjson
import yaml
from aiohttp import web

from scheduler.embedded.kinds.catalog import CLAIM
from scheduler.embedded.kinds.pod_requests import bind_pod, evict_pod
from scheduler.embedded.server import discovery
from scheduler.embedded.server.apply import apply_configuration
from scheduler.embedded.server.faults import Effect, Fault, Faults
from scheduler.embedded.server.field_validation import STRICT, check_fields
from scheduler.embedded.server.guard import Guard
from scheduler.embedded.server.kinds import Kind
from scheduler.embedded.server.list_params import parse_list_params
from scheduler.embedded.server.list_rules import rules_of_kind
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
from scheduler.embedded.server.protobuf import PROTOBUF, decode_object
from scheduler.embedded.server.rest import Api, DeleteOptions, WriteOptions
from scheduler.embedded.server.scales import read_scale, write_scale
from scheduler.embedded.server.statuses import (
    ApiError,
    bad_request,
    forbidden_request,
    invalid_object,
    method_not_allowed,
    no_such_path,
    not_found,
    unsupported_media_type,
)
from scheduler.embedded.server.store import Stored
from scheduler.embedded.server.strategy import Object
from scheduler.embedded.server.views import JSON_TYPE, Form, View, negotiate
from scheduler.embedded.server.watches import Watches
from scheduler.validation.field_errors import Json, forbidden
from scheduler.yaml_reading import load as load_yaml

REQUEST_SIZE_MAX: Final = 3 * 1024 * 1024
"""Bytes of a request body, as in kube-apiserver."""

_LOG: Final = logging.getLogger(__name__)
_PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)
_SUCCESS: Final[dict[str, Json]] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


@dataclass(slots=True)
class Target:
    """What a path names."""

    kind: Kind
    namespace: str
    name: str
    sub_resource: str


@dataclass(slots=True)
class Incoming:
    """One request, its body read."""

    method: str
    path: str
    query: dict[str, str]
    accept: str
    content_type: str
    user_agent: str
    body: bytes

    def write_options(self) -> WriteOptions:
        """dryRun and fieldManager; like the real server, the manager defaults to the client's name."""
        manager = self.query.get("fieldManager") or self.user_agent.split("/", 1)[0][:128] or "unknown"
        dry_run = self.query.get("dryRun", "")
        if dry_run not in ("", "All"):
            raise bad_request(f'dryRun: Unsupported value: "{dry_run}": supported values: "All"')
        return WriteOptions(dry_run=dry_run == "All", manager=manager)

    def json_body(self) -> Json:
        """The body as JSON (or YAML, or the protobuf that kubectl sends).

        Raises:
            ApiError: 400 or 415.
        """
        media = self.content_type
        if media in (JSON_TYPE, "", JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, "application/octet-stream"):
            try:
                return orjson.loads(self.body)
            except orjson.JSONDecodeError as error:
                raise bad_request(f"the object provided is not valid JSON: {error}") from error
        if media in ("application/yaml", "application/apply-patch+yaml", "text/yaml"):
            try:
                return load_yaml(self.body)
            except yaml.YAMLError as error:
                raise bad_request(f"the object provided is not valid YAML: {error}") from error
        if media == PROTOBUF:
            return decode_object(self.body)
        raise unsupported_media_type(media, (JSON_TYPE, "application/yaml"))

    def object_body(self) -> Object:
        """The body as an object; null members are left out, as they mean the same to the API as absent ones."""
        body = self.json_body()
        if b"null" in self.body:
            drop_nulls(body)
        if not isinstance(body, dict):
            raise bad_request(f"the body must be an object, not {type(body).__name__}")
        return body


def drop_nulls(value: Json) -> None:
    """Remove null members at every depth, but for what drivers' parameters hold: these are not the API's."""
    if isinstance(value, dict):
        for key in [key for key, below in value.items() if below is None]:
            del value[key]
        for key, below in value.items():
            if key != "opaque":
                drop_nulls(below)
    elif isinstance(value, list):
        for below in value:
            drop_nulls(below)


def _reply(body: bytes, status: int = 200, *, content_type: str = JSON_TYPE) -> web.Response:
    return web.Response(body=body, status=status, headers={"Content-Type": content_type})


def _reply_json(body: Json, status: int = 200) -> web.Response:
    return _reply(orjson.dumps(body), status)


class HttpServer:
    """Answers requests; `handle` is what an aiohttp low-level server calls.

    Args:
        watches: Where watch requests go.
        faults: Asked before each request.
        guard: Asked before everything else; None: nobody is kept out.
    """

    def __init__(self, api: Api, watches: Watches, faults: Faults, guard: Guard | None = None) -> None:
        self._api = api
        self._watches = watches
        self._faults = faults
        self._guard = guard
        self.lists = Lists(api)
        self._late: set[asyncio.Task[None]] = set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        incoming = Incoming(
            method=request.method,
            path=request.path,
            query=dict(parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True)),
            accept=request.headers.get("Accept", ""),
            content_type=request.headers.get("Content-Type", "").split(";")[0].strip(),
            user_agent=request.headers.get("User-Agent", ""),
            body=b"",
        )
        try:
            if self._guard is not None:
                incoming.path = self._guard.path_of(request)
            if request.body_exists:
                incoming.body = await request.read()
            query = request.query_string
            fault = self._faults.take(incoming.method, f"{incoming.path}?{query}" if query else incoming.path)
            if fault is not None:
                return await self._with_fault(fault, request, incoming)
            return await self._answer(request, incoming)
        except ApiError as error:
            return self._refusal(error, incoming)
        except web.HTTPRequestEntityTooLarge:
            return self._refusal(ApiError(413, "RequestEntityTooLarge", f"limit is {REQUEST_SIZE_MAX} bytes"), incoming)

    async def _answer(self, request: web.BaseRequest, incoming: Incoming) -> web.StreamResponse:
        try:
            if incoming.method == "GET":
                target = self._resolve(incoming.path)
                if target is not None and not target.name and self._is_watch(incoming):
                    return await self._watch(request, target, incoming)
            return self._respond(incoming)
        except ApiError as error:
            return self._refusal(error, incoming)
        except Exception as error:  # one broken request must not take the server down
            _LOG.exception("%s %s failed", incoming.method, incoming.path)
            return self._refusal(ApiError(500, "InternalError", f"Internal error occurred: {error!r}"), incoming)

    def reply_to(self, incoming: Incoming) -> tuple[int, bytes]:
        """Code and body of the answer to anything but a watch, for who needs no HTTP; nothing in here awaits."""
        try:
            response = self._respond(incoming)
        except ApiError as error:
            return error.code, orjson.dumps(error.status())
        body = response.body
        return response.status, body if isinstance(body, bytes) else b""

    def _refusal(self, error: ApiError, incoming: Incoming) -> web.Response:
        _LOG.debug("%s %s: %d %s", incoming.method, incoming.path, error.code, error.message)
        response = _reply_json(error.status(), error.code)
        response.headers.update(error.headers)
        return response

    # -- faults ------------------------------------------------------------------------------------

    async def _with_fault(self, fault: Fault, request: web.BaseRequest, incoming: Incoming) -> web.StreamResponse:
        match fault.effect:
            case Effect.REFUSE:
                assert fault.error is not None
                return self._refusal(fault.error, incoming)
            case Effect.DELAY:
                await asyncio.sleep(fault.delay_s)
                return await self._answer(request, incoming)
            case Effect.DROP_REQUEST:
                if fault.land_after_s is not None:
                    self._land_later(incoming, fault.land_after_s)
            case Effect.DROP_REPLY:
                try:
                    self._respond(incoming)
                except ApiError as error:
                    _LOG.debug("dropped reply was a refusal: %s", error.message)
        if request.transport is not None:
            request.transport.abort()
        # Never sent: the connection is gone.
        return web.Response(status=503)

    def _land_later(self, incoming: Incoming, seconds: float) -> None:
        async def land() -> None:
            await asyncio.sleep(seconds)
            try:
                self._respond(incoming)
            except ApiError as error:
                _LOG.debug("late request was refused: %s", error.message)

        task = asyncio.get_running_loop().create_task(land())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def close(self) -> None:
        """Drop requests that have not landed yet."""
        for task in tuple(self._late):
            task.cancel()

    # -- routing -----------------------------------------------------------------------------------

    @staticmethod
    def _is_watch(incoming: Incoming) -> bool:
        value = incoming.query.get("watch")
        return value is not None and value.lower() not in ("false", "0")

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
        if sub_resource and sub_resource not in discovery.sub_resources_of(kind):
            raise no_such_path()
        return Target(kind, namespace, name, sub_resource)

    def _respond(self, incoming: Incoming) -> web.Response:
        """Answer everything but a watch; nothing in here awaits."""
        # POST .../namespaces/NS/bindings is the old address of a pod's binding.
        if incoming.method == "POST" and incoming.path.endswith("/bindings"):
            return self._old_binding(incoming)
        if incoming.path.startswith("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"):
            return self._access_review(incoming)
        target = self._resolve(incoming.path)
        if target is None:
            return self._non_resource(incoming)
        self._authorize(target, incoming)
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

    def _verb(self, target: Target, incoming: Incoming) -> str:
        match incoming.method:
            case "GET" if target.name:
                return "get"
            case "GET":
                return "watch" if self._is_watch(incoming) else "list"
            case "DELETE":
                return "delete" if target.name else "deletecollection"
            case method:
                return {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, method.lower())

    def _authorize(self, target: Target, incoming: Incoming) -> None:
        verb = self._verb(target, incoming)
        kind = target.kind
        if self._faults.is_denied(verb, kind.group, kind.plural, target.sub_resource):
            resource = f"{kind.plural}/{target.sub_resource}" if target.sub_resource else kind.plural
            where = f' in the namespace "{target.namespace}"' if target.namespace else " at the cluster scope"
            raise forbidden_request(
                kind.group,
                resource,
                target.name,
                f'User "embedded" cannot {verb} resource "{resource}" in API group "{kind.group}"{where}',
            )

    # -- reading -----------------------------------------------------------------------------------

    def _view(self, kind: Kind, incoming: Incoming) -> View:
        return View(kind, negotiate(incoming.accept), include_object=incoming.query.get("includeObject") or "Metadata")

    def _get(self, target: Target, incoming: Incoming) -> web.Response:
        view = self._view(target.kind, incoming)
        return _reply(view.one(self._api.get(target.kind, target.namespace, target.name)))

    def _list(self, target: Target, incoming: Incoming) -> web.Response:
        params = parse_list_params(incoming.query, target.kind)
        return _reply(self.lists.page(self._view(target.kind, incoming), target.namespace, params))

    async def _watch(self, request: web.BaseRequest, target: Target, incoming: Incoming) -> web.StreamResponse:
        self._authorize(target, incoming)
        params = parse_list_params(incoming.query, target.kind)
        return await self._watches.serve(request, self._view(target.kind, incoming), target.namespace, params)

    # -- writing -----------------------------------------------------------------------------------

    def _written(self, kind: Kind, stored: Stored, incoming: Incoming, status: int = 200) -> web.Response:
        try:
            view = self._view(kind, incoming)
        except ApiError:
            view = View(kind, Form.PLAIN)  # It is written already; the answer must not say otherwise.
        return _reply(view.one(stored), status)

    def _check_kind(self, kind: Kind, obj: Object) -> None:
        said_version, said_kind = obj.get("apiVersion"), obj.get("kind")
        if said_version and said_version != kind.api_version:
            expected = f"the expected API version ({kind.api_version})"
            raise bad_request(f"the API version in the data ({said_version}) does not match {expected}")
        if said_kind and said_kind != kind.kind:
            raise bad_request(
                f'{said_kind} in version "{said_version}" cannot be handled as a {kind.kind}: '
                f'no kind "{said_kind}" is registered for this path'
            )

    def _check_fields(self, kind: Kind, obj: Object, incoming: Incoming) -> None:
        if incoming.query.get("fieldValidation") == STRICT:
            check_fields(kind, obj)

    def _stored_shape(self, kind: Kind, obj: Object) -> Object:
        return kind.to_storage(obj) if kind.to_storage is not None else obj

    def _create(self, target: Target, incoming: Incoming) -> web.Response:
        kind = target.kind
        obj = incoming.object_body()
        self._check_kind(kind, obj)
        namespace = target.namespace
        self._check_fields(kind, obj, incoming)
        if kind.is_namespaced and not namespace:
            raise bad_request("an empty namespace may not be set during creation")
        stored = self._api.create(kind, namespace, self._stored_shape(kind, obj), incoming.write_options())
        return self._written(kind, stored, incoming, 201)

    def _put(self, target: Target, incoming: Incoming) -> web.Response:
        kind = target.kind
        obj = incoming.object_body()
        self._check_kind(kind, obj)
        self._check_fields(kind, obj, incoming)
        shaped = self._stored_shape(kind, obj)
        options = incoming.write_options()
        try:
            self._api.get(kind, target.namespace, target.name)
        except ApiError as missing:
            if missing.code != 404 or not kind.strategy.allows_create_on_update:
                raise
            shaped.setdefault("metadata", {}).setdefault("name", target.name)
            return self._written(kind, self._api.create(kind, target.namespace, shaped, options), incoming, 201)
        stored = self._api.update(
            kind,
            target.namespace,
            target.name,
            self._needing_permission(target, incoming, lambda old: shaped),
            sub_resource=target.sub_resource,
            is_replacement=True,
            options=options,
        )
        return self._written(kind, stored, incoming)

    def _patch(self, target: Target, incoming: Incoming) -> web.Response:
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
                new = apply_strategic_merge_patch(shown, patch, rules_of_kind(kind.kind))
            return self._stored_shape(kind, new)

        stored = self._api.update(
            kind,
            target.namespace,
            target.name,
            self._needing_permission(target, incoming, change),
            sub_resource=target.sub_resource,
            options=options,
        )
        return self._written(kind, stored, incoming)

    def _needing_permission(
        self, target: Target, incoming: Incoming, change: Callable[[Object], Object]
    ) -> Callable[[Object], Object]:
        """Claims: who changes allocation or reservedFor needs `resourceclaims/binding` too (Kubernetes 1.36)."""
        kind, verb = target.kind, self._verb(target, incoming)
        if kind is not CLAIM or not self._faults.is_denied(verb, kind.group, kind.plural, "binding"):
            return change

        def guarded(old: Object) -> Object:
            before = orjson.dumps([(old.get("status") or {}).get(field) for field in ("allocation", "reservedFor")])
            new = change(old)
            after = orjson.dumps([(new.get("status") or {}).get(field) for field in ("allocation", "reservedFor")])
            if target.sub_resource == "status" and before != after:
                text = (
                    "changing status.allocation or status.reservedFor requires "
                    f'resource="resourceclaims/binding", verb="{verb}" permission'
                )
                raise invalid_object(kind.group, kind.kind, target.name, [forbidden("status.allocation", text)])
            return new

        return guarded

    def _apply(self, target: Target, incoming: Incoming, configuration: Json) -> web.Response:
        if not isinstance(configuration, dict):
            raise bad_request("the applied configuration must be an object")
        drop_nulls(configuration)
        self._check_kind(target.kind, configuration)
        configuration = self._stored_shape(target.kind, configuration)
        manager = incoming.query.get("fieldManager", "")
        if not manager:
            raise bad_request(
                "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch"
            )
        force = incoming.query.get("force", "false").lower() in ("true", "1")
        stored, is_new = apply_configuration(
            self._api,
            target.kind,
            target.namespace,
            target.name,
            configuration,
            sub_resource=target.sub_resource,
            options=incoming.write_options(),
            force=force,
        )
        return self._written(target.kind, stored, incoming, 201 if is_new else 200)

    def _delete_options(self, incoming: Incoming) -> DeleteOptions:
        body: Object = {}
        if incoming.body:
            body = incoming.object_body()
        preconditions = body.get("preconditions") or {}
        grace = body.get("gracePeriodSeconds", incoming.query.get("gracePeriodSeconds"))
        dry_run = body.get("dryRun") or ([incoming.query["dryRun"]] if incoming.query.get("dryRun") else [])
        propagation = body.get("propagationPolicy") or incoming.query.get("propagationPolicy") or ""
        orphan = body.get("orphanDependents", incoming.query.get("orphanDependents"))
        if orphan is not None and not propagation:
            propagation = "Orphan" if str(orphan).lower() == "true" else "Background"
        return DeleteOptions(
            grace_period_s=None if grace is None else int(grace),
            uid=preconditions.get("uid") or "",
            resource_version=preconditions.get("resourceVersion") or "",
            propagation=propagation,
            dry_run="All" in dry_run,
        )

    def _delete(self, target: Target, incoming: Incoming) -> web.Response:
        kind = target.kind
        stored, is_gone = self._api.delete(kind, target.namespace, target.name, self._delete_options(incoming))
        if not is_gone or kind.strategy.returns_deleted_object:
            return self._written(kind, stored, incoming)
        details = {"name": target.name, "kind": kind.plural, "uid": stored.uid}
        if kind.group:
            details["group"] = kind.group
        return _reply_json({**_SUCCESS, "details": details})

    def _delete_collection(self, target: Target, incoming: Incoming) -> web.Response:
        params = parse_list_params(incoming.query, target.kind)
        options = self._delete_options(incoming)
        chosen = self._api.select(target.kind, target.namespace, params.labels, params.fields)
        for stored in chosen:
            try:
                self._api.delete(target.kind, stored.namespace, stored.name, options)
            except ApiError as error:
                if error.code != 404:
                    raise
        body = View(target.kind, Form.PLAIN).listing(chosen, {"resourceVersion": str(self._api.store.revision)})
        return _reply(body)

    # -- sub-resources and other paths -------------------------------------------------------------

    def _sub_resource(self, target: Target, incoming: Incoming) -> web.Response:
        match (target.sub_resource, incoming.method):
            case ("binding", "POST"):
                bind_pod(self._api, target.namespace, target.name, incoming.object_body(), incoming.write_options())
                return _reply_json({**_SUCCESS, "code": 201}, 201)
            case ("eviction", "POST"):
                evict_pod(self._api, target.namespace, target.name, incoming.object_body())
                return _reply_json({**_SUCCESS, "code": 201}, 201)
            case ("finalize", "PUT"):
                wanted = incoming.object_body().get("spec", {}).get("finalizers") or []
                return self._written(target.kind, self._api.finalize_namespace(target.name, wanted), incoming)
            case ("scale", "GET"):
                return _reply_json(read_scale(self._api, target.kind, target.namespace, target.name))
            case ("scale", "PUT" | "PATCH"):
                options = incoming.write_options()
                scale = write_scale(
                    self._api, target.kind, target.namespace, target.name, scale=incoming.object_body(), options=options
                )
                return _reply_json(scale)
            case (name, method):
                raise method_not_allowed(target.kind.group, f"{target.kind.plural}/{name}", method.lower())

    def _old_binding(self, incoming: Incoming) -> web.Response:
        steps = incoming.path.strip("/").split("/")
        if len(steps) != 5 or steps[:3] != ["api", "v1", "namespaces"]:
            raise no_such_path()
        body = incoming.object_body()
        name = (body.get("metadata") or {}).get("name") or ""
        if not name:
            raise not_found("", "pods", "")
        bind_pod(self._api, steps[3], name, body, incoming.write_options())
        return _reply_json({**_SUCCESS, "code": 201}, 201)

    def _access_review(self, incoming: Incoming) -> web.Response:
        if incoming.method != "POST":
            raise method_not_allowed("authorization.k8s.io", "selfsubjectaccessreviews", incoming.method.lower())
        review = incoming.object_body()
        asked = (review.get("spec") or {}).get("resourceAttributes") or {}
        is_denied = self._faults.is_denied(
            asked.get("verb", ""), asked.get("group", ""), asked.get("resource", ""), asked.get("subresource", "")
        )
        status = {"allowed": not is_denied, **({"reason": "denied on purpose"} if is_denied else {})}
        head = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
        return _reply_json({**head, "metadata": {}, "spec": review.get("spec") or {}, "status": status}, 201)

    def _non_resource(self, incoming: Incoming) -> web.Response:
        if incoming.method not in ("GET", "HEAD"):
            raise method_not_allowed("", incoming.path, incoming.method.lower())
        registry = self._api.registry
        answers: dict[str, Callable[[], web.Response]] = {
            "/version": lambda: _reply_json(discovery.version()),
            "/healthz": lambda: _reply(b"ok", content_type="text/plain"),
            "/livez": lambda: _reply(b"ok", content_type="text/plain"),
            "/readyz": lambda: _reply(b"ok", content_type="text/plain"),
            "/api": lambda: self._discovery(incoming, is_core=True),
            "/apis": lambda: self._discovery(incoming, is_core=False),
            "/openapi/v2": lambda: self._openapi_v2(incoming),
            "/openapi/v3": lambda: _reply_json(discovery.openapi_v3_index(registry)),
        }
        path = incoming.path.rstrip("/")
        if path in answers:
            return answers[path]()
        groups = discovery.groups_of(registry)
        match path.strip("/").split("/"):
            case ["api", "v1"]:
                return _reply_json(discovery.resource_list(registry, "", "v1"))
            case ["apis", group] if group in groups:
                return _reply_json(discovery.group(group, groups[group]))
            case ["apis", group, version] if version in groups.get(group, ()):
                return _reply_json(discovery.resource_list(registry, group, version))
            case ["openapi", "v3", "api", version] if version in groups[""]:
                return _reply_json(discovery.openapi_v3(registry, "", version))
            case ["openapi", "v3", "apis", group, version] if version in groups.get(group, ()):
                return _reply_json(discovery.openapi_v3(registry, group, version))
        raise no_such_path()

    def _discovery(self, incoming: Incoming, *, is_core: bool) -> web.Response:
        registry = self._api.registry
        for clause in incoming.accept.split(","):
            if "as=APIGroupDiscoveryList" in clause:
                version = "v2" if "v=v2;" in f"{clause.strip()};" else "v2beta1"
                body = discovery.aggregated(registry, is_core=is_core, form_version=version)
                return _reply(orjson.dumps(body), content_type=discovery.AGGREGATED_TYPE.format(version=version))
        return _reply_json(discovery.core_versions() if is_core else discovery.group_list(registry))

    def _openapi_v2(self, incoming: Incoming) -> web.Response:
        if "protobuf" in incoming.accept:
            return _reply(
                discovery.openapi_v2_protobuf(),
                content_type="application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
            )
        return _reply_json(discovery.openapi_v2())
