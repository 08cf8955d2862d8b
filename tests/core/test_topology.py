"""Spread and pod affinity in the machine: what is remembered equals what is asked afresh, whatever happens."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from scheduler.framework.api import PRE_FILTERED
from scheduler.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.plugins.pod_topology_spread import PodTopologySpread
from tests.core.plugins import Prefer, Slots
from tests.core.rig import Rig

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"


def term(rnd: random.Random):
    return {
        "topologyKey": rnd.choice(["zone", HOST]),
        "labelSelector": {"matchLabels": {"app": rnd.choice("ab")}},
    }


def spec(rnd: random.Random):
    """A pod's constraints, of which most can be met."""
    found = {}
    if rnd.random() < 0.5:
        found["topologySpreadConstraints"] = [
            {
                "maxSkew": rnd.choice([1, 2]),
                "topologyKey": rnd.choice(["zone", HOST]),
                "whenUnsatisfiable": rnd.choice(["DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": {"matchLabels": {"app": rnd.choice("ab")}},
            }
            for _ in range(rnd.choice([1, 2]))
        ]
    if rnd.random() < 0.6:
        kind = rnd.choice(["podAffinity", "podAntiAffinity"])
        preferred = [{"weight": rnd.randrange(1, 100), "podAffinityTerm": term(rnd)}]
        required = [term(rnd)] if rnd.random() < 0.5 else []
        found["affinity"] = {kind: {PREFERRED: preferred, REQUIRED: required}}
    return found


@pytest.mark.parametrize("seed", range(20))
def test_remembered_answers_equal_fresh_ones(seed):
    """Paranoid mode compares facts and verdicts; a machine that asks every node anew decides the same."""
    chosen = []
    for is_paranoid in (True, False):
        rnd = random.Random(seed)
        plugins = Slots(3), PodTopologySpread(), InterPodAffinity(), Prefer()
        rig = Rig(*plugins, is_paranoid=is_paranoid, feasible_nodes_enough=rnd.choice([1, 100]))
        for step in range(50):
            name = f"n{rnd.randrange(6)}"
            match rnd.randrange(7):
                case 0 | 1:
                    zone = {"zone": rnd.choice("xy")} if rnd.random() < 0.8 else {}
                    rig.add_nodes(name, labels={**zone, "score": str(rnd.randrange(9))})
                case 2 if rnd.random() < 0.5:
                    rig.server.delete_node(name)
                case 3 if rig.server.pods:
                    rig.server.delete_pod(rnd.choice(sorted(rig.server.pods)))
                case _:
                    rig.add_pod(f"p{step}", labels={"app": rnd.choice("ab")}, **spec(rnd))
            if rnd.random() < 0.7:
                rig.settle()
        rig.settle()
        assert rig.server.bindings
        chosen.append(rig.server.bindings)
    assert chosen[0] == chosen[1]


@dataclass(frozen=True)
class Unnarrowed(InterPodAffinity):
    """Does not say which nodes are possible."""

    def pre_filter(self, cycle, view):
        result = InterPodAffinity.pre_filter(self, cycle, view)
        return result if result.possible_nodes is None else PRE_FILTERED


def near(app: str, key: str):
    return {"podAffinity": {REQUIRED: [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_looking_at_possible_nodes_first_changes_no_choice(seed):
    chosen, calls = [], []
    for plugin in (InterPodAffinity(hard_pod_affinity_weight=0), Unnarrowed(hard_pod_affinity_weight=0)):
        rnd = random.Random(seed)
        rig = Rig(Slots(rnd.choice([2, 9])), plugin, Prefer(), is_paranoid=seed % 2 == 0)
        scores = [str(score) for score in rnd.sample(range(100), 100)]
        for step in range(60):
            name = f"n{rnd.randrange(12)}"
            match rnd.randrange(8):
                case 0 | 1:
                    rig.add_nodes(name, labels={"zone": rnd.choice("wxyz"), "score": scores.pop()})
                case 2 if rnd.random() < 0.3:
                    rig.server.delete_node(name)
                case 3 if rig.server.pods:
                    rig.server.delete_pod(rnd.choice(sorted(rig.server.pods)))
                case _:
                    wish = near(rnd.choice("ab"), rnd.choice(["zone", "zone", HOST])) if rnd.random() < 0.8 else None
                    rig.add_pod(f"p{step}", labels={"app": rnd.choice("ab")}, affinity=wish)
            rig.settle()
        assert rig.server.bindings
        chosen.append((rig.server.bindings, {key.name: rig.condition_of(key.name) for key in rig.server.pods}))
        calls.append(rig.machine.feasibility.filter_calls)
    assert chosen[0] == chosen[1]
    assert calls[0] <= calls[1]


def test_a_pod_that_must_be_near_others_looks_at_the_nodes_near_them():
    rig = Rig(InterPodAffinity(), Slots(9), is_paranoid=False)
    for zone in range(10):
        rig.add_nodes(*(f"n{zone}-{number}" for number in range(10)), labels={"zone": str(zone)})
    rig.add_pod("first", labels={"app": "web"}, affinity=near("web", "zone"))
    rig.settle()
    before = rig.machine.feasibility.filter_calls
    rig.add_pod("second", labels={"app": "web"}, affinity=near("web", "zone"))
    rig.settle()
    assert rig.node_of("second").split("-")[0] == rig.node_of("first").split("-")[0]
    assert rig.machine.feasibility.filter_calls - before == 10


def test_a_pod_that_must_be_alone_waits_until_the_other_goes():
    rig = Rig(InterPodAffinity(), Slots(9))
    rig.add_nodes("a")
    alone = {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}]}}
    for name in "pq":
        rig.add_pod(name, labels={"app": "web"}, affinity=alone)
        rig.settle()
    assert rig.condition_of("q")[1] == "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
    (key,) = [key for key in rig.server.pods if key.name == "p"]
    rig.server.delete_pod(key)
    rig.settle()
    assert rig.node_of("q") == "a"
