"""A kubelet for every node: bound pods run at once, deleted ones end, nodes are ready and have a lease.

A deleted pod is terminating until its grace period ends, or a shorter one that is set; then it is gone, unless
finalizers keep it: then it has Failed, as its containers were ended.

As a real one, it does not start a pod whose claims are not allocated and reserved for it: the pod stays
Pending, with a FailedPrepareDynamicResources event. So a scheduler that forgets a reservation is noticed.

A pod with the annotation `embedded.dra-scheduler/run-seconds` ends by itself after that time, Succeeded.
No container runs anywhere.

Source: k8s.io/kubernetes v1.36.3 pkg/kubelet/cm/dra/manager.go (what is checked), pkg/kubelet/status.
"""

from __future__ import annotations

import asyncio
import ipaddress
import zlib
from collections.abc import Iterable, Mapping
from typing import Final

from scheduler.embedded.controllers.reactors import ObjectKey
from scheduler.embedded.kinds.catalog import CLAIM, EVENT, LEASE, NODE, POD
from scheduler.embedded.kinds.events import pod_event
from scheduler.embedded.kinds.pod_kinds import TERMINAL_PHASES
from scheduler.embedded.kinds.sub_resources import set_condition
from scheduler.embedded.server.discovery import GIT_VERSION
from scheduler.embedded.server.object_store import Change
from scheduler.embedded.server.rest import Api, DeleteOptions
from scheduler.embedded.server.statuses import ApiError
from scheduler.embedded.server.strategy import Object
from scheduler.model.pod_claims import claim_names
from scheduler.validation.field_errors import Json

ANNOTATION_RUN_SECONDS: Final = "embedded.dra-scheduler/run-seconds"
LEASE_NAMESPACE: Final = "kube-node-lease"

_NOW: Final = DeleteOptions(grace_period_s=0)
_POD_NETWORK: Final = int(ipaddress.IPv4Address("10.244.0.0"))


