"""Dry runs that go on in later cycles, and that pods of one shape share: the same answers, and always an end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from scheduler.core.trying.dry_run_memory import DryRunMemories
from scheduler.framework.decisions import BindPod, DeletePod
from scheduler.model.keys import NodeName, PodKey
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig

MANY = 10**9
UNBOUNDED = {"steps_per_tick": MANY, "search_steps_first": MANY, "search_steps_per_turn": MANY}
TINY = {"steps_per_tick": 10, "search_steps_first": 10, "search_steps_per_turn": 10}
"""A look at a node that changed, and one dry run."""
HOST = "kubernetes.io/hostname"


def rig_of(**settings: Any) -> Rig:
    return Rig(*default_plugins(), **{"is_paranoid": False, **settings})


def add_node(rig: Rig, name: str, *, cpu: int = 4, **fields: Any) -> None:
    rig.server.put_node(builders.node(name, allocatable={"cpu": str(cpu), "memory": "8Gi", "pods": "110"}, **fields))


def add_pod(rig: Rig, name: str, *, on: str = "", cpu: int = 1, priority: int = 0, minute: int = 0, **fields) -> None:
    pod = builders.pod(name, node=on, requests={"cpu": str(cpu)}, priority=priority, **fields)
    if on:
        status = msgspec.structs.replace(pod.status, phase="Running", start_time=f"2026-01-01T00:{minute:02}:00Z")
        pod = msgspec.structs.replace(pod, status=status)
    rig.server.put_pod(pod)


def decided(rig: Rig, kind: type) -> list[str]:
    return [str(one.pod) for one in rig.decided if type(one) is kind]


def stop_pods(rig: Rig) -> None:
    """The kubelets have stopped those that were told to."""
    for key in [key for key, pod in rig.server.pods.items() if pod.is_deleting]:
        rig.server.delete_pod(key)


def to_the_end(rig: Rig) -> list[tuple[str, str]]:
    """Until all that preempt have their place: who was removed or bound, in order."""
    for _ in range(200):
        rig.settle()
        stop_pods(rig)
        rig.wait(2_000)
        if not any(pod.is_deleting for pod in rig.server.pods.values()):
            break
    return [
        (type(one).__name__, f"{one.pod} {getattr(one, 'node', '')}")
        for one in rig.decided
        if isinstance(one, BindPod | DeletePod)
    ]


def random_world(rig: Rig, seed: int) -> None:
    """Full nodes, pods of different importance, and several preemptors of two shapes and priorities."""
    draw = random.Random(seed)
    for index in range(draw.randint(2, 6)):
        add_node(rig, f"n{index}")
        for number in range(4):
            name, priority = f"low-{index}-{number}", draw.randint(0, 2)
            add_pod(rig, name, on=f"n{index}", priority=priority, minute=draw.randint(0, 9), labels={"app": "low"})
    away = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "high"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [away]}}
    for index in range(draw.randint(1, 6)):
        affinity = {"affinity": apart} if draw.random() < 0.5 else {}
        cpu, priority = draw.randint(1, 2), draw.randint(1, 3)
        add_pod(rig, f"high-{index}", cpu=cpu, priority=priority, labels={"app": "high"}, **affinity)
    rig.watch()


@pytest.mark.parametrize("seed", range(25))
def test_what_pods_share_changes_no_answer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = rig_of(**UNBOUNDED)
    random_world(shared, seed)
    answers = to_the_end(shared)
    of = DryRunMemories.of

    def alone(self, runner, pod, plan):
        self._by_key.clear()
        return of(self, runner, pod, plan)

    monkeypatch.setattr(DryRunMemories, "of", alone)
    forgetful = rig_of(**UNBOUNDED)
    random_world(forgetful, seed)
    assert to_the_end(forgetful) == answers


@pytest.mark.parametrize("seed", range(25))
def test_a_dry_run_in_parts_finds_the_same(seed: int) -> None:
    """One preemptor; several would come in another order."""
    answers = []
    for settings in (UNBOUNDED, TINY):
        rig = rig_of(**settings)
        draw = random.Random(seed)
        for index in range(4):
            add_node(rig, f"n{index}")
            for number in range(4):
                priority, minute = draw.randint(0, 2), draw.randint(0, 9)
                add_pod(rig, f"low-{index}-{number}", on=f"n{index}", priority=priority, minute=minute)
        add_pod(rig, "high", cpu=draw.randint(1, 4), priority=3)
        answers.append(to_the_end(rig))
    assert answers[0] == answers[1]
    assert answers[0]


def busy(rig: Rig) -> Iterator[None]:
    """Each round a node changes on which nobody may be removed, and the timer fires."""
    for round_ in range(2_000):
        add_node(rig, "busy", labels={"round": str(round_)})
        rig.watch()
        rig.tick(1)
        rig.execute()
        yield


def full_nodes(rig: Rig, count: int) -> None:
    for index in range(count):
        add_node(rig, f"n{index}")
        for number in range(4):
            add_pod(rig, f"low-{index}-{number}", on=f"n{index}", labels={"app": "low"})
    rig.watch()


SPREAD = {
    "maxSkew": 1,
    "topologyKey": HOST,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "high"}},
}


@pytest.mark.parametrize("constraints", [(), (SPREAD,)], ids=["plain", "reads-other-nodes"])
@pytest.mark.parametrize("pods", [1, 3])
def test_it_ends_where_other_nodes_change_all_the_time(constraints, pods: int) -> None:
    # Nodes for which others are nominated are looked at anew in every cycle, before any dry run.
    rig = rig_of(**dict.fromkeys(TINY, 10 if pods == 1 else 200))
    full_nodes(rig, 8)
    for index in range(pods):
        fields = {"topologySpreadConstraints": list(constraints)} if constraints else {}
        add_pod(rig, f"high-{index}", cpu=2, priority=9, labels={"app": "high"}, **fields)
    add_pod(rig, "important", on="busy", cpu=4, priority=9)
    for _ in busy(rig):
        if len(set(decided(rig, DeletePod))) >= 2 * pods:
            return
    raise AssertionError(f"only {decided(rig, DeletePod)} were removed")


@pytest.mark.parametrize("claims", [(), ("c",)])
def test_pods_that_take_turns_do_not_begin_anew_in_each(claims: tuple[str, ...]) -> None:
    """What one has found of half a node is still there when the other, of the same shape, has begun on it, too."""
    rig = rig_of()
    add_node(rig, "n")
    for name in ("one", "two"):
        add_pod(rig, name, claims=claims, nominated="n")  # so that nothing is shared, with claims or without
    rig.watch()
    memories, (runner,) = DryRunMemories(rig.machine.store), rig.machine.runners.values()
    pods = {pod.metadata.name: pod for pod in rig.machine.store.pods.values()}
    plan = SimpleNamespace(signature="signature", fact_filters=())
    searches = {name: SimpleNamespace(outcome=None, meets_groups=False) for name in pods}
    for turn in range(3):
        for name, pod in pods.items():
            memory = memories.of(runner, pod, plan)
            assert memory.get(NodeName("n")) is (searches[name] if turn else None)
            if not turn:
                memory.put(NodeName("n"), searches[name], is_alone=True)
            memories.interrupted(pod.uid, memory)


def test_a_candidate_that_changed_meanwhile_is_looked_at_again() -> None:
    rig = rig_of(**TINY)
    full_nodes(rig, 2)
    add_pod(rig, "high", cpu=4, priority=9)
    for _ in range(6):
        rig.watch()
        rig.tick(1)
    assert decided(rig, DeletePod) == []
    add_pod(rig, "precious", on="n0", cpu=1, priority=9)
    rig.watch()
    to_the_end(rig)
    assert set(decided(rig, DeletePod)) == {f"default/low-1-{number}" for number in range(4)}
    assert rig.node_of("high") == "n1"


def test_a_candidate_is_looked_at_again_when_another_node_matters_to_it() -> None:
    """What was found before a pod came to another node of the zone is no answer, though its own node is the same."""
    away = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "bad"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [away]}}
    for ticks in range(1, 20):
        rig = rig_of(**TINY)
        for name, zone in (("n0", "a"), ("n1", "b"), ("other", "a")):
            add_node(rig, name, labels={"zone": zone})
            for number in range(4):  # those on n0 ran shortest, so it is the first choice
                minute = 1 if name == "n0" else 0
                add_pod(rig, f"low-{name}-{number}", on=name, priority=9 * (name == "other"), minute=minute)
        add_pod(rig, "high", cpu=4, priority=9, affinity=apart)
        for _ in range(ticks):
            rig.watch()
            rig.tick(1)
        if rig.machine.store.nominations.preempting:
            assert ticks > 5, "it was decided before anything could change"
            return
        add_pod(rig, "low-other-0", on="other", priority=9, labels={"app": "bad"})
        to_the_end(rig)
        assert rig.node_of("high") == "n1"
        assert set(decided(rig, DeletePod)) == {f"default/low-n1-{number}" for number in range(4)}
    raise AssertionError("it is never decided")


def test_a_remembered_victim_that_has_started_since_is_judged_by_that() -> None:
    """Its node looks the same to every plugin; but of equal victims those go that started last."""
    rig = rig_of(**UNBOUNDED)
    for name in ("n0", "n1", "n2"):
        add_node(rig, name)
    for name in ("n0", "n1"):
        rig.server.put_pod(builders.pod(f"low-{name}", node=name, requests={"cpu": "4"}, priority=0))
    add_pod(rig, "low-n2", on="n2", cpu=4, minute=5)
    add_pod(rig, "first", cpu=4, priority=9)
    to_the_end(rig)
    assert rig.node_of("first") == "n0", "who has not started counts as started now"
    add_pod(rig, "low-n1", on="n1", cpu=4, minute=1)
    add_pod(rig, "second", cpu=4, priority=9)
    to_the_end(rig)
    assert rig.node_of("second") == "n2"


class Memories:
    """Pods of one shape, and what is remembered of node `n` for each."""

    def __init__(self, *, reads_others: bool = False, has_claims: bool = False) -> None:
        self.rig = rig_of()
        add_node(self.rig, "n")
        add_node(self.rig, "other")
        for name in ("one", "two"):
            add_pod(self.rig, name, claims=(f"claim-of-{name}",) if has_claims else ())
        self.rig.watch()
        self.all = DryRunMemories(self.rig.machine.store)
        (self.runner,) = self.rig.machine.runners.values()
        self.plan = SimpleNamespace(signature="signature", fact_filters=("zone",) if reads_others else ())

    def of(self, name: str) -> Any:
        pod = next(one for one in self.rig.machine.store.pods.values() if one.metadata.name == name)
        return self.all.of(self.runner, pod, self.plan)

    def change_elsewhere(self) -> None:
        add_pod(self.rig, "new", on="other")
        self.rig.watch()

    def change_budgets(self) -> None:
        self.rig.server.put_budget(builders.budget("b", allowed=1))
        self.rig.watch()


@pytest.mark.parametrize("reads_others", [False, True])
@pytest.mark.parametrize("meets_groups", [False, True])
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_what_was_found_before_other_nodes_changed(
    reads_others: bool, meets_groups: bool, is_interrupted: bool
) -> None:
    """It holds where only the node matters; and for a pod that goes on, which would come to no end."""
    memories = Memories(reads_others=reads_others)
    memory, found = memories.of("one"), SimpleNamespace(outcome="finished", meets_groups=meets_groups)
    memory.put(NodeName("n"), found, is_alone=True)
    assert memory.get(NodeName("n")) is found
    if is_interrupted:
        memories.all.interrupted(memory._pod, memory)
    memories.change_elsewhere()
    memory = memories.of("one")
    is_current = not (reads_others or meets_groups)
    assert memory.get(NodeName("n")) is (found if is_current or is_interrupted else None)
    assert memory.is_current(NodeName("n")) is is_current


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_what_was_found_before_a_budget_changed(is_interrupted: bool) -> None:
    memories = Memories()
    memory, found = memories.of("one"), SimpleNamespace(outcome="finished", meets_groups=False)
    memory.put(NodeName("n"), found, is_alone=True)
    if is_interrupted:
        memories.all.interrupted(memory._pod, memory)
    memories.change_budgets()
    memory = memories.of("one")
    assert memory.get(NodeName("n")) is (found if is_interrupted else None)
    assert not memory.is_current(NodeName("n"))
    assert memories.of("two").get(NodeName("n")) is None


@pytest.mark.parametrize("is_alone", [False, True])
def test_what_was_found_beside_kept_devices_is_for_one_pod_only(is_alone: bool) -> None:
    memories, found = Memories(), SimpleNamespace(outcome="finished", meets_groups=False)
    memories.of("one").put(NodeName("n"), found, is_alone=is_alone)
    assert memories.of("one").get(NodeName("n")) is found
    assert memories.of("two").get(NodeName("n")) is (found if is_alone else None)


@pytest.mark.parametrize("outcome", [None, "finished"])
@pytest.mark.parametrize("has_claims", [False, True])
def test_pods_with_claims_share_what_is_finished_and_look_once_more(has_claims: bool, outcome: str | None) -> None:
    """What a pod would be given is for claims of its own."""
    memories, found = Memories(has_claims=has_claims), SimpleNamespace(outcome=outcome, meets_groups=False)
    memories.of("one").put(NodeName("n"), found, is_alone=True)
    assert memories.of("one").is_current(NodeName("n"))
    other = memories.of("two")
    assert other.get(NodeName("n")) is (None if has_claims and outcome is None else found)
    assert other.is_current(NodeName("n")) is not has_claims


# No hope


def message(rig: Rig, name: str) -> str:
    return rig.condition_of(name)[1]


def test_pods_of_one_shape_look_at_nodes_once_where_nothing_helps() -> None:
    rig = rig_of(**UNBOUNDED)
    full_nodes(rig, 6)
    for index in range(5):
        add_pod(rig, f"equal-{index}", priority=0)
    rig.settle()
    expected = "preemption: 0/6 nodes are available: 6 No preemption victims found for incoming pod."
    assert all(message(rig, f"equal-{index}").endswith(expected) for index in range(5))
    assert rig.machine.feasibility.steps < 4 * 6


def test_there_is_hope_again_when_somebody_less_important_comes() -> None:
    rig = rig_of(**UNBOUNDED)
    full_nodes(rig, 1)
    add_pod(rig, "waits", priority=0)
    rig.settle()
    assert "No preemption victims found" in message(rig, "waits")
    rig.server.delete_pod(PodKey("default", "low-0-0"))
    add_pod(rig, "lower", on="n0", priority=-1)
    to_the_end(rig)
    rig.wait(20_000)
    assert decided(rig, DeletePod) == ["default/lower"]


def test_another_priority_has_other_hopes() -> None:
    rig = rig_of(**UNBOUNDED)
    full_nodes(rig, 1)
    add_pod(rig, "equal", priority=0)
    rig.settle()
    add_pod(rig, "high", priority=1)
    to_the_end(rig)
    assert rig.node_of("high") == "n0"
    assert rig.node_of("equal") is None
