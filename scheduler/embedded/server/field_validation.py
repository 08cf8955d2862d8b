"""Fields that a kind does not have, and values of a wrong type: what `kubectl apply` is refused for.

kubectl asks for `fieldValidation=Strict`; the API server then decodes strictly. The fields are those of the Kubernetes
client's models, so every kind that is served is known, with the release the client was made for.

Rules of this module
  1. A kind without a model is not looked at; opaque parts (drivers' parameters) are not looked into.
  2. Where the API reads a quantity, a number is as good as a text.

Not here: what the values may be (the strategies).

Cost: the models are imported with the first question, 0.4 s; then O(size of the object).

Source: k8s.io/apimachinery v0.36.3 pkg/runtime/serializer/json (strict decoding), for when it refuses and its words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.embedded.server.statuses import bad_request
from scheduler.model.timestamps import parse_rfc3339
from scheduler.validation.field_errors import Json

STRICT: Final = "Strict"

_QUANTITIES: Final = frozenset(
    {
        *("requests", "limits", "overhead", "capacity", "allocatable", "consumedCapacity", "allocatedResources"),
        *("value", "min", "max", "step", "default", "validValues", "validRange", "counters", "hard", "used"),
        *("sizeLimit", "divisor", "containerDivisor", "averageValue", "quantity", "allocationMultiplier"),
    }
)
_SCALARS: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "datetime": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}
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
    model = _model_of(kind)
    if model is None:
        return
    problems: list[str] = []
    with suppress(_EnoughError):
        _fields(model, _Reading(suggests, allows_unknown), is_top=True)(obj, None, problems)
    if problems:
        head = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{head}: strict decoding error: {', '.join(problems)}")


def is_known_elsewhere(api_version: str, kind: str) -> bool:
    """Whether a kind is one of Kubernetes that plays no role here; kinds of DRA in old versions do play one."""
    group, _, version = api_version.rpartition("/")
    return group != "resource.k8s.io" and hasattr(_models(), f"{version.capitalize()}{kind}")


@cache
def _models() -> ModuleType:
    from kubernetes_asyncio.client import models  # noqa: PLC0415 - 0.4 s, paid by the first question

    return models


def _model_of(kind: ServedKind) -> Any:
    """`V1Pod`; with the group before it where two groups have a kind of this name: `ResourceV1ResourceClaim`."""
    name = f"{kind.version.capitalize()}{kind.kind}"
    group = (kind.group.split(".")[0] or "core").capitalize()
    return getattr(_models(), f"{group}{name}", None) or getattr(_models(), name, None)


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
def _fields(model: Any, reading: _Reading, *, is_top: bool = False) -> _Check:
    """The check of an object, by the model's types."""
    names = model.attribute_map
    types: Mapping[str, str] = {names[name]: type_ for name, type_ in model.openapi_types.items()}
    checks: dict[str, _Check] = {}  # made when a field is first there: a model may have itself in it
    not_checked = {"kind", "apiVersion"} - types.keys() if is_top else ()

    def check(obj: Mapping[str, Json], place: _Place, problems: list[str]) -> None:
        for name, value in obj.items():
            known = checks.get(name)
            if known is None:
                type_ = types.get(name)
                if type_ is None:
                    if name not in not_checked and not reading.allows_unknown:
                        near = get_close_matches(str(name), types, n=1, cutoff=0.6) if reading.suggests else []
                        hint = f" (did you mean {near[0]}?)" if near else ""
                        _add(problems, f'unknown field "{_path((place, str(name)))}"{hint}')
                    continue
                known = checks[name] = _check_of(type_, name in _QUANTITIES, reading)
            if value is not None:
                known(value, (place, name), problems)

    return check


@cache
def _check_of(type_: str, is_quantity: bool, reading: _Reading) -> _Check:
    """The check of a value of a type, as the models write types: `list[V1Container]`."""
    if type_ == "object":
        return lambda value, place, problems: None
    if type_.startswith("list["):
        return _list_of(_check_of(type_[5:-1], is_quantity, reading))
    if type_.startswith("dict("):
        return _map_of(_check_of(type_[5:-1].split(", ", 1)[1], is_quantity, reading))
    if type_ in _SCALARS:
        return _scalar(type_, is_quantity)
    model = getattr(_models(), type_, None)
    inside = None if model is None else _fields(model, reading)

    def check(value: Json, place: _Place, problems: list[str]) -> None:
        if not isinstance(value, dict):
            _add(problems, _mismatch(value, place, type_.removeprefix("V1")))
        elif inside is not None:
            inside(value, place, problems)

    return check


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


def _scalar(type_: str, is_quantity: bool) -> _Check:
    allowed = (*_SCALARS[type_], *((int, float) if is_quantity and type_ == "str" else ()))
    wanted = {"str": "string", "datetime": "Time"}.get(type_, type_)

    def check(value: Json, place: _Place, problems: list[str]) -> None:
        if not isinstance(value, allowed) or (value is True or value is False) is not (bool in allowed):
            _add(problems, _mismatch(value, place, wanted))
        elif type_ == "datetime" and parse_rfc3339(value) is None:
            _add(problems, f'parsing time "{value}" of field "{_path(place)}": it is not like 2006-01-02T15:04:05Z')

    return check


def _mismatch(value: Json, place: _Place, wanted: str) -> str:
    names: Mapping[type, str] = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}
    return f'cannot unmarshal {names.get(type(value), "object")} into field "{_path(place)}" of type {wanted}'
