"""No `handle` searches for long: a hostile claim is searched for in parts, and others have their turn in between."""

from __future__ import annotations

import pytest

from scheduler.core.counting import pod_counts
from scheduler.core.ground.inputs import WriteRejected
from scheduler.framework.cycle import LOOKUPS_PER_STEP
from scheduler.framework.decisions import BindPod
from scheduler.model.keys import PodKey
from scheduler.plugins import default_plugins
from tests import builders
from tests.allocator.test_paused import hostile
from tests.core.rig import Rig
from tests.observed import observed

STEPS = 500


def world(nodes: int = 2, **settings) -> Rig:
    """Nodes on which a search for the hostile claim does not end, and for an ordinary one at once."""
    rig = Rig(*default_plugins(budget_steps=5_000), steps_per_tick=STEPS, is_paranoid=False, **settings)
    case = hostile()
    rig.server.put_class(builders.device_class("class-a", driver="driver-a"))
    devices = case["slices"][0]["spec"]["devices"]
    for index in range(nodes):
        name = f"n{index}"
        rig.add_nodes(name)
        rig.server.put_slice(builders.resource_slice(f"s{index}", node=name, driver="driver-a", devices=tuple(devices)))
    rig.server.put_claim(builders.claim("hostile", spec=case["claims"][0]["spec"]))
    return rig


def spent_by_tick(rig: Rig) -> list[int]:
    spent = []
    for _ in range(200):
        before = rig.machine.feasibility.steps
        rig.tick()
        spent.append(rig.machine.feasibility.steps - before)
        rig.execute()
        deadline = rig.machine.next_deadline_ms()
        if deadline is None or deadline > rig.now_ms:
            return spent
    raise AssertionError("no end")


def test_a_tick_takes_few_steps_and_the_verdict_comes_all_the_same():
    rig = world()
    rig.add_pod("p", claims=("hostile",))
    rig.watch()
    spent = spent_by_tick(rig)
    assert max(spent) <= 2 * STEPS
    assert sum(spent) > STEPS * 5
    assert rig.condition_of("p")[1].startswith(
        "0/2 nodes are available: 2 timed out trying to allocate devices (search budget of 5000 steps)."
    )
    assert rig.machine.queue.find(rig.server.pods[PodKey("default", "p")].uid).attempts == 1


def test_pods_of_other_namespaces_are_bound_in_between():
    rig = world(nodes=8)
    spec = builders.claim_spec_object(builders.request_object(device_class="class-a"))
    rig.server.put_claim(builders.claim("easy", namespace="good", spec=spec))
    rig.add_pod("hostile", claims=("hostile",))
    rig.add_pod("easy", claims=("easy",), namespace="good")
    rig.watch()
    for _ in range(6):
        rig.tick(1)
        rig.execute()
    assert rig.node_of("easy", namespace="good") is not None
    assert rig.condition_of("hostile") is None, "still being searched for"


def test_equal_inputs_give_equal_decisions_in_parts_too():
    decided = []
    for _ in range(2):
        rig = world()
        rig.add_pod("p", claims=("hostile",))
        rig.watch()
        spent_by_tick(rig)
        decided.append([repr(one).replace("uid", "") for one in rig.decided])
    assert decided[0] == decided[1]


