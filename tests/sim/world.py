"""The simulated world: one machine, one API server, and everything unpleasant between them, from one seed.

Faults: lost requests, requests that land late (after their sender was told that nothing is known), lost replies,
refusals, delayed and repeated and late watch events, watches that start over from a list, restarts of the machine,
clocks set back and forward, users and other schedulers changing things meanwhile.

What is assumed of the shell: decisions that name the same object are executed in order, one at a time; the first list
of a machine's life shows what there is, later ones may be older than what the watch has told before; what a list shows
is told oldest first.
With `twins`, two processes of one name do the same work, are stopped (SIGSTOP) and cut off (a partition) in turn, and
no lease keeps either from writing: no lease can take back a request that is on its way.
What is assumed of a restart: requests of the old process have landed or are lost for good when the new one lists. (No
scheduler can know of writes of its earlier life that land later; the old process's connections are closed by then.)

Each world draws which faults it has and how often (swarm testing): a world in which everything fails a little finds
less than one in which a few things fail all the time.

After every step the server's state must be safe (`check_safety`). When the faults end, progress is owed: first no pod
may wait that a machine started afresh would bind (`check_nothing_missed`), then there is room for all (`heal`), and
when all pods are gone nothing may be left (`clean_up`).
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import msgspec

from allocator import Features
from scheduler.core import machine as core_machine
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.ground.inputs import Input, Observed, RelistFinished, TimerFired, WriteOutcomeUnknown, WriteRejected
from scheduler.core.machine import kinds_read
from scheduler.core.state.store import claims_of
from scheduler.framework.api import Profile
from scheduler.framework.decisions import Answered, RecordEvent
from scheduler.model.api_rules import FINALIZER
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.model.objects import Pod
from scheduler.model.resources import node_allocatable, pod_amounts
from scheduler.model.special_claim import asks_extended_resources, is_special_claim_of, special_claim_key
from scheduler.model.stacks import Stacks
from scheduler.plugins import default_plugins
from tests import builders
from tests.sim.api_server import FakeApiServer
from tests.sim.budget import StepBudget
from tests.sim.foreign_scheduler import ForeignScheduler, UnsafeError
from tests.sim.preemption import PREEMPTION_ACTIONS, PreemptionActions, WatchedPreemption
from tests.sim.process import Process
from tests.sim.records import (
    brief,
    deletion_of,
    fold,
    fold_newer,
    is_foreign,
    is_foreign_claim,
    kind_of,
    object_of,
    place_of,
)
from tests.sim.taint_rules import TaintRuleActions
from tests.sim.volumes import VOLUME_ACTIONS, VOLUME_PLUGINS, VolumeActions

EXTENDED = "example.com/gpu"
START_MS = 1_800_000_000_000


class StuckError(AssertionError):
    """Progress was owed and did not come."""


FAULTS = {  # each with the probabilities it may have in a world
    "request-lost": (0, 0, 0.1, 0.4),
    "reply-lost": (0, 0, 0.1, 0.4),
    "throttled": (0, 0, 0.1),
    "forbidden": (0, 0, 0, 0.05),
    "event-again": (0, 0.05, 0.2),
    "watch-restart": (0, 0.01, 0.03),
    "stale-list": (0, 0.3),
    "machine-restart": (0, 0, 0.004, 0.02),
    "clock-jump": (0, 0.05),
}
TWIN_FAULTS = {"process-stopped": (0, 0.005, 0.02), "process-cut": (0, 0.005, 0.02)}  # only where there are two of them


ACTIONS = {  # what users and other components do, and how often; each world does some more and some less
    "create_pod": 14,
    "generate_claim": 10,
    "replace_claim": 1,
    "collect_garbage": 6,
    "delete_pod": 6,
    "finish_pod": 3,
    "change_node": 2,
    "meddle_with_claim": 2,
    "change_slice": 1,
    "change_taint_rule": 1,
    "delete_claim": 1,
    "bind_by_somebody_else": 0.5,
    "create_foreign_pod": 8,
    "schedule_foreign_pod": 20,
}


@dataclass(frozen=True)
class Conditions:
    """How the world is.

    Args:
        has_faults: False for a perfect network.
        steps: Before the faults end.
        focus: What is not left to chance: faults with their probabilities, actions with their weights, and "devices",
            "pods_max", "lateness", "cruelty".
        reports_causes: The machines say why pods wait, as in `run`.
        stacks: Given where device plugins serve the devices of all nodes.
    """

    has_faults: bool = True
    steps: int = 400
    is_paranoid: bool = True
    checks_invariants: bool = True
    reports_causes: bool = False
    stacks: Stacks | None = None
    focus: Mapping[str, float] = field(default_factory=dict)


@dataclass
class World(ForeignScheduler, TaintRuleActions, VolumeActions, PreemptionActions):
    """Everything there is; `run` plays it."""

    seed: int
    conditions: Conditions = field(default_factory=Conditions)

    def __post_init__(self) -> None:
        rnd = self.rnd = random.Random(self.seed)
        self.fault_rates = {name: rnd.choice(rates) * self.conditions.has_faults for name, rates in FAULTS.items()}
        self.weights = {name: weight * rnd.choice([0.3, 1, 1, 3]) for name, weight in ACTIONS.items()}
        self.devices = rnd.choice([1, 1, 2, 4])
        self.pods_max = rnd.choice([4, 8, 16])
        self.extended = rnd.choice([0, 3, 20])  # how many pods ask for extended resources
        self.crowds = 12 if self.seed % 4 == 3 else 0  # how many pods come together with others that share their claim
        self.lateness = rnd.choice([0.0, 0.5, 1.0])  # how many lost requests land later
        self.cruelty = rnd.choice([0.0, 0.5, 0.9])  # how often users pick on pods that are being bound
        self.foreigners = rnd.choice([0, 0, 2, 6])  # pods of another scheduler at a time
        self.foreign_lag = rnd.choice([5, 20, 60])  # events that the other scheduler may not have seen
        self.twins = 0  # processes of our name beside the first
        self.preempts = 0  # whether pods make room for others
        self.has_volumes = self.seed % 5 == 2
        for name, value in self.conditions.focus.items():
            if name in FAULTS | TWIN_FAULTS:
                self.fault_rates[name] = value
            elif name in ACTIONS | PREEMPTION_ACTIONS | VOLUME_ACTIONS:
                self.weights[name] = value
            else:
                setattr(self, name, value)
        # Verdicts on nodes that are nominated hold for one priority, so pods that take turns begin anew: each turn must
        # be enough for these nodes (50 steps each) and for a dry run (50 steps, and more for devices).
        self.filter_calls_least = 4 if self.preempts else 1
        self.steps_choices = (500, 2_000) if self.preempts else (1, 3, 10_000)
        self.search_steps = rnd.choice([250, 500]) if self.preempts else 500
        if self.twins:
            drawn = {name: rnd.choice(rates) * self.conditions.has_faults for name, rates in TWIN_FAULTS.items()}
            self.fault_rates = drawn | self.fault_rates
        plugins = [one for one in default_plugins() if self.has_volumes or one.name not in VOLUME_PLUGINS]
        plugins = [one for one in plugins if one.name != "DefaultPreemption" or self.preempts]
        if self.preempts:
            plugins = [WatchedPreemption() if one.name == "DefaultPreemption" else one for one in plugins]
            self.weights |= PREEMPTION_ACTIONS
        self.had_twins = self.twins > 0  # what the server stores may be two processes' work
        self.found_preemption()
        self.profile = Profile(builders.SCHEDULER, tuple(plugins))
        self.kinds = sorted(kinds_read([self.profile]))
        self.server = FakeApiServer()
        self.now_ms = START_MS
        self.trace: list[str] = []
        self.names = itertools.count(1)
        self.uids = itertools.count(1)
        self.processes = [Process(number) for number in range(1 + self.twins)]
        self.process = self.processes[0]  # the one that does something now
        self.checked_bindings = 0
        self.promised: dict[str, str] = {}  # uid of every pod bound by the machine: its node
        self.told_conflicts: set[tuple[str, str]] = set()  # names of the two claims, as an event on the first told
        self.by_plugin: set[str] = set()  # uids of those whose extended resources are the device plugin's
        self.owed_claims: list[tuple[PodKey, str]] = []
        has_plugin = rnd.choice([False, False, True])  # one node whose kubelet has the extended resource itself
        for index in range(2):
            served = self.devices if self.conditions.stacks is not None else 2 if has_plugin and index else 0
            self.add_node(f"node-{index}", self.devices, plugin=served)
        self.server.put_class(builders.device_class(extended_resource=EXTENDED))
        if self.has_volumes:
            self.weights |= {name: self.weights.get(name, weight) for name, weight in VOLUME_ACTIONS.items()}
            self.found_volumes()
        self.founded = len(self.server.log)  # no list is older than that
        for _ in self.each_process():
            self.start_machine()

    # The machine and its shell

    @property
    def machine(self) -> core_machine.Machine:  # type: ignore[override]
        return self.process.machine

    def start_machine(self) -> None:
        uids = self.uids
        process = self.process

        def new_uid() -> str:
            return f"00000000-0000-4000-8000-{next(uids):012}"

        process.machine = core_machine.Machine(
            [self.profile],
            features=Features(),
            new_uid=new_uid,
            settings=CoreSettings(
                is_strict=True,
                stacks=self.conditions.stacks or Stacks(),
                reports_causes=self.conditions.reports_causes,
                is_paranoid=self.conditions.is_paranoid,
                checks_invariants=self.conditions.checks_invariants,
                feasible_nodes_enough=self.rnd.choice([1, 2, 100]),
                places=self.rnd.choice([2, 100]),
                cycles_per_tick=self.rnd.choice([1, 3, 16]),
                filter_calls_per_tick=max(self.rnd.choice([1, 2, 400]), self.filter_calls_least),
                steps_per_tick=self.rnd.choice(self.steps_choices),
                search_steps_first=self.search_steps,
                search_steps_per_turn=self.search_steps,
                unschedulable_ms_max=10**9,  # or a wake-up that was missed would go unnoticed
            ),
        )
        process.queues.clear()
        process.replies.clear()
        process.known = {kind: {} for kind in self.kinds}
        process.watched = []
        process.unlisted = self.shuffled(list(self.kinds))

    def tell(self, given: Input) -> None:
        who = f"[{self.process.number}] " if self.twins else ""
        self.trace.append(f"{who}{self.now_ms - START_MS} > {brief(given)}")
        budget = StepBudget(self.machine)
        decisions = self.process.machine.handle(given, now_ms=self.now_ms)
        budget.check(given)
        if self.preempts:
            self.check_decided(decisions)
        for decision in decisions:
            self.trace.append(f"    < {brief(decision)}")
            if isinstance(decision, RecordEvent):
                self.check_event(decision)
            else:
                self.process.queues.setdefault(object_of(decision), deque()).append(decision)
        deadline = self.machine.next_deadline_ms()
        if deadline is not None and deadline > self.now_ms + 3_600_000:
            raise StuckError(f"the machine wants to sleep for {deadline - self.now_ms} ms")

    def restart(self) -> None:
        self.trace.append("restart")
        for decision in [*self.process.late, *(queue[0] for queue in self.process.queues.values() if queue)]:
            if self.chance(0.5):
                self.land(decision)
        self.process.late.clear()
        self.start_machine()

    # The network

    def send_one(self) -> None:
        """One request goes out: it arrives or not, is answered or not."""
        busy = {key for key, _ in self.process.replies}
        ready = [key for key in self.process.queues if key not in busy]
        if not ready:
            return
        key = self.rnd.choice(ready)
        decision = self.process.queues[key].popleft()
        if not self.process.queues[key]:
            del self.process.queues[key]
        unknown = WriteOutcomeUnknown(decision.id, "timeout")
        if self.process.is_cut or self.fault("request-lost"):
            if self.chance(self.lateness):
                self.process.late.append(decision)
                self.trace.append(f"    ~ delayed {decision.id}")
            self.process.replies.append((key, unknown))
        elif self.fault("throttled"):
            self.process.replies.append(
                (key, WriteRejected(decision.id, 429, "TooManyRequests", "slow down", is_retriable=True))
            )
        elif self.fault("forbidden"):
            refusal = WriteRejected(decision.id, 403, "Forbidden", "no permission", is_configuration=True)
            self.note_refusal(decision, refusal)
            self.process.replies.append((key, refusal))
        else:
            answer = self.land(decision)
            self.process.replies.append((key, unknown if self.fault("reply-lost") else answer))

    def land(self, decision: Answered) -> Input:
        answer = self.server.execute(decision)
        self.trace.append(f"    = {brief(answer)}")
        self.check_safety()
        return answer

    def land_late(self) -> None:
        if self.process.late:
            self.land(self.process.late.pop(self.rnd.randrange(len(self.process.late))))

    def answer_one(self) -> None:
        if self.process.replies:
            _, answer = self.process.replies.pop(self.rnd.randrange(len(self.process.replies)))
            self.tell(answer)

    # The watches

    def watch_one(self) -> None:
        """One event of one kind arrives, or an earlier one again."""
        if self.process.is_cut:
            return
        if self.process.unlisted:
            self.relist(self.process.unlisted.pop())
        elif self.process.watched and self.fault("event-again"):
            self.tell(self.rnd.choice(self.process.watched))
        else:
            kinds = self.waiting_kinds()
            if kinds:
                self.watch(self.rnd.choice(kinds))

    def waiting_kinds(self) -> list[str]:
        """Kinds of which something happened that the machine was not told."""
        log = self.server.log
        for event in log[self.process.distributed :]:
            self.process.unwatched[kind_of(event)].append(event)
        self.process.distributed = len(log)
        return [kind for kind in self.kinds if self.process.unwatched[kind]]

    def watch(self, kind: str) -> None:
        event = self.process.unwatched[kind].popleft()
        fold_newer(self.process.known[kind], event)
        self.process.watched.append(event)
        self.tell(event)

    def relist(self, kind: str) -> None:
        """The watch is lost and starts over from what there is now; time passes while the list is told."""
        self.trace.append(f"relist {kind}")
        self.waiting_kinds()
        self.process.unwatched[kind].clear()
        log, revision = self.server.log, self.server.revision
        state: dict[object, Observed] = {}
        if self.process.known[kind] and self.fault("stale-list"):
            # From a server that lags behind: the list is of an earlier time, and the watch tells again what followed.
            at = max(self.founded, len(log) - self.rnd.randrange(40))
            self.trace.append(f"    as of {len(log) - at} events ago")
            revision = max(event.revision for event in log[:at])
            for event in log[:at]:
                if kind_of(event) == kind:
                    fold(state, event)
            self.process.unwatched[kind].extend(event for event in log[at:] if kind_of(event) == kind)
        else:
            for event in self.server.list_all():
                if kind_of(event) == kind:
                    fold(state, event)
        gone = [event for name, event in self.process.known[kind].items() if name not in state]
        newer = {
            name: event
            for name, event in self.process.known[kind].items()
            if event.revision > (state[name].revision if name in state else revision)
        }
        self.process.known[kind] = state | newer  # the reflector forgets nothing that the machine keeps
        deletions = self.shuffled([deletion_of(event, revision) for event in gone])
        for event in [*deletions, *sorted(state.values(), key=attrgetter("revision"))]:
            self.tell(event)
            if self.chance(0.2):
                self.fire()
        self.tell(RelistFinished(kind))

    # Users and other components

    def act(self) -> None:
        name = self.rnd.choices(list(self.weights), weights=list(self.weights.values()))[0]
        getattr(self, name)()

    def collect_garbage(self) -> None:
        self.server.collect_garbage()

    def create_pod(self) -> None:
        alive = [pod for pod in self.server.pods.values() if not pod.is_terminal]
        if len(alive) >= self.pods_max:
            return
        name = f"pod-{next(self.names)}"
        kinds = {"template": 8, "shared": 4, "two": 1, "plain": 1, "big": 1}
        kinds |= {"extended": self.extended, "crowd": self.crowds}
        if self.has_volumes:
            kinds |= {"volume": 20, "volume-and-device": 8}
        kind = self.rnd.choices(list(kinds), weights=list(kinds.values()))[0]
        priority = self.rnd.choice([None, 0, 5, 10, 20] if self.preempts else [None, 0, 10])
        common = {"priority": priority, **self.pod_fields()}
        self.trace.append(f"create {name} {kind}")
        if kind in ("template", "big"):
            self.server.put_pod(builders.pod(name, templates={"gpu": None}, **common))
            self.owed_claims.append((PodKey("default", name), kind))
        elif kind == "volume":
            self.create_volume_pod(name, **common)
        elif kind == "volume-and-device":
            self.create_volume_pod(name, templates={"gpu": None}, **common)
            self.owed_claims.append((PodKey("default", name), kind))
        elif kind == "extended":
            amount = self.rnd.choice(["1", "1", "2"])
            self.server.put_pod(builders.pod(name, requests={EXTENDED: amount, "cpu": "1m"}, **common))
        elif kind == "plain":
            self.server.put_pod(builders.pod(name, requests={"cpu": "3"}, **common))
        else:
            names = [f"shared-{self.rnd.randrange(3)}"]
            if kind == "two":
                names.append(f"own-{name}")
            for claim in names:
                if ClaimKey("default", claim) not in self.server.claims:
                    self.server.put_claim(builders.claim(claim, uid=f"uid-{claim}-{next(self.uids)}"))
            self.server.put_pod(builders.pod(name, claims=tuple(names), **common))
            for _ in range(self.rnd.randrange(2, 5) if kind == "crowd" else 0):
                self.server.put_pod(builders.pod(f"pod-{next(self.names)}", claims=tuple(names), **common))

    def generate_claim(self) -> None:
        """The resource claim controller creates the claim of a template, then tells the pod its name."""
        if not self.owed_claims:
            return
        key, kind = self.owed_claims.pop(self.rnd.randrange(len(self.owed_claims)))
        pod = self.server.pods.get(key)
        if pod is None:
            return
        spec = self.claim_spec(pod, kind)
        claim = builders.claim(f"{key.name}-gpu", spec=spec, owner_pod=pod, uid=f"uid-{key.name}-gpu")
        self.server.put_claim(claim)
        self.server.name_claim(pod, claim.key.name)

    def pod_fields(self) -> dict[str, Any]:
        """What a new pod has beside its claims."""
        return {"labels": self.labels()}

    def claim_spec(self, pod: Pod, kind: str) -> dict[str, Any]:
        """Of a claim that is generated for a pod."""
        return builders.claim_spec_object(builders.request_object(count=2 if kind == "big" else 1))

    def replace_claim(self) -> None:
        """The resource claim controller has lost sight of a claim that it made, and makes another one.

        It does that to bound pods as well, and nobody can help those.
        """
        pod = self.any_pod()
        if pod is not None:
            self.replace_claim_of(pod)

    def replace_claim_of(self, pod: Pod) -> None:
        if pod.node_name is not None or pod.is_deleting:
            return
        if not pod.status.resource_claim_statuses or not claims_of(pod):  # or told of a claim of its namesake
            return
        (known,) = claims_of(pod)
        name = f"{pod.metadata.name}-gpu-{next(self.uids)}"
        self.trace.append(f"replace {known} by {name}")
        spec = self.server.claims[known].spec if known in self.server.claims else None
        claim = builders.claim(name, owner_pod=pod, uid=f"uid-{name}")
        self.server.put_claim(claim if spec is None else replace(claim, spec=spec))
        self.server.name_claim(pod, name)

    def delete_pod(self) -> None:
        pod = self.any_pod()
        if pod is None:
            return
        if not pod.is_deleting and self.chance(0.5 if pod.node_name is not None else 0.1):
            meta = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:01:00Z")
            self.server.put_pod(msgspec.structs.replace(pod, metadata=meta))
        else:
            self.server.delete_pod(pod.key)
            if self.chance(0.2):  # a StatefulSet makes the same pod again, its template may name ours by now
                self.server.put_pod(
                    builders.pod(
                        pod.metadata.name,
                        uid=f"uid-again-{next(self.uids)}",
                        scheduler=self.rnd.choice([pod.spec.scheduler_name, builders.SCHEDULER]),
                        requests=pod.spec.containers[0].resources.requests,
                        claims=tuple(
                            entry.resource_claim_name
                            for entry in pod.spec.resource_claims or ()
                            if entry.resource_claim_name
                        ),
                    )
                )

    def bind_by_somebody_else(self) -> None:
        pod = self.any_pod()
        if pod is not None and pod.node_name is None and not pod.is_deleting and pod.spec.resource_claims:
            spec = msgspec.structs.replace(pod.spec, node_name=self.rnd.choice(sorted(self.server.nodes)))
            self.server.put_pod(msgspec.structs.replace(pod, spec=spec))

    def finish_pod(self) -> None:
        pod = self.any_pod()
        if pod is not None and pod.node_name is not None:
            status = msgspec.structs.replace(pod.status, phase="Succeeded")
            self.server.put_pod(msgspec.structs.replace(pod, status=status))

    def delete_claim(self) -> None:
        if self.server.claims:
            self.server.delete_claim(self.rnd.choice(sorted(self.server.claims)))

    def meddle_with_claim(self) -> None:
        """Somebody edits a claim, frees an idle one, or allocates it with a device that is none of ours."""
        if not self.server.claims:
            return
        claim = self.server.claims[self.rnd.choice(sorted(self.server.claims))]
        match self.rnd.randrange(3):
            case 0:
                kept = tuple(one for one in claim.annotations if one[0] != "edited")
                self.server.put_claim(replace(claim, annotations=(*kept, ("edited", str(next(self.uids))))))
            case 1 if claim.allocation is not None and not claim.reserved_for:
                self.server.put_claim(replace(claim, allocation=None))
            case 2 if claim.allocation is None and claim.controller is None and not claim.is_deleting:
                node = self.rnd.choice(sorted(self.server.nodes))
                taken = builders.allocation(f"foreign-{next(self.uids)}", pool=f"foreign-{node}", node=node)
                self.server.put_claim(replace(claim, allocation=taken, finalizers=(FINALIZER,)))

    def change_node(self) -> None:
        node = self.server.nodes[self.rnd.choice(sorted(self.server.nodes))]
        spec = msgspec.structs.replace(node.spec, unschedulable=not node.spec.unschedulable)
        self.server.put_node(msgspec.structs.replace(node, spec=spec))

    def change_slice(self) -> None:
        """A driver withdraws a slice, or publishes it again with a new generation."""
        name = self.rnd.choice(sorted(self.server.nodes))
        slice_name = f"slice-{name}"
        if slice_name in self.server.slices and self.chance(0.5):
            self.server.delete_slice(slice_name)
        else:
            generation = next(self.uids)
            self.server.put_slice(
                builders.resource_slice(slice_name, node=name, devices=self.devices, generation=generation)
            )

    def add_node(self, name: str, devices: int, *, plugin: int = 0) -> None:
        allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"} | ({EXTENDED: str(plugin)} if plugin else {})
        self.server.put_node(builders.node(name, allocatable=allocatable))
        self.server.put_slice(builders.resource_slice(f"slice-{name}", node=name, devices=devices))

    # Time

    def pass_time(self) -> None:
        self.now_ms += self.rnd.choice([0, 1, 50, 500, 2_000])
        if self.fault("clock-jump"):
            self.now_ms += self.rnd.choice([-3_600_000, -1_000, 700_000])
        self.fire()

    def fire(self) -> None:
        deadline = self.machine.next_deadline_ms()
        if deadline is not None and deadline <= self.now_ms:
            self.tell(TimerFired())

    # Processes of one name

    def each_process(self) -> Iterator[Process]:
        """All processes, one after the other as the one that does something."""
        for process in self.processes:
            self.process = process
            yield process

    def disturb_processes(self) -> None:
        """One is stopped or goes on, is cut off or reached again; then one that is not stopped does something."""
        process = self.rnd.choice(self.processes)
        if self.fault("process-stopped") or (process.is_stopped and self.chance(0.05)):
            process.is_stopped = not process.is_stopped
            self.trace.append(f"process {process.number} {'stops' if process.is_stopped else 'goes on'}")
        if self.fault("process-cut") or (process.is_cut and self.chance(0.05)):
            process.is_cut = not process.is_cut
            self.trace.append(f"process {process.number} {'is cut off' if process.is_cut else 'is reached again'}")
        running = [one for one in self.processes if not one.is_stopped]
        self.process = self.rnd.choice(running or self.processes[:1])
        if not running:
            self.process.is_stopped = False

    def reunite(self) -> None:
        """All processes go on, and reach the server."""
        for process in self.processes:
            process.is_stopped = process.is_cut = False

    # Running

    def step(self) -> None:
        if self.twins:
            self.disturb_processes()
        action = self.rnd.choices(
            [self.send_one, self.answer_one, self.watch_one, self.act, self.pass_time, self.land_late],
            weights=[12, 12, 14, 8, 3, 1],
        )[0]
        action()
        if self.chance(0.5):
            self.fire()
        if not self.process.unlisted and not self.process.is_cut and self.fault("watch-restart"):
            self.relist(self.rnd.choice(self.kinds))
        if self.fault("machine-restart"):
            self.restart()
        self.check_safety()

    def run(self) -> World:
        for _ in range(self.conditions.steps):
            self.step()
        self.end_faults()
        self.check_nothing_missed()
        self.heal()
        self.clean_up()
        return self

    def end_faults(self) -> None:
        self.trace.append("the faults end")
        self.fault_rates = dict.fromkeys(self.fault_rates, 0.0)
        self.reunite()
        for _ in self.each_process():
            while self.process.late:
                if self.chance(0.5):
                    self.land_late()
                else:
                    self.process.late.pop()
        while self.owed_claims:
            self.generate_claim()
        for _ in self.each_process():
            while self.process.unlisted:
                self.watch_one()
            # The clock may have been set back since the machine's last input. A shell's timers do not wait for that:
            # they run on a monotonic clock (`Clock` in scheduler/kube/clock.py, and it never goes back at all).
            self.tell(TimerFired())
        self.settle()
        self.clear_taint_rules()  # nothing else happens then that could wake a pod
        self.settle()
        self.check_conflicts()
        self.check_no_room_kept()

    def check_nothing_missed(self) -> None:
        """No pod waits that a machine started now would bind without removing another.

        Whom a pod might remove can change with what wakes nobody: a pod that still had a claim of its process before is
        bound with it. Such pods are found when they are tried again, after a few minutes at most.
        """
        alone = {**self.conditions.focus, "twins": 0, "preempts": 0}
        twin = World(self.seed, replace(self.conditions, has_faults=False, focus=alone))
        twin.filter_calls_least, twin.steps_choices = self.filter_calls_least, self.steps_choices  # some are nominated
        twin.had_twins = self.had_twins
        twin.server = self.server.copy()
        twin.promised = dict(self.promised)
        twin.by_plugin = set(self.by_plugin)
        twin.now_ms = self.now_ms
        twin.start_machine()
        while twin.process.unlisted:
            twin.watch_one()
        twin.settle()
        for key, pod in twin.server.pods.items():
            ours = self.server.pods.get(key)
            if pod.node_name is not None and ours is not None and ours.uid == pod.uid and ours.node_name is None:
                raise StuckError(
                    f"pod {key} waits, but a new machine binds it to {pod.node_name}: {ours.status.conditions}"
                )

    def heal(self) -> None:
        """There is room for all: every pod must be bound."""
        self.trace.append("heal")
        for name, node in list(self.server.nodes.items()):
            spec = msgspec.structs.replace(node.spec, unschedulable=False)
            status = msgspec.structs.replace(node.status, allocatable={"cpu": "100", "memory": "100Gi", "pods": "110"})
            self.server.put_node(msgspec.structs.replace(node, spec=spec, status=status))
            self.server.put_slice(
                builders.resource_slice(f"slice-{name}", node=name, devices=40, generation=next(self.uids))
            )
        self.heal_volumes()
        self.settle()
        self.check_conflicts()
        for pod in self.server.pods.values():
            if pod.node_name is None and not pod.is_deleting and not is_foreign(pod) and self.can_ever_run(pod):
                raise StuckError(f"pod {pod.key} is not bound: {pod.status.conditions}")
        self.check_safety()

    def can_ever_run(self, pod) -> bool:
        """Whether nothing stands in the pod's way that only its user can remove."""
        if not self.can_have_volumes(pod):
            return False
        special = special_claim_key(pod)
        keys = [key for key in claims_of(pod) if key != special]
        if len(keys) < len(pod.spec.resource_claims or ()):
            return False
        places = set()
        for key in keys:
            claim = self.server.claims.get(key)
            if claim is None or claim.is_deleting:
                return False
            if claim.controller is not None and claim.controller.uid != pod.uid:
                return False
            others = [one for one in claim.reserved_for if one.uid != pod.uid]
            if claim.allocation is not None and others:
                places.add(place_of(claim))
        return len(places) < 2

    def settle(self) -> None:
        """Let everything happen that is bound to happen within a few minutes."""
        until_ms = self.now_ms + 240_000
        for _ in range(5_000):
            before = len(self.trace), len(self.server.log)
            if self.preempts:
                self.replace_all_removed()
                self.end_all_pods()
            self.server.collect_garbage()
            self.control_all_volumes()
            for _ in self.each_process():
                self.run_process()
            busy = any(process.queues or process.replies for process in self.processes)
            if before == (len(self.trace), len(self.server.log)) and not busy:
                deadlines = [process.machine.next_deadline_ms() for process in self.processes]
                deadline = min((one for one in deadlines if one is not None), default=until_ms + 1)
                if deadline > until_ms:
                    return
                self.now_ms = max(self.now_ms, deadline)
        raise StuckError("the machine does not come to rest")

    def run_process(self) -> None:
        """One process is told all that happened, and does all that it can do now."""
        process = self.process
        while kinds := self.waiting_kinds():
            self.watch(self.rnd.choice(kinds))
        while process.queues:
            self.send_one()
            while process.replies:
                self.answer_one()
        while process.replies:
            self.answer_one()
        self.fire()

    def clean_up(self) -> None:
        """All pods go: nothing may be left held, assumed, queued or in use."""
        for key in list(self.server.pods):
            self.server.delete_pod(key)
        self.settle()
        for _ in self.each_process():
            self.check_nothing_left()

    def check_nothing_left(self) -> None:
        machine = self.machine
        left: dict[str, Any] = {
            "in use": [
                str(device) for device in machine.overlay.in_use.devices() if not device.pool.startswith("foreign")
            ],
            "held": [*machine.overlay.holds, *machine.ground.volumes.holds],
            "assumed": list(machine.store.assumed),
            "queued": [str(queued.pod.key) for queued in machine.queue.all()],
            "bindings": len(machine.bindings),
            "room": len(machine.preemptions.records),
            "special claims": [str(key) for key in self.server.claims if "-extended-resources-" in key.name],
        }
        stored = [
            device
            for claim in self.server.claims.values()
            if claim.allocation is not None
            for device in map(str, claim.allocation.device_ids())
        ]
        left["in use"] = [device for device in left["in use"] if device not in stored]
        if any(left.values()):
            raise StuckError(f"left behind: {left}")

    # Safety

    def check_safety(self) -> None:
        """No device in two claims; every pod that we bound has its claims, allocated, reserved, on its node.

        Two processes can allocate one device to two claims in the same moment; but not bind a pod of each.
        """
        for device, one, other in self.double_devices():
            if is_foreign_claim(one) or is_foreign_claim(other):
                continue
            if not self.had_twins or (self.is_promised(one) and self.is_promised(other)):
                raise UnsafeError(f"device {device} is given to {one} and to {other}")
        for uid, node in self.server.bindings[self.checked_bindings :]:
            self.promised[uid] = node
            self.check_binding(uid)
            self.check_bound_volumes(uid, node)
            if node_allocatable(self.server.nodes[node]).get(EXTENDED):
                self.by_plugin.add(uid)
        self.checked_bindings = len(self.server.bindings)
        self.check_volumes()
        for pod in self.server.pods.values():
            node = self.promised.get(pod.uid)
            if node is None or pod.is_terminal:
                continue
            special = special_claim_key(pod)
            self.check_told(pod)
            for key in claims_of(pod):
                if key == special and pod.uid in self.by_plugin:
                    continue
                claim = self.server.claims.get(key)
                if claim is None or claim.allocation is None:
                    raise UnsafeError(f"pod {pod.key} is bound, its claim {key} is not allocated")
                if not claim.is_reserved_for(pod.uid):
                    raise UnsafeError(f"pod {pod.key} is bound, its claim {key} is not reserved for it")
                if place_of(claim) != node:
                    raise UnsafeError(f"pod {pod.key} is bound to {node}, its claim {key} is on {place_of(claim)}")

        for name, node in self.server.nodes.items():
            running = [pod for pod in self.server.pods.values() if pod.node_name == name and not pod.is_terminal]
            used = sum(pod_amounts(pod).requests.get("cpu", 0) for pod in running)
            # Two processes can fill one node at the same time: no binding conflicts with another pod's. The kubelet
            # refuses what does not fit, which no kubelet does with devices, so that alone is let pass.
            if used > node_allocatable(node)["cpu"] and not self.had_twins:
                raise UnsafeError(f"node {name} is overcommitted: {[str(pod.key) for pod in running]} use {used}m cpu")

    def is_promised(self, key: ClaimKey) -> bool:
        """Whether a pod that we bound, and that still runs, uses the claim."""
        return any(
            pod.uid in self.promised and not pod.is_terminal and key in claims_of(pod)
            for pod in self.server.pods.values()
        )

    def check_told(self, pod) -> None:
        """A bound pod names its special claim, and the requests its container has, exactly when it has one."""
        told = pod.status.extended_resource_claim_status
        if not asks_extended_resources(pod) or pod.uid in self.by_plugin:
            if told is not None:
                raise UnsafeError(f"pod {pod.key} is told of a claim that is not its: {told}")
            return
        claim = self.server.claims.get(special_claim_key(pod))
        if claim is None or not is_special_claim_of(claim, pod) or claim.spec is None:
            raise UnsafeError(f"pod {pod.key} is bound without a claim for its extended resources: {claim}")
        if FINALIZER not in claim.finalizers:
            raise UnsafeError(f"pod {pod.key} is bound, its claim {claim.key} has lost its finalizer")
        requests = {request.name for request in claim.spec.requests}
        if told is None or told.resource_claim_name != claim.key.name:
            raise UnsafeError(f"pod {pod.key} is bound and not told of claim {claim.key}: {told}")
        if {one.request_name for one in told.request_mappings or ()} != requests:
            raise UnsafeError(f"pod {pod.key} is told of {told}, its claim has {requests}")

    def check_event(self, event: RecordEvent) -> None:
        """No pod is said to be scheduled that is not bound there."""
        if event.reason == "DeviceConflict":
            other = event.note.partition(" is given to ResourceClaim default/")[2].partition(" ")[0]
            self.told_conflicts.add((event.name, other))
        pod = self.server.pods.get(PodKey(event.namespace, event.name))
        is_current = pod is not None and pod.uid == event.uid
        if event.reason == "Scheduled" and is_current and not event.note.endswith(f" to {pod.node_name}"):
            raise UnsafeError(f"pod {pod.key} is on {pod.node_name}, but the event says: {event.note}")

    # Chance

    def chance(self, probability: float) -> bool:
        return self.rnd.random() < probability

    def fault(self, name: str) -> bool:
        return self.rnd.random() < self.fault_rates[name]

    def shuffled(self, items: list) -> list:
        self.rnd.shuffle(items)
        return items

    def any_pod(self):
        pods = self.server.pods
        if self.chance(self.cruelty):
            busy = [one.pod.key for one in self.machine.bindings.values() if one.pod.key in pods]
            if busy:
                return pods[self.rnd.choice(busy)]
        return self.server.pods[self.rnd.choice(sorted(self.server.pods))] if self.server.pods else None
