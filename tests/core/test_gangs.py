"""Pods of a gang are placed together or not at all, and what is left of a gang that fails holds nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from benchmarks.pools import packed_devices, packed_shares
from scheduler.core import group_cycles
from scheduler.core.ground.inputs import WriteRejected
from scheduler.core.queue.queued_pod import Place
from scheduler.core.scheduling_cycle import SchedulingCycles
from scheduler.core.trying import group_attempt
from scheduler.core.trying.group_attempt import GroupAttempt
from scheduler.framework.api import Profile, ReserveResult
from scheduler.framework.decisions import BindPersistentVolume, BindPod, PatchPodStatus, WriteClaimStatus
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.group import GROUP_LABEL, MIN_COUNT_LABEL
from scheduler.model.keys import ClaimKey, PodGroupKey, PodKey
from scheduler.model.pod_group import PodGroup
from scheduler.plugins import default_plugins
from tests import builders, storage_builders
from tests.core.plugins import Reject
from tests.core.rig import Rig
from tests.observed import deleted, observed
from tests.sim.volumes import CLASSES, local_volume


@pytest.fixture(autouse=True, params=["ample turns", "short turns"])
def turns(request, monkeypatch) -> bool:
    """Short: each turn is over after one piece of work, so a search pauses wherever it can."""
    is_short = request.param == "short turns"
    if is_short:
        monkeypatch.setattr(group_cycles, "_TURN_STEPS", 1)
        monkeypatch.setitem(TURNS, "search_steps_first", 1)
        monkeypatch.setitem(TURNS, "search_steps_per_turn", 1)
    return is_short


TURNS: dict[str, int] = {}


def world(**devices_by_node: int) -> Rig:
    """Nodes with so many devices each."""
    rig = Rig(*default_plugins(), **TURNS)
    rig.server.put_class(builders.device_class())
    for name, count in devices_by_node.items():
        rig.add_nodes(name)
        if count:
            rig.server.put_slice(builders.resource_slice(f"slice-{name}", node=name, devices=count))
    return rig


def member(rig: Rig, name: str, gang: str, needed: int | str | None, *, devices: int = 1, **fields) -> None:
    """A pod of a gang with a claim of its own for so many devices."""
    if devices:
        spec = builders.claim_spec_object(builders.request_object(count=devices))
        rig.server.put_claim(builders.claim(name, spec=spec))
        fields["claims"] = (name, *fields.get("claims", ()))
    labels = {GROUP_LABEL: gang} | ({MIN_COUNT_LABEL: str(needed)} if needed is not None else {})
    rig.add_pod(name, labels=labels, **fields)


def decide(rig: Rig) -> None:
    """Until the first writes are to be sent."""
    rig.watch()
    while not rig.pending:
        rig.tick()


def placed(rig: Rig) -> dict[str, str]:
    return {key.name: pod.node_name for key, pod in sorted(rig.server.pods.items()) if pod.node_name}


def allocated(rig: Rig) -> list[str]:
    return sorted(key.name for key, claim in rig.server.claims.items() if claim.allocation is not None)


def message(rig: Rig, name: str) -> str:
    condition = rig.condition_of(name)
    return condition[1] if condition is not None else ""


def test_all_pods_of_a_gang_that_fits_are_bound():
    rig = world(a=2, b=1)
    for name in "xyz":
        member(rig, name, "g", 3)
    rig.wait(1_000)
    assert sorted(placed(rig).values()) == ["a", "a", "b"]
    assert allocated(rig) == ["x", "y", "z"]


def test_none_is_bound_and_nothing_written_when_one_does_not_fit_until_there_is_room():
    rig = world(a=2)
    for name in "xyz":
        member(rig, name, "g", 3)
    rig.wait(60_000)
    assert (placed(rig), allocated(rig)) == ({}, [])
    assert not [one for one in rig.decided if isinstance(one, WriteClaimStatus | BindPod)]
    assert "2 of the 3 pods of group default/g that are needed fit together." in message(rig, "x")
    assert "cannot allocate all claims" in message(rig, "x")

    member(rig, "alone", "other", 1, devices=2)  # the gang keeps nothing from others
    rig.wait(1_000)
    assert placed(rig) == {"alone": "a"}

    rig.add_nodes("b")
    rig.server.put_slice(builders.resource_slice("slice-b", node="b", devices=3))
    rig.wait(60_000)
    assert placed(rig) == {"alone": "a", "x": "b", "y": "b", "z": "b"}


def test_a_gang_waits_for_as_many_pods_as_it_needs_and_says_so():
    rig = world(a=4)
    member(rig, "x", "g", 3)
    rig.wait(4_000)
    assert message(rig, "x") == ""
    rig.wait(2_000)
    assert "waiting for 2 more pods of group default/g, 3 are needed" in message(rig, "x")
    member(rig, "y", "g", 3)
    rig.wait(1_000)
    assert placed(rig) == {}
    member(rig, "z", "g", 3)
    rig.wait(1_000)
    assert placed(rig) == {"x": "a", "y": "a", "z": "a"}
    member(rig, "more", "g", 3)
    rig.wait(1_000)
    assert placed(rig)["more"] == "a"


def test_a_gang_of_which_all_pods_are_there_says_which_cannot_be_tried_and_why():
    rig = world(a=4)
    member(rig, "x", "g", 3)
    member(rig, "y", "g", 3, gates=("example.com/quota",))
    member(rig, "z", "g", 3, devices=0, claims=("not-there",))
    rig.wait(6_000)
    assert "waiting for" not in message(rig, "x").replace("waiting for scheduling gates", "")
    assert "pod y and 1 more of group default/g cannot be tried yet: waiting for scheduling gates" in message(rig, "x")


def test_a_gang_with_a_pod_of_another_scheduler_says_so():
    rig = world(a=4)
    member(rig, "x", "g", 2)
    member(rig, "y", "g", 2, scheduler="other")
    rig.wait(6_000)
    assert "pod y of group default/g cannot be tried yet: it is for the scheduler other" in message(rig, "x")


def test_pods_of_another_namespace_are_of_another_gang():
    rig = world(a=4)
    member(rig, "x", "g", 2, devices=0)
    member(rig, "y", "g", 2, devices=0, namespace="other")
    rig.wait(1_000)
    assert placed(rig) == {}


@pytest.mark.parametrize("order", ["xy", "yx"])
def test_a_pod_that_could_go_elsewhere_leaves_the_node_to_one_that_cannot(order):
    rig = world(a=2, b=1)
    for name in order:
        member(rig, name, "g", 2, devices={"x": 1, "y": 2}[name])
    rig.wait(1_000)
    assert placed(rig) == {"x": "b", "y": "a"}


@pytest.mark.parametrize("sizes", [(1, 1, 2, 2, 3, 3), (2, 2, 2, 3, 3), (3, 1, 2, 3, 2, 1)])
def test_choices_of_nodes_are_taken_back_until_all_fit(sizes):
    """Two nodes of six devices, which must be filled to the last one."""
    rig = world(a=6, b=6)
    for number, size in enumerate(sizes):
        member(rig, f"p{number}", "g", len(sizes), devices=size)
    rig.wait(1_000)
    assert len(placed(rig)) == len(sizes)


def test_two_pods_that_would_rather_have_all_take_half_each(turns):
    """kubernetes/kubernetes#138765: whoever is first takes both devices, and jointly one each is enough."""
    if turns:
        return  # choosing jointly is one piece of work that is not tried where it does not fit into a turn
    rig = world(a=0, b=2)
    wishes = [
        {"name": name, "deviceClassName": builders.CLASS, "allocationMode": "ExactCount", "count": count}
        for name, count in (("both", 2), ("one", 1))
    ]
    for name in "xy":
        spec = builders.claim_spec_object({"name": "gpu", "firstAvailable": wishes})
        rig.server.put_claim(builders.claim(name, spec=spec))
        member(rig, name, "g", 2, devices=0, claims=(name,))
    rig.wait(1_000)
    assert placed(rig) == {"x": "b", "y": "b"}