def test_nodes_whose_facts_have_come_to_pass_are_looked_at_however_many_ticks_that_takes():
    """The tick's only look went to the node that had changed; those that were set aside were taken for unfit."""
    rig = Rig(*default_plugins(), filter_calls_per_tick=1)
    zone = "topology.kubernetes.io/zone"
    rig.add_nodes("cordoned-1", unschedulable=True, labels={zone: "1"})
    rig.add_nodes("open-1", labels={zone: "1"})
    rig.add_nodes("cordoned-2", unschedulable=True, labels={zone: "2"})
    rig.add_pod("other", node="cordoned-1", labels={"app": "a"})
    constraint = {
        "maxSkew": 1,
        "topologyKey": zone,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    rig.add_pod("p", labels={"app": "a"}, topologySpreadConstraints=[constraint])
    rig.settle()
    assert rig.node_of("p") is None
    rig.server.delete_pod(PodKey("default", "other"))
    rig.settle()
    assert rig.node_of("p") == "open-1"


ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def spread(number: int) -> dict:
    """A pod's constraints, each about other pods."""
    one = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    constraints = [{**one, "labelSelector": {"matchLabels": {"app": f"app-{index}"}}} for index in range(number)]
    return {"topologySpreadConstraints": constraints}


def apart(number: int) -> dict:
    terms = [
        {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": f"app-{index}"}}} for index in range(number)
    ]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


def counting(nodes: int, **settings) -> Rig:
    rig = Rig(*default_plugins(), is_paranoid=False, checks_invariants=False, **settings)
    for index in range(nodes):
        rig.add_nodes(f"n{index:03}", labels={ZONE: f"zone-{index % 3}", "kubernetes.io/hostname": f"n{index:03}"})
    rig.settle()
    return rig


def counted_by_tick(rig: Rig) -> list[int]:
    counted = []
    for _ in range(200):
        before = rig.machine.store.pod_counts.steps
        rig.tick()
        counted.append(rig.machine.store.pod_counts.steps - before)
        rig.execute()
        deadline = rig.machine.next_deadline_ms()
        if deadline is None or deadline > rig.now_ms + 100:
            return counted
        rig.now_ms = max(rig.now_ms, deadline)
    raise AssertionError("no end")


@pytest.mark.parametrize("demands", [spread, apart])
def test_counting_for_many_questions_is_paused(demands):
    rig = counting(900)
    rig.add_pod("p", **demands(20))
    rig.watch()
    counted = counted_by_tick(rig)
    assert rig.node_of("p") is not None
    assert sum(counted) >= 20 * 900
    assert max(counted) <= 3 * STEPS + 900, "what may be counted in a turn, and one question more"


@pytest.mark.parametrize("demands", [spread, apart])
def test_others_in_other_namespaces_are_bound_while_pods_are_counted(demands):
    rig = counting(900)
    rig.add_pod("many", priority=1, **demands(60))
    for number in range(3):
        rig.add_pod(f"easy-{number}", priority=0, namespace="good")
    rig.watch()
    for _ in range(3):
        rig.tick()
        rig.execute()
    assert all(rig.node_of(f"easy-{number}", namespace="good") for number in range(3))
    assert rig.node_of("many") is None, "still being counted for"
    rig.wait(10_000)
    assert rig.node_of("many") is not None


def test_each_turn_gets_on_however_few_steps_it_has():
    """The counts of one turn are not thrown away, and one part is made at least; nor does looking wait for
    ever."""
    rig = counting(900, steps_per_tick=1, search_steps_first=1, search_steps_per_turn=1)
    rig.add_pod("p", **spread(20))
    rig.watch()
    counted = counted_by_tick(rig)
    assert rig.node_of("p") is not None
    assert counted[:40] == [PART, 900 - PART] * 20


def test_pods_that_come_meanwhile_do_not_keep_it_from_ending():
    rig = counting(300)
    rig.add_pod("many", **spread(60))
    for number in range(200):
        rig.add_pod(f"other-{number}", priority=9, labels={"app": f"app-{number % 60}"})
        rig.watch()
        rig.tick(20)
        rig.execute()
        if rig.node_of("many") is not None:
            return
    raise AssertionError("not in four seconds")


@pytest.mark.parametrize(
    ("demands", "what"),
    [(spread, "topology spread constraints"), (apart, "pod affinity and anti-affinity terms")],
)
def test_a_pod_that_asks_more_than_is_kept_is_told_so(demands, what):
    rig = counting(3)
    rig.add_pod("p", **demands(64))
    rig.settle()
    assert rig.condition_of("p") == (
        "Unschedulable",
        f"0/3 nodes are available: pod has 64 distinct {what} for 1 topology keys, together more than 64. not found",
    )
    assert rig.machine.store.pod_counts.steps < 10 * 3


def test_the_answers_for_one_pod_do_not_push_each_other_out():
    rig = counting(30, remembered_bytes_max=100_000)
    rig.add_pod("p", **spread(60))
    rig.wait(10_000)
    assert rig.node_of("p") is not None


RACK = "rack"
PART = pod_counts._PART
FEW = {"steps_per_tick": 60, "search_steps_first": 60, "search_steps_per_turn": 60}
FULL = "node(s) didn't match pod topology spread constraints"


def racks(number: int, **settings) -> Rig:
    """Racks of two nodes, a pod of the app `last` in each."""
    rig = Rig(*default_plugins(), is_paranoid=False, checks_invariants=False, **settings)
    for index in range(2 * number):
        rig.add_nodes(f"n{index:03}", labels={RACK: f"r{index // 2:03}", "kubernetes.io/hostname": f"n{index:03}"})
    for index in range(number):
        rig.add_pod(f"in-{index:03}", node=f"n{2 * index:03}", labels={"app": "last"})
    rig.settle()
    return rig


def spread_over_racks(number: int = 40) -> dict:
    """Only the last of these constraints refuses the racks that have a pod."""
    one = {"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": "DoNotSchedule"}
    apps = [f"app-{index}" for index in range(number - 1)]
    constraints = [{**one, "labelSelector": {"matchLabels": {"app": app}}} for app in apps]
    constraints.append({**one, "minDomains": 1_000, "labelSelector": {"matchLabels": {"app": "last"}}})
    return {"labels": {"app": "last"}, "topologySpreadConstraints": constraints}


def apart_from_racks(number: int = 40) -> dict:
    apps = [*(f"app-{index}" for index in range(number - 1)), "last"]
    terms = [{"topologyKey": RACK, "labelSelector": {"matchLabels": {"app": app}}} for app in apps]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


def judged_by_tick(rig: Rig, plugin: str, *, between=None) -> list[int]:
    """How many facts the plugin judged in each turn until there is nothing to do for now."""
    judged = rig.machine.runners[builders.SCHEDULER].evaluations.judged
    found = []
    for _ in range(400):
        before = judged[plugin]
        rig.tick()
        found.append(judged[plugin] - before)
        rig.execute()
        if between is not None:
            between(sum(found))
        deadline = rig.machine.next_deadline_ms()
        if deadline is None or deadline > rig.now_ms + 100:
            return found
        rig.now_ms = max(rig.now_ms, deadline)
    raise AssertionError("no end")


MANY = [(spread_over_racks, "PodTopologySpread"), (apart_from_racks, "InterPodAffinity")]


def known_racks(demands: dict, number: int = 100, **settings) -> Rig:
    """Racks of which a waiting pod is known to fit in none; then counts change, so that all are judged anew."""
    rig = racks(number, **settings)
    rig.add_pod("waits", **demands)
    rig.wait(200)
    assert f"0/{2 * number} nodes are available: {2 * number} node(s) didn't match pod " in rig.condition_of("waits")[1]
    rig.add_pod("more", node="n000", labels={"app": "last"})
    rig.watch()
    return rig


def placed(rig: Rig) -> set:
    """Where the pods of the shape are; whichever is tried first has the place."""
    return {rig.node_of(name) for name in ("p", "waits")} - {None}


@pytest.mark.parametrize(("demands", "plugin"), MANY)
def test_judging_many_facts_is_paused(demands, plugin):
    rig = known_racks(demands(), **FEW)
    rig.add_pod("p", **demands())
    rig.watch()
    judged = judged_by_tick(rig, plugin)
    assert sum(judged) == 100
    assert max(judged) <= 1 + 60 * LOOKUPS_PER_STEP // 40, "what 60 steps suffice for, and one more"
    assert rig.condition_of("p") == rig.condition_of("waits")


@pytest.mark.parametrize(("demands", "plugin"), MANY)
def test_what_was_judged_of_many_facts_is_kept_while_no_count_changes(demands, plugin):
    rig = known_racks(demands(), **FEW)
    rig.add_pod("p", **demands())
    rig.watch()
    judged_by_tick(rig, plugin)
    rig.add_pod("q", **demands())
    rig.watch()
    assert sum(judged_by_tick(rig, plugin)) == 0
    assert rig.condition_of("q") == rig.condition_of("p")


@pytest.mark.parametrize(("demands", "plugin"), MANY)
def test_judging_gets_on_however_few_steps_a_turn_has(demands, plugin):
    rig = known_racks(demands(4), 30, steps_per_tick=1, search_steps_first=1, search_steps_per_turn=1)
    rig.add_pod("p", **demands(4))
    rig.watch()
    assert max(judged_by_tick(rig, plugin)) <= 2
    assert rig.condition_of("p") == rig.condition_of("waits")


@pytest.mark.parametrize(("demands", "plugin"), MANY)
def test_the_same_node_is_chosen_in_parts_and_in_one_go(demands, plugin):
    chosen = []
    for settings in (FEW, {}):
        rig = known_racks(demands(), **settings)
        rig.server.delete_pod(PodKey("default", "in-060"))
        rig.add_pod("p", **demands())
        rig.watch()
        judged_by_tick(rig, plugin)
        rig.wait(20_000)
        chosen.append({node[:3] for node in placed(rig)})
    assert chosen == [{"n12"}, {"n12"}]


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 50, 99])
@pytest.mark.parametrize(("demands", "plugin"), MANY)
def test_what_changes_while_facts_are_judged_is_not_missed(demands, plugin, after):
    """The second rack gets room when it has been judged already."""
    rig = known_racks(demands(), **FEW)
    rig.add_pod("p", **demands())
    rig.watch()
    deleted = []

    def between(judged: int) -> None:
        if judged >= after and not deleted:
            deleted.append(judged)
            rig.server.delete_pod(PodKey("default", "in-001"))
            rig.watch()

    judged_by_tick(rig, plugin, between=between)
    rig.wait(20_000)
    assert deleted
    assert placed(rig) & {"n002", "n003"}


