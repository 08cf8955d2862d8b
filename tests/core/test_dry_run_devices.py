"""Dry runs with devices against what would really be, and what is kept for pods for which room is being made."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import (
    Allocation,
    DeviceResult,
    InUse,
    decode_slice,
    newest_slices,
    overdrawn_capacities,
    overdrawn_counters,
)
from cel.quantity import Quantity
from scheduler.core.preempting.preemption_records import Record
from scheduler.core.trying.dry_run import DryRuns, beside_nominated, reserve
from scheduler.core.trying.dry_run_memory import DryRunMemories
from scheduler.framework.cycle import Cycle
from scheduler.framework.preemption import Trial
from scheduler.framework.status import SUCCESS, UNFINISHED, Code, Status
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, NodeName, PodKey, PodUid
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig

NODE = NodeName("n")
PLAIN, PARTS, SHARED = ("plain", "parts", "shared")  # pools
SELECTORS = {
    PLAIN: "device.attributes[device.driver].kind == 'plain'",
    "half": "device.attributes[device.driver].kind == 'half'",
    "whole": "device.attributes[device.driver].kind == 'whole'",
    SHARED: "device.attributes[device.driver].kind == 'shared'",
    "either": "device.attributes[device.driver].kind in ['plain', 'whole']",
}
MEMORY = 4


def slices(plain: int) -> list[dict[str, Any]]:
    """Whole devices; one that can be had whole or in two halves; one whose memory is shared."""

    def part(name: str, kind: str, memory: int) -> dict[str, Any]:
        counters = {"memory": {"value": str(memory)}}
        return {
            **builders.device_object(name, kind=kind),
            "consumesCounters": [{"counterSet": "set", "counters": counters}],
        }

    shared = {
        **builders.device_object("shared-0", kind=SHARED),
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": str(MEMORY)}},
    }
    counters = [{"name": "set", "counters": {"memory": {"value": str(MEMORY)}}}]
    parts = (part("half-0", "half", 2), part("half-1", "half", 2), part("whole-0", "whole", 4))
    return [
        builders.slice_object(
            "plain",
            node="n",
            pool=PLAIN,
            devices=tuple(builders.device_object(f"plain-{index}", kind=PLAIN) for index in range(plain)),
        ),
        builders.slice_object("parts", node="n", pool=PARTS, devices=parts, slices=2),
        {**(it := builders.slice_object("counters", node="n", pool=PARTS, devices=(), slices=2)),
         "spec": {**{key: value for key, value in it["spec"].items() if key != "devices"}, "sharedCounters": counters}},
        builders.slice_object("shared", node="n", pool=SHARED, devices=(shared,)),
    ]  # fmt: skip


def result(pool: str, device: str, memory: int | None = None, share: str = "") -> DeviceResult:
    consumed = (("memory", Quantity.from_int(memory)),) if memory is not None else ()
    return DeviceResult("r0", builders.DRIVER, pool, device, share_id=share or None, consumed_capacity=consumed)


@dataclass
class World:
    """One node, pods on it with what they have, and a claim that is wanted.

    Attributes:
        pods: Name to priority, cpu and names of claims.
        claims: Name to what is allocated.
    """

    plain: int = 2
    pods: dict[str, tuple[int, int, tuple[str, ...]]] = field(default_factory=dict)
    claims: dict[str, tuple[DeviceResult, ...]] = field(default_factory=dict)
    wanted: list[dict[str, Any]] = field(default_factory=list)
    cpu: int = 1

    def rig(self, gone: frozenset[str] = frozenset(), plugins: tuple[Any, ...] = ()) -> Rig:
        """The world in which some pods are gone, and with them what only they used."""
        rig = Rig(*(plugins or default_plugins()), is_paranoid=False)
        server = rig.server
        server.put_node(builders.node("n", allocatable={"cpu": "8", "memory": "8Gi", "pods": "20"}))
        server.put_class(builders.device_class())
        for one in slices(self.plain):
            server.put_slice(decode_slice(one))
        there = {name: one for name, one in self.pods.items() if name not in gone}
        for name, results in self.claims.items():
            users = [
                builders.pod(pod, priority=priority, claims=claims)
                for pod, (priority, _, claims) in there.items()
                if name in claims
            ]
            allocation = Allocation(results, (), builders.allocation(pool="n").node_selector) if users else None
            server.put_claim(builders.claim(name, allocation=allocation, reserved_for=tuple(users)))
        for pod, (priority, cpu, claims) in there.items():
            server.put_pod(
                builders.pod(
                    pod, node="n", priority=priority, claims=claims, requests={"cpu": str(cpu)}, phase="Running"
                )
            )
        spec = builders.claim_spec_object(*self.wanted)
        server.put_claim(builders.claim("wanted", spec=spec))
        self.put_waiting(rig, "p", 2)
        rig.watch()
        return rig

    def put_waiting(self, rig: Rig, name: str, priority: int, claim: str = "wanted", cpu: int | None = None) -> None:
        """A pod that no cycle is run for: it has a gate."""
        cpu = self.cpu if cpu is None else cpu
        rig.server.put_pod(
            builders.pod(name, priority=priority, claims=(claim,), requests={"cpu": str(cpu)}, gates=("later",))
        )

    @property
    def lower(self) -> list[str]:
        return [name for name, (priority, _, _) in self.pods.items() if priority < 2]


def uid(rig: Rig, name: str) -> PodUid:
    return rig.server.pods[PodKey("default", name)].uid


def dry_runs(rig: Rig, name: str = "p", steps: int = 10**9) -> DryRuns:
    pod = rig.machine.store.pods[uid(rig, name)]
    (runner,) = rig.machine.runners.values()
    ground = rig.machine.ground
    cycle = Cycle(pod, rig.now_ms, steps)
    assert runner.pre_filter(cycle, ground.view).status.is_success
    memory = DryRunMemories(ground.store).of(runner, pod, None)
    return DryRuns(ground, runner, cycle, verdicts={}, memory=memory)


def without(rig: Rig, *gone: str, pod: str = "p") -> Trial:
    return dry_runs(rig, pod).without(NODE, [uid(rig, name) for name in gone])


class WorldMaker:
    """Draws all at once: no device is given twice, no counter or capacity exceeded."""

    def __init__(self, rnd: random.Random) -> None:
        self._rnd = rnd

    def make(self) -> World:
        rnd = self._rnd
        world = World(plain=rnd.choice((1, 2, 3)), cpu=rnd.choice((1, 1, 4)))
        free = [result(PLAIN, f"plain-{index}") for index in range(world.plain)]
        free += rnd.choice(([result(PARTS, "whole-0")], [result(PARTS, "half-0"), result(PARTS, "half-1")]))
        memory = MEMORY
        for index in range(rnd.randrange(1, 6)):
            if rnd.random() < 0.3 and memory:
                amount = rnd.randrange(1, memory + 1)
                memory -= amount
                world.claims[f"c{index}"] = (result(SHARED, "shared-0", amount, f"share-{index}"),)
            elif free:
                taken = [free.pop(rnd.randrange(len(free))) for _ in range(min(len(free), rnd.choice((1, 1, 2))))]
                world.claims[f"c{index}"] = tuple(taken)
        for index in range(rnd.randrange(1, 6)):
            claims = tuple(name for name in world.claims if rnd.random() < 0.4)
            world.pods[f"v{index}"] = (rnd.choice((0, 0, 1, 1, 2, 3)), rnd.choice((0, 1, 3)), claims)
        world.wanted = self.requests()
        return world

    def requests(self) -> list[dict[str, Any]]:
        requests = []
        for index in range(self._rnd.choice((1, 1, 2))):
            kind = self._rnd.choice(list(SELECTORS))
            one = builders.request_object(f"r{index}", count=self._rnd.choice((1, 1, 2)), selector=SELECTORS[kind])
            if kind == SHARED:
                one["exactly"] |= {"count": 1, "capacity": {"requests": {"memory": str(self._rnd.randrange(1, 5))}}}
            requests.append(one)
        return requests


RANDOMS = st.randoms(use_true_random=False)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(RANDOMS)
def test_a_dry_run_says_what_would_be(rnd: random.Random) -> None:
    """The same verdict as in a world in which the pods are gone, and the ledger is not touched."""
    world = WorldMaker(rnd).make()
    gone = frozenset(name for name in world.lower if rnd.random() < 0.6)
    rig = world.rig()
    overlay = rig.machine.overlay
    before, revision = overlay.in_use.copy(), overlay.in_use.revision
    trial = without(rig, *gone)
    really = without(world.rig(gone))
    assert trial.status == really.status
    assert [(one.claim, one.allocation.results) for one in trial.given] == [
        (one.claim, one.allocation.results) for one in really.given
    ]
    assert (overlay.in_use, overlay.in_use.revision) == (before, revision)
    assert rig.machine.ground.view.in_use is overlay.in_use
    rig.machine.check_invariants()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(RANDOMS)
def test_what_fits_fits_with_one_pod_less_and_victims_are_all_needed(rnd: random.Random) -> None:
    world = WorldMaker(rnd).make()
    rig = world.rig()
    victims = set(world.lower)
    if not without(rig, *victims).status.is_success:
        for name in victims:
            assert not without(rig, *(victims - {name})).status.is_success
        return
    for name in world.lower:
        if without(rig, *(victims - {name})).status.is_success:
            victims.remove(name)
    assert without(world.rig(frozenset(victims))).status.is_success
    for name in victims:
        assert not without(world.rig(frozenset(victims - {name}))).status.is_success


# What is kept


def keep(rig: Rig, name: str, trial: Trial, *victims: str) -> None:
    """As if the pod's preemption had begun; nobody is removed, as the nomination is not stored."""
    pods = rig.machine.store.pods
    record = Record(
        pods[uid(rig, name)],
        NODE,
        {uid(rig, one): pods[uid(rig, one)] for one in victims},
        {held.claim: held for held in trial.released},
        trial.given,
    )
    rig.machine.preemptions.records.add(record)


