"""DynamicResources from Reserve to the binding: what is written, what survives races, what is taken back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import Features
from scheduler.framework.api import PreBindDone, PreBindFailed, PreBindWait, PreBindWrite
from scheduler.framework.decisions import AddClaimFinalizer, BindingWait, RecordEvent, WriteClaimStatus
from scheduler.framework.diagnosis import cause_of, without_cause
from scheduler.framework.status import SUCCESS, Code
from scheduler.kube.metrics import Metrics
from scheduler.model.api_rules import FINALIZER
from scheduler.model.claim import Consumer
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.plugins.dynamic_resources.binding_conditions import BindingState, Readiness, binding_state
from scheduler.why.reasons import TO_MAKE_IT_FIT
from tests.plugins.cluster import (
    DRIVER,
    NOW_MS,
    Cluster,
    allocation,
    claim,
    condition,
    consumer,
    cycle_of,
    exactly,
    gpu,
    info_of,
    node_slice,
    pod_with,
    rfc3339,
)
from tests.plugins.objects import node, node_info, pod

TIMEOUT_MS = 600_000
POD = pod_with("claim")


@dataclass
class Binding:
    """A pod on its way to `node`: reserved, and then asked for its next step again and again."""

    view: Cluster
    one: object = POD
    features: Features | None = None
    plugin: DynamicResources = field(default_factory=lambda: DynamicResources(binding_timeout_ms=TIMEOUT_MS))

    def __post_init__(self) -> None:
        self.cycle = cycle_of(self.one)
        assert self.plugin.pre_filter(self.cycle, self.view).status.is_success
        self.reserved = self.plugin.reserve(self.cycle, info_of(self.view), self.view)
        assert self.reserved.status == SUCCESS, self.reserved.status
        self.view.hold(*self.reserved.held)
        self.sent: list[str] = []

    def step(self, now_ms=NOW_MS):
        self.cycle.now_ms = now_ms
        return self.plugin.pre_bind(self.cycle, "node", self.view)

    def run(self):
        """Execute what is asked for until there is nothing more to write."""
        for _ in range(10):
            step = self.step()
            if not isinstance(step, PreBindWrite):
                return step
            for decision in step.decisions:
                self.sent.append(type(decision).__name__)
                assert self.view.execute(decision)
        raise AssertionError("PreBind never came to an end")

    def unreserve(self):
        return self.plugin.unreserve(self.cycle, "node", self.view)

    @property
    def stored(self):
        return self.view.claims[next(iter(self.view.claims))]


def cluster(*claims, devices=None, **fields) -> Cluster:
    return Cluster(
        node_info(), slices=[node_slice("node", *(devices or [gpu()]))], claims=claims or [claim()], **fields
    )


# --- Reserve ----------------------------------------------------------------------------------------------------------


def test_reserve_holds_the_allocation_of_each_unallocated_claim() -> None:
    view = cluster(claim(), claim("old", allocation=allocation("node", "gpu-1")), devices=[gpu(), gpu("gpu-1")])
    binding = Binding(view, pod_with("old", "claim"))
    (held,) = binding.reserved.held
    assert (held.claim.name, held.uid) == ("claim", "uid-of-claim")
    assert [str(device) for device in held.allocation.device_ids()] == ["gpu.example.com/node/gpu-0"]


def test_reserve_holds_nothing_for_pods_without_claims_and_for_allocated_claims() -> None:
    assert Binding(cluster(claim(allocation=allocation("node", "gpu-0")))).reserved.held == ()
    plugin, without = DynamicResources(), cycle_of(pod())
    assert plugin.reserve(without, node_info(), cluster()).held == ()
    assert plugin.unreserve(without, "node", cluster()) == ()
    assert plugin.pre_bind(without, "node", cluster()) == PreBindDone()


def test_reserve_takes_share_ids_from_the_view() -> None:
    shared = gpu(allowMultipleAllocations=True)
    binding = Binding(cluster(claim("claim", exactly("x"), exactly("y")), devices=[shared]))
    (held,) = binding.reserved.held
    assert [result.share_id for result in held.allocation.results] == ["uid-1", "uid-2"]


def test_reserve_fails_when_the_node_does_not_do_any_more() -> None:
    view = cluster()
    plugin, cycle = DynamicResources(), cycle_of(POD)
    plugin.pre_filter(cycle, view)
    view.put(claim("thief", allocation=allocation("node", "gpu-0")))
    status = plugin.reserve(cycle, info_of(view), view).status
    assert (status.code, status.message) == (
        Code.ERROR,
        "claim allocation not found for node: cannot allocate all claims",
    )


# --- PreBind: the states of one claim ---------------------------------------------------------------------------------


def test_pre_bind_stores_finalizer_then_allocation_and_reservation_together() -> None:
    binding = Binding(cluster())
    assert binding.run() == PreBindDone()
    assert binding.sent == ["AddClaimFinalizer", "WriteClaimStatus"]
    stored = binding.stored
    assert stored.finalizers == (FINALIZER,)
    assert stored.allocation == binding.reserved.held[0].allocation
    assert stored.reserved_for == (Consumer("pods", "pod", "uid-of-pod"),)
    assert stored.allocation_timestamp == rfc3339(NOW_MS)


def test_pre_bind_stores_no_timestamp_with_binding_conditions_off() -> None:
    binding = Binding(cluster(features=Features(device_binding_and_status=False)))
    assert binding.run() == PreBindDone()
    assert binding.stored.allocation_timestamp is None


@pytest.mark.parametrize(
    ("stored", "sent"),
    [
        pytest.param(claim(finalizers=(FINALIZER,)), ["WriteClaimStatus"], id="finalizer-already-there"),
        pytest.param(
            claim(allocation=allocation("node", "gpu-0")), ["WriteClaimStatus"], id="only-the-reservation-is-missing"
        ),
        pytest.param(claim(allocation=allocation("node", "gpu-0"), reserved_for=[POD]), [], id="already-reserved"),
    ],
)
def test_pre_bind_writes_only_what_is_missing(stored, sent) -> None:
    binding = Binding(cluster(stored))
    assert binding.run() == PreBindDone()
    assert binding.sent == sent
    assert binding.stored.is_reserved_for(POD.uid)


def test_pre_bind_keeps_finalizers_and_consumers_of_others() -> None:
    other = pod("other")
    binding = Binding(cluster(claim(finalizers=("example.com/mine",))))
    assert binding.step().decisions == (
        AddClaimFinalizer(binding.stored.key, binding.stored.uid, 1, ("example.com/mine", FINALIZER)),
    )
    shared = Binding(cluster(claim(allocation=allocation("node", "gpu-0"), reserved_for=[other])))
    assert shared.step().decisions == (
        WriteClaimStatus(shared.stored.key, shared.stored.uid, 1, reserved_for=(consumer(other), consumer(POD))),
    )


def test_pre_bind_writes_several_claims_side_by_side() -> None:
    view = cluster(claim("x"), claim("y"), devices=[gpu(), gpu("gpu-1")])
    binding = Binding(view, pod_with("x", "y"))
    assert binding.run() == PreBindDone()
    assert binding.sent == ["AddClaimFinalizer"] * 2 + ["WriteClaimStatus"] * 2
    assert all(stored.is_reserved_for(POD.uid) for stored in view.claims.values())


def test_pre_bind_sets_a_finalizer_again_that_somebody_removed() -> None:
    binding = Binding(cluster(claim(finalizers=(FINALIZER,))))
    binding.view.change(binding.stored.key, finalizers=())
    assert binding.run() == PreBindDone()
    assert binding.sent == ["AddClaimFinalizer", "WriteClaimStatus"]


def test_pre_bind_after_a_conflict_starts_from_what_is_stored_now() -> None:
    binding = Binding(cluster())
    (stale,) = binding.step().decisions
    binding.view.change(binding.stored.key, finalizers=(FINALIZER,))  # somebody else was faster
    assert not binding.view.execute(stale)
    assert binding.run() == PreBindDone()
    assert binding.sent == ["WriteClaimStatus"]


def test_pre_bind_goes_on_when_the_write_with_the_lost_reply_was_executed() -> None:
    binding = Binding(cluster(claim(finalizers=(FINALIZER,))))
    (write,) = binding.step().decisions
    assert binding.view.execute(write)
    assert binding.step() == PreBindDone()


def test_pre_bind_adds_the_reservation_when_exactly_our_devices_are_stored_without_it() -> None:
    binding = Binding(cluster())
    binding.view.change(binding.stored.key, allocation=binding.reserved.held[0].allocation)
    assert binding.run() == PreBindDone()
    assert binding.sent == ["WriteClaimStatus"]


@pytest.mark.parametrize(
    ("before", "meanwhile", "message"),
    [
        pytest.param(
            claim(),
            {"deletion_timestamp": "2026-07-01T00:00:00Z"},
            "claim default/claim got deleted in the meantime",
            id="marked",
        ),
        pytest.param(claim(), {"uid": "another"}, "claim default/claim got deleted in the meantime", id="replaced"),
        pytest.param(
            claim(),
            {"allocation": allocation("node", "gpu-9")},
            "claim default/claim got allocated elsewhere in the meantime",
            id="allocated-by-somebody-else",
        ),
        pytest.param(
            claim(allocation=allocation("node", "gpu-0")),
            {"allocation": None},
            "claim default/claim got deallocated elsewhere in the meantime",
            id="deallocated",
        ),
        pytest.param(
            claim(allocation=allocation("node", "gpu-0")),
            {"allocation": allocation("other", "gpu-0")},
            "claim default/claim got allocated elsewhere in the meantime",
            id="moved-to-another-node",
        ),
        pytest.param(
            claim(allocation=allocation("node", "gpu-0")),
            {"reserved_for": tuple(Consumer("pods", f"p{index}", f"u{index}") for index in range(256))},
            "add reservation to claim default/claim: it is reserved for 256 consumers already and cannot have more "
            "than 256",
            id="no-room-for-another-consumer",
        ),
        pytest.param(
            claim(),
            {"problem": "status: odd"},
            "claim default/claim cannot be read: status: odd",
            id="became-unreadable",
        ),
    ],
)
def test_pre_bind_gives_up_when_somebody_else_won(before, meanwhile, message) -> None:
    binding = Binding(cluster(before))
    binding.view.change(before.key, **meanwhile)
    step = binding.step()
    assert isinstance(step, PreBindFailed)
    assert (step.status.code, step.status.message) == (Code.ERROR, message)


def test_pre_bind_gives_up_on_a_claim_that_is_gone() -> None:
    binding = Binding(cluster())
    binding.view.delete(binding.stored.key)
    assert binding.step().status.message == "claim default/claim got deleted in the meantime"


def test_pre_bind_does_not_write_a_device_that_vanished() -> None:
    binding = Binding(cluster(claim(finalizers=(FINALIZER,))))
    (name,) = binding.view.inventory.slices
    binding.view.inventory.remove_slice(name)
    assert binding.step().status.message == (
        "claim default/claim: device gpu.example.com/node/gpu-0 is not published any more"
    )


def test_pre_bind_does_not_write_a_device_that_the_node_does_not_see_any_more() -> None:
    """The slice is as it was, but no more for this node, whose label has changed since Reserve."""
    terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]}]
    shared = node_slice("node", gpu())
    del shared["spec"]["nodeName"]
    shared["spec"]["nodeSelector"] = {"nodeSelectorTerms": terms}
    view = Cluster(node_info(labels={"rack": "1"}), slices=[shared], claims=[claim(finalizers=(FINALIZER,))])
    binding = Binding(view)
    assert isinstance(binding.step(), PreBindWrite)
    view.node_infos["node"].node = node(labels={"rack": "2"})
    assert binding.step().status.message == (
        "claim default/claim: device gpu.example.com/node/gpu-0 is not published any more"
    )


def test_pre_bind_without_reserve_is_refused() -> None:
    plugin, cycle, view = DynamicResources(), cycle_of(POD), cluster()
    plugin.pre_filter(cycle, view)
    with pytest.raises(KeyError, match="Reserved"):
        plugin.pre_bind(cycle, "node", view)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["step", "lose reply", "conflict", "touch"]), max_size=12))
def test_pre_bind_ends_in_the_same_state_whatever_happens_on_the_way(events) -> None:
    """Lost replies, conflicts and foreign changes of other fields cost time and nothing else."""
    binding = Binding(cluster())
    for event in events:
        step = binding.step()
        if isinstance(step, PreBindDone):
            break
        (decision,) = step.decisions
        if event == "conflict":
            binding.view.change(decision.claim)
            assert not binding.view.execute(decision)
        elif event == "touch":
            binding.view.change(decision.claim, annotations=(("touched", "yes"),))
        else:
            assert binding.view.execute(decision)
    assert binding.run() == PreBindDone()
    stored = binding.stored
    assert stored.allocation == binding.reserved.held[0].allocation
    assert (stored.finalizers, stored.reserved_for) == ((FINALIZER,), (consumer(POD),))


# --- Unreserve --------------------------------------------------------------------------------------------------------


def test_unreserve_takes_back_the_reservation_and_leaves_the_allocation() -> None:
    other = pod("other")
    binding = Binding(cluster(claim(allocation=allocation("node", "gpu-0"), reserved_for=[other])))
    assert binding.run() == PreBindDone()
    (write,) = binding.unreserve()
    assert binding.view.execute(write)
    assert binding.stored.reserved_for == (consumer(other),)
    assert binding.stored.allocation is not None
    assert binding.unreserve() == ()  # idempotent


@pytest.mark.parametrize("stage", ["nothing-written", "finalizer-only", "claim-replaced", "claim-gone"])
def test_unreserve_writes_nothing_where_nothing_is_reserved(stage) -> None:
    binding = Binding(cluster())
    if stage == "finalizer-only":
        (write,) = binding.step().decisions
        assert binding.view.execute(write)
    elif stage == "claim-replaced":
        binding.view.change(binding.stored.key, uid="another", reserved_for=(consumer(POD),))
    elif stage == "claim-gone":
        binding.view.delete(binding.stored.key)
    assert binding.unreserve() == ()


# --- binding conditions -----------------------------------------------------------------------------------------------

SLOW = gpu(bindingConditions=["attached", "warm"], bindingFailureConditions=["broken"])
READY = (condition("attached"), condition("warm"))


def waiting(devices=(SLOW,), **fields) -> Binding:
    """A pod whose claim is stored and waits for its device."""
    binding = Binding(cluster(devices=list(devices)), **fields)
    step = binding.run()
    assert isinstance(step, PreBindWait)
    return binding


def test_pre_bind_waits_for_binding_conditions_and_says_so_once() -> None:
    binding = Binding(cluster(devices=[SLOW]))
    step = binding.run()
    assert isinstance(step, PreBindWait)
    assert (step.deadline_ms, step.claims) == (NOW_MS + TIMEOUT_MS, (binding.stored.key,))
    (event,) = step.events
    assert (event.kind, event.type, event.reason, event.action, without_cause(event.note)) == (
        "Pod",
        "Normal",
        "BindingConditionsPending",
        "Scheduling",
        "waiting for binding conditions for device on node node",
    )
    cause, _, advice = cause_of(event.note).partition(TO_MAKE_IT_FIT)
    waits = "ResourceClaim default/claim waits for attached, warm to be set: device gpu-0 of pool node"
    assert cause == f"[binding-condition-unset] {waits}, driver gpu.example.com"
    assert advice == "the driver must set attached, warm in the claim's status.devices; look at its log"
    assert binding.step(NOW_MS + 1000) == msgspec.structs.replace(step, events=())


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param(READY, PreBindDone, id="all-true"),
        pytest.param(READY[:1], PreBindWait, id="one-is-missing"),
        pytest.param((*READY[:1], condition("warm", "Unknown")), PreBindWait, id="one-is-not-true"),
        pytest.param((*READY, condition("broken", "False")), PreBindDone, id="not-broken"),
        pytest.param(tuple(replace(one, device="gpu-9") for one in READY), PreBindWait, id="of-another-device"),
        pytest.param(
            (*READY, condition("broken", reason="Fan", message="too hot")),
            'device binding failed: claim=claim, reason=Fan, message="too hot"',
            id="broken-wins-over-ready",
        ),
    ],
)
def test_pre_bind_goes_by_the_conditions_the_driver_reports(conditions, want) -> None:
    binding = waiting()
    binding.view.change(binding.stored.key, device_conditions=tuple(conditions))
    step = binding.step()
    if isinstance(want, str):
        assert isinstance(step, PreBindFailed)
        assert (step.status.code, step.status.message) == (Code.ERROR, want)
    else:
        assert isinstance(step, want)


@pytest.mark.parametrize(("later_ms", "want"), [(TIMEOUT_MS - 1, PreBindWait), (TIMEOUT_MS, PreBindFailed)])
def test_pre_bind_waits_no_longer_than_the_timeout(later_ms, want) -> None:
    binding = waiting()
    step = binding.step(NOW_MS + later_ms)
    assert isinstance(step, want)
    if isinstance(step, PreBindFailed):
        assert step.status.message == "device binding timeout: claim=claim"


def test_pre_bind_waits_no_longer_than_the_timeout_after_the_clock_was_set_back() -> None:
    step = waiting().step(NOW_MS - 3_600_000)
    assert isinstance(step, PreBindWait)
    assert step.deadline_ms == NOW_MS - 3_600_000 + TIMEOUT_MS


def test_pre_bind_counts_the_timeout_from_an_earlier_allocation() -> None:
    old = claim(
        allocation=allocation("node", "gpu-0", bindingConditions=["attached"], bindingFailureConditions=["broken"]),
        allocation_timestamp=rfc3339(NOW_MS - TIMEOUT_MS + 5000),
    )
    binding = Binding(cluster(old))
    step = binding.run()
    assert isinstance(step, PreBindWait)
    assert step.deadline_ms == NOW_MS + 5000


def test_pre_bind_without_a_timestamp_counts_from_the_start_of_the_wait() -> None:
    old = claim(
        allocation=allocation("node", "gpu-0", bindingConditions=["attached"], bindingFailureConditions=["broken"])
    )
    binding = Binding(cluster(old))
    step = binding.run()
    assert isinstance(step, PreBindWait)
    assert step.deadline_ms == NOW_MS + TIMEOUT_MS
    assert isinstance(binding.step(NOW_MS + TIMEOUT_MS), PreBindFailed)


def test_pre_bind_gives_up_when_a_claim_is_freed_while_it_waits() -> None:
    # Its devices were held until the allocation was stored; since then they may have been given to somebody else.
    binding = waiting()
    binding.view.change(binding.stored.key, allocation=None, reserved_for=())
    step = binding.step()
    assert isinstance(step, PreBindFailed)
    assert step.status.message == "claim default/claim got deallocated elsewhere in the meantime"


def test_the_end_of_a_wait_is_told_and_measured_once() -> None:
    binding = waiting()
    binding.view.change(binding.stored.key, device_conditions=tuple(READY))
    step = binding.step(NOW_MS + 2500)
    assert isinstance(step, PreBindDone)
    (event,) = step.events
    assert (event.type, event.reason) == ("Normal", "BindingConditionsMet")
    assert event.note == "binding conditions met on node node after 2.5 s"
    assert event.measured == BindingWait("default-scheduler", (DRIVER,), "success", 2500)
    # Asked again, as for another plugin's sake.
    assert binding.step(NOW_MS + 2600) == PreBindDone()


@pytest.mark.parametrize(
    ("change", "later_ms", "reason", "status"),
    [
        pytest.param(
            {"device_conditions": (condition("broken"),)}, 1000, "BindingConditionsFailed", "failure", id="failed"
        ),
        pytest.param({}, TIMEOUT_MS, "BindingConditionsTimeout", "timeout", id="timed-out"),
        pytest.param(
            {"allocation": None, "reserved_for": ()}, 1000, "BindingConditionsError", "error", id="claim-was-freed"
        ),
    ],
)
def test_a_wait_that_ends_badly_is_a_warning_with_its_reason(change, later_ms, reason, status) -> None:
    binding = waiting()
    binding.view.change(binding.stored.key, **change)
    step = binding.step(NOW_MS + later_ms)
    assert isinstance(step, PreBindFailed)
    (event,) = step.events
    assert (event.type, event.reason) == ("Warning", reason)
    assert event.note == f"{step.status.message} (on node node after {later_ms / 1000:.1f} s)"
    assert event.measured == BindingWait("default-scheduler", (DRIVER,), status, later_ms)


def test_waits_are_counted_under_upstreams_names_per_device_that_had_to_be_waited_for() -> None:
    metrics = Metrics()
    event = RecordEvent("Pod", "d", "p", "u", "Normal", "r", "a", "n", BindingWait("mine", ("x", "x"), "timeout", 700))
    metrics.count_decisions([event, msgspec.structs.replace(event, measured=None)])
    text = metrics.text().decode()
    labels = '{driver="x",profile="mine",status="timeout"}'
    assert f"scheduler_dra_bindingconditions_allocations_total{labels} 2.0" in text
    assert f"scheduler_dra_bindingconditions_wait_duration_seconds_sum{labels} 1.4" in text


def test_pre_bind_does_not_wait_with_the_feature_off_or_for_devices_without_conditions() -> None:
    off = Binding(cluster(devices=[gpu()], features=Features(device_binding_and_status=False)))
    assert off.run() == PreBindDone()
    view = cluster(claim("slow"), claim("fast"), devices=[SLOW, gpu("gpu-1")])
    mixed = Binding(view, pod_with("slow", "fast"))
    step = mixed.run()
    assert isinstance(step, PreBindWait)
    slow = [key for key, stored in view.claims.items() if any(r.device == "gpu-0" for r in stored.allocation.results)]
    assert step.claims == tuple(slow)


def test_a_failure_of_one_device_is_seen_before_another_reports_anything() -> None:
    both = allocation("node", "gpu-0", "gpu-1", bindingConditions=["attached"], bindingFailureConditions=["broken"])
    stored = claim(allocation=both, device_conditions=(condition("broken", device="gpu-1", reason="x"),))
    assert binding_state(stored).readiness is Readiness.FAILED
    assert binding_state(claim()) == BindingState(Readiness.WAITING)


def test_a_wait_names_device_condition_and_driver() -> None:
    binding = waiting()
    step = binding.step()
    assert step.reason == "BindingConditionsPending", "the autoscaler adds nodes for pods that are Unschedulable"
    assert step.message == (
        "waiting on node node for drivers to set binding conditions: claim claim, device gpu-0 of pool node, "
        "driver gpu.example.com: attached, warm"
    )
    slow = condition("warm", "False", message="at 20 degrees")
    binding.view.change(binding.stored.key, device_conditions=(READY[0], slow))
    assert binding.step().message.endswith("driver gpu.example.com: warm (False: at 20 degrees)")


def test_a_wait_for_many_devices_names_a_few() -> None:
    devices = [
        gpu(f"gpu-{index}", bindingConditions=["attached"], bindingFailureConditions=["broken"]) for index in range(6)
    ]
    step = Binding(cluster(claim("claim", exactly(count=6)), devices=devices)).run()
    assert step.message.count("driver gpu.example.com: attached") == 4
    assert step.message.endswith("; and 2 more devices")
