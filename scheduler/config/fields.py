"""Kinds of fields that the configuration file's sections share: durations, names, selectors.

Rules of this module
  1. Numbers are not read from strings, as in Go's strict decoding.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from allocator.names import is_dns_subdomain
from scheduler.model.label_selectors import SelectorTextError, TextSelector, parse_label_selector, parse_slice_selector
from scheduler.model.unsupported_fields import FIELDS

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


class Section(BaseModel):
    """A mapping of the file: its fields are known, their kinds are exact."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True, use_enum_values=True
    )


def suggestion(word: str, known: Iterable[str]) -> str:
    """What to append to a complaint about `word`: the nearest of `known`, or all of them."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else f"; known are: {', '.join(sorted(known))}"


def parse_duration_s(value: object) -> float:
    """Seconds of a Go duration such as "15s" or "2m30s"; numbers are taken as seconds.

    Raises:
        PydanticCustomError: It is neither.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and _DURATION.fullmatch(value):
        parts = _DURATION_PART.findall(value)
        return sum(float(number) * _NANOSECONDS_BY_UNIT[unit] for number, unit in parts) / 10**9
    raise PydanticCustomError("duration", 'a duration is needed, such as "15s" or "2m30s"')


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


def _unsupported_field(name: str) -> str:
    if name != "*" and name not in FIELDS:
        raise PydanticCustomError(
            "field", "{problem}", {"problem": f"unknown field {name!r}{suggestion(name, FIELDS)}"}
        )
    return name


Seconds = Annotated[float, BeforeValidator(parse_duration_s)]
SchedulerName = Annotated[str, AfterValidator(_check_name)]
NodeSelectorText = Annotated[str, _selector(parse_label_selector)]
SliceSelectorText = Annotated[str, _selector(parse_slice_selector)]
FieldName = Annotated[str, AfterValidator(_unsupported_field)]
