"""Manifest texts: YAML or JSON documents that remember where each field stands.

What a person pastes is often broken in a few typical ways (lost indentation, tabs, full-width punctuation); the error
says where and which of these it looks like.

Rules of this module
  1. Values are what the API server would read: dates and 12:30:45 stay text, though YAML 1.1 has other ideas.
  2. A text never costs much more than its length: aliases that expand without end are refused.

Not here: reading files (scheduler.cli.manifests), what the objects mean (`modernize`, `schema`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml

FieldPath: TypeAlias = tuple[str | int, ...]

_DEPTH_MAX: Final = 150
"""Levels of nesting; API objects have less than 30."""

_ALIAS_GROWTH_MAX: Final = 20
_ALIAS_NODES_FREE: Final = 20_000

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_FLOAT: Final = "tag:yaml.org,2002:float"
_INT: Final = "tag:yaml.org,2002:int"
# As the API's YAML reader: YAML 1.1 without base 60, and with 1e3.
_RESOLVED: Final = {
    _INT: re.compile(r"^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$"),
    _FLOAT: re.compile(
        r"^(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|[0-9][0-9_]*(?=[eE]))(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
}
_FULL_WIDTH: Final = {
    "：": ":",
    "，": ",",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "｛": "{",
    "｝": "}",
    "［": "[",
    "］": "]",
}


def _resolvers() -> dict[Any, list[tuple[str, re.Pattern[str]]]]:
    return {
        first: [(tag, _RESOLVED.get(tag, pattern)) for tag, pattern in entries if tag != _TIMESTAMP]
        for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class _PythonLoader(yaml.SafeLoader):
    yaml_implicit_resolvers = _resolvers()


# The C loader gives the same nodes and marks ten times faster; it is absent from pure-Python builds of PyYAML.
_FastLoader: Final[Any] = (
    type("_FastLoader", (yaml.CSafeLoader,), {"yaml_implicit_resolvers": _resolvers()})
    if hasattr(yaml, "CSafeLoader")
    else _PythonLoader
)


class ManifestError(Exception):
    """A text that cannot be read as manifests. `str` begins with `file:line:column: `; `problem` is the rest."""

    def __init__(self, problem: str, place: Place | str) -> None:
        super().__init__(f"{place}: {problem}")
        self.problem: Final = problem
        self.place: Final = place if isinstance(place, Place) else Place(place, 1, 1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Document:
    """One API object of a file. `obj` is plain data; `place` tells where a field of it stands."""

    file: str
    obj: dict[str, Any]
    _node: yaml.Node = field(repr=False)
    _text: str = field(repr=False)

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
        return int(self._node.start_mark.line) + 1

    def line_text(self, line: int) -> str:
        """A line of the file, without its end; empty when there is none."""
        lines = self._text.split("\n", line)
        return lines[line - 1].rstrip("\r") if 1 <= line <= len(lines) else ""

    def place(self, path: FieldPath = (), *, key: bool = False) -> Place:
        """Where the value at `path` begins, or its key; the nearest parent's place when it is not there."""
        node, key_node = self._find(path)
        mark = (key_node if key and key_node is not None else node).start_mark
        return Place(self.file, mark.line + 1, mark.column + 1)

    def text_place(self, path: FieldPath, offset: int) -> Place:
        """Where character `offset` of the text value at `path` stands, also inside block scalars.

        Exact for plain, quoted (without escapes) and literal scalars; the value's beginning for folded ones.
        """
        node, _ = self._find(path)
        start = self.place(path)
        if not isinstance(node, yaml.ScalarNode) or node.style == ">":
            return start
        if node.style != "|":
            if node.start_mark.line != node.end_mark.line:  # folded: line breaks became blanks
                return start
            return Place(start.file, start.line, start.column + offset + (1 if node.style in ("'", '"') else 0))
        before = node.value[:offset]
        row = before.count("\n")
        block = self._text.splitlines()[start.line : node.end_mark.line]
        # A block's indentation is that of its first line that has text.
        indent = next((len(line) - len(line.lstrip(" ")) for line in block if line.strip()), 0)
        return Place(start.file, start.line + 1 + row, indent + offset - (before.rfind("\n") + 1) + 1)

    def duplicate_keys(self) -> Iterator[tuple[Place, str]]:
        """Keys that a mapping has twice: place of the second, and the key."""
        pending = [self._node]
        while pending:
            node = pending.pop()
            if isinstance(node, yaml.SequenceNode):
                pending += reversed(node.value)
            elif isinstance(node, yaml.MappingNode):
                seen: set[str] = set()
                for key, value in node.value:
                    if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                        if key.value in seen:
                            mark = key.start_mark
                            yield Place(self.file, mark.line + 1, mark.column + 1), key.value
                        seen.add(key.value)
                    pending.append(value)

    def _find(self, path: FieldPath) -> tuple[yaml.Node, yaml.Node | None]:
        node, key_node = self._node, None
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            key_node, node = found
        return node, key_node


def parse_documents(text: str, name: str) -> Iterator[Document]:
    """The objects of one text, in order; `List` objects are taken apart. `name` is the file's, for places.

    Raises:
        ManifestError: The text is no YAML, or holds something that is no Kubernetes object.
    """
    loader = _FastLoader(text)
    try:
        while (node := _next_node(loader, text, name)) is not None:
            if not (isinstance(node, yaml.ScalarNode) and not node.value.strip()):
                _check_size(name, node)
                yield from _documents(name, text, node)
    finally:
        loader.dispose()