class Kubelet:
    """The kubelets of all nodes."""

    def __init__(self, api: Api, *, grace_s_max: float) -> None:
        self._api = api
        self._grace_s_max = grace_s_max
        self._ending: dict[str, asyncio.TimerHandle] = {}
        self._reported: dict[tuple[str, str], set[str]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def close(self) -> None:
        """Forget the timers of pods that end by themselves."""
        for timers in (self._timers, self._ending):
            for timer in timers.values():
                timer.cancel()
            timers.clear()

    def notice(self, kind_id: str, change: Change) -> Iterable[ObjectKey]:
        current = change.current
        if kind_id == POD.kind_id:
            yield ObjectKey(kind_id, current.namespace, current.name)
        elif kind_id == NODE.kind_id:
            yield ObjectKey(kind_id, "", current.name)
        elif kind_id == CLAIM.kind_id:
            # A pod that waits for the claim can go on when the claim is reserved for it.
            for consumer in (current.obj.get("status") or {}).get("reservedFor") or ():
                if consumer.get("resource") == "pods":
                    yield ObjectKey(POD.kind_id, current.namespace, consumer["name"])

    def look(self, key: ObjectKey) -> None:
        if key.kind_id == NODE.kind_id:
            self._look_at_node(key.name)
        elif key.kind_id == POD.kind_id:
            self._look_at_pod(key.namespace, key.name)

    # -- nodes -------------------------------------------------------------------------------------

    def _look_at_node(self, name: str) -> None:
        stored = self._api.store.get(NODE.kind_id, "", name)
        if stored is None:
            for pod in self._api.store.listed(POD.kind_id):
                if pod.obj["spec"].get("nodeName") == name:
                    self._end(pod.namespace, pod.name)  # What the pod garbage collector does.
            return
        conditions = (stored.obj.get("status") or {}).get("conditions") or ()
        if not any(condition.get("type") == "Ready" for condition in conditions):
            self._api.update(NODE, "", name, self._ready_node, sub_resource="status")
        if self._api.store.get(LEASE.kind_id, LEASE_NAMESPACE, name) is None:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": stored.uid}
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": f"{self._api.now()[:-1]}.000000Z"}
            lease = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}
            self._api.create(LEASE, LEASE_NAMESPACE, lease)

    def _ready_node(self, node: Object) -> Object:
        now = self._api.now()
        status = node.setdefault("status", {})
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        status.setdefault("conditions", []).append(ready)
        info = status.setdefault("nodeInfo", {})
        info["kubeletVersion"] = info.get("kubeletVersion") or GIT_VERSION
        return node

    # -- pods --------------------------------------------------------------------------------------

    def _look_at_pod(self, namespace: str, name: str) -> None:
        stored = self._api.store.get(POD.kind_id, namespace, name)
        if stored is None:
            self._reported.pop((namespace, name), None)
            return
        pod = stored.obj
        node = pod["spec"].get("nodeName")
        if not node:
            return
        if pod["metadata"].get("deletionTimestamp"):
            self._terminate(pod, namespace, name)
            return
        phase = (pod.get("status") or {}).get("phase")
        if phase in TERMINAL_PHASES or phase == "Running":
            return
        if self._api.store.get(NODE.kind_id, "", node) is None:
            return
        problem = self._claims_problem(pod, namespace, name)
        if problem:
            self._report(pod, namespace, name, problem)
            return
        self._api.update(POD, namespace, name, self._running_pod, sub_resource="status")
        self._end_later(pod, namespace, name)

    def _terminate(self, pod: Mapping[str, Json], namespace: str, name: str) -> None:
        """End a deleted pod when its time has come; looked at again, it may be sooner than it was."""
        uid, grace_s = pod["metadata"]["uid"], pod["metadata"].get("deletionGracePeriodSeconds", 0)
        left_s = min(grace_s, self._grace_s_max)
        timer = self._ending.pop(uid, None)
        if timer is not None:
            loop = asyncio.get_running_loop()
            left_s = min(left_s, timer.when() - loop.time())
            timer.cancel()
        if left_s > 0:
            self._ending[uid] = asyncio.get_running_loop().call_later(left_s, self._ended, namespace, name, uid)
        elif grace_s or not pod["metadata"].get("finalizers"):
            self._end(namespace, name)

    def _ended(self, namespace: str, name: str, uid: str) -> None:
        self._ending.pop(uid, None)
        stored = self._api.store.get(POD.kind_id, namespace, name)
        if stored is not None and stored.uid == uid:
            self._end(namespace, name)

    def _end(self, namespace: str, name: str) -> None:
        stored = self._api.store.get(POD.kind_id, namespace, name)
        if stored is not None and stored.obj["metadata"].get("finalizers"):
            self._api.update(POD, namespace, name, self._failed_pod, sub_resource="status")
        self._api.delete(POD, namespace, name, _NOW)

    def _failed_pod(self, pod: Object) -> Object:
        if pod["status"].get("phase") not in TERMINAL_PHASES:
            _stop(pod, "Failed", exit_code=143, reason="Error", now=self._api.now())
        return pod

    def _claims_problem(self, pod: Mapping[str, Json], namespace: str, name: str) -> str:
        """Why the pod's claims are not ready for it; empty when they are."""
        uid = pod["metadata"]["uid"]
        status = pod.get("status") or {}
        known = {entry["name"] for entry in status.get("resourceClaimStatuses") or ()}
        for reference in pod["spec"].get("resourceClaims") or ():
            if reference.get("resourceClaimName") is None and reference["name"] not in known:
                return f"pod claim {reference['name']}: the claim has not been created yet"
        problems = (self._claim_problem(namespace, claim_name, name, uid) for claim_name in claim_names(pod))
        return next(filter(None, problems), "")

    def _claim_problem(self, namespace: str, claim_name: str, pod_name: str, pod_uid: str) -> str:
        claim = self._api.find(CLAIM.kind_id, namespace, claim_name)
        if claim is None:
            return f"ResourceClaim {claim_name} does not exist"
        status = claim.get("status") or {}
        if status.get("allocation") is None:
            return f"ResourceClaim {claim_name} is not allocated"
        if not any(consumer.get("uid") == pod_uid for consumer in status.get("reservedFor") or ()):
            claim_uid = claim["metadata"]["uid"]
            return f"pod {pod_name} ({pod_uid}) is not allowed to use ResourceClaim {claim_name} ({claim_uid})"
        return ""

    def _report(self, pod: Mapping[str, Json], namespace: str, name: str, problem: str) -> None:
        reported = self._reported.setdefault((namespace, name), set())
        if problem in reported:
            return
        reported.add(problem)
        text = f"Failed to prepare dynamic resources: {problem}"
        reason, node = "FailedPrepareDynamicResources", pod["spec"]["nodeName"]
        event = pod_event(pod["metadata"], "Warning", reason, text, now=self._api.now(), component="kubelet", host=node)
        self._api.create(EVENT, namespace, event)

    def _running_pod(self, pod: Object) -> Object:
        now = self._api.now()
        status = pod["status"]
        address = _pod_address(pod["metadata"]["uid"])
        status |= {
            "phase": "Running",
            "hostIP": "127.0.0.1",
            "hostIPs": [{"ip": "127.0.0.1"}],
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": now,
        }
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
            set_condition(status, {"type": kind, "status": "True"}, now)
        for group, field in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
            statuses = [_container_status(container, group, now) for container in pod["spec"].get(group) or ()]
            if statuses:
                status[field] = statuses
        return pod

    def _end_later(self, pod: Mapping[str, Json], namespace: str, name: str) -> None:
        text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_RUN_SECONDS)
        uid = pod["metadata"]["uid"]
        try:
            seconds = float(text) if text is not None else None
        except ValueError:
            seconds = None
        if seconds is None or uid in self._timers:
            return
        self._timers[uid] = asyncio.get_running_loop().call_later(seconds, self._succeed, namespace, name, uid)

    def _succeed(self, namespace: str, name: str, uid: str) -> None:
        self._timers.pop(uid, None)

        def finished(pod: Object) -> Object:
            if pod["metadata"]["uid"] != uid:
                raise ApiError(409, "Conflict", "another pod has this name now")
            _stop(pod, "Succeeded", exit_code=0, reason="Completed", now=self._api.now())
            return pod

        try:
            self._api.update(POD, namespace, name, finished, sub_resource="status")
        except ApiError:
            return  # It was deleted in the meantime.


def _stop(pod: Object, phase: str, *, exit_code: int, reason: str, now: str) -> None:
    """The containers have ended, and the pod with them."""
    pod["status"]["phase"] = phase
    why = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    for condition in ("Ready", "ContainersReady"):
        set_condition(pod["status"], {"type": condition, "status": "False", "reason": why}, now)
    for container in pod["status"].get("containerStatuses") or ():
        container["state"] = {"terminated": {"exitCode": exit_code, "reason": reason, "finishedAt": now}}
        container["ready"] = container["started"] = False


def _pod_address(uid: str) -> str:
    return str(ipaddress.IPv4Address(_POD_NETWORK + zlib.crc32(uid.encode()) % 65_000 + 1))


def _container_status(container: Mapping[str, Json], group: str, now: str) -> Object:
    is_running = group == "containers" or container.get("restartPolicy") == "Always"
    state: Object = {"running": {"startedAt": now}}
    if not is_running:
        state = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": True,
        "started": is_running,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }
