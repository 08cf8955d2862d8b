"""Dumps in JSON (`kubectl get … -o json`, `dra-scheduler dump -o json`), read without a place for each field.

Rules of this module
  1. Only lists of objects that an API server printed: their fields need no line numbers, nobody wrote them.
  2. What is broken, deep, or has a field twice is left to the reader of manifests, which says where.

Not here: manifests, and YAML (`manifests`).

Cost: 25 ns a byte; with places it is 700.
"""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

from scheduler.yaml_reading import DEPTH_MAX

_DEEP: Final = b"\n" + b"  " * (DEPTH_MAX + 1)
"""A line of what is too deep, as each level is two spaces more; the reader of manifests refuses it."""
_HIDDEN: Final = ("\\u0022", "\\u003a", "\\u003A", " :", "\t:", "\n:", "\r:")
"""With none of them in a text, `":` is after each field's name, and else only where it is printed again, too."""


class _LeftToOthersError(ValueError):
    """Not for this reader."""


def dumped_objects(text: str) -> list[dict[str, Any]] | None:
    """The objects of a dump; None when it is none, or must be read with places."""
    from scheduler.embedded.loading import is_from_a_server

    if not text.lstrip().startswith("{"):
        return None
    try:
        document = json.loads(text, parse_constant=_no_number)
        printed = orjson.dumps(document, option=orjson.OPT_INDENT_2)
        if text.count('":') != printed.count(b'":') or any(one in text for one in _HIDDEN):
            json.loads(text, object_pairs_hook=_once)  # less than what was read is printed, or that cannot be known
    except (ValueError, TypeError, RecursionError):  # TypeError: large numbers, half characters, 255 levels
        return None
    if _DEEP in printed:
        return None
    items = document.get("items")
    if document.get("apiVersion") != "v1" or document.get("kind") != "List" or not isinstance(items, list):
        return None
    if not all(isinstance(item, dict) and _has_kind(item) and is_from_a_server(item) for item in items):
        return None
    return items


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _LeftToOthersError


def _no_number(text: str) -> float:
    raise _LeftToOthersError(text)


def _has_kind(item: dict[str, Any]) -> bool:
    kind = item.get("kind")
    return isinstance(item.get("apiVersion"), str) and isinstance(kind, str) and not kind.endswith("List")
