"""`dra-scheduler replay FILE`: whether a recorded run of the scheduler leads to the same decisions again.

    $ dra-scheduler replay run.jsonl
    run.jsonl: 18,211 inputs led to the same 5,320 decisions

Exit codes: 0 the same, 1 not, 2 wrong use, or the file cannot be replayed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.terminal import echo

if TYPE_CHECKING:
    from scheduler.core.recording import Entry
    from scheduler.recorder import Difference, Replayed

_TEXT_MAX: Final = 400


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def replay(path: Path) -> None:
    """Give the inputs of a recorded run to a new scheduler, and compare what it decides.

    FILE is written by `dra-scheduler run --record FILE`. Nothing is read from a cluster or written to one, and time is
    the recorded one: hours are replayed in seconds. Ends at the first decision that differs.

    \b
    dra-scheduler run --record today.recording
    dra-scheduler replay today.recording
    """
    from scheduler.recorder import LineError
    from scheduler.recorder import replay as replay_lines

    try:
        with path.open("rb") as lines:
            found = replay_lines(lines)
    except LineError as error:
        raise WrongInputError(f"{path}{f':{error.line}' if error.line else ''}: {error}") from error
    except OSError as error:
        raise WrongInputError(f"{path}: {error.strerror or error}") from error
    if found.difference is not None:
        raise click.ClickException(_text_of(path, found, found.difference))
    lives = f" of {found.lives} processes" if found.lives > 1 else ""
    echo(f"{path}: {found.inputs:,} inputs{lives} led to the same {found.decisions:,} decisions")


def _text_of(path: Path, found: Replayed, difference: Difference) -> str:
    from scheduler.recorder import program_version

    recorded, now = difference.recorded, difference.now
    at = datetime.fromtimestamp(recorded.at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    lines = [
        f"{path}:{difference.line}: other decisions than recorded, after {found.inputs:,} inputs with the same",
        f"  input at {at}: {_brief(recorded.given)}",
    ]
    outcomes = (_outcome(recorded, is_exact=False), _outcome(now, is_exact=False))
    if outcomes[0] == outcomes[1]:
        outcomes = (_outcome(recorded, is_exact=True), _outcome(now, is_exact=True))
    for word, texts in zip(("recorded", "now"), outcomes, strict=True):
        lines += [f"  {word + ':':<9} {text}" for text in texts]
    if found.program != program_version():
        lines.append(f"  recorded by dra-scheduler {found.program}, this is {program_version()}")
    return "\n".join(lines)


def _outcome(entry: Entry, *, is_exact: bool) -> list[str]:
    """What came of it, a line each: an exception, decisions, or nothing."""
    from scheduler.debug_log import describe

    if entry.raised:
        return [f"failed with {entry.raised}"]
    described: list[str] = [_short(repr(one)) if is_exact else describe(one) for one in entry.decided]
    return described or ["nothing"]


def _brief(given: Any) -> str:
    """An input's type, and the object it is about with its revision."""
    shown = getattr(given, "claim", None) or getattr(given, "pod", None) or getattr(given, "volume", None) or given
    parts = [type(given).__name__, getattr(given, "kind", ""), f"#{given.id}" if hasattr(given, "id") else ""]
    if (key := getattr(shown, "key", None)) is not None:
        parts.append(str(key))
    if revision := getattr(getattr(shown, "metadata", shown), "revision", 0):
        parts.append(f"at revision {revision}")
    return " ".join(filter(None, parts))


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"
