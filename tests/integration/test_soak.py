"""The verdict of `benchmarks.soak`: the end against minute 3, of a short run against its middle."""

from __future__ import annotations

import pytest

from benchmarks.soak import EVERY_S, Line, verdict


def lines(*leader: float) -> list[Line]:
    return [(EVERY_S * (number + 1), (mib, 50.0)) for number, mib in enumerate(leader)]


@pytest.mark.parametrize(
    ("given", "is_well", "said"),
    [
        pytest.param(
            [*[100] * 11, 200, *[219] * 20], True, "leader: 200.0 MiB at 180 s, 219.0 at 480 s: +9.5%", id="ok"
        ),
        pytest.param([*[100] * 11, 200, *[221] * 20], False, "at 480 s: +10.5%, TOO MUCH", id="grows"),
        pytest.param([100, 300, 310, 310], True, "leader: 300.0 MiB at 30 s", id="short"),
    ],
)
def test_verdict(given, is_well, said) -> None:
    text, found = verdict(lines(*given))
    assert (found, said in text) == (is_well, True), text


def test_one_line_is_no_verdict() -> None:
    assert verdict(lines(1)) == ("too short for a verdict", False)
