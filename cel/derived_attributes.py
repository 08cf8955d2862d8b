"""Derived attributes: expressions that compute an attribute of a device (1.37, alpha, gate DRADerivedAttributes).

The same language and the same `device` as selectors; the result must be what an attribute can be: a
scalar, or a list of scalars of one type.

Not here: which claims have them, and the cost limit, which holds for the sum of a claim.

Source: k8s.io/dynamic-resource-allocation cel/compile.go at v0.37.2 (`validateOutputType`,
`EvaluateDerivedAttribute`, `valToDeviceAttribute`).
"""

from __future__ import annotations

from typing import Final

from cel.checker.checker import Checked
from cel.checker.environments import Environment
from cel.errors import CompileError, EvaluationError
from cel.library.device import DeviceView
from cel.program import check_constants, check_expression
from cel.semver import Semver

_SCALARS: Final = {bool: "bool", int: "int", str: "string", Semver: "version"}
"""Field of the API's DeviceAttribute by class; of a list, the plural."""
_GO_TYPES: Final = {
    "bool": "bool",
    "int": "int64",
    "uint": "uint64",
    "double": "float64",
    "string": "string",
    "bytes": "[]uint8",
    "null_type": "structpb.NullValue",
    "list": "[]ref.Val",
    "map": "map[ref.Val]ref.Val",
    "kubernetes.Semver": "semver.Version",
    "kubernetes.Quantity": "*resource.Quantity",
    "google.protobuf.Timestamp": "time.Time",
    "google.protobuf.Duration": "time.Duration",
    "type": "string",
}
"""What Go's %T prints for the value behind a CEL value."""

AttributeFields = dict[str, bool | int | str | list[bool] | list[int] | list[str]]


class DerivedAttribute:
    """A compiled derived attribute; `compute` gives the attribute for a device."""

    __slots__ = ("_plan", "checked", "expression")

    def __init__(self, checked: Checked) -> None:
        from cel.evaluator.walker import plan  # noqa: PLC0415 - alpha: not worth loading before it is used

        self.expression: Final = checked.source
        self.checked: Final = checked
        self._plan: Final = plan(checked)

    def compute(self, device: DeviceView) -> AttributeFields:
        """The attribute as the API has it, `{"int": 42}` or `{"strings": ["a", "b"]}`.

        Raises:
            EvaluationError: The expression failed, or its value is no attribute.
        """
        if device.problem is not None:
            raise EvaluationError(device.problem)
        value = self._plan.evaluate({"device": device.fields})
        if isinstance(value, list):
            return _list_fields(value)
        name = _SCALARS.get(type(value))
        if name is None:
            raise EvaluationError(f"unsupported CEL return type: {_go_type(value)}")
        return {name: str(value) if isinstance(value, Semver) else value}


def _list_fields(values: list[object]) -> AttributeFields:
    if not values:
        return {"strings": []}
    cls = type(values[0])
    name = _SCALARS.get(cls)
    if name is None:
        raise EvaluationError(f"unsupported list element type: {_go_type(values[0])}")
    for position, value in enumerate(values):
        if type(value) is not cls:
            wanted = "semver" if name == "version" else name
            raise EvaluationError(f"expected list element at index {position} to be {wanted}, got {_go_type(value)}")
    return {f"{name}s": [str(value) if isinstance(value, Semver) else value for value in values]}  # type: ignore[dict-item] # one scalar type, as just checked


def _go_type(value: object) -> str:
    from cel.library.values import type_name  # noqa: PLC0415

    name = type_name(value)
    return _GO_TYPES.get(name, name)


def compile_derived_attribute(expression: str, environment: Environment) -> DerivedAttribute:
    """Compile a derived attribute.

    Raises:
        CompileError: with Kubernetes' text, `must evaluate to a primitive scalar ...` included.
    """
    checked = check_expression(expression, environment)
    problem = environment.derived_result_problem(checked.output_type)
    if problem is not None:
        raise CompileError(problem)
    check_constants(checked)
    return DerivedAttribute(checked)
