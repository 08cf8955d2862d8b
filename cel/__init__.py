"""Kubernetes CEL for devices: compile a selector once, evaluate it for next to nothing.

    selector = cel.compile_selector('device.attributes["gpu.example.com"].model == "A100"')
    device = cel.device_view("gpu.example.com", {"model": "A100"}, {"memory": cel.Quantity.parse("80Gi")}, False)
    selector.matches(device)

Every name below is loaded at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cel.checker.environments import Environment as Environment
    from cel.errors import CelError as CelError
    from cel.errors import CompileError as CompileError
    from cel.errors import EvaluationError as EvaluationError
    from cel.errors import EvaluationFailure as EvaluationFailure
    from cel.evaluator.readset import ReadSet as ReadSet
    from cel.library.device import UNREADABLE as UNREADABLE
    from cel.library.device import DeviceView as DeviceView
    from cel.library.device import decode_attribute as decode_attribute
    from cel.library.device import device_view as device_view
    from cel.library.device import partial_view as partial_view
    from cel.library.encoding import encode_value as encode_value
    from cel.program import DerivedAttribute as DerivedAttribute
    from cel.program import DeviceExpression as DeviceExpression
    from cel.program import Selector as Selector
    from cel.program import compile_derived as compile_derived
    from cel.program import compile_derived_in_stages as compile_derived_in_stages
    from cel.program import compile_in_stages as compile_in_stages
    from cel.program import compile_selector as compile_selector
    from cel.program import evaluate as evaluate
    from cel.quantity import Quantity as Quantity
    from cel.semver import Semver as Semver
    from cel.work import ANSWER_WORK_MAX as ANSWER_WORK_MAX
    from cel.work import answer_with_work as answer_with_work
    from cel.work import stage_work as stage_work
    from cel.work import value_with_work as value_with_work

_MODULES: Final = {
    "ANSWER_WORK_MAX": "work",
    "CelError": "errors",
    "CompileError": "errors",
    "DerivedAttribute": "program",
    "DeviceExpression": "program",
    "DeviceView": "library.device",
    "Environment": "checker.environments",
    "EvaluationError": "errors",
    "EvaluationFailure": "errors",
    "Quantity": "quantity",
    "ReadSet": "evaluator.readset",
    "Selector": "program",
    "Semver": "semver",
    "UNREADABLE": "library.device",
    "answer_with_work": "work",
    "compile_derived": "program",
    "compile_derived_in_stages": "program",
    "compile_in_stages": "program",
    "compile_selector": "program",
    "decode_attribute": "library.device",
    "device_view": "library.device",
    "partial_view": "library.device",
    "encode_value": "library.encoding",
    "evaluate": "program",
    "stage_work": "work",
    "value_with_work": "work",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'cel' has no attribute {name!r}")
    value = getattr(import_module(f"cel.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_MODULES)
