"""Where an evaluation failed: the place is under the caret."""

from __future__ import annotations

import pytest

import cel

DEVICE = cel.device_view(
    "gpu.example.com", {"model": "A100", "index": 3}, {"memory": cel.Quantity.parse("80Gi")}, False
)
ATTRIBUTES = "device.attributes['gpu.example.com']"

# The expression with ^ before the place where the caret is to be, and the message.
FAILING = [
    (f"{ATTRIBUTES}^.modle == 'x'", "no such key: modle"),
    (f"device.driver == 'gpu.example.com' && {ATTRIBUTES}.index ^/ 0 == 1", "division by zero"),
    (
        f"device.driver == 'x' || ({ATTRIBUTES}.model == 'A100' ? {ATTRIBUTES}^.modle == 'x' : false)",
        "no such key: modle",
    ),
    (
        f"device.driver == 'x' || ({ATTRIBUTES}^.modle == 'A100' ? true : {ATTRIBUTES}.modle == 'x')",
        "no such key: modle",
    ),
    ("device.capacity['gpu.example.com']^.memry.isGreaterThan(quantity('1Gi'))", "no such key: memry"),
    (f"quantity^({ATTRIBUTES}.model).isGreaterThan(quantity('1'))", "quantities must match"),
    ("device.driver == ['a', 'b']^[7]", "index out of bounds: 7"),
    (f"[1, 2].exists^(x, {ATTRIBUTES}[string(x)] == 'y')", "no such key: 1"),
    (f"[1, {ATTRIBUTES}.index ^/ 0].all(x, x > 1)", "division by zero"),
    (f"true &&\n  {ATTRIBUTES}^.modle == 'x'", "no such key: modle"),
    (f"{ATTRIBUTES}^.index", "could not be converted to bool"),
    (
        " && ".join([f"{ATTRIBUTES}.index < {number + 5}" for number in range(150)] + [f"{ATTRIBUTES}^.modle == 'x'"]),
        "modle",
    ),
]


@pytest.mark.parametrize(("marked", "message"), FAILING, ids=range(len(FAILING)))
def test_the_caret_stands_under_what_fails(marked: str, message: str) -> None:
    before, after = marked.split("^")
    expression = before + after

    failure = cel.compile_selector(expression).failure(DEVICE)

    assert failure is not None
    assert (failure.offset, failure.source) == (len(before), expression)
    assert message in failure.message
    assert str(failure).splitlines()[-1].endswith("^")


def test_what_answers_has_no_failure() -> None:
    assert cel.compile_selector(f"{ATTRIBUTES}.model == 'A100'").failure(DEVICE) is None
    assert cel.compile_selector(f"{ATTRIBUTES}.index > 3").failure(DEVICE) is None
