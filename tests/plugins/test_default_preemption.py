"""DefaultPreemption: who may preempt, who must go, and on which node."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from scheduler.framework.cycle import UNLIMITED_STEPS, Cycle
from scheduler.framework.preemption import NodeTried
from scheduler.framework.status import UNFINISHED, Code, Status
from scheduler.model.group import GROUP_LABEL, MIN_COUNT_LABEL
from scheduler.model.keys import NodeName
from scheduler.plugins.default_preemption.plugin import BEGUN_LEAST, DefaultPreemption
from tests import builders
from tests.plugins.preempting import Obj, ask, budget, chosen, node, pod

HIGH = pod("high", cpu=4, priority=100)
WEB = {"app": "web"}
TERMINATING = {"deletionTimestamp": "2026-01-01T01:00:00Z"}
PREEMPTED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}


# Who may preempt


def test_a_pod_that_wants_nobody_removed_waits():
    never = {**HIGH, "spec": {**HIGH["spec"], "preemptionPolicy": "Never"}}
    answer = ask(never, [node("a")], [pod("low", on="a")])
    assert answer.helped.status.code is Code.UNSCHEDULABLE
    assert answer.helped.nominated_node is None
    assert answer.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


def nominated(*, on: str = "a") -> Obj:
    return {**HIGH, "status": {"nominatedNodeName": on}}


def test_a_pod_waits_for_what_was_removed_for_it():
    going = pod("low", on="a", metadata=TERMINATING, status=PREEMPTED)
    answer = ask(nominated(), [node("a")], [going])
    assert answer.helped.nominated_node is None
    assert answer.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("low", on="a", metadata=TERMINATING), id="no-condition"),
        pytest.param(pod("low", on="a", status=PREEMPTED), id="not-terminating"),
        pytest.param(
            pod(
                "low",
                on="a",
                metadata=TERMINATING,
                status={"conditions": [{**PREEMPTED["conditions"][0], "reason": "EvictionByEvictionAPI"}]},
            ),
            id="evicted",
        ),
        pytest.param(
            pod(
                "low",
                on="a",
                metadata=TERMINATING,
                status={"conditions": [{**PREEMPTED["conditions"][0], "status": "False"}]},
            ),
            id="condition-is-false",
        ),
    ],
)
def test_pods_that_terminate_for_other_reasons_do_not_hold_it_back(other):
    assert chosen(ask(nominated(), [node("a")], [other]))[:2] == ("a", ["low"])


def test_it_does_not_wait_where_it_cannot_go_any_more():
    tainted = {**node("a"), "spec": {"taints": [{"key": "gone", "effect": "NoSchedule"}]}}
    going = pod("low", on="a", metadata=TERMINATING, status=PREEMPTED)
    answer = ask(nominated(), [tainted, node("b")], [going, pod("other", on="b")])
    assert chosen(answer)[:2] == ("b", ["other"])


def test_a_pod_of_its_own_priority_that_goes_does_not_hold_it_back():
    going = pod("equal", on="a", cpu=1, priority=100, metadata=TERMINATING, status=PREEMPTED)
    answer = ask(nominated(), [node("a"), node("b")], [going, pod("low", on="b")])
    assert chosen(answer)[:2] == ("b", ["low"])


# Who may go


def test_nobody_of_its_own_priority_goes():
    answer = ask(HIGH, [node("a")], [pod("equal", on="a", priority=100)])
    assert answer.helped.nominated_node == ""
    assert answer.message == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_mirror_pods_stay():
    """Kube-scheduler deletes them, and the kubelet makes them again."""
    owner = [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u", "controller": True}]
    mirror = pod("static", on="a", metadata={"ownerReferences": owner})
    answer = ask(HIGH, [node("a")], [mirror])
    assert answer.helped.preemption is None
    assert chosen(ask(HIGH, [node("a", cpu=5)], [mirror, pod("low", on="a")]))[1] == ["low"]


def test_pods_of_other_schedulers_go_unless_that_is_forbidden():
    foreign = pod("low", on="a", schedulerName="another")
    assert chosen(ask(HIGH, [node("a")], [foreign]))[1] == ["low"]
    assert ask(HIGH, [node("a")], [foreign], preemptPodsOfOtherSchedulers=False).helped.preemption is None


def test_terminating_pods_are_victims_too():
    assert chosen(ask(HIGH, [node("a")], [pod("low", on="a", metadata=TERMINATING)]))[1] == ["low"]


# Which pods of a node


def victims(pods: list[Obj], *, cpu: int = 4, budgets: tuple[Obj, ...] = (), wants: int = 4) -> list[str]:
    preemptor = pod("high", cpu=wants, priority=100)
    return chosen(ask(preemptor, [node("a", cpu=cpu)], [{**one} for one in pods], budgets=budgets))[1]


def test_only_as_many_as_needed_the_least_important():
    running = [pod(f"p{priority}", on="a", priority=priority) for priority in (3, 1, 4, 2)]
    assert victims(running, wants=2) == ["p2", "p1"]


def test_of_equal_priority_the_longest_running_stays():
    running = [pod("new", on="a", started=9), pod("old", on="a", started=1), pod("unstarted", on="a", started=None)]
    assert victims(running, cpu=3, wants=2) == ["new", "unstarted"]


def test_a_large_important_pod_may_cost_two_small_ones():
    running = [pod("large", on="a", cpu=2, priority=2), pod("s1", on="a", priority=1), pod("s2", on="a", priority=1)]
    assert victims(running, wants=2) == ["s1", "s2"]


def test_a_small_pod_stays_although_a_more_important_one_could_not():
    assert victims([pod("large", on="a", cpu=3, priority=2), pod("small", on="a", priority=1)], wants=3) == ["large"]


def test_whoever_no_budget_allows_to_go_is_spared_first():
    running = [pod("covered", on="a", labels=WEB), pod("important", on="a", priority=5)]
    assert victims(running, cpu=2, wants=1) == ["covered"]
    assert victims(running, cpu=2, wants=1, budgets=(budget("b"),)) == ["important"]


def test_budgets_are_a_preference():
    answer = ask(HIGH, [node("a")], [pod("covered", on="a", labels=WEB)], budgets=[budget("b")])
    assert chosen(answer) == ("a", ["covered"], 1)


def test_victims_are_told_by_importance_also_where_some_violate_budgets():
    running = [pod("covered", on="a", labels=WEB, priority=1), pod("important", on="a", priority=5)]
    assert chosen(ask(HIGH, [node("a")], running, budgets=[budget("b")])) == ("a", ["important", "covered"], 1)


@pytest.mark.parametrize(
    ("budgets", "violations"),
    [
        pytest.param([budget("b", allowed=2)], 0, id="allows-both"),
        pytest.param([budget("b", allowed=1)], 1, id="allows-one"),
        pytest.param([budget("b")], 2, id="allows-none"),
        pytest.param([budget("b", selector={})], 0, id="an-empty-selector-covers-nobody"),
        pytest.param([budget("b", disrupted=["w1"])], 1, id="an-eviction-that-was-granted-is-counted-already"),
        pytest.param([budget("b", allowed=1, disrupted=["w1"])], 0, id="and-takes-nothing-of-what-is-allowed"),
        pytest.param([{**budget("b"), "metadata": {"name": "b", "namespace": "x"}}], 0, id="another-namespace"),
        pytest.param([budget("b", allowed=2), budget("c", allowed=1)], 1, id="each-budget-counts"),
    ],
)
def test_what_budgets_allow(budgets, violations):
    running = [pod("w1", on="a", labels=WEB), pod("w2", on="a", labels=WEB), pod("other", on="a")]
    assert chosen(ask(HIGH, [node("a", cpu=4)], running, budgets=budgets))[2] == violations


def test_a_budget_is_spent_on_pods_that_are_spared_as_well():
    """It is counted over all pods of lower priority, the most important first, before any is put back."""
    running = [pod("first", on="a", labels=WEB, priority=2), pod("second", on="a", labels=WEB, priority=1)]
    preemptor = pod("high", priority=100)
    answer = ask(preemptor, [node("a", cpu=2)], running, budgets=[budget("b", allowed=1)])
    assert chosen(answer) == ("a", ["first"], 0)


def test_a_pod_without_labels_is_covered_by_nothing():
    without_app = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    answer = ask(HIGH, [node("a")], [pod("bare", on="a")], budgets=[budget("b", selector=without_app)])
    assert chosen(answer)[2] == 0


# Which node. Each row differs from its alternative in one criterion, and in all later ones the other way round.


def better(*of_a: Obj, than: tuple[Obj, ...], budgets: tuple[Obj, ...] = ()) -> None:
    """Node z is taken for its victims, although n's name is first, whichever is observed first."""
    good = [{**one, "spec": {**one["spec"], "nodeName": "z"}} for one in of_a]
    other = [{**one, "spec": {**one["spec"], "nodeName": "n"}} for one in than]
    for nodes in ([node("n"), node("z")], [node("z"), node("n")]):
        assert chosen(ask(HIGH, nodes, [*good, *other], budgets=budgets))[0] == "z"


