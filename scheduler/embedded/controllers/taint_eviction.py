"""The device taint eviction controller: running pods leave devices with a NoExecute taint that they do not tolerate.

What kube-controller-manager's device-taint-eviction-controller does in a real cluster, as a client of the API. Taints
come from slices and from DeviceTaintRules; a rule's status reports how far its evictions are.

Rules of this module
  1. Level-triggered: when a pod, its claims, a slice with such taints or a rule changes, the pod's time of eviction is
     computed anew from the indexes. A time in the future is a key that becomes due then, and is computed anew again.
  2. A pod is evicted at the earliest time of its claims; the time of a claim is the earliest of its devices' taints:
     when the taint was added, plus `tolerationSeconds` of the matching tolerations with effect NoExecute or none.
  3. Eviction is: event, condition DisruptionTarget, DELETE with the pod's UID. The rule's condition EvictionInProgress
     is written at once when the rule's spec is new, else at most every 10 s.

Source: k8s.io/kubernetes v1.36.3 pkg/controller/devicetainteviction/device_taint_eviction.go.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import kopf
from msgspec import convert

from allocator.requests.device_taints import tolerates
from scheduler.embedded.controllers.client_controller import (
    CLAIMS,
    PODS,
    SLICES,
    TAINT_RULES,
    ClientController,
    Obj,
    RequestError,
    WorkKey,
)
from scheduler.model.objects import Taint, Toleration
from scheduler.model.pod_claims import claim_names_of_references, is_owned_by
from scheduler.model.timestamps import format_rfc3339
from scheduler.validation.claim_refusals import results_of

_LOG: Final = logging.getLogger("scheduler.embedded.controllers.taint_eviction")

FIELD_MANAGER: Final = "device-taint-eviction-controller"
CONDITION: Final = "EvictionInProgress"
NO_EXECUTE: Final = "NoExecute"
STATUS_PERIOD_S: Final = 10.0

_PODS: Final = "/api/v1/namespaces/{}/pods"
_RULES: Final = "/apis/resource.k8s.io/v1/devicetaintrules"
_USER: Final = "user of"  # as in the claim controllers' pod index
_WORKERS: Final = 2


@dataclass(frozen=True, slots=True)
class Eviction:
    """When a pod has to go, and the names of the rules among the reasons."""

    at: datetime
    rules: frozenset[str] = frozenset()

    def joined(self, other: Eviction | None) -> Eviction:
        """Both: the earlier time, all reasons."""
        return self if other is None else Eviction(min(self.at, other.at), self.rules | other.rules)


def tolerated_for(taint: Obj, tolerations: Iterable[Obj]) -> float | None:
    """Seconds for which an allocated device's taint is tolerated: 0 when it is not, None for ever."""
    seconds: list[float] = []
    for toleration in tolerations:
        if toleration.get("effect") not in (None, "", NO_EXECUTE) or not tolerates(
            convert(toleration, Toleration), convert(taint, Taint)
        ):
            continue
        if toleration.get("tolerationSeconds") is None:
            return None
        seconds.append(max(0, toleration["tolerationSeconds"]))
    return min(seconds, default=0)


def rule_matches(rule: Obj, driver: str, pool: str, device: str) -> bool:
    """Whether the rule selects the device; one without a selector selects none."""
    selector = rule["spec"].get("deviceSelector")
    if selector is None:
        return False
    wanted = {"driver": driver, "pool": pool, "device": device}
    return all(selector.get(field) in (None, value) for field, value in wanted.items())


def has_no_execute(slice_: Obj) -> bool:
    """Whether any device of a slice carries a taint that evicts."""
    return any(
        taint.get("effect") == NO_EXECUTE
        for device in slice_["spec"].get("devices") or ()
        for taint in device.get("taints") or ()
    )


