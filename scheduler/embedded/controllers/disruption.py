"""The disruption controller: what PodDisruptionBudgets allow, counted from the pods that are ready now.

Rules of this module
  1. What cannot be counted allows nothing, and the condition says why.

Not here: evictions (nobody is counted as disrupted before it is deleted), and the controller's events.

Source: k8s.io/kubernetes v1.36.3 pkg/controller/disruption/disruption.go. Differs on purpose: owners are those this
cluster runs, others with `spec.replicas` count as a scale would.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from scheduler.embedded.controllers.owned import controller_of, is_ready
from scheduler.embedded.controllers.reactors import ObjectKey
from scheduler.embedded.kinds.catalog import DEPLOYMENT, DISRUPTION_BUDGET, POD, REPLICA_SET, STATEFUL_SET
from scheduler.embedded.server.object_store import Change, ChangeType, Stored
from scheduler.embedded.server.rest import Api
from scheduler.embedded.server.strategy import Object
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.objects import LabelSelector
from scheduler.validation.field_errors import Json

CONDITION: Final = "DisruptionAllowed"
_SCALED: Final = frozenset({POD.kind_id, DEPLOYMENT.kind_id, REPLICA_SET.kind_id, STATEFUL_SET.kind_id})


class UncountableError(Exception):
    """The pods that should be there cannot be counted; the text says why."""


class Disruption:
    """Keeps the status of all budgets."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def notice(self, kind_id: str, change: Change) -> Iterable[ObjectKey]:
        current = change.current
        if kind_id == DISRUPTION_BUDGET.kind_id:
            if change.type is not ChangeType.DELETED:
                yield ObjectKey(kind_id, current.namespace, current.name)
        elif kind_id in _SCALED:
            for budget in self._api.store.listed(DISRUPTION_BUDGET.kind_id, current.namespace):
                yield ObjectKey(DISRUPTION_BUDGET.kind_id, budget.namespace, budget.name)

    def look(self, key: ObjectKey) -> None:
        budget = self._api.store.get(key.kind_id, key.namespace, key.name)
        if key.kind_id != DISRUPTION_BUDGET.kind_id or budget is None:
            return
        old = budget.obj.get("status") or {}
        try:
            status = self._counted(budget)
            value, reason = (
                ("True", "SufficientPods") if status["disruptionsAllowed"] > 0 else ("False", "InsufficientPods")
            )
            generation = status["observedGeneration"]
            condition = {"status": value, "reason": reason, "message": "", "observedGeneration": generation}
        except UncountableError as error:
            status = {**old, "disruptionsAllowed": 0}
            condition = {"status": "False", "reason": "SyncFailed", "message": str(error)}
            if "observedGeneration" in old:
                condition["observedGeneration"] = old["observedGeneration"]
        status["conditions"] = [self._condition(old, condition)]
        if status != old:
            self._write(budget, status)

    def _write(self, budget: Stored, status: Mapping[str, Json]) -> None:
        def change(obj: Object) -> Object:
            obj["status"] = dict(status)
            return obj

        self._api.update(DISRUPTION_BUDGET, budget.namespace, budget.name, change, sub_resource="status")

    def _condition(self, old: Mapping[str, Json], condition: dict[str, Json]) -> dict[str, Json]:
        before = next((one for one in old.get("conditions") or () if one["type"] == CONDITION), None)
        is_same = before is not None and before["status"] == condition["status"]
        since = before["lastTransitionTime"] if before is not None and is_same else self._api.now()
        return {"type": CONDITION, "lastTransitionTime": since, **condition}

    def _counted(self, budget: Stored) -> dict[str, Json]:
        spec = budget.obj["spec"]
        given = spec.get("selector")
        selector = compile_label_selector(msgspec.convert(given, LabelSelector) if given is not None else None)
        pods = [
            pod
            for pod in self._api.store.listed(POD.kind_id, budget.namespace)
            if selector.matches(pod.obj["metadata"].get("labels") or {})
        ]
        expected, desired = self._wanted(spec, pods)
        healthy = sum("deletionTimestamp" not in pod.obj["metadata"] and is_ready(pod) for pod in pods)
        return {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": max(0, healthy - desired) if expected else 0,
            "observedGeneration": budget.obj["metadata"]["generation"],
        }

    def _wanted(self, spec: Mapping[str, Json], pods: list[Stored]) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
        if most is not None:
            expected = self._expected(pods)
            return expected, max(0, expected - _scaled(most, expected))
        if isinstance(least, int):
            return len(pods), least
        if least is not None:
            expected = self._expected(pods)
            return expected, _scaled(least, expected)
        return 0, 0

    def _expected(self, pods: list[Stored]) -> int:
        """The replicas that the owners of `pods` want; pods without an owner count for nothing."""
        replicas_by_uid: dict[str, int] = {}
        for pod in pods:
            reference = controller_of(pod.obj)
            if reference is not None:
                uid, replicas = self._scale(pod, reference)
                replicas_by_uid[uid] = replicas
        return sum(replicas_by_uid.values())

    def _scale(self, pod: Stored, reference: Mapping[str, Json]) -> tuple[str, int]:
        owner = self._owner(pod.namespace, reference)
        above = controller_of(owner) if owner is not None and reference["kind"] == REPLICA_SET.kind else None
        if above is not None and above["kind"] == DEPLOYMENT.kind:
            owner = self._owner(pod.namespace, above)
        if owner is None:
            raise UncountableError(f'found no controllers for pod "{pod.name}"')
        if "replicas" not in owner["spec"]:
            kind = self._api.registry.by_kind(reference["apiVersion"], reference["kind"])
            assert kind is not None
            raise UncountableError(f"{kind.kind_id} does not implement the scale subresource")
        return owner["metadata"]["uid"], owner["spec"]["replicas"]

    def _owner(self, namespace: str, reference: Mapping[str, Json]) -> Mapping[str, Json] | None:
        kind = self._api.registry.by_kind(reference["apiVersion"], reference["kind"])
        found = self._api.find(kind.kind_id, namespace, reference["name"]) if kind is not None else None
        return found if found is not None and found["metadata"]["uid"] == reference["uid"] else None


def _scaled(amount: int | str, total: int) -> int:
    """A number, or a percentage of `total`, rounded up."""
    if isinstance(amount, int):
        return amount
    return -(-int(amount.rstrip("%")) * total // 100)