def test_two_gangs_that_want_the_same_devices_never_hold_half_each():
    rig = world(a=3)
    for name in ("x1", "y1", "x2", "y2"):
        member(rig, name, name[0], 2)
    rig.wait(120_000)
    assert sorted(placed(rig)) in (["x1", "x2"], ["y1", "y2"])
    for name in placed(rig):
        rig.server.delete_pod(PodKey("default", name))
        claim = ClaimKey("default", name)
        rig.server.put_claim(replace(rig.server.claims[claim], finalizers=()))
        rig.server.delete_claim(claim)
    rig.wait(120_000)
    assert len(placed(rig)) == 2


def test_more_pods_than_needed_are_placed_when_they_fit_and_the_most_important_when_not():
    rig = world(a=2)
    for name, priority in (("x", 0), ("y", 5), ("z", 9)):
        member(rig, name, "g", 2, priority=priority)
    rig.wait(60_000)
    assert sorted(placed(rig)) == ["y", "z"]
    assert "cannot allocate all claims" in message(rig, "x")


def test_a_gang_that_says_no_number_is_all_pods_there_are():
    rig = world(a=2)
    for name in "xyz":
        member(rig, name, "g", None)
    rig.wait(60_000)
    assert placed(rig) == {}
    rig.server.delete_pod(PodKey("default", "z"))
    rig.wait(400_000)
    assert sorted(placed(rig)) == ["x", "y"]


