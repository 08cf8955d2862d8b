"""Moving pods in an offline cluster: which may move, a move as it would happen, and what a plan of moves is.

A move is what a person can do to a pod: its node is cordoned or its device tainted, the pod is evicted, its controller
makes it again, and the scheduler places the new one. So it lands where the scheduler puts it, never back where it was,
and only where there is room before it is evicted.

Rules of this module
  1. What is played can be taken back, object by object: whoever searches plays many moves on one cluster.
  2. Nobody is preempted for a moved pod.

Not here: which pods to move (`making_room`, `draining`).

Cost: a few milliseconds a move, what the scheduler's decision takes not counted.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from allocator import Features
from scheduler.config.settings import Config
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.state.store import Store
from scheduler.embedded.controllers.owned import controller_of
from scheduler.embedded.kinds.catalog import CLAIM, CLAIM_TEMPLATE, NODE, POD
from scheduler.embedded.loading import restore_object
from scheduler.embedded.server.object_store import Stored
from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.model.keys import PodUid
from scheduler.model.pod_claims import claim_names
from scheduler.offline.leaving import leave
from scheduler.offline.offline_cluster import Obj, OfflineCluster
from scheduler.offline.playing import profiles_with
from scheduler.offline.verdicts import Answers, PodResult, Run, Verdict, devices_of, new_machine, scheduler_name_of

PLAY: Final = 10
"""Questions that a played move counts as."""
MOVABLE_ANNOTATION: Final = "dra-scheduler/movable"
"""`"false"` on a pod: it is never moved by a plan."""
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_MIRROR: Final = "kubernetes.io/config.mirror"
ANNOTATIONS_READ: Final = (MOVABLE_ANNOTATION, _SAFE_TO_EVICT, _MIRROR)
"""Those of pods that this module looks at."""
_FROM_THE_SERVER: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that was moved.

    Attributes:
        devices, given: Its devices before and after, as `devices_of` has them.
        controller: Kind and name of who makes it again.
        named_claims: Claims it names itself: they are de-allocated once the pod is gone, and allocated anew.
    """

    namespace: str
    name: str
    source: str
    target: str
    devices: list[dict[str, Any]]
    given: list[dict[str, Any]]
    controller: tuple[str, str]
    named_claims: tuple[str, ...]


class Outcome(StrEnum):
    """What became of looking for a plan."""

    FITS = "fits"
    """Nothing needs to move: the pod fits."""
    FREE = "free"
    """Nothing needs to move: nobody holds the device."""
    PLAN = "plan"
    NONE = "none"
    UNKNOWN = "unknown"
    """None was found before the questions or the steps were used up."""


@dataclass(slots=True, kw_only=True)
class MovePlan:
    """Moves, and what came of looking for them.

    Attributes:
        steps: Who goes at once, in order.
        budgets: Of each PodDisruptionBudget: how many of its pods go, and how many it allows to go now.
        is_out_of_steps: The steps of costly searches were used up, not the questions.
    """

    outcome: Outcome = Outcome.UNKNOWN
    steps: list[list[Move]] = field(default_factory=list)
    budgets: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    questions: int = 0
    is_out_of_steps: bool = False
    problems: list[str] = field(default_factory=list)


def why_it_stays(cluster: OfflineCluster, pod: Stored) -> str:
    """Why a running pod may be moved for nobody; "" where it may."""
    metadata, spec = pod.obj["metadata"], pod.obj["spec"]
    annotations = metadata.get("annotations") or {}
    controller = controller_of(pod.obj)
    if metadata.get("deletionTimestamp"):
        return "is being deleted"
    if _MIRROR in annotations or (controller is not None and controller.get("kind") == "Node"):
        return "is a static pod"
    if controller is None:
        return "has no controller that would make it again"
    for annotation in (MOVABLE_ANNOTATION, _SAFE_TO_EVICT):
        if annotations.get(annotation) == "false":
            return f'has the annotation {annotation}: "false"'
    for entry in spec.get("resourceClaims") or ():
        template = entry.get("resourceClaimTemplateName")
        if template and cluster.api.find(CLAIM_TEMPLATE.kind_id, pod.namespace, template) is None:
            return f"has a claim from the template {template}, which is not among the objects"
    return ""


def budgets_used(store: Store, uids: Iterable[str]) -> dict[tuple[str, str], tuple[int, int]]:
    """Of each PodDisruptionBudget that covers some of the pods: how many, and how many it allows to go now."""
    used: Counter[tuple[str, str]] = Counter()
    allowed: dict[tuple[str, str], int] = {}
    for uid in uids:
        pod = store.pods[PodUid(uid)]
        for budget in store.disruption_budgets.of(pod.metadata.namespace):
            if budget.selector.matches(pod.metadata.labels or {}):
                key = (budget.key.namespace, budget.key.name)
                used[key] += 1
                allowed[key] = budget.allowed
    return {key: (count, allowed[key]) for key, count in used.items()}