@pytest.mark.parametrize(("demands", "plugin"), MANY)
def test_a_node_whose_facts_passed_a_while_ago_is_judged_once_more(demands, plugin):
    rig = known_racks(demands(), **FEW)
    for name in ("in-001", "in-099"):
        rig.server.delete_pod(PodKey("default", name))
    rig.add_pod("p", **demands())
    rig.watch()
    taken = []

    def between(judged: int) -> None:
        if judged >= 50 and not taken:
            taken.append(judged)
            for node in ("n002", "n198"):  # one of them had passed
                rig.add_pod(f"new-{node}", node=node, labels={"app": "last"})
            rig.watch()

    judged_by_tick(rig, plugin, between=between)
    assert taken
    assert not placed(rig)


@pytest.mark.parametrize(("demands", "plugin"), MANY)
def test_pods_that_come_and_go_do_not_keep_judging_from_ending(demands, plugin):
    rig = known_racks(demands(), **FEW)
    rig.server.delete_pod(PodKey("default", "in-060"))
    rig.add_pod("p", **demands())
    rig.watch()
    for number in range(100):
        rig.add_pod(f"come-{number}", node="n000", labels={"app": "last"})
        rig.watch()
        rig.tick(10)
        rig.execute()
        if placed(rig):
            break
    assert placed(rig) & {"n120", "n121"}