def test_pods_share_a_claim_that_the_first_of_them_is_given():
    rig = world(a=1, b=1)
    rig.server.put_claim(builders.claim("shared"))
    for name in "xyz":
        member(rig, name, "g", 3, devices=0, claims=("shared",))
    rig.wait(1_000)
    assert len(placed(rig)) == 3
    assert len(set(placed(rig).values())) == 1
    reserved = rig.server.claims[ClaimKey("default", "shared")].reserved_for
    assert sorted(one.name for one in reserved) == ["x", "y", "z"]


@pytest.mark.parametrize(("min_count", "want"), [(3, []), (2, ["x", "y"]), (None, ["x", "y"])])
def test_a_pod_group_says_how_many_pods_are_needed(min_count, want):
    """None: the policy is basic, and each pod is placed by itself."""
    rig = world(a=2)
    rig.tell(observed(PodGroup(PodGroupKey("default", "g"), "uid-g", min_count=min_count), 1))
    for name in "xyz":
        spec = builders.claim_spec_object(builders.request_object(count=1))
        rig.server.put_claim(builders.claim(name, spec=spec))
        rig.add_pod(name, claims=(name,), schedulingGroup={"podGroupName": "g"})
    rig.wait(60_000)
    assert sorted(placed(rig)) == want


def test_a_pod_that_is_deleted_while_they_are_bound_keeps_no_other_from_it():
    rig = world(a=3)
    for name in "xyz":
        member(rig, name, "g", 3)
    decide(rig)
    rig.server.delete_pod(PodKey("default", "y"))
    rig.wait(10_000)
    assert sorted(placed(rig)) == ["x", "z"]
    member(rig, "y2", "g", 3)
    rig.wait(10_000)
    assert sorted(placed(rig)) == ["x", "y2", "z"]


def test_a_pod_whose_binding_is_refused_is_tried_again_beside_the_others():
    rig = world(a=3)
    for name in "xyz":
        member(rig, name, "g", 3)
    decide(rig)
    while not any(isinstance(one, BindPod) for one in rig.pending):
        rig.execute()
    refused = next(one for one in rig.pending if isinstance(one, BindPod))
    rig.pending.remove(refused)
    rig.tell(WriteRejected(refused.id, 403, "Forbidden", "a webhook says no"))
    rig.wait(60_000)
    assert sorted(placed(rig)) == ["x", "y", "z"]


def test_a_machine_that_is_started_between_two_bindings_binds_the_rest():
    rig = world(a=3, b=3)
    for name in "xyz":
        member(rig, name, "g", 3)
    decide(rig)
    while not any(isinstance(one, BindPod) for one in rig.pending):
        rig.execute()
    rig.server.execute(next(one for one in rig.pending if isinstance(one, BindPod)))
    assert len(placed(rig)) == 1

    fresh = Rig(*default_plugins())
    fresh.server = rig.server
    fresh.wait(60_000)
    assert sorted(placed(fresh)) == ["x", "y", "z"]


