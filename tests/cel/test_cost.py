"""The admission estimate: units, formulas, and the oddities of cel-go that it has to have."""

from __future__ import annotations

import pytest

from cel.checker import environments
from cel.checker.environments import Environment
from cel.cost.estimate import LIMIT, estimate
from cel.cost.units import MAXIMUM, CostEstimate, Path, Size, declared_size, plus, scaled, times
from cel.program import check_expression

A = 'device.attributes["d"]'
C = 'device.capacity["d"]'
STORED = environments.get("1.37", list_type_attributes=True)


def cost(source: str, environment: Environment = STORED) -> CostEstimate:
    return estimate(check_expression(source, environment))


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("true", 0),
        ("device.driver", 2),
        ('device.driver == "gpu.example.com"', 4),
        (f"has({A}.x)", 3),
        (f'{A}.x == "A100"', 5),
        (f'{C}.memory.compareTo(quantity("40Gi")) >= 0', 7),
        ("[1,2,3].map(x, x*2) == [2,4,6]", 74),
        (f"{A}.ints.exists(x, x > 2)", 389),
        ("cel.bind(x, 1, x)", 11),
        ("dyn(1)", 1),
        ("{}", 30),
        ("[]", 10),
        ("google.protobuf.Int32Value{value: 1}", 40),
        ("true ? 1 + 1 : 2", 1),
        ("1 in [1, 2]", 12),
        ('"a" in device.attributes', 3),
        ('device.driver.startsWith("abc")', 3),
        ('device.driver.contains("abc")', 9),
        ('device.driver.matches("abcdefgh")', 16),
        ("device.driver + device.driver", 17),
        ("device.driver.lowerAscii().size()", 10),
        ('device.driver.split(",").size()', 16),
        ("[1, 2].sort()[0]", 30),
        ("sets.contains([1, 2], [1])", 23),
        ("[[1], [2]].flatten()", 43),
        ("lists.range(5)", 16),
        ('format.dns1123Label().validate("abc").hasValue()', 34),
        ('cidr("10.0.0.0/8").containsIP("10.0.0.1")', 6),
        ("optional.of(1).optMap(x, x)", 16),
    ],
)
def test_estimates(source: str, want: int) -> None:
    assert cost(source).max == want


@pytest.mark.parametrize(
    "source",
    [
        'quantity("1") != quantity("2")',
        "type(1) == int",
        '["a"].join() == "a"',
        "optional.none() == optional.of([1])",
    ],
)
def test_sizes_nobody_knows_are_refused(source: str) -> None:
    assert cost(source).max > LIMIT


def test_bounds_are_in_order_and_short_circuits_lower_the_first() -> None:
    estimated = cost(f'{A}.x == 1 && {A}.y == 2 && device.driver == "d"')
    assert estimated.min < estimated.max


def test_two_variable_ranges_share_memory_as_in_go() -> None:
    # The key's path reads "@values" by the time its size is asked for, and a capacity has size 0.
    assert cost(f'{C}.exists(k, v, k == "memory")').max == 164
    assert cost(f'{C}.exists(k, k == "memory")').max == 196


def test_1_36_forgot_the_function_form_of_matches_and_bounds_includes() -> None:
    old = environments.get("1.36", list_type_attributes=True)
    assert cost('matches(device.driver, "abcdefgh")', old).max == 3
    assert cost('matches(device.driver, "abcdefgh")').max == 16
    assert cost(f"{A}.x.includes(1)", old).max == 52
    assert cost(f"{A}.x.includes(1)").max == 68


def test_arithmetic_saturates() -> None:
    assert plus(CostEstimate(1, MAXIMUM), CostEstimate(1, 1)) == (2, MAXIMUM)
    assert times((2, MAXIMUM), (3, 2)) == (6, MAXIMUM)
    assert scaled((1, MAXIMUM), 2.0) == (2, MAXIMUM)
    # In double precision, rounding up.
    assert scaled((1, MAXIMUM), 0.1) == (1, 1844674407370955264)


@pytest.mark.parametrize(
    ("names", "size"),
    [
        (("device", "driver"), 63),
        (("device", "attributes"), 32),
        (("device", "attributes", "@keys"), 63),
        (("device", "attributes", "@values", "@keys"), 32),
        (("device", "attributes", "@values", "anything"), 64),
        (("device", "capacity", "@values", "@values"), 0),
        (("device", "allowMultipleAllocations"), 1),
    ],
)
def test_declared_sizes(names: tuple[str, ...], size: int) -> None:
    assert declared_size(Path([*names], len(names))) == Size(0, size)


@pytest.mark.parametrize("names", [(), ("x",), ("device", "nope"), ("device", "capacity", "@values", "memory")])
def test_paths_without_a_declared_size(names: tuple[str, ...]) -> None:
    assert declared_size(Path([*names], len(names))) is None


def test_paths_grow_like_go_slices() -> None:
    three = Path(["device"], 1).append("attributes").append("@values")
    first, second = three.append("a"), three.append("b")
    assert first.names() == second.names() == ["device", "attributes", "@values", "b"]
    assert first.append("c").names() == ["device", "attributes", "@values", "b", "c"]