def test_terms_of_running_pods_cost_a_pod_no_more_where_there_are_many_facts():
    """Each fact was asked about each term: 5,000 pods with a term each kept every other pod for 18 s."""
    rig = racks(20)
    for index in range(40):
        meant = {"matchExpressions": [{"key": f"not-{index}", "operator": "DoesNotExist"}]}
        term = {"topologyKey": RACK, "namespaceSelector": {}, "labelSelector": meant}
        rig.add_pod(
            f"apart-{index}",
            node=f"n{index:03}",
            namespace="other",
            labels={f"not-{index}": ""},
            affinity={"podAntiAffinity": {REQUIRED: [term]}},
        )
    rig.add_nodes("free", labels={RACK: "free"})
    rig.settle()
    rig.add_pod("p")
    rig.watch()
    before = rig.machine.feasibility.steps
    rig.tick()
    rig.execute()
    assert rig.node_of("p") == "free"
    assert rig.machine.feasibility.steps - before < 41 * 2 + 21 * 4 + 80 + 40


def test_finding_the_terms_that_mean_a_pod_is_paused():
    rig = racks(5, **FEW)
    for index in range(600):
        meant = {"matchExpressions": [{"key": f"not-{index}", "operator": "DoesNotExist"}]}
        preferred = {"weight": 1, "podAffinityTerm": {"topologyKey": RACK, "labelSelector": meant}}
        affinity = {"podAntiAffinity": {PREFERRED: [preferred]}}
        rig.add_pod(f"apart-{index}", node=f"n{index % 10:03}", affinity=affinity)
    rig.settle()
    rig.add_pod("p", labels={"new": "here"})
    rig.watch()
    counted = counted_by_tick(rig)
    assert rig.node_of("p") is not None
    assert sum(counted) >= 600
    assert max(counted) <= 3 * 60 + PART, "what may be counted in a turn, and a part of the sums"


