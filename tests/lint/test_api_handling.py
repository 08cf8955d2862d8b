"""Each field of the objects that decide is read, or has a row that says what is done about it."""

from __future__ import annotations

import pytest

from tests.lint.decided_fields import decided
from tests.lint.handling import handling

OF_DECODERS = {"harmless": {"harmless", "ignored"}, "refused": {"refused"}}


def test_each_field_is_read_or_has_a_row_and_no_row_is_of_a_field_that_is_read() -> None:
    """A field that a release adds has neither: decide, and write its row, or declare it where it is read."""
    assert set(handling()) == {field for field, made in decided().items() if made != "read"}


def test_rows_say_what_the_decoders_do() -> None:
    fields = decided()
    wrong = {
        field: (one.how, fields[field])
        for field, one in handling().items()
        if fields[field] not in OF_DECODERS[one.how]
    }
    assert not wrong


@pytest.mark.parametrize("of", ["ResourceSliceSpec", "Device", "DeviceClassSpec", "ResourceClaimSpec", "PodGroupSpec"])
def test_of_what_may_be_left_out_nothing_is_ignored_that_is_not_named(of: str) -> None:
    assert "ignored" not in {made for field, made in decided().items() if field.startswith(f"{of}.")}