def end(rig: Rig, name: str) -> None:
    records = rig.machine.preemptions.records
    records.remove(records.get(uid(rig, name)))


def place(rig: Rig, name: str) -> tuple[Held, ...] | Status:
    """What the pod gets on the node, or why it gets nothing."""
    ground = rig.machine.ground
    (runner,) = rig.machine.runners.values()
    cycle = Cycle(ground.store.pods[uid(rig, name)], rig.now_ms)
    info = ground.store.node_infos[NODE]
    filtered = runner.pre_filter(cycle, ground.view)
    assert filtered.status.is_success
    status = beside_nominated(ground, runner, cycle, info)
    if status.is_success:
        status = runner.verdict(runner.plan(cycle, ground.view, filtered), cycle, info, ground.view)
    if not status.is_success:
        return status
    reserved = reserve(ground, runner, cycle, info)
    assert reserved.status.is_success, "Filter passed what Reserve cannot have"
    return reserved.held


def overdrawn(rig: Rig, in_use: InUse) -> list[object]:
    """What is given out more often than there is."""
    store = rig.machine.store
    found: list[object] = []
    for pool, use in in_use.pools.items():
        newest = newest_slices(store.inventory.slices_of_pool(pool).values(), store.features)
        found += [device for device, count in use.dedicated.items() if count > 1 or device in use.shares]
        found += overdrawn_counters(newest, use)
        found += [name for device in use.consumed for name in overdrawn_capacities(newest, device, use)]
    return found


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(RANDOMS, st.sampled_from([0, 1, 2]))
def test_nobody_less_important_gets_what_is_kept_nor_what_is_not_there_yet(rnd: random.Random, priority: int) -> None:
    """Whatever a thief is given: it is free now, and leaves the preemptor its devices when the victims are gone."""
    world = WorldMaker(rnd).make()
    rig = world.rig()
    trial = without(rig, *world.lower)
    if not trial.status.is_success:
        return
    keep(rig, "p", trial, *world.lower)
    rig.server.put_claim(builders.claim("stolen", spec=builders.claim_spec_object(*WorldMaker(rnd).requests())))
    world.put_waiting(rig, "thief", priority, "stolen", cpu=0)
    rig.watch()
    stolen = place(rig, "thief")
    if isinstance(stolen, Status):
        return
    now = rig.machine.overlay.in_use.copy()
    for one in stolen:
        now.add(one.allocation)
    assert not overdrawn(rig, now)
    for one in trial.released:
        now.remove(one.allocation)
    for one in trial.given:
        now.add(one.allocation)
    assert not overdrawn(rig, now)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(RANDOMS)
