"""Deployments, ReplicaSets and Jobs at work: they make pods, replace them, and count them.

Simpler than the real controllers where a scheduler cannot tell: a rolling update brings up all new pods at
once and takes the old ones down as new ones become ready; there is no revision history and no back-off.

Source: k8s.io/kubernetes v1.36.3 pkg/controller/{deployment,replicaset,job} (names, labels, owners, status fields).
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import orjson

from scheduler.embedded.controllers.reactors import Key
from scheduler.embedded.kinds.catalog import DEPLOYMENT, JOB, POD, REPLICA_SET
from scheduler.embedded.kinds.pods import TERMINAL_PHASES
from scheduler.embedded.kinds.sub_resources import set_condition
from scheduler.embedded.server.kinds import Kind
from scheduler.embedded.server.rest import Api, DeleteOptions, WriteOptions
from scheduler.embedded.server.statuses import ApiError
from scheduler.embedded.server.store import Change, ChangeType, Stored
from scheduler.embedded.server.strategy import Object
from scheduler.validation.field_errors import Json

TEMPLATE_HASH_LABEL: Final = "pod-template-hash"
REVISION_ANNOTATION: Final = "deployment.kubernetes.io/revision"

_OPTIONS: Final = WriteOptions(manager="kube-controller-manager")
_HASH_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


class Workloads:
    """The three workload controllers."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._owned: dict[str, set[Key]] = {}

    def notice(self, kind_id: str, change: Change) -> Iterable[Key]:
        current = change.current
        if kind_id in (DEPLOYMENT.kind_id, REPLICA_SET.kind_id, JOB.kind_id):
            if change.type is ChangeType.DELETED:
                self._owned.pop(current.uid, None)
            yield Key(kind_id, current.namespace, current.name)
        if kind_id in (POD.kind_id, REPLICA_SET.kind_id):
            owner = controller_of(current.obj)
            if owner is None:
                return
            key = Key(kind_id, current.namespace, current.name)
            if change.type is not ChangeType.DELETED:
                self._owned.setdefault(owner["uid"], set()).add(key)
            elif owner["uid"] in self._owned:
                self._owned[owner["uid"]].discard(key)
            kind = self._api.registry.by_kind(owner["apiVersion"], owner["kind"])
            if kind is not None:
                yield Key(kind.kind_id, current.namespace, owner["name"])

    def look(self, key: Key) -> None:
        stored = self._api.store.get(key.kind_id, key.namespace, key.name)
        if stored is None or stored.obj["metadata"].get("deletionTimestamp"):
            return
        if key.kind_id == DEPLOYMENT.kind_id:
            self._look_at_deployment(stored)
        elif key.kind_id == REPLICA_SET.kind_id:
            self._look_at_replica_set(stored)
        elif key.kind_id == JOB.kind_id:
            self._look_at_job(stored)

    def _owned_by(self, owner: Stored, kind: Kind) -> list[Stored]:
        """The live objects of a kind that `owner` controls, in order of their names."""
        keys = self._owned.get(owner.uid, set())
        found: list[Stored] = []
        for key in sorted(keys):
            stored = self._api.store.get(key.kind_id, key.namespace, key.name)
            if stored is None or (controller_of(stored.obj) or {}).get("uid") != owner.uid:
                keys.discard(key)
            elif key.kind_id == kind.kind_id:
                found.append(stored)
        return found

    # -- deployments -------------------------------------------------------------------------------

    def _look_at_deployment(self, deployment: Stored) -> None:
        obj = deployment.obj
        wanted: int = obj["spec"]["replicas"]
        template_hash = hash_template(obj["spec"]["template"])
        name = f"{deployment.name}-{template_hash}"
        sets = self._owned_by(deployment, REPLICA_SET)
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
        return self._api.create(REPLICA_SET, deployment.namespace, body, _OPTIONS)

    def _scale(self, replica_set: Stored, replicas: int) -> None:
        if replica_set.obj["spec"]["replicas"] == replicas:
            return

        def change(obj: Object) -> Object:
            obj["spec"]["replicas"] = replicas
            return obj

        self._api.update(REPLICA_SET, replica_set.namespace, replica_set.name, change, options=_OPTIONS)

    def _write_deployment_status(self, deployment: Stored, current_name: str) -> None:
        sets = self._owned_by(deployment, REPLICA_SET)
        statuses = {found.name: found.obj["status"] for found in sets}
        total = sum(status.get("replicas", 0) for status in statuses.values())
        ready = sum(status.get("readyReplicas", 0) for status in statuses.values())
        updated = statuses.get(current_name, {}).get("replicas", 0)
        wanted: int = deployment.obj["spec"]["replicas"]
        is_available = ready >= wanted - wanted // 4
        is_complete = updated == ready == total == wanted
        now = self._api.now()

        progress = "has successfully progressed" if is_complete else "is progressing"

        def change(obj: Object) -> Object:
            old = obj.get("status") or {}
            status: Object = {
                "observedGeneration": obj["metadata"].get("generation", 1),
                **_counts(
                    replicas=total,
                    updatedReplicas=updated,
                    readyReplicas=ready,
                    availableReplicas=ready,
                    unavailableReplicas=max(0, wanted - ready),
                ),
                "conditions": copy.deepcopy(old.get("conditions") or []),
            }
            available = {
                "type": "Available",
                "status": "True" if is_available else "False",
                "reason": "MinimumReplicasAvailable" if is_available else "MinimumReplicasUnavailable",
                "message": f"Deployment {'has' if is_available else 'does not have'} minimum availability.",
            }
            progressing = {
                "type": "Progressing",
                "status": "True",
                "reason": "NewReplicaSetAvailable" if is_complete else "ReplicaSetUpdated",
                "message": f'ReplicaSet "{current_name}" {progress}.',
            }
            for condition in (available, progressing):
                _set_workload_condition(status, condition, now)
            obj["status"] = status
            return obj

        self._api.update(
            DEPLOYMENT, deployment.namespace, deployment.name, change, sub_resource="status", options=_OPTIONS
        )

    # -- replica sets ------------------------------------------------------------------------------

    def _look_at_replica_set(self, replica_set: Stored) -> None:
        obj = replica_set.obj
        wanted: int = obj["spec"]["replicas"]
        active = [pod for pod in self._owned_by(replica_set, POD) if is_active(pod)]
        if len(active) < wanted:
            for _ in range(wanted - len(active)):
                self._create_pod(REPLICA_SET, replica_set, obj["spec"]["template"])
        elif len(active) > wanted:
            # Pods that are not ready go first, then the youngest, as upstream ranks them.
            victims = sorted(active, key=lambda pod: (is_ready(pod), pod.obj["spec"].get("nodeName") is not None))
            for pod in victims[: len(active) - wanted]:
                self._api.delete(POD, pod.namespace, pod.name, DeleteOptions(uid=pod.uid))
        active = [pod for pod in self._owned_by(replica_set, POD) if is_active(pod)]
        ready = sum(map(is_ready, active))

        def change(live: Object) -> Object:
            counts = _counts(fullyLabeledReplicas=len(active), readyReplicas=ready, availableReplicas=ready)
            generation = live["metadata"].get("generation", 1)
            live["status"] = {"replicas": len(active), "observedGeneration": generation, **counts}
            return live

        self._api.update(
            REPLICA_SET, replica_set.namespace, replica_set.name, change, sub_resource="status", options=_OPTIONS
        )

    def _create_pod(self, kind: Kind, owner: Stored, template: Mapping[str, Json]) -> None:
        template = copy.deepcopy(dict(template))
        metadata = {key: value for key, value in (template.get("metadata") or {}).items() if key != "creationTimestamp"}
        metadata |= {"generateName": f"{owner.name}-", "ownerReferences": [owner_reference(kind, owner)]}
        self._api.create(POD, owner.namespace, {"metadata": metadata, "spec": template["spec"]}, _OPTIONS)

    # -- jobs --------------------------------------------------------------------------------------

    def _look_at_job(self, job: Stored) -> None:
        obj = job.obj
        if any(
            condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
            for condition in (obj.get("status") or {}).get("conditions") or ()
        ):
            return
        spec = obj["spec"]
        pods = self._owned_by(job, POD)
        phases = [(pod.obj.get("status") or {}).get("phase") for pod in pods]
        succeeded, failed = phases.count("Succeeded"), phases.count("Failed")
        active = [pod for pod in pods if is_active(pod)]
        completions, parallelism = spec.get("completions"), spec["parallelism"]
        has_failed = failed > spec["backoffLimit"]
        is_complete = succeeded >= completions if completions is not None else succeeded > 0 and not active
        if has_failed or is_complete or spec.get("suspend"):
            if not is_complete or has_failed:
                for pod in active:
                    self._api.delete(POD, pod.namespace, pod.name, DeleteOptions(uid=pod.uid))
                active = []
        else:
            wanted = parallelism if completions is None else min(parallelism, completions - succeeded)
            if completions is None and succeeded:
                wanted = 0  # A work queue: one success means that no new pods are needed.
            for _ in range(wanted - len(active)):
                self._create_pod(JOB, job, spec["template"])
            active = [pod for pod in self._owned_by(job, POD) if is_active(pod)]
        self._write_job_status(
            job, active, succeeded=succeeded, failed=failed, is_complete=is_complete, has_failed=has_failed
        )

    def _write_job_status(
        self, job: Stored, active: list[Stored], *, succeeded: int, failed: int, is_complete: bool, has_failed: bool
    ) -> None:
        now = self._api.now()

        def change(obj: Object) -> Object:
            old = obj.get("status") or {}
            ready = sum(map(is_ready, active))
            status: Object = {
                "startTime": old.get("startTime") or now,
                **_counts(active=len(active), succeeded=succeeded, failed=failed),
                "ready": ready,
                "terminating": 0,
                "uncountedTerminatedPods": {},
                "conditions": copy.deepcopy(old.get("conditions") or []),
            }
            if has_failed:
                condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
                _set_workload_condition(
                    status, {**condition, "message": "Job has reached the specified backoff limit"}, now
                )
            elif is_complete:
                status["completionTime"] = now
                condition = {"type": "Complete", "status": "True", "reason": "CompletionsReached"}
                _set_workload_condition(
                    status, {**condition, "message": "Reached expected number of succeeded pods"}, now
                )
            if not status["conditions"]:
                del status["conditions"]
            obj["status"] = status
            return obj

        try:
            self._api.update(JOB, job.namespace, job.name, change, sub_resource="status", options=_OPTIONS)
        except ApiError as error:
            if error.code != 404:
                raise


