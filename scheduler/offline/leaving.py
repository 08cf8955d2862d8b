"""A pod leaves an offline cluster: what it had is given back, as the claim controller and the kubelet would do it.

Not here: when pods leave (`simulation`, `moving`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from scheduler.embedded.kinds.catalog import CLAIM, POD
from scheduler.embedded.server.rest import DeleteOptions
from scheduler.embedded.server.store import Stored
from scheduler.model.pod_claims import claim_names, owning_pod
from scheduler.offline.cluster import OfflineCluster

_AT_ONCE: Final = DeleteOptions(grace_period_s=0)


def leave(cluster: OfflineCluster, pod: Stored, brought: Collection[tuple[str, str]] = ()) -> None:
    """Delete the pod, and give back the claims that nobody else uses.

    Args:
        brought: Namespace and name of claims that came with the pod, and go with it; as its generated ones do.
    """
    claims = [(pod.namespace, name) for name in claim_names(pod.obj)]
    cluster.api.delete(POD, pod.namespace, pod.name, _AT_ONCE)
    for namespace, name in dict.fromkeys([*claims, *brought]):
        _give_back(cluster, namespace, name, pod.uid, is_brought=(namespace, name) in brought)


def _give_back(cluster: OfflineCluster, namespace: str, name: str, uid: str, *, is_brought: bool) -> None:
    api = cluster.api
    claim = api.find(CLAIM.kind_id, namespace, name)
    if claim is None:
        return
    consumers = (claim.get("status") or {}).get("reservedFor") or []
    left = [one for one in consumers if one.get("uid") != uid]
    is_own = owning_pod(claim)[1] == uid

    def change(obj: dict[str, Any]) -> dict[str, Any]:
        obj["status"] = {**(obj.get("status") or {}), "reservedFor": left} if left else {}
        return obj

    def unfinish(obj: dict[str, Any]) -> dict[str, Any]:
        obj["metadata"].pop("finalizers", None)
        return obj

    if consumers != left:
        api.update(CLAIM, namespace, name, change, sub_resource="status")
    if not left and (is_own or is_brought):
        api.update(CLAIM, namespace, name, unfinish)
        api.delete(CLAIM, namespace, name, _AT_ONCE)
