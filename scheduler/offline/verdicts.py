"""What the scheduler would do with the pods of a cluster: the machine itself, fed and answered without a network.

The machine observes the objects as the API server would print them; its decisions become the requests that the live
scheduler sends, and the code of the embedded cluster answers them. So a verdict is the scheduler's
own; nothing here knows what a pod needs.

Rules of this module
  1. Time stands still but for timers that are due: it jumps to the next, for at most `_HORIZON_MS`.
  2. Pods are tried in the scheduler's own order, and each takes what it gets: its devices are in use for the next.
  3. kube-scheduler's pods are answered as kube-scheduler would, unless a configuration of ours has its name.

Not here: why a node does not fit (`reasons`), objects (`offline_cluster`).
"""

from __future__ import annotations

import itertools
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final

from msgspec import structs

from allocator import Features
from scheduler.answering import before_machine, go_on
from scheduler.config.kube_scheduler import KUBE_SCHEDULER, KubeProfile, stock
from scheduler.config.profile_config import ProfileConfig
from scheduler.config.settings import Config
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.ground.inputs import Deleted, Input, RelistFinished, TimerFired
from scheduler.core.machine import Machine
from scheduler.core.observation import KINDS
from scheduler.embedded.kinds.catalog import CLAIM, POD
from scheduler.embedded.server.object_store import ChangeType
from scheduler.framework.api import Profile
from scheduler.framework.decisions import Decision, RecordEvent
from scheduler.framework.diagnosis import cause_of, with_cause, without_cause
from scheduler.kube.codec import Codec
from scheduler.kube.decision_requests import answer_of, encode_decision
from scheduler.kube.outcomes import classify
from scheduler.kube.watched_kind import Broken, Seen, WatchedKind
from scheduler.model.group import GROUP_LABEL
from scheduler.model.keys import ObjectKey, PodUid
from scheduler.model.pod_claims import claim_names
from scheduler.model.stacks import Stacks
from scheduler.offline.after_binding import not_allocated
from scheduler.offline.group_mates import with_mates
from scheduler.offline.left_out_parts import LeftOutParts
from scheduler.offline.observing import observe_all, watched_kinds
from scheduler.offline.offline_cluster import Obj, OfflineCluster
from scheduler.plugins import default_plugins
from scheduler.validation.claim_refusals import results_of

_HORIZON_MS: Final = 12_000
"""After 5 s a pod that PreEnqueue keeps out gets its condition."""
TURNS_MAX: Final = 10_000_000
BUDGET_STEPS: Final = 200_000
"""For the search of each node, unless somebody says another number."""
TURN_STEPS: Final = 2_500
"""What a turn of the machine counts as where steps of about 4 us are counted: it ends after some 10 ms."""


class PodResult(StrEnum):
    """What became of a pod."""

    FITS = "fits"
    WAITS = "waits"
    """It has its node and devices, and waits for their driver (binding conditions)."""
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"
    """It cannot be decided: a selector fails, or the search takes too many steps."""
    GATED = "gated"
    REFUSED = "refused"
    """The API server would not take the pod."""
    UNKNOWN = "unknown"
    """The scheduler says nothing, which nobody should rely on."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the scheduler does with one pod.

    Attributes:
        node: Where it is bound, or would be when its driver is done.
        reason: Why not, in the scheduler's words; "" when it fits.
    """

    pod: tuple[str, str]
    uid: str
    outcome: PodResult
    node: str = ""
    reason: str = ""


@dataclass(slots=True)
class Answers:
    """The machine after it has decided, and what it said.

    Attributes:
        left_out: What of the objects the scheduler cannot read.
        notes: Of each uid what events say: reason and note, oldest first.
        tried: Uids of the only pods without a node that are there.
        run: What goes on deciding, for whoever wants to know what the machine makes of other objects.
    """

    machine: Machine
    cluster: OfflineCluster
    tried: Collection[str]
    run: Run | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    left_out: LeftOutParts = field(default_factory=LeftOutParts)
    notes: dict[str, list[tuple[str, str]]] = field(default_factory=dict)