def test_resolving_many_namespace_selectors_is_paused():
    rig = racks(3, **FEW)
    for index in range(1_000):
        rig.tell(observed(builders.namespace(f"ns-{index}", labels={"n": str(index)})))
    terms = [
        {
            "topologyKey": RACK,
            "namespaceSelector": {"matchExpressions": [{"key": "n", "operator": "In", "values": [str(index)]}]},
            "labelSelector": {"matchLabels": {"app": "none"}},
        }
        for index in range(20)
    ]
    rig.add_pod("p", affinity={"podAntiAffinity": {REQUIRED: terms}})
    rig.watch()
    counted = counted_by_tick(rig)
    assert rig.node_of("p") is not None
    lookups = 20 * 1_000 * 2  # a key and a value of each namespace, and three are a node's time
    assert sum(counted) >= lookups // 3
    assert max(counted) <= 3 * 60 + PART, "what may be counted in a turn, or a part"


def long_affinity() -> dict:
    values = [{"key": "zone", "operator": "NotIn", "values": [f"v{index}"]} for index in range(100)]
    terms = [{"matchExpressions": [*values, {"key": "zone", "operator": "In", "values": ["none"]}]}] * 10
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def many_resources() -> dict:
    requests = {f"example.com/r{index}": "1" for index in range(300)}
    return {"requests": requests}


@pytest.mark.parametrize("demands", [long_affinity, many_resources])
def test_nodes_that_cost_much_to_look_at_are_few_in_a_turn(demands):
    rig = racks(50, **FEW)
    rig.add_pod("p", **demands())
    rig.watch()
    asked = []
    for _ in range(200):
        before = rig.machine.feasibility.filter_calls
        rig.tick(20)
        rig.execute()
        asked.append(rig.machine.feasibility.filter_calls - before)
    assert sum(asked) >= 100
    assert max(asked) <= 2
    assert rig.condition_of("p")[1].startswith("0/100 nodes are available: 100 ")


def test_what_changes_while_a_search_is_under_way_is_seen_by_it():
    """The pod waits in no map that a change could miss: all nodes are as they are when it is said that none fits."""
    rig = Rig(*default_plugins(), filter_calls_per_tick=1)
    for index in range(6):
        rig.add_nodes(f"n{index}", allocatable={"cpu": "1", "pods": "9"})
        rig.add_pod(f"full-{index}", node=f"n{index}", requests={"cpu": "1"})
    rig.add_pod("p", requests={"cpu": "1"})
    rig.watch()
    for _ in range(3):
        rig.tick()
    rig.server.delete_pod(PodKey("default", "full-0"))
    rig.settle()
    assert rig.node_of("p") == "n0"


@pytest.mark.parametrize("freed", ["n0", "n5"])
@pytest.mark.parametrize("turns", range(8))
def test_pods_of_one_shape_lose_no_change_while_one_of_them_is_tried_for_all(freed, turns):
    rig = Rig(*default_plugins(), filter_calls_per_tick=1)
    for index in range(6):
        rig.add_nodes(f"n{index}", allocatable={"cpu": "2", "pods": "9"})
        for half in "ab":
            rig.add_pod(f"full-n{index}-{half}", node=f"n{index}", requests={"cpu": "1"})
    rig.settle()
    for name in "pq":
        rig.add_pod(name, requests={"cpu": "1"})
    rig.wait(20_000)
    assert (rig.node_of("p"), rig.node_of("q")) == (None, None)
    for index in range(6):  # each node is looked at again, and none has room
        rig.add_nodes(f"n{index}", allocatable={"cpu": "2", "pods": "10"})
    rig.watch()
    for _ in range(turns):
        rig.tick()
        rig.execute()
    for half in "ab":
        rig.server.delete_pod(PodKey("default", f"full-{freed}-{half}"))
    rig.wait(20_000)
    assert (rig.node_of("p"), rig.node_of("q")) == (freed, freed)


def test_what_changes_while_a_pod_is_bound_in_vain_is_not_missed():
    """A pod whose binding failed is tried again after its backoff, and waits for no change."""
    rig = Rig(*default_plugins())
    rig.add_nodes("n0", allocatable={"cpu": "1", "pods": "9"})
    rig.add_pod("p", requests={"cpu": "1"})
    rig.watch()
    rig.tick()
    binding = rig.take(BindPod)
    rig.add_nodes("n1", allocatable={"cpu": "1", "pods": "9"})  # what would have helped comes too early
    rig.server.delete_node("n0")
    rig.watch()
    rig.tell(WriteRejected(binding.id, 500, "InternalError", "no"))
    assert rig.node_of("p") is None
    rig.wait(30_000)
    assert rig.node_of("p") == "n1"
