"""The pods of a group are told how many of it fit, which does not, and that one's own cause; all of them the same."""

from __future__ import annotations

import pytest

from scheduler.framework.diagnosis import COMMAND, cause_of
from scheduler.model.group import GROUP_LABEL, MIN_COUNT_LABEL
from scheduler.model.keys import PodGroupKey, PodKey
from scheduler.model.pod_group import PodGroup
from scheduler.plugins import default_plugins
from scheduler.why.reasons import Fix
from tests import builders
from tests.core.rig import Rig

DRESSINGS = ("labels", "PodGroup")


def fitting(fit: int, needed: int, pod: str, of: str = "") -> str:
    return f"[group-unmet] {pod} of group default/g ({fit} of {needed} fit{of}): "


def world(**devices_by_node: int) -> Rig:
    rig = Rig(*default_plugins(), reports_causes=True)
    rig.server.put_class(builders.device_class())
    for name, count in devices_by_node.items():
        rig.add_nodes(name)
        if count:
            rig.server.put_slice(builders.resource_slice(f"slice-{name}", node=name, devices=count))
    return rig


def group(rig: Rig, dressing: str, needed: int) -> dict:
    """What makes a pod one of the group."""
    if dressing == "labels":
        return {"labels": {GROUP_LABEL: "g", MIN_COUNT_LABEL: str(needed)}}
    rig.server.put_pod_group(PodGroup(PodGroupKey("default", "g"), "uid-g", min_count=needed))
    return {"schedulingGroup": {"podGroupName": "g"}}


def member(rig: Rig, name: str, mark: dict, devices: int = 0, **fields) -> None:
    if devices:
        spec = builders.claim_spec_object(builders.request_object(count=devices))
        rig.server.put_claim(builders.claim(f"{name}-gpu", spec=spec))
        fields["claims"] = (f"{name}-gpu",)
    rig.add_pod(name, **mark, **fields)


def causes(rig: Rig, *names: str) -> set[str]:
    found = set()
    for name in names:
        condition = rig.condition_of(name)
        assert condition is not None, name
        found.add(cause_of(condition[1]))
    return found


def fixes(rig: Rig, name: str) -> tuple[Fix, ...]:
    """What lets a pod in."""
    (uid,) = (uid for uid, pod in rig.machine.store.pods.items() if pod.key.name == name)
    why, _ = rig.machine.causes.why(uid, COMMAND)
    assert why is not None
    return why.fixes