def decide(
    cluster: OfflineCluster,
    *,
    features: Features,
    budget_steps: int,
    config: Config | None = None,
    asked: Collection[tuple[str, str]] | None = None,
    namespace: str | None = None,
    reports_causes: bool = False,
    turns_max: int = TURNS_MAX,
) -> Answers:
    """Let the scheduler decide about the pods that wait.

    Args:
        config: Its profiles, nodes and slices; None: the default plugins, with `budget_steps`.
        asked: Namespace and name of the only pods to answer about, None for all. Beside them those of their groups are
            tried; the others that wait are not there.
        namespace: The only namespace whose pods to try, None for all.
        reports_causes: Whether the reasons say the cause too, as the live scheduler's events do.
        turns_max: As of `Run`; whoever was not tried then has no verdict (UNKNOWN).

    Returns:
        A verdict for each pod asked about, in the order of namespace and name; the cluster's objects have changed.
    """
    _leave_groups(cluster, config, features)
    inside = [pod for pod in cluster.pods() if namespace in (None, pod["metadata"]["namespace"])]
    pods = [pod for pod in inside if _is_asked(pod, asked, cluster.loaded.written_pods)]
    tried = with_mates(pods, inside) if asked is not None else pods
    names = map(scheduler_name_of, tried)
    settings = CoreSettings(reports_causes=reports_causes)
    machine = new_machine(names, partial(_profile_for, config, features, budget_steps), features, settings)
    run = Run(cluster, Answers(machine, cluster, {pod["metadata"]["uid"] for pod in tried}), turns_max)
    run.answers.run = run
    run.start()
    run.until(cluster.now_ms + _HORIZON_MS)
    run.answers.verdicts = [run.verdict(pod) for pod in pods]
    known = {verdict.pod for verdict in run.answers.verdicts}
    for pod in inside:
        # Pods that somebody put on a node without their devices: nobody asked, but they wait for ever.
        verdict = run.verdict(pod)
        if verdict.pod not in known and verdict.outcome is PodResult.UNSCHEDULABLE and verdict.node and asked is None:
            run.answers.verdicts.append(verdict)
    for problem in cluster.loaded.problems:
        if problem.pod is None or namespace not in (None, problem.pod[0]):
            continue
        if asked is None or problem.pod in asked:
            reason = f"the API server refuses the pod: {problem.text}"
            run.answers.verdicts.append(Verdict(problem.pod, "", PodResult.REFUSED, reason=reason))
    run.answers.verdicts.sort(key=lambda verdict: verdict.pod)
    return run.answers


def new_machine(
    names: Iterable[str], profile: Callable[[str], Profile], features: Features, settings: CoreSettings | None = None
) -> Machine:
    """A machine that answers for schedulers of these names."""
    before_machine()
    uids = (str(uuid.UUID(int=number)) for number in itertools.count(1))
    profiles = [profile(name) for name in sorted({*names} or {"dra-scheduler"})]
    ignoring = frozenset(one.scheduler_name for one in profiles if _ignores_stacks(one))
    stacks = structs.replace(min(profiles, key=_ignores_stacks).stacks, ignored_by=ignoring)
    settings = replace(settings or CoreSettings(), stacks=stacks)
    return Machine(profiles, features=features, new_uid=lambda: next(uids), settings=settings)


def _profile_for(config: Config | None, features: Features, budget_steps: int, name: str) -> Profile:
    if config is None and name != KUBE_SCHEDULER:
        return Profile(name, default_plugins(features=features, budget_steps=budget_steps))
    return profile_of(config or Config(), features, name)


def _ignores_stacks(profile: Profile) -> bool:
    return profile.stacks.mode == "ignore"


def answering(config: Config | None, name: str) -> ProfileConfig:
    """The profile that answers for a scheduler's name: kube-scheduler's own for its name, where no other has it."""
    found = profile_config(config or Config(), name)
    return stock() if name == KUBE_SCHEDULER != found.scheduler_name else found


def profile_of(config: Config, features: Features, name: str) -> Profile:
    """What answers for a scheduler's name."""
    found = answering(config, name)
    own = {} if isinstance(found, KubeProfile) else {"nodes": config.node_selector, "slices": config.slice_selector}
    return replace(
        found.profile(**own, features=features),
        scheduler_name=name,
        stacks=stacks_of(config, found),
        places_jointly=not isinstance(found, KubeProfile),
    )