class TaintEvictionController(ClientController):
    """The controller's state; it uses the indexes of the `ClaimController` in whose kopf registry it is put."""

    def __init__(self, server: str, token: str | None = None, authority: str | None = None) -> None:
        super().__init__(server, token, authority, workers_count=_WORKERS)
        self._evicting_slices: set[str] = set()
        self._waiting: dict[str, Eviction] = {}  # by pod UID
        self._evicted: set[str] = set()
        self._evicted_count: dict[str, int] = {}  # by rule UID
        self._specs: dict[str, Obj] = {}  # of rules by UID

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Put the controller's indexes and handlers into a private registry."""
        self.register_life(registry)

        def index_slice(body: kopf.Body, **_: Any) -> dict[Any, Obj]:
            return {(body["spec"]["driver"], body["spec"]["pool"]["name"]): dict(body)}

        def index_rule(name: str | None, body: kopf.Body, **_: Any) -> dict[Any, Obj]:
            return {name: dict(body)}

        kopf.index(*SLICES, id="slices", registry=registry)(index_slice)
        kopf.index(*TAINT_RULES, id="rules", registry=registry)(index_rule)
        self.on_event(registry, PODS, self.pod_changed)
        self.on_event(registry, CLAIMS, self.claim_changed)
        self.on_event(registry, SLICES, self.slice_changed)
        self.on_event(registry, TAINT_RULES, self.rule_changed)

    # -- what makes a key due ----------------------------------------------------------------------

    def pod_changed(self, pod: Obj, *, is_deleted: bool) -> None:
        """A pod was added, changed or deleted."""
        if is_deleted:
            self._waiting.pop(pod["metadata"]["uid"], None)
            self._evicted.discard(pod["metadata"]["uid"])
        elif (pod.get("spec") or {}).get("resourceClaims"):
            self._queue.enqueue(("pod", pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def claim_changed(self, claim: Obj, *, is_deleted: bool) -> None:
        """A claim was added, changed or deleted: its pods may have to go, or may stay."""
        namespace = claim["metadata"]["namespace"]
        for pod in self._indexes["pods"].get((_USER, namespace, claim["metadata"]["name"]), ()):
            self._queue.enqueue(("pod", namespace, pod["metadata"]["name"]))

    def slice_changed(self, slice_: Obj, *, is_deleted: bool) -> None:
        """A slice was added, changed or deleted; it matters only if it evicts, or did before."""
        uid = slice_["metadata"]["uid"]
        is_evicting = has_no_execute(slice_) and not is_deleted
        if is_evicting or uid in self._evicting_slices:
            (self._evicting_slices.add if is_evicting else self._evicting_slices.discard)(uid)
            self._enqueue_pods()

    def rule_changed(self, rule: Obj, *, is_deleted: bool) -> None:
        """A rule was added, changed or deleted; its status is not its spec."""
        uid, name = rule["metadata"]["uid"], rule["metadata"]["name"]
        if is_deleted:
            self._specs.pop(uid, None)
            self._evicted_count.pop(uid, None)
        elif self._specs.get(uid) == rule["spec"]:
            return
        else:
            self._specs[uid] = rule["spec"]
            self._queue.enqueue(("rule", "", name))
        self._enqueue_pods()

    def _enqueue_pods(self) -> None:
        for pod in self._bound_pods():
            self._queue.enqueue(("pod", pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def _bound_pods(self) -> Iterator[Obj]:
        for key, pods in list(self._indexes["pods"].items()):
            if key[0] == _USER:
                continue
            for pod in pods:
                if pod["spec"].get("nodeName"):
                    yield pod

    async def sync(self, key: WorkKey) -> None:
        kind, namespace, name = key
        if kind == "pod":
            await self.sync_pod(namespace, name)
        else:
            await self.sync_rule(name)

    # -- pods --------------------------------------------------------------------------------------

    async def sync_pod(self, namespace: str, name: str) -> None:
        """Evict the pod when its time has come, or look again when it comes."""
        for pod in self._indexes["pods"].get((namespace, name), ()):
            await self._sync_pod(pod)

    async def _sync_pod(self, pod: Obj) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        if uid in self._evicted or metadata.get("deletionTimestamp"):
            self._waiting.pop(uid, None)
            return
        eviction = self.eviction_of(pod, self._evicting_rules())
        if eviction is None:
            if self._waiting.pop(uid, None) is not None:
                await self._record(pod, "Cancelling deletion")
            return
        self._waiting[uid] = eviction
        wait_s = (eviction.at - datetime.now(UTC)).total_seconds()
        if wait_s > 0:
            self._queue.enqueue_later(("pod", metadata["namespace"], metadata["name"]), wait_s)
            self._report_later(eviction)
            return
        if await self._evict(pod):
            for name in eviction.rules:
                for rule in self._indexes["rules"].get(name, ()):
                    rule_uid = rule["metadata"]["uid"]
                    self._evicted_count[rule_uid] = self._evicted_count.get(rule_uid, 0) + 1
        self._evicted.add(uid)
        self._waiting.pop(uid, None)
        self._report_later(eviction)

    def _report_later(self, eviction: Eviction) -> None:
        for name in eviction.rules:
            self._queue.enqueue_later(("rule", "", name), STATUS_PERIOD_S)

    async def _evict(self, pod: Obj) -> bool:
        """Delete the pod; False when somebody else did."""
        metadata = pod["metadata"]
        path = f"{_PODS.format(metadata['namespace'])}/{metadata['name']}"
        live = await self._requests.get(path)
        if live is None or live["metadata"]["uid"] != metadata["uid"] or live["metadata"].get("deletionTimestamp"):
            return False
        await self._record(pod, "Marking for deletion")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByDeviceTaintManager",
            "message": "Device Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": _now(),
        }
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [condition]}}
        try:
            await self._requests.send("PATCH", f"{path}/status", patch, media="application/strategic-merge-patch+json")
            await self._requests.send("DELETE", path, {"preconditions": {"uid": metadata["uid"]}})
        except RequestError as error:
            if error.code != 404:
                raise
            return False
        _LOG.info("evicted pod %s/%s", metadata["namespace"], metadata["name"])
        return True

    async def _record(self, pod: Obj, text: str) -> None:
        await self._requests.record_event(pod, "Normal", "DeviceTaintManagerEviction", text, component=FIELD_MANAGER)

    def eviction_of(self, pod: Obj, rules: Iterable[Obj]) -> Eviction | None:
        """When the pod must be evicted, None when nothing asks for it.

        Args:
            rules: The rules with effect NoExecute.
        """
        if not pod["spec"].get("nodeName"):
            return None
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        rules = tuple(rules)
        found: Eviction | None = None
        for name, is_generated in claim_names_of_references(pod):
            for claim in self._indexes["claims"].get((namespace, name), ()):
                if is_generated and not is_owned_by(claim, pod):
                    continue
                reserved = (claim.get("status") or {}).get("reservedFor") or ()
                if any(entry.get("uid") == uid for entry in reserved):
                    eviction = self._eviction_of_claim(claim, rules)
                    found = eviction.joined(found) if eviction is not None else found
        return found

    def _eviction_of_claim(self, claim: Obj, rules: tuple[Obj, ...]) -> Eviction | None:
        found: Eviction | None = None
        for result in results_of(claim.get("status") or {}):
            for taint, rule_name in self._evicting_taints(result, rules):
                seconds = tolerated_for(taint, result.get("tolerations") or ())
                if seconds is None:
                    continue
                at = datetime.fromisoformat(taint["timeAdded"]) + timedelta(seconds=seconds)
                found = Eviction(at, frozenset((rule_name,)) if rule_name else frozenset()).joined(found)
        return found

    def _evicting_taints(self, result: Obj, rules: Iterable[Obj]) -> Iterator[tuple[Obj, str]]:
        """NoExecute taints of an allocated device, each with the name of its rule, "" for the driver's own."""
        driver, pool, device = result["driver"], result["pool"], result["device"]
        for slice_ in self._newest_slices(driver, pool):
            for published in slice_["spec"].get("devices") or ():
                if published["name"] == device:
                    for taint in published.get("taints") or ():
                        if taint.get("effect") == NO_EXECUTE:
                            yield taint, ""
        for rule in rules:
            if rule_matches(rule, driver, pool, device):
                yield rule["spec"]["taint"], rule["metadata"]["name"]

    def _newest_slices(self, driver: str, pool: str) -> list[Obj]:
        slices = list(self._indexes["slices"].get((driver, pool), ()))
        newest = max((one["spec"]["pool"]["generation"] for one in slices), default=0)
        return [one for one in slices if one["spec"]["pool"]["generation"] == newest]

    def _evicting_rules(self) -> list[Obj]:
        return [
            rule
            for rules in self._indexes["rules"].values()
            for rule in rules
            if rule["spec"]["taint"]["effect"] == NO_EXECUTE
        ]

    # -- rules -------------------------------------------------------------------------------------

    async def sync_rule(self, name: str) -> None:
        """Report in the rule's status how far its evictions are."""
        for rule in self._indexes["rules"].get(name, ()):
            live = await self._requests.get(f"{_RULES}/{name}")
            if live is not None and live["metadata"]["uid"] == rule["metadata"]["uid"]:
                await self._report_progress(live)

    async def _report_progress(self, rule: Obj) -> None:
        name = rule["metadata"]["name"]
        conditions = (rule.get("status") or {}).get("conditions") or ()
        existing: Obj = next((one for one in conditions if one["type"] == CONDITION), {})
        generation = rule["metadata"]["generation"]
        if existing and existing.get("observedGeneration") == generation:
            age_s = (datetime.now(UTC) - datetime.fromisoformat(existing["lastTransitionTime"])).total_seconds()
            if age_s < STATUS_PERIOD_S:
                self._queue.enqueue_later(("rule", "", name), STATUS_PERIOD_S - age_s)
                return
        status, reason, message = self.condition_of(rule)
        wanted = {
            "type": CONDITION,
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": generation,
        }
        if all(existing.get(field, "") == value for field, value in wanted.items()):
            return
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceTaintRule",
            "metadata": {"name": name, "uid": rule["metadata"]["uid"]},
            "status": {"conditions": [{**wanted, "lastTransitionTime": _now()}]},
        }
        path = f"{_RULES}/{name}/status?fieldManager={FIELD_MANAGER}&force=true"
        await self._requests.send("PATCH", path, body, media="application/apply-patch+yaml")

    def condition_of(self, rule: Obj) -> tuple[str, str, str]:
        """Status, reason and message of the condition, in upstream's words."""
        effect = rule["spec"]["taint"]["effect"]
        evicted = self._evicted_count.get(rule["metadata"]["uid"], 0)
        status, message = "False", ""
        match effect:
            case "NoExecute":
                pods, namespaces = self._pending(rule)
                reason = "PodsPendingEviction" if pods else "Completed" if evicted else "NotStarted"
                if pods:
                    status = "True"
                    message = f"{_counted(pods, 'pod needs', 'pods need')} to be evicted in {_namespaces(namespaces)}."
            case "None":
                reason = "NoEffect"
                pods, namespaces = self._pending(rule)
                published, allocated = self._selected(rule)
                message = (
                    f"{_counted(published, 'published device')} selected. "
                    f"{_counted(allocated, 'allocated device')} selected. "
                    f"{_counted(pods, 'pod')} would be evicted in {_namespaces(namespaces)} if the effect was "
                    "NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an "
                    "update."
                )
            case _:
                reason, message = "OtherEffect", "Eviction only happens for the NoExecute effect."
        if evicted:
            message = f"{message} {_counted(evicted, 'pod')} evicted since starting the controller.".lstrip()
        return status, reason, message

    def _pending(self, rule: Obj) -> tuple[int, int]:
        """Pods that the rule evicts, or would with the effect NoExecute, and their namespaces."""
        name = rule["metadata"]["name"]
        others = [one for one in self._evicting_rules() if one["metadata"]["name"] != name]
        affected = [
            pod["metadata"]["namespace"]
            for pod in self._bound_pods()
            if not pod["metadata"].get("deletionTimestamp")
            and (eviction := self.eviction_of(pod, [*others, rule])) is not None
            and name in eviction.rules
        ]
        return len(affected), len(set(affected))

    def _selected(self, rule: Obj) -> tuple[int, int]:
        """Published and allocated devices that the rule selects."""
        published = sum(
            rule_matches(rule, driver, pool, device["name"])
            for driver, pool in list(self._indexes["slices"])
            for slice_ in self._newest_slices(driver, pool)
            for device in slice_["spec"].get("devices") or ()
        )
        claims = {
            claim["metadata"]["uid"]: claim
            for key in list(self._indexes["claims"])
            for claim in self._indexes["claims"].get(key, ())
        }
        allocated = sum(
            rule_matches(rule, result["driver"], result["pool"], result["device"])
            for claim in claims.values()
            for result in results_of(claim.get("status") or {})
        )
        return published, allocated


def _counted(count: int, one: str, many: str = "") -> str:
    return f"1 {one}" if count == 1 else f"{count} {many or one + 's'}"


def _namespaces(count: int) -> str:
    return "1 namespace" if count == 1 else f"{count} different namespaces"


def _now() -> str:
    return format_rfc3339(datetime.now(UTC).timestamp())
