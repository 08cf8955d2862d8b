"""Evaluation of the eight reference selectors, everything side by side in one run.

    python -m benchmarks.cel [--rounds 7] [--no-celpy]
    python -m benchmarks.cel --hostile [--rounds 3]     # those of tests/cel/hostile_expressions.py

Columns: generated code, the exact evaluator, and cel-python's two runners (where they can run the selector). Times are
the fastest of several rounds in CPU time, so that other work on the machine disturbs little; still compare columns of
one run, not runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cel
from scheduler import garbage_collector
from tests.cel.hostile_expressions import DEVICE, ENVIRONMENT, FAMILIES, LENGTH_MAX

D = "gpu.example.com"
A = f'device.attributes["{D}"]'
SELECTORS = {
    "S1 driver": f'device.driver == "{D}"',
    "S2 reference": (
        f'device.driver == "{D}" && {A}.model == "A100" && '
        f'device.capacity["{D}"].memory.compareTo(quantity("40Gi")) >= 0'
    ),
    "S3 version": f'{A}.model == "A100" && {A}.driverVersion.compareTo(semver("535.0.0")) >= 0',
    "S4 membership": f'"{D}" in device.attributes && has({A}.index) && {A}.index in [0,1,2,3]',
    "S5 exists": f'["A100","H100"].exists(m, {A}.model == m)',
    "S6 pattern": f'{A}.model.matches("^(A|H)100$") || {A}.uuid.startsWith("GPU-")',
    "S7 bind": f'cel.bind(dra, {A}, dra.model.startsWith("A") && dra.index < 4)',
    "S8 optional": f'{A}.?family.orValue("") == "ampere"',
}


ATTRIBUTES: dict[str, object] = {
    "model": "A100",
    "driverVersion": cel.Semver.parse("550.54.15"),
    "index": 2,
    "healthy": True,
    "uuid": "GPU-0f2c7b6e",
    "family": "ampere",
    "numa": 0,
    "name": "gpu-0",
    "other.example.com/name": "fish",
}


def fastest_us(function: Callable[[Any], object], argument: object, calls: int, rounds: int) -> float:
    """Microseconds of CPU time per call of the fastest round, the loop's own time subtracted."""
    best = idle = float("inf")
    steps = range(calls)
    for _ in range(rounds):
        start = time.process_time()
        for _ in steps:
            pass
        middle = time.process_time()
        for _ in steps:
            function(argument)
        end = time.process_time()
        idle = min(idle, middle - start)
        best = min(best, end - middle)
    return (best - idle) / calls * 1e6


Program = tuple[Callable[[Any], object], object]


