"""Generated expressions, answered by us and by the released Go implementation: equal, or a bug.

Compared are the verdict (value, compile error or runtime error), the texts of the errors, and the estimated
cost. `DRA_SCHEDULER_CEL_SEED` repeats or varies the batch; the seed is printed. What cannot be compared is
named in `is_comparable`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cel.checker import environments
from cel.checker.declarations import BOOL
from cel.errors import CompileError, EvaluationError
from cel.evaluator.walker import plan
from cel.library.values import COST_EXCEEDED, EFFORT, EFFORT_LIMIT, LIMIT_EXCEEDED
from cel.program import check_expression
from scheduler.cli.cel_inputs import find_environment, read_device
from tests.answers.cel import answer, parse_gates
from tests.cel.expressions import DEVICES, Generator
from tests.oracle.client import Oracle
from tests.oracle.fixture import oracle  # noqa: F401

pytestmark = pytest.mark.oracle

SEED = int(os.environ.get("DRA_SCHEDULER_CEL_SEED", "20260101"))
BATCH = 4_000
LONGEST = 2_000


def question(generator_choices: Any) -> dict[str, Any]:
    """A question made with one function for all choices, `choose(n)`."""
    has_device = generator_choices(5) < 2
    generator = Generator(generator_choices, has_device=has_device)
    wanted = BOOL if has_device else generator.any_type()
    asked: dict[str, Any] = {"expression": generator.expression(wanted, 1 + generator_choices(4))}
    if has_device:
        asked["device"] = DEVICES[generator_choices(len(DEVICES))]
    else:
        asked["result"] = "any"
    if generator_choices(4) == 0:
        asked["env"] = "new"
    if generator_choices(3) == 0:
        asked["gates"] = {"listTypeAttributes": True}
    return asked


def is_comparable(asked: dict[str, Any], theirs: dict[str, Any]) -> bool:
    text = json.dumps(theirs)
    if theirs.get("outcome") == "panic":
        return False  # Go crashes: a constant map with a key that cannot be one
    if "NamedFormat" in text or "unsupported conversion to ref.Val" in text:
        return False  # prints memory addresses; cannot print a URL inside an optional
    if ": unsupported attribute value" in text or ": parse semantic version: " in text:
        return False  # until 1.37 a value that nobody can read fails what does not ask for it, too
    if "no such key: NaN" in text:
        return False  # the oracle cannot look up what it prints
    if "internal error: interface conversion" in text:
        return False  # Go panics inside and says so instead of the error that led there
    try:
        checked = check_expression(asked["expression"], environments.get(list_type_attributes=True))
    except CompileError:
        return True
    # 1.36 flattens optionals of optionals where they pass through ?: or a variable; dyn() can hide the inner one.
    shown = {str(type_) for type_ in checked.types.values()}
    if any("optional_type(optional_type" in one for one in shown):
        return False
    return not ("dyn(" in asked["expression"] and any("optional_type(dyn" in one for one in shown))


def flattened(value: Any) -> Any:
    """A value as 1.36 shows it where optionals of optionals passed through ?: or a variable."""
    if isinstance(value, dict) and isinstance(value.get("optional"), dict):
        inner = flattened(value["optional"])
        return inner if "optional" in inner else {"optional": inner}
    if isinstance(value, dict) and value.get("optional") == "optional.none":
        return {"optional": {"null_type": "NULL_VALUE"}}
    return value


def normalized(reply: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in reply.items() if key not in ("actual_cost", "output_type", "cost")}
    if "compile_error" in kept:
        kept.pop("max_cost", None)
    if kept.get("runtime_error") == LIMIT_EXCEEDED:
        kept["runtime_error"] = COST_EXCEEDED
    value = flattened(kept.get("value"))
    if "value" in kept:
        kept["value"] = value
    if asked.get("result") != "any" and isinstance(value, dict) and "bool" in value:
        kept["value"] = value["bool"] == "true"
    return kept


def differences(asked: list[dict[str, Any]], replies: list[dict[str, Any]]) -> Iterator[str]:
    for one, theirs in zip(asked, replies, strict=True):
        if not is_comparable(one, theirs):
            continue
        ours = normalized(answer({**one, "cost": True}), one)
        wanted = normalized(theirs, one)
        if ours != wanted:
            yield f"{json.dumps(one, ensure_ascii=False)}\n  Go:   {wanted}\n  ours: {ours}"


def counted(
    asked: list[dict[str, Any]], replies: list[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Those Go has evaluated."""
    for one, reply in zip(asked, replies, strict=True):
        if reply.get("actual_cost") is not None and is_comparable(one, reply):
            yield one, reply


