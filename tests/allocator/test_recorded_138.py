"""What 1.38 changed: answers of the Go allocator 0.38.0-beta.0, behind `Features(kubernetes="1.38")`.

data/answers-1.38.json.gz: what it says of the cases recorded of 1.36 and of 1.37 otherwise than those.

    python -m tests.allocator.test_recorded_138       # asks it all of them anew
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from allocator import ALL_SHORTCUTS, Shortcuts
from cel.library.values import COST_EXCEEDED, LIMIT_EXCEEDED
from tests.allocator.cases import LOCKED_138, ask, features_of
from tests.allocator.cases import recorded as recorded_136
from tests.allocator.test_recorded_137 import recorded as recorded_137
from tests.nightly import fifth

RELEASE: Final = "1.38"
DATA: Final = Path(__file__).parent / "data" / "answers-1.38.json.gz"
DIFFERS: Final = {
    "features-off-0049": "with the gate of shares off a scheduler holds their devices whole and tells of no shares",
    "features-off-0184": "as before",
    "pools-0214": "slices of one pool name other sizes (docs/differences.md, row 13)",
}
_COMPARED: Final = ("outcome", "allocations", "error", "nodeOnly")


def cases() -> list[dict[str, Any]]:
    """All recorded cases, without the gates that 1.38 has locked on."""
    return [
        {**case, "features": {name: on for name, on in case.get("features", {}).items() if name not in LOCKED_138}}
        for case in (*recorded_136(), *recorded_137())
    ]


@cache
def answers() -> dict[str, dict[str, Any]]:
    with gzip.open(DATA) as file:
        found: dict[str, dict[str, Any]] = json.load(file)
        return found


def record() -> None:
    from tests.oracle.client import Oracle

    asked = cases()
    with Oracle(RELEASE) as oracle:
        said = oracle.ask_all([{**case, "kind": "allocate"} for case in asked])
    pairs = zip(asked, said, strict=True)
    others = {case["name"]: compared(answer) for case, answer in pairs if compared(answer) != compared(case["expect"])}
    DATA.write_bytes(gzip.compress(json.dumps(others, sort_keys=True).encode(), mtime=0))


def compared(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is said of the effort; our limit of a selector's cost is another, and says so."""
    kept = {key: answer[key] for key in _COMPARED if key in answer}
    if kept.get("error"):
        kept["error"] = kept["error"].replace(LIMIT_EXCEEDED, COST_EXCEEDED)
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("shortcuts", [ALL_SHORTCUTS, Shortcuts.none()], ids=["shortcuts-on", "shortcuts-off"])
def test_answers_equal_the_recorded_ones(shortcuts: Shortcuts) -> None:
    wrong, others = {}, answers()
    for case in cases() if shortcuts == ALL_SHORTCUTS else fifth(cases()):
        got = ask(case, features=features_of(case, kubernetes=RELEASE), shortcuts=shortcuts)
        want = others.get(case["name"], case["expect"])
        if compared(got) != compared(want):
            wrong[case["name"]] = (got, want)

    assert wrong.keys() <= DIFFERS.keys(), wrong


if __name__ == "__main__":
    record()
