"""What a pod is told of pools, classes and selectors: each cause in two dressings."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.diagnosis import EVENT, LENGTH_MAX
from scheduler.plugins import default_plugins
from scheduler.why.reasons import TO_MAKE_IT_FIT
from tests import builders
from tests.core.rig import Rig
from tests.core.test_causes import said

FIRST = {"driver": "gpu.example.com", "node": "a", "namespace": "default", "device_class": "gpu"}
SECOND = {"driver": "npu.vendor.io", "node": "rack7-3", "namespace": "team-b", "device_class": "accelerators"}
DRESSINGS = pytest.mark.parametrize("worn", [FIRST, SECOND], ids=["first", "second"])


def rig_of(worn: dict[str, str], *slices: dict[str, Any], selector: str = "") -> Rig:
    """A node, a class of the driver, these slices of a pool of the node's name, and a pod that wants one device."""
    rig = Rig(*default_plugins(), reports_causes=True)
    rig.add_nodes(worn["node"])
    rig.server.put_class(builders.device_class(worn["device_class"], driver=worn["driver"]))
    for fields in slices:
        rig.server.put_slice(builders.resource_slice(**{"driver": worn["driver"], "node": worn["node"], **fields}))
    want_device(rig, worn, selector=selector)
    return rig


def want_device(rig: Rig, worn: dict[str, str], **request: Any) -> None:
    asked = builders.request_object(device_class=worn["device_class"], **request)
    spec = builders.claim_spec_object(asked)
    namespace = worn["namespace"]
    if worn is FIRST:
        rig.server.put_claim(builders.claim("c", spec=spec, namespace=namespace))
        rig.add_pod("p", claims=("c",), namespace=namespace)
    else:  # made from a template
        pod = builders.pod("p", templates={"dev": "p-dev-x1"}, namespace=namespace)
        rig.server.put_claim(builders.claim("p-dev-x1", spec=spec, namespace=namespace, owner_pod=pod))
        rig.server.put_pod(pod)


def told(rig: Rig, worn: dict[str, str], kind: str = "") -> tuple[str, str]:
    """Cause and change; the cause's kind is this one."""
    rig.wait(2_000)
    sentence, cause = said(rig, "p", worn["namespace"])
    assert len(f"{sentence} {cause}".encode()) <= LENGTH_MAX
    first, _, change = cause.partition(TO_MAKE_IT_FIT)
    assert first.startswith(f"[{kind}")
    return first.partition("] ")[2], change


def device(name: str, **attributes: Any) -> dict[str, Any]:
    return builders.device_object(name, **attributes)


@DRESSINGS
def test_slices_of_an_older_generation(worn) -> None:
    rig = rig_of(worn, {"name": "old", "devices": 2, "generation": 3}, {"name": "new", "devices": 0, "generation": 4})
    cause, change = told(rig, worn, "slice-superseded")
    pool = f"{worn['driver']}/{worn['node']}"
    assert cause == f"ResourceSlice old of pool {pool} is of an older generation (3): 4 counts"
    assert change == (
        f"the driver must publish the devices of old again in generation 4 of pool {pool}; look at its log"
    )
    rig.server.put_slice(builders.resource_slice("old", node=worn["node"], driver=worn["driver"], generation=5))
    rig.server.delete_slice("new")
    rig.wait(30_000)
    assert rig.node_of("p", worn["namespace"]) == worn["node"]


@DRESSINGS
def test_missing_slices(worn) -> None:
    rig = rig_of(worn, {"name": "s1", "devices": 2, "slices": 3}, {"name": "s2", "devices": 0, "slices": 3})
    cause, change = told(rig, worn, "pool-incomplete")
    pool = f"{worn['driver']}/{worn['node']}"
    assert cause == f"pool {pool} is incomplete: of generation 1 there are 2 of 3 ResourceSlices (s1, s2)"
    assert (
        change == f"the driver must publish the 1 missing ResourceSlice of generation 1 of pool {pool}; look at its log"
    )


COUNTERS = [{"name": "all", "counters": {"memory": {"value": "80Gi"}}}]


def taking(name: str, counter_set: str) -> dict[str, Any]:
    consumes = [{"counterSet": counter_set, "counters": {"memory": {"value": "1Gi"}}}]
    return device(name) | {"consumesCounters": consumes}


