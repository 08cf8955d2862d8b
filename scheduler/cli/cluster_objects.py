"""What lint compares with, read from a live cluster: slices, classes, nodes, claims, feature gates. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from scheduler.kube.credentials import Connection, CredentialsError
from scheduler.kube.feature_gates import read_gates
from scheduler.kube.requests import Accepted, ApiClient, Conflicted

_PATHS: Final[Mapping[str, str]] = {
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1/resourceclaims",
    "Node": "/api/v1/nodes",
}
_PAGE: Final = 500


class ClusterReadError(Exception):
    """The cluster could not be read; the text says what failed."""


def read_cluster(kubeconfig: str, context: str | None) -> tuple[list[dict[str, Any]], Mapping[str, bool]]:
    """The objects lint compares with, and the API server's feature gates, empty where it does not show them.

    Raises:
        ClusterReadError: No connection, or a list was refused.
    """
    return asyncio.run(_read(kubeconfig, context))


async def _read(kubeconfig: str, context: str | None) -> tuple[list[dict[str, Any]], Mapping[str, bool]]:
    try:
        credentials = await Connection.from_kubeconfig(kubeconfig, context).open()
    except CredentialsError as error:
        raise ClusterReadError(str(error)) from error
    objects: list[dict[str, Any]] = []
    async with ApiClient(credentials) as client:
        for kind, path in _PATHS.items():
            objects += await _list(client, kind, path)
        return objects, await read_gates(client)


async def _list(client: ApiClient, kind: str, path: str) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = []
    query = f"?limit={_PAGE}"
    while True:
        outcome = await client.send("GET", path + query)
        if not isinstance(outcome, Accepted):
            why = "conflict" if isinstance(outcome, Conflicted) else outcome.message
            raise ClusterReadError(f"cannot list {kind} objects: {why}")
        try:
            page = msgspec.json.decode(outcome.body)
            # Entries of a list come without their kind.
            objects += ({**entry, "kind": kind} for entry in page.get("items") or ())
            following = (page.get("metadata") or {}).get("continue")
        except (msgspec.DecodeError, AttributeError, TypeError) as error:
            raise ClusterReadError(f"cannot list {kind} objects: the answer is no list: {error}") from error
        if not following:
            return objects
        query = f"?limit={_PAGE}&continue={quote(following, safe='')}"
