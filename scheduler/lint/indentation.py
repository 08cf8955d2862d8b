"""Manifests whose indentation was lost in copying, put back where the fields of the kind leave one reading.

Every line of such a text names a field, begins a list entry, or both. Which object a field belongs to is searched among
those that are open, along the fields that the kind has (and had): all readings are tried, until there is a second one.

Rules of this module
  1. Nothing is guessed: with two readings, or none, the text stays as it is, and the line that is to blame is named.
  2. A field without a value has something in it, and what has parts is not a text.

Not here: when this is tried (`documents`), full-width punctuation and dashes (`punctuation`).

Cost: at most `_STEPS_MAX` placements of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from scheduler.lint.api_fields import shape_of_kind, shape_of_type
from scheduler.lint.shapes import Anything, ListOf, MapOf, Object, Scalar, Shape, text

_STEPS_MAX: Final = 20_000
_LINES_MAX: Final = 2_000
_KEY: Final = re.compile(r"""(?P<key>"[^"]+"|'[^']+'|[A-Za-z_][\w./-]*)\s*:(?:\s+(?P<value>.*))?""")
_BLOCK: Final = re.compile(r"[|>][-+]?")

_TEXT: Final = Scalar(text)
_REFERENCE: Final = Object({"apiGroup": _TEXT, "kind": _TEXT, "name": _TEXT, "namespace": _TEXT})


@dataclass(frozen=True, slots=True)
class Indented:
    """The lines with their indentation, and how much each was moved to the right."""

    lines: list[str]
    shifts: dict[int, int]


@dataclass(frozen=True, slots=True)
class Refused:
    """`line` counts from 0, in the lines given."""

    line: int
    problem: str


class _Line(NamedTuple):
    number: int
    has_dash: bool
    key: str | None
    value: str
    raw: str


class _Frame(NamedTuple):
    """An object, list or map that is open; `used` are its keys, or whether it has an entry."""

    shape: Shape
    column: int
    name: str
    used: frozenset[str]


_Stack: TypeAlias = tuple[_Frame, ...]


def is_flat(lines: Sequence[str]) -> bool:
    """Whether all lines that say something begin in one column, and some open what the next must be in."""
    content = [line for line in lines if _says(line)]
    indents = {len(line) - len(line.lstrip()) for line in content}
    return len(content) > 2 and len(indents) == 1 and any(line.rstrip().endswith(":") for line in content)


def indent(lines: Sequence[str]) -> Indented | Refused:
    """The text of one document with the indentation that its kind demands."""
    content = [_line(number, line) for number, line in enumerate(lines) if _says(line)]
    kind = next((line.value for line in content if line.key == "kind" and not line.has_dash), "")
    version = next((line.value for line in content if line.key == "apiVersion" and not line.has_dash), "")
    root = _root(kind, version)
    if root is None:
        return Refused(content[0].number if content else 0, f"the fields of {kind or 'what has no kind'} are not known")
    if len(content) > _LINES_MAX:
        return Refused(_LINES_MAX, "the text is too long")
    # What a version does not have is tried only when nothing else is left.
    is_current = version.endswith(("/v1", "/v1beta2")) or "/" not in version
    search = _Search(content, kind, allows_old=not is_current)
    found = search.readings(root)
    if not found and is_current and not search.is_exhausted:
        search = _Search(content, kind, allows_old=True)
        found = search.readings(root)
    if len(found) == 1:
        return _moved(lines, found[0])
    if found:
        first, second = found
        number = next(line for line in first if first[line] != second.get(line))
        one, other = (search.owner_of(number, columns) for columns in (first, second))
        said = lines[number].strip()
        return Refused(
            number,
            f"{said!r} can belong to {one} or to {other}; for the first write "
            f"{' ' * first[number] + said!r}, for the second {' ' * second[number] + said!r}",
        )
    line = content[min(search.furthest, len(content) - 1)]
    return Refused(
        line.number, f"{line.raw.strip()!r} has no place in a {kind}" if not search.is_exhausted else "unclear"
    )


