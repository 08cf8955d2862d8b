"""CEL selectors of a request, answered once per distinct reading.

A compiled selector knows which attributes and capacities it reads. Devices of one driver that agree on
those get the same answer, so 4,000 devices of four models are four evaluations.

Failures are values here, not exceptions: whether a failure matters is decided by whether the search
reaches the device (upstream evaluates lazily, and an error aborts the whole pod).

Source: `selectorsMatch` of structured/internal/incubating/allocator_incubating.go v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from allocator.features import Features
from allocator.model import Attribute, Device, DeviceSelector
from cel import (
    CompileError,
    DeviceView,
    EvaluationError,
    Selector,
    UnsupportedAttribute,
    compile_selector,
    decode_attribute,
    device_view,
    environments,
)

T = TypeVar("T")

_ANSWERS_MAX: Final = 100_000
_HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
    "optional fields"
)


class Failure(NamedTuple):
    """A selector that cannot be answered for a device: of the class or of the claim, which one, why."""

    is_class: bool
    number: int
    what: str
    text: str
    names_device: bool = False

    def message(self, class_name: str, claim: object, device: object) -> str:
        """Upstream's text; 1.37 names the device when a selector fails on it."""
        owner = f"class {class_name}" if self.is_class else f"claim {claim}"
        where = f" on device {device}" if self.names_device else ""
        return f"{owner}: selector #{self.number}{where}: {self.what}: {self.text}"


class Mismatch(NamedTuple):
    """The first selector that said no."""

    is_class: bool
    number: int


MATCH: Final = None
Answer = Failure | Mismatch | None
"""None when all selectors match."""


class Matcher:
    """All selectors of a request: the class's first, then its own; every one must match."""

    __slots__ = ("_answers", "_compiled", "_features", "_reads", "is_trivial")

    def __init__(
        self, class_selectors: Sequence[DeviceSelector], selectors: Sequence[DeviceSelector], features: Features
    ) -> None:
        self._features: Final = features
        self._compiled: list[tuple[bool, int, Selector | CompileError]] = []
        self._answers: Final[dict[object, Answer]] = {}
        attributes: set[tuple[str, str]] = set()
        capacities: set[tuple[str, str]] = set()
        reads_all = False
        for is_class, group in ((True, class_selectors), (False, selectors)):
            for index, selector in enumerate(group):
                compiled = _compile(selector.expression or "", features)
                self._compiled.append((is_class, index, compiled))
                if isinstance(compiled, CompileError):
                    continue
                reads = compiled.reads
                if reads.attributes is None or reads.capacities is None:
                    reads_all = True
                else:
                    attributes |= reads.attributes
                    capacities |= reads.capacities
        self._reads: Final = None if reads_all else (tuple(sorted(attributes)), tuple(sorted(capacities)))
        self.is_trivial: Final = not self._compiled

    def answer(self, device: Device) -> Answer:
        """Whether the device matches; the same object for devices that look the same to these selectors."""
        if self.is_trivial:
            return MATCH
        if self._reads is None:
            return self._evaluate(device)
        driver = device.id.driver
        names, capacities = self._reads
        attributes = device.attributes
        key = (
            driver,
            device.allow_multiple_allocations,
            self._view(device).problem if device.has_odd_attributes else None,
            *[_read(attributes, domain, name, driver) for domain, name in names],
            *[_read(device.capacity, domain, name, driver) for domain, name in capacities],
        )
        try:
            return self._answers[key]
        except KeyError:
            if len(self._answers) >= _ANSWERS_MAX:
                self._answers.clear()
            answer = self._answers[key] = self._evaluate(device)
            return answer

    def _view(self, device: Device) -> DeviceView:
        """The device as expressions see it; where a name is there with and without its domain, the full one wins."""
        shows_lists = self._features.list_type_attributes or self._features.is_137
        attributes = {name: _value(attribute, shows_lists) for name, attribute in _bare_first(device.attributes)}
        capacity = {name: capacity.value for name, capacity in _bare_first(device.capacity)}
        return device_view(device.id.driver, attributes, capacity, device.allow_multiple_allocations)

    def _evaluate(self, device: Device) -> Answer:
        view: DeviceView | None = None
        for is_class, index, compiled in self._compiled:
            if isinstance(compiled, CompileError):
                return Failure(is_class, index, "CEL compile error", str(compiled))
            try:
                if view is None:
                    view = self._view(device)
                if not compiled.matches(view):
                    return Mismatch(is_class, index)
            except EvaluationError as error:
                return Failure(is_class, index, "CEL runtime error", self._text(error), self._features.is_137)
        return MATCH

    def _text(self, error: EvaluationError) -> str:
        text = str(error)
        return text + _HINT if self._features.is_137 and "no such key:" in text else text


def _read(values: Mapping[str, object], domain: str, name: str, driver: str) -> object:
    """What a selector sees under `[domain].name`."""
    value = values.get(f"{domain}/{name}")
    if value is None and domain == driver:
        value = values.get(name)
    return value


def _bare_first(values: Mapping[str, T]) -> list[tuple[str, T]]:
    """Names without a domain come first, so that a later one with the driver's domain replaces it."""
    return sorted(values.items(), key=lambda item: "/" in item[0])


def _value(attribute: Attribute, shows_lists: bool) -> object:
    if attribute.value is None:
        return UnsupportedAttribute()
    return decode_attribute({attribute.kind: attribute.value}, is_list_enabled=shows_lists)


def _compile(expression: str, features: Features) -> Selector | CompileError:
    environment = environments.get(
        features.kubernetes,
        consumable_capacity=features.consumable_capacity,
        list_type_attributes=features.list_type_attributes,
    )
    try:
        return compile_selector(expression, environment)
    except CompileError as error:
        return error.with_traceback(None)
