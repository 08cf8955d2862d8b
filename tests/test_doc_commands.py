"""Each `dra-scheduler` command on any page has options that are there. For output: `tests/test_doc_output.py`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import click
import pytest

from scheduler.cli.main import cli

ROOT: Final = Path(__file__).resolve().parents[1]
LINE: Final = r"^(?:\$ )?(?:\S+/)?dra-scheduler ([a-z].*)$"
COMMANDS: Final = sorted(
    {
        (str(path.relative_to(ROOT)), re.split(r"\s+#|\s+[|&>]|\s+2>", line.replace("…", "NAME"))[0])
        for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        for line in re.findall(LINE, path.read_text(encoding="utf-8"), re.MULTILINE)
        if path.name != "commands.md" and re.match(r"[a-z-]+( |$)", line)
    }
)


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_command_on_a_page_is_one_that_is_there(page: str, line: str) -> None:
    words, command = shlex.split(line), cli
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"{page}: there is no command {words[0]}"
        command = found
        words = words[1:]
    context = click.Context(command)
    command.make_parser(context).parse_args(words)  # raises NoSuchOption, BadOptionUsage


def test_they_are_found() -> None:
    assert len(COMMANDS) > 60
