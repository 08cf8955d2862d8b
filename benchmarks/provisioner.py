"""Plays the external provisioner: makes a volume for each claim that a scheduler has selected a node for.

kube-controller-manager does the rest, as in a cluster: it names the provisioner in the claim, and binds both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import orjson

from benchmarks.fleet import NAMESPACE, PROVISIONER, VOLUME_CLASS, Object
from tests.integration.api import Api, ExpiredError, path_of

CONTROLLER: Final = "persistentvolume-binder-controller"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_AT_ONCE: Final = 16


@asynccontextmanager
async def provisioning(api: Api, written: Callable[[], None]) -> AsyncIterator[None]:
    """While it lasts, claims get volumes; `written` is called when a node has been selected."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_Provisioner(api, written, group).run())
        yield
        task.cancel()


class _Provisioner:
    def __init__(self, api: Api, written: Callable[[], None], group: asyncio.TaskGroup) -> None:
        self._api: Final = api
        self._written: Final = written
        self._group: Final = group
        self._made: Final[set[str]] = set()
        self._places: Final = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        path = path_of("persistentvolumeclaims", NAMESPACE)
        while True:  # the API server ends a watch whose reader lags
            listed = await self._api.request("GET", path)
            for claim in listed.get("items") or ():
                self._see(claim)
            params = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
            with suppress(ExpiredError):
                async for lines in self._api.stream(path, params):
                    for line in lines:
                        if _SELECTED_NODE.encode() in line:
                            self._see(orjson.loads(line)["object"])

    def _see(self, claim: Object) -> None:
        metadata = claim["metadata"]
        is_selected = _SELECTED_NODE in (metadata.get("annotations") or {})
        if is_selected and not claim["spec"].get("volumeName") and metadata["uid"] not in self._made:
            self._made.add(metadata["uid"])
            self._written()
            self._group.create_task(self._make(claim))

    async def _make(self, claim: Object) -> None:
        async with self._places:
            await self._api.create("persistentvolumes", volume_for(claim))


def volume_for(claim: Object) -> Object:
    """A volume on the selected node, promised to the claim."""
    metadata = claim["metadata"]
    node = metadata["annotations"][_SELECTED_NODE]
    expressions = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
    return {
        "metadata": {
            "name": f"pvc-{metadata['uid']}",
            "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
        },
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": VOLUME_CLASS,
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
            "csi": {"driver": PROVISIONER, "volumeHandle": metadata["uid"]},
        },
    }
