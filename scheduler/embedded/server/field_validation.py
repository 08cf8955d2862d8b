"""Fields that a kind does not have, and values of a wrong type: what `kubectl apply` is refused for.

kubectl asks for `fieldValidation=Strict`; the API server then decodes strictly.

Rules of this module
  1. A kind that is not in the table is not looked at; opaque parts (drivers' parameters) are not looked into.
  2. Where the API reads a quantity, a number is as good as a text.

Not here: the fields (`scheduler.validation.api_fields`), what the values may be (the strategies).

Cost: O(size of the object).

Source: k8s.io/apimachinery v0.36.3 pkg/runtime/serializer/json (strict decoding), for when it refuses and its words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.embedded.server.statuses import bad_request
from scheduler.model.nearest import near
from scheduler.model.timestamps import parse_rfc3339
from scheduler.validation.api_fields import fields_of, kinds_in, type_of
from scheduler.validation.field_errors import Json

STRICT: Final = "Strict"

_SCALARS: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "s": ("string", (str,)),
    "t": ("Time", (str,)),
    "q": ("string", (str, int, float)),
    "i": ("int", (int,)),
    "n": ("float", (int, float)),
    "b": ("bool", (bool,)),
}
"""What the server calls a type of the table, and what it takes."""
_PLAIN: Final[Mapping[str, type]] = {"s": str, "q": str, "i": int, "b": bool}
"""Types with Python types whose values need no other look; other values may be right, too."""
_PROBLEMS_MAX: Final = 10


def check_fields(
    kind: ServedKind, obj: Mapping[str, Json], *, suggests: bool = False, allows_unknown: bool = False
) -> None:
    """Refuse an object with fields that its kind does not have, or with values of another type.

    Args:
        suggests: Name the nearest field, which the real server does not.
        allows_unknown: Look at types only, for objects that a newer server may have stored.

    Raises:
        ApiError: 400, with all that is wrong.
    """
    name = type_of(kind.api_version, kind.kind)
    if name is None:
        return
    problems: list[str] = []
    with suppress(_EnoughError):
        _fields(name, _Reading(suggests, allows_unknown))(obj, None, problems)
    if problems:
        head = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{head}: strict decoding error: {', '.join(problems)}")


def is_known_elsewhere(api_version: str, kind: str) -> bool:
    """Whether a kind is one of Kubernetes that plays no role here; kinds of DRA in old versions do play one."""
    return not api_version.startswith("resource.k8s.io/") and kind in kinds_in(api_version)


class _Reading(NamedTuple):
    suggests: bool
    allows_unknown: bool


class _EnoughError(Exception):
    """So much is wrong that nobody reads on."""


_Place: TypeAlias = tuple["_Place", str | int] | None
"""A field or index and where its owner stands; a path is made of it only for what is wrong."""
_Check: TypeAlias = Callable[[Any, _Place, list[str]], None]
"""Adds what is wrong with a value, which is not null, at a place."""


def _path(place: _Place) -> str:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")


def _add(problems: list[str], text: str) -> None:
    problems.append(text)
    if len(problems) == _PROBLEMS_MAX:
        problems.append("…")
        raise _EnoughError


@cache
def _fields(type_: str, reading: _Reading) -> _Check:
    """The check of an object of a type of the table."""
    types = fields_of(type_)
    checks: dict[str, _Check] = {}  # made when a field is first there
    plain = {name: _PLAIN[each] for name, each in types.items() if each in _PLAIN}

    def check(obj: Json, place: _Place, problems: list[str]) -> None:
        if place is not None and not isinstance(obj, dict):
            return _add(problems, _mismatch(obj, place, type_))
        for name, value in obj.items():
            if type(value) is plain.get(name):
                continue
            known = checks.get(name)
            if known is None:
                if name not in types:
                    if not reading.allows_unknown:
                        meant = near(str(name), types) if reading.suggests else ""
                        hint = f" (did you mean {meant}?)" if meant else ""
                        _add(problems, f'unknown field "{_path((place, str(name)))}"{hint}')
                    continue
                known = checks[name] = _check_of(types[name], reading)
            if value is not None:
                known(value, (place, name), problems)
        return None

    return check


@cache
def _check_of(type_: str, reading: _Reading) -> _Check:
    """The check of a value of a type, as the table writes it: `[Container]`."""
    if type_ in ("*", "x"):
        return lambda value, place, problems: None
    if type_.startswith("["):
        return _list_of(_check_of(type_[1:-1], reading))
    if type_.startswith("{"):
        return _map_of(_check_of(type_[1:-1], reading))
    if type_ in _SCALARS:
        return _scalar(type_)
    return _fields(type_, reading)


def _list_of(item_check: _Check) -> _Check:
    def check(value: Json, place: _Place, problems: list[str]) -> None:
        if not isinstance(value, list):
            return _add(problems, _mismatch(value, place, "list"))
        for index, item in enumerate(value):
            if item is None:
                _add(problems, f'null in list "{_path(place)}"')
            else:
                item_check(item, (place, index), problems)
        return None

    return check


def _map_of(item_check: _Check) -> _Check:
    def check(value: Json, place: _Place, problems: list[str]) -> None:
        if not isinstance(value, dict):
            return _add(problems, _mismatch(value, place, "map"))
        for key, item in value.items():
            if item is not None:
                item_check(item, (place, str(key)), problems)
        return None

    return check


def _scalar(type_: str) -> _Check:
    wanted, allowed = _SCALARS[type_]

    def check(value: Json, place: _Place, problems: list[str]) -> None:
        if not isinstance(value, allowed) or (value is True or value is False) is not (bool in allowed):
            _add(problems, _mismatch(value, place, wanted))
        elif type_ == "t" and isinstance(value, str) and parse_rfc3339(value) is None:
            _add(problems, f'parsing time "{value}" of field "{_path(place)}": it is not like 2006-01-02T15:04:05Z')

    return check


def _mismatch(value: Json, place: _Place, wanted: str) -> str:
    names: Mapping[type, str] = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}
    return f'cannot unmarshal {names.get(type(value), "object")} into field "{_path(place)}" of type {wanted}'
