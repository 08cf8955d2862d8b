"""`dra-scheduler config`: what `check` says and how it ends, and that what `show` prints sets the same."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from scheduler.cli.main import cli
from scheduler.config.file import parse_config
from scheduler.config.settings import Config
from scheduler.config.shown import shown
from tests.config.corpus import ACCEPTED, HEAD
from tests.oracle.client import Oracle
from tests.oracle.fixture import oracle_136  # noqa: F401

OWN = """---
apiVersion: dra-scheduler/v1alpha1
kind: DraSchedulerConfiguration
nodes: pool=gpu
requestTimeout: 90s
notReadyAfter: 1m30.5s
healthPort: null
featureGates: {DRAConsumableCapacity: false}
"""


def run(*args: str):
    return CliRunner().invoke(cli, ["config", *args])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "config.yaml"


def test_an_accepted_file(path):
    path.write_text(HEAD + "parallelism: 4\nprofiles: [{schedulerName: a}, {schedulerName: b}]\n")
    done = run("check", str(path))

    assert done.exit_code == 0
    assert done.output.splitlines() == [
        f"note: {path}:3:1: parallelism has no effect: decisions are made by one thread; writesInFlight bounds "
        "requests",
        f"{path}: accepted; schedules pods of a, b",
    ]


def test_every_file_is_checked(path, tmp_path):
    good, bad = path, tmp_path / "bad.yaml"
    good.write_text(HEAD)
    bad.write_text(HEAD + "paralelism: 4\nprofiles: {}\n")
    done = run("check", str(bad), str(good))

    assert done.exit_code == 1
    assert f'error: {bad}:3:1: paralelism: unknown field; did you mean "parallelism"?' in done.output
    assert f"{good}: accepted" in done.output


def test_show_without_a_file_prints_the_defaults():
    done = run("show")

    assert done.exit_code == 0
    theirs, ours = yaml.safe_load_all(done.output)
    assert theirs["leaderElection"]["leaseDuration"] == "15s"
    assert [entry["name"] for entry in theirs["profiles"][0]["plugins"]["multiPoint"]["enabled"]][:2] == [
        "SchedulingGates",
        "PrioritySort",
    ]
    assert ours["healthPort"] == 10259


def test_show_refuses_what_run_refuses(path):
    path.write_text(HEAD + "x: 1\n")
    done = run("show", str(path))

    assert (done.exit_code, done.output.startswith(f"Error: {path}:3:1: x: unknown field")) == (2, True)


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_is_shown_sets_the_same(text):
    own = OWN if "---" not in text else ""
    once = parse_config(HEAD + text + own, "f").config
    found = parse_config(shown(once), "f")
    again = found.config
    surprising = ("profiles", "leaderElection")
    assert all(line.partition(" ")[2].startswith(surprising) for line in found.words)

    assert shown(again) == shown(once)
    assert [profile.profile() for profile in again.profiles] == [profile.profile() for profile in once.profiles]
    assert (again.core_settings(), again.features()) == (once.core_settings(), once.features())
    assert (again.nodes, again.request_timeout, again.not_ready_after) == (
        (once.nodes, once.request_timeout, once.not_ready_after)
    )


def test_the_defaults_are_shown_as_they_are():
    assert parse_config(shown(Config()), "f").config.model_dump(exclude={"profiles"}) == Config().model_dump(
        exclude={"profiles"}
    )


def comparable(text: str) -> dict[str, Any]:
    """Our or kube-scheduler's YAML without what differs on purpose."""
    found: dict[str, Any] = next(iter(yaml.safe_load_all(text)))
    for name in ("leaderElection", "clientConnection", "parallelism", "enableProfiling", "enableContentionProfiling"):
        found.pop(name, None)
    for name in ("delayCacheUntilActive", "extenders", "percentageOfNodesToScore"):
        found.pop(name, None)
    for profile in found["profiles"]:
        profile.pop("schedulerName", None)
        profile["plugins"] = {point: sets(one) for point, one in profile["plugins"].items() if one}
        known = [one for one in profile.get("pluginConfig", ()) if one["name"] not in ("Coscheduling", "NodePorts")]
        profile["pluginConfig"] = {one["name"]: plain(one["args"]) for one in known}
    return found


def sets(one: dict[str, Any]) -> dict[str, Any]:
    enabled = [(entry["name"], entry.get("weight") or 1) for entry in one.get("enabled", ())]
    return {"enabled": enabled, "disabled": sorted(entry["name"] for entry in one.get("disabled", ()))}


def plain(args: Any) -> Any:
    """Without kinds, without what is empty, and without what only one of the two has."""
    if isinstance(args, dict):
        ours = {"searchSteps", "placement", "preemptForDevices", "preemptPodsOfOtherSchedulers"}
        left_out = {"apiVersion", "kind", "filterTimeout", "bindingTimeout"} | ours
        return {
            key: value for key, one in args.items() if key not in left_out and (value := plain(one)) not in ({}, [])
        }
    return [plain(one) for one in args] if isinstance(args, list) else args


@pytest.mark.oracle
@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_the_defaults_are_kube_schedulers(oracle_136: Oracle, text: str) -> None:  # noqa: F811
    answer = oracle_136.ask({"kind": "scheduler-config", "text": HEAD + text})

    ours = parse_config(HEAD + text, "f").config.model_copy(update={"kubernetes": "1.36"})
    assert comparable(shown(ours)) == comparable(answer["yaml"])
