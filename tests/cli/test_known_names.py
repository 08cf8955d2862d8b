"""A shell is offered the names of pods, claims, classes and nodes that the command would ask about."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli import known_names
from scheduler.cli.completion import complete_for_kubectl
from scheduler.embedded.cluster import EmbeddedCluster
from tests.cli.test_cluster_question import NAMESPACES, in_namespace, kubeconfig
from tests.offline.causes import claim, device_class, gpu, node, pod, slice_

OBJECTS = [
    node(),
    slice_(gpu("gpu-0")),
    device_class(),
    *in_namespace("team", claim(name="gpu"), pod("gpu", name="web"), pod("gpu", name="worker")),
    *in_namespace("other", pod(name="away")),
]


def offered(*words: str) -> list[str]:
    return [line.partition("\t")[0] for line in complete_for_kubectl(words)][:-1]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that tests run on may be busy."""
    monkeypatch.setattr(known_names, "_WAIT_S", 60.0)


@pytest.fixture
def dump(tmp_path: Path) -> str:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*NAMESPACES, *OBJECTS]}))
    return str(path)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["explain", "-f", "FILE", ""], ["away", "claim/gpu", "web", "worker"]),
        (["explain", "-f", "FILE", "-n", "team", "w"], ["web", "worker"]),
        (["explain", "-f", "FILE", "-n", "other", ""], ["away"]),
        (["explain", "-f", "FILE", "pod/we"], ["pod/web"]),
        (["explain", "-f", "FILE", "claim", ""], ["gpu"]),
        (["explain", "-f", "FILE", "web", ""], []),
        (["explain", "-f", "FILE", "-n", "t"], ["team"]),
        (["simulate", "-f", "FILE", "--claim", ""], ["gpu"]),
        (["simulate", "-f", "FILE", "--remove", "no"], ["node/node-1"]),
        (["make-room", "-f", "FILE", "pod/w"], ["pod/web", "pod/worker"]),
        (["devices", "-f", "FILE", "--node", ""], ["node-1"]),
        (["devices", "-f", "FILE", "--class", ""], ["gpu.example.com"]),
        (["simulate", "-f", "FILE", "--pod", "a"], ["away"]),
    ],
    ids=" ".join,
)
def test_names_of_the_files_on_the_line(words: list[str], names: list[str], dump: str) -> None:
    assert offered(*(dump if word == "FILE" else word for word in words)) == names


@pytest.mark.slow
async def test_names_of_the_cluster_that_would_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the context's namespace; with -A in all."""
    async with EmbeddedCluster(controllers=False) as cluster:
        await cluster.apply([*NAMESPACES, *OBJECTS])
        path = tmp_path / "config"
        path.write_text(json.dumps(kubeconfig(cluster.url, "team")))
        monkeypatch.setenv("KUBECONFIG", str(path))

        async def names(*words: str) -> list[str]:
            return await asyncio.to_thread(offered, *words)

        assert await names("explain", "") == ["claim/gpu", "web", "worker"]
        assert await names("explain", "-A", "") == ["away", "claim/gpu", "web", "worker"]
        assert await names("devices", "--node", "n") == ["node-1"]
        assert await names("explain", "deploy/") == []


@pytest.mark.parametrize("file", ["/nowhere/at/all", "-"])
def test_what_fails_says_nothing(file: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")

    assert offered("explain", "-f", file, "") == []
    assert offered("explain", "") == []
    assert capfd.readouterr() == ("", "")


def test_what_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that looks is one that never ends; nobody waits for it."""
    started: list[Any] = []
    run = subprocess.run

    def never(command: list[str], **options: Any) -> Any:
        started.append(options["timeout"])
        return run([sys.executable, "-c", "import signal; signal.pause()"], **{**options, "timeout": 0.05})

    monkeypatch.setattr(subprocess, "run", never)

    assert offered("explain", "") == []
    assert started == [60.0]
