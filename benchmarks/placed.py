"""What is on the nodes before a workload's own pods come: pods, their namespaces, volumes that are bound already.

Pods that are there before are made with their node, so that no scheduler has to place them. They are in namespaces of
their own, as in scheduler_perf.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from benchmarks.fleet import NAMESPACE, Fleet, Object, node_name, workloads

PLACED: Final = "placed-"
_TEAM: Final = {"team": "devops"}


def namespaces(fleet: Fleet) -> Iterator[Object]:
    """That of the measured pods, and those of the pods before them."""
    yield {"metadata": {"name": NAMESPACE, "labels": _TEAM}}
    if fleet.size.placed:
        for number in range(fleet.workload.namespaces):
            yield {"metadata": {"name": f"{PLACED}{number}", "labels": _TEAM}}


def before(fleet: Fleet) -> Iterator[tuple[str, Object]]:
    """All objects that are there before, by resource."""
    workload, size = fleet.workload, fleet.size
    if workload.service:
        spec = {"selector": {"app": "bench"}, "ports": [{"protocol": "TCP", "port": 80, "targetPort": 8000}]}
        yield "services", {"metadata": {"namespace": NAMESPACE, "name": "service"}, "spec": spec}
    if "csi" in (workload.node or {}):
        yield from _csi_nodes(fleet)
    kinds = [Fleet(workloads()[name], size) for name in workload.before] or [fleet]
    for place, kind in enumerate(kinds):
        for number in range(size.placed):
            index = place * size.placed + number
            namespace = f"{PLACED}{number % workload.namespaces}"
            name = f"placed-{index:05}"
            if kind.workload.bound_volume:
                yield from volumes(kind, [name], namespace)
            pod = kind.pod(name, "nobody")
            pod["metadata"]["namespace"] = namespace
            pod["spec"]["nodeName"] = node_name(index % size.nodes)
            yield "pods", pod


def volumes(fleet: Fleet, names: Iterable[str], namespace: str) -> Iterator[tuple[str, Object]]:
    """A volume and a claim for each pod, bound to each other."""
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "true"}}
    common = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    for name in names:
        if fleet.workload.bound_volume == "csi":
            source: Object = {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name}}
        else:
            source = {"awsElasticBlockStore": {"volumeID": name}}
        claim_ref = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
        capacity = {"capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain"}
        spec = {**common, **capacity, "claimRef": claim_ref, **source}
        yield "persistentvolumes", {"metadata": {"name": name}, "spec": spec}
        wanted = {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
        yield "persistentvolumeclaims", {"metadata": {"namespace": namespace, "name": name, **bound}, "spec": wanted}


def _csi_nodes(fleet: Fleet) -> Iterator[tuple[str, Object]]:
    csi = (fleet.workload.node or {})["csi"]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": csi["migrated"]} if "migrated" in csi else {}
    for number in range(fleet.size.nodes):
        name = node_name(number)
        driver = {"name": "ebs.csi.aws.com", "nodeID": name, "allocatable": {"count": csi["count"]}}
        yield "csinodes", {"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": [driver]}}
