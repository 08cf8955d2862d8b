"""`dra-scheduler cel check` and `cel eval`: is a selector valid, what does it cost, which devices match.

Exit codes: 0 valid, or evaluated on every device; 1 invalid, too expensive, or failed on a device; 2 wrong
use or input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from scheduler.cli.gate_options import gates_option
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.options import (
    cluster_options,
    files_option,
    find_connection,
    joined,
    kubernetes_option,
    output_option,
    size_option,
)
from scheduler.cli.tables import print_document, print_table
from scheduler.cli.terminal import echo
from scheduler.model.api_rules import EXPRESSION_LENGTH_MAX

if TYPE_CHECKING:
    from cel.checker.environments import Environment
    from scheduler.cli.cel_inputs import PublishedDevice
    from scheduler.cli.cluster_objects import ClusterObjects

_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group()
def cel() -> None:
    """Check and evaluate CEL device selectors.

    \b
    dra-scheduler cel check 'device.driver == "gpu.example.com"'
    dra-scheduler cel eval 'device.driver == "gpu.example.com"' -f slices.yaml
    """


def _environment_options(kind: str) -> Callable[[_Command], _Command]:
    return joined(
        gates_option,
        click.option(
            "--env",
            type=click.Choice(["new", "stored"]),
            default=kind,
            show_default=True,
            help="new: what an API server accepts; stored: what a scheduler evaluates.",
        ),
        kubernetes_option,
        size_option,
    )


@cel.command()
@click.argument("expression", required=False)
@files_option("Check the selectors of DeviceClasses, ResourceClaims and templates in this file or folder")
@_environment_options("new")
@output_option("text", "json", "yaml")
def check(
    *,
    expression: str | None,
    files: tuple[str, ...],
    kubernetes: str,
    env: str,
    feature_gates: dict[str, bool],
    output: str,
) -> None:
    """Say whether a selector is valid, what it costs, and what is likely to go wrong with it.

    \b
    dra-scheduler cel check 'device.attributes["gpu.example.com"].model == "A100"'
    dra-scheduler cel check -f claims.yaml --kubernetes 1.37
    """
    if (expression is None) == (not files):
        raise click.UsageError("Give either an EXPRESSION or files with -f.")
    environment = _find_environment(kubernetes, env, feature_gates)
    if expression is not None:
        verdicts = [check_expression_text(expression, environment)]
    else:
        verdicts = _check_files(files, environment)
        if not verdicts:
            raise WrongInputError("no selectors in these files (DeviceClass, ResourceClaim, ResourceClaimTemplate)")
    if output != "text":
        print_document({"kind": "SelectorVerdicts", "items": [verdict.as_json() for verdict in verdicts]}, output)
    else:
        for number, verdict in enumerate(verdicts):
            echo(*[""] * bool(number), *verdict.as_lines(environment))
    sys.exit(0 if all(verdict.is_valid for verdict in verdicts) else 1)


@dataclass
class SelectorVerdict:
    """What `cel check` says about one expression.

    error: why it is refused, with Kubernetes' text, or None.
    warnings: code, line, column, message, advice of each known trap.
    """

    expression: str
    source: str | None = None
    field_path: str | None = None
    error: str | None = None
    hint: str | None = None
    output_type: str | None = None
    cost: int | None = None
    cost_limit: int = 0
    warnings: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_valid(self) -> bool:
        return self.error is None

    def as_json(self) -> dict[str, Any]:
        return {
            "expression": self.expression,
            **({"source": self.source, "field": self.field_path} if self.source is not None else {}),
            "valid": self.is_valid,
            "error": self.error,
            "hint": self.hint,
            "type": self.output_type,
            "cost": self.cost,
            "costLimit": self.cost_limit,
            "warnings": self.warnings,
        }

    def as_lines(self, environment: Environment) -> list[str]:
        lines = [f"{self.source}: {self.field_path}"] if self.source is not None else []
        where = f"Kubernetes {environment.version}, {environment.kind} expressions"
        if self.error is None:
            lines.append(f"valid: type {self.output_type}, cost at most {self.cost} of {self.cost_limit} ({where})")
        else:
            lines += [f"invalid ({where})", *self.error.split("\n")]
            if self.hint is not None:
                lines.append(f"hint: {self.hint}")
        for warning in self.warnings:
            lines += [
                f"warning: {warning['line']}:{warning['column']}: {warning['message']} [{warning['code']}]",
                *str(warning["snippet"]).split("\n"),
                f"   {warning['advice']}",
            ]
        return lines


def _is_valid(expression: str, environment: Environment) -> bool:
    from cel.errors import CompileError
    from cel.program import check_expression

    try:
        check_expression(expression, environment)
    except CompileError:
        return False
    return True


def check_expression_text(expression: str, environment: Environment) -> SelectorVerdict:
    """The verdict on one selector, as an API server or a scheduler would have it."""
    from cel.cost.estimate import LIMIT, estimate
    from cel.cost.units import MAXIMUM
    from cel.errors import CompileError, Issue, locate, render
    from cel.program import check_expression, compile_selector
    from cel.selector_lint import find_traps, hint_for
    from scheduler.lint.context import NOTHING_KNOWN
    from scheduler.lint.mistakes import find_mistakes

    verdict = SelectorVerdict(expression, cost_limit=LIMIT)
    length = len(expression.encode("utf-8", "replace"))
    if length > EXPRESSION_LENGTH_MAX:
        verdict.error = f"Too long: may not be more than {EXPRESSION_LENGTH_MAX} bytes (it has {length})"
        return verdict
    try:
        compile_selector(expression, environment)
        checked = check_expression(expression, environment)
    except CompileError as error:
        verdict.error = str(error)
        likely = next((one for one in find_mistakes(expression, NOTHING_KNOWN, ())), None)
        verdict.hint = hint_for(verdict.error) or (f"{likely.message}: {likely.fix}" if likely is not None else None)
        return verdict
    verdict.output_type = str(checked.output_type)
    verdict.cost = estimate(checked).max
    mistakes = [
        (one.code, one.offset, one.message, one.fix)
        for one in find_mistakes(expression, NOTHING_KNOWN, (), is_valid=lambda part: _is_valid(part, environment))
    ]
    for code, offset, message, advice in sorted((*find_traps(checked), *mistakes), key=lambda one: one[1]):
        line, column, _ = locate(expression, offset)
        verdict.warnings.append(
            {
                "code": code,
                "line": line,
                "column": column + 1,
                "message": message,
                "advice": advice,
                "snippet": render(expression, Issue(offset, "")).partition("\n")[2],
            }
        )
    if verdict.cost > LIMIT:
        is_unbounded = verdict.cost >= MAXIMUM // 100
        size = "of unknown size, so without bound" if is_unbounded else str(verdict.cost)
        verdict.error = f"too complex, exceeds cost limit: estimated cost {size}, limit {LIMIT}"
        verdict.hint = (
            "the estimate multiplies the sizes of what is iterated or compared; compare fewer or smaller values"
        )
    return verdict


def _check_files(files: Sequence[str], environment: Environment) -> list[SelectorVerdict]:
    from scheduler.cli.cel_inputs import selectors_of
    from scheduler.cli.manifests import open_manifests
    from scheduler.lint.findings import field_text

    verdicts = []
    for selector in selectors_of(open_manifests(files)):
        verdict = check_expression_text(selector.expression, environment)
        verdict.source = f"{selector.document.place(selector.path)}: {selector.document.name}"
        verdict.field_path = field_text(selector.path)
        verdicts.append(verdict)
    return verdicts


@cel.command(name="eval")
@click.argument("expression")
@files_option("Evaluate on the devices of the ResourceSlices in this file or folder")
@cluster_options("Evaluate on the devices of this cluster, with its feature gates.")
@click.option(
    "--device",
    "device_file",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Evaluate on the one device in this file: driver, attributes, capacity, as YAML or JSON.",
)
@_environment_options("stored")
@output_option("table", "json", "yaml")
@click.option(
    "--engine",
    type=click.Choice(["own", "celpy"]),
    default="own",
    show_default=True,
    help="celpy: also ask cel-python (if installed) and show where it differs.",
)
def evaluate(
    *,
    expression: str,
    files: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    device_file: str | None,
    kubernetes: str,
    env: str,
    feature_gates: dict[str, bool],
    output: str,
    engine: str,
) -> None:
    """Evaluate a selector on devices: true, false or the error, for each.

    \b
    dra-scheduler cel eval 'device.driver == "gpu.example.com"' -f slices.yaml
    dra-scheduler cel eval 'device.driver == "gpu.example.com"' --context prod
    dra-scheduler cel eval 'device.allowMultipleAllocations' --device device.yaml -o json
    dra-scheduler cel eval '[1, 2, 3].map(x, x * 2)'
    """
    read = None
    if kubeconfig or context:
        from scheduler.cli.cluster_objects import read_cluster

        read = read_cluster(find_connection(kubeconfig, context))
        feature_gates = {**read.gates, **feature_gates}
    environment = _find_environment(kubernetes, env, feature_gates)
    if not files and device_file is None and read is None:
        _evaluate_alone(expression, environment, output)
        return
    devices = _find_devices(files, device_file, read, environment)
    if not devices:
        raise WrongInputError("no devices: there is no ResourceSlice with devices")
    _evaluate_on(expression, environment, devices, output, engine)


def _evaluate_alone(expression: str, environment: Environment, output: str) -> None:
    from cel.errors import CompileError, EvaluationError
    from cel.library.encoding import encode_value
    from cel.program import evaluate as evaluate_expression

    try:
        value = encode_value(evaluate_expression(expression, environment))
    except CompileError as error:
        _fail("compile_error", error, output)
    except EvaluationError as error:
        _fail("runtime_error", error, output)
    if output == "table":
        echo(json.dumps(value, ensure_ascii=False))
    else:
        print_document({"value": value}, output)


def _fail(which: str, error: Exception, output: str) -> NoReturn:
    if output != "table":
        print_document({which: str(error)}, output)
        sys.exit(1)
    raise click.ClickException(str(error)) from None


def _evaluate_on(
    expression: str, environment: Environment, devices: Sequence[PublishedDevice], output: str, engine: str
) -> None:
    from cel.errors import CompileError
    from cel.program import compile_selector

    try:
        selector = compile_selector(expression, environment)
    except CompileError as error:
        _fail("compile_error", error, output)
    matchers = [selector.matches]
    if engine == "celpy":
        matchers.append(_celpy_matcher(expression))
    answers = [[_answer(match, device) for match in matchers] for device in devices]
    if output == "table":
        _print_table(devices, answers)
        failing = [device for device, row in zip(devices, answers, strict=True) if "runtime_error" in row[0]]
        for device in failing[:1]:
            text = f"it fails for {_name_of(device)}: {selector.failure(device.view)}"
            echo(*text.split("\n"), is_error=True)
    else:
        print_document(_document(devices, answers), output)
    sys.exit(0 if all("runtime_error" not in row[0] for row in answers) else 1)


def _celpy_matcher(expression: str) -> Callable[[Any], bool]:
    from scheduler.cli.cel_engines import EngineError, celpy_matcher

    try:
        return celpy_matcher(expression)
    except EngineError as error:
        raise WrongInputError(str(error)) from None


def _answer(matches: Callable[[Any], bool], device: PublishedDevice) -> dict[str, Any]:
    from cel.errors import EvaluationError

    try:
        return {"value": matches(device.view)}
    except EvaluationError as error:
        return {"runtime_error": str(error)}


def _document(devices: Sequence[PublishedDevice], answers: Sequence[Sequence[dict[str, Any]]]) -> dict[str, Any]:
    items = []
    for device, (own, *others) in zip(devices, answers, strict=True):
        item = {"driver": device.driver, "pool": device.pool, "device": device.name, **own}
        if others:
            item["celpy"] = others[0]
        items.append(item)
    return {"kind": "SelectorAnswers", "items": items}


def _print_table(devices: Sequence[PublishedDevice], answers: Sequence[Sequence[dict[str, Any]]]) -> None:
    titles = ["DRIVER", "POOL", "DEVICE", "ANSWER", *["CELPY"] * (len(answers[0]) - 1)]
    print_table(
        titles,
        (
            (device.driver or "-", device.pool or "-", device.name or "-", *map(_shown, row))
            for device, row in zip(devices, answers, strict=True)
        ),
    )


def _name_of(device: PublishedDevice) -> str:
    return "/".join(filter(None, (device.driver, device.pool, device.name))) or "this device"


def _shown(answer: dict[str, Any]) -> str:
    if "runtime_error" in answer:
        return f"error: {answer['runtime_error']}"
    return "true" if answer["value"] else "false"


def _find_environment(version: str, kind: str, gates: dict[str, bool]) -> Environment:
    from scheduler.cli.cel_inputs import InputError, find_environment

    try:
        return find_environment(version, kind, gates)
    except InputError as error:
        raise click.UsageError(str(error)) from None


def _find_devices(
    files: Sequence[str], device_file: str | None, read: ClusterObjects | None, environment: Environment
) -> list[PublishedDevice]:
    from scheduler.cli.cel_inputs import InputError, ListedObject, PublishedDevice, devices_of, read_device
    from scheduler.cli.manifests import open_manifests

    listed = [ListedObject(read.origin, obj) for obj in read.objects] if read is not None else []
    try:
        devices = list(devices_of([*listed, *open_manifests(files)], environment))
        if device_file is not None:
            fields = _read_plain(device_file)
            name = str(fields.get("name", "")) if isinstance(fields, dict) else ""
            view = read_device(fields, environment)
            devices.append(PublishedDevice(view.driver, "", name, view))
    except InputError as error:
        raise WrongInputError(str(error)) from None
    return devices


def _read_plain(path: str) -> object:
    """One YAML or JSON document that is no API object."""
    import yaml

    from scheduler.cli.manifests import ManifestError, read_text
    from scheduler.yaml_reading import load

    try:
        return load(read_text(path)[1])
    except ManifestError as error:
        raise WrongInputError(f"{path}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise WrongInputError(f"{path}: {error}") from None
