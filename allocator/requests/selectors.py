"""CEL selectors and derived attributes of a request, answered once per distinct reading.

A compiled expression knows which attributes and capacities it reads. Devices of one driver that agree on
those get the same answer, so 4,000 devices of four models are four evaluations.

Compiling and evaluating them is most of the work for a claim: both are counted, and pause between two (`meter`).

Failures are values here, not exceptions: whether a failure matters is decided by whether the search
reaches the device (upstream evaluates lazily, and an error aborts the whole pod).

Source: `selectorsMatch` of structured/internal/incubating/allocator_incubating.go v0.36.3, `lookupAttribute` of
experimental/allocator_experimental.go v0.37.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

from allocator.requests.slot_records import ENTRY_BYTES
from allocator.values.features import Features
from allocator.values.meter import Meter, PausedError
from allocator.values.model import Attribute, AttributeKind, AttributeValue, Device, DeviceCapacity, DeviceSelector
from cel import (
    ANSWER_WORK_MAX,
    UNREADABLE,
    CompileError,
    DerivedAttribute,
    DeviceExpression,
    DeviceView,
    Environment,
    EvaluationError,
    EvaluationFailure,
    Selector,
    answer_with_work,
    compile_derived_in_stages,
    compile_in_stages,
    compile_selector,
    decode_attribute,
    device_view,
    partial_view,
    stage_work,
    value_with_work,
)
from cel.checker import environments

T = TypeVar("T")
C = TypeVar("C", bound=DeviceExpression)
A = TypeVar("A")
_Names: TypeAlias = tuple[tuple[str, str], ...]  # of domain and name
_Read: TypeAlias = tuple[list[Attribute | None], list[DeviceCapacity | None]]  # in the order of the names

_ANSWERS_MAX: Final = 100_000
_CHEAP_ANSWERS_MAX: Final = 4_096
"""The limit where evaluating is not much slower than looking up: selectors that read what each device has for itself
(a uuid) fill the table with answers that are never asked for again."""
_PLAIN_KINDS: Final = frozenset({"bool", "int", "string"})
VIEW_WORK: Final = 60
VIEW_NAME_WORK: Final = 15
"""Showing a device to expressions, and so much for each attribute and capacity."""
OPTIONAL_HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
    "optional fields"
)
"""What 1.37 adds to a missing key's error."""


_COMPILE_ERROR: Final = "CEL compile error"


class Failure(NamedTuple):
    """An expression that cannot be answered for a device: of the class or of the claim, which one, why."""

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

    def message_of_attribute(self, name: str, device: object) -> str:
        """Upstream's text, of an expression that gives an attribute."""
        if self.what == _COMPILE_ERROR:
            return f"compile derived attribute {name} failed: {self.text}"
        return f"evaluate derived attribute {name} on device {device} failed: {self.text}"


class Mismatch(NamedTuple):
    """The first selector that said no."""

    is_class: bool
    number: int


MATCH: Final = None
SelectorAnswer = Failure | Mismatch | None
"""None when all selectors match."""


class _Compiled(Generic[C]):
    """One expression: where it is, what it compiled to, and what an evaluation has to be expected to take."""

    def __init__(self, is_class: bool, number: int, expression: C | CompileError) -> None:
        self.is_class: Final = is_class
        self.number: Final = number
        self.mismatch: Final = Mismatch(is_class, number)
        """One for all devices: of those that an expression refuses there are thousands, and answers are remembered."""
        self.expression: Final = expression
        # What is not generated may take anything, until it is known better.
        is_cheap = isinstance(expression, CompileError) or (
            isinstance(expression, Selector) and expression.is_generated
        )
        self.expected = 0 if is_cheap else ANSWER_WORK_MAX
        self.entries = 0 if isinstance(expression, CompileError) else expression.kept // ENTRY_BYTES
        """What its patterns keep."""


class _Readings:
    """What devices show to selectors that read the same: equal readings are one object while such a matcher is there.

    Thousands of selectors that each compare the uuid have as many answers for each device, and all under its uuid.
    """

    __slots__ = ("__weakref__", "_known")

    def __init__(self) -> None:
        self._known: Final[dict[object, object]] = {}

    def one(self, reading: object) -> object:
        if len(self._known) >= _ANSWERS_MAX:
            self._known.clear()
        return self._known.setdefault(reading, reading)


_READINGS: Final[WeakValueDictionary[object, _Readings]] = WeakValueDictionary()


