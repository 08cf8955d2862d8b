"""Times at the border."""

from __future__ import annotations

import pytest

from scheduler.kube.clock import Clock, encode_micro_time


def test_clock_advances_with_the_monotonic_clock_alone():
    monotonic, wall = [100.0], [1_767_225_600.0]
    clock = Clock(lambda: monotonic[0], lambda: wall[0])
    assert clock.now_ms() == 1_767_225_600_000

    wall[0] -= 3600  # somebody sets the clock back
    monotonic[0] += 1.5
    assert clock.now_ms() == 1_767_225_601_500
    assert clock.monotonic_s(1_767_225_602_000) == pytest.approx(102.0)


def test_texts():
    assert encode_micro_time(1_767_323_045_009) == "2026-01-02T03:04:05.009000Z"
    assert encode_micro_time(1_767_323_045_000) == "2026-01-02T03:04:05.000000Z"
