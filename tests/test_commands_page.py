"""docs/commands.md is what the commands say now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def test_the_page_is_new() -> None:
    """In a process of its own: click keeps the names of the help option that it was first asked with."""
    made = subprocess.run(
        [sys.executable, "-m", "tests.commands_page"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    written = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert written == made.stdout, "python -m tests.commands_page > docs/commands.md"