MATES = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "train"}}}
BESIDE = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [MATES]}}}
APART = {"topologySpreadConstraints": [{**MATES, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}


@pytest.mark.parametrize("dressing", DRESSINGS)
@pytest.mark.parametrize(("rules", "devices"), [(BESIDE, (1, 1)), (APART, (2, 0))], ids=["podAffinity", "spread"])
def test_no_other_rule_is_proposed_for_one_of_several_equal_pods(
    dressing: str, rules: dict, devices: tuple[int, int]
) -> None:
    rig = world(**dict(zip("ab", devices, strict=True)))
    mark = group(rig, dressing, 2)
    mark["labels"] = {**mark.get("labels", {}), "app": "train"}
    for name in "xy":
        member(rig, name, mark, devices=1, **rules)
    rig.wait(5_000)
    (cause,) = causes(rig, "x", "y")
    assert cause.startswith(fitting(1, 2, "y", " with one value of kubernetes.io/hostname" if rules is BESIDE else ""))
    assert "relax" not in cause


@pytest.mark.parametrize("dressing", DRESSINGS)
def test_the_last_pod_that_lacks_a_device_is_named_with_its_cause(dressing: str) -> None:
    rig = world(a=2)
    mark = group(rig, dressing, 3)
    for name in "xyz":
        member(rig, name, mark, devices=1)
    rig.wait(5_000)
    (cause,) = causes(rig, *"xyz")
    assert cause.startswith(fitting(2, 3, "z"))
    assert cause.endswith("2 devices (a/gpu-0, a/gpu-1) are planned for the others of the group")
    assert "end pod" not in cause  # none of the group runs


@pytest.mark.parametrize("dressing", DRESSINGS)
def test_what_a_stranger_has_is_in_use_and_what_mates_would_have_is_not(dressing: str) -> None:
    """Pods of a group that only wait were said to have devices."""
    rig = world(a=3)
    mark = group(rig, dressing, 3)
    member(rig, "stranger", {}, devices=1)
    rig.wait(5_000)
    for name in "xyz":
        member(rig, name, mark, devices=1)
    rig.wait(5_000)
    (cause,) = causes(rig, *"xyz")
    assert cause.startswith(fitting(2, 3, "z") + "device a/gpu-0 is in use by ResourceClaim default/stranger-gpu (")
    assert "end pod default/stranger (priority 0)" in cause


@pytest.mark.parametrize(("devices", "helps"), [(2, True), (1, False)])
def test_who_has_what_two_of_a_group_lack_may_end(devices: int, helps: bool) -> None:
    """Nothing was proposed where more than one pod had no place."""
    rig = world(a=devices)
    member(rig, "stranger", {}, devices=devices)
    rig.wait(5_000)
    mark = group(rig, "labels", 2)
    for name in "xy":
        member(rig, name, mark, devices=1)
    rig.wait(5_000)
    (cause,) = causes(rig, *"xy")
    assert ("end pod default/stranger" in cause) == helps


def racked(needed: int, **racks: str) -> tuple[Rig, dict]:
    """Nodes with a device each, of these racks, and a group that needs one rack."""
    rig = Rig(*default_plugins(), reports_causes=True)
    rig.server.put_class(builders.device_class())
    for name, rack in racks.items():
        rig.add_nodes(name, labels={"rack": rack} if rack else {})
        rig.server.put_slice(builders.resource_slice(f"slice-{name}", node=name, devices=2))
    rig.server.put_pod_group(PodGroup(PodGroupKey("default", "g"), "uid-g", min_count=needed, topology_key="rack"))
    return rig, {"schedulingGroup": {"podGroupName": "g"}}


def test_nobody_ends_on_another_rack_than_that_of_the_others() -> None:
    rig, mark = racked(3, a="east", b="west")
    member(rig, "stranger", {}, devices=2, nodeSelector={"kubernetes.io/hostname": "b"})
    rig.wait(5_000)
    for name in "xyz":
        member(rig, name, mark, devices=1)
    rig.wait(5_000)
    (cause,) = causes(rig, *"xyz")
    assert cause.startswith(fitting(2, 3, "z", " with one value of rack"))
    assert "end pod" not in cause


@pytest.mark.parametrize(("needed", "fix"), [(2, "; to make it fit: kubectl label node a rack=a"), (3, "")])
def test_the_label_that_no_node_has_is_the_cause(needed: int, fix: str) -> None:
    """The scheduler's sentence was all that was said."""
    rig, mark = racked(needed, a="", b="")
    for name in "xyz"[:needed]:
        member(rig, name, mark, devices=1)
    rig.wait(5_000)
    (cause,) = causes(rig, *"xyz"[:needed])
    nowhere = "group default/g must be on nodes with one value of label rack, which no node has"
    assert cause == f"[group-unmet] {nowhere}{fix}"


@pytest.mark.parametrize("dressing", DRESSINGS)
def test_what_lets_the_only_pod_in_that_lacks_room_is_said(dressing: str) -> None:
    rig = world(a=0)
    mark = group(rig, dressing, 2)
    member(rig, "x", mark, requests={"cpu": "5"})
    member(rig, "y", mark, requests={"cpu": "4"})
    rig.wait(5_000)
    (cause,) = causes(rig, *"xy")
    assert cause == (
        fitting(1, 2, "y") + "node a has 3 cpu free, and pod default/y asks for 4"
        "; to make it fit: ask for cpu 3 instead of 4 in container main of pod default/y"
    )


@pytest.mark.parametrize("dressing", DRESSINGS)
def test_what_lets_one_of_two_in_that_lack_room_is_not_said(dressing: str) -> None:
    rig = world(a=0)
    mark = group(rig, dressing, 3)
    for name in "xyz":
        member(rig, name, mark, requests={"cpu": "5"})
    rig.wait(5_000)
    (cause,) = causes(rig, *"xyz")
    assert cause == fitting(1, 3, "y") + "node a has 3 cpu free, and pod default/y asks for 5"


@pytest.mark.parametrize("dressing", DRESSINGS)
def test_a_pod_that_does_not_fit_even_alone(dressing: str) -> None:
    rig = world(a=0)
    mark = group(rig, dressing, 2)
    member(rig, "x", mark)
    member(rig, "y", mark, nodeSelector={"zone": "b"})
    rig.wait(5_000)
    (cause,) = causes(rig, *"xy")
    assert cause.startswith("[group-unmet] y of group default/g (")
    assert "zone=b" in cause


@pytest.mark.parametrize(("devices", "helps"), [(2, True), (1, False)])
@pytest.mark.parametrize("dressing", DRESSINGS)
def test_what_lets_a_gated_pod_in_is_said_where_the_others_it_needs_fit_too(
    dressing: str, devices: int, helps: bool
) -> None:
    """It was said of the event's pod alone, which is placed with the others or not at all."""
    rig = world(a=devices)
    mark = group(rig, dressing, 2)
    member(rig, "x", mark, devices=1, gates=("example.com/quota",))
    member(rig, "y", mark, devices=1)
    rig.wait(5_000)
    assert [one.kind for one in fixes(rig, "x")] == (["gate-removed"] if helps else [])


@pytest.mark.parametrize(("cpu", "helps"), [("1", True), ("5", False)])
def test_a_claim_that_a_group_shares_is_asked_about_with_all_its_pods(cpu: str, helps: bool) -> None:
    """Where no node was asked, one pod that fits was enough; and each other pod was asked for devices of its own."""
    rig = world(a=1)
    mark = group(rig, "labels", 2)
    typo = builders.request_object(selector="device.attributes['gpu.example.com'].indexx == 0")
    rig.server.put_claim(builders.claim("shared", spec=builders.claim_spec_object(typo)))
    for name in "xy":
        member(rig, name, mark, claims=("shared",), requests={"cpu": cpu})
    rig.wait(5_000)
    assert bool(fixes(rig, "x")) == helps


def test_nothing_stays_held_and_nothing_is_woken_by_asking() -> None:
    rig = world(a=2, b=1)
    mark = group(rig, "labels", 4)
    for name in "wxyz":
        member(rig, name, mark, devices=1)
    rig.wait(5_000)
    assert not rig.machine.store.assumed
    assert not rig.machine.overlay.holds
    tried = len(rig.events)
    rig.wait(60_000)
    assert len(rig.events) == tried


def test_a_mate_that_goes_while_the_cause_is_looked_for_ends_it() -> None:
    rig = world(a=1)
    mark = group(rig, "labels", 2)
    for name in "xy":
        member(rig, name, mark, devices=1)
    rig.watch()
    rig.server.delete_pod(PodKey("default", "x"))
    rig.wait(5_000)
    assert not rig.machine.store.assumed
