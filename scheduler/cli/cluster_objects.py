"""What commands compare with, read from a live cluster: objects and feature gates. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import msgspec

from scheduler.kube.api_versions import UnansweredError, find_version
from scheduler.kube.codec import Codec
from scheduler.kube.credentials import Connection, CredentialsError
from scheduler.kube.feature_gates import read_gates
from scheduler.kube.requests import Accepted, ApiClient, Conflicted, Rejected, UndecodableError
from scheduler.kube.watched_kind import WatchedKind

_PATHS: Final[Mapping[str, str]] = {
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1/resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "Node": "/api/v1/nodes",
}
_MORE_PATHS: Final[Mapping[str, str]] = {
    "Namespace": "/api/v1/namespaces",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "CSIDriver": "/apis/storage.k8s.io/v1/csidrivers",
    "CSIStorageCapacity": "/apis/storage.k8s.io/v1/csistoragecapacities",
    "VolumeAttachment": "/apis/storage.k8s.io/v1/volumeattachments",
    "Service": "/api/v1/services",
    "ReplicationController": "/api/v1/replicationcontrollers",
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "Pod": "/api/v1/pods",
}
_PAGE: Final = 500


class ClusterReadError(Exception):
    """The cluster could not be read; the text says what failed."""


def read_cluster(
    kubeconfig: str, context: str | None, *, is_whole: bool = False
) -> tuple[list[dict[str, Any]], Mapping[str, bool]]:
    """The objects lint compares with, and the API server's feature gates, empty where it does not show them.

    Args:
        is_whole: All that the scheduler looks at: pods, namespaces, volumes, what selects or owns pods, ….

    Raises:
        ClusterReadError: No connection, or a list was refused.
    """
    return asyncio.run(_read(kubeconfig, context, {**_PATHS, **_MORE_PATHS} if is_whole else _PATHS))


async def _read(
    kubeconfig: str, context: str | None, paths: Mapping[str, str]
) -> tuple[list[dict[str, Any]], Mapping[str, bool]]:
    try:
        credentials = await Connection.from_kubeconfig(kubeconfig, context).open()
    except CredentialsError as error:
        raise ClusterReadError(str(error)) from error
    objects: list[dict[str, Any]] = []
    async with ApiClient(credentials) as client:
        for kind, path in paths.items():
            objects += await _list(client, kind, path)
        codec = Codec()
        for each in (codec.taint_rules, codec.pod_groups):
            objects += await _list_optional(client, each)
        return objects, await read_gates(client)


async def _list_optional(client: ApiClient, kind: WatchedKind) -> list[dict[str, Any]]:
    """The objects of a kind that a server may not have."""
    assert kind.served_as is not None
    try:
        version = await find_version(client, kind.served_as)
    except (UnansweredError, UndecodableError) as error:
        raise ClusterReadError(f"cannot list {kind.name} objects: {error}") from error
    return await _list(client, kind.name, kind.served_as.path(version)) if version is not None else []


async def _list(client: ApiClient, kind: str, path: str) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = []
    api_version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")[0]
    query = f"?limit={_PAGE}"
    while True:
        outcome = await client.send("GET", path + query)
        if not isinstance(outcome, Accepted):
            why = "conflict" if isinstance(outcome, Conflicted) else outcome.message
            if isinstance(outcome, Rejected) and outcome.code == HTTPStatus.UNAUTHORIZED:
                why = f"the API server does not accept the credentials of {client.origin}: {why}"
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
        query = f"?limit={_PAGE}&continue={quote(following, safe='')}"
