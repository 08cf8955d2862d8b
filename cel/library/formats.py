"""Named formats: `format.dns1123Label().validate("x")`.

Source: k8s.io/apiserver v0.36.3 pkg/cel/library/format.go, k8s.io/apimachinery pkg/util/validation and
pkg/api/validate/content, k8s.io/kube-openapi pkg/validation/strfmt; texts of errors included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from cel.gotext import quote
from cel.library.timestamps import parse_timestamp
from cel.library.urls import URL
from cel.library.values import NONE, Optional, no_such_overload, spend

_LOWER: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_DIGITS: Final = frozenset("0123456789")
_LOWER_ALNUM: Final = _LOWER | _DIGITS
_ALNUM: Final = _LOWER_ALNUM | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_BASE64: Final = _ALNUM | frozenset("+/")

_LABEL_PATTERN: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME_PATTERN: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


class Format:
    """A format: its upstream name, what it finds wrong with a text, and a size that costs depend on."""

    __slots__ = ("name", "problems", "size")

    CEL_TYPE: ClassVar[str] = "kubernetes.NamedFormat"
    GO_TYPE: ClassVar[str] = "cel.Format"

    def __init__(self, name: str, problems: Callable[[str], list[str]], size: int) -> None:
        self.name: Final = name
        self.problems: Final = problems
        self.size: Final = size

    def cel_equal(self, other: object) -> bool:
        if not isinstance(other, Format):
            no_such_overload()
        return self.name == other.name

    def __repr__(self) -> str:
        return f"<Format {self.name}>"


def _pattern_error(complaint: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{complaint} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(text: str, length: int, unit: str) -> list[str]:
    return [f"must be no more than {length} {unit}"] if len(text.encode("utf-8", "replace")) > length else []


def _is_label(text: str, first: frozenset[str] = _LOWER_ALNUM) -> bool:
    return (
        bool(text)
        and text[0] in first
        and text[-1] in _LOWER_ALNUM
        and all(character in _LOWER_ALNUM or character == "-" for character in text)
    )


def _is_subdomain(text: str) -> bool:
    return all(map(_is_label, text.split(".")))


def _is_name(text: str) -> bool:
    return (
        bool(text)
        and text[0] in _ALNUM
        and text[-1] in _ALNUM
        and all(character in _ALNUM or character in "-_." for character in text)
    )


def _dns1123_label(text: str) -> list[str]:
    problems = _too_long(text, 63, "characters")
    if _is_label(text):
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
    if _is_label(text, _LOWER):
        return problems
    complaint = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
        "start with an alphabetic character, and end with an alphanumeric character"
    )
    return [*problems, _pattern_error(complaint, "[a-z]([-a-z0-9]*[a-z0-9])?", "my-name", "abc-123")]


def _prefix(problems: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Of a name to be continued: a dash at its end is no fault."""
    return lambda text: problems(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _qualified_name(text: str) -> list[str]:
    complaint = (
        "must consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character"
    )
    pattern_error = _pattern_error(complaint, _NAME_PATTERN, "MyName", "my.name", "123-abc")
    prefix, slash, name = text.partition("/")
    if "/" in name:
        return [
            f"a valid label key {pattern_error} "
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
    if not _is_name(name):
        problems.append(f"name part {pattern_error}")
    return problems


def _label_value(text: str) -> list[str]:
    problems = _too_long(text, 63, "bytes")
    if not text or _is_name(text):
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


def _uuid(text: str) -> list[str]:
    """Groups of 8-4-4-4-12 hexadecimal digits, each dash may be missing."""
    position = 0
    for group, length in enumerate((8, 4, 4, 4, 12)):
        if group and text[position : position + 1] == "-":
            position += 1
        digits = text[position : position + length]
        if len(digits) < length or not _HEX.issuperset(digits):
            return ["does not match the UUID format"]
        position += length
    return [] if position == len(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    body = text.rstrip("=")
    padding = len(text) - len(body)
    if text and len(text) % 4 == 0 and padding <= 2 and _BASE64.issuperset(body):
        return []
    return ["invalid base64"]


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
    if len(parts) >= 2 and _is_date(parts[0]) and _is_time(parts[1]):
        return []
    return ["invalid datetime"]


def _is_time(text: str) -> bool:
    """`hh:mm:ss`, a fraction after any character, and `z` or an offset of any size."""
    clock, rest = text[:8], text[8:]
    is_clock = len(clock) == 8 and clock[2] == clock[5] == ":" and _DIGITS.issuperset(clock.replace(":", "", 2))
    if not is_clock or len(clock.replace(":", "")) != 6:
        return False
    if clock[:2] > "23" or clock[3:5] > "59" or clock[6:] > "59":
        return False
    if rest.endswith("z"):
        fraction = rest[:-1]
    else:
        fraction, zone = rest[:-6], rest[-6:]
        if len(zone) != 6 or zone[0] not in "+-" or zone[3] != ":" or not _DIGITS.issuperset(zone[1:3] + zone[4:]):
            return False
    return not fraction or (len(fraction) > 1 and fraction[0] != "\n" and _DIGITS.issuperset(fraction[1:]))


FORMATS: Final[dict[str, Format]] = {
    "dns1123Label": Format("DNS1123Label", _dns1123_label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", _dns1123_subdomain, 60),
    "dns1035Label": Format("DNS1035Label", _dns1035_label, 30),
    "qualifiedName": Format("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _prefix(_dns1123_label), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _prefix(_dns1123_subdomain), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _prefix(_dns1035_label), 30),
    "labelValue": Format("LabelValue", _label_value, 40),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format("uuid", _uuid, 70),
    "byte": Format("byte", _byte, 84),
    "date": Format("date", _date, 71),
    "datetime": Format("datetime", _datetime, 71),
}


def named(name: str) -> Optional:
    found = FORMATS.get(name)
    return NONE if found is None else Optional(found)


def validate(format_: Format, text: str) -> Optional:
    """None when the text has the format, else the list of what is wrong."""
    spend(60 + 4 * len(text))
    problems = format_.problems(text)
    return Optional(problems) if problems else NONE
