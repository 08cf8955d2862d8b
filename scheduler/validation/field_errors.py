"""What is wrong with a field, in the words of the API server.

Source: k8s.io/apimachinery v0.36.3 pkg/util/validation/field/errors.go.
"""

from collections.abc import Iterable
from typing import Any

import orjson
from msgspec import Struct

Json = Any
"""A decoded JSON value: dict, list, str, int, float, bool or None."""


class FieldError(Struct, frozen=True):
    """One thing wrong with one field; several make one 422 answer."""

    reason: str
    """Cause type: FieldValueRequired, FieldValueInvalid, FieldValueForbidden, ..."""
    field: str
    body: str
    """The text after the field's name, starting with the kind of error ("Invalid value: ...")."""

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def _detail(label: str, detail: str) -> str:
    return f"{label}: {detail}" if detail else label


def _value_text(value: Json) -> str:
    if value is None:
        return "null"
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def required(path: str, detail: str = "") -> FieldError:
    """A field that must be set is not."""
    return FieldError("FieldValueRequired", path, _detail("Required value", detail))


def invalid(path: str, value: Json, detail: str) -> FieldError:
    """A field's value breaks a rule."""
    return FieldError("FieldValueInvalid", path, _detail(f"Invalid value: {_value_text(value)}", detail))


def forbidden(path: str, detail: str) -> FieldError:
    """A field may not be set, or not be changed, here."""
    return FieldError("FieldValueForbidden", path, _detail("Forbidden", detail))


def not_supported(path: str, value: Json, supported: Iterable[str]) -> FieldError:
    """An enumeration's value is none of the known ones."""
    names = ", ".join(f'"{name}"' for name in sorted(supported))
    return FieldError(
        "FieldValueNotSupported", path, f"Unsupported value: {_value_text(value)}: supported values: {names}"
    )


def duplicate(path: str, value: Json) -> FieldError:
    """An entry of a set occurs twice."""
    return FieldError("FieldValueDuplicate", path, f"Duplicate value: {_value_text(value)}")


def too_long(path: str, limit: int) -> FieldError:
    """A text is longer than `limit` bytes."""
    return FieldError("FieldValueTooLong", path, f"Too long: may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> FieldError:
    """A list has `count` entries, more than `limit`."""
    return FieldError("FieldValueTooMany", path, f"Too many: {count}: must have at most {limit} items")


def not_found_value(path: str, value: Json) -> FieldError:
    """A field names something that does not exist."""
    return FieldError("FieldValueNotFound", path, f"Not found: {_value_text(value)}")