@lru_cache(maxsize=2 * BATCH)
def _effort(expression: str, environment: environments.Environment, device: str) -> int:
    view = read_device(json.loads(device), environment) if device != "null" else None
    planned = plan(check_expression(expression, environment))
    with contextlib.suppress(EvaluationError):
        planned.evaluate({} if view is None else {"device": view.fields})
    return EFFORT[0]


def spent(asked: dict[str, Any]) -> int:
    """The effort of an evaluation."""
    gates = {"DRAConsumableCapacity": True, **parse_gates(asked.get("gates"))}
    environment = find_environment(environments.DEFAULT_VERSION, asked.get("env") or "stored", gates)
    return _effort(asked["expression"], environment, json.dumps(asked.get("device")))


def test_batch_of_generated_expressions_is_answered_as_by_go(oracle: Oracle) -> None:  # noqa: F811
    print(f"seed {SEED} (set DRA_SCHEDULER_CEL_SEED to change it)")
    choices = random.Random(SEED)
    asked = [one for one in (question(choices.randrange) for _ in range(BATCH)) if len(one["expression"]) < LONGEST]
    replies = oracle.ask_all({"kind": "cel", **one} for one in asked)
    found = list(differences(asked, replies))
    assert not found, f"seed {SEED}: {len(found)} of {len(asked)} differ:\n" + "\n".join(found[:5])
    # What exceeds kube-scheduler's limit exceeds ours.
    costs = [(spent(one), reply["actual_cost"]) for one, reply in counted(asked, replies)]
    assert all(ours / EFFORT_LIMIT >= theirs / 1_000_000 for ours, theirs in costs)
    assert len(costs) > len(asked) / 3
    # The comparison is worth something only while most expressions get as far as a value.
    assert sum("value" in reply for reply in replies) > len(replies) * 0.45
    assert len(asked) > BATCH / 2


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_expression_is_answered_as_by_go(oracle: Oracle, data: st.DataObject) -> None:  # noqa: F811
    asked = question(lambda count: data.draw(st.integers(0, count - 1)))
    reply = oracle.ask({"kind": "cel", **asked})
    assert list(differences([asked], [reply])) == []


MANGLED = (
    "a.b.c == 1 && d[2] in [1,2,3]",
    "[1,2,?x]",
    '{"a": 1, ?"b": 2}',
    "f(x, y).g(z)[0]",
    "a ? b : c ? d : e",
    "-1 + --2 * !x",
    "A.B{c: 1, ?d: 2}",
    "x.exists(i, i > 1) || has(a.b)",
    "a.?b[?c].`d`",
    "(((1)))",
)
PIECES = (
    "a", "1", "2.5", "3u", '"s"', "b'x'", "true", "null", "(", ")", "[", "]", "{", "}", ",", ".", "?", ":", "+",
    "-", "*", "/", "%", "==", "!=", "<", "in", "&&", "||", "!", "f(", ".g(", "has(", "device", "`x`", "x.y", "[1]",
    "{1:2}", "#", "=", "&", '"u', "'''a'''", ".?", "[?", "A{", "size(", "1.", ".5", "0x", "//c",
)  # fmt: skip


def mangle(choices: random.Random) -> str:
    if choices.random() < 0.5:
        return " ".join(choices.choice(PIECES) for _ in range(choices.randint(1, 9)))
    text = choices.choice(MANGLED)
    for _ in range(choices.randint(1, 3)):
        place, what = choices.randrange(len(text) + 1), choices.random()
        if what < 0.4:
            text = text[:place] + text[place + 1 :]
        elif what < 0.8:
            text = text[:place] + choices.choice(PIECES) + text[place:]
        else:
            text = text[:place]
    return text


def syntax_errors(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("ERROR: <input>:") and "Syntax error: " in line]


def test_batch_of_mangled_expressions_gets_the_first_syntax_error_of_go(oracle: Oracle) -> None:  # noqa: F811
    print(f"seed {SEED} (set DRA_SCHEDULER_CEL_SEED to change it)")
    choices = random.Random(SEED)
    asked = [{"expression": mangle(choices), "result": "any"} for _ in range(2_000)]
    replies = oracle.ask_all({"kind": "cel", "cost": False, **one} for one in asked)
    compared = reworded = 0
    for one, theirs in zip(asked, replies, strict=True):
        # What cel-go adds from visiting the repaired tree (reserved words and such) is not imitated.
        wanted = syntax_errors(theirs.get("compile_error", ""))
        found = syntax_errors(answer(one).get("compile_error", ""))
        compared += bool(wanted)
        reworded += found[:1] != wanted[:1]
        assert [place(line) for line in found[:1]] == [place(line) for line in wanted[:1]], one
        assert {place(line) for line in found} <= {place(line) for line in wanted}, one
    assert compared > 1_000
    assert reworded < compared / 50


def place(line: str) -> str:
    """`ERROR: <input>:1:3`."""
    return line.rpartition(": Syntax error: ")[0]