def test_two_preemptors_of_one_priority_are_given_different_devices(rnd: random.Random) -> None:
    """The second one's dry run counts what is kept for the first, and both fit when all victims are gone."""
    world = WorldMaker(rnd).make()
    rig = world.rig()
    first = without(rig, *world.lower)
    if not first.status.is_success:
        return
    keep(rig, "p", first, *world.lower)
    rig.server.put_claim(builders.claim("second", spec=builders.claim_spec_object(*WorldMaker(rnd).requests())))
    world.put_waiting(rig, "q", 2, "second", cpu=0)
    rig.watch()
    second = without(rig, *world.lower, pod="q")
    if not second.status.is_success:
        return
    now = rig.machine.overlay.in_use.copy()
    for one in {held.uid: held for held in (*first.released, *second.released)}.values():
        now.remove(one.allocation)
    for one in (*first.given, *second.given):
        now.add(one.allocation)
    assert not overdrawn(rig, now)


def busy(*kinds: tuple[str, str], priority: int = 0, wanted: dict[str, Any] | None = None, plain: int = 2) -> World:
    """Each pod `v0`, … has one device: (pool, device)."""
    world = World(plain=plain, wanted=[wanted or plain_request()])
    for index, (pool, device) in enumerate(kinds):
        memory = (2, f"share-{index}") if pool == SHARED else ()
        world.claims[f"c{index}"] = (result(pool, device, *memory),)
        world.pods[f"v{index}"] = (priority, 1, (f"c{index}",))
    return world


