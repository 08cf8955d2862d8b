"""YAML texts as plain data that remembers where each value stands, at a cost in proportion to the text.

Nodes are put together from the parser's events, which come one by one. PyYAML's own composer refuses an anchor that is
given twice, which the API's reader takes, and would hold a large document twice.

Rules of this module
  1. Depth is counted before anything is read of it, so what reads may recurse.
  2. Aliases are charged with what they expand to, nodes and characters, over the whole text.
  3. Values are what the API server would read: dates and 12:30:45 stay text, though YAML 1.1 has other ideas.
  4. Every failure is a `yaml.YAMLError`; what is refused for its size, not for how it is written, a `TooMuchError`.

Not here: reading files and limits on their size (scheduler.cli.manifests), Kubernetes objects
(scheduler.lint.documents).

Cost: about 5 us an event; of 1.2 million events (5,000 ResourceSlices) half is the parser's.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeAlias

import yaml

DEPTH_MAX: Final = 150
"""Levels of nesting; API objects have less than 30."""

_DEEP: Final = (
    f"nested too deeply: more than {DEPTH_MAX} levels, where API objects have less than 30; is it the right file?"
)
_ENDLESS: Final = "its aliases expand without end; write out what they stand for, or take them out"

_ALIAS_GROWTH_MAX: Final = 20
_ALIAS_NODES_FREE: Final = 20_000
_ALIAS_CHARS_FREE: Final = 1_000_000

_TAG: Final = "tag:yaml.org,2002:"
# As the API's YAML reader: YAML 1.1 without base 60, and with 1e3.
_RESOLVED: Final = {
    f"{_TAG}int": re.compile(r"^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$"),
    f"{_TAG}float": re.compile(
        r"^(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|[0-9][0-9_]*(?=[eE]))(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
}
_RESOLVERS: Final[dict[str, list[tuple[str, re.Pattern[str]]]]] = {
    first: [
        (tag.removeprefix(_TAG), _RESOLVED.get(tag, pattern))
        for tag, pattern in entries
        if tag.removeprefix(_TAG) in ("int", "float", "bool", "null")
    ]
    for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_BOOLEANS: Final = {"yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}
_MERGE: Final = "<<"

# The C parser gives the same events and marks ten times faster; it is absent from pure-Python builds of PyYAML.
_Parser: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TooMuchError(yaml.MarkedYAMLError):
    """A text that is YAML, as far as it was read, and would cost too much."""


class Scalar:
    """A value without parts. `data` is what it means, `value` how it is written, without quotes."""

    __slots__ = ("column", "data", "end_line", "line", "style", "value")

    def __init__(self, data: Any, value: str, style: str | None, event: Any) -> None:
        self.data = data
        self.value = value
        self.style = style
        mark = event.start_mark
        self.line: int = mark.line
        self.column: int = mark.column
        self.end_line: int = event.end_mark.line


class Sequence:
    """A list: its nodes, and their data."""

    __slots__ = ("column", "data", "end_line", "items", "line")

    def __init__(self, event: Any, items: list[Node], end: Any) -> None:
        self.items = items
        self.data: list[Any] = [item.data for item in items]
        mark = event.start_mark
        self.line: int = mark.line
        self.column: int = mark.column
        self.end_line: int = end.end_mark.line


class Mapping:
    """A mapping: pairs of nodes, merged ones first, and the dict they make; `repeated` are keys that it has twice."""

    __slots__ = ("column", "data", "end_line", "line", "pairs", "repeated")

    def __init__(self, event: Any, pairs: list[tuple[Scalar, Node]], repeated: tuple[Scalar, ...], end: Any) -> None:
        self.pairs = pairs
        self.data: dict[Any, Any] = {key.data: value.data for key, value in pairs}
        self.repeated = repeated
        mark = event.start_mark
        self.line: int = mark.line
        self.column: int = mark.column
        self.end_line: int = end.end_mark.line


Node: TypeAlias = Scalar | Sequence | Mapping
"""Lines and columns count from 0."""


class Budget:
    """What the aliases of one text may expand to; shared by those who read it in pieces."""

    def __init__(self, length: int) -> None:
        self._nodes = 0
        self._alias_nodes = 0
        self._alias_chars = 0
        self._alias_chars_max: Final = _ALIAS_CHARS_FREE + _ALIAS_GROWTH_MAX * length

    def charge(self, nodes: int, nodes_read: int, chars: int) -> bool:
        """Whether an alias may stand for so much, after so many nodes that were really there."""
        self._alias_nodes += nodes
        self._alias_chars += chars
        return (
            self._alias_nodes <= _ALIAS_NODES_FREE + _ALIAS_GROWTH_MAX * (self._nodes + nodes_read)
            and self._alias_chars <= self._alias_chars_max
        )

    def read(self, nodes: int) -> None:
        """A document of so many nodes was read."""
        self._nodes += nodes


@contextmanager
def without_collector() -> Iterator[None]:
    """For work that makes much that stays: the collector would look through millions of nodes again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def load(text: str | bytes) -> Any:
    """The data of a text with one document; None when there is none.

    Raises:
        yaml.YAMLError: It is no YAML, nested too deeply, expands without end, or holds several documents.
    """
    root = compose(text)
    return None if root is None else root.data