def test_the_fewest_violated_budgets():
    better(
        pod("a1", priority=50, started=1), pod("a2"), than=(pod("b", labels=WEB, started=9),), budgets=(budget("x"),)
    )


def test_then_the_least_important_of_the_most_important_victims():
    better(pod("a1", priority=1), pod("a2", priority=1), than=(pod("b", priority=2, started=9),))


def test_then_the_smallest_sum_of_priorities():
    better(
        pod("a1", priority=2, started=1),
        pod("a2", priority=-1, started=1),
        than=(pod("b1", priority=2, started=9), pod("b2", priority=0, started=9)),
    )


def test_negative_priorities_do_not_make_many_victims_better_than_few():
    better(
        pod("a", priority=-5, started=1), than=(pod("b1", priority=-5, started=9), pod("b2", priority=-9, started=9))
    )


def test_then_the_fewest_victims():
    """Sums are equal only where a victim's priority is the lowest there is."""
    better(pod("a", started=1), than=(pod("b1", started=9), pod("b2", priority=-(2**31), started=9)))


def test_then_the_latest_start_of_the_most_important_victims():
    better(
        pod("a1", priority=2, started=9),
        pod("a2", priority=1, started=1),
        than=(pod("b1", priority=2, started=8), pod("b2", priority=1, started=9)),
    )


