"""What selectors name, in each form that CEL has for it; and what may be meant where no device has that."""

from __future__ import annotations

import pytest

from allocator import Device, decode_slice
from cel.parser.frontend import parse
from scheduler.model.selector_mistakes import PublishedNames, compared_values, named_drivers
from scheduler.model.selector_reading import Selector, pinned_drivers

NAME = ("attributes", "gpu.example.com", "model")


@pytest.mark.parametrize(
    ("expression", "is_question"),
    [
        ('device.attributes["gpu.example.com"].model == "a"', False),
        ('device.attributes["gpu.example.com"]["model"] == "a"', False),
        ("device . attributes [ 'gpu.example.com' ]\n . model == 'a'", False),
        ('(device.attributes["gpu.example.com"]).model == "a"', False),
        ('"""a""" == device.attributes[r"gpu.example.com"].model', False),
        ('[1].exists(n, device.attributes["gpu.example.com"].model == "a")', False),
        ('device.attributes["gpu.example.com"].?model.orValue("b") == "a"', True),
        ('device.attributes["gpu.example.com"][?"model"].orValue("b") == "a"', True),
        ('has(device.attributes["gpu.example.com"].model) && "a" == "a"', True),
        ('"model" in device.attributes["gpu.example.com"]', True),
    ],
)
def test_an_attribute_is_read_in_each_form(expression: str, is_question: bool) -> None:
    selector = Selector(expression)

    assert [(one.key, one.is_question) for one in selector.references] == [(NAME, is_question)]
    named = selector.references[0]
    for part in (named.domain, named.name):
        assert selector.written(part).strip("r'\"") == part.text
        assert parse(selector.put(part, "other")).expr != parse(expression).expr


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ('device.attributes["gpu.example.com"]["model"] == "a"', ["a"]),
        ('"a" == device.attributes["gpu.example.com"].model', ["a"]),
        ('device.attributes["gpu.example.com"].model in ["a", "b"]', ["a", "b"]),
        ('device.attributes["gpu.example.com"].?model.orValue("") == "a"', ["a"]),
        ('device.attributes["gpu.example.com"].model == """a"""', ["a"]),
        ('device.attributes["gpu.example.com"].model != "a"', []),
        ('device.attributes["gpu.example.com"].model.startsWith("a")', []),
        ('device.attributes["gpu.example.com"].model == 1', []),
    ],
)
def test_texts_that_an_attribute_must_equal(expression: str, values: list[str]) -> None:
    found = Selector(expression).comparisons

    assert [part.text for _, parts in found for part in parts] == values
    assert compared_values(expression) == [("gpu.example.com/model", value) for value in values[:1]]


@pytest.mark.parametrize(
    ("expression", "drivers"),
    [
        ('device.driver == "a.b"', ["a.b"]),
        ("('a.b') == (device.driver)", ["a.b"]),
        ('device.driver in ["a.b", "c.d"]', ["a.b", "c.d"]),
        ('device.driver != "a.b"', []),
        ('device.driver == "a.b', []),
    ],
)
def test_drivers(expression: str, drivers: list[str]) -> None:
    assert named_drivers(expression) == drivers


def test_a_driver_is_pinned_where_nothing_else_would_do() -> None:
    assert pinned_drivers('device.driver == "a.b" && true') == {"a.b"}
    assert pinned_drivers('device.driver == "a.b" || true') == frozenset()


@pytest.mark.parametrize("text", ["é", 'a"b', "a'b", "a\\b", "a\nb"])
def test_any_text_can_be_put_in(text: str) -> None:
    selector = Selector('"ü" == \'ü\' && device.attributes["d.e"].n == "old"')
    ((_, (part,)),) = selector.comparisons

    ((_, (put,)),) = Selector(selector.put(part, text)).comparisons
    assert put.text == text


def test_a_name_that_can_follow_no_dot_is_a_key() -> None:
    selector = Selector("device.attributes.gpu . model")
    (named,) = selector.references

    assert selector.put(named.domain, "gpu.example.com") == 'device.attributes["gpu.example.com"] . model'
    assert selector.put(named.name, "in") == 'device.attributes.gpu ["in"]'


@pytest.mark.parametrize(
    "expression",
    [
        """device.capacity["d.e"].memory.compareTo(quantity("80Gi")) >= 0""",
        """device.capacity['d.e'] [ "memory" ] . isGreaterThan ( quantity ( '80Gi' ) )""",
        """true && (device.capacity["d.e"].memory).compareTo(quantity("80Gi")) == 0""",
    ],
)
def test_an_amount_is_read_in_all_forms(expression: str) -> None:
    selector = Selector(expression)
    ((capacity, asked),) = selector.amounts

    assert (capacity.key, asked.text) == (("capacity", "d.e", "memory"), "80Gi")
    assert selector.put(asked, "40Gi") == expression.replace("80Gi", "40Gi")


def published(*attributes: dict[str, dict[str, str]]) -> tuple[Device, ...]:
    """Devices of one driver."""
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{number}", "attributes": one} for number, one in enumerate(attributes)]
    spec = {"driver": "gpu.example.com", "nodeName": "node", "pool": pool, "devices": devices}
    return decode_slice({"metadata": {"name": "slice"}, "spec": spec}).devices


def mistakes(expression: str) -> list[tuple[str, str, str]]:
    model = {"model": {"string": "A100"}}
    names = PublishedNames(published({**model, "cc": {"version": "8.0.0"}}, model))
    return [(one.kind, one.instead, one.expression) for one in names.mistakes(expression)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (
            'device.attributes["gpu.example.com"]["modle"] == "A100"',
            [("attribute-name", "model", 'device.attributes["gpu.example.com"]["model"] == "A100"')],
        ),
        (
            'has(device.attributes["gpu.exmaple.com"].model)',
            [("attribute-domain", "gpu.example.com", 'has(device.attributes["gpu.example.com"].model)')],
        ),
        (
            'device.attributes["gpu.example.com"].model in ["a100", "b"]',
            [
                ("attribute-value", "'A100'", 'device.attributes["gpu.example.com"].model in ["A100", "b"]'),
                ("attribute-value", "'A100'", 'device.attributes["gpu.example.com"].model in ["a100", "A100"]'),
            ],
        ),
        ('device.attributes["gpu.example.com"].model in ["A100", "b"]', []),
        (
            'device.driver in ["gpu.exmaple.com"]',
            [("driver-name", "gpu.example.com", 'device.driver in ["gpu.example.com"]')],
        ),
        ('"cc" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"].cc != null', []),
    ],
)
def test_mistakes_in_forms_that_are_rarely_written(expression: str, expected: list[tuple[str, str, str]]) -> None:
    assert mistakes(expression) == expected