@DRESSINGS
@pytest.mark.parametrize(
    ("slices", "words"),
    [
        (
            [{"name": "s1", "slices": 2, "devices": 1}, {"name": "s2", "slices": 2, "devices": 1}],
            "has a device twice: device gpu-0 is in slices s1 and s2",
        ),
        (
            [{"name": "s1", "slices": 1, "devices": 1}, {"name": "s2", "slices": 3, "devices": 0}],
            "has slices that disagree on their count: 1 in s1; 3 in s2",
        ),
        (
            [{"name": "s1", "slices": 1, "devices": 1}, {"name": "s2", "slices": 1, "devices": 0}],
            "contradicts itself: 2 slices are there, and 1 should be: s1, s2",
        ),
        (
            [{"name": "s1", "devices": (taking("gpu-0", "none"),)}],
            "contradicts itself: device gpu-0 consumes counter set none, which no slice of the pool has",
        ),
    ],
    ids=["device-twice", "counts", "too-many", "counters"],
)
def test_slices_that_contradict_each_other(worn, slices, words) -> None:
    rig = rig_of(worn, *slices)
    cause, change = told(rig, worn, "pool-contradictory")
    pool = f"{worn['driver']}/{worn['node']}"
    assert cause == f"pool {pool} {words}"
    assert (
        change
        == f"the driver must publish pool {pool} anew, in one generation that agrees with itself; look at its log"
    )


@DRESSINGS
def test_a_slice_for_a_node_that_is_not_there(worn) -> None:
    rig = rig_of(worn, {"name": "s1", "node": "gone-1", "devices": 2})
    cause, change = told(rig, worn, "slice-node-missing")
    assert cause == f"ResourceSlice s1 is for node gone-1, and no Node has that name (pool {worn['driver']}/gone-1)"
    assert change.startswith("the kubelet of gone-1 must register its Node")


@DRESSINGS
def test_a_pool_that_hides_nothing_that_would_do_is_not_to_blame(worn) -> None:
    rig = rig_of(
        worn,
        {"name": "old", "devices": (device("d", model="B"),), "generation": 1},
        {"name": "new", "devices": (device("e", model="B"),), "generation": 2},
        selector=f"device.attributes['{worn['driver']}'].model == 'A'",
    )
    cause, _ = told(rig, worn, "selector-unmet")
    assert "generation" not in cause
    assert f"no device of its class has {worn['driver']}/model equal to the string 'A'" in cause


@DRESSINGS
def test_no_driver_at_all(worn) -> None:
    rig = rig_of(worn)
    cause, change = told(rig, worn, "no-devices")
    assert cause.startswith("no driver publishes any device (there is no ResourceSlice), and request gpu waits for one")
    assert change == f"install the driver {worn['driver']}, or look at its log: it publishes no ResourceSlice"


@DRESSINGS
def test_only_devices_of_other_drivers(worn) -> None:
    rig = rig_of(worn, {"name": "s1", "driver": "net.other.org", "devices": 2})
    cause, change = told(rig, worn, "class-unmatched")
    assert cause == (
        f"DeviceClass {worn['device_class']}: no device has the driver {worn['driver']}; drivers: net.other.org (2)"
    )
    assert change == f"install the driver {worn['driver']}, or look at its log: it publishes no ResourceSlice"


@DRESSINGS
def test_a_driver_that_the_class_misspells(worn) -> None:
    rig = rig_of(worn, {"name": "s1", "driver": worn["driver"].replace("p", "pp", 1), "devices": 2})
    right = worn["driver"].replace("p", "pp", 1)
    cause, change = told(rig, worn, "class-unmatched")
    assert (
        cause == f"DeviceClass {worn['device_class']}: no device has the driver {worn['driver']}; {right} publishes 2"
    )
    assert change == f"write {right} in the selector of DeviceClass {worn['device_class']}: device.driver == '{right}'"


