"""F, V and the workload equal their definitions, written down naively."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.placement.fragment import Demand, Fragment
from allocator.placement.pieces import NO_CANDIDATE, WHOLE, CounterKind, DeviceKind, Kinds
from allocator.placement.waste import Waste, draw
from allocator.placement.workload import UNIT, PodShape, Workload, frequent

ONE = 10**9
needs = st.sampled_from([NO_CANDIDATE, 190_000, 470_000, 530_000, WHOLE])
kinds = st.builds(DeviceKind, st.tuples(needs, needs, needs), st.just(False))
lefts = st.sampled_from([0, 190_000, 470_000, 530_000, 810_000, WHOLE])
asked = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=2, unique_by=lambda ask: ask[0]).map(tuple)
demands = st.lists(st.builds(Demand, st.integers(0, 12), asked, st.integers(1, 9)), min_size=1, max_size=6)


def reached(kind, left, ask):
    need = kind.needs[ask]
    return left if NO_CANDIDATE < need <= left else 0


def fragment_by_definition(of, cpu, pieces):
    """Sum over shapes of p x (A - reach), p scaled to 1; a shape that does not fit reaches nothing."""
    total = sum(demand.weight for demand in of)
    everything = sum(left for _, left in pieces)
    lost = Fraction(0)
    for demand in of:
        fits = bool(demand.asks) and demand.cpu <= cpu
        for ask, count in demand.asks:
            fits = fits and sum(1 for kind, left in pieces if reached(kind, left, ask)) >= count
        reach = 0
        if fits:
            reach = sum(max(reached(kind, left, ask) for ask, _ in demand.asks) for kind, left in pieces)
        lost += Fraction(demand.weight, total) * (everything - reach)
    return lost


@given(demands, st.integers(0, 14), st.lists(st.tuples(kinds, lefts), max_size=5))
def test_f_equals_its_definition(of, cpu, pieces) -> None:
    known = Kinds([])
    key = tuple(sorted((known.number(kind), left) for kind, left in pieces))
    fragment = Fragment(of, known)
    assert Fraction(fragment.of(cpu, key), fragment.total) == fragment_by_definition(of, cpu, pieces)
    assert fragment.of(cpu, key) == Fragment(of, known).of(cpu, key)


def waste_by_definition(of, cpu, pieces, rounds, length):
    """Offer shapes one after another to the last, each placed on the pieces with the least left that suffice."""
    unused = 0
    sequences = draw(of, rounds, length)
    for sequence in sequences:
        free, cpu_left = [list(piece) for piece in pieces], cpu
        for index in sequence:
            demand = of[index]
            chosen = []
            for ask, count in demand.asks:
                for _ in range(count):
                    able = [
                        (left, kind.needs[ask], place)
                        for place, (kind, left) in enumerate(free)
                        if left and reached(kind, left, ask) and place not in {one for _, one in chosen}
                    ]
                    if able:
                        chosen.append((min(able, key=lambda one: one[0])[1], min(able, key=lambda one: one[0])[2]))
            if demand.cpu <= cpu_left and len(chosen) == demand.devices:
                cpu_left -= demand.cpu
                for need, place in chosen:
                    free[place][1] -= need
        unused += sum(left for _, left in free)
    return unused // len(sequences)


@given(demands, st.integers(0, 40), st.lists(lefts, max_size=4), kinds)
def test_v_equals_its_definition_on_nodes_of_one_kind(of, cpu, left, kind) -> None:
    known = Kinds([])
    number = known.number(kind)
    key = tuple(sorted((number, one) for one in left))
    assert Waste(of, known, rounds=4, length=12).of(cpu, key) == waste_by_definition(
        of, cpu, [(kind, one) for one in left], 4, 12
    )


def test_v_of_pieces_of_two_kinds_gives_each_request_what_it_accepts() -> None:
    known = Kinds([])
    only_first = known.number(DeviceKind((WHOLE, NO_CANDIDATE), False))
    only_second = known.number(DeviceKind((NO_CANDIDATE, WHOLE), False))
    key = ((only_first, WHOLE), (only_second, WHOLE))
    both = Demand(1, ((0, 1), (1, 1)), 1)
    assert Waste([both], known, rounds=2, length=5).of(1, key) == 0
    assert Waste([both], known, rounds=2, length=5).of(0, key) == 2 * WHOLE
    assert Waste([Demand(1, ((0, 1),), 1)], known, rounds=2, length=5).of(9, key) == WHOLE


@pytest.mark.parametrize(
    ("state", "left", "reach"),
    [
        pytest.param((ONE, ONE, ONE, ONE), WHOLE, (WHOLE, WHOLE), id="free"),
        pytest.param((0, ONE, ONE, ONE), 750_000, (750_000, 500_000), id="first-slice-taken"),
        pytest.param((0, ONE, ONE, 0), 500_000, (500_000, 0), id="no-pair-left"),
    ],
)
def test_of_a_counter_set_a_request_reaches_the_slices_of_the_devices_it_could_be_given(state, left, reach) -> None:
    singles = tuple(tuple(ONE * (place == index) for place in range(4)) for index in range(4))
    pairs = ((ONE, ONE, 0, 0), (0, 0, ONE, ONE))
    seen = CounterKind((ONE,) * 4, (singles, pairs)).see(state)
    assert seen.left == left
    assert tuple(one[1] for one in seen.by_ask) == reach


def test_a_counter_set_without_slices_is_as_full_as_its_scarcest_counter() -> None:
    seen = CounterKind((80 * ONE, 4 * ONE), (((40 * ONE, ONE),),)).see((40 * ONE, ONE))
    assert seen.left == 250_000
    assert seen.by_ask == ((1, 250_000),)


def test_a_device_that_is_tainted_for_the_whole_workload_has_nothing_left() -> None:
    assert DeviceKind((NO_CANDIDATE,), is_blocked=True).see(WHOLE).left == 0


def test_workload_is_renewed_at_few_moments_and_halved() -> None:
    workload = Workload()
    generations = []
    for number in range(4_000):
        workload.observe(PodShape(number % 3, ()))
        generations.append(workload.generation)
    renewed = [number + 1 for number in range(1, 4_000) if generations[number] != generations[number - 1]]
    assert renewed == [50, 200, 800, 3_200]
    assert {one.shape.cpu for one in workload.in_use} == {0, 1, 2}
    for _ in range(200):
        workload.observe(PodShape(7, ()))
    assert workload.generation == 4  # 200 of 2,200 weights are no difference worth a renewal
    moments = []
    for number in range(201, 1_001):
        before = workload.generation
        workload.observe(PodShape(7, ()))
        moments += [number] * (workload.generation - before)
    assert moments == [400, 800]  # 400 of 2,400 weights against none; 800 of 2,800 against those


def test_workload_holds_few_shapes_and_forgets_the_lightest() -> None:
    workload = Workload()
    for _ in range(3):
        workload.observe(PodShape(0, ()))
    for number in range(1, 3_000):
        workload.observe(PodShape(number, ()))
    for number in range(201):
        workload.observe(PodShape(10_000 + number, ()))
    assert len(workload.in_use) <= 1_024
    assert workload.in_use[0].shape.cpu == 0


def test_frequent_shapes_cover_95_percent() -> None:
    workload = Workload()
    for number in range(50):
        workload.observe(PodShape(0 if number < 48 else number, ()))
    assert [one.weight for one in frequent(workload.in_use)] == [48 * UNIT]