def celpy_programs() -> dict[str, tuple[Program | None, Program | None]]:
    """cel-python's interpreted and compiled evaluation by selector, with its argument; None where it cannot run it."""
    import celpy
    import celpy.celtypes as types
    import celpy.evaluation
    from celpy.adapter import json_to_cel
    from celpy.celparser import CELParser

    def quantity(text: Any) -> Any:
        return types.IntType(cel.Quantity.parse(str(text)).nano // 10**9)

    def semver(text: Any) -> Any:
        return types.StringType(text)

    def compareTo(left: Any, right: Any) -> Any:  # noqa: N802 - the name the expression calls
        return types.IntType((left > right) - (left < right))

    functions = {"quantity": quantity, "semver": semver, "compareTo": compareTo}
    for name, function in functions.items():
        # The compiled runner writes module.qualname into its source.
        function.__qualname__ = name
        function.__module__ = "celpy.evaluation"
        setattr(celpy.evaluation, name, function)
    device = json_to_cel(
        {
            "driver": D,
            "attributes": {D: {k: v if isinstance(v, (bool, int, str)) else str(v) for k, v in ATTRIBUTES.items()}},
            "capacity": {D: {"memory": 80 * 2**30}},
        }
    )
    programs: dict[str, list[Program | None]] = {name: [] for name in SELECTORS}
    for runner in (celpy.InterpretedRunner, celpy.CompiledRunner):
        # Its parser keeps the tree class of the first environment; each runner needs its own.
        CELParser.CEL_PARSER = None
        environment = celpy.Environment(runner_class=runner)
        for name, expression in SELECTORS.items():
            try:
                program = environment.program(environment.compile(expression), functions=functions)
                arguments = {"device": device}
                if program.evaluate(arguments) is not True and not bool(program.evaluate(arguments)):
                    raise ValueError("another answer")
            except Exception:  # cel-python lets anything escape; what it cannot run has no number
                programs[name].append(None)
                continue
            programs[name].append((program.evaluate, arguments))
    return {name: (pair[0], pair[1]) for name, pair in programs.items()}


def shown(number: float | None, width: int = 9) -> str:
    return f"{'-':>{width}}" if number is None else f"{number:>{width}.3f}" if number < 10 else f"{number:>{width}.1f}"


def evaluation(rounds: int, has_celpy: bool) -> None:
    device = cel.device_view(D, ATTRIBUTES, {"memory": cel.Quantity.parse("80Gi")}, False)
    reference = celpy_programs() if has_celpy else dict.fromkeys(SELECTORS, (None, None))
    print("evaluation, microseconds")
    titles = ("generated", "exact", "celpy int.", "celpy comp.", "factor")
    print(" " * 14 + "".join(f"{title:>{width}}" for title, width in zip(titles, (10, 9, 11, 12, 8), strict=True)))
    for name, expression in SELECTORS.items():
        selector = cel.compile_selector(expression)
        assert selector.matches(device) is selector.matches_exactly(device) is True
        generated = fastest_us(selector.matches, device, 100_000, rounds)
        exact = fastest_us(selector.matches_exactly, device, 3_000, rounds)
        interpreted, compiled = (
            None if program is None else fastest_us(*program, 200, rounds) for program in reference[name]
        )
        factor = "-" if compiled is None else f"x{compiled / generated:.0f}"
        print(f"{name:14}{shown(generated, 10)}{shown(exact)}{shown(interpreted, 11)}{shown(compiled, 12)}{factor:>8}")


def pieces(expression: str) -> Iterator[object]:
    """What a scheduler does without a pause: each stage of compiling, then one evaluation, which gives the answer.

    None but for the last, which is what a user gets: True, False or an error's text.
    """
    try:
        selector = yield from cel.compile_in_stages(expression, ENVIRONMENT)
        yield
        yield selector.matches(DEVICE)
    except (cel.CompileError, cel.EvaluationError) as error:
        yield str(error)


class Taken(NamedTuple):
    """Milliseconds of CPU time: all pieces, the longest of them; and the answer."""

    all_ms: float
    piece_ms: float
    answer: object


def measure(expression: str, rounds: int) -> Taken:
    """The fastest of some rounds, piece by piece."""
    best: list[float] = []
    found: object = None
    for _ in range(rounds):
        times = []
        todo = pieces(expression)
        while True:
            start = time.process_time()
            done = next(todo, pieces)
            if done is pieces:
                break
            times.append(time.process_time() - start)
            found = done
        best = [*map(min, best, times)] if best else times
    return Taken(sum(best) * 1e3, max(best) * 1e3, found)


def hostile(rounds: int, limit_ms: float, piece_limit_ms: float, only: str = "") -> int:
    """Print every family that takes longer than a limit, and the longest of the others; the number of the former."""
    garbage_collector.settle()  # as a scheduler does
    rows = []
    for name, expression in FAMILIES.items():
        assert len(expression.encode()) <= LENGTH_MAX, name
        if only in name:
            rows.append((measure(expression, rounds), name))
    over = {name for taken, name in rows if taken.all_ms > limit_ms or taken.piece_ms > piece_limit_ms}
    print(f"{len(rows)} hostile expressions, compiled and evaluated once: {len(over)} above {limit_ms:g} ms")
    print(f"or with a stage or an evaluation above {piece_limit_ms:g} ms")
    for taken, name in sorted(rows, key=lambda row: -row[0].piece_ms)[: max(len(over), 12)]:
        text = str(taken.answer).splitlines()[0][:60]
        print(f"{taken.all_ms:8.1f} ms, {taken.piece_ms:5.1f} ms at a time  {name:44} {text}")
    return len(over)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--hostile", action="store_true", help="what hostile expressions take, the longest first")
    parser.add_argument("--only", default="", metavar="TEXT", help="of the hostile ones those whose name has this")
    parser.add_argument("--no-celpy", action="store_true", help="leave out cel-python")
    arguments = parser.parse_args()
    print(f"Python {sys.version.split()[0]}")
    if arguments.hostile:
        sys.exit(hostile(arguments.rounds, 60, 25, arguments.only) > 0)
    evaluation(arguments.rounds, not arguments.no_celpy)


if __name__ == "__main__":
    main()
