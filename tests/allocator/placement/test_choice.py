"""Devices by rank: the best by brute force, allowed, and never another verdict than first fit's."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import Allocated, AllocationError, Features, Inventory, allocate, encode_allocation
from allocator.placement.choice import NO_ROOM, Chooser, Situation, allocate_picks, only_slot, picks_of
from allocator.placement.pieces import NodePieces
from allocator.placement.ranks import Ranks, Strategy
from allocator.placement.workload import PodShape, Weighted
from allocator.search.problem import Problem
from tests.allocator.build import case, claim, device, device_class, pool, request
from tests.allocator.cases import claims_of, features_of, in_use_of, inventory_of, question_of, recorded
from tests.allocator.rules import violations
from tests.allocator.test_recorded_cases import _can_be_judged
from tests.nightly import IS_NIGHT

RANKED = [strategy for strategy in Strategy if strategy is not Strategy.FIRST_FIT]
CPU, ASKED = 16_000, 1_000


def shared(name, **fields):
    capacity = {"share": {"value": "1000", "requestPolicy": {"default": "1000", "validRange": {"min": "10"}}}}
    return device(name, allowMultipleAllocations=True, capacity=capacity, **fields)


def share(milli, count=1):
    return claim(request(count=count, capacity={"requests": {"share": str(milli)}}))


def workload_of(*claims):
    given_by = [(cpu, one) for cpu in (1_000, 8_000) for one in claims]
    return [
        Weighted(PodShape(cpu, tuple(parsed.spec for parsed in claims_of({"claims": [one]}))), 5 - number)
        for number, (cpu, one) in enumerate(given_by[:4])
    ]


def held_shares(amounts):
    """Shares of gpu-0, gpu-1, ...; 0 for none."""
    return [
        {
            "driver": "driver-a",
            "pool": "pool-1",
            "device": f"gpu-{index}",
            "shareID": f"s{index}",
            "consumedCapacity": {"share": str(amount)},
        }
        for index, amount in enumerate(amounts)
        if amount
    ]


def place(asked_case, strategy, workload=(), *, chooser=None):
    """(what first fit answers, the choice, its allocations)."""
    inventory = inventory_of(asked_case)
    features = features_of(asked_case)
    in_use = in_use_of(asked_case)
    claims = claims_of(asked_case)
    question = question_of(asked_case, claims, inventory, in_use, features=features, budget_steps=100_000)
    try:
        outcome = allocate(question)
        plan = inventory.plan([one.spec for one in claims], features)
        pools = inventory.node_pools(question.node, features)
        chooser = chooser or Chooser(Ranks(strategy, workload, inventory, features))
        pieces = NodePieces(pools, chooser.ranks.kinds)
    except AllocationError:
        return None, None, None
    at = Situation(pieces, pieces.states(pools.use_of(in_use)), CPU, ASKED)
    slot = only_slot(plan)
    simple = None if slot is None else chooser.choose_simply(slot, at, pools.use_of(in_use))
    if not isinstance(outcome, Allocated):
        assert simple in (None, NO_ROOM), "found without a search what the search says is not there"
        return outcome, None, None
    assert simple is not NO_ROOM, "refused without a search what the search finds a place for"
    first = picks_of(plan, pools, outcome.allocations)
    assert first is not None
    choice = simple or chooser.choose(lambda: Problem(claims, plan, pools, in_use), at, first)
    allocations = allocate_picks(question, choice.picks) if choice.picks is not None else outcome.allocations
    assert choice.rank <= chooser.rank_picks(first, at).rank
    return outcome, choice, allocations


def devices(allocations):
    return [result.device for one in allocations for result in one.results]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", RANKED, ids=lambda one: one.value)
def test_recorded_cases_keep_their_verdict_and_what_is_chosen_breaks_no_rule(strategy) -> None:
    judged = changed = 0
    for number, one in enumerate(recorded()):
        part = 9 if one["name"].startswith("hard-") else 3
        if number % (part * len(RANKED)) != RANKED.index(strategy) and not IS_NIGHT:
            continue  # all of them take minutes: a third, a ninth of the hard ones, each for one of the ranks in turn
        mine = workload_of(*one["claims"][:2]) if one["claims"] else ()
        try:
            outcome, choice, allocations = place(one, strategy, mine)
        except AllocationError:
            continue
        if choice is None or choice.picks is None:
            continue
        changed += devices(allocations) != devices(outcome.allocations)
        is_plain = one.get("apiValid", True) and not one.get("features") and not one["name"].startswith("lists")
        if is_plain and _can_be_judged(one):
            judged += 1
            assert violations(one, [encode_allocation(each) for each in allocations]) == [], one["name"]
    assert judged > 5
    assert changed > 3


@pytest.mark.slow
@pytest.mark.parametrize("strategy", RANKED, ids=lambda one: one.value)
@given(
    used=st.lists(st.sampled_from([0, 190, 470, 810, 1000]), min_size=2, max_size=4),
    milli=st.sampled_from([160, 470, 530, 1000]),
    count=st.integers(1, 2),
)
def test_one_request_is_given_the_best_devices_there_are(strategy, used, milli, count) -> None:
    names = [f"gpu-{index}" for index in range(len(used))]
    asked = case([pool(*map(shared, names))], [share(milli, count)], allocatedShared=held_shares(used))
    mine = workload_of(share(160), share(530), share(1000))
    outcome, choice, allocations = place(asked, strategy, mine)
    able = [index for index, amount in enumerate(used) if amount + milli <= 1000]
    assert isinstance(outcome, Allocated) == (len(able) >= count)
    if choice is None or count > 1:
        return  # several are taken one after another: not by brute force
    inventory = inventory_of(asked)
    chooser = Chooser(Ranks(strategy, mine, inventory, Features()))
    pools = inventory.node_pools(question_of(asked, [], inventory, in_use_of(asked), budget_steps=1).node, Features())
    pieces = NodePieces(pools, chooser.ranks.kinds)
    at = Situation(pieces, pieces.states(pools.use_of(in_use_of(asked))), CPU, ASKED)
    (slot,) = inventory.plan([claims_of(asked)[0].spec], Features()).slots
    ranks = {index: chooser.rank_picks(((slot, index),), at).rank for index in able}
    assert choice.rank == min(ranks.values())
    assert ranks[names.index(devices(allocations)[0])] == choice.rank


@pytest.mark.slow
@pytest.mark.parametrize("strategy", RANKED, ids=lambda one: one.value)
def test_answers_are_the_same_with_nothing_remembered(strategy) -> None:
    mine = workload_of(share(160), share(530), share(1000))
    kept: dict[str, Chooser] = {}
    for used in combinations([0, 190, 470, 530, 810], 3):
        for milli in (160, 470, 1000):
            asked = case(
                [pool(*(shared(f"gpu-{index}") for index in range(3)))],
                [share(milli)],
                allocatedShared=held_shares(used),
            )
            fresh = place(asked, strategy, mine)
            again = place(asked, strategy, mine, chooser=kept.get("chooser"))
            assert fresh[1:] == again[1:] or devices(fresh[2]) == devices(again[2])


@pytest.mark.parametrize("strategy", [Strategy.FGD, Strategy.FRAGMENTATION, Strategy.LEAST_WASTE])
def test_small_share_takes_what_is_left_beside_a_large_one(strategy) -> None:
    """810 of gpu-1 is in use: 160 goes there, and not to the fresh gpu-0, which first fit would take."""
    asked = case([pool(shared("gpu-0"), shared("gpu-1"))], [share(160)], allocatedShared=held_shares([0, 810]))
    outcome, _, allocations = place(asked, strategy, workload_of(share(810), share(160), share(1000)))
    assert devices(outcome.allocations) == ["gpu-0"]
    assert devices(allocations) == ["gpu-1"]


# --- partitions ---

PROFILES = {  # memory slices, compute slices, starts
    "1g": (1, 1, range(7)),
    "2g": (2, 2, (0, 2, 4)),
    "3g": (4, 3, (0, 4)),
    "4g": (4, 4, (0,)),
    "7g": (8, 7, (0,)),
}


def partitioned(gpus):
    """Devices of every profile and start, for each GPU, small profiles first."""
    slices, sets = [], []
    for gpu in range(gpus):
        counters = {"compute": 7, **{f"memory-slice-{index}": 1 for index in range(8)}}
        sets.append({"name": f"gpu-{gpu}", "counters": {key: {"value": str(one)} for key, one in counters.items()}})
        for profile, (memory, compute, starts) in PROFILES.items():
            for start in starts:
                taken = {"compute": compute, **{f"memory-slice-{start + index}": 1 for index in range(memory)}}
                slices.append(
                    device(
                        f"gpu-{gpu}-{profile}-{start}",
                        profile=profile,
                        consumesCounters=[
                            {
                                "counterSet": f"gpu-{gpu}",
                                "counters": {key: {"value": str(one)} for key, one in taken.items()},
                            }
                        ],
                    )
                )
    devices_of_it = pool(*slices, size=2)
    shared_counters = pool(slice_name="counters", size=2)
    del shared_counters["spec"]["devices"]
    shared_counters["spec"]["sharedCounters"] = sets
    return [devices_of_it, shared_counters]


def partition(profile):
    return claim(request(cel=f'device.attributes["driver-a"].profile == "{profile}"'))


@pytest.mark.parametrize("strategy", [Strategy.FRAGMENTATION, Strategy.FGD, Strategy.LEAST_WASTE])
@pytest.mark.parametrize(
    "order",
    [
        pytest.param(["1g"] * 7 + ["7g"], id="seven-1g-on-one-gpu-leave-the-other-whole"),
        pytest.param(["1g", "4g", "2g", "7g"], id="4g-still-fits-beside-1g"),
        pytest.param(["2g", "1g", "4g", "7g"], id="2g-1g-4g"),
        pytest.param(["4g", "1g", "2g", "7g"], id="4g-1g-2g"),
        pytest.param(["1g", "2g", "4g", "7g"], id="1g-2g-4g"),
    ],
)
def test_partitions_end_on_one_gpu_in_any_order(strategy, order) -> None:
    mine = workload_of(partition("1g"), partition("4g"), partition("2g"), partition("7g"))
    held: list[str] = []
    for profile in order:
        asked = case(partitioned(2), [partition(profile)], held=[f"driver-a/pool-1/{name}" for name in held])
        outcome, _, allocations = place(asked, strategy, mine)
        assert isinstance(outcome, Allocated), (profile, held)
        held += devices(allocations)
    assert len({name[:5] for name in held[:-1]}) == 1


@pytest.mark.parametrize("strategy", RANKED, ids=lambda one: one.value)
def test_a_device_in_use_is_not_given_again_where_its_counters_have_room(strategy) -> None:
    """Of 10 both parts take 3, and the first is held: there is room for a third one, but no device."""
    sets = [{"name": "set", "counters": {"memory": {"value": "10"}}}]
    takes = [{"counterSet": "set", "counters": {"memory": {"value": "3"}}}]
    parts = pool(*(device(name, consumesCounters=takes) for name in ("part-0", "part-1")), size=2)
    counters = pool(slice_name="counters", size=2)
    del counters["spec"]["devices"]
    counters["spec"]["sharedCounters"] = sets
    held = ["driver-a/pool-1/part-0"]
    outcome, _, allocations = place(case([parts, counters], [claim(request())], held=held), strategy)
    assert isinstance(outcome, Allocated)
    assert devices(allocations) == ["part-1"]
    both = case([parts, counters], [claim(request())], held=[*held, "driver-a/pool-1/part-1"])
    assert not isinstance(place(both, strategy)[0], Allocated)


def test_several_requests_under_a_constraint_keep_it() -> None:
    """gpu-0 is alone on its NUMA node, so a pair must be of the other; first fit finds it, and so does the rank."""
    gpus = pool(device("gpu-0", numa=0), device("gpu-1", numa=1), device("gpu-2", numa=1), device("gpu-3", numa=2))
    pair = claim(request("a"), request("b"), constraints=[{"requests": ["a", "b"], "matchAttribute": "driver-a/numa"}])
    asked = case([gpus], [pair])
    outcome, _, allocations = place(asked, Strategy.FRAGMENTATION, workload_of(claim(request())))
    assert isinstance(outcome, Allocated)
    assert sorted(devices(allocations)) == ["gpu-1", "gpu-2"]


def test_inventory_without_devices_ranks_by_cpu_alone() -> None:
    inventory = Inventory([], [])
    chooser = Chooser(Ranks(Strategy.BEST_FIT, (), inventory, Features()))
    asked = case([], [], classes=[device_class()])
    pools = inventory.node_pools(question_of(asked, [], inventory, in_use_of(asked), budget_steps=1).node, Features())
    pieces = NodePieces(pools, chooser.ranks.kinds)
    near, far = (chooser.rank_without_devices(Situation(pieces, (), cpu, 1_000)).rank for cpu in (2_000, 64_000))
    assert near < far
