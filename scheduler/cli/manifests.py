"""Manifest files: YAML or JSON documents that remember where each field stands.

What a person pastes is often broken in a few typical ways (lost indentation, tabs, full-width punctuation); the error
says where and which of these it looks like.

Not here: what the objects mean (allocator, cel, lint).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

FieldPath: TypeAlias = tuple[str | int, ...]

# CSafeLoader parses in C and gives the same marks; it is absent from pure-Python builds of PyYAML.
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
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


class ManifestError(Exception):
    """A file that cannot be read as manifests. The text begins with `file:line:column: `."""


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
    def name(self) -> str:
        """`Kind namespace/name` for messages."""
        metadata = self.obj.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or "<unnamed>"
        namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        return f"{self.kind} {namespace}{name}"

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
            return Place(start.file, start.line, start.column + offset + (1 if node.style in ("'", '"') else 0))
        before = node.value[:offset]
        row = before.count("\n")
        block = self._text.splitlines()[start.line : node.end_mark.line]
        # A block's indentation is that of its first line that has text.
        indent = next((len(line) - len(line.lstrip(" ")) for line in block if line.strip()), 0)
        return Place(start.file, start.line + 1 + row, indent + offset - (before.rfind("\n") + 1) + 1)

    def _find(self, path: FieldPath) -> tuple[yaml.Node, yaml.Node | None]:
        node, key_node = self._node, None
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            key_node, node = found
        return node, key_node


def read_manifests(paths: Sequence[str | Path]) -> list[Document]:
    """The objects of several files, in order; "-" is standard input; `List` objects are taken apart.

    Raises:
        ManifestError: A file cannot be read, is no YAML, or holds something that is no Kubernetes object.
    """
    return [document for path in paths for document in read_manifest(path)]


def read_manifest(path: str | Path) -> Iterator[Document]:
    """The objects of one file."""
    name = "<stdin>" if str(path) == "-" else str(path)
    text = _read(path, name)
    loader = _Loader(text)
    try:
        while True:
            try:
                if not loader.check_node():
                    return
                node = loader.get_node()
            except yaml.MarkedYAMLError as error:
                raise ManifestError(_describe(error, name, text)) from error
            except yaml.YAMLError as error:
                raise ManifestError(f"{name}: {error}") from error
            if isinstance(node, yaml.ScalarNode) and not node.value.strip():
                continue
            yield from _documents(name, text, node)
    finally:
        loader.dispose()


def _read(path: str | Path, name: str) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(f"{name}: not UTF-8 text (byte {error.start}): is this a manifest?") from error
    except OSError as error:
        raise ManifestError(f"{name}: {error.strerror or error}") from error


def _documents(name: str, text: str, node: yaml.Node) -> Iterator[Document]:
    place = Place(name, node.start_mark.line + 1, node.start_mark.column + 1)
    constructor = yaml.SafeLoader("")
    try:
        obj = constructor.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise ManifestError(_describe(error, name, text)) from error
    except ValueError as error:  # a date or number that is none
        raise ManifestError(f"{place}: {error}") from error
    finally:
        constructor.dispose()
    if not isinstance(obj, dict):
        raise ManifestError(f"{place}: a {type(obj).__name__} is no Kubernetes object{_hint(text)}")
    missing = [key for key in ("apiVersion", "kind") if not isinstance(obj.get(key), str)]
    if missing:
        raise ManifestError(f"{place}: no Kubernetes object: {' and '.join(missing)} missing{_hint(text)}")
    if "metadata" in obj and obj["metadata"] is None and (hint := _hint(text)):
        raise ManifestError(f"{place}: {obj['kind']} without metadata{hint}")
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


def _describe(error: yaml.MarkedYAMLError, name: str, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    what = ", ".join(part for part in (error.context, error.problem) if part)
    lines = text.splitlines()
    around = "\n".join(lines[max(0, mark.line - 1) : mark.line + 1]) if mark else text
    shown = ""
    if mark and mark.line < len(lines):
        line = lines[mark.line].replace("\t", "→")
        shown = f"\n  | {line}\n  | {' ' * mark.column}^"
    return f"{place}: no valid YAML: {what}{_hint(around) or _hint(text)}{shown}"


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
    return ""
