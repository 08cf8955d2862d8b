"""Profiles: what a KubeSchedulerProfile switches on, where, in which order, with which weights and arguments."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from pydantic import ValidationError

from scheduler.config.plugin_args import ARGS_BY_PLUGIN, PluginArgs
from scheduler.config.profile_config import ProfileConfig
from scheduler.framework.runner import Runner
from scheduler.plugins import DEFAULT_PROFILE, ROW_BY_NAME, default_plugins
from scheduler.plugins.dynamic_resources import DynamicResources


def expanded(**plugins):
    return ProfileConfig.model_validate({"plugins": plugins}).expanded()


def named(*names):
    return [{"name": name} for name in names]


def weighted(**weights):
    return [{"name": name, "weight": weight} for name, weight in weights.items()]


ESSENTIAL = named("PrioritySort", "DefaultBinder")


def test_nothing_said_is_the_default_profile():
    profile = ProfileConfig.model_validate({}).profile()

    assert profile.plugins == default_plugins()
    assert expanded().by_point["filter"] == (
        *("NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"),
        *("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread"),
        *("InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures"),
    )
    assert expanded().by_point["postFilter"] == ("DynamicResources", "DefaultPreemption")
    assert expanded().weights == {row.name: row.weight for row in DEFAULT_PROFILE if row.weight}


def test_disabled_at_one_point_it_stays_at_the_others():
    found = expanded(filter={"disabled": named("NodeAffinity")})

    assert "NodeAffinity" not in found.by_point["filter"]
    assert "NodeAffinity" in found.by_point["score"]
    assert "NodeAffinity" in found.names


def test_disabled_everywhere_it_is_not_built():
    profile = ProfileConfig.model_validate(
        {"plugins": {"multiPoint": {"disabled": named("TaintToleration")}}}
    ).profile()

    assert "TaintToleration" not in {plugin.name for plugin in profile.plugins}


def test_a_star_switches_off_what_is_not_named():
    found = expanded(multiPoint={"disabled": named("*"), "enabled": [*ESSENTIAL, *named("NodeName")]})

    assert found.names == ("PrioritySort", "NodeName", "DefaultBinder")


def test_a_star_at_a_point_leaves_its_own():
    found = expanded(score={"disabled": named("*"), "enabled": weighted(NodeAffinity=5)})

    assert found.by_point["score"] == ("NodeAffinity",)
    assert found.weights["NodeAffinity"] == 5


def test_enabled_again_in_multi_point_keeps_its_place_with_its_new_weight():
    found = expanded(multiPoint={"enabled": weighted(TaintToleration=9)})

    assert found.by_point == expanded().by_point
    assert found.weights["TaintToleration"] == 9


def test_disabled_and_enabled_again_goes_to_the_end():
    found = expanded(multiPoint={"disabled": named("TaintToleration"), "enabled": named("TaintToleration")})

    assert found.by_point["filter"][-1] == "TaintToleration"
    assert found.weights["TaintToleration"] == 1  # the default weight went with the default entry


def test_what_a_point_names_itself_comes_first_and_its_weight_counts():
    found = expanded(score={"enabled": weighted(ImageLocality=4, NodeAffinity=3)})

    assert found.by_point["score"][:2] == ("ImageLocality", "NodeAffinity")
    assert len(found.by_point["score"]) == len(expanded().by_point["score"])
    assert (found.weights["ImageLocality"], found.weights["NodeAffinity"]) == (4, 3)


def test_what_only_a_point_has_comes_behind_multi_point():
    found = expanded(
        multiPoint={"disabled": named("NodeName")}, filter={"enabled": named("NodeName", "TaintToleration")}
    )

    assert found.by_point["filter"][0] == "TaintToleration"
    assert found.by_point["filter"][-1] == "NodeName"


@pytest.mark.parametrize("weight", [0, None])
def test_no_weight_is_one(weight):
    entry = {"name": "NodeAffinity"} | ({"weight": weight} if weight is not None else {})

    assert expanded(multiPoint={"enabled": [entry]}).weights["NodeAffinity"] == 1


@pytest.mark.parametrize(
    ("plugins", "error"),
    [
        pytest.param(
            {"filter": {"enabled": named("NodePort")}},
            'plugins.filter.enabled[0].name: Invalid value: "NodePort": there is no such plugin',
            id="unknown",
        ),
        pytest.param(
            {"postBind": {"enabled": named("NodePorts")}},
            'plugins.postBind.enabled[0].name: Invalid value: "NodePorts": does not extend postBind',
            id="not-its-point",
        ),
        pytest.param(
            {"multiPoint": {"enabled": named("NodeName", "NodeName")}},
            'plugins.multiPoint.enabled[0].name: Duplicate value: "NodeName"',
            id="twice",
        ),
        pytest.param(
            {"multiPoint": {"disabled": named("*")}},
            "plugins.queueSort: Invalid value: []: exactly one is needed",
            id="no-queue-sort",
        ),
        pytest.param(
            {"multiPoint": {"disabled": named("DefaultBinder")}},
            "plugins.bind: Invalid value: []: at least one is needed",
            id="no-binder",
        ),
    ],
)
def test_what_cannot_work_is_named(plugins, error):
    with pytest.raises(ValidationError) as raised:
        expanded(**plugins)

    assert str(raised.value.errors()[0]["ctx"]["error"]).startswith(error)


def test_the_runner_calls_what_is_on_in_the_order_of_each_point():
    runner = Runner(
        ProfileConfig.model_validate(
            {
                "plugins": {
                    "filter": {"disabled": named("NodeResourcesFit"), "enabled": named("NodeAffinity")},
                    "score": {"disabled": named("*"), "enabled": weighted(NodeResourcesFit=6)},
                }
            }
        ).profile()
    )

    assert [one.name for one in runner._filter][:2] == ["NodeAffinity", "NodeName"]
    assert "NodeResourcesFit" not in {one.name for one in runner._filter}
    assert [(one.name, one.weight) for one in runner._score] == [("NodeResourcesFit", 6)]
    assert "NodeResourcesFit" in {one.name for one in runner._pre_filter}


def test_arguments_reach_the_plugin():
    profile = ProfileConfig.model_validate(
        {
            "pluginConfig": [
                {
                    "name": "DynamicResources",
                    "args": {"bindingTimeout": "5m", "searchSteps": 7, "preemptForDevices": False},
                }
            ]
        }
    ).profile()
    (devices,) = (plugin for plugin in profile.plugins if plugin.name == "DynamicResources")

    assert isinstance(devices, DynamicResources)
    assert (devices.binding_timeout_ms, devices.budget_steps) == (300_000, 7)
    assert not devices.preempts_for_devices


@pytest.mark.parametrize("name", sorted(ARGS_BY_PLUGIN.keys() - {"DynamicResources"}))
def test_each_argument_is_a_field_of_its_plugin(name):
    build = ROW_BY_NAME[name].build
    if build is None:
        return  # not here yet
    arguments = ARGS_BY_PLUGIN[name].model_fields.keys() - PluginArgs.model_fields.keys()

    assert arguments - {"shape"} <= set(inspect.signature(build).parameters)  # shape: of a gate that is off


@pytest.mark.parametrize(
    "plugins",
    [
        {},
        {"multiPoint": {"enabled": [{"name": "GangScheduling"}, {"name": "PodGroupPodsCount"}]}},
        {"multiPoint": {"disabled": [{"name": "GangScheduling"}]}},
        {"preEnqueue": {"disabled": [{"name": "*"}]}},
    ],
    ids=["as it is", "named, as behind upstream's gate", "disabled", "no point of it"],
)
def test_groups_are_waited_for_whatever_a_configuration_says(plugins: dict[str, Any]) -> None:
    profile = ProfileConfig.model_validate({"schedulerName": "x", "plugins": plugins}).profile()
    assert profile.at("PreEnqueue")[-1].name == "GangScheduling"
