"""Recordings: a machine's inputs, with their times, and its decisions, as lines of JSON; and how to replay them.

    recording = Recording(file.write, new_uid)
    machine = Machine(profiles, new_uid=recording.new_uid, ...)
    handle = recording.of(machine.handle)              # to be called in the place of `machine.handle`

Rules of this module
  1. The time and every uid that was drawn are part of an entry: the same inputs at the same times with the same fresh
     uids give the same decisions.
  2. An entry is written when the machine has answered or raised an exception; nothing is kept.
  3. A line names types by module and class; only types of the model, the allocator's model, inputs and decisions are
     read back, so a recording from elsewhere can do no harm.
  4. Claims' specs are written as the JSON they were decoded from. So equal specs become one object again, as the
     allocator and the plugins compare them; so do the specs that the machine makes itself (special claims).

A line: `{"at": ms, "given": {...}, "decided": [...], "uids": [...], "raised": "..."}`, the last two if there are any.
A record is an object whose "$" is its type and whose other members are the fields that differ from their defaults. A
JSON array is a tuple; a list, which only drivers' configuration has, is {"$": "list", "of": [...]}.

Not here: the file, its first line and the settings (`scheduler.recorder`), the output of `replay`
(`scheduler.cli.replay`).

Cost of an entry: measured in docs/recordings.md.
"""

from __future__ import annotations

import dataclasses
import json
import pkgutil
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final, Protocol

import msgspec
import orjson

from allocator import ClaimSpec, claim_spec_text, decode_claim_spec
from allocator.pools import node_match
from allocator.values import model as allocator_model
from cel.quantity import Quantity
from scheduler import model
from scheduler.core.ground import inputs
from scheduler.framework import decisions
from scheduler.model import objects

_TYPE: Final = "$"
_MODULES: Final = (
    *(allocator_model, node_match, inputs, decisions),
    *(import_module(f"{model.__name__}.{one.name}") for one in pkgutil.iter_modules(model.__path__)),
)
_UNWRITABLE: Final = "unwritable"
_NOT_DRAWN: Final = "00000000-0000-0000-0000-000000000000"


class RecordingError(ValueError):
    """A line is not an entry of a recording; the text says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One input and what it led to.

    Args:
        uids: Those that were drawn for it.
        raised: The exception that ended the machine, "" for none; nothing was decided then.
    """

    at_ms: int
    given: inputs.Input
    decided: tuple[decisions.Decision, ...]
    uids: tuple[str, ...] = ()
    raised: str = ""


class Handle(Protocol):
    """`Machine.handle`."""

    def __call__(self, given: inputs.Input, *, now_ms: int) -> tuple[decisions.Decision, ...]: ...


class Recording:
    """Writes the inputs and decisions of one machine.

    Args:
        write: Takes a line, with its end.
        new_uid: What the machine would draw its uids from.
    """

    def __init__(self, write: Callable[[bytes], object], new_uid: Callable[[], str]) -> None:
        self._write: Final = write
        self._draw: Final = new_uid
        self._uids: list[str] = []

    def new_uid(self) -> str:
        uid = self._draw()
        self._uids.append(uid)
        return uid

    def of(self, handle: Handle) -> Handle:
        """`handle`, each of whose calls is written once it has answered."""

        def recorded(given: inputs.Input, *, now_ms: int) -> tuple[decisions.Decision, ...]:
            try:
                decided = handle(given, now_ms=now_ms)
            except Exception as error:
                self._append(now_ms, given, (), described(error))
                raise
            self._append(now_ms, given, decided)
            return decided

        return recorded

    def _append(
        self, now_ms: int, given: inputs.Input, decided: tuple[decisions.Decision, ...], raised: str = ""
    ) -> None:
        uids, self._uids = tuple(self._uids), []
        try:
            line = encode_entry(Entry(now_ms, given, decided, uids, raised))
        except (TypeError, KeyError) as error:  # a type or a text that has no place here: go on without
            line = orjson.dumps({_UNWRITABLE: described(error)})
        self._write(line + b"\n")


class Replay:
    """Gives a new machine the inputs of a recorded one.

    Args:
        start: Builds the machine as the recorded one was built and returns its `handle`; its argument is the `new_uid`
            to use.
    """

    def __init__(self, start: Callable[[Callable[[], str]], Handle]) -> None:
        self._uids: Final[deque[str]] = deque()
        self._handle: Final = start(self._next_uid)

    def _next_uid(self) -> str:
        return self._uids.popleft() if self._uids else _NOT_DRAWN

    def repeat(self, entry: Entry) -> Entry:
        """The same entry with what the machine decides now: equal when nothing has changed."""
        self._uids.clear()
        self._uids.extend(entry.uids)
        try:
            decided, raised = self._handle(entry.given, now_ms=entry.at_ms), ""
        except Exception as error:
            decided, raised = (), described(error)
        return Entry(entry.at_ms, entry.given, decided, entry.uids, raised)