@pytest.fixture
def small(monkeypatch):
    """Six pods in one turn, twenty of one gang."""
    monkeypatch.setattr(group_cycles, "GANG_PODS_MAX", 6)
    monkeypatch.setattr(group_cycles, "GANG_MEMBERS_MAX", 20)


@pytest.mark.usefixtures("small")
def test_a_gang_that_needs_more_pods_than_one_turn_may_place_is_told_so():
    """One input would last seconds: 4,200 pods of a group took 1.5 s, and nobody else was served meanwhile."""
    rig = world(a=2)
    for number in range(7):
        member(rig, f"x{number}", "g", 7, devices=0)
    rig.wait(1_000)
    assert placed(rig) == {}
    assert "group default/g needs 7 pods; 6 are placed together at most" in message(rig, "x0")

    member(rig, "alone", "other", 1, devices=2)
    rig.wait(1_000)
    assert placed(rig) == {"alone": "a"}


@pytest.mark.usefixtures("small")
def test_kube_schedulers_groups_have_no_such_limit_as_each_of_their_pods_is_tried_once(monkeypatch):
    monkeypatch.setattr("tests.core.rig.Profile", partial(Profile, places_jointly=False))
    rig = world(a=2)
    for number in range(7):
        member(rig, f"x{number}", "g", 7, devices=0)
    rig.wait(1_000)
    assert len(placed(rig)) == 7


@pytest.mark.usefixtures("small")
def test_of_a_large_gang_that_needs_few_some_are_placed_in_one_turn_and_the_others_alone(monkeypatch):
    together = []
    commit = SchedulingCycles.commit
    monkeypatch.setattr(
        SchedulingCycles,
        "commit",
        lambda *given: together.append(len(given[2])) or commit(*given),
    )
    rig = world(a=2)
    for number in range(15):
        member(rig, f"x{number:02}", "g", 2, devices=0)
    rig.wait(20_000)
    assert len(placed(rig)) == 15
    assert together == [6, *[1] * 9]


@pytest.mark.usefixtures("small")
def test_pods_of_a_gang_with_very_many_pods_are_told_so():
    rig = world(a=2)
    for number in range(21):
        member(rig, f"x{number:02}", "g", 21, devices=0)
    rig.wait(20_000)
    assert placed(rig) == {}
    assert "group default/g has 21 pods; dra-scheduler looks at 20 of one group" in message(rig, "x20")


@dataclass(frozen=True)
class Notes(Reject):
    """Reserve: notes on whose behalf it reserved and what it undid."""

    name: str = "Notes"
    reserved: list = field(default_factory=list)
    undone: list = field(default_factory=list)

    def reserve(self, cycle, node, view):
        self.reserved.append((cycle.pod.metadata.name, node.name))
        return ReserveResult(SUCCESS)

    def unreserve(self, cycle, node, view):
        self.undone.append((cycle.pod.metadata.name, node))
        return ()


@dataclass(frozen=True)
class Refuses(Reject):
    """Reserve: refuses a pod, or fails for it."""

    name: str = "Refuses"
    pod: str = ""
    status: Status = SUCCESS

    def reserve(self, cycle, node, view):
        return ReserveResult(self.status if cycle.pod.metadata.name == self.pod else SUCCESS)

    def unreserve(self, cycle, node, view):
        return ()


@pytest.mark.parametrize("status", [Status.unschedulable("not here"), Status.error("broken")])
@pytest.mark.parametrize("refused", "xyz")
def test_what_plugins_reserved_is_undone_for_each_pod_of_a_gang_that_fails(status, refused):
    notes = Notes()
    rig = Rig(*default_plugins(), notes, Refuses(pod=refused, status=status), **TURNS)
    rig.add_nodes("a")
    for name in "xyz":
        member(rig, name, "g", 3, devices=0)
    rig.wait(5_000)
    assert placed(rig) == {}
    assert (refused, "a") in notes.reserved
    assert set(notes.undone) == set(notes.reserved)


