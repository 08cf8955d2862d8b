"""The story: the latest inputs with the decisions they led to, as JSON lines that can be read and replayed.

Rules of this module
  1. A story that is complete (nothing was dropped, see `Story.is_complete`) replays exactly: the same inputs at the
     same times with the same fresh uids give the same decisions.
  2. Recording costs one append; objects become text only when the story is written.
  3. A line names types by module and class; only types of the model, the allocator's model, inputs and decisions are
     read back, so a story from elsewhere can do no harm.

A line: `{"at": ms, "given": {...}, "decided": [...], "uids": [...]}`. A record is an object whose "$" is its type and
whose other members are the fields that differ from their defaults; a tuple is {"$": "tuple", "of": [...]}.

Not here: what to do with a story (`replay` in the command line, the simulation, bug reports).
"""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, Final, Protocol

import msgspec

from allocator import ClaimSpec
from allocator import model as allocator_model
from cel.quantity import Quantity
from scheduler.core import inputs
from scheduler.framework import decisions
from scheduler.model import claim, device_taint_rules, keys, objects, pod_group, special_claim

_TYPE: Final = "$"
_MODULES: Final = (
    *(allocator_model, objects, claim, special_claim, device_taint_rules, pod_group, keys),
    *(inputs, decisions),
)


class StoryError(ValueError):
    """A line is not one of a story, or a replay went another way; the text says where."""


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One input and what it led to; `uids` are those that were drawn for it."""

    at_ms: int
    given: inputs.Input
    decided: tuple[decisions.Decision, ...]
    uids: tuple[str, ...] = ()


class Handles(Protocol):
    """What `replay` needs of a machine."""

    def handle(self, given: inputs.Input, *, now_ms: int) -> tuple[decisions.Decision, ...]: ...


class Story:
    """The latest `entries_max` entries."""

    def __init__(self, entries_max: int) -> None:
        self._entries: Final[deque[Entry]] = deque(maxlen=entries_max)
        self._told = 0

    @property
    def is_complete(self) -> bool:
        """Whether the story still begins with the machine's first input."""
        return self._told == len(self._entries)

    def tell(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._told += 1

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def lines(self) -> Iterator[str]:
        """The story as JSON, one entry a line, oldest first."""
        return (encode_entry(entry) for entry in self._entries)


def replay(lines: Iterable[str], start: Callable[[Callable[[], str]], Handles]) -> int:
    """Feed a complete story to a new machine and compare decisions.

    Args:
        start: Builds the machine as it was built when the story was recorded; its argument is the `new_uid` to use.

    Returns:
        The number of entries replayed.

    Raises:
        StoryError: a line cannot be read, or the machine decided differently.
    """
    uids: deque[str] = deque()
    machine = start(uids.popleft)
    count = 0
    for count, line in enumerate(lines, 1):
        entry = decode_entry(line)
        uids.extend(entry.uids)
        decided = machine.handle(entry.given, now_ms=entry.at_ms)
        if decided != entry.decided:
            raise StoryError(f"line {count}: {entry.given} led to {decided}, the story says {entry.decided}")
        uids.clear()
    return count


def encode_entry(entry: Entry) -> str:
    """One line, without its end."""
    line: dict[str, Any] = {
        "at": entry.at_ms,
        "given": _encode(entry.given),
        "decided": [_encode(one) for one in entry.decided],
    }
    if entry.uids:
        line["uids"] = list(entry.uids)
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False)


def decode_entry(line: str) -> Entry:
    """Read what `encode_entry` wrote. Raises StoryError."""
    try:
        fields = json.loads(line)
        given = _decode(fields["given"])
        decided = tuple(_decode(one) for one in fields["decided"])
        return Entry(int(fields["at"]), given, decided, tuple(fields.get("uids", ())))
    except (ValueError, KeyError, TypeError) as error:
        raise StoryError(f"not a line of a story: {error!r}: {line[:80]}") from error


def _encode(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Quantity():
            return {_TYPE: "Quantity", "text": str(value)}
        case list():
            return [_encode(one) for one in value]
        case Mapping():
            assert _TYPE not in value
            return {key: _encode(one) for key, one in value.items()}
        case _ if type(value) is tuple:
            return {_TYPE: "tuple", "of": [_encode(one) for one in value]}
        case _:
            fields = _fields_of(type(value))
            members = {name: getattr(value, name) for name in fields}
            shown = {name: _encode(one) for name, one in members.items() if not _is_default(fields[name], one)}
            return {_TYPE: _name_of(type(value)), **shown}


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(one) for one in value]
    if not isinstance(value, dict):
        return value
    if _TYPE not in value:
        return {key: _decode(one) for key, one in value.items()}
    name = value[_TYPE]
    if name == "Quantity":
        return Quantity.parse(value["text"])
    if name == "tuple":
        return tuple(_decode(one) for one in value["of"])
    kind = _TYPES.get(name)
    if kind is None:
        raise ValueError(f"unknown type {name}")
    decoded = kind(**{key: _decode(one) for key, one in value.items() if key != _TYPE})
    # Specs are compared by identity, so equal ones must be one object again.
    return _SPECS.setdefault(json.dumps(value, sort_keys=True), decoded) if isinstance(decoded, ClaimSpec) else decoded


def _is_default(default: object, value: object) -> bool:
    return type(default) is type(value) and default == value


_MISSING: Final = object()


def _fields_of(kind: type) -> dict[str, object]:
    """Names of the fields of a record type, with their defaults."""
    known = _FIELDS.get(kind)
    if known is None:
        known = _FIELDS[kind] = _read_fields(kind)
    return known


def _read_fields(kind: Any) -> dict[str, object]:
    if dataclasses.is_dataclass(kind):
        return {
            one.name: _MISSING if one.default is dataclasses.MISSING else one.default
            for one in dataclasses.fields(kind)
        }
    if issubclass(kind, msgspec.Struct):
        return {one.name: one.default for one in msgspec.structs.fields(kind)}
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return {name: kind._field_defaults.get(name, _MISSING) for name in kind._fields}
    raise TypeError(f"{kind} cannot be part of a story")


def _name_of(kind: type) -> str:
    name = f"{kind.__module__.rpartition('.')[2]}.{kind.__qualname__}"
    if name not in _TYPES:
        raise TypeError(f"{kind} cannot be part of a story")
    return name


def _types_of(modules: Iterable[ModuleType]) -> dict[str, Callable[..., object]]:
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": kind
        for module in modules
        for name, kind in vars(module).items()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    }


_TYPES: Final = _types_of(_MODULES)
_FIELDS: Final[dict[type, dict[str, object]]] = {}
_SPECS: Final[dict[str, ClaimSpec]] = {}
