"""Pods that wait on their normal way: what their condition says, and that nobody warns them."""

from __future__ import annotations

from dataclasses import replace

from scheduler.framework.decisions import PatchPodStatus, WriteClaimStatus
from scheduler.model.claim import DeviceCondition
from scheduler.model.keys import ClaimKey
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig

BINDING = {"bindsToNode": True, "bindingConditions": ["ready", "warm"], "bindingFailureConditions": ["broken"]}


def cluster(**device) -> Rig:
    rig = Rig(*default_plugins(), is_paranoid=False)
    rig.server.put_class(builders.device_class())
    rig.add_nodes("a")
    gpus = tuple(builders.device_object(f"gpu-{index}") | device for index in range(2))
    rig.server.put_slice(builders.resource_slice("s", node="a", devices=gpus))
    rig.server.put_claim(builders.claim("c"))
    return rig


def report(rig: Rig, *types: str) -> None:
    """The driver sets conditions of the device."""
    claim = rig.server.claims[ClaimKey("default", "c")]
    device = next(iter(claim.allocation.results))
    conditions = tuple(
        DeviceCondition(device.driver, device.pool, device.device, type_, "True", "", "") for type_ in types
    )
    rig.server.put_claim(replace(claim, device_conditions=conditions))


def test_a_pod_that_waits_for_binding_conditions_says_for_what():
    rig = cluster(**BINDING)
    rig.add_pod("p", claims=("c",))
    rig.settle()
    assert rig.condition_of("p") is None, "not at once: drivers may be quick"
    rig.wait(1_500)
    want = "waiting on node a for drivers to set binding conditions: claim c, device gpu-0 of pool a, "
    assert rig.condition_of("p") == ("BindingConditionsPending", f"{want}driver gpu.example.com: ready, warm")
    report(rig, "ready")
    rig.settle()
    assert rig.condition_of("p") == ("BindingConditionsPending", f"{want}driver gpu.example.com: warm")
    report(rig, "ready", "warm")
    rig.settle()
    assert rig.node_of("p") == "a"
    assert [event.partition(":")[0] for event in rig.events] == [
        "BindingConditionsPending",
        "BindingConditionsMet",
        "Scheduled",
    ]


def test_a_wait_that_is_over_at_once_writes_no_condition():
    rig = cluster(**BINDING)
    rig.add_pod("p", claims=("c",))
    rig.settle()
    report(rig, "ready", "warm")
    rig.wait(5_000)
    assert rig.node_of("p") == "a"
    assert not any(isinstance(decision, PatchPodStatus) for decision in rig.decided)


def test_pods_that_share_a_claim_are_warned_of_nothing_on_their_way():
    rig = cluster()
    for index in range(12):
        rig.add_pod(f"p{index}", claims=("c",))
    rig.watch()
    for _ in range(60):
        rig.tick(100)
        rig.execute()
    assert len(rig.server.bindings) == 12
    assert {event.partition(":")[0] for event in rig.events} == {"Scheduled"}
    assert not any(isinstance(decision, PatchPodStatus) for decision in rig.decided)


def test_pods_whose_claim_is_being_allocated_for_another_for_long_are_told():
    rig = cluster()
    for index in range(2):
        rig.add_pod(f"p{index}", claims=("c",))
    rig.watch()
    rig.tick()
    rig.execute()  # the finalizer
    rig.tick()
    assert any(isinstance(decision, WriteClaimStatus) for decision in rig.pending)
    hung, rig.pending = rig.pending, []
    rig.wait(4_000)
    assert rig.condition_of("p1") is None
    rig.wait(4_000)
    reason, message = rig.condition_of("p1")
    assert reason == "Unschedulable"
    assert "is in the process of being allocated" in message
    rig.pending += hung
    rig.wait(20_000)
    assert len(rig.server.bindings) == 2