def stacks_of(config: Config, profile: ProfileConfig) -> Stacks:
    """What becomes of nodes with two stacks; kube-scheduler does not know that there are such."""
    return Stacks("ignore") if isinstance(profile, KubeProfile) else config.core_settings().stacks


def profile_config(config: Config, name: str) -> ProfileConfig:
    """The profile that the configuration has for a scheduler's name; its first for a name that it does not have."""
    return next((one for one in config.profiles if one.scheduler_name == name), config.profiles[0])


def _leave_groups(cluster: OfflineCluster, config: Config | None, features: Features) -> None:
    """kube-scheduler places each pod by itself where only labels make them a group, or the gate of PodGroups is off."""
    unread = set() if features.generic_workload else {"schedulingGroup"}
    for pod in cluster.pods():
        metadata, labels, spec = pod["metadata"], pod["metadata"].get("labels") or {}, pod["spec"]
        waits = (GROUP_LABEL in labels or unread & spec.keys()) and not spec.get("nodeName")
        if waits and isinstance(answering(config, scheduler_name_of(pod)), KubeProfile):
            left = {**metadata, "labels": {name: value for name, value in labels.items() if name != GROUP_LABEL}}
            alone = {**pod, "metadata": left, "spec": {name: one for name, one in spec.items() if name not in unread}}
            cluster.api.store.put(POD.kind_id, metadata["namespace"], metadata["name"], alone)


def scheduler_name_of(pod: Obj) -> str:
    return str(pod["spec"].get("schedulerName") or "default-scheduler")


