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

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from types import ModuleType
from typing import Any, Final

from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.embedded.server.statuses import bad_request
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
_UNKNOWN: Final = "unknown field"


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
    problems = []
    for problem in _walk(obj, model, "", suggests=suggests, is_top=True):
        if allows_unknown and problem.startswith(_UNKNOWN):
            continue
        problems.append(problem)
        if len(problems) == _PROBLEMS_MAX:
            problems.append("…")
            break
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


@cache
def _type_by_field(model: Any) -> Mapping[str, str]:
    """The model's types by the API's field names."""
    return {model.attribute_map[name]: type_ for name, type_ in model.openapi_types.items()}


def _walk(obj: Mapping[str, Json], model: Any, path: str, *, suggests: bool, is_top: bool = False) -> Iterator[str]:
    types = _type_by_field(model)
    for name, value in obj.items():
        place = f"{path}.{name}" if path else str(name)
        type_ = types.get(name)
        if type_ is not None:
            yield from _check(value, type_, place, name, suggests=suggests)
        elif not (is_top and name in ("kind", "apiVersion")):
            near = get_close_matches(str(name), types, n=1, cutoff=0.6) if suggests else []
            yield f'{_UNKNOWN} "{place}"' + (f" (did you mean {near[0]}?)" if near else "")


def _check(value: Json, type_: str, path: str, field: str, *, suggests: bool) -> Iterator[str]:
    if value is None or type_ == "object":
        return
    if type_.startswith("list["):
        if not isinstance(value, list):
            yield _mismatch(value, path, "list")
            return
        for index, item in enumerate(value):
            if item is None:
                yield f'null in list "{path}"'
            yield from _check(item, type_[5:-1], f"{path}[{index}]", field, suggests=suggests)
    elif type_.startswith("dict("):
        if not isinstance(value, dict):
            yield _mismatch(value, path, "map")
            return
        inner = type_[5:-1].split(", ", 1)[1]
        for key, item in value.items():
            yield from _check(item, inner, f"{path}.{key}", field, suggests=suggests)
    elif type_ in _SCALARS:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and type_ == "str" and field in _QUANTITIES:
            return
        if not isinstance(value, _SCALARS[type_]) or (isinstance(value, bool) and type_ != "bool"):
            yield _mismatch(value, path, {"str": "string", "datetime": "Time"}.get(type_, type_))
    elif not isinstance(value, dict):
        yield _mismatch(value, path, type_.removeprefix("V1"))
    else:
        model = getattr(_models(), type_, None)
        if model is not None:
            yield from _walk(value, model, path, suggests=suggests)


def _mismatch(value: Json, path: str, wanted: str) -> str:
    names: Mapping[type, str] = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}
    return f'cannot unmarshal {names.get(type(value), "object")} into field "{path}" of type {wanted}'