def plain_request(count: int = 1) -> dict[str, Any]:
    return builders.request_object("r0", count=count, selector=SELECTORS[PLAIN])


def devices(helds: tuple[Held, ...] | Status) -> list[str]:
    assert not isinstance(helds, Status), helds
    return [one.device for held in helds for one in held.allocation.device_ids()]


def kept_world(priority: int, wanted: dict[str, Any] | None = None, world: World | None = None) -> Rig:
    """`p` waits for `v0` to go, and a thief of this priority comes."""
    world = world or busy((PLAIN, "plain-0"), (PLAIN, "plain-1"))
    rig = world.rig()
    trial = without(rig, "v0")
    assert trial.status.is_success, trial.status
    keep(rig, "p", trial, "v0")
    rig.server.put_claim(builders.claim("stolen", spec=builders.claim_spec_object(wanted or plain_request())))
    world.put_waiting(rig, "thief", priority, "stolen")
    rig.watch()
    return rig


def release(rig: Rig, claim: str = "c0", pod: str = "v0") -> None:
    rig.server.delete_pod(PodKey("default", pod))
    stored = rig.server.claims[ClaimKey("default", claim)]
    rig.server.put_claim(replace(stored, allocation=None, reserved_for=(), revision=builders.next_revision()))
    rig.watch()


@pytest.mark.parametrize(("priority", "gets"), [(1, []), (2, []), (3, ["plain-0"])], ids=["lower", "equal", "higher"])
def test_a_thief_gets_what_is_kept_only_if_it_is_more_important(priority: int, gets: list[str]) -> None:
    rig = kept_world(priority)
    release(rig)
    got = place(rig, "thief")
    assert (devices(got) if gets else got.message) == (gets or "cannot allocate all claims")
    assert devices(place(rig, "p")) == ["plain-0"]
    end(rig, "p")
    assert devices(place(rig, "thief")) == ["plain-0"]


def test_the_preemptor_is_given_its_own_devices_first_and_any_others_if_they_are_gone() -> None:
    rig = kept_world(1)
    release(rig)
    release(rig, "c1", "v1")  # both are free now, and plain-0 is kept
    (held,) = rig.machine.store.nominations.preempting[uid(rig, "p")].given
    end(rig, "p")
    other = Held(held.claim, held.uid, Allocation((result(PLAIN, "plain-1"),), (), held.allocation.node_selector))
    keep(rig, "p", Trial(SUCCESS, (), (other,)))
    assert devices(place(rig, "p")) == ["plain-1"]
    assert devices(place(rig, "thief")) == ["plain-0"]
    rig.machine.overlay.hold(PodUid("robber"), [Held(ClaimKey("default", "x"), "x", other.allocation)])
    assert devices(place(rig, "p")) == ["plain-0"]