def described(error: Exception) -> str:
    """An exception as `Entry.raised` has it."""
    return f"{type(error).__name__}: {error}"


def encode_entry(entry: Entry) -> bytes:
    """One line, without its end."""
    line: dict[str, Any] = {
        "at": entry.at_ms,
        "given": _encode(entry.given),
        "decided": [_encode(one) for one in entry.decided],
    }
    if entry.uids:
        line["uids"] = entry.uids
    if entry.raised:
        line["raised"] = entry.raised
    return orjson.dumps(line)


def decode_entry(line: bytes) -> Entry:
    """Read what `encode_entry` wrote. Raises RecordingError."""
    try:
        fields = orjson.loads(line)
        if _UNWRITABLE in fields:
            raise RecordingError(f"an input that could not be written ({fields[_UNWRITABLE]})")
        given = _decode(fields["given"])
        decided = _decode(fields["decided"])
        return Entry(int(fields["at"]), given, decided, tuple(fields.get("uids", ())), str(fields.get("raised", "")))
    except orjson.JSONDecodeError as error:
        raise RecordingError(f"no JSON: {error}") from error
    except RecordingError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordingError(f"no entry of a recording: {described(error)}") from error


def _encode(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    encode = _ENCODERS.get(kind)
    if encode is None:
        encode = _ENCODERS[kind] = _encoder_of(kind)
    return encode(value)


def _encode_tuple(value: tuple[Any, ...]) -> Any:
    return [_encode(one) for one in value]


def _encode_list(value: list[Any]) -> Any:
    return {_TYPE: "list", "of": [_encode(one) for one in value]}


def _encode_set(value: frozenset[str]) -> Any:
    return {_TYPE: "set", "of": sorted(value)}


def _encode_mapping(value: Mapping[str, Any]) -> Any:
    assert _TYPE not in value
    return {key: _encode(one) for key, one in value.items()}


def _encode_quantity(value: Quantity) -> Any:
    return {_TYPE: "Quantity", "text": str(value)}


def _encode_affinity(value: objects.PackedAffinity) -> Any:
    return _encode(value.unpacked())


def _encode_spec(value: ClaimSpec) -> Any:
    return {_TYPE: "ClaimSpec", "json": claim_spec_text(value)}


def _encoder_of(kind: type) -> Callable[[Any], Any]:
    if issubclass(kind, Mapping):
        return _encode_mapping
    name = f"{kind.__module__.rpartition('.')[2]}.{kind.__qualname__}"
    if name not in _TYPES:
        raise TypeError(f"{kind} cannot be part of a recording")
    fields = tuple(_fields_of(kind))

    def encode(value: Any) -> Any:
        shown = {_TYPE: name}
        for field, default in fields:
            one = getattr(value, field)
            if one is default:
                continue
            of = one.__class__
            if of is default.__class__ and one == default:
                continue
            shown[field] = one if of in _PLAIN else _encode(one)
        return shown

    return encode


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_decode(one) for one in value])
    if not isinstance(value, dict):
        return value
    if _TYPE not in value:
        return {key: _decode(one) for key, one in value.items()}
    match value[_TYPE]:
        case "list":
            return [_decode(one) for one in value["of"]]
        case "set":
            return frozenset(value["of"])
        case "Quantity":
            return Quantity.parse(value["text"])
        case "ClaimSpec":
            return decode_claim_spec(json.loads(value["json"]))
        case name if (kind := _TYPES.get(name)) is not None:
            return kind(**{key: _decode(one) for key, one in value.items() if key != _TYPE})
        case name:
            raise ValueError(f"unknown type {name}")


def _fields_of(kind: Any) -> Iterable[tuple[str, object]]:
    """Names of the fields of a record type, with their defaults."""
    if dataclasses.is_dataclass(kind):
        return [(one.name, _MISSING if one.default is dataclasses.MISSING else one.default) for one in _init(kind)]
    if issubclass(kind, msgspec.Struct):
        return [(one.name, one.default) for one in msgspec.structs.fields(kind)]
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return [(name, kind._field_defaults.get(name, _MISSING)) for name in kind._fields]
    raise TypeError(f"{kind} cannot be part of a recording")


def _init(kind: Any) -> list[dataclasses.Field[Any]]:
    return [one for one in dataclasses.fields(kind) if one.init]


def _types_of(modules: Iterable[ModuleType]) -> dict[str, Callable[..., object]]:
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": kind
        for module in modules
        for name, kind in vars(module).items()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    }


_MISSING: Final = object()
_PLAIN: Final = frozenset({type(None), bool, int, float, str})
_TYPES: Final = _types_of(_MODULES)
_ENCODERS: Final[dict[type, Callable[[Any], Any]]] = {
    tuple: _encode_tuple,
    list: _encode_list,
    frozenset: _encode_set,
    dict: _encode_mapping,
    Quantity: _encode_quantity,
    ClaimSpec: _encode_spec,
    objects.PackedAffinity: _encode_affinity,
}