@pytest.mark.parametrize("failing", "xyz")
def test_where_a_plugin_fails_for_one_pod_all_of_its_gang_say_so(failing):
    rig = Rig(*default_plugins(), Refuses(pod=failing, status=Status.error("broken")), **TURNS)
    rig.add_nodes("a")
    for name in "xyz":
        member(rig, name, "g", 3, devices=0)
    rig.wait(20_000)
    assert placed(rig) == {}
    for name in "xyz":
        reason, text = rig.condition_of(name)
        assert reason == "SchedulerError"
        assert "broken" in text
        assert text.startswith("failed to schedule other pod from a pod group: ") == (name != failing)


def test_what_plugins_reserved_is_undone_for_a_pod_that_its_gang_does_without():
    notes = Notes()
    rig = Rig(*default_plugins(), notes, Refuses(pod="y", status=Status.unschedulable("not here")), **TURNS)
    rig.add_nodes("a")
    for name in "xyz":
        member(rig, name, "g", 2, devices=0)
    decide(rig)
    assert set(notes.undone) == {("y", "a")}
    rig.wait(5_000)
    assert sorted(placed(rig)) == ["x", "z"]


@pytest.mark.slow
def test_a_search_that_finds_nothing_ends_soon(monkeypatch):
    """The placements of one attempt, whatever the gang."""
    counts = Counter()

    def count(name):
        place = getattr(GroupAttempt, name)

        def counted(attempt, *given, **named):
            counts[attempt] += 1
            return place(attempt, *given, **named)

        monkeypatch.setattr(GroupAttempt, name, counted)

    count("_place")
    count("_place_on")
    rig = world(**{f"n{number}": 2 for number in range(30)})
    for number in range(64):
        member(rig, f"x{number:02}", "g", 62, devices=1 + number % 2)
    rig.wait(20_000)
    assert placed(rig) == {}
    assert 64 < max(counts.values()) <= 3 * 64 + 2 * group_attempt._PLACEMENTS_MORE


# Until the group is there, and what wakes it


def in_group(rig: Rig, name: str, **fields) -> None:
    """A pod of the PodGroup g with a claim for one device."""
    spec = builders.claim_spec_object(builders.request_object(count=1))
    rig.server.put_claim(builders.claim(name, spec=spec))
    rig.add_pod(name, claims=(name,), schedulingGroup={"podGroupName": "g"}, **fields)


def pod_group(rig: Rig, min_count: int | None, revision: int = 1) -> None:
    rig.tell(observed(PodGroup(PodGroupKey("default", "g"), "uid-g", min_count=min_count), revision))


def test_a_pod_waits_for_its_pod_group_and_is_tried_as_soon_as_it_comes():
    rig = world(a=3)
    in_group(rig, "x")
    rig.wait(6_000)
    assert placed(rig) == {}
    assert "waiting for PodGroup default/g, which does not exist yet" in message(rig, "x")
    pod_group(rig, 3)
    rig.wait(100)
    assert placed(rig) == {}
    in_group(rig, "y")
    in_group(rig, "z")
    rig.wait(100)
    assert sorted(placed(rig)) == ["x", "y", "z"]


@pytest.mark.parametrize("fewer", [1, None])
def test_a_pod_group_that_needs_fewer_pods_now_wakes_those_that_wait(fewer):
    rig = world(a=3)
    pod_group(rig, 3)
    in_group(rig, "x")
    rig.wait(6_000)
    assert placed(rig) == {}
    pod_group(rig, fewer, revision=2)
    rig.wait(100)
    assert sorted(placed(rig)) == ["x"]


def test_a_pod_whose_group_is_deleted_before_it_is_tried_waits_for_it_again():
    rig = world(a=3)
    pod_group(rig, 1)
    in_group(rig, "x")
    rig.watch()
    rig.tell(deleted("PodGroup", PodGroupKey("default", "g"), 2))
    rig.wait(6_000)
    assert placed(rig) == {}
    assert "which does not exist yet" in message(rig, "x")


