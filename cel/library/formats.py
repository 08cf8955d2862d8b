"""Named formats: `format.dns1123Label().validate("x")`.

Source: k8s.io/apiserver v0.36.3 pkg/cel/library/format.go, k8s.io/apimachinery pkg/util/validation and
pkg/api/validate/content, k8s.io/kube-openapi pkg/validation/strfmt; texts of errors included.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, Final

from msgspec import Struct

from cel.gotext import quote
from cel.library.timestamp_functions import parse_timestamp
from cel.library.urls import URL
from cel.library.values import NONE, Optional, no_such_overload, spend

_LABEL_PATTERN: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035_PATTERN: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME_PATTERN: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

# Each is matched as a whole, in time linear in the text.
_LABEL: Final = re.compile(_LABEL_PATTERN)
_LABEL_1035: Final = re.compile(_LABEL_1035_PATTERN)
_NAME: Final = re.compile(_NAME_PATTERN)
_UUID: Final = re.compile("[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")
_BASE64: Final = re.compile("(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{2}(?:==|[A-Za-z0-9+/](?:=|[A-Za-z0-9+/]))")
# A fraction after any character, an offset of any size.
_TIME: Final = re.compile("(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")


class Format(Struct, frozen=True, eq=False):
    """A format: its upstream name, and what it finds wrong with a text."""

    CEL_TYPE: ClassVar[str] = "kubernetes.NamedFormat"
    GO_TYPE: ClassVar[str] = "cel.Format"
    name: str
    problems: Callable[[str], list[str]]

    def cel_equal(self, other: object) -> bool:
        if not isinstance(other, Format):
            no_such_overload()
        return self.name == other.name


def _pattern_error(complaint: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{complaint} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(text: str, length: int, unit: str) -> list[str]:
    return [f"must be no more than {length} {unit}"] if len(text.encode("utf-8", "replace")) > length else []


def _is_subdomain(text: str) -> bool:
    return all(map(_LABEL.fullmatch, text.split(".")))


def _dns1123_label(text: str) -> list[str]:
    problems = _too_long(text, 63, "characters")
    if _LABEL.fullmatch(text):
        return problems
    if _is_subdomain(text):
        return [*problems, "must not contain dots"]
    complaint = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character"
    )
    return [*problems, _pattern_error(complaint, _LABEL_PATTERN, "my-name", "123-abc")]


def _dns1123_subdomain(text: str, unit: str = "characters") -> list[str]:
    problems = _too_long(text, 253, unit)
    if _is_subdomain(text):
        return problems
    complaint = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return [*problems, _pattern_error(complaint, rf"{_LABEL_PATTERN}(\.{_LABEL_PATTERN})*", "example.com")]


def _dns1035_label(text: str) -> list[str]:
    problems = _too_long(text, 63, "characters")
    if _LABEL_1035.fullmatch(text):
        return problems
    complaint = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
        "start with an alphabetic character, and end with an alphanumeric character"
    )
    return [*problems, _pattern_error(complaint, _LABEL_1035_PATTERN, "my-name", "abc-123")]


def _prefix(problems: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Of a name to be continued: a dash at its end is no fault."""
    return lambda text: problems(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


_QUALIFIED_NAME_ERROR: Final = _pattern_error(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _NAME_PATTERN,
    *("MyName", "my.name", "123-abc"),
)


def _qualified_name(text: str) -> list[str]:
    if len(text) <= 63 and _NAME.fullmatch(text):
        return []  # without a prefix: the commonest, and somebody's selectors may have thousands
    prefix, slash, name = text.partition("/")
    if "/" in name:
        return [
            f"a valid label key {_QUALIFIED_NAME_ERROR} "
            "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    problems: list[str] = []
    if not slash:
        name = prefix
    elif not prefix:
        problems.append("prefix part must be non-empty")
    else:
        problems += [f"prefix part {problem}" for problem in _dns1123_subdomain(prefix, "bytes")]
    if not name:
        problems.append("name part must be non-empty")
    else:
        problems += [f"name part {problem}" for problem in _too_long(name, 63, "bytes")]
    if not _NAME.fullmatch(name):
        problems.append(f"name part {_QUALIFIED_NAME_ERROR}")
    return problems


def _label_value(text: str) -> list[str]:
    problems = _too_long(text, 63, "bytes")
    if not text or _NAME.fullmatch(text):
        return problems
    complaint = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return [*problems, _pattern_error(complaint, f"({_NAME_PATTERN})?", "MyValue", "my_value", "12345")]


def _uri(text: str) -> list[str]:
    raw = text if text.isascii() else text.encode("utf-8", "replace").decode("latin-1")
    try:
        URL(raw, via_request=True)
    except ValueError as error:
        return [f"parse {quote(text)}: {error}"]
    return []


def _matching(pattern: re.Pattern[str], complaint: str) -> Callable[[str], list[str]]:
    return lambda text: [] if pattern.fullmatch(text) else [complaint]


def _is_date(text: str) -> bool:
    if len(text) != 10:
        return False
    try:
        # The year 0 is a date, though no timestamp; 2000 has the same calendar.
        parse_timestamp(("2000" if text.startswith("0000") else text[:4]) + text[4:] + "T00:00:00Z")
    except ValueError:
        return False
    return True


def _date(text: str) -> list[str]:
    return [] if _is_date(text) else ["invalid date"]


def _datetime(text: str) -> list[str]:
    parts = text.lower().split("t")
    if len(parts) >= 2 and _is_date(parts[0]) and _TIME.fullmatch(parts[1]):
        return []
    return ["invalid datetime"]


FORMATS: Final[dict[str, Format]] = {
    "dns1123Label": Format("DNS1123Label", _dns1123_label),
    "dns1123Subdomain": Format("DNS1123Subdomain", _dns1123_subdomain),
    "dns1035Label": Format("DNS1035Label", _dns1035_label),
    "qualifiedName": Format("QualifiedName", _qualified_name),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _prefix(_dns1123_label)),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _prefix(_dns1123_subdomain)),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _prefix(_dns1035_label)),
    "labelValue": Format("LabelValue", _label_value),
    "uri": Format("URI", _uri),
    "uuid": Format("uuid", _matching(_UUID, "does not match the UUID format")),
    "byte": Format("byte", _matching(_BASE64, "invalid base64")),
    "date": Format("date", _date),
    "datetime": Format("datetime", _datetime),
}


def named(name: str) -> Optional:
    found = FORMATS.get(name)
    return NONE if found is None else Optional(found)


def validate(format_: Format, text: str) -> Optional:
    """None when the text has the format, else the list of what is wrong."""
    spend(100 + 12 * len(text))
    problems = format_.problems(text)
    return Optional(problems) if problems else NONE
