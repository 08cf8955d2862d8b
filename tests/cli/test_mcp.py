"""Tools for agents: each answer is what the command that it names prints, bounded, and told where it is not whole."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from scheduler.cli import mcp
from scheduler.cli.cluster_question import ClusterQuestion, cluster_question
from scheduler.cli.main import cli
from scheduler.cli.mcp import Tools, cut
from scheduler.embedded.cluster import EmbeddedCluster
from tests.offline.causes import claim, pod
from tests.offline.test_making_room import NODES, Obj, big, count_of, fleet, runs

ROOT = Path(__file__).resolve().parents[2]
TOOLS = {"why_pending", "what_would_help", "will_it_fit", "make_room", "devices", "who_holds", "drain_device"}
WORLD = [*fleet(*NODES), *runs("a", "node-1", 0, 1), *runs("b", "node-2", 0), *big(4)]
NEW = "\n---\n".join(map(json.dumps, [claim(count_of(2), name="new"), pod("new", name="new")]))


def dump(folder: Path, objects: list[Obj] = WORLD) -> str:
    (folder / "world.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(folder / "world.json")


def tools(*files: str, **options: Any) -> Tools:
    given = {"kubeconfig": None, "context": None, "config_path": None, "feature_gates": {}, "kubernetes": None}
    return Tools(ClusterQuestion(**{"files": files, "namespace": None, "is_everywhere": False, **given, **options}))


def printed(answer: Obj, given: str = "") -> Obj:
    """What a person reads who runs the command that an answer names."""
    words = shlex.split(answer["cli"].partition(" | ")[0].partition(" < ")[0])
    result = CliRunner().invoke(cli, words[1:], input=given)
    assert result.exit_code in (0, 1), result.output
    document: Obj = json.loads(result.stdout)
    return document


def without(answer: Obj) -> Obj:
    return {name: value for name, value in answer.items() if name not in ("cli", "said")}


@pytest.mark.slow
async def test_an_answer_is_what_its_command_prints(tmp_path: Path) -> None:
    asked = tools(dump(tmp_path))
    for answer in (
        await asked.why_pending("big"),
        await asked.make_room("big"),
        await asked.drain_device("node-1/gpu-0"),
    ):
        assert without(answer) == printed(answer)
    fit = await asked.will_it_fit(NEW)
    assert without(fit) == printed(fit, NEW)
    assert {one["name"]: one["outcome"] for one in fit["pods"]} == {"big": "unschedulable", "new": "fits"}
    listed = await asked.devices(node="node-1", free_only=True)
    assert without(listed) == printed(listed)
    assert {one["device"] for one in listed["devices"]} == {"gpu-2", "gpu-3"}


@pytest.mark.slow
async def test_a_part_of_an_answer_is_what_jq_takes_of_it(tmp_path: Path) -> None:
    asked = tools(dump(tmp_path))
    helping = await asked.what_would_help("default/big")
    whole = printed(helping)
    assert without(helping) == {name: whole[name] for name in without(helping)}
    assert helping["advice"]
    assert "| jq '{subject, fits, " in helping["cli"]
    held = await asked.who_holds()
    assert [one for one in printed(held)["devices"] if one["users"]] == held["devices"]
    assert [(one["pool"], one["device"]) for one in held["devices"]] == [
        *(("node-1", "gpu-0"), ("node-1", "gpu-1")),
        ("node-2", "gpu-0"),
    ]
    (one,) = (await asked.who_holds("node-1/gpu-0"))["devices"]
    assert one["users"][0]["pods"] == ["default/a"]


def test_options_are_given_again() -> None:
    given = {"context": "prod", "namespace": "team", "feature_gates": {"DRADeviceTaints": False}, "is_everywhere": True}
    question = tools("a b.yaml", **given, config_path=Path("c"))._question
    words = ["-f", "a b.yaml", "--context", "prod", "-n", "team", "--config", "c"]
    assert question.words() == [*words, "--feature-gates", "DRADeviceTaints=false", "-A"]


def test_every_option_about_a_cluster_is_given_again() -> None:
    """One that is left out would be taken for its default, and nothing would say so."""
    words = [*("-f", __file__), *("--kubeconfig", __file__), *("--context", "prod"), *("-n", "team")]
    words += [*("--config", __file__), *("--kube-scheduler-config", __file__), *("--kubernetes", "1.37")]
    words += [*("--feature-gates", "DRADeviceTaints=false"), *("--max-size", "2Gi"), "-A", "-R"]
    said: list[str] = []

    @click.command()
    @cluster_question
    def ask(question: ClusterQuestion) -> None:
        said.extend(question.words())

    found = CliRunner().invoke(ask, words, catch_exceptions=False)
    assert (found.exit_code, sorted(said)) == (0, sorted(words)), found.output
    given = {name for one in ask.params for name in one.opts}
    assert given <= {*words, "--all-namespaces", "--file", "--namespace", "--recursive"}


def test_a_long_answer_is_cut_and_says_so() -> None:
    document = {"cli": "x", "devices": [{"name": "gpu"}] * 1_000, "states": {"free": 1_000}, "notes": ["one"]}
    assert cut(document) == document
    found = cut(document, 2_000)
    assert len(json.dumps(found)) < 2_200
    assert (found["states"], found["notes"]) == (document["states"], ["one"])
    assert len(found["devices"]) + found["leftOut"]["devices"] == 1_000
    assert cut({"a": {"b": "x" * 100}}, 50) == {"a": None, "leftOut": {"a": 1}}
    assert cut({"a": ["x" * 100]}, 50) == {"a": [], "leftOut": {"a": 1}}


def test_without_the_sdk_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    result = CliRunner().invoke(cli, ["mcp", "-f", dump(tmp_path)])
    assert (result.exit_code, "pip install 'dra-scheduler[mcp]'" in result.output) == (2, True)


def test_standard_input_is_the_agents() -> None:
    result = CliRunner().invoke(cli, ["mcp", "-f", "-"], input="")
    assert (result.exit_code, "name a file" in result.output) == (2, True)


# -- a process of its own ---------------------------------------------------------------------------


def stands_in(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of the command."""
    program = folder / "python"
    program.write_text(f"#!/usr/bin/env bash\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


async def test_what_nobody_waits_for_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pid")
    stands_in(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 1000", monkeypatch)
    asked = tools()
    first = asyncio.create_task(asked.devices())
    pid = int(await asyncio.to_thread((tmp_path / "pid").read_text))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert asked._waiting == 0


async def test_one_runs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[int] = []

    async def turn(*_: object) -> tuple[int, bytes, bytes]:
        running.append(1)
        await asyncio.sleep(0)
        return 0, json.dumps({"together": len(running)}).encode(), str(running.pop()).encode()

    monkeypatch.setattr(mcp, "_run", turn)
    asked = tools()
    found = await asyncio.gather(*(asked.devices() for _ in range(4)))
    assert [one["together"] for one in found] == [1, 1, 1, 1]


async def test_too_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcp", reason="LEFT OUT, mcp: the MCP SDK is not installed")
    stands_in(tmp_path, f"read -r _ < {tmp_path}/gate; echo '{{}}'", monkeypatch)
    os.mkfifo(tmp_path / "gate")
    asked = tools()
    waiting = [asyncio.create_task(asked.devices()) for _ in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(Exception, match="4 questions wait already"):
        await asked.devices()
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_command_that_computes_too_long_is_ended_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp", reason="LEFT OUT, mcp: the MCP SDK is not installed")
    monkeypatch.setattr(mcp, "CPU_S_MAX", 1)
    stands_in(tmp_path, "while :; do :; done", monkeypatch)
    with pytest.raises(Exception, match=r"no answer within 1 s of a processor; without that bound: dra-scheduler dev"):
        await tools().devices()


@pytest.mark.parametrize("name", ["a\0b", "x" * 1_000_000], ids=["nul", "long"])
async def test_what_no_command_can_be_given_is_refused_with_a_reason(name: str) -> None:
    pytest.importorskip("mcp", reason="LEFT OUT, mcp: the MCP SDK is not installed")
    asked = tools()
    with pytest.raises(Exception, match=r"cannot be asked: (embedded null byte|.*Argument list too long)"):
        await asked.why_pending(name)
    assert asked._waiting == 0


async def test_a_refusal_has_no_control_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcp", reason="LEFT OUT, mcp: the MCP SDK is not installed")
    stands_in(tmp_path, """echo '{"devices": []}'""", monkeypatch)
    with pytest.raises(Exception, match="there is no such device") as refused:
        await tools().who_holds("\x1b[31mred/\u202ex")
    assert str(refused.value).isprintable()


# -- with the SDK's own client ----------------------------------------------------------------------


async def told(session: Any, tool: str, **arguments: Any) -> Obj:
    """An answer, or `{"error": TEXT}`."""
    result = await session.call_tool(tool, arguments)
    text = "".join(getattr(one, "text", "") for one in result.content)
    return {"error": text} if result.is_error else result.structured_content


@pytest.mark.slow
async def test_a_client_asks_about_a_dump(tmp_path: Path) -> None:
    sdk = pytest.importorskip("mcp", reason="LEFT OUT, mcp: the MCP SDK is not installed")
    arguments = ["-m", "scheduler", "mcp", "-f", dump(tmp_path)]
    server = sdk.StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT)
    async with sdk.stdio_client(server) as streams, sdk.ClientSession(*streams) as session:
        await session.initialize()
        offered = (await session.list_tools()).tools
        assert {one.name for one in offered} == TOOLS
        assert all(one.annotations.read_only_hint and one.description for one in offered)
        why = await told(session, "why_pending", pod="big")
        assert (why["kind"], without(why)) == ("devices-in-use", printed(why))
        room = await told(session, "make_room", pod="big")
        assert room["outcome"] == "plan"
        assert (await told(session, "drain_device", device="node-2/gpu-0"))["outcome"] == "plan"
        for tool, given, text in (
            ("why_pending", {"pod": "bug"}, "did you mean big?"),
            ("why_pending", {"pod": "--help"}, "no pod is named"),
            ("make_room", {"pod": "/etc/hostname"}, "give NAME or pod/NAME"),
            ("make_room", {"pod": "docs/index.md"}, "no pod is named docs/index.md"),  # a file that is there
            ("who_holds", {"device": "node-1/gpu-9"}, "did you mean node-1/gpu-"),
            ("drain_device", {"device": "-x"}, "there is no such device"),
            ("devices", {"node": "node-3"}, "did you mean node-"),
            ("will_it_fit", {"manifest": "a: ["}, "<stdin>"),
            ("will_it_fit", {"manifest": "#" * 300_000}, "larger than 256 KiB"),
            ("why_pending", {}, "pod"),
        ):
            assert text in (await told(session, tool, **given)).get("error", ""), tool


@pytest.mark.slow
async def test_a_client_asks_about_a_cluster(tmp_path: Path) -> None:
    sdk = pytest.importorskip("mcp", reason="LEFT OUT, mcp: the MCP SDK is not installed")
    async with EmbeddedCluster(token="as-in-the-demo") as cluster:
        await cluster.apply([*fleet(*NODES), *big(5)])
        arguments = ["-m", "scheduler", "mcp", "--kubeconfig", str(cluster.kubeconfig_path)]
        server = sdk.StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT)
        async with sdk.stdio_client(server) as streams, sdk.ClientSession(*streams) as session:
            await session.initialize()
            why = await told(session, "why_pending", pod="big")
            assert (why["outcome"], why["fits"]) == ("unschedulable", False)
            fit = await told(session, "will_it_fit", manifest=NEW)
            assert [(one["name"], one["outcome"]) for one in fit["pods"]] == [("new", "fits")]
            await cluster.apply([json.loads(one) for one in NEW.split("\n---\n")])
            assert (await told(session, "why_pending", pod="new"))["outcome"] == "fits"  # read anew
            assert (await told(session, "who_holds"))["devices"] == []
