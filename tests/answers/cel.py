"""Cases of `cel`: one expression on a device, or alone; one JSON object in, one out.

| in | |
|---|---|
| `expression` | required |
| `device` | `driver`, `attributes` (`{"model": {"string": "A100"}}`), `capacity` (`{"memory": "80Gi"}`), `allowMultipleAllocations` |
| `kubernetes` | "1.34" to "1.37", default that of --kubernetes |
| `env` | "stored" (default) or "new" |
| `gates` | `{"consumableCapacity": true, "listTypeAttributes": false}` (the defaults here) |
| `cost` | true: add the estimate |
| `result` | "bool" (default) or "any": no bool demanded, `device` may be null |

Out: `{"value": true}`, `{"compile_error": text}` or `{"runtime_error": text}`; with `cost` also `max_cost`
(and the same as `cost`). With "any" the value carries its type, as in `cel.library.encoding`, and compile errors are
those of the bare CEL environment, without the words Kubernetes puts before them. A line that cannot be
read gets `{"input_error": text}`.

Not here: reading lines (`__main__`).
"""  # noqa: E501 - a table

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final

from cel.checker.checker import Checked
from cel.checker.environments import DEFAULT_VERSION, Environment
from cel.cost.estimate import estimate
from cel.errors import CompileError, EvaluationError
from cel.evaluator.walker import Plan, plan
from cel.library.encoding import encode_value
from cel.program import Selector, check_constants, check_expression, compile_selector
from scheduler.cli import gate_options
from scheduler.cli.cel_inputs import InputError, find_environment, read_device

_FIELDS: Final = frozenset(("expression", "device", "kubernetes", "env", "gates", "cost", "result"))
_REMEMBERED: Final = 256

Answer = dict[str, Any]


def answer_line(line: str | bytes, kubernetes: str = DEFAULT_VERSION) -> Answer:
    """The answer to one line; whatever the line holds, there is one."""
    try:
        question = json.loads(line)
    except RecursionError:
        return {"input_error": "not JSON: nested too deeply"}
    except UnicodeDecodeError as error:
        return {"input_error": f"not JSON: not UTF-8 text (byte {error.start})"}
    except ValueError as error:
        return {"input_error": f"not JSON: {error}"}
    if not isinstance(question, dict):
        return {"input_error": 'a question is an object, like {"expression": "device.driver == \\"x\\"", "device": {}}'}
    return answer(question, kubernetes)


def answer(question: Mapping[str, Any], kubernetes: str = DEFAULT_VERSION) -> Answer:
    """The answer to one question; `kubernetes` where it names no release itself."""
    try:
        return _answer(question, kubernetes)
    except InputError as error:
        return {"input_error": str(error)}


def _answer(question: Mapping[str, Any], kubernetes: str) -> Answer:
    expression = question.get("expression")
    if not isinstance(expression, str):
        raise InputError("expression: must be a text")
    unknown = sorted(set(question) - _FIELDS)
    if unknown:
        raise InputError(f"{unknown[0]}: no such field; there are {', '.join(sorted(_FIELDS))}")
    result = question.get("result") or "bool"
    if result not in ("bool", "any"):
        raise InputError(f"result: must be 'bool' or 'any', not {result!r}")
    version = question.get("kubernetes") or kubernetes
    if not isinstance(version, str):
        raise InputError(f'kubernetes: must be a text like "1.36", not {version!r}')
    gates = {"DRAConsumableCapacity": True, **parse_gates(question.get("gates"))}
    environment = find_environment(version, question.get("env") or "stored", gates)
    device = question.get("device")
    view = None if device is None else read_device(device, environment)
    compiled = _compiled(expression, environment, is_selector=result == "bool")
    if isinstance(compiled, CompileError):
        return {"compile_error": str(compiled) if result == "bool" else _bare(str(compiled))}
    if view is None and result == "bool":
        raise InputError('device: is missing; without one, ask with "result": "any"')
    reply: Answer = {}
    try:
        if compiled.selector is not None:
            assert view is not None
            reply["value"] = compiled.selector.matches(view)
        else:
            reply["value"] = encode_value(compiled.plan.evaluate({} if view is None else {"device": view.fields}))
    except EvaluationError as error:
        reply["runtime_error"] = str(error)
    if question.get("cost"):
        reply["max_cost"] = reply["cost"] = compiled.max_cost
    return reply


class _Compiled:
    """A compiled expression; what not every question needs is made when it is asked for."""

    def __init__(self, checked: Checked, selector: Selector | None) -> None:
        self.checked = checked
        self.selector = selector

    @cached_property
    def plan(self) -> Plan:
        return plan(self.checked)

    @cached_property
    def max_cost(self) -> int:
        return estimate(self.checked).max


@lru_cache(maxsize=_REMEMBERED)
def _compiled(expression: str, environment: Environment, *, is_selector: bool) -> _Compiled | CompileError:
    try:
        if is_selector:
            selector = compile_selector(expression, environment)
            return _Compiled(selector.checked, selector)
        checked = check_expression(expression, environment)
        check_constants(checked)
    except CompileError as error:
        return error.with_traceback(None)
    return _Compiled(checked, None)


def parse_gates(given: object) -> dict[str, bool]:
    """Feature gates as a mapping, a list of names that are on, or `A=true,B=false`.

    Names are those of Kubernetes, with or without `DRA`, in any case.
    """
    pairs: Iterable[tuple[str, object]]
    if given is None:
        return {}
    if isinstance(given, str):
        try:
            return gate_options.parse_gates(given)
        except ValueError as error:
            raise InputError(f"gates: {error}") from None
    if isinstance(given, Mapping):
        pairs = [(str(name), value) for name, value in given.items()]
    elif isinstance(given, list) and all(isinstance(name, str) for name in given):
        pairs = [(name, True) for name in given]
    else:
        raise InputError('gates: must be an object like {"listTypeAttributes": true} or a list of gates that are on')
    found: dict[str, bool] = {}
    for name, value in pairs:
        try:
            key = gate_options.gate_named(name)
        except ValueError as error:
            raise InputError(f"gates: {error}") from None
        if not isinstance(value, bool):
            raise InputError(f"gates: {name} must be true or false, not {value!r}")
        found[key] = value
    return found


def _bare(text: str) -> str:
    return text.removeprefix("compilation failed: ").replace("program instantiation failed: ", "program: ")
