"""The part of selectors that no device satisfies: an expression's terms, between its `&&`, asked one after another.

For people: nothing is remembered, and a term that fails for a device is one that it does not satisfy, since the whole
expression has answered no.

Not here: answers for searches (`selectors`), what was probably meant (`scheduler.model.selector_mistakes`).

Cost: each term is compiled once and answered for the devices that the terms before it leave; all of it is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from allocator.requests.selectors import VIEW_NAME_WORK, VIEW_WORK, environment, view_of
from allocator.values.features import Features
from allocator.values.meter import Meter
from allocator.values.model import Device
from cel import CompileError, answer_with_work, compile_selector
from cel.parser.lexer import tokenize
from cel.work import COMPILE_CHARACTER_WORK, COMPILE_WORK

_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")


class Subterm(NamedTuple):
    """The term that leaves none of the devices.

    Attributes:
        selector: Index of its expression.
        terms, place: Of the expression, and the index of this one.
        before: The devices that satisfy all terms before it.
        reads: Domain and name of the attributes and capacities that it reads.
    """

    selector: int
    terms: tuple[str, ...]
    place: int
    before: tuple[Device, ...]
    reads: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        return self.terms[self.place]

    def expression(self, *instead: str) -> str:
        """The whole with something else in the place of the term, "" where nothing is left."""
        return " && ".join([*self.terms[: self.place], *instead, *self.terms[self.place + 1 :]])


def terms_of(expression: str) -> list[str]:
    """What stands between the `&&` of the whole expression; the expression itself where `||` or `?` binds it."""
    tokens = tokenize(expression)
    depth, start, terms = 0, 0, list[str]()
    for text, offset in zip(tokens.texts, tokens.offsets, strict=True):
        if text in _OPENING:
            depth += 1
        elif text in _CLOSING:
            depth -= 1
        elif not depth and text in {"||", "?"}:
            return [expression.strip()]
        elif not depth and text == "&&":
            terms.append(expression[start:offset].strip())
            start = offset + len(text)
    return [*terms, expression[start:].strip()]


def last_subterm(
    expressions: Sequence[str], devices: Sequence[Device], features: Features, meter: Meter
) -> Subterm | None:
    """The first term with which no device is left, None where some satisfy all of them, or one does not compile.

    Raises:
        PausedError: more work than is allowed now; nothing is kept.
    """
    left = [(device, view_of(device, features)) for device in devices]
    meter.spent += sum(VIEW_WORK + VIEW_NAME_WORK * (len(one.attributes) + len(one.capacity)) for one in devices)
    for number, expression in enumerate(expressions):
        terms = terms_of(expression)
        for place, term in enumerate(terms):
            work = COMPILE_WORK + COMPILE_CHARACTER_WORK * len(term)
            meter.check(work)
            meter.spent += work
            meter.is_fresh = False
            try:
                selector = compile_selector(term, environment(features))
            except CompileError:
                return None
            before, left = left, []
            for device, view in before:
                meter.check()
                answer, work = answer_with_work(selector, view)
                meter.spent += work
                if answer is True:
                    left.append((device, view))
            if not left:
                reads = selector.reads
                names = (*(reads.attributes or ()), *(reads.capacities or ()))
                return Subterm(number, tuple(terms), place, tuple([one for one, _ in before]), tuple(sorted(names)))
    return None
