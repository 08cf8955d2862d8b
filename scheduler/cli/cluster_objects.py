"""What commands compare with, read from a live cluster: objects and feature gates. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.terminal import echo
from scheduler.kube.api_requests import ApiClient
from scheduler.kube.api_versions import ServedAs, UnansweredError, find_version
from scheduler.kube.codec import Codec
from scheduler.kube.credentials import Connection, CredentialsError
from scheduler.kube.feature_gates import read_gates
from scheduler.kube.outcomes import Accepted, Conflicted, Rejected, UndecodableError, WriteResult
from scheduler.kube.plugin_kinds import PLUGIN_KINDS
from scheduler.kube.preflight import read_version
from scheduler.model.disruption_budget import DISRUPTION_BUDGET

_NO_DEVICES: Final = "no device counts as free"
_LINTED: Final[Mapping[str, str]] = {
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1/resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "Node": "/api/v1/nodes",
}
_OTHERS: Final[Mapping[str, str]] = {
    "Namespace": "/api/v1/namespaces",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "ResourceQuota": "/api/v1/resourcequotas",
    **{kind.name: ServedAs(kind.group, ("v1",), kind.plural).path("v1") for kind in PLUGIN_KINDS},
    "Pod": "/api/v1/pods",
}
# What an answer about pods lacks without a kind; without one that is not here there is none.
_COSTS: Final[Mapping[str, str]] = {
    "ResourceSlice": _NO_DEVICES,
    "DeviceClass": _NO_DEVICES,
    "ResourceClaim": _NO_DEVICES,
    "DeviceTaintRule": _NO_DEVICES,
    "ResourceClaimTemplate": "claims are made from templates of files only",
    "PodGroup": "a pod of a group is looked at as if it were in none",
    "Namespace": "namespaces count as having no labels",
    "PriorityClass": "pods of files that name one are refused",
    "ResourceQuota": "what a quota refuses counts as let in",
    **{kind.name: kind.cost for kind in PLUGIN_KINDS},
    DISRUPTION_BUDGET: "pods are preempted as if no PodDisruptionBudget guarded them",
}
_PAGE: Final = 500


class ClusterReadError(WrongInputError):
    """The cluster could not be read; the text says what failed. Ends a command."""


class _UnlistedError(ClusterReadError):
    """One kind is not there, or may not be read."""


class ClusterObjects(NamedTuple):
    """What was read.

    Attributes:
        gates: The API server's feature gates, empty where it does not show them.
        namespace: That of the context, or of the pod that we run in; "" for none.
        origin: Where the credentials come from.
        version: The server's, as "v1.37.2"; "" where it does not say.
        unlisted: What could not be read, and what answers lack without it.
    """

    objects: list[dict[str, Any]]
    gates: Mapping[str, bool]
    namespace: str
    origin: str
    version: str
    unlisted: tuple[str, ...] = ()


def read_cluster(connection: Connection, *, is_whole: bool = False, warns: bool = True) -> ClusterObjects:
    """The objects lint compares with.

    Args:
        is_whole: All that the scheduler looks at: pods, namespaces, volumes, what selects or owns pods, …. Kinds that
            only some pods need may be missing then; `unlisted` says why, and what an answer lacks without them.
        warns: Print that, too.

    Raises:
        ClusterReadError: No connection, or a list was refused.
    """
    read = asyncio.run(_read(connection, is_whole=is_whole))
    for text in read.unlisted if warns else ():
        echo(f"warning: {text}", is_error=True)
    return read


def read_events(connection: Connection, namespace: str, pod: str) -> list[dict[str, Any]]:
    """The events about a pod. Raises ClusterReadError."""

    async def read() -> list[dict[str, Any]]:
        try:
            credentials = await connection.open()
        except CredentialsError as error:
            raise ClusterReadError(str(error)) from error
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events"
        about = quote(f"involvedObject.kind=Pod,involvedObject.name={pod}", safe="")
        async with ApiClient(credentials) as client:
            return await _list(client, "Event", path, f"&fieldSelector={about}")

    return asyncio.run(read())


async def _read(connection: Connection, *, is_whole: bool) -> ClusterObjects:
    try:
        credentials = await connection.open()
    except CredentialsError as error:
        raise ClusterReadError(str(error)) from error
    by_kind: dict[str, list[dict[str, Any]]] = {}
    unlisted: dict[str, str] = {}
    async with ApiClient(credentials) as client:
        for kind, where in _wanted(is_whole=is_whole).items():
            try:
                by_kind[kind] = await _list(client, kind, where)
            except _UnlistedError as error:
                if not is_whole or kind not in _COSTS:
                    raise
                unlisted[kind] = f"{error}; {_COSTS[kind]}"
        gates, version = await read_gates(client), await read_version(client)
    if any(_COSTS[kind] == _NO_DEVICES for kind in unlisted):
        # A device whose claim or taint is not seen would be given out twice, or where it must not.
        by_kind.pop("ResourceSlice", None)
    objects = [obj for listed in by_kind.values() for obj in listed]
    return ClusterObjects(objects, gates, credentials.namespace, credentials.origin, version, tuple(unlisted.values()))


def _wanted(*, is_whole: bool) -> Mapping[str, str | ServedAs]:
    """Where each kind is listed: a path, or what to find the path by."""
    codec = Codec()
    optional = {one.name: one.served_as for one in (codec.taint_rules, codec.pod_groups) if one.served_as is not None}
    return {**_LINTED, **(_OTHERS if is_whole else {}), **optional}


async def _list(client: ApiClient, kind: str, where: str | ServedAs, selected: str = "") -> list[dict[str, Any]]:
    path = where if isinstance(where, str) else await _served_path(client, kind, where)
    objects: list[dict[str, Any]] = []
    if path is None:
        return objects
    api_version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")[0]
    query = f"?limit={_PAGE}{selected}"
    while True:
        outcome = await client.send("GET", path + query)
        if not isinstance(outcome, Accepted):
            why = "conflict" if isinstance(outcome, Conflicted) else outcome.message
            if isinstance(outcome, Rejected) and outcome.code == HTTPStatus.UNAUTHORIZED:
                why = f"the API server does not accept the credentials of {client.origin}: {why}"
            elif isinstance(outcome, Rejected) and outcome.code == HTTPStatus.NOT_FOUND:
                raise _UnlistedError(f"cannot list {kind} objects: the API server does not have this kind")
            elif _is_forbidden(outcome):
                raise _UnlistedError(f"cannot list {kind} objects: {why}")
            raise ClusterReadError(f"cannot list {kind} objects: {why}")
        try:
            page = msgspec.json.decode(outcome.body)
            # Entries of a list come without their kind.
            objects += ({**entry, "apiVersion": api_version, "kind": kind} for entry in page.get("items") or ())
            following = (page.get("metadata") or {}).get("continue")
        except (msgspec.DecodeError, AttributeError, TypeError) as error:
            raise ClusterReadError(f"cannot list {kind} objects: the answer is no list: {error}") from error
        if not following:
            return objects
        query = f"?limit={_PAGE}{selected}&continue={quote(following, safe='')}"


async def _served_path(client: ApiClient, kind: str, served_as: ServedAs) -> str | None:
    """Where a kind is listed that a server may not have."""
    try:
        version = await find_version(client, served_as)
    except UnansweredError as error:
        unread = _UnlistedError if _is_forbidden(error.outcome) else ClusterReadError
        raise unread(f"cannot list {kind} objects: {error}") from error
    except UndecodableError as error:
        raise ClusterReadError(f"cannot list {kind} objects: {error}") from error
    return served_as.path(version) if version is not None else None


def _is_forbidden(outcome: WriteResult) -> bool:
    return isinstance(outcome, Rejected) and outcome.code == HTTPStatus.FORBIDDEN
