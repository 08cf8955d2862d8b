"""The order in which the package says that it can be read."""

from __future__ import annotations

import re
from pathlib import Path

import allocator

FOLDER = Path(allocator.__file__).parent


def test_every_module_is_named_and_none_imports_one_that_comes_later() -> None:
    names = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    text = (allocator.__doc__ or "").partition("in this order")[2]
    order = [word for word in dict.fromkeys(re.findall(r"\w+", text)) if word in names]

    assert set(order) == names
    for number, name in enumerate(order):
        imported = set(re.findall(r"^from allocator\.(\w+) import", (FOLDER / f"{name}.py").read_text(), re.MULTILINE))
        assert not imported - set(order[:number]), name
