"""Label selectors: as people type them, `pool=gpu,zone in (a, b),!spot`, and as objects of the API.

Rules of this module, for texts
  1. All terms must hold. `=` and `==` are the same; `!=` and `notin` also hold where the key is absent.
  2. A text that cannot be read is refused with the place and the expected form. So is an empty selector: to select all,
     the user leaves it out.

Not here: node selectors of pods (`node_selectors`).

Source: k8s.io/apimachinery v0.36.3 pkg/labels/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

import allocator
from allocator.pools.node_match import Requirement, check_term, parse_int64, values_of
from allocator.values.names import is_label_key, is_label_value
from scheduler.model.objects import LabelSelector

_ORDER: Final = {">": "Gt", "<": "Lt"}
_NAME: Final = "at most 63 characters of letters, digits, '-', '_' or '.', first and last a letter or digit"
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


class TextSelector(Struct, frozen=True):
    """A selector and how it was typed."""

    text: str
    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


def parse_label_selector(text: str) -> TextSelector:
    """A selector of labels. Raises SelectorTextError."""
    selector = _parse(text)
    problems = [problem for one in selector.requirements for problem in _label_problems(one)]
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


def selects_slice(selector: TextSelector, slice_: allocator.ResourceSlice) -> bool:
    return selector.matches({"driver": slice_.driver, "pool": slice_.pool})


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """A selector of an object, checked. Equal ones are equal however they were written.

    Hashed once: it is part of questions that are asked in every cycle, and may have thousands of requirements.

    Attributes:
        requirements: All must hold; None: it matches nothing, as it is absent or cannot be read.
    """

    requirements: tuple[Requirement, ...] | None
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.requirements))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Selector) and self._hash == other._hash and self.requirements == other.requirements
        )

    @property
    def is_empty(self) -> bool:
        """Whether it matches everything because it demands nothing."""
        return self.requirements == ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.requirements is None:
            return False
        for one in self.requirements:  # noqa: SIM110 - half the time of all()
            if not one.matches(labels):
                return False
        return True

    def and_labels(self, labels: Mapping[str, str]) -> Selector:
        """The selector that demands these labels, too."""
        if self.requirements is None or not labels:
            return self
        more = tuple(Requirement(key, "In", (value,)) for key, value in sorted(labels.items()))
        return Selector((*more, *self.requirements))


NOTHING: Final = Selector(None)


def compile_label_selector(selector: LabelSelector | None) -> Selector:
    """Check and prepare a selector; never raises."""
    if selector is None:
        return NOTHING
    requirements = [
        allocator.NodeSelectorRequirement(key, "In", (value,))
        for key, value in sorted((selector.match_labels or {}).items())
    ]
    for one in selector.match_expressions or ():
        if one.operator in _ORDER.values():
            return NOTHING  # for nodes only
        requirements.append(allocator.NodeSelectorRequirement(one.key, one.operator, one.values or ()))
    compiled = check_term(allocator.NodeSelectorTerm(tuple(requirements), ()))
    return NOTHING if compiled.problems else Selector(compiled.requirements)


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
        return Requirement(found["absent"], "DoesNotExist", ())
    if found["exists"] is not None:
        return Requirement(found["exists"], "Exists", ())
    if found["set_key"] is not None:
        values = values_of([value.strip() for value in found["set_values"].split(",")])
        return Requirement(found["set_key"], "In" if found["set_operator"] == "in" else "NotIn", values)
    key, value = found["key"], found["value"]
    if found["operator"] in _ORDER:
        bound = parse_int64(value)
        if bound is None:
            raise SelectorTextError(f"{key}{found['operator']}{value}: it takes a whole number")
        return Requirement(key, _ORDER[found["operator"]], (value,), bound)
    return Requirement(key, "NotIn" if found["operator"] == "!=" else "In", (value,))


def _label_problems(one: Requirement) -> Iterator[str]:
    if not is_label_key(one.key):
        yield f'"{one.key}": not a label key: an optional DNS prefix and "/", then {_NAME}'
    for value in sorted(one.values):
        if not is_label_value(value):
            yield f'"{value}": not a label value: {_NAME}'