def parse_all(text: str, name: str) -> tuple[list[Document], list[ManifestError]]:
    """As `parse_documents`, but a broken document does not hide the others of its file."""
    try:
        return list(parse_documents(text, name)), []
    except ManifestError:
        pass
    documents: list[Document] = []
    errors: list[ManifestError] = []
    for chunk in split_documents(text):
        # Empty lines in front keep every mark where it is in the file.
        padded = "\n" * chunk.first_line + chunk.text
        try:
            documents += parse_documents(padded, name)
        except ManifestError as error:
            errors.append(error)
    return documents, errors


@dataclass(frozen=True, slots=True)
class Chunk:
    """The lines of a file from one `---` to the next; `first_line` counts from 0."""

    first_line: int
    text: str


def split_documents(text: str) -> list[Chunk]:
    """The texts between document separators, each with the separator before it; joined they are `text`."""
    chunks: list[Chunk] = []
    lines = text.splitlines(keepends=True)
    starts = [0, *(number for number, line in enumerate(lines) if number and re.match(r"---(?:\s|$)", line))]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        chunks.append(Chunk(start, "".join(lines[start:end])))
    return chunks


def _next_node(loader: Any, text: str, name: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = loader.get_node() if loader.check_node() else None
        return node
    except yaml.MarkedYAMLError as error:
        raise _described(error, name, text) from error
    except yaml.YAMLError as error:
        raise ManifestError(str(error), name) from error
    except (RecursionError, UnboundLocalError, ValueError, TypeError) as error:
        # libyaml's binding fails in its own ways on nesting without end.
        raise ManifestError(f"no valid YAML: nested too deeply{_hint(text)}", name) from error


def _check_size(name: str, root: yaml.Node) -> None:
    """Refuse nesting and aliases that a walk over the object would not survive."""
    distinct: set[int] = set()
    visited = 0
    pending = [(root, 0)]
    while pending:
        node, depth = pending.pop()
        visited += 1
        distinct.add(id(node))
        if depth > _DEPTH_MAX or visited > _ALIAS_NODES_FREE + _ALIAS_GROWTH_MAX * len(distinct):
            what = "nested too deeply" if depth > _DEPTH_MAX else "its aliases expand without end"
            mark = node.start_mark
            raise ManifestError(f"no API object: {what}", Place(name, mark.line + 1, mark.column + 1))
        if isinstance(node, yaml.SequenceNode):
            pending += ((child, depth + 1) for child in node.value)
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                pending += ((key, depth + 1), (value, depth + 1))


def _documents(name: str, text: str, node: yaml.Node) -> Iterator[Document]:
    place = Place(name, node.start_mark.line + 1, node.start_mark.column + 1)
    constructor = _PythonLoader("")
    try:
        obj = constructor.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _described(error, name, text) from error
    except (ValueError, TypeError, RecursionError) as error:  # a number that is none, a tag out of place
        raise ManifestError(str(error), place) from error
    finally:
        constructor.dispose()
    own = "\n".join(text.splitlines()[node.start_mark.line : node.end_mark.line + 1])
    if not isinstance(obj, dict):
        raise ManifestError(f"a {type(obj).__name__} is no Kubernetes object{_hint(own)}", place)
    missing = [key for key in ("apiVersion", "kind") if not isinstance(obj.get(key), str)]
    if missing:
        raise ManifestError(f"no Kubernetes object: {' and '.join(missing)} missing{_hint(own)}", place)
    if "metadata" in obj and obj["metadata"] is None and (hint := _hint(own)):
        raise ManifestError(f"{obj['kind']} without metadata{hint}", place)
    if obj["kind"] == "List" or (obj["kind"].endswith("List") and isinstance(obj.get("items"), list)):
        items = _child(node, "items")
        for entry in items[1].value if items is not None and isinstance(items[1], yaml.SequenceNode) else ():
            yield from _documents(name, text, entry)
        return
    yield Document(name, obj, node, text)


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node | None, yaml.Node] | None:
    """The key's and the value's node of a mapping entry, or (None, the node) of a list entry."""
    if isinstance(node, yaml.MappingNode) and isinstance(step, str):
        return next(((key, value) for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and 0 <= step < len(node.value):
        return None, node.value[step]
    return None


def _described(error: yaml.MarkedYAMLError, name: str, text: str) -> ManifestError:
    mark = error.problem_mark or error.context_mark
    what = ", ".join(part for part in (error.context, error.problem) if part)
    if mark is None:
        return ManifestError(f"no valid YAML: {what}{_hint(text)}", name)
    lines = text.splitlines()
    row, column = mark.line, mark.column
    around = range(max(0, row - 1), min(row + 1, len(lines)))
    # The reader stumbles after such a character, at times on the next line.
    wide = next(((line, at) for line in around for at, char in enumerate(lines[line]) if char in _FULL_WIDTH), None)
    if wide is not None:
        row, column = wide
    shown = ""
    if row < len(lines):
        line = lines[row].replace("\t", "→")
        shown = f"\n  | {line}\n  | {' ' * column}^"
    hint = _hint("\n".join(lines[number] for number in around)) or _hint(text)
    return ManifestError(f"no valid YAML: {what}{hint}{shown}", Place(name, row + 1, column + 1))


def _hint(text: str) -> str:
    """Which of the usual accidents the text looks like; empty when none."""
    wide = next((char for char in text if char in _FULL_WIDTH), None)
    if wide is not None:
        return f": full-width punctuation ({wide!r} should be {_FULL_WIDTH[wide]!r}), as pages and chats put in"
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if any("\t" in line[: len(line) - len(line.lstrip())] for line in lines):
        return ": a tab in the indentation, YAML allows only spaces"
    fields = [line for line in lines if not line.startswith("---")]
    if len(fields) > 3 and not any(line.startswith(" ") for line in fields):
        return ": no line is indented, the indentation was lost in copying"
    if any(line.lstrip().startswith(("{{", "{%")) for line in fields):
        return ": it looks like a template; render it first"
    return ""
