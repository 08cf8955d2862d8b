"""`explain` of pools, classes and holders: the first line has the cause, carried out the second lets the pod in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.explain.test_explaining import told
from tests.offline.causes import (
    CLASS,
    DRIVER,
    TWO,
    WORLD,
    Obj,
    allocated,
    claim,
    device_class,
    gpu,
    node,
    pod,
    request,
    slice_,
)

MODEL = f"device.attributes['{DRIVER}'].model"


def held(*users: tuple[str, str], **metadata: Any) -> Obj:
    """The claim `theirs` has gpu-0."""
    found = allocated(claim(name="theirs"), "gpu-0")
    found["metadata"] |= {"uid": "uid-theirs", **metadata}
    found["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": uid} for name, uid in users]
    return found


@dataclass(frozen=True)
class Row:
    """What is planted, and what the first and the second line say."""

    name: str
    objects: list[Obj]
    kind: str
    cause: str
    advice: str


ROWS = [
    Row(
        "nobody",
        [*WORLD, held()],
        "holder-gone",
        "ResourceClaim default/theirs is reserved for nobody",
        "kubectl delete",
    ),
    Row(
        "never-existed",
        [*WORLD, held(("gone", "uid-gone"))],
        "holder-gone",
        "ResourceClaim default/theirs is reserved for pod default/gone, which does not exist",
        "kube-controller-manager",
    ),
    Row(
        "earlier",
        [*WORLD, held(("again", "uid-before")), pod(name="again", nodeName="node-1")],
        "holder-gone",
        "ResourceClaim default/theirs is reserved for pod default/again, an older pod so named",
        "kube-controller-manager",
    ),
    Row(
        "superseded",
        [*WORLD, slice_(name="newer", pool={"generation": 2}, devices=[])],
        "slice-superseded",
        f"ResourceSlice slice-node-1 of pool {DRIVER}/node-1 is of an older generation (1): 2 counts",
        "the driver must publish the devices of slice-node-1 again in generation 2",
    ),
    Row(
        "incomplete",
        [node(), slice_(gpu(), pool={"resourceSliceCount": 2}), device_class()],
        "pool-incomplete",
        f"pool {DRIVER}/node-1 is incomplete: of generation 1 there are 1 of 2 ResourceSlices",
        "the driver must publish the 1 missing ResourceSlice of generation 1",
    ),
    Row(
        "twice",
        [
            node(),
            slice_(gpu(), pool={"resourceSliceCount": 2}),
            slice_(gpu(), name="again", pool={"resourceSliceCount": 2}),
            device_class(),
        ],
        "pool-contradictory",
        f"pool {DRIVER}/node-1 has a device twice: device gpu-0 is in slices again and slice-node-1",
        "the driver must publish pool",
    ),
    Row(
        "no-node",
        [node("node-2"), *WORLD[1:]],
        "slice-node-missing",
        "ResourceSlice slice-node-1 is for node node-1, and no Node has that name",
        "the kubelet of node-1 must register",
    ),
    Row(
        "no-driver",
        [node(), device_class()],
        "no-devices",
        "no driver publishes any device",
        f"install the driver of DeviceClass {CLASS}",
    ),
    Row(
        "other-driver",
        [*WORLD[:2], device_class("device.driver == 'tpu.vendor.io'")],
        "class-unmatched",
        f"DeviceClass {CLASS}: no device has the driver tpu.vendor.io",
        "install the driver tpu.vendor.io",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_cause_and_what_mends_it(row: Row) -> None:
    answer = told(*row.objects, claim(), pod("gpu"))
    assert not answer.fits
    assert f"[{row.kind}]: {row.cause}" in answer.verdict
    assert len(answer.verdict) <= 160
    assert row.advice in answer.advice
    assert "end pod" not in answer.advice


def test_the_term_that_no_device_satisfies_and_not_the_whole_selector() -> None:
    answer = told(*TWO, claim(request(f"{MODEL} == 'A100' && {MODEL} != 'A100'")), pod("gpu"))
    assert f"[selector-unmet]: request gpu: {DRIVER}/model is 'A100', and no device of its class" in answer.verdict
    assert f"`{MODEL} != 'A100'`" in answer.advice