class Answering(ABC, Generic[C, A]):
    """Expressions that are asked together about one device after the other.

    Ask only when it is ready: once `prepare` has returned.

    Attributes:
        meaning: Equal for those that answer the same.
    """

    def __init__(
        self,
        texts: Sequence[tuple[bool, int, str]],
        features: Features,
        *,
        meter: Meter,
        meaning: object,
    ) -> None:
        """`texts`: whether it is the class's, its number there, and the expression."""
        self.meaning: Final = meaning
        self.users = 0
        self._features: Final = features
        self.meter: Final = meter
        self._texts: Final = texts
        self._compiled: Final[list[_Compiled[C]]] = []
        self._compilation: Generator[None, None, C] | None = None
        self._answers: Final[dict[object, A | None]] = {}
        # How many expressions the device that is being decided has passed.
        self._passed: tuple[Device, int] | None = None
        self._reads: tuple[_Names, _Names] | None = None
        self._readings = _Readings()
        self._is_costly = False
        self.is_trivial: Final = not self._texts
        self.is_ready = self.is_trivial

    @property
    def size(self) -> int:
        """Entries: answers, and what patterns remember."""
        return len(self._answers) + sum(one.entries for one in self._compiled)

    def prepare(self) -> None:
        """Compile the expressions, those that are not compiled yet.

        Raises:
            PausedError: to be called again.
        """
        if self.is_ready:
            return
        while len(self._compiled) < len(self._texts):
            is_class, index, expression = self._texts[len(self._compiled)]
            self._compiled.append(_Compiled(is_class, index, self._compile(expression)))
        attributes: set[tuple[str, str]] = set()
        capacities: set[tuple[str, str]] = set()
        reads_all = False
        for one in self._compiled:
            if isinstance(one.expression, CompileError):
                continue
            reads = one.expression.reads
            if reads.attributes is None or reads.capacities is None:
                reads_all = True
            else:
                attributes |= reads.attributes
                capacities |= reads.capacities
        self._is_costly = any(one.expected for one in self._compiled)
        self._reads = None if reads_all else (tuple(sorted(attributes)), tuple(sorted(capacities)))
        if self._reads is not None:
            self._readings = _READINGS.setdefault(self._reads, self._readings)
        self.is_ready = True

    def _compile(self, expression: str) -> C | CompileError:
        work = stage_work(expression)
        try:
            while True:
                self.meter.check(work)
                if self._compilation is None:
                    self._compilation = self._stages(expression, environment(self._features))
                self.meter.spent += work
                self.meter.is_fresh = False
                next(self._compilation)
        except StopIteration as end:
            self._compilation = None
            compiled: C = end.value
            assert compiled.reads is not None  # worked out here, while compiling is paid for
            return compiled
        except CompileError as error:
            self._compilation = None
            return error.with_traceback(None)

    @abstractmethod
    def _stages(self, expression: str, environment: Environment) -> Generator[None, None, C]:
        """Compile one expression."""

    @abstractmethod
    def _ask(self, one: _Compiled[C], expression: C, view: DeviceView) -> tuple[A | None, int]:
        """What settles the answer, None where the next expression is to be asked; and the work."""

    def answer(self, device: Device) -> A | None:
        """What the first expression said that settles it, None when there was none.

        The same object for devices that look the same to these expressions.

        Raises:
            PausedError: not known, and not to be found out now.
        """
        if self.is_trivial:
            return None
        read: _Read | None = None
        key: object = device
        if self._reads is not None:
            driver = device.id.driver
            names, amounts = self._reads
            attributes = [_read(device.attributes, domain, name, driver) for domain, name in names]
            capacity = [_read(device.capacity, domain, name, driver) for domain, name in amounts]
            read = attributes, capacity
            # Equal amounts are not one value to `isInteger`, and what a share may take no expression sees.
            amounts_read = [one and one.value.representation for one in capacity]
            key = (driver, device.allow_multiple_allocations, *attributes, *amounts_read)
        try:
            return self._answers[key]
        except KeyError:
            answer = self._evaluate(device, read)
            if len(self._answers) >= (_ANSWERS_MAX if self._is_costly else _CHEAP_ANSWERS_MAX):
                self._answers.clear()
            self._answers[self._readings.one(key)] = answer
            return answer

    def _partial_view(self, device: Device, read: _Read) -> DeviceView:
        """The device with what the expressions read alone: making the whole view is most of a short evaluation."""
        assert self._reads is not None
        (names, amounts), (attributes, capacity) = self._reads, read
        return partial_view(
            device.id.driver,
            [
                (*name, _value(one, self._features))
                for name, one in zip(names, attributes, strict=True)
                if one is not None
            ],
            [(*name, one.value) for name, one in zip(amounts, capacity, strict=True) if one is not None],
            device.allow_multiple_allocations,
        )

    def _evaluate(self, device: Device, read: _Read | None = None) -> A | None:
        meter = self.meter
        view: DeviceView | None = None
        first = 0
        if self._passed is not None:
            if self._passed[0] is device:
                first = self._passed[1]
            self._passed = None
        for index in range(first, len(self._compiled)):
            one = self._compiled[index]
            expression = one.expression
            if isinstance(expression, CompileError):
                return self._failed(one, _COMPILE_ERROR, str(expression))
            try:
                meter.check(one.expected)
            except PausedError:
                self._passed = device, index
                raise
            if view is None:
                view = self._partial_view(device, read) if read is not None else view_of(device, self._features)
                shown = read if read is not None else (device.attributes, device.capacity)
                meter.spent += VIEW_WORK + VIEW_NAME_WORK * (len(shown[0]) + len(shown[1]))
            answer, work = self._ask(one, expression, view)
            meter.spent += work
            meter.is_fresh = False
            one.expected = work if one.expected == ANSWER_WORK_MAX else max(one.expected, work)
            if answer is not None:
                return answer
        return None

    @abstractmethod
    def _failed(self, one: _Compiled[C], what: str, text: str) -> A:
        """The answer where an expression does not compile or cannot be evaluated."""


