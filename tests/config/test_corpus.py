"""A corpus of configuration files: accepted or refused as kube-scheduler does, with the plugins it would call."""

from __future__ import annotations

from typing import Any

import pytest

from allocator import Features
from scheduler.config.file import ConfigError, ConfigFile, parse_config
from tests.config.corpus import ACCEPTED, HEAD, REFUSED
from tests.oracle.client import Oracle
from tests.oracle.fixture import oracle_136  # noqa: F401

accepted = pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED.keys())
refused = pytest.mark.parametrize(("text", "complaint"), REFUSED.values(), ids=REFUSED.keys())

LATER = ("placementFeasible", "podGroupPostFilter")
"""Extension points that 1.36 does not have."""


def read(text: str) -> ConfigFile:
    return parse_config(HEAD + text, "f.yaml")


def ask(oracle_136: Oracle, text: str) -> dict[str, Any]:  # noqa: F811
    return oracle_136.ask({"kind": "scheduler-config", "text": HEAD + text})


@accepted
def test_accepted(text: str) -> None:
    read(text)


@refused
def test_refused(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(text)

    lines = str(raised.value).splitlines()
    assert any(line.partition(" ")[2].startswith(complaint) for line in lines), lines
    assert all(line.startswith("f.yaml:") and not line.startswith("f.yaml:1:1: ") for line in lines)


@pytest.mark.oracle
@accepted
def test_kube_scheduler_accepts_it_and_calls_the_same_plugins(oracle_136: Oracle, text: str) -> None:  # noqa: F811
    answer = ask(oracle_136, text)

    assert answer["accepted"], answer
    ours = {
        profile.scheduler_name
        if "scheduler_name" in profile.model_fields_set
        else "default-scheduler": profile.expanded(Features(kubernetes="1.36"))
        for profile in read(text).config.profiles
    }
    assert ours.keys() == answer["profiles"].keys()
    for name, expanded in ours.items():
        theirs = {
            point[0].lower() + point[1:]: [entry["Name"] for entry in entries["Enabled"] or ()]
            for point, entries in answer["profiles"][name].items()
            if point != "MultiPoint"
        }
        assert {point: list(names) for point, names in expanded.by_point.items() if point not in LATER} == theirs
        weights = {entry["Name"]: entry["Weight"] for entry in answer["profiles"][name]["Score"]["Enabled"] or ()}
        assert {name: expanded.weights[name] for name in expanded.by_point["score"]} == weights


@pytest.mark.oracle
@refused
def test_kube_scheduler_refuses_it(oracle_136: Oracle, text: str, complaint: str) -> None:  # noqa: F811
    assert not ask(oracle_136, text)["accepted"]
