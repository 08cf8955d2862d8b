"""What a pod is told of devices that nobody who runs has: each case in two dressings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.model.claim import Consumer, ResourceClaim
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig
from tests.core.test_pool_causes import DRESSINGS, FIRST, told, want_device

CONTROLLER = "kube-controller-manager's resource claim controller"


def rig_with_holder(
    worn: dict[str, str], *users: tuple[str, str], deleting: bool = False, namespace: str = "", **settings: Any
) -> Rig:
    """One device, held by a claim that is reserved for these names and uids of pods; and a pod that wants it."""
    rig = Rig(*default_plugins(), reports_causes=True, **settings)
    rig.add_nodes(worn["node"])
    rig.server.put_class(builders.device_class(worn["device_class"], driver=worn["driver"]))
    rig.server.put_slice(builders.resource_slice("s", node=worn["node"], driver=worn["driver"], devices=1))
    held = holder(worn, *users, deleting=deleting, namespace=namespace)
    rig.server.put_claim(held)
    want_device(rig, worn)
    return rig


def holder(worn: dict[str, str], *users: tuple[str, str], deleting: bool, namespace: str) -> ResourceClaim:
    allocation = builders.allocation("gpu-0", pool=worn["node"], driver=worn["driver"])
    held = builders.claim("held", namespace=namespace or worn["namespace"], allocation=allocation, deleting=deleting)
    return replace(held, reserved_for=tuple([Consumer("pods", name, uid) for name, uid in users]))


def fact(cause: str, worn: dict[str, str]) -> str:
    """What is said of the claim that holds the device."""
    claim, _, rest = cause.partition(" is ")
    assert claim == f"ResourceClaim {worn['namespace']}/held"
    return f"is {rest}".removesuffix(f"; it has device {worn['node']}/gpu-0")


def add_user(rig: Rig, worn: dict[str, str], name: str, **fields: Any) -> None:
    rig.add_pod(name, namespace=worn["namespace"], claims=("held",), node=worn["node"], **fields)


@DRESSINGS
def test_a_claim_that_nobody_uses(worn) -> None:
    rig = rig_with_holder(worn)
    cause, change = told(rig, worn, "holder-gone")
    key = f"{worn['namespace']}/held"
    assert cause == f"ResourceClaim {key} is reserved for nobody; it has device {worn['node']}/gpu-0"
    assert change == (
        f"{CONTROLLER} must release ResourceClaim {key}; where it does not: "
        f"kubectl delete resourceclaim held -n {worn['namespace']}"
    )
    (held,) = [one for one in rig.server.claims.values() if one.key.name == "held"]
    rig.server.delete_claim(held.key)
    rig.wait(30_000)
    assert rig.node_of("p", worn["namespace"]) == worn["node"]


@DRESSINGS
def test_a_claim_of_a_pod_that_does_not_exist(worn) -> None:
    rig = rig_with_holder(worn, ("gone", "u-gone"))
    cause, change = told(rig, worn, "holder-gone")
    assert (
        "ResourceClaim NS/held is reserved for pod NS/gone, which does not exist;".replace("NS", worn["namespace"])
        in cause
    )
    assert "end pod" not in change


@DRESSINGS
def test_a_claim_of_an_earlier_pod_of_that_name(worn) -> None:
    rig = rig_with_holder(worn, ("again", "u-before"))
    rig.add_pod("again", namespace=worn["namespace"], claims=("held",), gates=("example.com/wait",))
    cause, change = told(rig, worn, "holder-gone")
    assert (
        "ResourceClaim NS/held is reserved for pod NS/again, an older pod so named;".replace("NS", worn["namespace"])
        in cause
    )
    assert "kubectl delete" not in change, "the pod that is there names it"


@DRESSINGS
def test_a_claim_of_a_pod_that_has_ended(worn) -> None:
    rig = rig_with_holder(worn, ("done", f"uid-{worn['namespace']}-done"))
    add_user(rig, worn, "done", phase="Succeeded")
    cause, _ = told(rig, worn, "holder-gone")
    assert fact(cause, worn) == f"is reserved for pod {worn['namespace']}/done, which has ended"


@DRESSINGS
def test_a_claim_of_a_pod_that_is_being_deleted(worn) -> None:
    rig = rig_with_holder(worn, ("going", f"uid-{worn['namespace']}-going"))
    add_user(rig, worn, "going", phase="Running", deleting=True)
    cause, change = told(rig, worn, "holder-terminating")
    assert (
        "ResourceClaim NS/held is reserved for pod NS/going, which is being deleted and has not ended;".replace(
            "NS", worn["namespace"]
        )
        in cause
    )
    assert change.startswith(f"the kubelet of node {worn['node']} must end the pod (a finalizer may keep it)")


@DRESSINGS
def test_a_claim_that_is_being_deleted(worn) -> None:
    rig = rig_with_holder(worn, ("gone", "u-gone"), deleting=True)
    cause, change = told(rig, worn, "claim-deleting")
    assert (
        "ResourceClaim NS/held is being deleted and still reserved for pod NS/gone, which does not exist;".replace(
            "NS", worn["namespace"]
        )
        in cause
    )
    assert change == (
        f"{CONTROLLER} must release ResourceClaim {worn['namespace']}/held and take its finalizer away; look at its log"
    )


@DRESSINGS
def test_a_claim_of_another_namespace_is_not_named(worn) -> None:
    rig = rig_with_holder(worn, ("secret", "u-secret"), namespace="others")
    cause, change = told(rig, worn, "holder-gone")
    assert cause == (
        "a ResourceClaim of another namespace is reserved for a pod of another namespace, which does not exist; it has "
        f"device {worn['node']}/gpu-0"
    )
    assert "secret" not in change
    assert "others" not in change


@DRESSINGS
def test_a_claim_of_a_pod_that_runs_beside_one_that_is_gone_is_in_use(worn) -> None:
    rig = rig_with_holder(worn, ("gone", "u-gone"), ("runs", f"uid-{worn['namespace']}-runs"))
    add_user(rig, worn, "runs", phase="Running")
    cause, _ = told(rig, worn)
    assert "gone" not in cause


PINNED = [
    ({"unschedulable": True}, {}, "node {} is cordoned", "kubectl uncordon {}"),
    (
        {},
        {"nodeSelector": {"disk": "ssd"}},
        "no node has the label disk, which the nodeSelector of pod {}/p asks for (disk=ssd)",
        "",
    ),
    ({"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "0"}}, {}, "node {} has room for 0 pods, and has 0", ""),
]


@DRESSINGS
@pytest.mark.parametrize(("fields", "pod", "cause", "change"), PINNED)
def test_a_claim_whose_devices_are_where_the_pod_may_not_run(worn, fields, pod, cause, change) -> None:
    """Of two nodes the other would do but for the claim: it is no cause."""
    rig = Rig(*default_plugins(), reports_causes=True)
    rig.server.put_node(builders.node(worn["node"], **fields))
    rig.server.put_node(builders.node("z-other", unschedulable=True))
    rig.server.put_class(builders.device_class(worn["device_class"], driver=worn["driver"]))
    rig.server.put_slice(builders.resource_slice("s", node=worn["node"], driver=worn["driver"], devices=1))
    rig.server.put_claim(holder(worn, deleting=False, namespace=""))
    rig.add_pod("p", namespace=worn["namespace"], claims=("held",), **pod)
    found, made = told(rig, worn, "claim-pinned")
    expected = cause.format(worn["namespace"] if "pod {}" in cause else worn["node"])
    assert found == f"ResourceClaim {worn['namespace']}/held has devices on node {worn['node']}, and {expected}"
    assert change.format(worn["node"]) in made


@DRESSINGS
def test_the_pods_own_claim_that_is_being_deleted(worn) -> None:
    rig = Rig(*default_plugins(), reports_causes=True)
    rig.add_nodes(worn["node"])
    rig.server.put_class(builders.device_class(worn["device_class"], driver=worn["driver"]))
    rig.server.put_slice(builders.resource_slice("s", node=worn["node"], driver=worn["driver"], devices=1))
    want_device(rig, worn)
    (own,) = rig.server.claims.values()
    rig.server.put_claim(
        replace(own, revision=builders.next_revision(), deletion_timestamp="2026-01-01T00:01:00Z", finalizers=("a/b",))
    )
    cause, change = told(rig, worn, "claim-deleting")
    assert cause.startswith(f"ResourceClaim {own.key}, which pod {worn['namespace']}/p names, is being deleted")
    assert cause.endswith("(kept by finalizer a/b)")
    assert change.startswith("once it is gone, ")


@pytest.mark.slow
def test_ten_thousand_claims_take_few_steps() -> None:
    """Each claim has one device of another node; only those of the nearest nodes' devices are looked at."""
    rig = rig_with_holder(FIRST, checks_invariants=False, is_paranoid=False)
    for number in range(10_000):
        allocation = builders.allocation(f"gpu-{number}", pool="far", driver=FIRST["driver"])
        rig.server.put_claim(builders.claim(f"other-{number}", namespace="default", allocation=allocation))
    search = rig.machine.causes._search
    cause, _ = told(rig, FIRST, "holder-gone")
    assert "default/held" in cause
    assert search.steps < 2_000