class Board:
    """A cluster on which moves are played, with its scheduler.

    Args:
        cluster: Loaded.
        config: Says which plugins answer; None: the default ones.
        tried: Uids of the only pods without a node that are there.
    """

    def __init__(
        self,
        cluster: OfflineCluster,
        config: Config | None,
        features: Features,
        tried: Collection[str] = (),
        settings: CoreSettings | None = None,
    ) -> None:
        self.cluster: Final = cluster
        names = map(scheduler_name_of, cluster.pods())
        profile = profiles_with(config, features, {}, preempts=False)
        self.machine: Final = new_machine(names, profile, features, settings)
        self.store: Final = self.machine.store
        self.run: Final = Run(cluster, Answers(self.machine, cluster, tried))
        self.run.start()
        self._decide()
        self._numbers = 0

    @property
    def problems(self) -> list[str]:
        """What of the objects is left out."""
        return [*map(str, self.cluster.loaded.problems), *self.run.answers.left_out.texts]

    def stored(self, keys: Iterable[tuple[str, str]]) -> list[Stored]:
        """The pods of these namespaces and names that are there."""
        found = [self.cluster.api.store.get(POD.kind_id, *key) for key in keys]
        return [pod for pod in found if pod is not None]

    def devices(self, pod: Stored) -> list[dict[str, Any]]:
        return devices_of(self.run.answers, self.run.verdict(pod.obj))

    def cordon(self, node: str, *, on: bool = True) -> None:
        """`kubectl cordon`, or with `on=False` `kubectl uncordon`."""

        self._specify(NODE, self.cluster.api.get(NODE, "", node), unschedulable=True if on else None)
        self.run.observe_changes()

    def _specify(self, kind: ServedKind, stored: Stored, **fields: Any) -> None:
        """Change the spec, None takes a field away; the rest may be what no server would store."""
        spec = {key: value for key, value in {**stored.obj["spec"], **fields}.items() if value is not None}
        obj = {**stored.obj, "metadata": {**stored.obj["metadata"]}, "spec": spec}
        self.cluster.api.store.put(kind.kind_id, stored.namespace, stored.name, obj)

    def move(self, pods: Sequence[Stored]) -> list[Move] | Verdict:
        """Evict pods at once and let the scheduler place the new ones; what it says of the first that stays pending."""
        had = [self.devices(pod) for pod in pods]
        for pod in pods:
            leave(self.cluster, pod)
        self.run.observe_changes()
        again = [self._make_again(pod) for pod in pods]
        self._decide()
        verdicts = [self.run.verdict(one.obj) for one in again]
        waiting = [one for one in verdicts if one.outcome is not PodResult.FITS]
        return waiting[0] if waiting else list(map(self._move_of, pods, had, verdicts))

    def _move_of(self, pod: Stored, devices: list[dict[str, Any]], verdict: Verdict) -> Move:
        source, entries = str(pod.obj["spec"]["nodeName"]), pod.obj["spec"].get("resourceClaims") or ()
        named = tuple(str(one["resourceClaimName"]) for one in entries if one.get("resourceClaimName"))
        given = devices_of(self.run.answers, verdict)
        owner = controller_of(pod.obj) or {}
        controller = str(owner.get("kind", "")), str(owner.get("name", ""))
        return Move(pod.namespace, pod.name, source, verdict.node, devices, given, controller, named)

    def place(self, pod: Stored) -> tuple[str, list[dict[str, Any]]] | None:
        """Let the scheduler try a pod that waits behind a gate: its node and devices; None where it stays pending."""
        self._specify(POD, self.cluster.api.get(POD, pod.namespace, pod.name), schedulingGates=None)
        self._decide()
        verdict = self.run.verdict(pod.obj)
        return (verdict.node, devices_of(self.run.answers, verdict)) if verdict.outcome is PodResult.FITS else None

    def _decide(self) -> None:
        self.run.observe_changes()
        self.run.until(self.cluster.now_ms)

    def _make_again(self, pod: Stored) -> Stored:
        """What the pod's controller does."""
        self._numbers += 1
        metadata = {key: value for key, value in pod.obj["metadata"].items() if key not in _FROM_THE_SERVER}
        metadata["uid"] = f"{pod.uid}-moved-{self._numbers}"
        spec = {key: value for key, value in pod.obj["spec"].items() if key != "nodeName"}
        obj = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        _, again = restore_object(self.cluster.api, obj)
        self.cluster.make_claims_of(again)
        (stored,) = self.stored([(pod.namespace, pod.name)])
        return stored

    # -- taking back -------------------------------------------------------------------------------

    def snapshot(self, pods: Collection[Stored]) -> list[tuple[str, Obj]]:
        """Pods and their claims as they are, to `restore`."""
        saved: list[tuple[str, Obj]] = []
        for pod in pods:
            for name in claim_names(pod.obj):
                claim = self.cluster.api.store.get(CLAIM.kind_id, pod.namespace, name)
                if claim is not None:
                    saved.append((CLAIM.kind, _document(claim.obj, "resource.k8s.io/v1", CLAIM.kind)))
            saved.append((POD.kind, _document(pod.obj, "v1", POD.kind)))
        return saved

    def restore(self, saved: Collection[tuple[str, Obj]]) -> None:
        """Put things back as they were."""
        for kind, obj in saved:
            metadata = obj["metadata"]
            if kind == POD.kind:
                now = self.cluster.api.store.get(POD.kind_id, metadata["namespace"], metadata["name"])
                if now is not None:
                    leave(self.cluster, now)
        self.run.observe_changes()
        for _, obj in saved:
            restore_object(self.cluster.api, obj)
        self._decide()


def _document(obj: Mapping[str, Any], version: str, kind: str) -> Obj:
    return {"apiVersion": version, "kind": kind, **copy.deepcopy(dict(obj))}
