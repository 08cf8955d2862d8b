"""Manifest texts: YAML or JSON documents that remember where each field stands.

What a person pastes is often broken in a few typical ways (lost indentation, tabs, full-width punctuation and dashes);
the error says where and which of these it looks like.

Rules of this module
  1. A text is split into lines once, however many documents and findings it has.

Not here: reading files (scheduler.cli.manifests), YAML (scheduler.yaml_reading), what the objects mean (`modernize`,
`schema`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import yaml

from scheduler.lint.findings import FieldPath, Place
from scheduler.yaml_reading import Budget, Mapping, Node, Scalar, Sequence, TooMuchError, read_nodes

_KIND_BY_FIELD: Final = {
    "containers": "Pod",
    "pool": "ResourceSlice",
    "nodeName": "ResourceSlice",
    "requests": "ResourceClaim",
    "selectors": "DeviceClass",
    "devices": "ResourceClaim",
}
_PLAIN: Final = {
    **dict(zip("：，“”„‘’｛｝［］", ':,"""\'\'{}[]', strict=True)),
    **dict.fromkeys("\u00a0\u2007\u202f\u3000", " "),
}
"""YAML's own character, by the one that pages, chats and word processors put in its place."""
_WIDE: Final = re.compile(f"[{''.join(_PLAIN)}]")
_DASHES: Final = re.compile(r"\s*([-‐‑‒–—―−－]*[‐‑‒–—―−－][-‐‑‒–—―−－]*|(?<!\s)--|(?<!\s)-{4})(?=\s|$)")
_SEPARATOR: Final = re.compile(r"---(?:\s|$)")
_SHOWN_COLUMNS: Final = 100
_HINT_LINES: Final = 1000


class ManifestError(Exception):
    """A text that cannot be read as manifests. `str` begins with `file:line:column: `; `problem` is the rest."""

    def __init__(self, problem: str, place: Place | str, fix: str = "") -> None:
        super().__init__(f"{place}: {problem}")
        self.problem: Final = problem
        self.fix: Final = fix
        self.place: Final = place if isinstance(place, Place) else Place(place, 1, 1)


@dataclass(frozen=True)
class Text:
    """The lines of a file, split when somebody first asks."""

    name: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """Without their ends. What ends a line is what YAML takes for one."""
        return self.text.splitlines()


@dataclass(frozen=True, slots=True)
class Document:
    """One API object of a file. `obj` is plain data; `place` finds where a field of it stands."""

    file: str
    obj: dict[str, Any]
    _node: Mapping = field(repr=False)
    _text: Text = field(repr=False)
    _has_repeats: bool = field(default=False, repr=False)
    _line_offset: int = field(default=0, repr=False)

    @property
    def kind(self) -> str:
        return str(self.obj.get("kind", ""))

    @property
    def api_version(self) -> str:
        return str(self.obj.get("apiVersion", ""))

    @property
    def name(self) -> str:
        """`Kind namespace/name` for messages."""
        metadata = self.obj.get("metadata")
        if not isinstance(metadata, dict):
            metadata = {}
        name = metadata.get("name") or metadata.get("generateName") or "<unnamed>"
        namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        return f"{self.kind} {namespace}{name}"

    @property
    def start_line(self) -> int:
        """The line, from 1, the object begins in."""
        return self._line_offset + self._node.line + 1

    def line_text(self, line: int) -> str:
        """A line of the file, without its end; empty when there is none."""
        lines = self._text.lines
        return lines[line - 1] if 1 <= line <= len(lines) else ""

    def place(self, path: FieldPath = (), *, key: bool = False) -> Place:
        """Where the value at `path` begins, or its key; the nearest parent's place when it is not there."""
        node, key_node = self._find(path)
        return self._place_of(key_node if key and key_node is not None else node)

    def text_place(self, path: FieldPath, offset: int) -> Place:
        """Where character `offset` of the text value at `path` stands, also inside block scalars.

        Exact for plain, quoted (without escapes) and literal scalars; the value's beginning for folded ones.
        """
        node, _ = self._find(path)
        start = self._place_of(node)
        if not isinstance(node, Scalar) or node.style == ">":
            return start
        if node.style != "|":
            if node.line != node.end_line:  # folded: line breaks became blanks
                return start
            return Place(start.file, start.line, start.column + offset + (1 if node.style in ("'", '"') else 0))
        before = node.value[:offset]
        row = before.count("\n")
        block = self._text.lines[start.line : self._line_offset + node.end_line]
        # A block's indentation is that of its first line that has text.
        indent = next((len(line) - len(line.lstrip(" ")) for line in block if line.strip()), 0)
        return Place(start.file, start.line + 1 + row, indent + offset - (before.rfind("\n") + 1) + 1)

    def duplicate_keys(self) -> Iterator[tuple[Place, str]]:
        """Keys that a mapping has twice: place of the second, and the key."""
        pending: list[Node] = [self._node] if self._has_repeats else []
        while pending:
            node = pending.pop()
            if isinstance(node, Sequence):
                pending += reversed(node.items)
            elif isinstance(node, Mapping):
                yield from ((self._place_of(key), key.value) for key in node.repeated)
                pending += (value for _, value in reversed(node.pairs))

    def _place_of(self, node: Node) -> Place:
        return Place(self.file, self._line_offset + node.line + 1, node.column + 1)

    def _find(self, path: FieldPath) -> tuple[Node, Node | None]:
        node: Node = self._node
        key_node: Node | None = None
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            key_node, node = found
        return node, key_node


