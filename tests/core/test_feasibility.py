"""Remembered verdicts: each question is answered once, and never wrongly."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from scheduler.core.trying.ranking import RememberedVerdictError
from scheduler.framework.api import PostFilterResult, PreFilterResult
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.keys import PodKey
from tests import builders
from tests.core.plugins import Helper, Prefer, Reject, Scaled, Slots
from tests.core.rig import Rig


def test_a_pod_of_a_known_shape_asks_only_about_nodes_that_changed():
    slots, prefer = Slots(5), Prefer()
    rig = Rig(slots, prefer, is_paranoid=False)
    rig.add_nodes(*(f"n{index:02}" for index in range(30)))
    rig.add_pod("first")
    rig.settle()
    assert len(slots.calls) == 30
    slots.calls.clear()
    prefer.calls.clear()
    for index in range(4):
        rig.add_pod(f"p{index}")
        rig.settle()
    taken = [node for _, node in rig.server.bindings]
    assert slots.calls == taken[:4]
    assert prefer.calls == taken[:4]


def test_a_heartbeat_is_no_change():
    slots = Slots(1)
    rig = Rig(slots, is_paranoid=False)
    rig.add_nodes("a", "b")
    rig.add_pod("p")
    rig.settle()
    slots.calls.clear()
    rig.add_nodes("a", "b")  # newer revisions of the same
    rig.add_pod("q")
    rig.settle()
    assert slots.calls == [rig.node_of("p")]


def test_the_confirmation_of_a_binding_is_no_change():
    slots = Slots(5)
    rig = Rig(slots, is_paranoid=False)
    rig.add_nodes("a")
    rig.add_pod("p")
    rig.settle()
    position = rig.machine.store.changes.position
    rig.server.put_pod(builders.pod("p", node="a", phase="Running"))
    rig.watch()
    assert rig.machine.store.changes.position == position


def test_ties_go_to_the_node_that_was_chosen_longest_ago():
    rig = Rig(Slots(9), Prefer())
    rig.add_nodes("a", "b", "c")
    for index in range(6):
        rig.add_pod(f"p{index}")
        rig.settle()
    chosen = [node for _, node in rig.server.bindings]
    assert sorted(chosen[:3]) == sorted(chosen[3:]) == ["a", "b", "c"]


def test_the_best_score_wins_and_is_seen_to_change():
    rig = Rig(Slots(9), Prefer())
    rig.add_nodes("a", labels={"score": "10"})
    rig.add_nodes("b", labels={"score": "90"})
    rig.add_pod("p")
    rig.settle()
    rig.add_nodes("a", labels={"score": "95"})
    rig.add_pod("q")
    rig.settle()
    assert [node for _, node in rig.server.bindings] == ["b", "a"]


def test_weights_and_normalized_scores_decide_together():
    rig = Rig(Prefer(weight=1), Scaled(weight=2), Slots(9))
    rig.add_nodes("a", labels={"score": "60", "most": "1000"})  # 60 + 2 * 50
    rig.add_nodes("b", labels={"score": "0", "most": "2000"})  # 0 + 2 * 100
    rig.add_pod("p")
    rig.settle()
    assert rig.node_of("p") == "b"
    rig.add_nodes("b", labels={"score": "0", "most": "1100"})  # now a: 60 + 2 * 90, b: 200
    rig.add_pod("q")
    rig.settle()
    assert rig.node_of("q") == "a"


@pytest.mark.parametrize("seed", range(10))
def test_remembered_rankings_choose_what_fresh_ones_do(seed):
    """The paranoid machine compares them, too; the other takes them as they are."""
    chosen = []
    for is_paranoid in (True, False):
        rnd = random.Random(seed)
        rig = Rig(Prefer(), Scaled(weight=2), Slots(3), is_paranoid=is_paranoid)
        for index in range(60):
            if index % 3 == 0:
                labels = {"score": str(rnd.randrange(3) * 40), "most": str(rnd.randrange(4) * 50)}
                rig.add_nodes(f"n{rnd.randrange(6)}", labels=labels)
            rig.add_pod(f"p{index}")
            rig.settle()
        chosen.append(rig.server.bindings)
    assert chosen[0] == chosen[1]


def test_a_normalization_that_depends_on_more_than_the_scores_is_found():
    class Moody(Prefer):
        def normalize_score(self, cycle, scores):
            for name in scores:
                scores[name] = len(self.calls)

    rig = Rig(Moody(), Slots(9))
    rig.add_nodes("a", "b", labels={"score": "1"})
    rig.add_pod("p")
    rig.settle()
    rig.add_pod("q")
    with pytest.raises(RememberedVerdictError, match=r"Prefer gave {1: \d}, but now {1: \d}"):
        rig.settle()


def test_a_score_out_of_range_fails_the_cycle():
    rig = Rig(Prefer())
    rig.add_nodes("a", labels={"score": "101"})
    rig.add_pod("p")
    rig.settle()
    assert rig.condition_of("p") == (
        "SchedulerError",
        'plugin "Prefer" returns an invalid score 101 for node a, not in 0..100',
    )


def test_looking_stops_when_enough_nodes_fit_and_goes_on_elsewhere():
    slots = Slots(1)
    rig = Rig(slots, feasible_nodes_enough=3)
    rig.add_nodes(*(f"n{index:02}" for index in range(20)))
    for index in range(20):
        rig.add_pod(f"p{index}")
    rig.settle()
    assert len({node for _, node in rig.server.bindings}) == 20


def test_only_a_few_nodes_are_looked_at_in_a_large_cluster():
    slots = Slots(1)
    rig = Rig(slots, feasible_nodes_enough=3, is_paranoid=False)
    rig.add_nodes(*(f"n{index:02}" for index in range(50)))
    rig.add_pod("p")
    rig.settle()
    assert len(slots.calls) == 3
    rig.add_pod("q")
    rig.settle()
    assert len(slots.calls) == 5  # the changed node, and one more in the place of the taken one


def test_new_shapes_do_not_all_begin_in_the_same_zone():
    """Where names and zones alternate alike, and the nodes that are enough are a multiple of the zones."""
    filtering = Labelled()
    rig = Rig(filtering, feasible_nodes_enough=4, is_paranoid=False)
    rig.add_nodes(*(f"n{index:02}" for index in range(40)))
    for group in "abcd":
        rig.add_pod(group, labels={"group": group})
        rig.settle()
    first = [int(filtering.calls[4 * signature][1:]) % 4 for signature in range(4)]
    assert first == [0, 1, 2, 3]


@dataclass(frozen=True)
class Labelled(Slots):
    """Of pods whose labels are part of their shape."""

    size: int = 9

    def signature(self, cycle, view):
        return tuple(sorted((cycle.pod.metadata.labels or {}).items()))


def test_no_node_fits_is_said_only_after_all_were_looked_at():
    rejecting = Reject(is_rejected=lambda pod, info: info.name != "n19")
    rig = Rig(rejecting, feasible_nodes_enough=1)
    rig.add_nodes(*(f"n{index:02}" for index in range(20)))
    rig.add_pod("p")
    rig.settle()
    assert rig.node_of("p") == "n19"


def test_pre_filter_node_names_narrow_the_search_and_the_rest_is_accounted_for():
    class Narrow(Reject):
        def pre_filter(self, cycle, view):
            return PreFilterResult(SUCCESS, frozenset({"b", "gone"}))

    rig = Rig(Narrow(name="Narrow"), Slots(1))
    rig.add_nodes("a", "b", "c")
    rig.add_pod("p")
    rig.add_pod("q")
    rig.settle()
    assert rig.node_of("p") == "b"
    assert rig.condition_of("q") == (
        "Unschedulable",
        "0/3 nodes are available: 1 Too many pods, 2 node(s) didn't satisfy plugin(s) [Narrow].",
    )


class Hope(Slots):
    """Fits on b and c alone, as long as there is room, and says so."""

    def pre_filter(self, cycle, view):
        return PreFilterResult(SUCCESS, possible_nodes=frozenset({"b", "c", "gone"}))

    def filter(self, cycle, node, view):
        status = super().filter(cycle, node, view)
        return status if node.name in ("b", "c") else Status.unresolvable("elsewhere")


def test_where_only_some_nodes_can_fit_the_others_are_asked_only_when_none_of_these_does():
    hope = Hope(1)
    rig = Rig(hope, is_paranoid=False)
    rig.add_nodes(*"abcdefgh")
    rig.add_pod("p")
    rig.settle()
    assert hope.calls == ["b", "c"]  # both, as one of them may be better
    rig.add_pod("q")
    rig.settle()
    assert {rig.node_of("p"), rig.node_of("q")} == {"b", "c"}
    assert hope.calls == ["b", "c", rig.node_of("p")]
    rig.add_pod("r")
    rig.settle()
    assert sorted(hope.calls[3:]) == sorted([rig.node_of("q"), *"adefgh"])
    assert rig.condition_of("r") == (
        "Unschedulable",
        "0/8 nodes are available: 2 Too many pods, 6 elsewhere.",
    )


def test_pre_filters_that_name_no_node_in_common_reject():
    class Narrow(Reject):
        def pre_filter(self, cycle, view):
            return PreFilterResult(SUCCESS, frozenset({self.name.lower()}))

    rig = Rig(Narrow(name="A"), Narrow(name="B"))
    rig.add_nodes("a", "b")
    rig.add_pod("p")
    rig.settle()
    text = "0/2 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously."
    assert rig.condition_of("p") == ("Unschedulable", text)


def test_the_nominated_node_is_taken_if_it_fits():
    rig = Rig(Slots(1), Prefer(), feasible_nodes_enough=1)
    rig.add_nodes(*(f"n{index}" for index in range(9)), labels={"score": "50"})
    rig.add_nodes("worse", labels={"score": "1"})
    rig.add_pod("p", nominated="worse")
    rig.settle()
    rig.add_pod("q", nominated="worse")
    rig.settle()
    assert rig.node_of("p") == "worse"
    assert rig.node_of("q") is not None


def test_post_filter_sees_all_verdicts_and_its_reason_ends_the_message():
    helper = Helper()
    rig = Rig(Slots(0), helper)
    rig.add_nodes("a", "b")
    rig.add_pod("p")
    rig.settle()
    (verdicts,) = helper.seen
    assert {name: status.plugin for name, status in verdicts.items()} == {"a": "Slots", "b": "Slots"}
    assert rig.condition_of("p")[1] == "0/2 nodes are available: 2 Too many pods. still not schedulable"


def test_post_filter_may_nominate_a_node():
    rig = Rig(Slots(0), Helper(PostFilterResult(SUCCESS, nominated_node="b")))
    rig.add_nodes("a", "b")
    rig.add_pod("p")
    rig.settle()
    assert rig.server.pods[PodKey("default", "p")].status.nominated_node_name == "b"


def test_a_lie_about_what_a_verdict_depends_on_is_found():
    """The plugin reads the whole cluster and says that it reads one node."""
    lying = Reject(is_rejected=lambda pod, info: len(rig.machine.store.assumed) > 0)
    rig = Rig(lying, Slots(9))
    rig.add_nodes("a", "b", "c")
    rig.add_pod("p")
    rig.add_pod("q")
    rig.watch()
    with pytest.raises(RememberedVerdictError, match=r"pod default/q: remembered .* but now"):
        rig.tick()


def test_records_of_shapes_unused_longest_are_forgotten():
    class ByName(Slots):
        def signature(self, cycle, view):
            return cycle.pod.metadata.name

    rig = Rig(ByName(99), remembered_bytes_max=30_000)
    rig.add_nodes("a", "b", "c", "d")
    for name in ("p", "q", "r", "s"):
        rig.add_pod(name)
        rig.settle()
    rig.machine.store.ledger.begin("")
    rig.machine.store.ledger.begin("")
    assert [signature._parts[-1] for signature, _ in rig.machine.feasibility.records()] == ["q", "r", "s"]


def test_a_pod_without_a_shape_is_decided_afresh():
    class Shapeless(Slots):
        def signature(self, cycle, view):
            return None

    plugin = Shapeless(1)
    rig = Rig(plugin)
    rig.add_nodes("a", "b")
    for name in ("p", "q", "r"):
        rig.add_pod(name)
    rig.settle()
    assert len(rig.server.bindings) == 2
    assert list(rig.machine.feasibility.records()) == []
    assert rig.condition_of("r") == ("Unschedulable", "0/2 nodes are available: 2 Too many pods.")


@pytest.mark.parametrize("seed", range(25))
def test_remembered_answers_equal_fresh_ones_whatever_happens(seed):
    """Paranoid mode compares them in every cycle; here nodes and pods change at random."""
    rnd = random.Random(seed)
    rig = Rig(Slots(2), Prefer(), Scaled(weight=2), feasible_nodes_enough=rnd.choice([1, 2, 100]))
    for step in range(60):
        name = f"n{rnd.randrange(6)}"
        match rnd.randrange(6):
            case 0 | 1:
                rig.add_nodes(name, labels={"most": str(rnd.randrange(9)), "score": str(rnd.randrange(100))})
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


def test_status_equality_is_what_paranoid_compares():
    assert Status.unschedulable("a").by("X") == Status.unschedulable("a").by("X")
    assert Status.unschedulable("a").by("X") != Status.unschedulable("a").by("Y")


def test_one_tick_looks_at_a_bounded_number_of_nodes_and_goes_on_in_the_next():
    rejecting = Reject(is_rejected=lambda pod, info: True)
    rig = Rig(rejecting, filter_calls_per_tick=10)
    rig.add_nodes(*(f"n{index:02}" for index in range(35)))
    rig.add_pod("p")
    rig.watch()
    looked = []
    while rig.machine.next_deadline_ms() == rig.now_ms:
        before = rig.machine.feasibility.filter_calls
        rig.tick()
        looked.append(rig.machine.feasibility.filter_calls - before)
    assert looked == [10, 10, 10, 5]
    rig.settle()
    assert rig.condition_of("p")[1] == "0/35 nodes are available: 35 node(s) were rejected."
    assert rig.machine.queue.find(builders.pod("p").uid).attempts == 1


def test_a_pod_that_needs_many_looks_does_not_hold_up_those_of_others():
    class Sizes(Reject):
        def signature(self, cycle, view):
            return cycle.pod.metadata.labels["size"]

    rig = Rig(
        Sizes(is_rejected=lambda pod, info: pod.metadata.labels["size"] == "huge"),
        filter_calls_per_tick=5,
        feasible_nodes_enough=3,
    )
    rig.add_nodes(*(f"n{index:02}" for index in range(50)))
    rig.add_pod("huge", labels={"size": "huge"})
    rig.add_pod("small", labels={"size": "small"}, namespace="good")
    rig.watch()
    ticks = 0
    while not rig.server.bindings:
        rig.tick(1)
        rig.execute()
        ticks += 1
    assert rig.node_of("small", namespace="good") is not None
    assert rig.condition_of("huge") is None
    rig.settle()
    assert rig.condition_of("huge")[1].startswith("0/50 nodes are available: 50 ")
