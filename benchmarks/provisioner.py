"""Plays the external provisioner: makes a volume for each claim that a scheduler has selected a node for.

kube-controller-manager does the rest, as in a cluster: it names the provisioner in the claim, and binds both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import orjson

from benchmarks.fleet import NAMESPACE, PROVISIONER, VOLUME_CLASS, Object
from tests.integration.api import Api, path_of

CONTROLLER: Final = "persistentvolume-binder-controller"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_AT_ONCE: Final = 16


@asynccontextmanager
async def provisioning(api: Api, written: Callable[[], None]) -> AsyncIterator[None]:
    """While it lasts, claims get volumes; `written` is called when the first node has been selected."""
    listed = await api.request("GET", path_of("persistentvolumeclaims", NAMESPACE), params={"limit": "1"})
    task = asyncio.create_task(_provision(api, listed["metadata"]["resourceVersion"], written))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _provision(api: Api, version: str, written: Callable[[], None]) -> None:
    made: set[str] = set()
    places = asyncio.Semaphore(_AT_ONCE)

    async def make(claim: Object) -> None:
        async with places:
            await api.create("persistentvolumes", volume_for(claim))

    params = {"watch": "true", "resourceVersion": version}
    async with asyncio.TaskGroup() as group:
        async for lines in api.stream(path_of("persistentvolumeclaims", NAMESPACE), params):
            for line in lines:
                if _SELECTED_NODE.encode() not in line:
                    continue
                claim = orjson.loads(line)["object"]
                if claim["metadata"]["uid"] not in made and not claim["spec"].get("volumeName"):
                    made.add(claim["metadata"]["uid"])
                    written()
                    group.create_task(make(claim))


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
