"""Quantities that are written alike are one object, and what is kept for that has a bound in bytes."""

from __future__ import annotations

from allocator.values import json_fields
from allocator.values.json_fields import quantity


def test_equal_texts_share_one_quantity() -> None:
    assert quantity("".join(("80", "Gi"))) is quantity("80Gi")


def test_long_texts_are_not_kept() -> None:
    text = "1" + "0" * 500
    assert quantity(text) == quantity(text)
    assert text not in json_fields._quantities