def _says(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith("#") and not re.match(r"---(\s|$)", line)


def _line(number: int, raw: str) -> _Line:
    said = _without_comment(raw.strip())
    has_dash = said.startswith("- ")
    if has_dash:
        said = said[2:].strip()
    found = _KEY.fullmatch(said)
    if found is None:
        return _Line(number, has_dash, None, said, raw)
    return _Line(number, has_dash, found["key"].strip("\"'"), (found["value"] or "").strip(), raw)


def _without_comment(said: str) -> str:
    quote = ""
    for at, char in enumerate(said):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and (at == 0 or said[at - 1].isspace()):
            return said[:at].rstrip()
    return said


def _moved(lines: Sequence[str], columns: Mapping[int, int]) -> Indented:
    moved: list[str] = []
    shifts: dict[int, int] = {}
    following = 0
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        following = columns.get(number, following)
        if not line.strip() or re.match(r"---(\s|$)", line):
            moved.append(line)
            continue
        stripped = line.lstrip()
        moved.append(" " * following + stripped)
        shifts[number] = following - (len(line) - len(stripped))
    return Indented(moved[::-1], shifts)


class _Search:
    def __init__(self, content: Sequence[_Line], kind: str, allows_old: bool) -> None:
        self._content = content
        self._allows_old = allows_old
        self._kind = kind
        self._steps = 0
        self._owners: dict[tuple[int, int], str] = {}
        self.furthest = 0

    @property
    def is_exhausted(self) -> bool:
        return self._steps >= _STEPS_MAX

    def readings(self, root: Object) -> list[dict[int, int]]:
        """The column of each line, for the first two readings."""
        found: list[dict[int, int]] = []
        # A stack of our own: a text may have thousands of lines.
        start: _Stack = (_Frame(root, 0, self._kind, frozenset()),)
        trail: list[tuple[int, int]] = []
        choices: list[Iterator[tuple[int, _Stack, list[tuple[int, int]]]]] = [self._places(0, start)]
        lengths = [0]
        while choices:
            step = next(choices[-1], None)
            del trail[lengths[-1] :]
            if step is None:
                choices.pop()
                lengths.pop()
                continue
            self._steps += 1
            if self._steps >= _STEPS_MAX:
                return []
            index, stack, columns = step
            trail += columns
            self.furthest = max(self.furthest, index)
            if index < len(self._content):
                choices.append(self._places(index, stack))
                lengths.append(len(trail))
            elif all(_is_filled(frame) for frame in stack):
                found.append(dict(trail))
                if len(found) == 2:
                    return found
        return found

    def owner_of(self, number: int, columns: Mapping[int, int]) -> str:
        return self._owners.get((number, columns[number]), "another object")

    def _places(self, index: int, stack: _Stack) -> Iterator[tuple[int, _Stack, list[tuple[int, int]]]]:
        """Where the line can stand: index of the next line, what is open then, columns of the lines used."""
        line = self._content[index]
        while stack:
            frame = stack[-1]
            for count, after in self._within(index, line, stack):
                self._owners[line.number, frame.column] = frame.name
                columns = [(line.number, frame.column)]
                # The lines of a block of text stand right of its field.
                inner = frame.column + (4 if line.has_dash else 2)
                columns += [(self._content[index + offset].number, inner) for offset in range(1, count)]
                yield index + count, after, columns
            if not _is_filled(frame):
                return
            stack = stack[:-1]

    def _within(self, index: int, line: _Line, stack: _Stack) -> Iterator[tuple[int, _Stack]]:
        """The ways to take the line into the innermost open part: how many lines, and what is open then."""
        frame = stack[-1]
        shape = frame.shape
        filled = frame._replace(used=frame.used | {line.key or "-"})
        if isinstance(shape, ListOf):
            if not line.has_dash:
                return
            base = (*stack[:-1], filled)
            item = _Frame(shape.item, frame.column + 2, frame.name, frozenset())
            if line.key is not None:
                yield from self._field(index, line, (*base, item))
            elif isinstance(shape.item, Scalar) and line.value:
                yield 1, base
            return
        if not line.has_dash and line.key is not None and line.key not in frame.used:
            yield from self._field(index, line, stack)

    def _field(self, index: int, line: _Line, stack: _Stack) -> Iterator[tuple[int, _Stack]]:
        frame = stack[-1]
        key = line.key or ""
        if isinstance(frame.shape, Object):
            fields = _fields(frame.shape, self._allows_old)
            shape = fields.get(key) if _goes_with(key, frame, fields) else None
        elif isinstance(frame.shape, MapOf):
            shape = frame.shape.value
        else:
            shape = Anything() if isinstance(frame.shape, Anything) else None
        if shape is None:
            return
        base = (*stack[:-1], frame._replace(used=frame.used | {key}))
        if _BLOCK.fullmatch(line.value):
            if isinstance(shape, Scalar | Anything):
                yield from ((count, base) for count in range(2, len(self._content) - index + 1))
            return
        if line.value:
            is_flow = line.value[0] in "[{"
            if isinstance(shape, Anything) or isinstance(shape, Scalar) != is_flow or _takes_value(shape):
                yield 1, base
            return
        if isinstance(shape, Scalar):
            return
        column = frame.column if isinstance(shape, ListOf) else frame.column + 2
        name = key if frame.name == self._kind else f"{frame.name}.{key}"
        yield 1, (*base, _Frame(shape, column, name, frozenset()))


def _goes_with(key: str, frame: _Frame, fields: Mapping[str, Shape]) -> bool:
    """Whether a field may stand beside those that are there: of some, an object has one."""
    shape = frame.shape
    assert isinstance(shape, Object)
    if key in shape.one_of and frame.used & (set(shape.one_of) - {key}):
        return False
    if "exactly" not in shape.fields:
        return True
    wrapped, flat = {"exactly", "firstAvailable"}, set(fields) - set(shape.fields)
    return not (key in flat and frame.used & wrapped) and not (key in wrapped and frame.used & flat)


def _is_filled(frame: _Frame) -> bool:
    return bool(frame.used)


def _takes_value(shape: Shape) -> bool:
    """A capacity of old slices: `memory: 80Gi`."""
    return isinstance(shape, Object) and shape.required == ("value",)


def _root(kind: str, version: str) -> Object | None:
    metadata = shape_of_type("ObjectMeta")
    if version.endswith(("/v1alpha1", "/v1alpha2")) and kind in ("ResourceClaim", "ResourceClaimTemplate"):
        claim = Object({"allocationMode": _TEXT, "resourceClassName": _TEXT, "parametersRef": _REFERENCE})
        spec = claim if kind == "ResourceClaim" else Object({"metadata": metadata, "spec": claim})
        return Object({"apiVersion": _TEXT, "kind": _TEXT, "metadata": metadata, "spec": spec})
    if kind == "ResourceClass":
        fields: dict[str, Shape] = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": metadata, "driverName": _TEXT}
        return Object({**fields, "parametersRef": _REFERENCE, "structuredParameters": _TEXT})
    return shape_of_kind(kind)


def _fields(shape: Object, allows_old: bool) -> Mapping[str, Shape]:
    """The fields of an object, and those that it had in older versions, or that people give it."""
    fields = dict(shape.fields)
    if allows_old and "exactly" in fields and isinstance(exactly := fields["exactly"], Object):
        fields |= {name: of for name, of in exactly.fields.items() if name not in fields}
    if allows_old and "consumesCounters" in fields and "attributes" in fields:
        fields["basic"] = Object({name: fields[name] for name in ("attributes", "capacity")})
    if allows_old and "resourceClaimTemplateName" in fields:
        fields["source"] = Object(dict.fromkeys(("resourceClaimName", "resourceClaimTemplateName"), _TEXT))
    if {"containers", "resources"} <= set(fields):
        # Whole pods have resources, but no claims there: the API refuses them.
        resources = fields["resources"]
        assert isinstance(resources, Object)
        fields["resources"] = replace(resources, fields={k: v for k, v in resources.fields.items() if k != "claims"})
    return fields
