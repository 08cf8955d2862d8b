"""Kinds of fields that the configuration file's sections share: durations, names, selectors.

Rules of this module
  1. Numbers are not read from strings, as in Go's strict decoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from allocator.values.names import is_dns_subdomain
from scheduler.model.label_selectors import SelectorTextError, TextSelector, parse_label_selector, parse_slice_selector
from scheduler.model.nearest import near
from scheduler.validation.field_errors import FieldError

_NANOSECONDS_BY_UNIT: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d*)?(?:ns|us|µs|ms|s|m|h))+")
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h)")


UPSTREAM: Final = "upstream"
"""In the context of a validation: the file is one that kube-scheduler reads too, so kinds are as strict as there."""


class FieldsError(ValueError):
    """Fields that break a rule across fields, by paths relative to the section."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("\n".join(map(str, errors)))
        self.errors: Final = tuple(errors)


class Section(BaseModel):
    """A mapping of the file: its fields are known, their kinds are exact."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        strict=True,
        use_enum_values=True,
        defer_build=True,  # a section's validator is built with its first value: most plugins' arguments are in no file
    )

    @model_validator(mode="after")
    def _check_across_fields(self) -> Self:
        if errors := list(self._errors()):
            raise FieldsError(errors)
        return self

    def _errors(self) -> Iterator[FieldError]:
        """What breaks a rule across fields."""
        return iter(())


def suggestion(word: str, known: Iterable[str]) -> str:
    """What to append to a complaint about `word`: the nearest of `known`, or all of them."""
    meant = near(word, list(known))
    return f'; did you mean "{meant}"?' if meant else f"; known are: {', '.join(sorted(known))}"


def parse_duration_s(value: object, info: ValidationInfo) -> float:
    """Seconds of a Go duration such as "15s" or "2m30s"; numbers are seconds where the file is not kube-scheduler's.

    Raises:
        PydanticCustomError: It is neither.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and not (info.context or {}).get(UPSTREAM):
        return float(value)  # type: ignore[arg-type]
    if isinstance(value, str) and _DURATION.fullmatch(value):
        parts = _DURATION_PART.findall(value)
        return sum(float(number) * _NANOSECONDS_BY_UNIT[unit] for number, unit in parts) / 10**9
    raise PydanticCustomError("duration", 'a duration is needed, such as "15s" or "2m30s"')


def duration_text(seconds: float) -> str:
    """As Go writes it: `10m0s`, `1.5s`."""
    whole, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(whole), 60)
    tail = f"{rest:.9f}".rstrip("0").rstrip(".") + "s"
    return f"{hours}h{minutes}m{tail}" if hours else f"{minutes}m{tail}" if minutes else tail


def _check_name(value: str) -> str:
    if not is_dns_subdomain(value):
        raise PydanticCustomError("name", "a DNS subdomain is needed: lower case letters, digits, '-' and '.'")
    return value


def _selector(parse: Callable[[str], TextSelector]) -> AfterValidator:
    def check(text: str) -> str:
        try:
            parse(text)
        except SelectorTextError as error:
            raise PydanticCustomError("selector", "{problem}", {"problem": str(error)}) from error
        return text

    return AfterValidator(check)


Seconds = Annotated[float, BeforeValidator(parse_duration_s), PlainSerializer(duration_text, when_used="json")]
SchedulerName = Annotated[str, AfterValidator(_check_name)]
NodeSelectorText = Annotated[str, _selector(parse_label_selector)]
SliceSelectorText = Annotated[str, _selector(parse_slice_selector)]