def part_request(kind: str) -> dict[str, Any]:
    return builders.request_object("r0", selector=SELECTORS[kind])


def memory_request(amount: int) -> dict[str, Any]:
    one = builders.request_object("r0", selector=SELECTORS[SHARED])
    one["exactly"]["capacity"] = {"requests": {"memory": str(amount)}}
    return one


def test_what_goes_and_what_comes_in_its_place_count_once() -> None:
    """A share of 2 of 4 goes for one of 2: the other half is free all the time, and not more."""
    world = busy((SHARED, "shared-0"), wanted=memory_request(4))
    rig = kept_world(1, memory_request(1), world)
    assert isinstance(place(rig, "thief"), Status)  # 4 are kept
    world = replace(world, wanted=[memory_request(2)])
    world.pods["v9"] = (0, 7, ())
    rig = kept_world(1, memory_request(2), replace(world, cpu=1, pods={"v0": (0, 8, ("c0",))}))
    release_cpu(rig)
    assert devices(place(rig, "thief")) == ["shared-0"]


def release_cpu(rig: Rig) -> None:
    """The victim's cpu is no part of what is asked."""
    pod = rig.server.pods[PodKey("default", "v0")]
    rig.server.put_pod(builders.pod("v0", node="n", priority=0, claims=("c0",), requests={"cpu": "0"}, phase="Running"))
    assert pod.uid == uid(rig, "v0")
    rig.watch()


def test_a_partition_that_goes_for_the_whole_device_hides_no_other_device_of_the_pool() -> None:
    """With both counted the pool would be overdrawn, and nothing of it could be given to anybody."""
    world = busy((PARTS, "half-0"), wanted=part_request("half"))
    rig = world.rig()
    trial = without(rig, "v0")
    # The preemptor is kept half-0, which the victim has; half-1 is free.
    (held,) = trial.given
    mine = Held(held.claim, held.uid, Allocation((result(PARTS, "half-0"),), (), held.allocation.node_selector))
    keep(rig, "p", Trial(trial.status, trial.released, (mine,)), "v0")
    rig.server.put_claim(builders.claim("stolen", spec=builders.claim_spec_object(part_request("half"))))
    world.put_waiting(rig, "thief", 1, "stolen")
    rig.watch()
    assert devices(place(rig, "thief")) == ["half-1"]


@pytest.mark.parametrize(
    ("held", "wanted", "stolen"),
    [
        pytest.param((PARTS, "whole-0"), part_request("half"), part_request("half"), id="counters"),
        pytest.param((SHARED, "shared-0"), memory_request(1), memory_request(3), id="capacity"),
        pytest.param((PLAIN, "plain-0"), memory_request(1), plain_request(), id="device"),
    ],
)
def test_what_the_victim_has_beyond_what_is_kept_is_free_when_it_is_released(held, wanted, stolen) -> None:
    world = busy(held, wanted=wanted, plain=1)
    rig = kept_world(1, stolen, world)
    assert isinstance(place(rig, "thief"), Status)
    release(rig)
    assert devices(place(rig, "thief"))


def test_a_dry_run_sees_what_has_changed_since_the_last_one() -> None:
    rig = busy((PLAIN, "plain-0"), (PLAIN, "plain-1"), wanted=plain_request(2)).rig()
    assert without(rig, "v0", "v1").status.is_success
    robber = Held(ClaimKey("default", "x"), "x", Allocation((result(PARTS, "half-0"), result(PLAIN, "plain-1"))))
    rig.machine.overlay.hold(PodUid("robber"), [robber])
    assert not without(rig, "v0", "v1").status.is_success
    rig.machine.overlay.release(PodUid("robber"))
    assert without(rig, "v0", "v1").status.is_success


WIDE = builders.slice_object(
    "wide", node=None, pool="wide", devices=(builders.device_object("wide-0", kind="whole"),), allNodes=True
)


