"""cel-python as a second opinion: `dra-scheduler cel eval --engine celpy`.

It knows no types before it runs, no optional syntax, no `cel.bind`, and differs on comparisons of different
types; so where it differs it is more often wrong than right. Kubernetes' quantities and versions are
supplied to it from this project's own implementation.

The only module that imports celpy, and only when asked to: it takes 200 ms and is an optional extra.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cel.errors import EvaluationError
from cel.library.device import DeviceView
from cel.quantity import Quantity
from cel.semver import Semver


class EngineError(Exception):
    """cel-python is not installed, or cannot read the expression."""


def celpy_matcher(expression: str) -> Callable[[DeviceView], bool]:
    """A function that asks cel-python about a device.

    Raises:
        EngineError: as its class says.
    """
    try:
        import celpy
        from celpy.celparser import CELParseError
    except ImportError:
        raise EngineError('cel-python is not installed: pip install "dra-scheduler[celpy]"') from None
    environment = celpy.Environment()
    try:
        program = environment.program(environment.compile(expression), functions=_functions())
    except CELParseError as error:
        raise EngineError(f"cel-python cannot read this: {error}") from None

    def matches(device: DeviceView) -> bool:
        try:
            value = program.evaluate({"device": _to_celpy(device.fields)})
        except Exception as error:
            # It lets exceptions of many kinds through.
            raise EvaluationError(f"cel-python: {error}") from None
        if not isinstance(value, celpy.celtypes.BoolType):
            raise EvaluationError(f"cel-python: {type(value).__name__} is not a bool")
        return bool(value)

    return matches


def _functions() -> dict[str, Callable[..., Any]]:
    from celpy import celtypes

    def compare(left: Any, right: Any) -> Any:
        return celtypes.IntType((left > right) - (left < right))

    return {
        "quantity": lambda text: Quantity.parse(str(text)),
        "semver": lambda text: Semver.parse(str(text)),
        "compareTo": compare,
        "isGreaterThan": lambda left, right: celtypes.BoolType(left > right),
        "isLessThan": lambda left, right: celtypes.BoolType(left < right),
    }


def _to_celpy(value: Any) -> Any:
    from celpy import celtypes

    match value:
        case bool():
            return celtypes.BoolType(value)
        case int():
            return celtypes.IntType(value)
        case str():
            return celtypes.StringType(value)
        case Mapping():
            return celtypes.MapType({celtypes.StringType(key): _to_celpy(item) for key, item in value.items()})
        case list() | tuple():
            return celtypes.ListType([_to_celpy(item) for item in value])
        case _:
            return value
