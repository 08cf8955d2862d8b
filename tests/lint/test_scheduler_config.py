"""Old configurations of kube-scheduler: v1beta3 is brought to v1, all others are refused."""

from __future__ import annotations

import pytest
import yaml

from scheduler.lint import Converted, Source, convert

HEAD = "apiVersion: kubescheduler.config.k8s.io/{}\nkind: KubeSchedulerConfiguration\n"


def run(version: str, text: str) -> Converted:
    (converted,) = convert([Source("f.yaml", HEAD.format(version) + text)])
    return converted


def test_profiles_are_the_same() -> None:
    converted = run(
        "v1beta3", "profiles:\n- schedulerName: s\n  plugins: {score: {enabled: [{name: DynamicResources}]}}\n"
    )

    obj = yaml.safe_load(converted.text)
    assert converted.refusals == ()
    assert obj["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert obj["profiles"][0]["plugins"]["score"]["enabled"] == [{"name": "DynamicResources"}]


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1", "v1beta2"])
def test_older_versions_are_refused_once_with_what_is_accepted(version: str) -> None:
    converted = run(version, "schedulerName: s\nalgorithmSource: {provider: DefaultProvider}\n")

    assert converted.text == ""
    (refusal,) = converted.refusals
    assert (str(refusal.place), refusal.code) == ("f.yaml:1:13", "old-scheduler-config")
    assert "kubescheduler.config.k8s.io/v1; kubescheduler.config.k8s.io/v1beta3 is accepted" in refusal.fix


@pytest.mark.parametrize(
    ("text", "place", "fix"),
    [
        ("disablePreemption: true\n", "3:1", "known here: parallelism"),
        (
            "profiles:\n- plugins:\n    score: {enabled: [{name: NodeResourcesMostAllocated}]}\n",
            "5:30",
            "NodeResourcesFit, with args.scoringStrategy.type: MostAllocated",
        ),
    ],
)
def test_what_has_no_place_in_v1_is_refused(text: str, place: str, fix: str) -> None:
    converted = run("v1beta3", text)

    assert converted.text == ""
    (refusal,) = converted.refusals
    assert str(refusal.place) == f"f.yaml:{place}"
    assert fix in refusal.fix


def test_a_gone_plugin_that_is_switched_off_is_left_out() -> None:
    converted = run("v1beta3", "profiles: [{plugins: {score: {disabled: [{name: SelectorSpread}, {name: X}]}}}]\n")

    assert yaml.safe_load(converted.text)["profiles"][0]["plugins"]["score"]["disabled"] == [{"name": "X"}]


def test_args_that_never_were_are_left_out() -> None:
    converted = run(
        "v1beta3",
        "profiles:\n- pluginConfig:\n  - name: DynamicResources\n    args: {scoringStrategy: {type: LeastAllocated}}\n"
        "  - name: DynamicResources\n    args: {filterTimeout: 5s, x: 1}\n",
    )

    assert yaml.safe_load(converted.text)["profiles"] == [
        {"pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "5s"}}]}
    ]
