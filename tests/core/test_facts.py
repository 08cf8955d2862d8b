"""Plugins that judge facts: each distinct fact is judged once a cycle, and nothing else about a node is asked again."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from scheduler.core.trying.ranking import RememberedVerdictError
from scheduler.framework.api import PreFilterResult
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.keys import PodKey
from tests.core.plugins import Emptier, Helper, Prefer, Reject, Scaled, Slots, Zoned
from tests.core.rig import Rig


def zones(rig: Rig, *names: str, nodes: int = 3) -> None:
    for zone in names:
        rig.add_nodes(*(f"{zone}{index}" for index in range(nodes)), labels={"zone": zone})


def test_a_fact_is_judged_once_a_cycle_and_found_out_once_a_node():
    zoned = Zoned(9)
    rig = Rig(zoned, is_paranoid=False)
    zones(rig, *"xyz")
    rig.add_pod("p")
    rig.settle()
    assert zoned.calls == ["x", "y", "z"]
    assert len(zoned.facts) == 9
    rig.add_pod("q")
    rig.settle()
    assert zoned.calls == ["x", "y", "z"] * 2
    assert zoned.facts[9:] == [rig.node_of("p")]


def test_a_change_on_one_node_is_seen_on_all_of_its_zone():
    rig = Rig(Zoned(1))
    zones(rig, *"xyz")
    for name in "pqrs":
        rig.add_pod(name)
    rig.settle()
    assert sorted(node[0] for _, node in rig.server.bindings) == ["x", "y", "z"]
    assert rig.condition_of("s") == ("Unschedulable", "0/9 nodes are available: 9 zone is full.")


def test_a_node_that_changes_its_zone_changes_both():
    rig = Rig(Zoned(1))
    zones(rig, *"xy", nodes=2)
    rig.add_pod("p")
    rig.settle()
    rig.add_nodes(rig.node_of("p"), labels={"zone": "z"})  # its old zone is free now
    for name in "qrs":
        rig.add_pod(name)
    rig.settle()
    bound = [node for _, node in rig.server.bindings]
    assert len(bound) == 3
    assert {node[0] for node in bound} == {"x", "y"}


def test_later_filters_are_not_asked_about_nodes_whose_facts_are_rejected():
    late = Slots(9, name="Late")
    rig = Rig(Zoned(1), late, is_paranoid=False)
    zones(rig, "x")
    rig.add_pod("p")
    rig.settle()
    rig.add_nodes("x3", labels={"zone": "x"})
    rig.add_pod("q")
    rig.settle()
    assert late.calls == ["x0", "x1", "x2"]
    rig.server.delete_pod(
        PodKey("default", "p")
    )  # the zone is free again: now they are asked about the nodes set aside
    rig.settle()
    assert rig.node_of("q") is not None
    assert sorted(late.calls[3:]) == ["x0", "x3"]


def test_the_plugin_that_rejects_first_in_order_now_gives_the_reason():
    early = Reject(is_rejected=lambda pod, info: info.name == "x0", name="Early", reason="early")
    late = Reject(is_rejected=lambda pod, info: info.name in ("x0", "x1", "y0"), name="Late", reason="late")
    helper = Helper()
    rig = Rig(early, Zoned(1), late, helper)
    zones(rig, *"xy", nodes=3)
    for name in "pqr":
        rig.add_pod(name)
        rig.settle()
    # x1 was rejected by Late while its zone had room; now the zone is full, and Zoned comes before Late.
    assert rig.condition_of("r")[1] == "0/6 nodes are available: 1 early, 5 zone is full. still not schedulable"
    (verdicts,) = helper.seen
    assert {name: status.plugin for name, status in verdicts.items()} == {
        "x0": "Early",
        **dict.fromkeys(("x1", "x2", "y0", "y1", "y2"), "Zoned"),
    }


def test_late_rejections_count_while_their_facts_pass():
    late = Reject(is_rejected=lambda pod, info: True, name="Late", reason="late")
    rig = Rig(Zoned(1), late)
    zones(rig, "x")
    rig.add_pod("p")
    rig.settle()
    assert rig.condition_of("p")[1] == "0/3 nodes are available: 3 late."


def test_scores_of_facts_see_the_nodes_that_fit_and_how_many():
    emptier = Emptier()
    rig = Rig(Zoned(2), Slots(1), emptier)
    zones(rig, "x", nodes=3)
    zones(rig, "y", nodes=2)
    for name in "pqrst":
        rig.add_pod(name)
        rig.settle()
    assert emptier.seen == [{"x": 3, "y": 2}, {"x": 2, "y": 2}, {"x": 2, "y": 1}, {"y": 1}]
    assert [node[0] for _, node in rig.server.bindings] == ["x", "y", "x", "y"]
    assert rig.condition_of("t")[1].startswith("0/5 nodes are available: 5 zone is full.")


def test_scores_of_facts_and_of_nodes_are_summed_by_weight():
    rig = Rig(Emptier(weight=1), Prefer(weight=2), Slots(9))
    rig.add_nodes("x", labels={"zone": "x", "score": "70"})  # 140, and 100 while it is empty
    rig.add_nodes("y", labels={"zone": "y", "score": "10"})  # 20 and 100
    for name in "pq":
        rig.add_pod(name)
        rig.settle()
    assert [node for _, node in rig.server.bindings] == ["x", "x"]
    rig.add_nodes("x", labels={"zone": "x", "score": "50"})  # 100 against 120
    rig.add_pod("r")
    rig.settle()
    assert rig.node_of("r") == "y"


def test_normalization_sees_only_nodes_whose_facts_pass():
    rig = Rig(Zoned(1), Scaled(), Prefer(), Slots(9))
    rig.add_nodes("x", labels={"zone": "x", "most": "1000", "score": "50"})  # 100 + 50
    rig.add_nodes("y", labels={"zone": "y", "most": "100", "score": "30"})  # 10 + 30, alone with z: 100 + 30
    rig.add_nodes("z", labels={"zone": "z", "most": "50", "score": "60"})  # 5 + 60, alone with y: 50 + 60
    for name in "pq":
        rig.add_pod(name)
        rig.settle()
    assert [node for _, node in rig.server.bindings] == ["x", "y"]


def test_looking_goes_on_while_too_few_nodes_of_passing_facts_are_known():
    zoned = Zoned(1)
    rig = Rig(zoned, feasible_nodes_enough=2, is_paranoid=False)
    zones(rig, *"xy", nodes=10)
    rig.add_pod("p")
    rig.settle()
    assert len(zoned.facts) == 2
    rig.add_pod("q")
    rig.settle()
    assert rig.node_of("q")[0] == "y"
    assert len(zoned.facts) == 13  # the changed node, eight that are set aside, and two that fit


def test_where_only_some_nodes_can_fit_their_facts_count():
    class Hope(Slots):
        def pre_filter(self, cycle, view):
            return PreFilterResult(SUCCESS, possible_nodes=frozenset({"x1", "y1"}))

        def filter(self, cycle, node, view):
            self.calls.append(node.name)
            return SUCCESS if node.name in ("x1", "y1") else Status.unresolvable("elsewhere")

    hope = Hope()
    rig = Rig(hope, Zoned(1), is_paranoid=False)
    zones(rig, *"xy")
    for name in "pq":
        rig.add_pod(name)
        rig.settle()
    assert [node for _, node in rig.server.bindings] == ["x1", "y1"]
    assert hope.calls == ["x1", "y1", "x1"]
    rig.add_pod("r")
    rig.settle()
    assert rig.condition_of("r")[1] == "0/6 nodes are available: 2 zone is full, 4 elsewhere."


def test_nodes_set_aside_that_have_become_possible_are_looked_at():
    class Hope(Slots):
        possible = frozenset({"x0", "x1", "x2"})

        def pre_filter(self, cycle, view):
            return PreFilterResult(SUCCESS, possible_nodes=self.possible)

    hope = Hope()
    rig = Rig(hope, Zoned(1), Prefer(), is_paranoid=False)
    rig.add_nodes("x0", labels={"zone": "x", "score": "1"})
    rig.add_pod("p")
    rig.settle()
    rig.add_nodes("x1", labels={"zone": "x", "score": "9"})
    rig.add_nodes("y0", labels={"zone": "y", "score": "1"})
    hope.possible = frozenset({"y0", "x1"})
    rig.add_pod("q")
    rig.settle()
    assert rig.node_of("q") == "y0"  # zone x is full, so x1 is set aside
    rig.server.delete_pod(PodKey("default", "p"))
    rig.server.delete_pod(PodKey("default", "q"))
    rig.settle()
    rig.add_pod("r")
    rig.settle()
    assert rig.node_of("r") == "x1"


def test_the_nominated_node_is_taken_only_while_its_facts_pass():
    rig = Rig(Zoned(1), Prefer())
    rig.add_nodes("a", labels={"zone": "x", "score": "50"})
    rig.add_nodes("b", labels={"zone": "y", "score": "1"})
    for name in "pq":
        rig.add_pod(name, nominated="b")
        rig.settle()
    assert [node for _, node in rig.server.bindings] == ["b", "a"]


@pytest.mark.parametrize("broken", ["fact", "filter_fact", "score_facts"])
def test_a_plugin_that_breaks_fails_this_pod_and_forgets_no_node(broken):
    @dataclass(frozen=True)
    class Broken(Zoned):
        weight: int = 1

        def score_facts(self, cycle, facts, view):
            return {}

    is_broken = True

    def breaking(self, *args):
        if is_broken:
            raise ValueError("oh")
        return original(self, *args)

    original = getattr(Broken, broken)
    setattr(Broken, broken, breaking)
    rig = Rig(Broken(1), Slots(9), is_strict=False)
    zones(rig, *"xy", nodes=2)
    rig.add_pod("p")
    rig.settle()
    reason, message = rig.condition_of("p")
    assert reason == "SchedulerError"
    assert "ValueError: oh" in message
    is_broken = False
    rig.wait(10_000)
    assert rig.node_of("p") is not None


def test_a_score_of_a_fact_out_of_range_fails_the_cycle():
    class Proud(Emptier):
        def score_facts(self, cycle, facts, view):
            return dict.fromkeys(facts, 101)

    rig = Rig(Proud())
    zones(rig, "x")
    rig.add_pod("p")
    rig.settle()
    text = 'plugin "Emptier" returns an invalid score 101, not in 0..100'
    assert rig.condition_of("p") == ("SchedulerError", text)


def test_a_fact_that_lies_is_found():
    class Lying(Zoned):
        def fact(self, cycle, node, view):
            return sum(len(info.pods) for info in view.node_infos.values())

    rig = Rig(Lying(9), Slots(9))
    zones(rig, "x")
    rig.add_pod("p")
    rig.settle()
    rig.add_pod("q")
    with pytest.raises(RememberedVerdictError, match="remembered facts"):
        rig.settle()


@pytest.mark.parametrize("seed", range(25))
def test_remembered_answers_equal_fresh_ones_whatever_happens(seed):
    """Paranoid mode compares them in every cycle; a machine that remembers decides as one that asks all anew."""
    chosen = []
    for is_paranoid in (True, False):
        rnd = random.Random(seed)
        late = Reject(is_rejected=lambda pod, info: info.name == "n1", name="Late")
        rig = Rig(
            Slots(2),
            Zoned(4),
            late,
            Prefer(),
            Scaled(weight=2),
            Emptier(),
            feasible_nodes_enough=rnd.choice([1, 2, 100]),
            is_paranoid=is_paranoid,
        )
        for step in range(60):
            name = f"n{rnd.randrange(6)}"
            match rnd.randrange(6):
                case 0 | 1:
                    labels = {"zone": rnd.choice("xy"), "score": str(rnd.randrange(100)), "most": rnd.choice("123")}
                    rig.add_nodes(name, labels=labels)
                case 2:
                    rig.server.delete_node(name)
                case 3 | 4:
                    rig.add_pod(f"p{step}", labels={"app": rnd.choice("ab")})
                case _ if rig.server.pods:
                    rig.server.delete_pod(rnd.choice(sorted(rig.server.pods)))
            if rnd.random() < 0.7:
                rig.settle()
        rig.settle()
        assert rig.server.bindings
        chosen.append(rig.server.bindings)
    assert chosen[0] == chosen[1]
