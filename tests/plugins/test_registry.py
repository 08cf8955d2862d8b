"""Rules for all plugins: names, order and weights of upstream, what wakes them, and the header of their modules."""

from __future__ import annotations

import ast
import inspect
import re
import sys

import pytest

from scheduler.framework import api
from scheduler.framework.api import (
    FactFilterPlugin,
    FactScorePlugin,
    FilterPlugin,
    NormalizeScorePlugin,
    PostFilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ScorePlugin,
)
from scheduler.model.label_selectors import parse_label_selector
from scheduler.plugins import default_plugins
from scheduler.plugins.dynamic_resources import DynamicResources

PLUGINS = default_plugins()
OWN_NODES = default_plugins(nodes=parse_label_selector("pool=gpu"))[0]
PROTOCOLS = [
    one
    for one in vars(api).values()
    if isinstance(one, type) and api.Plugin in one.__mro__ and one.__module__ == api.__name__
]
plugins = pytest.mark.parametrize("plugin", [*PLUGINS, OWN_NODES], ids=lambda plugin: plugin.name)


def test_names_order_and_weights_are_those_of_upstreams_default_profile() -> None:
    assert [(plugin.name, getattr(plugin, "weight", None)) for plugin in PLUGINS] == [
        ("SchedulingGates", None),
        ("NodeName", None),
        ("NodeUnschedulable", None),
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodePorts", None),
        ("NodeResourcesFit", 1),
        ("VolumeRestrictions", None),
        ("NodeVolumeLimits", None),
        ("VolumeBinding", 1),
        ("VolumeZone", None),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("DefaultPreemption", None),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
        ("NodeDeclaredFeatures", None),
        ("GangScheduling", None),
    ]


@pytest.mark.parametrize(("name", "value"), [("budget_steps", 0), ("binding_timeout_ms", 999)])
def test_arguments_out_of_range_are_refused_by_name(name, value) -> None:
    with pytest.raises(ValueError, match=name):
        default_plugins(**{name: value})


def test_arguments_reach_the_plugin() -> None:
    plugins = {plugin.name: plugin for plugin in default_plugins(budget_steps=7, binding_timeout_ms=8000)}
    devices = plugins["DynamicResources"]
    assert isinstance(devices, DynamicResources)
    assert (devices.budget_steps, devices.binding_timeout_ms) == (7, 8000)


@plugins
def test_whoever_can_reject_a_pod_says_what_wakes_it(plugin) -> None:
    if isinstance(plugin, PreEnqueuePlugin | PreFilterPlugin | FilterPlugin | FactFilterPlugin):
        assert plugin.wakes_on


@plugins
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_its_methods_are_those_of_the_extension_point(plugin, protocol) -> None:
    """The runner sees names only: one method of two missing, and it never asks; an argument too many, and it breaks."""
    methods = {name: method for name, method in vars(protocol).items() if inspect.isfunction(method) and name[0] != "_"}
    found = {name: getattr(type(plugin), name) for name in methods if hasattr(plugin, name)}
    if not found:
        return
    if protocol is not api.Plugin:
        assert isinstance(plugin, protocol)
    for name, method in found.items():
        assert inspect.signature(method) == inspect.signature(methods[name]), name


@plugins
def test_a_plugin_is_frozen_and_hashable(plugin) -> None:
    hash(plugin)
    with pytest.raises(AttributeError):
        plugin.name = "other"


@plugins
def test_module_begins_with_the_four_line_header(plugin) -> None:
    module = sys.modules[type(plugin).__module__]
    lines = (ast.get_docstring(ast.parse(inspect.getsource(module))) or "").splitlines()
    assert re.fullmatch(rf"{plugin.name}: [^ ].*\.", lines[0])
    assert lines[1] == ""
    assert lines[2].startswith("Extension points: ")
    assert re.fullmatch(r"Reads: .*\.  Writes: .*\.", lines[3])
    assert lines[4].startswith("Upstream: pkg/scheduler/framework/plugins/")


@plugins
def test_header_names_the_extension_points_the_class_has(plugin) -> None:
    source = inspect.getsource(sys.modules[type(plugin).__module__])
    (named,) = re.findall(r"^Extension points: (.*)\.$", source, re.MULTILINE)
    points = {
        "PreEnqueue": PreEnqueuePlugin,
        "PreFilter": PreFilterPlugin,
        "Filter": FilterPlugin | FactFilterPlugin,
        "PostFilter": PostFilterPlugin,
        "Score": ScorePlugin | FactScorePlugin,
        "NormalizeScore": NormalizeScorePlugin | FactScorePlugin,
    }
    for point, protocol in points.items():
        assert (point in named.split(", ")) is isinstance(plugin, protocol), point
