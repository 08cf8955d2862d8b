"""StatefulSets and DaemonSets at work: a pod for each ordinal, and a pod for each node.

Simpler than the real controllers where a scheduler sees no difference: a changed template reaches new pods only, there
are no revisions, and volumes of `volumeClaimTemplates` are named in the pods but never made.

Source: k8s.io/kubernetes v1.36.3 pkg/controller/{statefulset,daemon} (names, labels, order, which nodes, tolerations).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from scheduler.embedded.controllers.owned import PODS_MAX, Owned, counts, is_active, is_ready, pod_of_template
from scheduler.embedded.kinds.catalog import DAEMON_SET, POD, STATEFUL_SET
from scheduler.embedded.server.object_store import Stored
from scheduler.embedded.server.strategy import Object
from scheduler.model.node_selectors import required_node_affinity
from scheduler.model.objects import Node, Pod
from scheduler.model.taints import find_untolerated
from scheduler.validation.field_errors import Json

_NODE_NAME_FIELD: Final = "metadata.name"
_TOLERATED: Final = (
    *(("node.kubernetes.io/not-ready", "NoExecute"), ("node.kubernetes.io/unreachable", "NoExecute")),
    *(("node.kubernetes.io/disk-pressure", "NoSchedule"), ("node.kubernetes.io/memory-pressure", "NoSchedule")),
    *(("node.kubernetes.io/pid-pressure", "NoSchedule"), ("node.kubernetes.io/unschedulable", "NoSchedule")),
)
_NETWORK: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def look_at_stateful_set(owned: Owned, owner: Stored, *, waits_for_ready: bool) -> None:
    """Bring a StatefulSet's pods closer to what it wants.

    Args:
        waits_for_ready: The next pod comes when the pod before it is ready, if the set's policy says so. Without
            kubelets no pod becomes ready.
    """
    spec = owner.obj["spec"]
    wanted = min(spec["replicas"], PODS_MAX)
    is_ordered = waits_for_ready and spec["podManagementPolicy"] == "OrderedReady"
    start: int = (spec.get("ordinals") or {}).get("start", 0)
    pods = {pod.name: pod for pod in owned.listed(owner, POD)}
    left = owned.missing(wanted, 0)
    for ordinal in range(start, start + wanted):
        pod = pods.pop(f"{owner.name}-{ordinal}", None)
        left -= pod is None
        if left < 0:
            break
        if pod is None:
            owned.create_pod(owner.namespace, _ordinal_pod(owner, ordinal))
        elif not is_active(pod):
            owned.delete_pod(pod)  # it is made again when it is gone
        if is_ordered and (pod is None or not (is_active(pod) and is_ready(pod))):
            break
    else:
        for pod in sorted(pods.values(), key=_ordinal_of, reverse=True):
            owned.delete_pod(pod)
            if is_ordered:
                break
    active = owned.active_pods(owner)
    ready = sum(map(is_ready, active))
    status = {
        "replicas": len(active),
        "availableReplicas": ready,
        **counts(currentReplicas=len(active), updatedReplicas=len(active), readyReplicas=ready),
        "observedGeneration": owner.obj["metadata"].get("generation", 1),
    }
    owned.write_status(STATEFUL_SET, owner, status)


def look_at_daemon_set(owned: Owned, owner: Stored, nodes: Iterable[Stored]) -> None:
    """Bring a DaemonSet's pods closer to one on each node that it may use."""
    by_node: dict[str, list[Stored]] = {}
    for pod in owned.listed(owner, POD):
        by_node.setdefault(_target_of(pod.obj), []).append(pod)
    wanted = 0
    for node in nodes:
        pods = by_node.pop(node.name, [])
        if not _should_run(owner, node):
            for pod in pods:
                owned.delete_pod(pod)
            continue
        wanted += 1
        for pod in pods:
            if not is_active(pod):
                owned.delete_pod(pod)
        if not pods:
            owned.create_pod(owner.namespace, _daemon_pod(owner, node.name))
    for pods in by_node.values():
        for pod in pods:
            owned.delete_pod(pod)
    active = owned.active_pods(owner)
    ready = sum(map(is_ready, active))
    status = {
        "currentNumberScheduled": len(active),
        "numberMisscheduled": 0,
        "desiredNumberScheduled": wanted,
        "numberReady": ready,
        **counts(updatedNumberScheduled=len(active), numberAvailable=ready, numberUnavailable=max(0, wanted - ready)),
        "observedGeneration": owner.obj["metadata"].get("generation", 1),
    }
    owned.write_status(DAEMON_SET, owner, status)


def _ordinal_pod(owner: Stored, ordinal: int) -> Object:
    pod = pod_of_template(STATEFUL_SET, owner)
    name = f"{owner.name}-{ordinal}"
    pod["metadata"]["name"] = name
    labels = {"apps.kubernetes.io/pod-index": str(ordinal), "statefulset.kubernetes.io/pod-name": name}
    pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **labels}
    spec = pod["spec"]
    spec["hostname"] = name
    if owner.obj["spec"].get("serviceName"):
        spec["subdomain"] = owner.obj["spec"]["serviceName"]
    for volume in owner.obj["spec"].get("volumeClaimTemplates") or ():
        volume_name = volume["metadata"]["name"]
        claim = {"claimName": f"{volume_name}-{name}"}
        others = [one for one in spec.get("volumes") or () if one.get("name") != volume_name]
        spec["volumes"] = [*others, {"name": volume_name, "persistentVolumeClaim": claim}]
    return pod


def _ordinal_of(pod: Stored) -> int:
    text = pod.name.rpartition("-")[2]
    return int(text) if text.isdecimal() else 0


def _daemon_pod(owner: Stored, node: str) -> Object:
    pod = pod_of_template(DAEMON_SET, owner)
    pod["metadata"]["generateName"] = f"{owner.name}-"
    spec = pod["spec"]
    _pin(spec, node)
    tolerations = spec.setdefault("tolerations", [])
    for key, effect in (*_TOLERATED, *((_NETWORK,) if spec.get("hostNetwork") else ())):
        tolerations.append({"key": key, "operator": "Exists", "effect": effect})
    return pod


def _pin(spec: Object, node: str) -> None:
    """The node's name in every term of the required affinity, in place of other fields (upstream does so)."""
    field = {"key": _NODE_NAME_FIELD, "operator": "In", "values": [node]}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    # As upstream: the pod is for this node; the template's other demands on nodes have been checked.
    required["nodeSelectorTerms"] = [{"matchFields": [field]}]


def _target_of(pod: Mapping[str, Json]) -> str:
    """The node a daemon pod is for."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == _NODE_NAME_FIELD and field.get("values"):
                return str(field["values"][0])
    return str(pod["spec"].get("nodeName") or "")


def _should_run(owner: Stored, stored: Stored) -> bool:
    """Whether the set has a pod on a node: selector, required affinity and taints, not resources."""
    node = msgspec.json.decode(stored.body, type=Node)
    pod = _daemon_pod(owner, node.name)
    template = owner.obj["spec"]["template"]["spec"]
    asked = msgspec.convert({**pod, "spec": {**pod["spec"], "affinity": template.get("affinity")}}, type=Pod)
    return required_node_affinity(asked).matches(node) and find_untolerated(node, asked) is None