def test_a_healthy_group_whose_pods_come_one_by_one_is_told_nothing():
    rig = world(a=8)
    for number in range(8):
        member(rig, f"x{number}", "g", 8)
        rig.wait(20)
    rig.wait(1_000)
    assert len(placed(rig)) == 8
    assert not [event for event in rig.events if event.startswith("FailedScheduling")]
    assert not [one for one in rig.decided if isinstance(one, PatchPodStatus)]


def test_so_is_one_whose_claims_come_later_than_its_pods():
    rig = world(a=2)
    labels = {GROUP_LABEL: "g", MIN_COUNT_LABEL: "2"}
    for name in "xy":
        rig.add_pod(name, labels=labels, templates={"gpu": None})
    rig.wait(100)
    for name in "xy":
        spec = builders.claim_spec_object(builders.request_object(count=1))
        pod = builders.pod(name, labels=labels, templates={"gpu": f"{name}-gpu"})
        rig.server.put_claim(builders.claim(f"{name}-gpu", spec=spec, owner_pod=pod))
        rig.server.put_pod(pod)
        rig.wait(100)
    assert sorted(placed(rig)) == ["x", "y"]
    assert not [event for event in rig.events if event.startswith("FailedScheduling")]


def test_a_pod_that_is_left_over_is_not_said_to_be_unschedulable():
    """Two of three fit. The third is tried by itself later, and only that refuses it."""
    rig = world(a=2)
    for name, priority in (("x", 0), ("y", 5), ("z", 9)):
        member(rig, name, "g", 2, priority=priority)
    decide(rig)
    queued = rig.machine.queue.find(rig.server.pods[PodKey("default", "x")].uid)
    assert queued is not None
    assert queued.unschedulable_count == (queued.place is Place.UNSCHEDULABLE)


# What takes long


def test_no_turn_of_a_group_takes_more_than_its_steps_and_what_it_found_is_kept(turns, monkeypatch):
    """Each of the pods has a selector of its own, and none may look at a node that another one has filled."""
    if turns:
        return
    monkeypatch.setattr(group_cycles, "_TURN_STEPS", 200)
    taken = []
    go_on = GroupAttempt.go_on

    def measured(attempt, calls_max, steps_max):
        before = attempt._feasibility.steps
        found = go_on(attempt, calls_max, steps_max)
        again = group_attempt._STEPS_TO_TAKE_AGAIN * len(attempt.order)
        taken.append(attempt._feasibility.steps - before - again - steps_max)
        return found

    monkeypatch.setattr(GroupAttempt, "go_on", measured)
    monkeypatch.setitem(TURNS, "search_steps_first", 200)
    monkeypatch.setitem(TURNS, "search_steps_per_turn", 200)
    rig = world(**{f"n{number:02}": 4 for number in range(16)})
    for number in range(16):
        selector = f"device.attributes['gpu.example.com'].index != {100 + number}"
        spec = builders.claim_spec_object(builders.request_object(count=4, selector=selector))
        rig.server.put_claim(builders.claim(f"x{number:02}", spec=spec))
        member(rig, f"x{number:02}", "g", 16, devices=0, claims=(f"x{number:02}",))
    rig.wait(20_000)
    assert sorted(placed(rig).values()) == [f"n{number:02}" for number in range(16)]
    assert len(taken) > 5
    assert max(taken) < 150


@pytest.mark.slow
def test_a_search_without_an_end_rests_and_says_how_far_it_came():
    """Each pod's shares almost fill the node's devices, in no way that is found soon."""
    rig = Rig(*default_plugins(), **TURNS, search_steps_before_rest=2_000)
    rig.server.put_class(builders.device_class())
    for node in "ab":
        rig.add_nodes(node)
        devices = tuple(packed_devices())
        rig.server.put_slice(builders.resource_slice(f"slice-{node}", node=node, devices=devices))
    for name, seed in (("x", 1), ("y", 2)):
        requests = []
        for index, share in enumerate(packed_shares(seed)):
            request = builders.request_object(f"r{index}")
            request["exactly"]["capacity"] = {"requests": {"memory": share}}
            requests.append(request)
        rig.server.put_claim(builders.claim(name, spec=builders.claim_spec_object(*requests)))
        member(rig, name, "g", 2, devices=0, claims=(name,))
    member(rig, "alone", "other", 1)
    rig.watch()
    for _ in range(40):
        rig.tick()
    rig.wait(1_000)
    assert list(placed(rig)) == ["alone"]
    for name in "xy":
        assert "Group default/g is being placed together: " in message(rig, name)
        assert "of the 2 pods that are needed have a place so far" in message(rig, name)


