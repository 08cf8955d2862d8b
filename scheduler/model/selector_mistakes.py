"""CEL selectors that name what no device has: an attribute, a capacity, a driver, a value; and what was probably meant.

Rules of this module
  1. A mistake states what devices have; whether it is what keeps a pod from fitting, its caller asks the scheduler.
  2. Only the forms that people write are read: `device.attributes["DOMAIN"].NAME`, also compared with a text, and
     `device.driver == "NAME"`. Other selectors have no mistakes here.

Not here: whether a selector compiles (`cel`), which selectors a request has (their callers).

Cost: `add` O(1) an attribute; `mistakes` O(names), compared one by one with what is written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from scheduler.model.nearest import near

_VALUES_SAID: Final = 3
_ATTRIBUTES: Final = "attributes"
_ATTRIBUTE: Final = re.compile(r"""device\.(attributes|capacity)\[\s*(["'])([^"']+)\2\s*\]\s*\.\s*([A-Za-z_]\w*)""")
_COMPARED: Final = re.compile(_ATTRIBUTE.pattern + r"""\s*==\s*(["'])([^"']*)\5""")
_DRIVER: Final = re.compile(r"""device\.driver\s*==\s*(["'])([^"']*)\1""")


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

    def __init__(self, where: str = "") -> None:
        """`where`, after "no device" in causes: those that are counted, where these are not all."""
        self._where: Final = where
        self._counts: Final[Counter[tuple[str, str, str]]] = Counter()  # by attributes or capacity, domain and name
        self._values: Final[dict[tuple[str, str], Counter[tuple[str, str]]]] = {}  # kind and text of attributes
        self._drivers: Final[Counter[str]] = Counter()

    def add(self, driver: str, attributes: Iterable[tuple[str, str, str]], capacity: Iterable[str]) -> None:
        """One device.

        Args:
            attributes: Name, kind (string, version, int, bool) and value as text of each.
            capacity: Names. A name without a domain has the driver's.
        """
        self._drivers[driver] += 1
        for full, kind, value in attributes:
            domain, name = _parted(driver, full)
            self._counts["attributes", domain, name] += 1
            self._values.setdefault((domain, name), Counter())[kind, value] += 1
        for full in capacity:
            self._counts["capacity", *_parted(driver, full)] += 1

    def mistakes(self, expression: str) -> Iterator[Mistake]:
        """What no device has of what a selector names."""
        for found in _DRIVER.finditer(expression):
            meant = near(found[2], self._drivers)
            if found[2] not in self._drivers and meant:
                cause = f"no device{self._where} has the driver {found[2]}; {meant} publishes {self._drivers[meant]}"
                yield Mistake("driver-name", 1, cause, meant, _put(expression, found, 2, meant))
        for found in _ATTRIBUTE.finditer(expression):
            yield from self._named(expression, found)
        for found in _COMPARED.finditer(expression):
            yield from self._compared(expression, found)

    def unknown(self, expression: str) -> Iterator[Mistake]:
        """Names that no device has and that are like no other: for them `instead` is empty."""
        for found in _DRIVER.finditer(expression):
            if found[2] not in self._drivers and not near(found[2], self._drivers):
                yield Mistake("driver-name", 1, f"no device{self._where} has the driver {found[2]}", "", expression)
        for found in _ATTRIBUTE.finditer(expression):
            what, domain, name = found[1], found[3], found[4]
            if (what, domain, name) not in self._counts and not [*self._named(expression, found)]:
                text = f"no device{self._where} has {what} {domain}/{name}"
                yield Mistake("attribute-name", 1, text, "", expression)

    def _named(self, expression: str, found: re.Match[str]) -> Iterator[Mistake]:
        what, domain, name = found[1], found[3], found[4]
        if (what, domain, name) in self._counts:
            guard = f'"{name}" in device.{what}["{domain}"] && '
            have, total = self._counts[what, domain, name], self._drivers.total()
            if have < total:
                cause = f"{total - have} of {total} devices{self._where} have no {what} {domain}/{name}"
                yield Mistake("guard", 4, cause, f"{guard}…", f"({guard}({expression}))")
            return
        cause = f"no device{self._where} has {what} {domain}/{name}"
        names = [one for kind, place, one in self._counts if kind == what and place == domain]
        if meant := near(name, names):
            text = f"{cause}; {self._counts[what, domain, meant]} have {domain}/{meant}"
            yield Mistake("attribute-name", 1, text, meant, _put(expression, found, 4, meant))
        domains = [place for kind, place, one in self._counts if kind == what and one == name]
        if domains:
            meant = near(domain, domains) or domains[0]
            text = f"{cause}; {self._counts[what, meant, name]} have {meant}/{name}"
            yield Mistake("attribute-domain", 1, text, meant, _put(expression, found, 3, meant))

    def _compared(self, expression: str, found: re.Match[str]) -> Iterator[Mistake]:
        _, domain, name, value = found[1], found[3], found[4], found[6]
        values = self._values.get((domain, name))
        if not values or ("string", value) in values:
            return
        text = f"no device{self._where} has {domain}/{name} equal to the string {value!r}"
        if any(kind == "version" for kind, _ in values):
            quoted = f"semver({found[5]}{value}{found[5]})"
            cause = f"{domain}/{name} is a version, and the selector compares it with a string"
            whole = expression[: found.start(6) - 1] + quoted + expression[found.end(6) + 1 :]
            yield Mistake("version", 1, cause, quoted, whole)
        for kind, one in values:
            if kind in {"int", "bool"} and one.lower() == value.lower():
                cause = f"{domain}/{name} is {_KINDS[kind]}, and the selector compares it with the string {value!r}"
                whole = expression[: found.start(6) - 1] + value.lower() + expression[found.end(6) + 1 :]
                yield Mistake("attribute-kind", 1, cause, value.lower(), whole)
        there = [one for kind, one in values if kind == "string"]
        meant = near(value, there) or near(value.lower(), [one.lower() for one in there])
        meant = next((one for one in there if meant in (one, one.lower())), "") if meant else ""
        for other in [meant] if meant else there[:_VALUES_SAID]:
            more = f"{text}; {values['string', other]} have {other!r}"
            yield Mistake("attribute-value", 2 if meant else 4, more, repr(other), _put(expression, found, 6, other))


def named_drivers(expression: str) -> list[str]:
    """Drivers that the selector compares a device's with."""
    return [found[2] for found in _DRIVER.finditer(expression)]


def compared_values(expression: str) -> list[tuple[str, str]]:
    """Attributes, with their domains, that it compares with a text, and the texts."""
    return [(f"{found[3]}/{found[4]}", found[6]) for found in _COMPARED.finditer(expression) if found[1] == _ATTRIBUTES]


def _parted(driver: str, full: str) -> tuple[str, str]:
    domain, slash, name = full.rpartition("/")
    return domain if slash else driver, name


def _put(expression: str, found: re.Match[str], group: int, text: str) -> str:
    return expression[: found.start(group)] + text + expression[found.end(group) :]
