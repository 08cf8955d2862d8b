"""Taints of DeviceTaintRules on published slices."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import DeviceTaint, decode_slice
from scheduler.framework.status import Code
from scheduler.model.device_taint_rules import DeviceSelector, DeviceTaintRule, with_rule_taints
from scheduler.plugins.dynamic_resources import DynamicResources
from tests.plugins.cluster import DRIVER, Cluster, claim, cycle_of, gpu, info_of, node_slice, pod_with
from tests.plugins.objects import node_info


def rule(name="rule", effect="NoSchedule", **selector) -> DeviceTaintRule:
    return DeviceTaintRule(name, DeviceSelector(**selector), DeviceTaint("key", name, effect, None))


def tainted(*rules) -> dict[str, list[str]]:
    """The values of the taints of each device, of a slice with gpu-0, which has a taint of its driver, and gpu-1."""
    own = {"key": "key", "value": "driver", "effect": "NoSchedule"}
    published = decode_slice(node_slice("node", gpu(taints=[own]), gpu("gpu-1")))
    return {
        device.name: [taint.value for taint in device.taints] for device in with_rule_taints(published, rules).devices
    }


@pytest.mark.parametrize(
    ("rules", "first", "second"),
    [
        pytest.param([], ["driver"], [], id="no-rules"),
        pytest.param([rule()], ["driver", "rule"], ["rule"], id="an-empty-selector-selects-all"),
        pytest.param(
            [DeviceTaintRule("r", None, DeviceTaint("k", "v", "NoSchedule", None))],
            ["driver"],
            [],
            id="no-selector-selects-none",
        ),
        pytest.param([rule(driver=DRIVER)], ["driver", "rule"], ["rule"], id="by-driver"),
        pytest.param([rule(driver="other")], ["driver"], [], id="by-another-driver"),
        pytest.param([rule(pool="node")], ["driver", "rule"], ["rule"], id="by-pool"),
        pytest.param([rule(device="gpu-1")], ["driver"], ["rule"], id="by-device"),
        pytest.param([rule(pool="other", device="gpu-1")], ["driver"], [], id="all-fields-must-match"),
        pytest.param([rule("b"), rule("a")], ["driver", "a", "b"], ["a", "b"], id="in-the-order-of-names"),
    ],
)
def test_rules_add_taints(rules, first, second) -> None:
    assert tainted(*rules) == {"gpu-0": first, "gpu-1": second}


@settings(deadline=None)
@given(st.lists(st.sampled_from([None, DRIVER, "other"]), min_size=1, max_size=3))
def test_a_slice_that_no_rule_touches_is_the_same_object(drivers) -> None:
    published = decode_slice(node_slice("node", gpu()))
    rules = [rule(str(index), driver=driver) for index, driver in enumerate(drivers)]
    is_touched = any(driver in (None, DRIVER) for driver in drivers)
    assert (with_rule_taints(published, rules) is published) is not is_touched


@pytest.mark.parametrize(
    ("effect", "code"), [("NoSchedule", Code.UNSCHEDULABLE_AND_UNRESOLVABLE), ("None", Code.SUCCESS)]
)
def test_a_rule_keeps_pods_off_the_device(effect, code) -> None:
    view = Cluster(node_info(), claims=[claim()])
    view.inventory.put_slice(with_rule_taints(decode_slice(node_slice("node", gpu())), [rule(effect=effect)]))
    cycle = cycle_of(pod_with("claim"))
    plugin = DynamicResources()
    assert plugin.pre_filter(cycle, view).status.is_success
    assert plugin.filter(cycle, info_of(view), view).code is code