def parse_documents(text: str, name: str) -> Iterator[Document]:
    """The objects of one text, in order; `List` objects are taken apart. `name` is the file's, for places.

    Raises:
        ManifestError: The text is no YAML, holds something that is no Kubernetes object, or a field twice.
    """
    for document in _parse(Text(name, text), text, 0, Budget(len(text))):
        for place, key in document.duplicate_keys():
            raise ManifestError(f"{document.name}: {repeated_key(document, place, key)}", place)
        yield document


def repeated_key(document: Document, place: Place, key: str) -> str:
    """What to say of a field that stands twice in a mapping."""
    if key in ("apiVersion", "kind") and document.line_text(place.line).startswith((key, f'"{key}"')):
        return f"the field {key} is there twice: two manifests without a line --- between them?"
    return f"the field {key} is there twice; kubectl refuses that, and others take the last"


@dataclass(slots=True)
class Parsed:
    """What a file holds: its objects, and an error for each document that cannot be read."""

    documents: list[Document] = field(default_factory=list)
    errors: list[ManifestError] = field(default_factory=list)


def parse_all(text: str, name: str) -> Parsed:
    """As `parse_documents`, but fields that are there twice stay, and a broken document does not hide the others."""
    whole = Text(name, text)
    try:
        return Parsed(list(_parse(whole, text, 0, Budget(len(text)))))
    except ManifestError:
        pass
    parsed = Parsed()
    budget = Budget(len(text))
    for chunk in split_documents(text):
        try:
            parsed.documents += _parse(whole, chunk.text, chunk.first_line, budget)
        except ManifestError as error:
            parsed.errors.append(error)
    return parsed


@dataclass(frozen=True, slots=True)
class Chunk:
    """The lines of a file from one `---` to the next; `first_line` counts from 0."""

    first_line: int
    text: str


def split_documents(text: str) -> list[Chunk]:
    """The texts between document separators, each with the separator before it; joined they are `text`."""
    chunks: list[Chunk] = []
    lines = text.splitlines(keepends=True)
    starts = [0, *(number for number, line in enumerate(lines) if number and _SEPARATOR.match(line))]
    # Directives belong to the document after the separator that ends them.
    if len(starts) > 1 and any(line.startswith("%") for line in lines[: starts[1]]):
        del starts[1]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        chunks.append(Chunk(start, "".join(lines[start:end])))
    return chunks


def _parse(whole: Text, text: str, line_offset: int, budget: Budget) -> Iterator[Document]:
    """The objects of `text`, which begins in a line of `whole`."""
    part = _Part(whole, line_offset)
    try:
        for node, has_repeats in read_nodes(text, budget):
            if not (isinstance(node, Scalar) and not node.value.strip()):
                yield from _documents(part, node, has_repeats)
    except yaml.MarkedYAMLError as error:
        raise _described(error, part) from error
    except yaml.YAMLError as error:
        raise ManifestError(f"no valid YAML: {error}", part.place(0, 0)) from error


@dataclass(frozen=True, slots=True)
class _Part:
    """Lines of a file from `first_line` on, as they are parsed."""

    whole: Text
    first_line: int

    @property
    def lines(self) -> list[str]:
        """As many as are looked at for the usual accidents."""
        return self.whole.lines[self.first_line : self.first_line + _HINT_LINES]

    def place(self, line: int, column: int) -> Place:
        return Place(self.whole.name, self.first_line + line + 1, column + 1)


