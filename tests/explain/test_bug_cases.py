"""Cases that people met elsewhere: a folder of `bug_cases` has an input, and what commands say of it (`expected.json`).

A check is a command run in that folder. All of `expect` and one of `any_of` are printed, nothing of `refuse`.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from scheduler.cli.main import cli

FOLDER: Final = Path(__file__).parent / "bug_cases"
CHECKS: Final = [
    (folder.name, number, check)
    for folder in sorted(FOLDER.iterdir())
    if folder.is_dir()
    for number, check in enumerate(json.loads((folder / "expected.json").read_text())["checks"])
]
KNOWN_MISSES: Final[frozenset[str]] = frozenset()
"""Only ever shorter: FOLDER-NUMBER of checks that are not passed yet."""


def missed(check: dict[str, Any], printed: str) -> list[str]:
    """What is printed and should not be, or the other way round."""
    lacking = [word for word in check.get("expect", ()) if word not in printed]
    found = [word for word in check.get("refuse", ()) if word in printed]
    choices = check.get("any_of", ())
    none = [] if not choices or any(word in printed for word in choices) else [f"one of {choices}"]
    return [*(f"lacks {word}" for word in (*lacking, *none)), *(f"says {word}" for word in found)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number", "check"), CHECKS, ids=[f"{name}-{number}" for name, number, _ in CHECKS])
def test_what_people_met_elsewhere_is_said_as_it_is(
    name: str, number: int, check: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER / name)

    result = CliRunner().invoke(cli, shlex.split(check["command"]))

    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    printed = result.output
    if check["where"] == "first two lines":
        printed = "\n".join(result.stdout.splitlines()[:2])
    wrong = missed(check, printed)
    if f"{name}-{number}" in KNOWN_MISSES:
        assert wrong, "passed now: take it out of KNOWN_MISSES"
    else:
        assert wrong == [], printed
