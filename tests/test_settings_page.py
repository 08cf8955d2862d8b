"""docs/settings.md is what the classes say now, and says something of each."""

from __future__ import annotations

import re
from pathlib import Path

from tests.settings_page import page


def test_the_page_is_new_and_each_setting_has_a_meaning() -> None:
    written = (Path(__file__).parents[1] / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == page(), "python -m tests.settings_page > docs/settings.md"
    assert re.findall(r"^\| `.*\|  \|$", written, re.MULTILINE) == []