def compose(text: str | bytes) -> Node | None:
    """As `load`, with places."""
    documents = read_nodes(text)
    root, _ = next(documents, (None, False))
    following, _ = next(documents, (None, False))
    if following is not None:
        raise yaml.MarkedYAMLError(
            "expected a single document",
            None,
            "but found another document",
            yaml.Mark("<text>", 0, following.line, following.column, None, 0),
        )
    return root


def read_nodes(text: str | bytes, budget: Budget | None = None) -> Iterator[tuple[Node, bool]]:
    """The documents of a text, one by one, and whether some mapping in them has a key twice.

    Raises:
        yaml.YAMLError: The text is no YAML from here on, nested too deeply, or expands without end.
    """
    try:
        parser = _Parser(text)
    except UnicodeError as error:
        raise yaml.YAMLError(f"no text: {error}") from error
    try:
        reader = _Reader(parser, budget or Budget(len(text)))
        while (node := reader.next_document()) is not None:
            yield node, reader.has_repeats
    except (UnicodeError, OverflowError) as error:
        raise yaml.YAMLError(str(error)) from error
    except yaml.MarkedYAMLError as error:
        if "nesting depth" in str(error.problem):  # libyaml's limit, 1,000 levels; it reads ahead of its events
            raise TooMuchError(problem=_DEEP, problem_mark=error.problem_mark) from None
        raise
    finally:
        parser.dispose()


def _refuse(problem: str, event: Any) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


_Anchored: TypeAlias = tuple[Node, int, int]
"""What an anchor names, and its size: nodes and characters with all aliases written out."""