def test_devices_that_every_node_sees_are_kept_on_every_node_until_the_record_ends() -> None:
    world = busy((PLAIN, "plain-0"), plain=1)
    rig = world.rig()
    rig.server.put_node(builders.node("other"))
    rig.server.put_slice(decode_slice(WIDE))
    rig.server.put_claim(builders.claim("stolen", spec=builders.claim_spec_object(part_request("whole"))))
    rig.server.put_claim(builders.claim("whole-0", allocation=Allocation((result(PARTS, "whole-0"),))))
    rig.watch()
    held = Held(ClaimKey("default", "wanted"), "uid-default-wanted", Allocation((result("wide", "wide-0"),)))
    keep(rig, "p", Trial(SUCCESS, (), (held,)))
    rig.server.put_pod(builders.pod("thief", priority=1, claims=("stolen",)))
    rig.server.put_pod(builders.pod("plain", priority=1))
    rig.settle()
    assert rig.node_of("thief") is None
    reason, message = rig.condition_of("thief")
    assert reason == "Unschedulable"
    assert message.startswith("0/2 nodes are available: 2 cannot allocate all claims.")
    assert rig.node_of("plain")
    end(rig, "p")
    rig.wait(400_000)
    assert rig.node_of("thief")


@pytest.mark.parametrize(
    ("kept", "taken", "priority", "is_dropped"),
    [
        pytest.param((PLAIN, "plain-0"), (PLAIN, "plain-0"), 3, True, id="the-device"),
        pytest.param((PLAIN, "plain-0"), (PLAIN, "plain-1"), 3, False, id="another-device"),
        pytest.param((PARTS, "half-0"), (PARTS, "whole-0"), 3, True, id="counters"),
        pytest.param((PARTS, "half-0"), (PARTS, "half-1"), 3, False, id="enough-counters"),
        pytest.param((SHARED, "shared-0", 3), (SHARED, "shared-0", 2, "s"), 3, True, id="capacity"),
        pytest.param((SHARED, "shared-0", 2), (SHARED, "shared-0", 2, "s"), 3, False, id="enough-capacity"),
        pytest.param((PLAIN, "plain-0"), (PLAIN, "plain-0"), 2, False, id="only-for-who-is-more-important"),
    ],
)
def test_a_record_ends_when_somebody_more_important_takes_of_what_it_keeps(kept, taken, priority, is_dropped) -> None:
    world = busy((PLAIN, "plain-0"))
    rig = world.rig()
    trial = without(rig, "v0")
    (held,) = trial.given
    share = (*kept, "mine") if len(kept) > 2 else kept
    mine = Held(held.claim, held.uid, Allocation((result(*share),), (), held.allocation.node_selector))
    keep(rig, "p", Trial(SUCCESS, trial.released, (mine,)), "v0")
    rig.server.put_claim(builders.claim("stolen"))
    world.put_waiting(rig, "q", priority, "stolen")
    rig.watch()
    pod = rig.machine.store.pods[uid(rig, "q")]
    theirs = Held(ClaimKey("default", "stolen"), "uid-default-stolen", Allocation((result(*taken),)))
    rig.machine.overlay.hold(pod.uid, [theirs])
    rig.machine.preemptions.placed(pod, NODE, [theirs])
    assert (rig.machine.preemptions.records.get(uid(rig, "p")) is None) is is_dropped


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(RANDOMS, st.sampled_from([1, 40, 200]))
def test_a_dry_run_that_must_pause_ends_as_one_that_need_not(rnd: random.Random, steps: int) -> None:
    world = WorldMaker(rnd).make()
    whole, rig = without(world.rig(), *world.lower), world.rig()
    gone = [uid(rig, name) for name in world.lower]
    for _ in range(1_000):
        runs = dry_runs(rig, steps=10**9)
        runs._cycle.steps_left = steps
        trial = runs.without(NODE, gone)
        assert runs._cycle.steps_left < steps
        if trial.status.code is not Code.UNFINISHED:
            break
    assert (trial.status, trial.given) == (whole.status, whole.given)


def test_without_steps_no_dry_run_is_begun() -> None:
    rig = busy((PLAIN, "plain-0")).rig()
    runs = dry_runs(rig)
    runs._cycle.steps_left = 0
    assert runs.without(NODE, []) == Trial(UNFINISHED)