@DRESSINGS
def test_the_term_that_no_device_satisfies(worn) -> None:
    """One of three, the others are satisfied; what other drivers publish is not counted."""
    d = f"device.attributes['{worn['driver']}']"
    selector = f"{d}.model == 'A100' && {d}.size > 80 && {d}.model != 'x'"
    mine = (device("d0", model="A100", size=40), device("d1", model="A100", size=80), device("d2", model="T4", size=99))
    rig = rig_of(worn, {"name": "s1", "devices": mine}, selector=selector)
    rig.server.put_slice(
        builders.resource_slice("net", node=worn["node"], driver="net.other.org", devices=(device("n", size=400),))
    )
    cause, change = told(rig, worn, "selector-unmet")
    assert cause.startswith(
        f"request gpu: {worn['driver']}/size is 40, 80, and no device of the 2 that its other terms "
    )
    assert change.startswith(f"drop or relax the term `{d}.size > 80` of request gpu of ResourceClaim")


@DRESSINGS
def test_another_domain_or_name_or_value(worn) -> None:
    other = "attributes.other.org"
    for selector, words, mended in (
        (f"device.attributes['{worn['driver']}'].modle == 'A100'", "have {d}/model", "write model"),
        (f"device.attributes['{other}'].model == 'A100'", f"has attributes {other}/model", "write {d}"),
        (f"device.attributes['{worn['driver']}'].model == 'a100'", "equal to the string 'a100'", "write 'A100'"),
    ):
        safe = f"has({selector.partition(' ==')[0]}) && {selector}"
        rig = rig_of(worn, {"name": "s1", "devices": (device("d0", model="A100"),)}, selector=safe)
        cause, change = told(rig, worn, "selector-unmet")
        assert words.format(d=worn["driver"]) in cause, cause
        assert change.startswith(mended.format(d=worn["driver"]))


@DRESSINGS
def test_a_selector_that_fails_speaks_of_devices_of_its_class_only(worn) -> None:
    """A term about an attribute that no device of the class has; what other drivers lack has nothing to do with it."""
    d = f"device.attributes['{worn['driver']}']"
    selector = f"{d}.model.lowerAscii().matches('^.*a100.*$') && ({d}.index == 0 || {d}.index == 2)"
    rig = rig_of(worn, {"name": "s1", "devices": (device("d0", model="A100"),)}, selector=selector)
    rig.server.put_slice(
        builders.resource_slice("net", node=worn["node"], driver="net.other.org", devices=(device("n", mtu=1500),))
    )
    rig.wait(2_000)
    message = (rig.condition_of("p", worn["namespace"]) or ("", ""))[1]
    assert f"no device of its class has attributes {worn['driver']}/index" in message
    assert "have no attributes" not in message


@DRESSINGS
@pytest.mark.parametrize("is_named", [True, False])
def test_an_extended_resource_that_nobody_knows(worn, is_named: bool) -> None:
    rig = Rig(*default_plugins(), reports_causes=True)
    rig.add_nodes(worn["node"])
    known, asked = f"{worn['driver']}/accelerator", f"{worn['driver']}/acclerator"
    served = {"extended_resource": known} if is_named else {}
    rig.server.put_class(builders.device_class(worn["device_class"], driver=worn["driver"], **served))
    rig.server.put_slice(builders.resource_slice("s", node=worn["node"], driver=worn["driver"]))
    rig.add_pod("p", namespace=worn["namespace"], requests={asked: "1"})
    cause, change = told(rig, worn, "extended-resource-unknown")
    fact = (
        f"resource {asked} of pod {worn['namespace']}/p: no node has it, and no DeviceClass has it as extendedResource"
    )
    assert cause.startswith(fact)
    if is_named:
        assert cause.endswith(f"; nearest: {known}")
        assert change.startswith(f"write {known} instead of {asked}")
    else:
        assert cause.endswith(f"; DeviceClass {worn['device_class']} has none, and 2 devices are free")
        assert change.startswith(f"kubectl patch deviceclass {worn['device_class']} --type=merge")


def test_a_class_of_other_hardware_is_given_no_extended_resource() -> None:
    rig = Rig(*default_plugins(), reports_causes=True)
    rig.add_nodes("a")
    rig.server.put_class(builders.device_class("rdma", driver="dra.net"))
    rig.server.put_slice(builders.resource_slice("s", node="a", driver="dra.net"))
    rig.add_pod("p", requests={"nvidia.com/mig-1g.10gb": "1"})
    rig.settle()

    message = (rig.condition_of("p") or ("", ""))[1]

    assert "[extended-resource-unknown]" in message
    assert "rdma" not in message


