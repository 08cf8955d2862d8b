"""Selectors as people type them: `pool=gpu,zone in (a, b),!spot`, as `kubectl get -l` reads them.

Rules of this module
  1. All terms must hold. `=` and `==` are the same; `!=` and `notin` also hold where the key is absent.
  2. What cannot be read is refused with the place and what was expected; an empty selector is refused, since "all" is
     what leaving it out means.

Not here: LabelSelector objects of API specs (`selectors`).

Source: k8s.io/apimachinery v0.36.3 pkg/labels/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from allocator import ResourceSlice
from allocator.node_match import parse_int64
from scheduler.model.selectors import Requirement, label_problems

_ORDER: Final = {">": "Gt", "<": "Lt"}
SLICE_KEYS: Final = ("driver", "pool")
_TERM: Final = re.compile(
    r"""\s*(?:
        !\s*(?P<absent>[^\s!=<>,()]+)
      | (?P<set_key>[^\s!=<>,()]+)\s+(?P<set_operator>in|notin)\s*\((?P<set_values>[^()]*)\)
      | (?P<key>[^\s!=<>,()]+)\s*(?P<operator>==|=|!=|>|<)\s*(?P<value>[^\s!=<>,()]*)
      | (?P<exists>[^\s!=<>,()]+)
    )\s*(?P<end>,|$)""",
    re.VERBOSE,
)


class SelectorTextError(ValueError):
    """The text is no selector; says where and why."""


@dataclass(frozen=True, slots=True)
class TextSelector:
    """A selector and how it was typed."""

    text: str
    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


def parse_label_selector(text: str) -> TextSelector:
    """A selector of labels. Raises SelectorTextError."""
    selector = _parse(text)
    problems = [problem for one in selector.requirements for problem in label_problems(one.key, sorted(one.values))]
    if problems:
        raise SelectorTextError("; ".join(problems))
    return selector


def parse_slice_selector(text: str) -> TextSelector:
    """A selector of ResourceSlices by `driver` and `pool`, so that it takes pools whole. Raises SelectorTextError."""
    selector = _parse(text)
    for one in selector.requirements:
        if one.key not in SLICE_KEYS:
            raise SelectorTextError(f"unknown key {one.key!r}: slices are selected by {' and '.join(SLICE_KEYS)}")
    return selector


def selects_slice(selector: TextSelector, slice_: ResourceSlice) -> bool:
    return selector.matches({"driver": slice_.driver, "pool": slice_.pool})


def _parse(text: str) -> TextSelector:
    if not text.strip():
        raise SelectorTextError("the selector is empty; leave it out to select all")
    requirements: list[Requirement] = []
    position, has_more = 0, True
    while has_more:
        found = _TERM.match(text, position)
        if found is None:
            rest = text[position:].strip() or "the end"
            raise SelectorTextError(
                f"cannot read {rest!r} at character {position + 1}: terms are key=value, key!=value, key in (a, b), "
                "key notin (a, b), key>1, key<1, key and !key, with commas between"
            )
        requirements.append(_requirement(found))
        position, has_more = found.end(), found["end"] == ","
    return TextSelector(text, tuple(requirements))


def _requirement(found: re.Match[str]) -> Requirement:
    if found["absent"] is not None:
        return Requirement(found["absent"], "DoesNotExist", frozenset())
    if found["exists"] is not None:
        return Requirement(found["exists"], "Exists", frozenset())
    if found["set_key"] is not None:
        values = frozenset(value.strip() for value in found["set_values"].split(","))
        return Requirement(found["set_key"], "In" if found["set_operator"] == "in" else "NotIn", values)
    key, value = found["key"], found["value"]
    if found["operator"] in _ORDER:
        bound = parse_int64(value)
        if bound is None:
            raise SelectorTextError(f"{key}{found['operator']}{value}: it takes a whole number")
        return Requirement(key, _ORDER[found["operator"]], frozenset({value}), bound)
    return Requirement(key, "NotIn" if found["operator"] == "!=" else "In", frozenset({value}))
