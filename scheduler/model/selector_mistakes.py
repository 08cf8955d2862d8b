"""CEL selectors that name what no device has: an attribute, a capacity, a driver, a value; and what was probably meant.

Rules of this module
  1. A mistake states what devices have; whether it is what keeps a pod from fitting, its caller asks the scheduler.

Not here: reading selectors (`selector_reading`), whether one compiles (`cel`), which selectors a request has (its
callers).

Cost: O(attributes of the devices); `mistakes` O(names), compared one by one with what is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from allocator import Device
from scheduler.model.nearest import near
from scheduler.model.selector_reading import Part, Reference, Selector

_VALUES_SAID: Final = 3
_ATTRIBUTES: Final = "attributes"
_GUARD: Final = "guard"
_KINDS: Final = {"int": "an int", "bool": "a bool"}


class Mistake(NamedTuple):
    """Something that is written in a selector, and what may be meant.

    Attributes:
        kind: For programs: driver-name, guard, attribute-name, attribute-domain, version, attribute-kind or
            attribute-value.
        size: How much of the selector's meaning changes: 1 a name, 2 a value like it, 4 another meaning.
        cause: What devices have, as a fact.
        instead: What to write, "" where nothing is like it.
        expression: The selector with it.
    """

    kind: str
    size: int
    cause: str
    instead: str
    expression: str


class PublishedNames:
    """Attributes and capacities that devices have: on how many, and with which values."""

    def __init__(self, devices: Iterable[Device], where: str = "") -> None:
        """`where`, after "no device" in causes: those that are counted, where these are not all."""
        self._where: Final = where
        self._counts: Final[Counter[tuple[str, str, str]]] = Counter()  # by attributes or capacity, domain and name
        self._values: Final[dict[tuple[str, str], Counter[tuple[str, str]]]] = {}  # kind and text of attributes
        self._drivers: Final[Counter[str]] = Counter()
        for device in devices:
            driver = device.id.driver
            self._drivers[driver] += 1
            self._counts.update([("capacity", *_parted(driver, name)) for name in device.capacity])
            for name, one in device.attributes.items():
                key = _parted(driver, name)
                self._counts[_ATTRIBUTES, *key] += 1
                self._values.setdefault(key, Counter())[one.kind, str(one.value)] += 1

    def mistakes(self, expression: str) -> list[Mistake]:
        """What no device has of what a selector names; what is like another one first, what some lack last."""
        found = self._mistakes(Selector(expression))
        return sorted(found, key=lambda one: (one.kind == _GUARD, not one.instead))

    def _mistakes(self, selector: Selector) -> Iterator[Mistake]:
        for driver in selector.drivers:
            if driver.text not in self._drivers:
                meant = near(driver.text, self._drivers)
                more = f"; {meant} publishes {self._drivers[meant]}" if meant else ""
                cause = f"no device{self._where} has the driver {driver.text}{more}"
                yield Mistake("driver-name", 1, cause, meant, selector.put(driver, meant or driver.text))
        for found in selector.references:
            if found.key in self._counts:
                yield from self._unguarded(selector, found)
            else:
                cause = f"no device{self._where} has {found.which} {found.domain.text}/{found.name.text}"
                named = [*self._named(selector, found, cause)]
                yield from named or [Mistake("attribute-name", 1, cause, "", selector.expression)]
        for found, values in selector.comparisons:
            yield from self._compared(selector, found, values)

    def _unguarded(self, selector: Selector, found: Reference) -> Iterator[Mistake]:
        what, domain, name = found.key
        lacking, total = self._drivers.total() - self._counts[found.key], self._drivers.total()
        if lacking and not any(one.is_question and one.key == found.key for one in selector.references):
            guard = f'"{name}" in device.{what}["{domain}"] && '
            cause = f"{lacking} of {total} devices{self._where} have no {what} {domain}/{name}"
            yield Mistake(_GUARD, 4, cause, f"{guard}…", f"({guard}({selector.expression}))")

    def _named(self, selector: Selector, found: Reference, cause: str) -> Iterator[Mistake]:
        what, domain, name = found.key
        names = [one for kind, place, one in self._counts if kind == what and place == domain]
        if meant := near(name, names):
            text = f"{cause}; {self._counts[what, domain, meant]} have {domain}/{meant}"
            yield Mistake("attribute-name", 1, text, meant, selector.put(found.name, meant))
        domains = [place for kind, place, one in self._counts if kind == what and one == name]
        if domains:
            meant = near(domain, domains) or domains[0]
            text = f"{cause}; {self._counts[what, meant, name]} have {meant}/{name}"
            yield Mistake("attribute-domain", 1, text, meant, selector.put(found.domain, meant))

    def _compared(self, selector: Selector, found: Reference, texts: Sequence[Part]) -> Iterator[Mistake]:
        which, domain, name = found.key
        values = self._values.get((domain, name))
        if which != _ATTRIBUTES or not values or any(("string", one.text) in values for one in texts):
            return
        for part in texts:
            value = part.text
            text = f"no device{self._where} has {domain}/{name} equal to the string {value!r}"
            if any(kind == "version" for kind, _ in values):
                quoted = f"semver({selector.written(part)})"
                cause = f"{domain}/{name} is a version, and the selector compares it with a string"
                yield Mistake("version", 1, cause, quoted, selector.put_raw(part, quoted))
            for kind, one in values:
                if kind in _KINDS and one.lower() == value.lower():
                    cause = f"{domain}/{name} is {_KINDS[kind]}, and the selector compares it with the string {value!r}"
                    whole = selector.put_raw(part, value.lower())
                    yield Mistake("attribute-kind", 1, cause, value.lower(), whole)
            there = [one for kind, one in values if kind == "string"]
            meant = near(value, there) or near(value.lower(), [one.lower() for one in there])
            meant = next((one for one in there if meant in (one, one.lower())), "") if meant else ""
            for other in [meant] if meant else there[:_VALUES_SAID]:
                more = f"{text}; {values['string', other]} have {other!r}"
                yield Mistake("attribute-value", 2 if meant else 4, more, repr(other), selector.put(part, other))


def named_drivers(expression: str) -> list[str]:
    """Drivers of which a device must have one, by the selector."""
    return [one.text for one in Selector(expression).drivers]


def compared_values(expression: str) -> list[tuple[str, str]]:
    """Attributes, with their domains, that must equal a text, by the selector, and the texts."""
    found = [(reference.key, values[0].text) for reference, values in Selector(expression).comparisons]
    return [(f"{domain}/{name}", value) for (which, domain, name), value in found if which == _ATTRIBUTES]


def _parted(driver: str, full: str) -> tuple[str, str]:
    domain, slash, name = full.rpartition("/")
    return domain if slash else driver, name