def test_pods_with_volumes_keep_their_places_over_a_pause():
    """A search that finds room for one pod in each turn comes to its end."""
    rig = world(a=0, b=0)
    rig.server.put_storage(storage_builders.storage_class("local", provisioner=CLASSES["local"]))
    for number in range(4):
        rig.server.put_storage(local_volume(f"v{number}", "ab"[number % 2]))
        rig.server.put_storage(storage_builders.volume_claim(f"c{number}", class_name="local"))
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": f"c{number}"}}]
        member(rig, f"x{number}", "g", 4, devices=0, volumes=volumes)
    rig.watch()
    for _ in range(100):
        rig.tick()
    assert len([one for one in rig.decided if isinstance(one, BindPersistentVolume)]) == 4


def test_a_claim_that_is_replaced_in_a_pause_is_not_the_one_that_is_allocated(turns):
    """The resource claim controller had lost sight of the pod's claim, and made another one."""
    rig = world(a=2)
    labels = {GROUP_LABEL: "g", MIN_COUNT_LABEL: "2"}

    def put(name: str, claim: str) -> None:
        pod = builders.pod(name, labels=labels, templates={"gpu": claim})
        rig.server.put_claim(builders.claim(claim, owner_pod=pod))
        rig.server.put_pod(pod)

    put("x", "x-1")
    put("y", "y-1")
    rig.watch()
    for _ in range(2 if turns else 0):
        rig.tick()
    put("x", "x-2")
    rig.wait(10_000)
    assert (sorted(placed(rig)), allocated(rig)) == (["x", "y"], ["x-2", "y-1"])


def paused(rig: Rig) -> str:
    """The node of the first pod of a search that has paused."""
    rig.watch()
    for _ in range(50):
        rig.tick()
        for search in rig.machine._gangs._searches.values():
            for one in search.places.by_pod.values():
                return one.node
    raise AssertionError("no search has paused")


def test_a_node_that_changes_in_a_pause_is_looked_at_again(turns):
    if not turns:
        return
    rig = world(a=2, b=2)
    member(rig, "x", "g", 2)
    member(rig, "y", "g", 2)
    node = paused(rig)
    rig.server.put_node(builders.node(node, unschedulable=True))
    rig.wait(10_000)
    assert len(placed(rig)) == 2
    assert node not in placed(rig).values()


def test_a_pod_that_comes_elsewhere_in_a_pause_forbids_a_place(turns, monkeypatch):
    if not turns:
        return
    monkeypatch.setattr(group_cycles, "_TURN_STEPS", 60)  # less would not let a pod with a constraint begin to look
    for name in TURNS:
        monkeypatch.setitem(TURNS, name, 60)
    zone = "topology.kubernetes.io/zone"
    term = {"labelSelector": {"matchLabels": {"app": "z"}}, "topologyKey": zone}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    rig = world()
    for name in "abcd":
        rig.add_nodes(name, labels={zone: "1" if name in "ab" else "2"})
    for name in "xyw":
        member(rig, name, "g", 3, devices=0, affinity=apart)
    node = paused(rig)
    other = {"a": "b", "b": "a", "c": "d", "d": "c"}[node]
    rig.server.put_pod(builders.pod("z", labels={"app": "z"}, scheduler="other", node=other))
    rig.wait(10_000)
    ours = {node for name, node in placed(rig).items() if name != "z"}
    assert len(placed(rig)) == 4
    assert ours.isdisjoint({node, other})
