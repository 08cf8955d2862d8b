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


def add_user(rig: Rig, worn: dict[str, str], name: str, **fields: Any) -> None:
    rig.add_pod(name, namespace=worn["namespace"], claims=("held",), node=worn["node"], **fields)


@DRESSINGS
def test_a_claim_that_nobody_uses(worn) -> None:
    rig = rig_with_holder(worn)
    cause, change = told(rig, worn, "holder-gone")
    key = f"{worn['namespace']}/held"
    assert cause == f"ResourceClaim {key}, which has device {worn['node']}/gpu-0, is reserved for nobody"
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
    assert cause.endswith("is reserved for pod gone, which does not exist")
    assert "end pod" not in change


@DRESSINGS
def test_a_claim_of_an_earlier_pod_of_that_name(worn) -> None:
    rig = rig_with_holder(worn, ("again", "u-before"))
    rig.add_pod("again", namespace=worn["namespace"], claims=("held",), gates=("example.com/wait",))
    cause, change = told(rig, worn, "holder-gone")
    assert cause.endswith("is reserved for pod again, an earlier pod of that name")
    assert "kubectl delete" not in change, "the pod that is there names it"


@DRESSINGS
def test_a_claim_of_a_pod_that_has_ended(worn) -> None:
    rig = rig_with_holder(worn, ("done", f"uid-{worn['namespace']}-done"))
    add_user(rig, worn, "done", phase="Succeeded")
    cause, _ = told(rig, worn, "holder-gone")
    assert cause.endswith("is reserved for pod done, which has ended")


@DRESSINGS
def test_a_claim_of_a_pod_that_is_being_deleted(worn) -> None:
    rig = rig_with_holder(worn, ("going", f"uid-{worn['namespace']}-going"))
    add_user(rig, worn, "going", phase="Running", deleting=True)
    cause, change = told(rig, worn, "holder-terminating")
    assert cause.endswith("is reserved for pod going, which is being deleted and has not ended")
    assert change.startswith(f"the kubelet of node {worn['node']} must end the pod (a finalizer may keep it)")


@DRESSINGS
def test_a_claim_that_is_being_deleted(worn) -> None:
    rig = rig_with_holder(worn, ("gone", "u-gone"), deleting=True)
    cause, change = told(rig, worn, "claim-deleting")
    assert cause.endswith("is being deleted and still reserved for pod gone, which does not exist")
    assert change == (
        f"{CONTROLLER} must release ResourceClaim {worn['namespace']}/held and take its finalizer away; look at its log"
    )


@DRESSINGS
def test_a_claim_of_another_namespace_is_not_named(worn) -> None:
    rig = rig_with_holder(worn, ("secret", "u-secret"), namespace="others")
    cause, change = told(rig, worn, "holder-gone")
    assert cause == (
        f"a ResourceClaim of another namespace, which has device {worn['node']}/gpu-0, is reserved for a pod, which "
        "does not exist"
    )
    assert "secret" not in change
    assert "others" not in change


@DRESSINGS
def test_a_claim_of_a_pod_that_runs_beside_one_that_is_gone_is_in_use(worn) -> None:
    rig = rig_with_holder(worn, ("gone", "u-gone"), ("runs", f"uid-{worn['namespace']}-runs"))
    add_user(rig, worn, "runs", phase="Running")
    cause, _ = told(rig, worn)
    assert "gone" not in cause


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