def test_the_earliest_of_them_counts():
    better(pod("a1", started=5), pod("a2", started=6), than=(pod("b1", started=4), pod("b2", started=30)))


def test_then_the_first_by_name():
    pods = [pod("p1", on="n1"), pod("p2", on="n2")]
    assert chosen(ask(HIGH, [node("n2"), node("n1")], pods))[0] == "n1"


# How many nodes


def test_enough_candidates_end_the_search():
    nodes = [node(name) for name in ("n1", "n2", "n3")]
    pods = [pod("p1", on="n1", priority=9), pod("p2", on="n2", priority=8), pod("p3", on="n3", priority=7)]
    limits = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 2}
    assert chosen(ask(HIGH, nodes, pods))[0] == "n3"
    assert chosen(ask(HIGH, nodes, pods, **limits))[0] == "n2"


def test_one_without_a_violated_budget_is_looked_for_further():
    nodes = [node(name) for name in ("n1", "n2", "n3")]
    pods = [pod(f"p{n}", on=f"n{n}", labels=WEB) for n in (1, 2)] + [pod("p3", on="n3", priority=50)]
    limits = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}
    assert chosen(ask(HIGH, nodes, pods, budgets=[budget("b")], **limits)) == ("n3", ["p3"], 0)


def test_a_percentage_of_the_nodes_that_could_be_candidates():
    nodes = [node(f"n{n}") for n in range(4)]
    pods = [pod(f"p{n}", on=f"n{n}", priority=9 - n) for n in range(4)]
    limits = {"minCandidateNodesPercentage": 50, "minCandidateNodesAbsolute": 1}
    assert chosen(ask(HIGH, nodes, pods, **limits))[0] == "n1"


# What is said


def test_on_success_the_message_says_where():
    answer = ask(HIGH, [node("a")], [pod("low", on="a")])
    assert answer.helped.status.is_success
    assert answer.helped.nominated_node == "a"
    assert answer.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node a, "
        "preempting 1 victims"
    )