def _documents(part: _Part, node: Node, has_repeats: bool) -> Iterator[Document]:
    first = part.first_line + node.line
    lines = part.whole.lines[first : min(part.first_line + node.end_line + 1, first + _HINT_LINES)]

    def refused(problem: str, at: Node = node, fix: str = "") -> ManifestError:
        if pasted := _pasted(lines):
            row, column, hint = pasted
            return ManifestError(f"{problem}{hint}", Place(part.whole.name, first + row + 1, column + 1), fix)
        return ManifestError(f"{problem}{_hint(lines)}", part.place(at.line, at.column), fix)

    if not isinstance(node, Mapping):
        raise refused(f"{_what_it_is(node.data)} is no Kubernetes object: put one here, or take it out")
    obj = node.data
    missing = [key for key in ("apiVersion", "kind") if not isinstance(obj.get(key), str)]
    if missing:
        written = {str(key).lower(): key for key in obj}
        meant = [f"{written[key.lower()]}: did you mean {key}?" for key in missing if key.lower() in written]
        fix = ", ".join(meant) or _head_of(obj)
        raise refused(f"no Kubernetes object: {' and '.join(missing)} missing", fix=fix)
    if "metadata" in obj and obj["metadata"] is None and (_pasted(lines) or _hint(lines)):
        key = next(key for key, _ in node.pairs if key.value == "metadata")
        raise refused(f"{obj['kind']} without metadata", key)
    for name in ("metadata", "spec"):
        if isinstance(obj.get(name), str) and _WIDE.search(obj[name]):
            raise refused(f"{name} is a text")
    if obj["kind"] == "List" or (obj["kind"].endswith("List") and isinstance(obj.get("items"), list)):
        items = _child(node, "items")
        for entry in items[1].items if items is not None and isinstance(items[1], Sequence) else ():
            yield from _documents(part, entry, has_repeats)
        return
    yield Document(part.whole.name, obj, node, part.whole, has_repeats, part.first_line)


def _what_it_is(data: object) -> str:
    """In words of YAML, not of Python."""
    if data is None:
        return "an empty value (null)"
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, int | float):
        return "a number"
    return "a list" if isinstance(data, list) else "a text"


def _head_of(obj: dict[Any, Any]) -> str:
    """The lines that are missing before something that looks like the inside of a kind."""
    inside = obj.get("spec") if isinstance(obj.get("spec"), dict) else obj
    assert isinstance(inside, dict)
    kind = next((kind for field, kind in _KIND_BY_FIELD.items() if field in inside), "")
    if not kind:
        return "put apiVersion, kind and metadata before it"
    version = "v1" if kind == "Pod" else "resource.k8s.io/v1"
    return f"put before it: {{apiVersion: {version}, kind: {kind}, metadata: {{name: ...}}}}, a line each"


def _child(node: Node, step: str | int) -> tuple[Node | None, Node] | None:
    """The key's and the value's node of a mapping entry, or (None, the node) of a list entry."""
    if isinstance(node, Mapping) and isinstance(step, str):
        return next(((key, value) for key, value in node.pairs if key.value == step), None)
    if isinstance(node, Sequence) and isinstance(step, int) and 0 <= step < len(node.items):
        return None, node.items[step]
    return None


def _described(error: yaml.MarkedYAMLError, part: _Part) -> ManifestError:
    mark = error.problem_mark or error.context_mark
    what = ", ".join(each for each in (error.context, error.problem) if each)
    lines = part.whole.lines
    if mark is None:
        return ManifestError(f"no valid YAML: {what}{_hint(part.lines)}", part.place(0, 0))
    row, column = part.first_line + mark.line, mark.column
    around = range(max(0, row - 1), min(row + 1, len(lines)))
    # The reader stumbles after such a character, at times on the next line.
    pasted = _pasted([lines[number] for number in around])
    if pasted is not None:
        row, column = around[pasted[0]], pasted[1]
    shown = ""
    if row < len(lines):
        begin = max(0, column - _SHOWN_COLUMNS)
        line = lines[row][begin : column + _SHOWN_COLUMNS].replace("\t", "→")
        shown = f"\n  | {line}\n  | {' ' * (column - begin)}^"
    if isinstance(error, TooMuchError):  # it is too much however it is written
        hint = ""
    elif pasted is not None:
        hint = pasted[2]
    else:
        hint = _hint([lines[number] for number in around]) or _hint(part.lines)
    return ManifestError(f"no valid YAML: {what}{hint}{shown}", Place(part.whole.name, row + 1, column + 1))


def _pasted(lines: list[str]) -> tuple[int, int, str] | None:
    """Row, column and hint of the first character that pages and chats put in the place of YAML's own."""
    for row, line in enumerate(lines):
        if found := _WIDE.search(line):
            char = found[0]
            what = "a blank that is none to YAML" if char.isspace() else "full-width punctuation"
            return row, found.start(), f": {what} ({char!r} should be {_PLAIN[char]!r}), as pages and chats put in"
        if found := _DASHES.match(line):
            hint = f": {found[1]!r} is no dash of YAML's; a list entry begins with '- ', a document with '---'"
            return row, found.start(1), hint
    return None


def _hint(lines: list[str]) -> str:
    """Which of the usual accidents the lines look like; empty when none."""
    if pasted := _pasted(lines):
        return pasted[2]
    lines = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if any("\t" in line[: len(line) - len(line.lstrip())] for line in lines):
        return ": a tab in the indentation, YAML allows only spaces"
    fields = [line for line in lines if not line.startswith("---")]
    if len(fields) > 3 and not any(line.startswith(" ") for line in fields):
        return ": no line is indented, the indentation was lost in copying"
    if any(line.strip() in ("...", "…") for line in fields):
        return ": '...' stands for something that was left out; put it in"
    if any(line.lstrip().startswith(("{{", "{%")) for line in fields):
        return ": it looks like a template; render it first"
    return ""