class _Reader:
    """`_nodes` and `_chars` count a document with all aliases written out, `_count` without."""

    def __init__(self, parser: Any, budget: Budget) -> None:
        self._next: Final = parser.get_event
        self._budget: Final = budget
        self._plain: Final[dict[str, Any]] = {}

    def next_document(self) -> Node | None:
        while not isinstance(event := self._next(), yaml.DocumentStartEvent):
            if isinstance(event, yaml.StreamEndEvent) or event is None:
                return None
        self.has_repeats = False
        self._anchors: dict[str, _Anchored | None] = {}
        self._count = self._nodes = self._chars = 0
        with without_collector():
            root = self._node(self._next(), 0)
        self._budget.read(self._count)
        return root

    def _node(self, event: Any, depth: int) -> Node:
        """What begins with the event."""
        if type(event) is yaml.AliasEvent:
            return self._alias(event)
        nodes, chars = self._nodes, self._chars
        self._count += 1
        self._nodes += 1
        node: Node
        if type(event) is yaml.ScalarEvent:
            self._chars += len(event.value)
            node = self._scalar(event)
        else:
            if depth >= DEPTH_MAX:
                raise TooMuchError(problem=_DEEP, problem_mark=event.start_mark)
            if event.anchor is not None:
                self._anchors[event.anchor] = None
            kind = "map" if type(event) is yaml.MappingStartEvent else "seq"
            if event.tag not in (None, "!", f"{_TAG}{kind}"):
                _refuse(f"the tag {event.tag!r} has no meaning here", event)
            node = (self._mapping if kind == "map" else self._sequence)(event, depth + 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, self._nodes - nodes, self._chars - chars)
        return node

    def _sequence(self, start: Any, depth: int) -> Sequence:
        items = []
        while type(event := self._next()) is not yaml.SequenceEndEvent:
            items.append(self._node(event, depth))
        return Sequence(start, items, event)

    def _mapping(self, start: Any, depth: int) -> Mapping:
        merged: list[tuple[Scalar, Node]] = []
        pairs: list[tuple[Scalar, Node]] = []
        keys: set[str] = set()
        repeated: list[Scalar] = []
        while type(event := self._next()) is not yaml.MappingEndEvent:
            key = self._node(event, depth)
            if not isinstance(key, Scalar):
                _refuse("found unhashable key", event)
            value = self._node(self._next(), depth)
            if key.value == _MERGE and key.style is None:
                merged += _merged(value, event)
                continue
            if key.value in keys and len(repeated) < 100:
                repeated.append(key)
            keys.add(key.value)
            pairs.append((key, value))
        self.has_repeats = self.has_repeats or bool(repeated)
        return Mapping(start, [*merged, *pairs], tuple(repeated), event)

    def _alias(self, event: Any) -> Node:
        if event.anchor not in self._anchors:
            _refuse(f"found undefined alias {event.anchor!r}", event)
        found = self._anchors[event.anchor]
        # None: it stands inside of what it means.
        if found is None or not self._budget.charge(found[1], self._count, found[2]):
            raise TooMuchError(problem=_ENDLESS, problem_mark=event.start_mark)
        self._nodes += found[1]
        self._chars += found[2]
        return found[0]

    def _scalar(self, event: Any) -> Scalar:
        value: str = event.value
        tag = event.tag
        if tag is None or tag == "!":
            if not event.implicit[0] or tag == "!":
                return Scalar(value, value, event.style, event)
            try:
                return Scalar(self._plain[value], value, None, event)
            except KeyError:
                data = _plain_data(value, event)
                if len(value) < 40 and len(self._plain) < 10_000:
                    self._plain[value] = data
                return Scalar(data, value, None, event)
        return Scalar(_tagged_data(tag, value, event), value, event.style, event)


def _merged(value: Node, key: Any) -> list[tuple[Scalar, Node]]:
    """What `<<: *a` and `<<: [*a, *b]` merge. It comes before own fields, which win."""
    merged: list[tuple[Scalar, Node]] = []
    # Of several, the first wins, so it comes last.
    for part in reversed(value.items) if isinstance(value, Sequence) else (value,):
        if not isinstance(part, Mapping):
            _refuse("expected a mapping or list of mappings for merging", key)
        merged += part.pairs
    return merged


def _plain_data(value: str, event: Any) -> Any:
    for tag, pattern in _RESOLVERS.get(value[:1], ()):
        if pattern.match(value):
            return _typed(tag, value, event)
    return value


def _tagged_data(tag: str, value: str, event: Any) -> Any:
    name = tag.removeprefix(_TAG)
    if name in ("str", "timestamp"):
        return value
    if name not in ("int", "float", "bool", "null"):
        _refuse(f"could not determine a constructor for the tag {tag!r}", event)
    return _typed(name, value, event)


def _typed(tag: str, value: str, event: Any) -> Any:
    try:
        if tag == "int":
            return _integer(value.replace("_", ""))
        if tag == "float":
            return _float(value.replace("_", "").lower())
        if tag == "bool":
            return _BOOLEANS[value.lower()]
    except (ValueError, KeyError) as error:
        raise yaml.MarkedYAMLError(
            problem=f"no {tag}: {value[:40]!r} ({error})", problem_mark=event.start_mark
        ) from error
    return None


def _integer(value: str) -> int:
    sign = -1 if value.startswith("-") else 1
    digits = value.lstrip("+-")
    if digits.startswith(("0b", "0x")):
        return sign * int(digits, 0)
    return sign * int(digits, 8 if digits.startswith("0") and digits != "0" else 10)


def _float(value: str) -> float:
    if value.endswith((".inf", ".nan")):
        return float(value.replace(".", ""))
    return float(value)


def without_nulls(value: Any) -> Any:
    """A document without the members that are null: they mean the same as members that are left out."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value
