"""A pod leaves an offline cluster: what it had is given back, as the claim controller and the kubelet would do it.

Not here: when pods leave (`simulation`, `moving`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from scheduler.embedded.controllers.claim_work import release, without_finalizer
from scheduler.embedded.kinds.catalog import CLAIM, POD
from scheduler.embedded.server.object_store import Stored
from scheduler.embedded.server.rest import DeleteOptions
from scheduler.model.pod_claims import claim_names, owning_pod
from scheduler.offline.offline_cluster import OfflineCluster

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
    goes = not left and (is_brought or owning_pod(claim)[1] == uid)
    # A claim that somebody wrote with its allocation lacks the finalizer of the scheduler that had made it.
    taken = release(claim, left, protected=True)
    if taken.status is not None:
        api.update(CLAIM, namespace, name, lambda live: {**live, "status": taken.status}, sub_resource="status")
    if taken.drops_finalizer or goes:
        api.update(CLAIM, namespace, name, without_finalizer)
    if goes:
        api.delete(CLAIM, namespace, name, _AT_ONCE)