def test_why_no_node_is_a_candidate():
    tainted = {**node("t"), "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    nodes = [node("a", cpu=5), node("b"), tainted]
    pods = [pod("equal", on="a", cpu=2, priority=100), pod("low", on="a"), pod("same", on="b", priority=100)]
    answer = ask(HIGH, nodes, pods)
    assert answer.helped.nominated_node == ""
    assert answer.message == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
        "preemption: 0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


# In parts


class Remembering:
    """A dry run of which only the memory is asked: nobody can be removed."""

    def __init__(self, names: list[NodeName]) -> None:
        self.names = names
        self.known: dict[NodeName, NodeTried] = {}

    def recall_hopeless(self) -> None:
        return None

    def remember_hopeless(self, status: Status) -> None:
        self.hopeless = status

    def candidates(self) -> list[NodeName]:
        return self.names

    def recall(self, name: NodeName) -> NodeTried | None:
        return self.known.get(name)

    def has_less_important(self) -> bool:
        return True

    def remember(self, name: NodeName, tried: NodeTried) -> None:
        assert name not in self.known, "it was begun before"
        self.known[name] = tried


@pytest.mark.parametrize("steps", [1, 500, UNLIMITED_STEPS])
def test_a_cluster_without_victims_is_gone_through_in_parts(steps):
    """5,000 nodes with ten pods each took 25 ms in one piece; the more pods, the longer."""
    names = [NodeName(f"n{number:04}") for number in range(2_000)]
    pods = {name: builders.pod(f"on-{name}", priority=9) for name in names}
    infos = {name: SimpleNamespace(pods={pods[name].uid: pods[name]}) for name in names}
    view = SimpleNamespace(node_infos=infos, preemption_of=lambda uid: None, knows_disruption_budgets=lambda: True)
    verdicts = dict.fromkeys(names, Status.unschedulable("Insufficient cpu"))
    dry_run, begun = Remembering(names), []
    status = UNFINISHED
    while status is UNFINISHED:
        cycle, before = Cycle(builders.pod("late"), 0, steps), len(dry_run.known)
        status = DefaultPreemption().post_filter(cycle, verdicts, view, dry_run).status
        begun.append(len(dry_run.known) - before)

    # 14 lookups for a node, 16 of them are a step.
    assert max(begun) == {1: BEGUN_LEAST, 500: 572}.get(steps, 2_000)
    assert sum(begun) == 2_000
    text = "0/2000 nodes are available: 2000 No preemption victims found for incoming pod."
    assert (status.message, dry_run.hopeless.message) == (f"preemption: {text}", text)


def test_where_no_pod_is_less_important_no_node_is_looked_at_and_the_words_are_the_same():
    names = [NodeName(f"n{number}") for number in range(30)]
    pods = {name: builders.pod(f"on-{name}", priority=9) for name in names}
    infos = {name: SimpleNamespace(pods={pods[name].uid: pods[name]}) for name in names}
    view = SimpleNamespace(node_infos=infos, preemption_of=lambda uid: None, knows_disruption_budgets=lambda: True)
    refusals = [Status.unschedulable("Insufficient cpu"), Status.unresolvable("cannot allocate all claims")]
    verdicts = {name: refusals[number % 3 == 0] for number, name in enumerate(names)}

    class NoneLess(Remembering):
        def has_less_important(self) -> bool:
            return False

    words, known = [], []
    for dry_run in (Remembering(names), NoneLess(names)):
        found = DefaultPreemption().post_filter(
            Cycle(builders.pod("late"), 0, UNLIMITED_STEPS), verdicts, view, dry_run
        )
        words.append((found.status.code, found.status.message, found.nominated_node))
        known.append(len(dry_run.known))
    assert words[0] == words[1]
    assert known == [30, 0]


# Gangs


def of_gang(name: str, gang: str = "g", needed: int | None = 2, **fields) -> dict:
    labels = {GROUP_LABEL: gang} | ({MIN_COUNT_LABEL: str(needed)} if needed is not None else {})
    return pod(name, labels=labels | fields.pop("labels", {}), **fields)


@pytest.mark.parametrize(
    ("gang", "node_and_victims"),
    [
        pytest.param(
            [of_gang("g0", on="a", cpu=4), of_gang("g1", on="b", cpu=4)], ("a", ["g0", "g1"]), id="all-of-a-gang"
        ),
        pytest.param(
            [of_gang(f"g{index}", on=on, cpu=4) for index, on in enumerate("abc")], ("a", ["g0"]), id="one-to-spare"
        ),
        pytest.param(
            [of_gang("g0", on="a", cpu=2), of_gang("g1", on="a", cpu=2), of_gang("g2", on="b", cpu=4)],
            ("b", ["g2"]),
            id="one-can-be-spared-two-cannot",
        ),
        pytest.param(
            [of_gang("g0", on="a", cpu=4, needed=None), of_gang("g1", on="b", cpu=4, needed=None)],
            ("a", ["g0", "g1"]),
            id="no-number-means-all",
        ),
        pytest.param(
            [of_gang("g0", on="a", cpu=4), of_gang("g1", on="b", cpu=4, priority=9)], None, id="one-is-too-important"
        ),
        pytest.param(
            [of_gang("g0", on="a", cpu=4), of_gang("g1", on="b", cpu=4), pod("alone", on="c", cpu=4)],
            ("c", ["alone"]),
            id="a-pod-alone-costs-less",
        ),
        pytest.param(
            [of_gang("g0", on="a", cpu=4), of_gang("g1", on="b", cpu=4), pod("alone", on="c", cpu=4, priority=1)],
            ("a", ["g0", "g1"]),
            id="priority-counts-more-than-the-number",
        ),
        pytest.param(
            [
                of_gang("g0", on="a", cpu=2),
                pod("alone", on="a", cpu=2, started=9),
                of_gang("g1", on="b", cpu=2),
                pod("important", on="b", cpu=2, priority=9),
            ],
            ("a", ["g0", "g1", "alone"]),
            id="with-a-pod-that-has-to-go-too",
        ),
        pytest.param(
            [
                of_gang("g0", on="a", cpu=4),
                of_gang("g1", on="b", cpu=4, status={"phase": "Failed"}),
                of_gang("g2", on="c", cpu=4, status={"phase": "Succeeded"}),
            ],
            ("b", None),
            id="what-has-ended-does-not-run",
        ),
    ],
)
def test_a_gang_that_would_be_broken_goes_as_a_whole(gang, node_and_victims):
    nodes = [node(name) for name in "abc"]
    fillers = [pod(f"filler-{name}", on=name, cpu=4, priority=9) for name in "abc"]
    used = {one["spec"]["nodeName"] for one in gang}
    pods = [*gang, *(one for one in fillers if one["spec"]["nodeName"] not in used)]
    answer = ask(pod("high", cpu=4, priority=9), nodes, pods)
    if node_and_victims is None:
        assert answer.helped is not None
        assert answer.helped.preemption is None
    elif node_and_victims[1] is None:
        assert answer.helped is None  # it fits where a pod has ended
    else:
        assert chosen(answer)[:2] == node_and_victims


def test_where_equal_pods_can_go_instead_a_gang_is_spared():
    """Also where the gang's pod has run for the shorter time."""
    pods = [
        of_gang("g0", on="a", cpu=2, started=9),
        pod("alone", on="a", cpu=2, started=1),
        of_gang("g1", on="b", cpu=4, started=9),
    ]
    answer = ask(pod("high", cpu=2, priority=9), [node("a"), node("b")], pods)
    assert chosen(answer) == ("a", ["alone"], 0)


def test_budgets_of_all_pods_of_a_gang_count():
    guarded = [of_gang("g0", on="a", cpu=4), of_gang("g1", on="b", cpu=4, labels={"app": "web"})]
    alone = pod("alone", on="c", cpu=4, priority=5)
    answer = ask(
        pod("high", cpu=4, priority=9), [node(name) for name in "abc"], [*guarded, alone], budgets=[budget("web")]
    )
    assert chosen(answer) == ("c", ["alone"], 0)
    answer = ask(pod("high", cpu=4, priority=9), [node("a"), node("b")], guarded, budgets=[budget("web")])
    assert chosen(answer) == ("a", ["g0", "g1"], 1)


def test_who_must_be_near_a_gang_does_not_remove_it():
    """Without the gang's pod on the other node it would not fit any more."""
    near = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {GROUP_LABEL: "g"}}, "topologyKey": "zone"}
            ]
        }
    }
    nodes = [node(name, zone="z") for name in "ab"]
    gang = [of_gang("g0", on="a", cpu=4), of_gang("g1", on="b", cpu=4)]
    answer = ask(pod("high", cpu=4, priority=9, affinity=near), nodes, gang)
    assert answer.helped.preemption is None
    spare = [*gang, of_gang("g2", on="b", cpu=0, priority=0)]
    assert chosen(ask(pod("high", cpu=4, priority=9, affinity=near), nodes, spare))[1] == ["g0"]
