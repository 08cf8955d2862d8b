"""Sentences made from values: plurals, lists that are cut, parts that are left out, and what a reader may see.

A template is a sentence with fields in braces:
  `{node}`                  the value as text
  `{nodes:node|nodes}`      the first word for one, the second for any other number of them; a number counts itself
  `{claim:ResourceClaim}`   a pod's or claim's key with its noun: `ResourceClaim team/a`, `a ResourceClaim of another
                            namespace`
  `{missing:pod}`           several keys likewise: `pods team/a, team/b and 2 more`
  `[; nearest: {meant}]`    left out where one of its fields is empty: None, "", 0 or no element; brackets may be nested

Rules of this module
  1. A key of another namespace is named only to a reader who may read that namespace.
  2. A sentence names at most as many pods as it has room for: `LENGTH` characters, one pod at least.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Sized
from functools import cache
from typing import Final, TypeAlias

from msgspec import Struct

from scheduler.model.keys import ClaimKey, PodKey
from scheduler.model.objects import Pod

LENGTH: Final = 160
"""Characters of a sentence, beyond which fewer pods are named."""
_PODS_NAMED: Final = 4
_NAMES_SAID: Final = 3
TOKEN: Final = re.compile(r"\{(\w+)(?::([^{}]*))?\}|[\[\]]")
"""What is not said as it is written: a field with what stands behind its colon, a bracket."""

Fields: TypeAlias = Mapping[str, object]


class Reader(Struct, frozen=True):
    """Who reads: of which namespace pods and claims are named; None: of all."""

    namespace: str | None = None

    def may_name(self, key: PodKey | ClaimKey) -> bool:
        """Whether the reader may be told of this pod or claim."""
        return self.namespace in (None, key.namespace)


EVERYBODY: Final = Reader()
"""For somebody who has read the objects."""


class Names(Struct, frozen=True):
    """Names of one kind, of which the first are said: `a, b, c and 4 more`."""

    names: tuple[str, ...]
    most: int = _NAMES_SAID

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        more = f" and {len(self.names) - self.most} more" if len(self.names) > self.most else ""
        return ", ".join(self.names[: self.most]) + more


def names(given: Iterable[object], most: int = _NAMES_SAID) -> Names:
    """The names of what is given."""
    return Names(tuple(map(str, given)), most)


class Pods(Struct, frozen=True):
    """Pods with their priorities, the least important first: `pods team/a and 2 more (priority 0 to 5)`."""

    pods: tuple[tuple[PodKey, int], ...]

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> Pods:
        """These pods, in their order."""
        return cls(tuple([(one.key, one.spec.priority or 0) for one in pods]))

    def __len__(self) -> int:
        return len(self.pods)

    def said(self, reader: Reader, most: int) -> str:
        """At most so many of them by name."""
        keys = [key for key, _ in self.pods]
        priorities = sorted({priority for _, priority in self.pods})
        what = f"priority {priorities[0]}" + (f" to {priorities[-1]}" if len(priorities) > 1 else "")
        who = told(keys[0], "pod", reader) if len(keys) == 1 else f"pods {told_all(keys, reader, most)}"
        return f"{who} ({what})"


class Sentence(Struct, frozen=True):
    """A template and its fields."""

    template: str
    fields: Fields

    def said(self, reader: Reader, most: int = _PODS_NAMED) -> str:
        return _said(_parsed(self.template), self.fields, reader, most)


def say(sentence: Sentence, reader: Reader) -> str:
    """The sentence in words."""
    for most in range(_PODS_NAMED, 1, -1):
        if len(text := sentence.said(reader, most)) <= LENGTH:
            return text
    return sentence.said(reader, 1)


def told(key: PodKey | ClaimKey, noun: str, reader: Reader) -> str:
    """A pod or claim in what this reader is told."""
    return f"{noun} {key}" if reader.may_name(key) else f"a {noun} of another namespace"


def told_all(keys: Sequence[PodKey | ClaimKey], reader: Reader, most: int) -> str:
    """Several, at most so many of them by name: `team/a and 2 more of other namespaces`."""
    seen = [str(key) for key in keys if reader.may_name(key)]
    named, others = seen[:most], len(keys) - min(len(seen), most)
    whose = " of other namespaces" if len(named) == len(seen) < len(keys) else ""
    more = [f"{others}{' more' * (bool(named) or not whose)}{whose}"] if others else []
    return " and ".join([", ".join(named)] * bool(named) + more)


def _word(spec: str, value: object) -> str:
    one, many = spec.split("|")
    if isinstance(value, int):
        return one if value == 1 else many
    return many if isinstance(value, Sized) and not isinstance(value, str) and len(value) != 1 else one


def _text(value: object, spec: str, reader: Reader, most: int) -> str:
    if "|" in spec:
        return _word(spec, value)
    match value:
        case PodKey() | ClaimKey():
            return told(value, spec, reader) if spec else str(value)
        case Pods():
            return value.said(reader, most)
        case Sentence():
            return value.said(reader, most)
        case (PodKey() | ClaimKey(), *_):
            keys = [one for one in value if isinstance(one, PodKey | ClaimKey)]
            return told(keys[0], spec, reader) if len(keys) == 1 else f"{spec}s {told_all(keys, reader, most)}"
        case tuple() if type(value) is tuple:
            return str(names(value))
        case _:
            return str(value)


# Templates

_Part: TypeAlias = "str | tuple[str, str] | list[_Part]"


@cache
def fields_of(template: str) -> tuple[str, ...]:
    """The fields that a template names, each once."""
    return tuple(dict.fromkeys(one[1] for one in TOKEN.finditer(template) if one[1]))


@cache
def _parsed(template: str) -> list[_Part]:
    whole: list[_Part] = []
    stack, start = [whole], 0
    for token in TOKEN.finditer(template):
        if before := template[start : token.start()]:
            stack[-1].append(before)
        start = token.end()
        match token[0]:
            case "[":
                group: list[_Part] = []
                stack[-1].append(group)
                stack.append(group)
            case "]":
                stack.pop()
            case _:
                stack[-1].append((token[1], token[2] or ""))
    if rest := template[start:]:
        whole.append(rest)
    if len(stack) != 1:
        raise ValueError(f"brackets of a template do not match: {template}")
    return whole


def _said(parts: Sequence[_Part], fields: Fields, reader: Reader, most: int) -> str:
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, tuple):
            texts.append(_text(fields[part[0]], part[1], reader, most))
        elif all(fields.get(one[0]) for one in part if isinstance(one, tuple)):
            texts.append(_said(part, fields, reader, most))
    return "".join(texts)
