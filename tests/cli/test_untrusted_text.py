"""What anybody wrote into an object never steers the terminal of whoever looks at it, and forges no line there."""

from __future__ import annotations

import ast
import io
import itertools
import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cli import terminal
from scheduler.cli.main import cli
from scheduler.cli.run import JsonFormatter
from scheduler.cli.terminal import TextFormatter, echo, escaped

UNSAFE = "".join(
    chr(code)
    for first, last in (
        *((0, 0x1F), (0x7F, 0x9F), (0x61C, 0x61C), (0x200E, 0x200F)),
        *((0x2028, 0x2029), (0x202A, 0x202E), (0x2066, 0x2069)),
    )
    for code in range(first, last + 1)
)
LEFT = UNSAFE.replace("\n", "").replace("\t", "")
"""What no output has, ends of lines and tabs of the program's own aside."""
FORGED = "forged: "
COMMANDS = (
    "explain -A",
    "explain pod/asked",
    "explain pod/asked -o wide",
    "explain pod/asked -o json",
    "explain pod/asked -o yaml",
    "explain pod/no-such",
    "simulate",
    "simulate -o wide",
    "simulate -o csv",
    "simulate -o name",
    "simulate -o json",
    "make-room pod/asked",
    "drain-device p/d",
    "devices",
    "devices -o wide",
    "devices -o name",
    "devices -o yaml",
    "dump",
    "dump -o json",
    "dump -o name",
    "verdicts --pod asked",
)
ON_FILES = ("lint FILE", "lint FILE -o json", "cel check -f FILE", "cel eval true -f FILE", "convert FILE")


def world(texts: list[str], *, is_dump: bool) -> list[dict[str, Any]]:
    """A cluster in which each free text is one of these; one pod waits."""
    take = itertools.cycle(texts)
    number = iter(range(1, 100))

    def obj(version: str, kind: str, name: str, namespace: str = "default", **rest: Any) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": name, "labels": {"l": next(take)}, "annotations": {"a": next(take)}}
        if namespace:
            metadata["namespace"] = namespace
        if is_dump:
            metadata |= {"uid": f"u{next(number)}", "resourceVersion": str(next(number))}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}

    def claim(name: str, selector: str, namespace: str = "default") -> dict[str, Any]:
        exactly = {"deviceClassName": "gpu", "count": 1, "selectors": [{"cel": {"expression": selector}}]}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        return obj("resource.k8s.io/v1", "ResourceClaim", name, namespace, spec=spec)

    def pod(name: str, claim_name: str, namespace: str = "default", node: str = "") -> dict[str, Any]:
        container = {"name": "c", "image": next(take), "resources": {"claims": [{"name": "g"}]}}
        spec = {"schedulerName": "dra-scheduler", "containers": [container], "nodeSelector": {"on": next(take)}}
        spec["resourceClaims"] = [{"name": "g", "resourceClaimName": claim_name}]
        condition = {"type": "PodScheduled", "status": "False", "reason": next(take), "message": next(take)}
        status = {"phase": "Pending", "conditions": [condition]}
        return obj("v1", "Pod", name, namespace, spec=spec | ({"nodeName": node} if node else {}), status=status)

    node = next(take)
    devices = [
        {
            "name": next(take) or "d",
            "attributes": {"uuid": {"string": next(take)}},
            "taints": [{"key": "k", "value": next(take), "effect": "NoSchedule"}],
        }
    ]
    pool = {"name": next(take) or "p", "generation": 1, "resourceSliceCount": 1}
    slices = {"driver": "d.example.com", "nodeName": node, "pool": pool, "devices": devices}
    quoted = json.dumps(next(take), ensure_ascii=False).replace("\\u", "\\\\u")
    gpu = {"selectors": [{"cel": {"expression": 'device.driver == "d.example.com"'}}]}
    cpu = {"allocatable": {"cpu": "4", "pods": "10"}}
    return [
        obj("resource.k8s.io/v1", "DeviceClass", "gpu", "", spec=gpu),
        obj(
            "v1",
            "Node",
            node,
            "",
            spec={"taints": [{"key": "t", "value": next(take), "effect": "NoSchedule"}]},
            status=cpu,
        ),
        obj("v1", "Node", "plain", "", spec={"unschedulable": True}, status=cpu),
        obj("resource.k8s.io/v1", "ResourceSlice", "s", "", spec=slices),
        claim("c", f'device.attributes["d.example.com"].uuid == {quoted}'),
        claim(next(take), "true"),
        claim("broken", f"device.nothing // {next(take)}\n + "),
        claim("raw", next(take)),
        pod("asked", "c"),
        pod("other", "broken"),
        pod(next(take), next(take), next(take)),
        pod(next(take), "c", "default", node),
        obj("policy/v1", "PodDisruptionBudget", next(take), spec={"selector": {"matchLabels": {"l": next(take)}}}),
        obj(next(take), next(take), next(take)),
    ]


