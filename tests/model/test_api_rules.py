"""Rules of the API: notes are cut where the server would refuse them."""

from __future__ import annotations

import pytest

from scheduler.model.api_rules import NOTE_LENGTH_MAX, cut_note


@pytest.mark.parametrize("note", ["", "short", "x" * NOTE_LENGTH_MAX, "é" * (NOTE_LENGTH_MAX // 2)])
def test_a_note_that_is_not_too_long_stays(note: str) -> None:
    assert cut_note(note) == note


@pytest.mark.parametrize("letter", ["x", "é", "日", "🙂"])
def test_a_long_note_is_cut_between_letters(letter: str) -> None:
    cut = cut_note(letter * 2 * NOTE_LENGTH_MAX)

    assert NOTE_LENGTH_MAX - 4 <= len(cut.encode()) <= NOTE_LENGTH_MAX
    assert cut.rstrip(" .") == letter * (len(cut) - len(" ..."))
    assert cut_note(cut) == cut
