"""The core's settings: a 0 that would stop everything is refused by name."""

from __future__ import annotations

from dataclasses import fields

import pytest

from scheduler.core.ground.core_settings import CoreSettings


@pytest.mark.parametrize("name", [one.name for one in fields(CoreSettings) if type(one.default) is int])
def test_numbers_are_at_least_one(name: str) -> None:
    assert getattr(CoreSettings(**{name: 1}), name) == 1
    with pytest.raises(ValueError, match=rf"^CoreSettings\.{name}: 0 must be at least 1$"):
        CoreSettings(**{name: 0})


@pytest.mark.parametrize("name", [one.name for one in fields(CoreSettings) if type(one.default) is bool])
def test_switches_may_be_off(name: str) -> None:
    assert getattr(CoreSettings(**{name: False}), name) is False