def test_a_smaller_amount_comes_before_no_selector() -> None:
    rig = Rig(*default_plugins(), reports_causes=True)
    rig.add_nodes("a")
    rig.server.put_class(builders.device_class())
    device = {"name": "g", "capacity": {"memory": {"value": "40Gi"}}}
    rig.server.put_slice(builders.resource_slice("s", node="a", devices=(device,)))
    term = "device.capacity['gpu.example.com'].memory.compareTo(quantity('80Gi')) >= 0"
    spec = builders.claim_spec_object(builders.request_object(selector=term))
    rig.server.put_claim(builders.claim("c", spec=spec))
    rig.add_pod("p", claims=("c",))
    rig.settle()

    cause, _, change = said(rig, "p")[1].partition(TO_MAKE_IT_FIT)

    assert cause.startswith("[selector-unmet] request gpu: gpu.example.com/memory is 40Gi, and no device")
    assert change.startswith('write quantity("40Gi") in the selector of request gpu')
    assert "quantity('40Gi')) >= 0" in change


def test_a_selector_of_five_hundred_terms_takes_no_more_steps_than_a_pod_may() -> None:
    """Each is compiled anew; where that is too much the whole selector is named."""
    d = f"device.attributes['{FIRST['driver']}']"
    terms = [f"{d}.size != {number}" for number in range(90)] + ["true"] * 409 + [f"{d}.size > 80"]
    rig = rig_of(FIRST, {"name": "s1", "devices": (device("d0", size=40),)}, selector=" && ".join(terms))
    cause, _ = told(rig, FIRST)
    assert cause.startswith("request gpu: ")
    assert rig.machine.causes._search.steps < 30 * EVENT.steps


def test_two_thousand_pools_take_a_bounded_number_of_steps() -> None:
    """Of which each is incomplete and hides what would do."""
    rig = Rig(*default_plugins(), reports_causes=True, checks_invariants=False, is_paranoid=False)
    rig.add_nodes(FIRST["node"])
    rig.server.put_class(builders.device_class(FIRST["device_class"], driver=FIRST["driver"]))
    for number in range(2_000):
        pool = {"node": FIRST["node"], "pool": f"pool-{number}", "devices": 1, "slices": 2}
        rig.server.put_slice(builders.resource_slice(f"s-{number}", **pool))
    want_device(rig, FIRST)
    cause, change = told(rig, FIRST, "pool-incomplete")
    assert cause.startswith("pool gpu.example.com/pool-0 is incomplete")
    assert "more" in cause
    assert change
    assert rig.machine.causes._search.steps < 2 * EVENT.steps


@DRESSINGS
def test_the_only_match_is_superseded_by_a_device_of_its_own_name(worn) -> None:
    """What the older generation says of the device would do; what the newer says of it does not."""
    rig = rig_of(
        worn,
        {"name": "old", "devices": (device("d", model="A"),), "generation": 1},
        {"name": "new", "devices": (device("d", model="B"),), "generation": 2},
        selector=f"device.attributes['{worn['driver']}'].model == 'A'",
    )
    cause, change = told(rig, worn, "slice-superseded")
    assert cause.startswith("ResourceSlice old of pool")
    assert change.startswith("the driver must publish the devices of old again in generation 2")


@DRESSINGS
def test_all_devices_of_another_node_where_a_pool_is_not_whole(worn) -> None:
    """It was an error of the pod, whatever other nodes have (kubernetes/kubernetes#141829)."""
    rig = Rig(*default_plugins(), reports_causes=True)
    rig.add_nodes(worn["node"], "whole")
    rig.server.put_class(builders.device_class(worn["device_class"], driver=worn["driver"]))
    rig.server.put_slice(builders.resource_slice(driver=worn["driver"], node=worn["node"], slices=2))
    rig.server.put_slice(builders.resource_slice("half", driver=worn["driver"], node="whole", slices=2))
    want_device(rig, worn, count=None)
    kept_out, _ = told(rig, worn, "pool-incomplete")
    assert "is incomplete" in kept_out

    rig.server.put_slice(
        builders.resource_slice("other", driver=worn["driver"], node="whole", slices=2, devices=(device("gpu-9"),))
    )
    rig.wait(10_000)

    (pod,) = rig.server.pods.values()
    assert pod.node_name == "whole"
