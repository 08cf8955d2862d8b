"""Converted objects as text: what did not change stays as it was written, to the byte.

Rules of this module
  1. The unit is the document between two `---`: changed ones are written anew, with the comments before them.
  2. A refused object is never written.

Not here: what is changed (`engine`).
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, Final

import yaml

from scheduler.lint.documents import split_documents
from scheduler.lint.view import View

_COMMENT: Final = re.compile(r"\s*#")
_WIDTH: Final = 1 << 20  # an expression keeps its lines


class _Dumper(yaml.SafeDumper):
    """Block texts for texts of several lines, lists indented, no aliases."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text_node(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    # Unicode's own line ends are line ends to YAML 1.1 and text to YAML 1.2.
    if any(char in "\x85\u2028\u2029" for char in value) or (style is None and _reads_differently(value)):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _reads_differently(value: str) -> bool:
    """Text that some reader of YAML takes for something else: y, 0o7, 1e3, 12:30."""
    return bool(re.fullmatch(r"[yYnN]|0o[0-7]+|[-+]?\.?[0-9][0-9_.]*(?:[eE][-+]?[0-9]+)?|[0-9]+(?::[0-9]+)+", value))


_Dumper.add_representer(str, _text_node)


def convert_text(text: str, name: str, views: Sequence[View], refused: Collection[int]) -> tuple[str, list[str]]:
    """A file's text with the changed objects in v1, and what a reader should know about it.

    Args:
        views: The objects of the file, in order.
        refused: `id` of the views that must not be written.
    """
    if not any(view.is_changed or view.is_left_out or id(view) in refused for view in views):
        return text, []
    if name.endswith(".json"):
        return _json_text([view.obj for view in views if not view.is_left_out and id(view) not in refused]), []
    notes: list[str] = []
    pieces = []
    chunks = split_documents(text)
    remaining = deque(views)
    for chunk, following in zip(chunks, [*chunks[1:], None], strict=True):
        here = []
        while remaining and (following is None or remaining[0].document.start_line <= following.first_line):
            here.append(remaining.popleft())
        if not any(view.is_changed or view.is_left_out or id(view) in refused for view in here):
            pieces.append(chunk.text)
            continue
        written = [view for view in here if not view.is_left_out and id(view) not in refused]
        head, has_more = _head(chunk.text)
        if has_more and written:
            notes.append(f"{name}:{chunk.first_line + 1}: comments inside {written[0].document.name} are lost")
        if not written:
            continue
        pieces.append(head + "---\n".join(yaml_text(view.obj) for view in written))
    return _joined(pieces), notes


def _joined(pieces: Sequence[str]) -> str:
    """The documents of a file, each but the first after a separator."""
    joined: list[str] = []
    has_text = False
    for piece in pieces:
        if joined and not joined[-1].endswith("\n"):
            joined.append("\n")
        if has_text and not re.match(r"---(?:\s|$)", piece):
            joined.append("---\n")
        if piece:
            joined.append(piece)
        has_text = has_text or bool(piece.strip())
    return "".join(joined)


def join_files(texts: Sequence[str]) -> str:
    """Several files' documents as one text."""
    return _joined([text for text in texts if text.strip()])


def _head(text: str) -> tuple[str, bool]:
    """The separator and the comments before the first field; and whether there are comments after it."""
    lines = text.splitlines(keepends=True)
    length = 0
    while length < len(lines) and (
        not lines[length].strip() or _COMMENT.match(lines[length]) or re.match(r"---\s*(#|$)", lines[length])
    ):
        length += 1
    has_more = any(re.search(r"(?:^|\s)#", line) for line in lines[length:])
    return "".join(lines[:length]), has_more


def yaml_text(obj: Any) -> str:
    """An object as YAML that every reader reads alike."""
    return yaml.dump(obj, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=_WIDTH)


def _json_text(objects: Sequence[Any]) -> str:
    whole = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
