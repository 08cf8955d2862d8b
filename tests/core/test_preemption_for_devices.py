"""Preemption for devices, from the pod that does not fit to the pod that is bound, with all plugins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.ground.inputs import RelistFinished
from scheduler.framework.decisions import DeletePod, PatchPodStatus
from scheduler.model.group import GROUP_LABEL, MIN_COUNT_LABEL
from scheduler.model.keys import ClaimKey, PodGroupKey, PodKey
from scheduler.model.pod_group import Disrupted, PodGroup
from scheduler.plugins import DEFAULT_PROFILE, build_plugins, default_plugins
from tests import builders
from tests.core.rig import Rig
from tests.core.test_dry_run_devices import (
    NODE,
    PARTS,
    PLAIN,
    SHARED,
    World,
    busy,
    memory_request,
    part_request,
    plain_request,
    result,
)
from tests.observed import observed


def arrive(rig: Rig, name: str, *requests, priority: int = 10, cpu: str = "1") -> None:
    """A pod that wants devices."""
    rig.server.put_claim(builders.claim(f"of-{name}", spec=builders.claim_spec_object(*requests)))
    rig.server.put_pod(builders.pod(name, priority=priority, claims=(f"of-{name}",), requests={"cpu": cpu}))
    rig.settle()


def removed(rig: Rig) -> list[str]:
    return sorted({one.pod.name for one in rig.decided if isinstance(one, DeletePod)})


def end(rig: Rig, *names: str) -> None:
    """Kubelets have stopped the pods, and the claim controller has released what only they used."""
    for name in names:
        rig.server.delete_pod(PodKey("default", name))
    rig.server.collect_garbage()
    rig.settle()


def devices_of(rig: Rig, name: str) -> list[str]:
    allocation = rig.server.claims[ClaimKey("default", f"of-{name}")].allocation
    return [one.device for one in allocation.device_ids()] if allocation is not None else []


def sharing(*priorities: int) -> World:
    """Pods that use one claim together."""
    world = World(plain=1, claims={"c": (result(PLAIN, "plain-0"),)}, wanted=[plain_request()])
    world.pods = {f"v{index}": (priority, 1, ("c",)) for index, priority in enumerate(priorities)}
    return world


HALVES = ((PARTS, "half-0"), (PARTS, "half-1"))
SHARES = World(
    plain=1,
    claims={f"c{index}": (result(SHARED, "shared-0", 2, f"share-{index}"),) for index in range(2)},
    pods={f"v{index}": (index, 1, (f"c{index}",)) for index in range(2)},
    wanted=[plain_request()],
)
CPU_BESIDE = World(
    plain=1,
    claims={"c": (result(PLAIN, "plain-0"),)},
    pods={"device": (0, 1, ("c",)), "cpu": (0, 5, ()), "small": (0, 1, ())},
    wanted=[plain_request()],
)


@pytest.mark.parametrize(
    ("world", "request_", "cpu", "victims", "devices"),
    [
        pytest.param(busy((PLAIN, "plain-0"), (PLAIN, "plain-1")), plain_request(), "1", ["v1"], ["plain-1"], id="one"),
        pytest.param(
            busy((PLAIN, "plain-0"), (PLAIN, "plain-1")),
            plain_request(2),
            "1",
            ["v0", "v1"],
            ["plain-0", "plain-1"],
            id="several",
        ),
        pytest.param(sharing(0, 1), plain_request(), "1", ["v0", "v1"], ["plain-0"], id="both-users-of-a-claim"),
        pytest.param(sharing(0, 20), plain_request(), "1", [], [], id="a-claim-with-a-user-of-higher-priority"),
        pytest.param(busy(*HALVES), part_request("whole"), "1", ["v0", "v1"], ["whole-0"], id="a-device-in-two-parts"),
        pytest.param(SHARES, memory_request(2), "1", ["v0"], ["shared-0"], id="a-share"),
        pytest.param(SHARES, memory_request(3), "1", ["v0", "v1"], ["shared-0"], id="two-shares"),
        pytest.param(CPU_BESIDE, plain_request(), "1", ["device"], ["plain-0"], id="devices-alone"),
        pytest.param(CPU_BESIDE, plain_request(), "6", ["cpu", "device"], ["plain-0"], id="devices-and-cpu"),
        pytest.param(busy((PLAIN, "plain-0"), plain=1), plain_request(2), "1", [], [], id="more-than-there-are"),
        pytest.param(
            busy((PLAIN, "plain-0"), plain=1, priority=10), plain_request(), "1", [], [], id="as-important-pods-stay"
        ),
    ],
)
def test_who_goes_and_what_is_given(world: World, request_, cpu: str, victims: list[str], devices: list[str]) -> None:
    rig = world.rig()
    arrive(rig, "high", request_, cpu=cpu)
    assert removed(rig) == victims
    assert rig.node_of("high") is None
    end(rig, *victims)
    assert (rig.node_of("high"), devices_of(rig, "high")) == ((NODE, devices) if victims else (None, []))
    rig.wait(60_000)
    assert removed(rig) == victims
    assert not rig.machine.store.nominations.preempting


def test_two_preemptors_share_the_devices_of_one_victim() -> None:
    world = World(plain=2, wanted=[plain_request()], pods={"v0": (0, 1, ("c",)), "v1": (5, 1, ())})
    world.claims = {"c": (result(PLAIN, "plain-0"), result(PLAIN, "plain-1"))}
    rig = world.rig()
    arrive(rig, "one", plain_request())
    arrive(rig, "two", plain_request())
    assert removed(rig) == ["v0"]
    assert len(rig.machine.store.nominations.preempting) == 2
    end(rig, "v0")
    assert {rig.node_of("one"), rig.node_of("two")} == {NODE}
    assert sorted([*devices_of(rig, "one"), *devices_of(rig, "two")]) == ["plain-0", "plain-1"]


@pytest.mark.parametrize(("priority", "gets"), [(5, "high"), (10, "high"), (20, "thief")])
def test_a_thief_that_comes_meanwhile(priority: int, gets: str) -> None:
    rig = busy((PLAIN, "plain-0"), plain=1).rig()
    arrive(rig, "high", plain_request())
    # The pod is gone, and its device not free yet; then it is.
    arrive(rig, "thief", plain_request(), priority=priority)
    end(rig, "v0")
    rig.wait(30_000)
    names = [name for name in ("high", "thief") if rig.node_of(name)]
    assert (names, devices_of(rig, gets)) == ([gets], ["plain-0"])
    assert removed(rig) == ["v0"]


def test_what_is_kept_for_a_pod_that_has_lost_its_claim_goes_to_others() -> None:
    rig = busy((PLAIN, "plain-0"), plain=1).rig()
    rig.server.put_claim(builders.claim("of-high", spec=builders.claim_spec_object(plain_request())))
    rig.server.put_pod(builders.pod("high", priority=10, claims=("of-high",)))
    rig.watch()
    rig.tick()
    nomination = rig.take(PatchPodStatus)
    rig.server.delete_claim(ClaimKey("default", "of-high"))
    end(rig, "v0")
    arrive(rig, "low", plain_request(), priority=5)
    assert rig.node_of("low") is None, "it is kept for the pod that is more important"
    rig.tell(rig.server.execute(nomination))
    rig.wait(5_000)
    assert rig.node_of("low") == NODE


def test_while_devices_are_not_released_nobody_else_goes() -> None:
    rig = busy((PLAIN, "plain-0"), (PLAIN, "plain-1")).rig()
    arrive(rig, "high", plain_request())
    rig.server.delete_pod(PodKey("default", "v1"))  # its driver is down: the claim stays allocated
    rig.settle()
    rig.wait(600_000)
    assert removed(rig) == ["v1"]
    assert "high" in {rig.machine.store.pods[uid].metadata.name for uid in rig.machine.store.nominations.preempting}


def test_off_nobody_goes_for_devices() -> None:
    names = [row.name for row in DEFAULT_PROFILE]
    plugins = build_plugins(names, args={"DynamicResources": {"preempts_for_devices": False}})
    rig = busy((PLAIN, "plain-0"), plain=1).rig(plugins=plugins)
    arrive(rig, "high", plain_request())
    rig.wait(60_000)
    assert removed(rig) == []


@pytest.mark.parametrize(("count", "victims"), [(1, ["v1"]), (2, ["v0", "v1"])])
def test_a_budget_is_violated_only_where_nothing_else_helps(count: int, victims: list[str]) -> None:
    """v0 is the less important of the two, and none of its kind may be disrupted."""
    world = busy((PLAIN, "plain-0"), (PLAIN, "plain-1"))
    world.pods["v1"] = (5, 1, ("c1",))
    rig = world.rig()
    rig.server.put_pod(
        builders.pod("v0", node="n", claims=("c0",), requests={"cpu": "1"}, phase="Running", labels={"app": "web"})
    )
    rig.tell(observed(builders.budget(), builders.next_revision()))
    rig.watch()
    arrive(rig, "high", plain_request(count))
    assert removed(rig) == victims


@pytest.mark.parametrize("is_known", [True, False])
def test_nobody_goes_while_budgets_cannot_be_read(is_known: bool) -> None:
    """What was known of them may have changed."""
    rig = busy((PLAIN, "plain-0"), plain=1).rig()
    if is_known:
        rig.tell(observed(builders.budget(), builders.next_revision()))
    rig.tell(RelistFinished("PodDisruptionBudget", is_readable=False))
    arrive(rig, "high", plain_request())
    arrive(rig, "equal", plain_request(), priority=0)
    rig.wait(60_000)
    assert removed(rig) == []
    why = "not eligible due to PodDisruptionBudgets that the scheduler has no right to read (list and watch)."
    assert why in rig.condition_of("high")[1]
    assert any(why in event for event in rig.events)
    assert "PodDisruptionBudget" not in rig.condition_of("equal")[1]
    rig.tell(RelistFinished("PodDisruptionBudget"))
    rig.settle()
    assert removed(rig) == ["v0"]
    end(rig, "v0")
    assert rig.node_of("high") == NODE


# A claim that several pods share, of a controller that replaces what goes


def shared_by(*priorities: int) -> Rig:
    """Pods that use one claim together, for the only device of its kind."""
    rig = sharing(*priorities).rig()
    claim = rig.server.claims[ClaimKey("default", "c")]
    rig.server.put_claim(
        replace(claim, spec=builders.claim("c", spec=builders.claim_spec_object(plain_request())).spec)
    )
    return rig


class Controller:
    """Replaces each of its pods that is gone or going, at once, by one like it.

    Attributes:
        places: Whether another scheduler than ours places what it makes, at once.
        removed: How many pods it had to replace.
    """

    def __init__(self, rig: Rig, *names: str, places: bool = False) -> None:
        self.rig = rig
        self.names = list(names)
        self.removed = 0
        self.places = places

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            for name in list(self.names):
                pod = self.rig.server.pods.get(PodKey("default", name))
                if pod is None or pod.is_deleting:
                    self.removed += 1
                    self.names.remove(name)
                    self.names.append(f"again-{self.removed}")
                    self.make(self.names[-1])
                if pod is not None and pod.is_deleting:
                    self.rig.server.delete_pod(pod.key)
            self.rig.settle()
            self.rig.server.collect_garbage()
            self.rig.wait(1_000)

    def make(self, name: str) -> None:
        pod = builders.pod(name, claims=("c",), requests={"cpu": "1"}, node=NODE if self.places else "")
        if self.places:
            claim = self.rig.server.claims[ClaimKey("default", "c")]
            users = (*claim.reserved_for, *builders.claim("c", reserved_for=(pod,)).reserved_for)
            self.rig.server.put_claim(replace(claim, reserved_for=users))
        self.rig.server.put_pod(pod)


def test_replacements_do_not_join_the_claim_that_is_waited_for() -> None:
    rig = shared_by(0, 0, 0)
    controller = Controller(rig, "v0", "v1", "v2")
    arrive(rig, "high", plain_request())
    controller.run(60)
    assert (rig.node_of("high"), devices_of(rig, "high")) == (NODE, ["plain-0"])
    assert controller.removed == 3
    assert "cannot allocate all claims" in rig.condition_of("again-1")[1]
    rig.server.delete_pod(PodKey("default", "high"))
    rig.server.collect_garbage()
    rig.wait(30_000)
    assert [rig.node_of(name) for name in controller.names] == [NODE] * 3


@pytest.mark.parametrize("wants_devices", [True, False])
def test_who_waits_for_a_claim_that_is_waited_for_is_told_and_goes_on_when_that_ends(wants_devices: bool) -> None:
    """Nothing is kept for a pod that wants cpu alone, so nothing that comes free wakes anybody."""
    rig = shared_by(0, 0)
    controller = Controller(rig, "v0", "v1")
    if wants_devices:
        arrive(rig, "high", plain_request())
    else:
        rig.add_pod("high", priority=10, requests={"cpu": "8"})
        rig.settle()
    rig.server.delete_pod(PodKey("default", "v0"))
    controller.make("again")
    rig.settle()
    assert rig.node_of("again") is None
    told = "resourceclaim default/c is being released for pod default/high (priority 10)"
    assert told in rig.condition_of("again")[1]
    rig.server.delete_pod(PodKey("default", "high"))
    rig.settle()
    rig.wait(2_000)
    assert rig.node_of("again") == NODE


@pytest.mark.parametrize(("priority", "joins"), [(9, False), (10, False), (11, True)])
def test_only_a_more_important_pod_joins_a_claim_that_is_waited_for(priority: int, joins: bool) -> None:
    rig = shared_by(0, 0)
    arrive(rig, "high", plain_request())
    rig.server.put_pod(builders.pod("other", claims=("c",), priority=priority, requests={"cpu": "1"}))
    rig.settle()
    end(rig, "v0", "v1")
    rig.wait(60_000)
    assert (rig.node_of("other"), rig.node_of("high")) == ((NODE, None) if joins else (None, NODE))
    assert removed(rig) == ["v0", "v1"]


def test_a_claim_that_another_scheduler_gives_away_is_waited_for_once() -> None:
    """The device cannot be had, so nobody goes for it again before the claim has lost it."""
    rig = shared_by(0, 0, 0)
    controller = Controller(rig, "v0", "v1", "v2", places=True)
    arrive(rig, "high", plain_request())
    controller.run(120)
    assert rig.node_of("high") is None
    assert controller.removed == 3
    # Another claim has had the device since: now it is as any other.
    controller.places = False
    end(rig, *controller.names)
    rig.wait(60_000)
    assert rig.node_of("high") == NODE


def test_a_claim_that_was_given_away_and_has_changed_hands_is_taken_again() -> None:
    rig = shared_by(0, 0, 0)
    controller = Controller(rig, "v0", "v1", "v2", places=True)
    arrive(rig, "high", plain_request())
    controller.run(30)
    # The claim loses its device while `high` does not look, and gets it again.
    before = rig.server.pods[PodKey("default", "high")]
    rig.server.delete_pod(before.key)
    end(rig, *controller.names)
    rig.server.put_pod(builders.pod("user", claims=("c",), requests={"cpu": "1"}))
    rig.settle()
    rig.wait(10_000)
    assert rig.node_of("user") == NODE
    arrive(rig, "higher", plain_request(), priority=20)
    assert "user" in removed(rig)


# Groups


def grouped(*nodes: str, needed: int, disrupted: Disrupted | None = None, is_pod_group: bool = False) -> Rig:
    """Nodes with one device each, and on each of them a pod of one group that has it."""
    rig = Rig(*default_plugins(), is_paranoid=False)
    rig.server.put_class(builders.device_class())
    rig.add_nodes(*nodes, allocatable={"cpu": "8", "memory": "8Gi", "pods": "20"})
    for index, node in enumerate(nodes):
        rig.server.put_slice(builders.resource_slice(f"slice-{node}", node=node, devices=1))
        rig.server.put_claim(builders.claim(f"of-g{index}"))
        labels = {} if is_pod_group else {GROUP_LABEL: "g", MIN_COUNT_LABEL: str(needed)}
        of = {"schedulingGroup": {"podGroupName": "g"}} if is_pod_group else {}
        rig.add_pod(f"g{index}", labels=labels, claims=(f"of-g{index}",), requests={"cpu": "1"}, **of)
    if is_pod_group:
        key = PodGroupKey("default", "g")
        rig.server.put_pod_group(PodGroup(key, "uid-g", min_count=needed or None, disrupted=disrupted))
    rig.wait(5_000)
    assert [rig.node_of(f"g{index}") for index in range(len(nodes))] == list(nodes)
    return rig


def test_of_a_group_that_needs_all_of_its_pods_all_of_them_go() -> None:
    rig = grouped(*"abcdefgh", needed=8)
    arrive(rig, "high", builders.request_object())
    assert removed(rig) == [f"g{index}" for index in range(8)]
    told = rig.condition_of("high")[1]
    assert "found a potential placement for pod on node a, preempting 8 victims: default/g0, default/g1" in told
    # The others need not have ended: that some kubelet is down is no reason to wait.
    (record,) = rig.machine.store.nominations.preempting.values()
    assert [one.metadata.name for one in record.victims] == ["g0"]
    end(rig, "g0")
    assert rig.node_of("high") == "a"
    assert not rig.machine.store.nominations.preempting
    rig.wait(60_000)
    assert removed(rig) == [f"g{index}" for index in range(8)]


@pytest.mark.parametrize(
    ("needed", "disrupted", "victims"),
    [
        pytest.param(2, None, ["g0", "g1"], id="nothing said: a gang is of no use with too few"),
        pytest.param(1, None, ["g0"], id="nothing said: one can be spared"),
        pytest.param(2, Disrupted.ALONE, ["g0"], id="single: whatever that leaves"),
        pytest.param(1, Disrupted.TOGETHER, ["g0", "g1"], id="all: though one could be spared"),
        pytest.param(0, Disrupted.TOGETHER, ["g0", "g1"], id="all: of a group that is no gang"),
        pytest.param(0, None, ["g0"], id="no gang"),
    ],
)
def test_a_pod_group_says_how_it_is_disrupted(needed: int, disrupted: Disrupted | None, victims: list[str]) -> None:
    rig = grouped(*"ab", needed=needed, disrupted=disrupted, is_pod_group=True)
    arrive(rig, "high", builders.request_object())
    assert removed(rig) == victims
    end(rig, "g0")
    assert rig.node_of("high") == "a"


def test_a_group_that_is_disrupted_together_stays_with_its_most_important_pod() -> None:
    rig = grouped(*"ab", needed=1, disrupted=Disrupted.TOGETHER, is_pod_group=True)
    of = {"schedulingGroup": {"podGroupName": "g"}}
    rig.add_pod("important", priority=10, requests={"cpu": "1"}, node="b", phase="Running", **of)
    rig.settle()
    arrive(rig, "high", builders.request_object())
    assert removed(rig) == []


def test_a_group_gives_what_it_can_spare_and_no_more_of_it_to_the_next() -> None:
    """Both are decided before any pod terminates. What is left of the group must not be counted twice."""
    rig = grouped(*"abc", needed=2)
    for name in ("first", "second"):
        rig.server.put_claim(builders.claim(f"of-{name}", spec=builders.claim_spec_object(builders.request_object())))
        rig.server.put_pod(builders.pod(name, priority=10, claims=(f"of-{name}",), requests={"cpu": "1"}))
    rig.watch()
    rig.tick()
    told = {
        uid: sorted(one.metadata.name for one in record.victims)
        for uid, record in rig.machine.store.nominations.preempting.items()
    }
    assert sorted(map(len, told.values())) == [1, 2]
    assert sorted(name for names in told.values() for name in names) == ["g0", "g1", "g2"]


def test_a_group_with_a_pod_that_is_as_important_stays_and_another_pod_goes() -> None:
    rig = grouped(*"ab", needed=2)
    rig.add_pod("important", labels={GROUP_LABEL: "g"}, priority=10, requests={"cpu": "1"}, node="b", phase="Running")
    rig.server.delete_pod(PodKey("default", "g1"))
    rig.server.collect_garbage()
    rig.settle()
    arrive(rig, "other", builders.request_object(), priority=5)
    assert rig.node_of("other") == "b"
    arrive(rig, "high", builders.request_object())
    assert removed(rig) == ["other"]


def test_a_pod_of_a_group_that_is_about_to_be_bound_goes_with_the_others() -> None:
    rig = grouped(*"ab", needed=2)
    rig.add_nodes("c", allocatable={"cpu": "1", "memory": "8Gi", "pods": "20"})
    rig.add_pod("g2", labels={GROUP_LABEL: "g", MIN_COUNT_LABEL: "3"}, requests={"cpu": "1"})
    rig.watch()
    rig.tick()
    assert rig.machine.store.assumed
    rig.server.put_claim(builders.claim("of-high", spec=builders.claim_spec_object(builders.request_object())))
    rig.add_pod("high", priority=10, claims=("of-high",), requests={"cpu": "1"})
    rig.watch()
    rig.tick()
    (record,) = rig.machine.store.nominations.preempting.values()
    assert {one.metadata.name for one in record.victims} == {"g0", "g1", "g2"}
    rig.settle()
    assert removed(rig) == ["g0", "g1", "g2"]
    end(rig, "g0")
    assert rig.node_of("high") == "a"