def _is_asked(pod: Obj, asked: Collection[tuple[str, str]] | None, written: Collection[tuple[str, str]]) -> bool:
    """Whether a pod waits for a scheduler, or somebody wrote it with a node of its own."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    key = metadata["namespace"], metadata["name"]
    if metadata.get("deletionTimestamp") or status.get("phase") in ("Succeeded", "Failed"):
        return False
    if asked is not None:
        return key in asked
    return not pod["spec"].get("nodeName") or key in written


class Run:
    """One machine and its cluster: whatever the machine decides is done, and observed.

    Args:
        turns_max: After so many turns of the machine nothing is tried any more; a turn is some milliseconds.
    """

    def __init__(self, cluster: OfflineCluster, answers: Answers, turns_max: int = TURNS_MAX) -> None:
        self.turns_left = turns_max
        self._cluster = cluster
        self.answers = answers
        self._machine = answers.machine
        self._codec = Codec(reads=KINDS)
        self._kinds = watched_kinds(cluster, self._codec)
        self._inbox: deque[Input] = deque()

    def start(self) -> None:
        """Let the machine observe everything there is; then its lists are complete, and decisions may follow."""
        waiting = [pod.uid for pod in self._cluster.stored_pods() if not pod.obj["spec"].get("nodeName")]
        left_out = {uid for uid in waiting if uid not in self.answers.tried}  # they would be tried, too
        for kind, seen in observe_all(self._cluster, self._codec, left_out):
            self._take(kind, seen)
        self._cluster.changes.clear()
        self._inbox.extend(RelistFinished(kind) for kind in sorted(KINDS))

    def _take(self, kind: WatchedKind, seen: Seen | Broken) -> None:
        self.answers.left_out.look_at(kind, seen)
        if isinstance(seen, Seen):
            self._inbox.append(seen.input)

    def until(self, end_ms: int) -> None:
        """Handle what is due up to a time."""
        machine, cluster = self._machine, self._cluster
        for _ in range(TURNS_MAX):
            go_on()
            if self._inbox:
                self._execute(machine.handle(self._inbox.popleft(), now_ms=cluster.now_ms))
                continue
            deadline_ms = machine.next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms or not self.turns_left:
                return
            self.turns_left -= 1
            cluster.now_ms = max(cluster.now_ms, deadline_ms)
            self._execute(machine.handle(TimerFired(), now_ms=cluster.now_ms))

    def _execute(self, decisions: tuple[Decision, ...]) -> None:
        for decision in decisions:
            if isinstance(decision, RecordEvent):
                self.answers.notes.setdefault(decision.uid, []).append((decision.reason, decision.note))
                continue
            request = encode_decision(decision, now_ms=self._cluster.now_ms)
            code, body = self._cluster.send(request.method, request.path, request.body, request.content_type)
            self._cluster.run_controllers()
            self.observe_changes()
            self._inbox.append(answer_of(decision, request, classify(code, body), self._codec))

    def observe_changes(self) -> None:
        """Let the machine observe what has changed in the cluster."""
        changes, self._cluster.changes = self._cluster.changes, []
        for kind_id, change in changes:
            kind = self._kinds.get(kind_id)
            if kind is None:
                continue
            if change.type is ChangeType.DELETED:
                name = ObjectKey(change.current.namespace, change.current.name)
                self._inbox.append(Deleted(kind.name, name, change.current.uid, change.revision))
            else:
                self._take(kind, kind.decode_object(change.current.body))

    # -- verdicts ----------------------------------------------------------------------------------

    def verdict(self, before: Obj) -> Verdict:
        """What became of a pod."""
        metadata = before["metadata"]
        key, uid = (metadata["namespace"], metadata["name"]), metadata["uid"]
        pod = self._cluster.api.find(POD.kind_id, *key)
        if pod is None:
            return Verdict(key, uid, PodResult.UNKNOWN, reason="it is gone")
        notes = self.answers.notes.get(uid, [])
        if node := pod["spec"].get("nodeName"):
            store = self._machine.store
            observed = store.pods.get(PodUid(uid))
            stranded = not_allocated(store, observed) if observed is not None else ""
            return Verdict(key, uid, PodResult.UNSCHEDULABLE if stranded else PodResult.FITS, node, stranded)
        waits = [(reason, note) for reason, note in notes if reason.startswith("BindingConditions")]
        if waits and waits[-1][0] == "BindingConditionsPending":
            return Verdict(key, uid, PodResult.WAITS, self._assumed(uid), waits[-1][1])
        condition = _pod_scheduled(pod)
        if pod["spec"].get("schedulingGates"):
            gates = ", ".join(str(gate.get("name")) for gate in pod["spec"]["schedulingGates"])
            return Verdict(key, uid, PodResult.GATED, reason=f"it has scheduling gates: {gates}")
        if condition is None:
            return Verdict(key, uid, PodResult.UNKNOWN, reason="the scheduler says nothing")
        text = str(condition.get("message", ""))
        if uid in self._cluster.loaded.claim_problems and "not created yet" in text:
            sentence = f"{without_cause(text)} ({self._cluster.loaded.claim_problems[uid]})"
            text = with_cause(sentence, cause_of(text))
        is_error = condition.get("reason") == "SchedulerError"
        return Verdict(key, uid, PodResult.ERROR if is_error else PodResult.UNSCHEDULABLE, reason=text)

    def _assumed(self, uid: str) -> str:
        return next((str(node) for pod, node in self._machine.store.assumed.items() if pod == uid), "")


def _pod_scheduled(pod: Obj) -> Mapping[str, Any] | None:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == "PodScheduled"), None)


def devices_of(answers: Answers, verdict: Verdict) -> list[dict[str, Any]]:
    """The devices of a pod's claims, in the order of its spec: claim, request, driver, pool, device, share."""
    pod = answers.cluster.api.find(POD.kind_id, *verdict.pod)
    if pod is None or verdict.outcome not in (PodResult.FITS, PodResult.WAITS):
        return []
    found: list[dict[str, Any]] = []
    for name in claim_names(pod):
        claim = answers.cluster.api.find(CLAIM.kind_id, verdict.pod[0], name) or {}
        for result in results_of(claim.get("status") or {}):
            device = {"claim": name, **{key: result.get(key, "") for key in ("request", "driver", "pool", "device")}}
            device |= {key: result[key] for key in ("consumedCapacity", "adminAccess", "shareID") if result.get(key)}
            found.append(device)
    return found