class Matcher(Answering[Selector, "Failure | Mismatch"]):
    """All selectors of a request: the class's first, then its own; every one must match."""

    def __init__(
        self,
        class_selectors: Sequence[DeviceSelector],
        selectors: Sequence[DeviceSelector],
        features: Features,
        *,
        meter: Meter,
        meaning: object,
    ) -> None:
        texts = [
            (is_class, index, selector.expression or "")
            for is_class, group in ((True, class_selectors), (False, selectors))
            for index, selector in enumerate(group)
        ]
        super().__init__(texts, features, meter=meter, meaning=meaning)

    def _stages(self, expression: str, environment: Environment) -> Generator[None, None, Selector]:
        return compile_in_stages(expression, environment)

    def _ask(self, one: _Compiled[Selector], expression: Selector, view: DeviceView) -> tuple[SelectorAnswer, int]:
        answer, work = answer_with_work(expression, view)
        if answer is True:
            return MATCH, work
        if answer is False:
            return one.mismatch, work
        return self._failed(one, "CEL runtime error", self._text(answer)), work

    def _failed(self, one: _Compiled[Selector], what: str, text: str) -> Failure:
        names_device = what != _COMPILE_ERROR and self._features.has_137_semantics
        return Failure(one.is_class, one.number, what, text, names_device)

    def _text(self, error: EvaluationError) -> str:
        text = str(error)
        return text + OPTIONAL_HINT if self._features.has_137_semantics and "no such key:" in text else text


class Derivation(Answering[DerivedAttribute, "Failure | Attribute"]):
    """The expression of an attribute that a request derives."""

    def __init__(self, expression: str, features: Features, *, meter: Meter, meaning: object) -> None:
        super().__init__([(False, 0, expression)], features, meter=meter, meaning=meaning)

    def value(self, device: Device) -> Failure | Attribute:
        """As `answer`."""
        found = self.answer(device)
        assert found is not None
        return found

    def _stages(self, expression: str, environment: Environment) -> Generator[None, None, DerivedAttribute]:
        return compile_derived_in_stages(expression, environment)

    def _ask(
        self, one: _Compiled[DerivedAttribute], expression: DerivedAttribute, view: DeviceView
    ) -> tuple[Failure | Attribute, int]:
        answer, work = value_with_work(expression, view)
        if isinstance(answer, EvaluationError):
            return self._failed(one, "CEL runtime error", str(answer)), work
        return Attribute(*cast("tuple[AttributeKind, AttributeValue]", answer)), work

    def _failed(self, one: _Compiled[DerivedAttribute], what: str, text: str) -> Failure:
        return Failure(one.is_class, one.number, what, text)


def first_failure(
    expression: str, devices: Iterable[Device], features: Features
) -> tuple[Device, EvaluationFailure] | None:
    """The first device for which a selector fails, and how.

    For people: nothing is counted or remembered. None also where the expression does not compile.
    """
    try:
        selector = compile_selector(expression, environment(features))
    except CompileError:
        return None
    for device in devices:
        failure = selector.failure(view_of(device, features))
        if failure is not None:
            return device, failure
    return None


def view_of(device: Device, features: Features) -> DeviceView:
    """The device as expressions see it; where a name is there with and without its domain, the full one wins."""
    attributes = {name: _value(attribute, features) for name, attribute in _bare_first(device.attributes)}
    capacity = {name: capacity.value for name, capacity in _bare_first(device.capacity)}
    return device_view(device.id.driver, attributes, capacity, device.allow_multiple_allocations)


def _read(values: Mapping[str, T], domain: str, name: str, driver: str) -> T | None:
    """What a selector sees under `[domain].name`."""
    value = values.get(f"{domain}/{name}")
    if value is None and domain == driver:
        value = values.get(name)
    return value


def _bare_first(values: Mapping[str, T]) -> list[tuple[str, T]]:
    """Names without a domain come first, so that a later one with the driver's domain replaces it."""
    return sorted(values.items(), key=lambda item: "/" in item[0])


def _value(attribute: Attribute, features: Features) -> object:
    if attribute.kind in _PLAIN_KINDS:
        return attribute.value
    if attribute.value is None:
        return UNREADABLE
    shows_lists = features.list_type_attributes or features.has_137_semantics
    return decode_attribute({attribute.kind: attribute.value}, is_list_enabled=shows_lists)


def environment(features: Features) -> Environment:
    """What expressions may name."""
    return environments.get(
        features.kubernetes,
        consumable_capacity=features.consumable_capacity,
        list_type_attributes=features.list_type_attributes,
    )
