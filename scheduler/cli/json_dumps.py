"""Dumps in JSON (`kubectl get … -o json`, `dra-scheduler dump -o json`), read without a place for each field.

Rules of this module
  1. Only lists of objects that an API server printed: their fields need no line numbers, nobody wrote them.
  2. What is broken, deep, or has a field twice is left to the reader of manifests, which says where.

Not here: manifests, and YAML (`manifests`).

Cost: 50 ns a byte; with places it is 700.
"""

from __future__ import annotations

import json
from typing import Any, Final

from scheduler.yaml_reading import DEPTH_MAX

_CONTAINERS: Final = (dict, list)


class _LeftToOthersError(ValueError):
    """Not for this reader."""


def dumped_objects(text: str) -> list[dict[str, Any]] | None:
    """The objects of a dump; None when it is none, or must be read with places."""
    from scheduler.embedded.loading import is_from_a_server

    if not text.lstrip().startswith("{"):
        return None
    try:
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    items = document.get("items")
    if document.get("apiVersion") != "v1" or document.get("kind") != "List" or not isinstance(items, list):
        return None
    if not all(isinstance(item, dict) and _has_kind(item) and is_from_a_server(item) for item in items):
        return None
    return items if _is_shallow(items) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    obj = dict(pairs)
    if len(obj) != len(pairs):
        raise _LeftToOthersError
    return obj


def _no_number(text: str) -> float:
    raise _LeftToOthersError(text)


def _has_kind(item: dict[str, Any]) -> bool:
    kind = item.get("kind")
    return isinstance(item.get("apiVersion"), str) and isinstance(kind, str) and not kind.endswith("List")


def _is_shallow(items: list[Any]) -> bool:
    level: list[Any] = [items]
    for _ in range(DEPTH_MAX):
        level = [
            below
            for one in level
            for below in (one.values() if type(one) is dict else one)
            if type(below) in _CONTAINERS
        ]
        if not level:
            return True
    return False
