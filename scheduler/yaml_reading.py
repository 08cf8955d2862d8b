"""YAML texts as plain data that remembers where each value stands, at a cost in proportion to the text.

PyYAML composes nodes by recursion, in C where it can: 40,000 opening brackets overflow the stack and end the process.
Here nodes are put together from the parser's events, which come one by one, with a stack of our own.

Rules of this module
  1. Nothing recurses. Depth is counted before anything is built on it.
  2. Aliases are charged with what they expand to, nodes and characters, over the whole text.
  3. Values are what the API server would read: dates and 12:30:45 stay text, though YAML 1.1 has other ideas.
  4. Every failure is a `yaml.YAMLError`; what is refused for its size, not for how it is written, a `TooMuchError`.
  5. The limit on depth is ours, in our words: libyaml has had one of its own since 0.2.6, and reads ahead.

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

_READ_AHEAD: Final = 2_048
"""Characters that the parser may have read beyond its last event: a key has at most 1,024."""

_OPENED_AHEAD: Final = 40
"""With fewer brackets among them, depth is not what is wrong with a text."""

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

    def __init__(self, event: Any) -> None:
        self.items: list[Node] = []
        self.data: list[Any] = []
        mark = event.start_mark
        self.line: int = mark.line
        self.column: int = mark.column
        self.end_line: int = mark.line


class Mapping:
    """A mapping: pairs of nodes, merged ones first, and the dict they make; `repeated` are keys that it has twice."""

    __slots__ = ("column", "data", "end_line", "line", "pairs", "repeated")

    def __init__(self, event: Any) -> None:
        self.pairs: list[tuple[Scalar, Node]] = []
        self.data: dict[Any, Any] = {}
        self.repeated: tuple[Scalar, ...] = ()
        mark = event.start_mark
        self.line: int = mark.line
        self.column: int = mark.column
        self.end_line: int = mark.line


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
        yield from _read(text, budget or Budget(len(text)))
    except (yaml.scanner.ScannerError, yaml.parser.ParserError) as error:
        raise _too_deep_before(error, text) or error from None


def _read(text: str | bytes, budget: Budget) -> Iterator[tuple[Node, bool]]:
    try:
        parser = _Parser(text)
    except UnicodeError as error:
        raise yaml.YAMLError(f"no text: {error}") from error
    try:
        builder = _Builder(parser, budget)
        while (node := builder.next_document()) is not None:
            yield node, builder.has_repeats
    except (UnicodeError, OverflowError) as error:
        raise yaml.YAMLError(str(error)) from error
    finally:
        parser.dispose()


def _too_deep_before(error: yaml.MarkedYAMLError, text: str | bytes) -> TooMuchError | None:
    """That the text is too deep for us before the place where it is wrong for the parser; None when it is not.

    The parser reads a thousand characters ahead of its events. Of a text that ends there it has all that come before.
    """
    mark = error.problem_mark
    if mark is None:
        return None
    before = (text.decode(errors="replace") if isinstance(text, bytes) else text)[: mark.index]
    recent = before[-_READ_AHEAD:]
    if recent.count("[") + recent.count("{") > _OPENED_AHEAD:
        try:
            for _ in _read(before, Budget(len(text))):
                pass
        except TooMuchError as found:
            return found
        except yaml.YAMLError:  # it ends in the middle
            pass
    if "nesting depth" in str(error.problem):  # a limit below ours
        return TooMuchError(problem=_DEEP, problem_mark=mark)
    return None


def _refuse(problem: str, event: Any) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


_Anchored: TypeAlias = tuple[Node, int, int]
"""What an anchor names, and its size: nodes and characters with all aliases written out."""


class _Frame:
    """A list or mapping that is being read."""

    __slots__ = ("anchor", "chars", "has_merge", "key", "keys", "node", "nodes")

    def __init__(self, node: Sequence | Mapping, anchor: str | None, nodes: int, chars: int) -> None:
        self.node = node
        self.anchor = anchor
        self.nodes = nodes
        self.chars = chars
        self.key: Scalar | None = None
        self.keys: set[str] = set()
        self.has_merge = False


class _Builder:
    def __init__(self, parser: Any, budget: Budget) -> None:
        self._parser = parser
        self._budget = budget
        self._plain: dict[str, Any] = {}
        self.has_repeats = False

    def next_document(self) -> Node | None:
        get_event = self._parser.get_event
        while not isinstance(event := get_event(), yaml.DocumentStartEvent):
            if isinstance(event, yaml.StreamEndEvent) or event is None:
                return None
        self.has_repeats = False
        with without_collector():
            return self._document(get_event)

    def _document(self, get_event: Any) -> Node:
        """The nodes of one document.

        `nodes` and `chars` count what was read with all aliases written out; their difference over a part is its size.
        """
        stack: list[_Frame] = []
        anchors: dict[str, _Anchored | None] = {}
        root: Node | None = None
        count = nodes = chars = 0
        while True:
            event = get_event()
            kind = type(event)
            node: Node
            if kind is yaml.ScalarEvent:
                node = self._scalar(event)
                count += 1
                nodes += 1
                chars += len(event.value)
                if event.anchor is not None:
                    anchors[event.anchor] = (node, 1, len(event.value))
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                node = _opened(event, len(stack))
                if event.anchor is not None:
                    anchors[event.anchor] = None
                stack.append(_Frame(node, event.anchor, nodes, chars))
                count += 1
                nodes += 1
                continue
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                frame = stack.pop()
                node = frame.node
                node.end_line = event.end_mark.line
                if isinstance(node, Mapping):
                    if frame.has_merge:
                        _merge(node, event)
                    self.has_repeats = self.has_repeats or bool(node.repeated)
                if frame.anchor is not None:
                    anchors[frame.anchor] = (node, nodes - frame.nodes, chars - frame.chars)
            elif kind is yaml.AliasEvent:
                node, more_nodes, more_chars = self._alias(anchors, event, count)
                nodes += more_nodes
                chars += more_chars
            else:  # the document's end
                self._budget.read(count)
                assert root is not None
                return root
            if stack:
                _add(stack[-1], node, event)
            else:
                root = node

    def _alias(self, anchors: dict[str, _Anchored | None], event: Any, count: int) -> _Anchored:
        found = anchors.get(event.anchor)
        if found is None and event.anchor not in anchors:
            _refuse(f"found undefined alias {event.anchor!r}", event)
        # None: it stands inside of what it means.
        if found is None or not self._budget.charge(found[1], count, found[2]):
            raise TooMuchError(problem=_ENDLESS, problem_mark=event.start_mark)
        return found

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


def _opened(event: Any, depth: int) -> Sequence | Mapping:
    if depth >= DEPTH_MAX:
        raise TooMuchError(problem=_DEEP, problem_mark=event.start_mark)
    is_map = isinstance(event, yaml.MappingStartEvent)
    if event.tag not in (None, "!", f"{_TAG}{'map' if is_map else 'seq'}"):
        _refuse(f"the tag {event.tag!r} has no meaning here", event)
    return Mapping(event) if is_map else Sequence(event)


def _add(frame: _Frame, node: Node, event: Any) -> None:
    parent = frame.node
    if isinstance(parent, Sequence):
        parent.items.append(node)
        parent.data.append(node.data)
        return
    key = frame.key
    if key is None:
        if not isinstance(node, Scalar):
            _refuse("found unhashable key", event)
        frame.key = node
        return
    frame.key = None
    parent.pairs.append((key, node))
    if key.value == _MERGE and key.style is None:
        frame.has_merge = True
        return
    if key.value in frame.keys:
        parent.repeated = (*parent.repeated, key) if len(parent.repeated) < 100 else parent.repeated
    else:
        frame.keys.add(key.value)
    parent.data[key.data] = node.data


def _merge(mapping: Mapping, event: Any) -> None:
    """`<<: *a` and `<<: [*a, *b]`: what is merged comes first, and own fields win."""
    merged: list[tuple[Scalar, Node]] = []
    own = []
    for key, value in mapping.pairs:
        if key.value != _MERGE or key.style is not None:
            own.append((key, value))
            continue
        # Of several, the first wins, so it comes last.
        for part in reversed(value.items) if isinstance(value, Sequence) else (value,):
            if not isinstance(part, Mapping):
                _refuse("expected a mapping or list of mappings for merging", event)
            merged += part.pairs
    mapping.pairs = [*merged, *own]
    mapping.data = {key.data: value.data for key, value in mapping.pairs}


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
