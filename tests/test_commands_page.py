"""docs/commands.md is what the commands say now."""

from __future__ import annotations

from pathlib import Path

from tests.commands_page import page


def test_the_page_is_new() -> None:
    written = (Path(__file__).parents[1] / "docs" / "commands.md").read_text(encoding="utf-8")
    assert written == page(), "python -m tests.commands_page > docs/commands.md"
