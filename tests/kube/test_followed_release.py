"""Whose verdicts are given: the server's release, that of a dump, or the one that a setting names; and what is said."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import get_args

import click
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from allocator import NEWEST_RELEASE, RELEASES, Features
from cel.checker import environments
from scheduler.cli.main import cli
from scheduler.config import Config
from scheduler.embedded.server import discovery
from scheduler.kube.credentials import Connection
from scheduler.observer import ClusterObserver
from scheduler.validation.releases import minor_of, release_of, release_words, version_in, version_object
from tests.kube.test_app import cluster_with, running

SERVERS = [
    # the server's minor, the setting: the release that is followed, and parts of what is said
    pytest.param("37", None, "1.37", (), id="known"),
    pytest.param("37+", None, "1.37", (), id="as-providers-write-it"),
    pytest.param("36", None, "1.36", (), id="older"),
    pytest.param("36", "1.36", "1.36", (), id="the-setting-agrees"),
    pytest.param("36", "1.37", "1.37", ("kubernetes: 1.37 is set", "is Kubernetes 1.36"), id="the-setting-differs"),
    pytest.param("35", None, "1.36", ("is Kubernetes 1.35", "as 1.36 places them", "DRADeviceTaints"), id="1.35"),
    pytest.param("34", None, "1.36", ("is Kubernetes 1.34", "support-matrix"), id="1.34"),
    pytest.param("38", None, "1.38", ("is Kubernetes 1.38", "knows 1.34 to 1.37, and 1.38 as its beta"), id="beta"),
    pytest.param("39", None, "1.38", ("is Kubernetes 1.39", "decides as 1.38", "left out"), id="newer"),
    pytest.param("38", "1.36", "1.36", ("kubernetes: 1.36 is set", "decides as 1.36"), id="newer-and-set"),
]


def serve(patch: pytest.MonkeyPatch, minor: str) -> None:
    """Let the embedded server say that it is another release."""
    version = {**discovery._VERSION, "minor": minor, "gitVersion": f"v1.{minor.rstrip('+')}.4"}
    patch.setattr(discovery, "_VERSION", version)


@pytest.mark.parametrize(("minor", "setting", "followed", "said"), SERVERS)
async def test_a_scheduler_follows_its_server(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    minor: str,
    setting: str | None,
    followed: str,
    said: tuple[str, ...],
) -> None:
    serve(monkeypatch, minor)
    with caplog.at_level(logging.WARNING):
        async with cluster_with(devices=1) as cluster, running(cluster, kubernetes=setting) as app:
            await app.synced()
            machine = app.running.machine
            assert machine.store.features.kubernetes == followed
            app.metrics.observe_write("CreateClaim", "Accepted", 0.01)
            old_name = b'scheduler_resourceclaim_creates_total{status="success"} 1.0'
            assert (old_name in app.metrics.text()) == (followed == "1.36")
            (runner,) = machine.runners.values()
            is_named_first = runner.profile.order["Filter"].index("NodeName") == 0
            assert is_named_first == (followed != "1.36")
        async with cluster_with(devices=1) as cluster:
            config = Config(kubernetes=setting)
            async with ClusterObserver(Connection(url=cluster.url), config.features) as observer:
                assert observer.machine.store.features.kubernetes == followed

    words = [record.getMessage() for record in caplog.records if "Kubernetes 1." in record.getMessage()]
    assert bool(words) == bool(said)
    for part in said:
        assert part in " ".join(words)


def test_words_fit_on_a_line_of_a_log() -> None:
    for minor in range(34, 60):
        for setting in (None, *RELEASES):
            assert all(len(text) < 400 and "\n" not in text for text in release_words(minor, setting))


@pytest.mark.parametrize(
    ("text", "minor"),
    [
        ("v1.37.2", 37),
        ("v1.36.3-eks-1a2b", 36),
        ("1.35", 35),
        ("v1.37.2+k3s1", 37),
        ("dev", None),
        ("", None),
        ("v2.1", None),
    ],
)
def test_minors(text: str, minor: int | None) -> None:
    assert minor_of(text) == minor


def test_what_a_dump_says_is_read_again_and_nothing_else_is_taken_for_it() -> None:
    assert version_in(version_object("v1.36.3")) == "v1.36.3"
    assert version_in({"apiVersion": "v1", "kind": "ServerVersion", "gitVersion": "v1.36.3"}) is None
    assert version_in({"apiVersion": "v1", "kind": "Node"}) is None


def test_all_lists_of_releases_are_the_same() -> None:
    setting = [one for one in get_args(Config.model_fields["kubernetes"].annotation) if one is not type(None)]
    assert get_args(setting[0]) == RELEASES
    explain = cli.get_command(click.Context(cli), "explain")
    assert explain is not None
    (option,) = (one for one in explain.params if one.name == "kubernetes")
    assert isinstance(option.type, click.Choice)
    assert tuple(option.type.choices) == RELEASES
    assert [release_of(int(release.split(".")[1])) for release in RELEASES] == list(RELEASES)
    assert [f"1.{environments.minor_of(release)}" for release in RELEASES] == list(RELEASES)


def test_files_are_answered_as_their_dump_says(tmp_path: Path) -> None:
    """A selector that fails is told with the device from 1.37 on."""
    example = Path(__file__).parents[2] / "docs" / "examples" / "incidents" / "copied-selector.yaml"
    said = tmp_path / "version.json"
    said.write_text(json.dumps(version_object("v1.36.3")))

    newest = CliRunner().invoke(cli, ["explain", "pod/render", "-f", str(example)]).stdout
    older = CliRunner().invoke(cli, ["explain", "pod/render", "-f", str(example), "-f", str(said)]).stdout
    named = CliRunner().invoke(cli, ["explain", "pod/render", "-f", str(example), "--kubernetes", "1.36"]).stdout
    dumped = CliRunner().invoke(cli, ["dump", "-f", str(example), "-f", str(said)]).stdout

    assert "selector #0 on device gpu.example.com/gpu-a/gpu-0" in newest
    assert older == named != newest
    assert dumped.startswith("---\napiVersion: dra-scheduler/v1alpha1\nkind: ServerVersion\n")
    assert "gitVersion: v1.36.3" in dumped


def test_a_beta_is_followed_by_nobody_who_does_not_name_it() -> None:
    assert Features().kubernetes == Config().features().kubernetes == environments.get().version == NEWEST_RELEASE
    assert not Features().has_138_semantics
    assert Config(kubernetes="1.38").features().has_138_semantics


def test_gates_that_are_locked_on_cannot_be_turned_off() -> None:
    gates = {"DRAPartitionableDevices": False, "DRAConsumableCapacity": False}
    with pytest.raises(ValidationError, match=r"featureGates\.DRAPartitionableDevices.*locked to true"):
        Config.model_validate({"kubernetes": "1.38", "featureGates": gates})

    config = Config.model_validate({"featureGates": gates})  # as its server says
    assert not config.features("1.37").partitionable_devices
    followed = config.features("1.38")
    assert followed.partitionable_devices
    assert not followed.consumable_capacity
    assert [error.field for error in config.missing_in("1.38")] == ["featureGates.DRAPartitionableDevices"]
    assert list(config.missing_in("1.37")) == []


SHAPED = [{"pluginConfig": [{"name": "VolumeBinding", "args": {"shape": [{"utilization": 0, "score": 1}]}}]}]


def test_what_the_named_release_does_not_have_is_refused() -> None:
    with pytest.raises(ValidationError) as error:
        Config.model_validate({"kubernetes": "1.36", "profiles": SHAPED})
    assert "unexpected field `shape`" in str(error.value)
    Config.model_validate({"kubernetes": "1.37", "profiles": SHAPED})


@pytest.mark.parametrize(("minor", "is_told"), [("36", True), ("37", False)])
async def test_what_the_servers_release_does_not_have_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, minor: str, is_told: bool
) -> None:
    serve(monkeypatch, minor)
    profiles = Config.model_validate({"profiles": SHAPED}).profiles
    with caplog.at_level(logging.WARNING):
        async with cluster_with(devices=1) as cluster, running(cluster, profiles=profiles) as app:
            await app.synced()
    told = [record.getMessage() for record in caplog.records if "shape" in record.getMessage()]
    assert bool(told) is is_told
    assert all(text.startswith("Kubernetes 1.36 does not have it, so it has no effect: profiles[0]") for text in told)