hostile = st.lists(
    st.one_of(
        st.text(alphabet=UNSAFE + "a-", min_size=1, max_size=8),
        st.sampled_from(
            [f"x\n{FORGED}", f"x\r{FORGED}", f"\u2028{FORGED}", "\x1b]0;title\x07", "\x9b31m", "\u202e\u2066evil"]
        ),
    ),
    min_size=3,
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(texts=hostile, is_dump=st.booleans())
def test_no_command_prints_what_steers_a_terminal(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], is_dump: bool
) -> None:
    path = tmp_path_factory.mktemp("world") / "world.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": world(texts, is_dump=is_dump)}))
    for command in (*(f"{command} -f FILE" for command in COMMANDS), *ON_FILES):
        result = CliRunner().invoke(cli, [one.replace("FILE", str(path)) for one in command.split()])
        assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.exc_info)
        printed = result.output if not command.startswith("convert") else result.stderr  # a file stays what it is
        assert not {*printed} & {*LEFT}, (command, printed)
        assert not [line for line in printed.split("\n") if line.startswith(FORGED)], (command, printed)


def test_dumps_say_the_same_in_escapes(tmp_path: Path) -> None:
    objects = world([f"x{UNSAFE}", "\u202e", "plain"], is_dump=True)[:-1]
    path = tmp_path / "world.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    in_json, in_yaml = (
        CliRunner().invoke(cli, ["dump", "-f", str(path), "-o", form]).stdout for form in ("json", "yaml")
    )
    assert json.loads(in_json)["items"] == [*yaml.safe_load_all(in_yaml)]
    assert [one["metadata"]["name"] for one in yaml.safe_load_all(in_yaml)] == [
        one["metadata"]["name"] for one in objects
    ]


def test_own_colours_stay_and_those_of_texts_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    with click.Context(click.Command("x")) as context:
        context.color = True
        terminal.caution("red \x1b[31m", "second\nno third")
    assert capsys.readouterr().out == "\x1b[33mred \\u001b[31m\nsecond no third\x1b[0m\n"


def test_each_argument_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    echo("a\nb\tc", "d\u2028e")
    assert capsys.readouterr().out == "a b\tc\nd\\u2028e\n"
    assert escaped(UNSAFE) == escaped(escaped(UNSAFE))


def test_a_file_stays_what_it_is_but_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    printed = []
    for kind in (io.StringIO, Terminal):
        monkeypatch.setattr(sys, "stdout", kind())
        terminal.print_file("# \u202e\r\na: 1\n")
        printed.append(sys.stdout.getvalue())
    assert printed == ["# \u202e\r\na: 1\n", "# \\u202e\na: 1\n"]


def test_the_log_has_one_line_a_record_and_a_traceback_below() -> None:
    try:
        raise ValueError(f"in\x1b[2J\n{FORGED}")
    except ValueError:
        record = logging.LogRecord("x", logging.WARNING, "", 1, "pod %s", (f"a\n{FORGED}\x9b\u202e",), sys.exc_info())
    text = TextFormatter("%(levelname)s %(message)s").format(record)
    assert text.startswith(f"WARNING pod a {FORGED}\\u009b\\u202e\nTraceback")
    assert not {*text} & {*LEFT}
    line = JsonFormatter().format(record)
    assert not {*line} & {*UNSAFE}
    assert json.loads(line)["message"] == f"pod a\n{FORGED}\x9b\u202e"


def test_commands_that_set_up_no_log_write_escaped_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.Logger("of-no-command")  # without a handler, as in a process that set up none
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    CliRunner().invoke(cli, ["version"])
    logger.warning("pod %s", f"a\x1b[2J\n{FORGED}")
    assert written.getvalue() == f"pod a\\u001b[2J {FORGED}\n"


def test_nothing_else_prints() -> None:
    """One place, so that a new command cannot forget it."""
    wrong = []
    for path in Path("scheduler/cli").glob("*.py"):
        calls = [one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.Call)]
        for node in calls:
            called = ast.unparse(node.func)
            if re.fullmatch(r"print|click\.s?echo|sys\.std(out|err)(\.buffer)?\.write", called):
                wrong.append(f"{path.name}:{node.lineno}: {called}")
    assert [one for one in wrong if not one.startswith(("terminal.py", "known_names.py"))] == [], "use terminal.echo"


@pytest.mark.parametrize(
    ("spec", "command"),
    [
        ({"unschedulable": True}, "kubectl uncordon 'a;touch x'"),
        (
            {"taints": [{"key": "k", "value": "v;x", "effect": "NoSchedule"}]},
            "kubectl taint node 'a;touch x' 'k=v;x:NoSchedule-'",
        ),
    ],
)
def test_names_in_commands_are_quoted_for_a_shell(tmp_path: Path, spec: dict[str, Any], command: str) -> None:
    cpu = {"allocatable": {"cpu": "4", "pods": "10"}}
    metadata = {"name": "a;touch x", "uid": "u", "resourceVersion": "1"}
    pod = {"schedulerName": "dra-scheduler", "containers": [{"name": "c", "image": "i"}]}
    objects = [
        {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": cpu},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asked"}, "spec": pod},
    ]
    path = tmp_path / "world.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    result = CliRunner().invoke(cli, ["explain", "pod/asked", "-f", str(path)])
    assert command in result.stdout
