"""Extended resources served by devices: classes behind names, requests of the special claim, container mappings."""

from __future__ import annotations

import pytest

from allocator import Inventory, decode_class
from scheduler.plugins.dynamic_resources.extended_resources import (
    class_by_resource,
    decoded_spec,
    requested_resources,
    special_requests,
)
from tests.plugins.objects import pod

GPU, NIC = "example.com/gpu", "example.com/nic"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpus"
CLASSES = {GPU: "gpus", NIC: "nics", IMPLICIT: "gpus"}


def asks(name, restart=None, **amounts):
    names = {"gpu": GPU, "nic": NIC, "implicit": IMPLICIT, "cpu": "cpu"}
    requests = {names[key]: str(amount) for key, amount in amounts.items()}
    return {"name": name, "resources": {"requests": requests}} | ({"restartPolicy": restart} if restart else {})


@pytest.mark.parametrize(
    ("spec", "classes", "requests", "mappings"),
    [
        pytest.param({"containers": [asks("c", gpu=1)]}, {}, [], [], id="no-class-no-request"),
        pytest.param(
            {"containers": [asks("c", gpu=1)]},
            {GPU: "gpus"},
            ["container-0-request-0 gpus 1"],
            ["c gpu container-0-request-0"],
            id="one-resource",
        ),
        pytest.param(
            {"containers": [asks("c", gpu=1, nic=2)]},
            {GPU: "gpus"},
            ["container-0-request-0 gpus 1"],
            ["c gpu container-0-request-0"],
            id="only-resources-with-a-class",
        ),
        pytest.param(
            {"containers": [asks("c", gpu=1, nic=2)]},
            CLASSES,
            ["container-0-request-0 gpus 1", "container-0-request-1 nics 2"],
            ["c gpu container-0-request-0", "c nic container-0-request-1"],
            id="two-resources-of-one-container",
        ),
        pytest.param(
            {"containers": [asks("c", gpu=1, cpu=4)]},
            CLASSES,
            ["container-0-request-1 gpus 1"],
            ["c gpu container-0-request-1"],
            id="cpu-counts-for-the-position",
        ),
        pytest.param(
            {"containers": [asks("a", gpu=1), asks("b", nic=2)]},
            CLASSES,
            ["container-0-request-0 gpus 1", "container-1-request-0 nics 2"],
            ["a gpu container-0-request-0", "b nic container-1-request-0"],
            id="two-containers",
        ),
        pytest.param(
            {"containers": [asks("c", gpu=2)], "initContainers": [asks("i", gpu=1)]},
            CLASSES,
            ["container-1-request-0 gpus 2"],
            ["c gpu container-1-request-0", "i gpu container-1-request-0"],
            id="an-init-container-reuses-what-the-regular-one-has",
        ),
        pytest.param(
            {"containers": [asks("c", gpu=1)], "initContainers": [asks("i", gpu=3)]},
            CLASSES,
            ["container-0-request-0 gpus 2", "container-1-request-0 gpus 1"],
            ["c gpu container-1-request-0", "i gpu container-1-request-0", "i gpu container-0-request-0"],
            id="an-init-container-asks-only-for-what-is-missing",
        ),
        pytest.param(
            {"containers": [asks("c", nic=1)], "initContainers": [asks("i", gpu=1), asks("j", gpu=2)]},
            CLASSES,
            ["container-1-request-0 gpus 2", "container-2-request-0 nics 1"],
            ["i gpu container-1-request-0", "j gpu container-1-request-0", "c nic container-2-request-0"],
            id="of-two-init-containers-only-the-larger-request-stays",
        ),
        pytest.param(
            {"containers": [asks("c", nic=1)], "initContainers": [asks("i", gpu=1, implicit=2), asks("j", gpu=2)]},
            CLASSES,
            ["container-0-request-0 gpus 2", "container-1-request-0 gpus 2", "container-2-request-0 nics 1"],
            [
                "i implicit container-0-request-0",
                "i gpu container-1-request-0",
                "j gpu container-1-request-0",
                "c nic container-2-request-0",
            ],
            id="different-names-of-one-class-are-not-merged",
        ),
        pytest.param(
            {
                "containers": [asks("c", nic=1)],
                "initContainers": [asks("i", gpu=1), asks("s", "Always", gpu=1), asks("j", gpu=2)],
            },
            CLASSES,
            ["container-1-request-0 gpus 1", "container-2-request-0 gpus 2", "container-3-request-0 nics 1"],
            [
                "s gpu container-1-request-0",
                "i gpu container-1-request-0",
                "j gpu container-2-request-0",
                "c nic container-3-request-0",
            ],
            id="a-sidecars-devices-serve-earlier-init-containers",
        ),
        pytest.param({"containers": [asks("c", gpu=0)]}, CLASSES, [], [], id="asking-for-none"),
    ],
)
def test_requests_and_mappings(spec, classes, requests, mappings) -> None:
    found = special_requests(pod(**spec), classes)
    short = {GPU: "gpu", NIC: "nic", IMPLICIT: "implicit"}
    assert [f"{one.name} {one.device_class} {one.count}" for one in found.requests] == requests
    assert [f"{one.container_name} {short[one.resource_name]} {one.request_name}" for one in found.mappings] == mappings


def test_equal_requests_give_one_spec() -> None:
    one = decoded_spec(special_requests(pod("a", containers=[asks("c", gpu=2)]), CLASSES).requests)
    other = decoded_spec(special_requests(pod("b", containers=[asks("d", gpu=2)]), CLASSES).requests)
    assert one is other
    assert [(request.name, request.exactly.count) for request in one.requests] == [("container-0-request-0", 2)]


def device_class(name, resource=None, created=""):
    metadata = {"name": name} | ({"creationTimestamp": created} if created else {})
    return decode_class({"metadata": metadata, "spec": {"extendedResourceName": resource} if resource else {}})


def test_the_newest_class_of_a_name_wins_then_the_lower_name() -> None:
    old, new = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
    inventory = Inventory(
        classes=[
            device_class("b", GPU, new),
            device_class("a", GPU, old),
            device_class("y", NIC, old),
            device_class("x", NIC, old),
        ]
    )
    found = class_by_resource(inventory)
    assert (found[GPU], found[NIC]) == ("b", "x")
    # The losers keep their implicit names.
    assert {name: found[f"deviceclass.resource.kubernetes.io/{name}"] for name in "abxy"} == {
        name: name for name in "abxy"
    }


def test_a_changed_class_is_seen_at_once() -> None:
    inventory = Inventory(classes=[device_class("a", GPU)])
    assert class_by_resource(inventory)[GPU] == "a"
    inventory.put_class(device_class("a", NIC))
    assert GPU not in class_by_resource(inventory)
    inventory.remove_class("a")
    assert class_by_resource(inventory) == {}


def test_requested_resources_are_those_that_devices_could_serve() -> None:
    one = pod(containers=[asks("c", gpu=1, cpu=2, implicit=1), asks("d", nic=0)])
    assert requested_resources(one) == (IMPLICIT, GPU)
