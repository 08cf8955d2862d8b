"""Workloads at work: they make pods, replace them, and count them. Here Deployments, ReplicaSets and Jobs.

Simpler than the real controllers where a scheduler sees no difference: a rolling update brings up all new pods at
once and takes the old ones down as new ones become ready; there is no revision history and no back-off.

Not here: StatefulSets and DaemonSets (`set_workloads`).

Source: k8s.io/kubernetes v1.36.3 pkg/controller/{deployment,replicaset,job} (names, labels, owners, status fields).
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import orjson

from scheduler.embedded.controllers.owned import Owned, counts, is_active, is_ready, owner_reference, pod_of_template
from scheduler.embedded.controllers.reactors import ObjectKey
from scheduler.embedded.controllers.set_workloads import look_at_daemon_set, look_at_stateful_set
from scheduler.embedded.kinds.catalog import DAEMON_SET, DEPLOYMENT, JOB, NODE, POD, REPLICA_SET, STATEFUL_SET
from scheduler.embedded.kinds.sub_resources import set_condition
from scheduler.embedded.server.object_store import Change, Stored
from scheduler.embedded.server.rest import Api
from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.embedded.server.strategy import Object
from scheduler.validation.field_errors import Json

TEMPLATE_HASH_LABEL: Final = "pod-template-hash"
REVISION_ANNOTATION: Final = "deployment.kubernetes.io/revision"

_HASH_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


class Workloads:
    """The workload controllers.

    Args:
        waits_for_ready: Pods become ready, so a StatefulSet's next pod may wait for the one before.
        pods_per_look: As of `Owned`; about 30 ms of pods.
    """

    def __init__(self, api: Api, *, waits_for_ready: bool = True, pods_per_look: int = 100) -> None:
        self._api = api
        self._owned = Owned(api, pods_per_look)
        self._look_by_kind: dict[str, Callable[[Stored], None]] = {
            DEPLOYMENT.kind_id: self._look_at_deployment,
            REPLICA_SET.kind_id: self._look_at_replica_set,
            JOB.kind_id: self._look_at_job,
            STATEFUL_SET.kind_id: lambda owner: look_at_stateful_set(
                self._owned, owner, waits_for_ready=waits_for_ready
            ),
            DAEMON_SET.kind_id: lambda owner: look_at_daemon_set(self._owned, owner, api.store.listed(NODE.kind_id)),
        }

    def notice(self, kind_id: str, change: Change) -> Iterable[ObjectKey]:
        if kind_id in self._look_by_kind:
            yield ObjectKey(kind_id, change.current.namespace, change.current.name)
        if kind_id == NODE.kind_id:
            for daemon_set in self._api.store.listed(DAEMON_SET.kind_id):
                yield ObjectKey(DAEMON_SET.kind_id, daemon_set.namespace, daemon_set.name)
        elif kind_id in (POD.kind_id, REPLICA_SET.kind_id):
            for owner in self._owned.notice(kind_id, change):
                if owner.kind_id in self._look_by_kind:
                    yield owner

    def look(self, key: ObjectKey) -> None:
        stored = self._api.store.get(key.kind_id, key.namespace, key.name)
        look = self._look_by_kind.get(key.kind_id)
        if look is not None and stored is not None and not stored.obj["metadata"].get("deletionTimestamp"):
            look(stored)

    # -- deployments -------------------------------------------------------------------------------

    def _look_at_deployment(self, deployment: Stored) -> None:
        obj = deployment.obj
        wanted: int = obj["spec"]["replicas"]
        template_hash = hash_template(obj["spec"]["template"])
        name = f"{deployment.name}-{template_hash}"
        sets = self._owned.listed(deployment, REPLICA_SET)
        current = next((found for found in sets if found.name == name), None)
        old_sets = [found for found in sets if found.name != name]
        old_pods = sum(found.obj["status"].get("replicas", 0) for found in old_sets)
        if obj["spec"]["strategy"]["type"] == "Recreate" and old_pods:
            for old in old_sets:
                self._scale(old, 0)
        elif current is None:
            current = self._create_replica_set(deployment, name, template_hash, len(sets) + 1)
        else:
            self._scale(current, wanted)
            ready = current.obj["status"].get("readyReplicas", 0)
            left = max(0, wanted - ready)
            for old in old_sets:
                kept = min(left, old.obj["spec"]["replicas"])
                self._scale(old, kept)
                left -= kept
        self._write_deployment_status(deployment, name)

    def _create_replica_set(self, deployment: Stored, name: str, template_hash: str, revision: int) -> Stored:
        obj = deployment.copy()
        template = obj["spec"]["template"]
        labels = template["metadata"].setdefault("labels", {})
        labels[TEMPLATE_HASH_LABEL] = template_hash
        selector = obj["spec"]["selector"]
        selector.setdefault("matchLabels", {})[TEMPLATE_HASH_LABEL] = template_hash
        metadata = {
            "name": name,
            "labels": dict(labels),
            "annotations": {REVISION_ANNOTATION: str(revision)},
            "ownerReferences": [owner_reference(DEPLOYMENT, deployment)],
        }
        spec = {"replicas": obj["spec"]["replicas"], "selector": selector, "template": template}
        body: Object = {"metadata": metadata, "spec": spec}
        return self._api.create(REPLICA_SET, deployment.namespace, body)

    def _scale(self, replica_set: Stored, replicas: int) -> None:
        if replica_set.obj["spec"]["replicas"] == replicas:
            return

        def change(obj: Object) -> Object:
            obj["spec"]["replicas"] = replicas
            return obj

        self._api.update(REPLICA_SET, replica_set.namespace, replica_set.name, change)

    def _write_deployment_status(self, deployment: Stored, current_name: str) -> None:
        sets = self._owned.listed(deployment, REPLICA_SET)
        statuses = {found.name: found.obj["status"] for found in sets}
        total = sum(status.get("replicas", 0) for status in statuses.values())
        ready = sum(status.get("readyReplicas", 0) for status in statuses.values())
        updated = statuses.get(current_name, {}).get("replicas", 0)
        wanted: int = deployment.obj["spec"]["replicas"]
        is_available = ready >= wanted - wanted // 4
        is_complete = updated == ready == total == wanted
        progress = "has successfully progressed" if is_complete else "is progressing"
        conditions = (
            {
                "type": "Available",
                "status": "True" if is_available else "False",
                "reason": "MinimumReplicasAvailable" if is_available else "MinimumReplicasUnavailable",
                "message": f"Deployment {'has' if is_available else 'does not have'} minimum availability.",
            },
            {
                "type": "Progressing",
                "status": "True",
                "reason": "NewReplicaSetAvailable" if is_complete else "ReplicaSetUpdated",
                "message": f'ReplicaSet "{current_name}" {progress}.',
            },
        )
        status = {
            "observedGeneration": deployment.obj["metadata"].get("generation", 1),
            **counts(
                replicas=total,
                updatedReplicas=updated,
                readyReplicas=ready,
                availableReplicas=ready,
                unavailableReplicas=max(0, wanted - ready),
            ),
        }
        self._write_status(DEPLOYMENT, deployment, status, conditions)

    # -- replica sets ------------------------------------------------------------------------------

    def _look_at_replica_set(self, replica_set: Stored) -> None:
        obj = replica_set.obj
        wanted: int = obj["spec"]["replicas"]
        active = self._owned.active_pods(replica_set)
        if len(active) < wanted:
            for _ in range(self._owned.missing(wanted, len(active))):
                self._create_pod(REPLICA_SET, replica_set)
        elif len(active) > wanted:
            # Pods that are not ready go first, then the youngest, as upstream ranks them.
            victims = sorted(active, key=lambda pod: (is_ready(pod), pod.obj["spec"].get("nodeName") is not None))
            for pod in victims[: len(active) - wanted]:
                self._owned.delete_pod(pod)
        active = self._owned.active_pods(replica_set)
        ready = sum(map(is_ready, active))
        status = {
            "replicas": len(active),
            "observedGeneration": obj["metadata"].get("generation", 1),
            **counts(fullyLabeledReplicas=len(active), readyReplicas=ready, availableReplicas=ready),
        }
        self._owned.write_status(REPLICA_SET, replica_set, status)

    def _create_pod(self, kind: ServedKind, owner: Stored) -> None:
        pod = pod_of_template(kind, owner)
        pod["metadata"]["generateName"] = f"{owner.name}-"
        self._owned.create_pod(owner.namespace, pod)

    # -- jobs --------------------------------------------------------------------------------------

    def _look_at_job(self, job: Stored) -> None:
        obj = job.obj
        if any(
            condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
            for condition in (obj.get("status") or {}).get("conditions") or ()
        ):
            return
        spec = obj["spec"]
        pods = self._owned.listed(job, POD)
        phases = [(pod.obj.get("status") or {}).get("phase") for pod in pods]
        succeeded, failed = phases.count("Succeeded"), phases.count("Failed")
        active = [pod for pod in pods if is_active(pod)]
        completions, parallelism = spec.get("completions"), spec["parallelism"]
        has_failed = failed > spec["backoffLimit"]
        is_complete = succeeded >= completions if completions is not None else succeeded > 0 and not active
        if has_failed or is_complete or spec.get("suspend"):
            if not is_complete or has_failed:
                for pod in active:
                    self._owned.delete_pod(pod)
                active = []
        else:
            wanted = parallelism if completions is None else min(parallelism, completions - succeeded)
            if completions is None and succeeded:
                wanted = 0  # A work queue: one success means that no new pods are needed.
            for _ in range(self._owned.missing(wanted, len(active))):
                self._create_pod(JOB, job)
            active = self._owned.active_pods(job)
        self._write_job_status(
            job, active, succeeded=succeeded, failed=failed, is_complete=is_complete, has_failed=has_failed
        )

    def _write_job_status(
        self, job: Stored, active: list[Stored], *, succeeded: int, failed: int, is_complete: bool, has_failed: bool
    ) -> None:
        now = self._api.now()
        old = job.obj.get("status") or {}
        status = {
            "startTime": old.get("startTime") or now,
            **counts(active=len(active), succeeded=succeeded, failed=failed),
            "ready": sum(map(is_ready, active)),
            "terminating": 0,
            "uncountedTerminatedPods": {},
        }
        ended = []
        if has_failed:
            message = "Job has reached the specified backoff limit"
            ended = [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": message}]
        elif is_complete:
            status["completionTime"] = now
            message = "Reached expected number of succeeded pods"
            ended = [{"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": message}]
        self._write_status(JOB, job, status, ended)

    def _write_status(
        self, kind: ServedKind, owner: Stored, status: Object, conditions: Iterable[dict[str, Json]]
    ) -> None:
        """Write a status; of its conditions only the given ones change."""
        now = self._api.now()
        kept = copy.deepcopy((owner.obj.get("status") or {}).get("conditions") or [])
        with_conditions: Object = {"conditions": kept}
        for condition in conditions:
            if set_condition(with_conditions, condition, now):
                for stored in kept:
                    if stored["type"] == condition["type"]:
                        # As for pods, with the update time that workload conditions have instead of a probe time.
                        stored.pop("lastProbeTime", None)
                        stored["lastUpdateTime"] = now
        self._owned.write_status(kind, owner, {**status, **(with_conditions if kept else {})})


def hash_template(template: Mapping[str, Json]) -> str:
    """Ten characters that change with the template."""
    digest = hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).digest()
    return "".join(_HASH_ALPHABET[byte % len(_HASH_ALPHABET)] for byte in digest[:10])
