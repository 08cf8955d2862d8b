"""DeviceTaintRules in the machine: whatever the order, the devices in use are those that the rules leave."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import DeviceTaint, Inventory
from scheduler.core.ground.inputs import Deleted, Observed, RelistFinished
from scheduler.core.observation import KINDS
from scheduler.core.state.tainted_slices import TaintedSlices
from scheduler.model.device_taint_rules import DeviceSelector, DeviceTaintRule, with_rule_taints
from scheduler.model.keys import ObjectKey
from scheduler.plugins.dynamic_resources import DynamicResources
from tests import builders
from tests.core.rig import Rig
from tests.observed import deleted, observed


def rule(name="rule", effect="NoSchedule", **selector) -> DeviceTaintRule:
    return DeviceTaintRule(name, DeviceSelector(**selector), DeviceTaint("broken", name, effect, None))


def cluster(*nodes: str, devices: int = 1) -> Rig:
    """Nodes with a pool of their own name each, and a class for all of the devices."""
    rig = Rig(DynamicResources())
    rig.add_nodes(*nodes)
    rig.server.put_class(builders.device_class())
    for node in nodes:
        rig.server.put_slice(builders.resource_slice(f"slice-{node}", node=node, devices=devices))
    return rig


def add_pod(rig: Rig, name: str) -> None:
    rig.server.put_claim(builders.claim("of-" + name))
    rig.add_pod(name, claims=("of-" + name,))


def test_a_pod_waits_while_a_rule_taints_all_devices_and_is_bound_when_it_goes():
    rig = cluster("a", "b")
    rig.server.put_taint_rule(rule(driver=builders.DRIVER))
    add_pod(rig, "p")
    rig.settle()
    condition = rig.condition_of("p")
    assert condition is not None
    assert "2 cannot allocate all claims" in condition[1]

    rig.server.delete_taint_rule("rule")
    rig.wait(1_000)

    assert rig.node_of("p") is not None


@pytest.mark.parametrize("own", [(), (DeviceTaint("hot", "", "NoSchedule", None),)])
def test_the_cause_names_the_rule_and_not_another_or_one_where_the_driver_sets_the_taint(own):
    rig = Rig(DynamicResources(), reports_causes=True)
    rig.add_nodes("a")
    rig.server.put_class(builders.device_class())
    published = builders.resource_slice("slice-a", node="a", devices=1)
    rig.server.put_slice(replace(published, devices=tuple([replace(one, taints=own) for one in published.devices])))
    rig.server.put_taint_rule(rule("other", pool="b"))
    if not own:
        rig.server.put_taint_rule(rule("recall", pool="a"))
    add_pod(rig, "p")
    rig.settle()
    rig.wait(1_000)
    condition = rig.condition_of("p")
    assert condition is not None
    said = "hot:NoSchedule, which" if own else "broken=recall:NoSchedule of DeviceTaintRule recall, which"
    assert f"has the taint {said}" in condition[1]
    assert "DeviceTaintRule other" not in condition[1]


def test_a_rule_that_narrows_its_selector_frees_the_rest():
    rig = cluster("a", "b")
    rig.server.put_taint_rule(rule())
    add_pod(rig, "p")
    rig.settle()
    assert rig.node_of("p") is None

    rig.server.put_taint_rule(rule(pool="a"))
    rig.wait(1_000)

    assert rig.node_of("p") == "b"


def test_a_rule_keeps_pods_from_devices_only_that_it_selects():
    rig = cluster("a", devices=2)
    rig.server.put_taint_rule(rule(pool="a", device="gpu-0"))
    for name in ("p", "q"):
        add_pod(rig, name)
    rig.settle()
    claims = [one for one in rig.server.claims.values() if one.allocation is not None]
    assert [result.device for one in claims for result in one.allocation.results] == ["gpu-1"]


@pytest.mark.parametrize("effect", ["None", "Future"])
def test_other_effects_keep_nobody_away(effect):
    rig = cluster("a")
    rig.server.put_taint_rule(rule(effect=effect))
    add_pod(rig, "p")
    rig.settle()
    assert rig.node_of("p") == "a"


def test_a_slice_published_after_the_rule_is_tainted():
    rig = cluster("a")
    rig.server.put_taint_rule(rule())
    rig.server.delete_slice("slice-a")
    rig.server.put_slice(builders.resource_slice("slice-a", node="a", devices=1))
    add_pod(rig, "p")
    rig.settle()
    assert rig.node_of("p") is None


def test_nothing_is_decided_before_the_rules_have_been_listed():
    rig = Rig(DynamicResources(), is_listed=False)
    rig.add_nodes("a")
    rig.server.put_class(builders.device_class())
    rig.server.put_slice(builders.resource_slice("slice-a", node="a", devices=1))
    add_pod(rig, "p")
    rig.watch()
    for kind in sorted(KINDS.keys() - {"DeviceTaintRule"}):
        rig.tell(RelistFinished(kind))
    rig.settle()
    assert rig.node_of("p") is None
    rig.tell(RelistFinished("DeviceTaintRule"))
    rig.settle()
    assert rig.node_of("p") == "a"


def test_a_rule_wakes_only_when_it_takes_a_taint_away_and_concerns_no_other_nodes():
    rig = cluster("a", "b")
    add_pod(rig, "p")
    add_pod(rig, "q")
    add_pod(rig, "waits")
    rig.settle()
    assert rig.node_of("waits") is None
    asked = rig.machine.feasibility.filter_calls

    rig.server.put_taint_rule(rule(pool="a"))
    rig.wait(20_000)
    assert rig.machine.feasibility.filter_calls == asked

    rig.server.delete_taint_rule("rule")
    rig.wait(20_000)
    assert rig.machine.feasibility.filter_calls == asked + 1  # node a, and not b


def test_late_and_repeated_reports_of_rules_change_nothing():
    rig = cluster("a")
    rig.settle()
    plain = rig.machine.store.inventory.slices["slice-a"]
    rig.tell(observed(rule(), 100))
    tainted = rig.machine.store.inventory.slices["slice-a"]
    assert tainted is not plain
    rig.tell(observed(rule(device="other"), 99))
    rig.tell(deleted("DeviceTaintRule", "rule", 98))
    rig.tell(observed(rule(), 100))
    assert rig.machine.store.inventory.slices["slice-a"] is tainted
    rig.tell(deleted("DeviceTaintRule", "rule", 101))
    assert rig.machine.store.inventory.slices["slice-a"] is plain
    rig.tell(observed(rule(), 100))
    assert rig.machine.store.inventory.slices["slice-a"] is plain


def test_a_rule_that_was_withdrawn_with_its_api_comes_back_as_it_was():
    rig = cluster("a")
    rig.settle()
    plain = rig.machine.store.inventory.slices["slice-a"]
    rig.tell(observed(rule(), 100))
    rig.tell(deleted("DeviceTaintRule", "rule"))
    assert rig.machine.store.inventory.slices["slice-a"] is plain
    rig.tell(observed(rule(), 100))
    assert rig.machine.store.inventory.slices["slice-a"] is not plain


SELECTORS = st.builds(
    DeviceSelector,
    driver=st.sampled_from([None, builders.DRIVER, "other"]),
    pool=st.sampled_from([None, "a", "b"]),
    device=st.sampled_from([None, "gpu-0", "gpu-1"]),
)
RULES = st.builds(
    DeviceTaintRule,
    name=st.sampled_from(["r1", "r2", "r3"]),
    selector=st.none() | SELECTORS,
    taint=st.builds(DeviceTaint, st.just("key"), st.sampled_from(["1", "2"]), st.just("NoSchedule"), st.none()),
)
SLICES = st.builds(
    lambda name, pool, count: builders.resource_slice(name, node="n", pool=pool, devices=count, revision=1),
    st.sampled_from(["s1", "s2", "s3"]),
    st.sampled_from(["a", "b"]),
    st.integers(1, 2),
)
STEPS = st.lists(
    st.one_of(
        RULES.map(lambda one: observed(one, 0)),
        st.sampled_from(["r1", "r2", "r3"]).map(partial(deleted, "DeviceTaintRule")),
        SLICES.map(lambda one: observed(one, 0)),
        st.sampled_from(["s1", "s2", "s3"]).map(partial(deleted, "ResourceSlice")),
    ),
    max_size=12,
)


@given(STEPS)
@settings(max_examples=200)
def test_whatever_came_first_the_inventory_holds_the_tainted_slices(steps):
    """And a step puts anew exactly the slices whose taints it changes."""
    inventory = Inventory()
    tainted = TaintedSlices(inventory)
    published, rules = {}, {}
    for step in steps:
        before = dict(inventory.slices)
        puts = []
        match step:
            case Observed("DeviceTaintRule", object=one):
                rules[one.name] = one
                puts = tainted.put_rule(one)
            case Deleted("DeviceTaintRule", ObjectKey(name=name)):
                rules.pop(name, None)
                puts = tainted.remove_rule(name)
            case Observed("ResourceSlice", object=one):
                published[one.name] = one
                tainted.put_slice(one)
            case Deleted("ResourceSlice", ObjectKey(name=name)):
                published.pop(name, None)
                tainted.remove_slice(name)
        assert taints(inventory.slices) == taints(
            {name: with_rule_taints(one, rules.values()) for name, one in published.items()}
        )
        if step.kind == "DeviceTaintRule":
            changed = {name for name, one in inventory.slices.items() if one is not before[name]}
            assert changed == {put.new.name for put in puts}
            assert all(taints({"": put.old}) != taints({"": put.new}) for put in puts)
    assert all(tainted.published(name) is one for name, one in published.items())


def taints(slices) -> dict[str, list]:
    return {name: list(itertools.chain([device.taints for device in one.devices])) for name, one in slices.items()}
