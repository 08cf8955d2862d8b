"""Recordings as files: the settings of a machine, its inputs and its decisions; writing them, and replaying them.

    {"recording": "dra-scheduler", "version": 1, "program": "0.1.0", "profiles": [...], "features": {...}, ...}
    {"at": 1800000000000, "given": {"$": "inputs.Observed", ...}, "decided": []}
    ...

Rules of this module
  1. A file holds the lives of one process after the other: each begins with a first line of its own.
  2. A write that fails ends the recording, never the scheduler.
  3. Entries leave this process with each `flush`. The app flushes before it sends the requests that were decided.

Not here: entries (`core.recording`), the report of a replay (`cli.replay`).
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from allocator import Features
from scheduler.config.profiles import profile_plugins
from scheduler.core.ground.settings import CoreSettings
from scheduler.core.machine import Machine
from scheduler.core.recording import Entry, Recording, RecordingError, Replay, decode_entry
from scheduler.framework.api import Profile
from scheduler.model.label_selectors import SelectorTextError, parse_label_selector, parse_slice_selector

log: Final = logging.getLogger(__name__)

NAME: Final = "dra-scheduler"
VERSION: Final = 5
"""Of the format. A program reads its own only: fields are named as the program names them."""

_FIRST_LINE_MAX: Final = 1 << 20
_BUFFER: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ProfileRecipe:
    """One scheduler name and its plugins, as a KubeSchedulerProfile; selectors as text."""

    written: Mapping[str, Any]
    nodes: str | None = None
    slices: str | None = None

    def profile(self, features: Features = Features()) -> Profile:  # noqa: B008 - frozen
        """The profile, ready to run, as the release of `features` has it. Raises ValueError."""
        return profile_plugins(
            self.written,
            nodes=parse_label_selector(self.nodes) if self.nodes is not None else None,
            slices=parse_slice_selector(self.slices) if self.slices is not None else None,
            features=features,
        )


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that a machine's decisions depend on besides its inputs, their times and its uids."""

    profiles: tuple[ProfileRecipe, ...]
    features: Features = field(default_factory=Features)
    settings: CoreSettings = field(default_factory=CoreSettings)

    def machine(self, new_uid: Callable[[], str]) -> Machine:
        """A new machine. Raises ProfileError, ValueError."""
        return Machine(
            tuple(one.profile(self.features) for one in self.profiles),
            features=self.features,
            new_uid=new_uid,
            settings=self.settings,
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """The first line whose decisions differ now."""

    line: int
    recorded: Entry
    now: Entry


@dataclass(slots=True)
class Replayed:
    """What a replay has found so far. `program` is the version that recorded the life at the end."""

    lives: int = 0
    inputs: int = 0
    decisions: int = 0
    program: str = ""
    difference: Difference | None = None


class LineError(RecordingError):
    """A line cannot be replayed; the text says why, and what to do. `line` counts from 1; 0 is the file as a whole."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line: Final = line


class Recorder:
    """Appends lives to a file that only its owner may read.

    Raises:
        OSError: It cannot be written.
        LineError: It exists and is no recording.
    """

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._file: BinaryIO | None = os.fdopen(descriptor, "r+b", buffering=_BUFFER)
        if first := self._file.readline(_FIRST_LINE_MAX):
            try:
                _read_head(first)
            except LineError:
                self._file.close()
                raise
            self._file.seek(-1, os.SEEK_END)
            self._end_line = self._file.read(1) != b"\n"  # the life before was killed while it wrote
        else:
            self._end_line = False

    def begin(self, recipe: Recipe, new_uid: Callable[[], str]) -> Recording:
        """Write the first line of a machine built from `recipe`; the recording to be handed to it."""
        self.write(b"\n" * self._end_line + encode_head(recipe) + b"\n")
        return Recording(self.write, new_uid)

    def write(self, line: bytes) -> None:
        if self._file is not None:
            try:
                self._file.write(line)
            except OSError as error:
                self._give_up(error)

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        if self._file is not None:
            try:
                self._file.flush()
            except OSError as error:
                self._give_up(error)

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _give_up(self, error: OSError) -> None:
        log.error("%s cannot be written, nothing more is recorded: %s", self._path, error.strerror or error)
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                log.debug("closing %s failed too", self._path, exc_info=True)


def encode_head(recipe: Recipe) -> bytes:
    """The first line of a life, without its end."""
    features = {one.name: getattr(recipe.features, one.name) for one in fields(recipe.features) if one.init}
    return orjson.dumps(
        {
            "recording": NAME,
            "version": VERSION,
            "program": program_version(),
            "profiles": [asdict(one) for one in recipe.profiles],
            "features": features,
            "settings": asdict(recipe.settings),
        }
    )


def program_version() -> str:
    """This program's."""
    try:
        return importlib.metadata.version(NAME)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def replay(lines: Iterable[bytes]) -> Replayed:
    """Give new machines the recorded inputs, up to the first difference.

    Args:
        lines: Of the file, each with its line end.

    Raises:
        LineError: A line cannot be read.
    """
    found = Replayed()
    life: Replay | None = None
    for number, line in enumerate(lines, 1):
        if life is None or line.startswith(_HEAD):
            head = _read_head(line, number)
            life = _begin(head, number)
            found.lives += 1
            found.program = str(head.get("program"))
            continue
        entry = _read_entry(line, number, found)
        now = life.repeat(entry)
        if now != entry:
            found.difference = Difference(number, entry, now)
            break
        found.inputs += 1
        found.decisions += len(entry.decided)
    if life is None:
        raise LineError(0, f"is empty; a recording is made by `{NAME} run --record FILE`")
    return found


_HEAD: Final = b'{"recording":'


def _read_head(line: bytes, number: int = 1) -> dict[str, Any]:
    try:
        head = orjson.loads(line)
    except orjson.JSONDecodeError:
        head = None
    if not isinstance(head, dict) or head.get("recording") != NAME:
        raise LineError(number, f"is no recording; one is made by `{NAME} run --record FILE`")
    if head.get("version") != VERSION:
        raise LineError(
            number,
            f"is a recording of format {head.get('version')}, and {NAME} {program_version()} reads format {VERSION}: "
            f"use {NAME} {head.get('program')}, which wrote it",
        )
    return head


def _begin(head: dict[str, Any], number: int) -> Replay:
    def start(new_uid: Callable[[], str]) -> Any:
        return recipe.machine(new_uid).handle

    try:
        # Nobody would empty the notes for the log.
        settings = CoreSettings(**{**head["settings"], "takes_notes": False})
        profiles = tuple(ProfileRecipe(**one) for one in head["profiles"])
        recipe = Recipe(profiles, Features(**head["features"]), settings)
        return Replay(start)
    except (TypeError, ValueError, KeyError, SelectorTextError) as error:
        raise LineError(
            number,
            f"has settings that {NAME} {program_version()} does not know: {error}; use {NAME} {head.get('program')}, "
            "which wrote it",
        ) from error


def _read_entry(line: bytes, number: int, found: Replayed) -> Entry:
    so_far = f"the {found.inputs} inputs before it led to the same decisions"
    if not line.endswith(b"\n"):
        raise LineError(
            number,
            f"ends in its middle: the scheduler was killed, the disk was full, or it still records; {so_far}. Delete "
            "the line to replay the rest",
        )
    try:
        return decode_entry(line)
    except RecordingError as error:
        advice = "Delete the line to replay what comes after it"
        if found.program != program_version():
            advice += f", or use {NAME} {found.program}, which wrote it (this is {program_version()})"
        raise LineError(number, f"is {error}; {so_far}. {advice}") from error
