"""Evaluation and compilation of the eight reference selectors, everything side by side in one run.

    python -m benchmarks.cel [--rounds 7] [--no-celpy]
    python -m benchmarks.cel --hostile [--rounds 3]     # expressions written to take long (benchmarks/hostile.py)

Rows: generated code, the exact evaluator, cel-python's two runners (where they can run the selector) and a
lambda written by hand. Times are the fastest of several rounds in CPU time, so that other work on the
machine disturbs little; still compare columns of one run, not runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import cel
from cel.checker import environments
from cel.parser.frontend import parse
from cel.program import check_constants, check_expression

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


class HandMadeDevice:
    """What somebody would write who needs these eight answers and nothing else."""

    __slots__ = ("attributes", "capacity", "driver")

    def __init__(self, driver: str, attributes: dict[str, dict[str, Any]], capacity: dict[str, dict[str, int]]) -> None:
        self.driver = driver
        self.attributes = attributes
        self.capacity = capacity


def hand_made() -> dict[str, Callable[[HandMadeDevice], bool]]:
    import re

    pattern = re.compile(r"^(A|H)100\Z").search
    large = 40 * 2**30
    old = (535, 0, 0)
    return {
        "S1 driver": lambda d: d.driver == D,
        "S2 reference": lambda d: (
            d.driver == D and d.attributes[D]["model"] == "A100" and d.capacity[D]["memory"] >= large
        ),
        "S3 version": lambda d: d.attributes[D]["model"] == "A100" and d.attributes[D]["driverVersion"] >= old,
        "S4 membership": lambda d: (
            D in d.attributes and "index" in d.attributes[D] and d.attributes[D]["index"] in (0, 1, 2, 3)
        ),
        "S5 exists": lambda d: any(d.attributes[D]["model"] == m for m in ("A100", "H100")),
        "S6 pattern": lambda d: (
            pattern(d.attributes[D]["model"]) is not None or d.attributes[D]["uuid"].startswith("GPU-")
        ),
        "S7 bind": lambda d: (a := d.attributes[D])["model"].startswith("A") and a["index"] < 4,
        "S8 optional": lambda d: d.attributes[D].get("family", "") == "ampere",
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


def fastest_us(function: Callable[[], object], calls: int, rounds: int) -> float:
    """Microseconds of CPU time per call of the fastest round, the loop's own time subtracted."""
    best = idle = float("inf")
    steps = range(calls)
    for _ in range(rounds):
        start = time.process_time()
        for _ in steps:
            pass
        middle = time.process_time()
        for _ in steps:
            function()
        end = time.process_time()
        idle = min(idle, middle - start)
        best = min(best, end - middle)
    return (best - idle) / calls * 1e6


def per_device_us(matches: Callable[[Any], object], device: Any, calls: int, rounds: int) -> float:
    """As `fastest_us`, without a function between the loop and what is measured."""
    best = idle = float("inf")
    steps = range(calls)
    for _ in range(rounds):
        start = time.process_time()
        for _ in steps:
            pass
        middle = time.process_time()
        for _ in steps:
            matches(device)
        end = time.process_time()
        idle = min(idle, middle - start)
        best = min(best, end - middle)
    return (best - idle) / calls * 1e6


def celpy_programs() -> dict[str, tuple[Callable[[], object] | None, Callable[[], object] | None]]:
    """cel-python's interpreted and compiled evaluation by selector; None where it cannot run it."""
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
    programs: dict[str, list[Callable[[], object] | None]] = {name: [] for name in SELECTORS}
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
            programs[name].append(lambda program=program, arguments=arguments: program.evaluate(arguments))
    return {name: (pair[0], pair[1]) for name, pair in programs.items()}


def shown(number: float | None, width: int = 9) -> str:
    return f"{'-':>{width}}" if number is None else f"{number:>{width}.3f}" if number < 10 else f"{number:>{width}.1f}"


def evaluation(rounds: int, has_celpy: bool) -> None:
    device = cel.device_view(D, ATTRIBUTES, {"memory": cel.Quantity.parse("80Gi")}, False)
    plain = HandMadeDevice(
        D,
        {D: {**{k: v for k, v in ATTRIBUTES.items() if "/" not in k}, "driverVersion": (550, 54, 15)}},
        {D: {"memory": 80 * 2**30}},
    )
    lambdas = hand_made()
    reference = celpy_programs() if has_celpy else dict.fromkeys(SELECTORS, (None, None))
    print("evaluation, microseconds")
    titles = ("lambda", "generated", "ratio", "exact", "celpy int.", "celpy comp.", "factor")
    print(
        " " * 14 + "".join(f"{title:>{width}}" for title, width in zip(titles, (9, 10, 7, 9, 11, 12, 8), strict=True))
    )
    for name, expression in SELECTORS.items():
        selector = cel.compile_selector(expression)
        assert selector.matches(device) is selector.matches_exactly(device) is lambdas[name](plain) is True
        by_hand = per_device_us(lambdas[name], plain, 100_000, rounds)
        generated = per_device_us(selector.matches, device, 100_000, rounds)
        exact = per_device_us(selector.matches_exactly, device, 3_000, rounds)
        interpreted, compiled = (
            None if program is None else fastest_us(program, 200, rounds) for program in reference[name]
        )
        factor = "-" if compiled is None else f"x{compiled / generated:.0f}"
        print(
            f"{name:14}{shown(by_hand)}{shown(generated, 10)}{generated / by_hand:>7.2f}{shown(exact)}"
            f"{shown(interpreted, 11)}{shown(compiled, 12)}{factor:>8}"
        )


def compilation(rounds: int) -> None:
    print("\ncompilation, microseconds")
    print(f"{'':14}{'parse':>9}{'check':>9}{'ready to run':>14}")
    for name, expression in SELECTORS.items():
        options = environments.get().parse_options

        def checked(expression: str = expression) -> None:
            check_constants(check_expression(expression))

        parsing = fastest_us(lambda e=expression, o=options: parse(e, options=o), 500, rounds)
        checking = fastest_us(checked, 500, rounds) - parsing
        ready = fastest_us(lambda e=expression: cel.compile_selector(e), 300, rounds)
        print(f"{name:14}{shown(parsing)}{shown(checking)}{shown(ready, 14)}")


def importing(rounds: int) -> None:
    """Milliseconds a new process spends on imports, beyond starting."""
    print("\nnew process, milliseconds of CPU time, beyond an empty one")
    script = "import resource\n{}\nu = resource.getrusage(resource.RUSAGE_SELF)\nprint(u.ru_utime + u.ru_stime)"

    def cost(statement: str) -> float:
        command = [sys.executable, "-c", script.format(statement)]
        return min(float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(rounds)) * 1e3

    empty = cost("pass")
    first = f"import cel; cel.compile_selector({SELECTORS['S2 reference']!r})"
    for title, statement in (("import cel", "import cel"), ("import cel and compile S2", first)):
        print(f"{title:28}{cost(statement) - empty:8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--hostile", action="store_true", help="what hostile expressions take, the longest first")
    parser.add_argument("--only", default="", metavar="TEXT", help="of the hostile ones those whose name has this")
    parser.add_argument("--no-celpy", action="store_true", help="leave out cel-python")
    arguments = parser.parse_args()
    print(f"Python {sys.version.split()[0]}")
    if arguments.hostile:
        from benchmarks import hostile

        sys.exit(hostile.report(arguments.rounds, 60, 25, arguments.only) > 0)
    evaluation(arguments.rounds, not arguments.no_celpy)
    compilation(arguments.rounds)
    importing(arguments.rounds)


if __name__ == "__main__":
    main()