def controller_of(obj: Mapping[str, Json]) -> dict[str, Json] | None:
    """The owner reference of the object's controller."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: dict[str, Json] = owner
            return found
    return None


def owner_reference(kind: Kind, owner: Stored) -> dict[str, Json]:
    """A controller reference to `owner`."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def hash_template(template: Mapping[str, Json]) -> str:
    """Ten characters that change with the template."""
    digest = hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).digest()
    return "".join(_HASH_ALPHABET[byte % len(_HASH_ALPHABET)] for byte in digest[:10])


def _counts(**count_by_field: int) -> dict[str, Json]:
    """Go leaves zero counts out."""
    return {field: count for field, count in count_by_field.items() if count}


def is_active(pod: Stored) -> bool:
    """Whether a pod counts for its owner: it has not ended and is not being deleted."""
    phase = (pod.obj.get("status") or {}).get("phase")
    return phase not in TERMINAL_PHASES and "deletionTimestamp" not in pod.obj["metadata"]


def is_ready(pod: Stored) -> bool:
    """Whether a pod's condition says so."""
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in (pod.obj.get("status") or {}).get("conditions") or ()
    )


def _set_workload_condition(status: Object, condition: dict[str, Json], now: str) -> None:
    """As for pods, with the update time that workload conditions have instead of a probe time."""
    if set_condition(status, condition, now):
        for stored in status["conditions"]:
            if stored["type"] == condition["type"]:
                stored.pop("lastProbeTime", None)
                stored["lastUpdateTime"] = now
