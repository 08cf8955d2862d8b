"""Old configurations of kube-scheduler: v1 where it has a place for everything, else a refusal that says where."""

from __future__ import annotations

import pytest
import yaml

from scheduler.lint import Converted, Source, convert

HEAD = "apiVersion: kubescheduler.config.k8s.io/{}\nkind: KubeSchedulerConfiguration\n"


def run(version: str, text: str) -> Converted:
    (converted,) = convert([Source("f.yaml", HEAD.format(version) + text)])
    return converted


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1", "v1beta2", "v1beta3"])
def test_profiles_are_the_same(version: str) -> None:
    converted = run(
        version, "profiles:\n- schedulerName: s\n  plugins: {score: {enabled: [{name: DynamicResources}]}}\n"
    )

    obj = yaml.safe_load(converted.text)
    assert converted.refusals == ()
    assert obj["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert obj["profiles"][0]["plugins"]["score"]["enabled"] == [{"name": "DynamicResources"}]


def test_the_one_scheduler_of_the_first_version_becomes_a_profile() -> None:
    converted = run(
        "v1alpha1",
        "schedulerName: s\nalgorithmSource: {provider: DefaultProvider}\nbindTimeoutSeconds: 600\n"
        "disablePreemption: false\nhealthzBindAddress: 0.0.0.0:10251\n"
        "leaderElection: {lockObjectNamespace: kube-system, lockObjectName: s, resourceLock: endpoints}\n"
        "plugins: {unreserve: {enabled: []}}\n",
    )

    assert converted.refusals == ()
    assert yaml.safe_load(converted.text) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"resourceLock": "leases", "resourceNamespace": "kube-system", "resourceName": "s"},
        "profiles": [{"schedulerName": "s", "plugins": {}}],
    }


@pytest.mark.parametrize(
    ("text", "place", "fix"),
    [
        ("disablePreemption: true\n", "3:1", "DefaultPreemption"),
        ("algorithmSource: {policy: {file: {path: /p}}}\n", "3:1", "profiles[].plugins"),
        (
            "profiles:\n- plugins:\n    score: {enabled: [{name: NodeResourcesMostAllocated}]}\n",
            "5:30",
            "NodeResourcesFit, with args.scoringStrategy.type: MostAllocated",
        ),
    ],
)
def test_what_has_no_place_is_refused_with_where_it_went(text: str, place: str, fix: str) -> None:
    converted = run("v1alpha2", text)

    assert converted.text == ""
    (refusal,) = converted.refusals
    assert str(refusal.place) == f"f.yaml:{place}"
    assert fix in refusal.fix


def test_a_gone_plugin_that_is_switched_off_is_left_out() -> None:
    converted = run("v1beta2", "profiles: [{plugins: {score: {disabled: [{name: SelectorSpread}, {name: X}]}}}]\n")

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
