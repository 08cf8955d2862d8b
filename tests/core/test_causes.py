"""After kube-scheduler's sentence a pod is told why it fits no node, and what would let it in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from scheduler.core.reports.cause_search import _Case
from scheduler.core.reports.causes import Causes
from scheduler.core.reports.equal_answers import EqualAnswers
from scheduler.framework.decisions import PatchPodStatus
from scheduler.framework.diagnosis import (
    COMMAND,
    EVENT,
    LENGTH_MAX,
    SEPARATOR,
    cause_of,
    with_cause,
    without_cause,
)
from scheduler.framework.runner import Runner
from scheduler.model.held import Held
from scheduler.model.keys import NodeName
from scheduler.model.objects import OwnerReference
from scheduler.model.owners import edited_object
from scheduler.plugins import default_plugins
from scheduler.why.reasons import Fix, Reason, Whom
from scheduler.why.say import EVERYBODY
from tests import builders
from tests.core.rig import Rig

TAINT = {"key": "example.com/hot", "effect": "NoSchedule"}


def rig_with(*names: str, devices: object = 1, **settings: object) -> Rig:
    """Nodes with devices; causes are reported."""
    rig = Rig(*default_plugins(), **{"reports_causes": True, **settings})
    rig.add_nodes(*names)
    for name in names:
        rig.server.put_slice(builders.resource_slice(f"slice-{name}", node=name, devices=devices))
    rig.server.put_class(builders.device_class())
    return rig


def want(rig: Rig, name: str, *requests: dict, **fields: object) -> None:
    """A pod with a claim of its own."""
    spec = builders.claim_spec_object(*requests)
    rig.server.put_claim(builders.claim(f"{name}-gpu", spec=spec, namespace=str(fields.get("namespace", "default"))))
    rig.add_pod(name, claims=(f"{name}-gpu",), **fields)


def said(rig: Rig, name: str, namespace: str = "default") -> tuple[str, str]:
    """Kube-scheduler's sentence, and the cause."""
    reason, message = rig.condition_of(name, namespace) or ("", "")
    assert reason in ("", "Unschedulable")
    return without_cause(message), cause_of(message)


def failures(rig: Rig) -> list[str]:
    return [event for event in rig.events if event.startswith("FailedScheduling")]


def test_an_event_and_the_condition_say_the_sentence_and_then_the_cause() -> None:
    rig, plain = rig_with("a"), rig_with("a", reports_causes=False)
    for one in (rig, plain):
        one.add_nodes("b", unschedulable=True)
        one.server.put_class(builders.device_class("other", driver="other.example.com"))
        want(one, "p", builders.request_object(device_class="other"))
        one.settle()

    sentence, cause = said(rig, "p")

    assert sentence == said(plain, "p")[0]
    assert said(plain, "p")[1] == ""
    mistaken = "DeviceClass other: no device has the driver other.example.com; drivers: gpu.example.com (1)"
    change = "install the driver other.example.com, or look at its log: it publishes no ResourceSlice"
    assert cause == f"[class-unmatched] {mistaken}; to make it fit: {change}"
    assert failures(rig) == [f"FailedScheduling: {sentence}{SEPARATOR}{cause}"]
    assert len([one for one in rig.decided if isinstance(one, PatchPodStatus)]) == 1


def test_a_change_is_said_when_it_lets_the_pod_in() -> None:
    rig = rig_with("a", devices=2)
    want(rig, "p", builders.request_object(count=3))
    rig.settle()
    assert said(rig, "p")[1].endswith(
        "; to make it fit: ask for 2 devices instead of 3 in request gpu of ResourceClaim default/p-gpu"
    )


def test_a_change_that_does_not_suffice_is_not_said() -> None:
    rig = rig_with("a")
    want(rig, "p", builders.request_object(count=2), requests={"cpu": "100"})
    rig.server.put_node(builders.node("a", unschedulable=True))
    rig.settle()
    assert said(rig, "p")[1] == "[node-cordoned] node a is cordoned"


def test_who_holds_the_device_is_said_and_may_go() -> None:
    rig = rig_with("a")
    want(rig, "first")
    rig.settle()
    assert rig.node_of("first") == "a"
    want(rig, "second", preemptionPolicy="Never")
    rig.settle()
    cause = said(rig, "second")[1]
    assert "in use by ResourceClaim default/first-gpu (pod default/first (priority 0))" in cause
    assert "end pod default/first" in cause


def test_pods_and_claims_of_other_namespaces_are_not_named() -> None:
    """Who may read a pod's events may not read what other namespaces run."""
    rig = rig_with("a")
    want(rig, "secret-project", namespace="others")
    rig.add_pod("big-secret", namespace="others", requests={"cpu": "7"})
    rig.settle()
    want(rig, "second", preemptionPolicy="Never")
    rig.add_pod("large", requests={"cpu": "8"}, preemptionPolicy="Never")
    rig.settle()
    in_use, no_room = said(rig, "second")[1], said(rig, "large")[1]
    assert "gpu-0 is in use by a pod of another namespace (priority 0); to make it fit: free device" in in_use
    assert "free, and pod default/large asks for 8" in no_room
    assert not any("secret" in text or "others" in text for text in (*rig.events, in_use, no_room) if "Failed" in text)
    assert "secret" not in in_use + no_room


def test_nothing_that_is_supposed_stays() -> None:
    rig = rig_with("a")
    want(rig, "first")
    rig.settle()
    want(rig, "second")
    rig.settle()
    before = rig.machine.store.node_infos["a"].generation
    rig.wait(1_000)
    assert rig.node_of("second") is None
    assert rig.machine.store.node_infos["a"].generation == before
    rig.machine.check_invariants()


def test_a_pod_is_told_once_however_often_it_is_tried() -> None:
    rig = rig_with("a")
    want(rig, "p", builders.request_object(count=3))
    rig.settle()
    events = len(failures(rig))
    for number in range(3):
        rig.server.put_slice(builders.resource_slice("slice-a", node="a", generation=number + 2, devices=1))
        rig.wait(20_000)
    assert len(set(failures(rig))) == 1
    assert len(failures(rig)) >= events + 1
    assert len([one for one in rig.decided if isinstance(one, PatchPodStatus)]) == 1


def test_another_cause_is_told() -> None:
    rig = rig_with("a")
    want(rig, "p", builders.request_object(count=2))
    rig.settle()
    tainted = tuple(builders.device_object(f"gpu-{number}") | {"taints": [TAINT]} for number in range(2))
    rig.server.put_slice(builders.resource_slice("slice-a", node="a", generation=2, devices=tainted))
    rig.wait(30_000)
    cause = said(rig, "p")[1]
    assert "the taint example.com/hot:NoSchedule" in cause
    assert "to make it fit: add the toleration {key: example.com/hot, operator: Exists, effect: NoSchedule}" in cause


@pytest.mark.slow
def test_many_pods_that_are_tried_again_and_again_are_looked_at_now_and_then(monkeypatch) -> None:
    """Thousands of them would take the time of others for an answer that hardly changes."""
    looks: list[str] = []
    found = Causes._found
    monkeypatch.setattr(Causes, "_found", lambda self, one: looks.append(one.queued.namespace) or found(self, one))
    rig = rig_with("a", "b")
    for number in range(200):  # no two alike, of which one would be tried for both
        want(rig, f"p{number}", builders.request_object(count=3, selector=f"{number} >= 0"))
    want(rig, "q", builders.request_object(count=2), namespace="other")
    rig.settle(rounds=2_000)
    rig.wait(5_000)
    told = len(looks)
    assert all(said(rig, f"p{number}")[1] for number in range(200))

    begin_ms = rig.now_ms
    for generation in range(2, 8):
        rig.server.put_slice(builders.resource_slice("slice-b", node="b", generation=generation, devices=1))
        rig.wait(20_000)
    again = looks[told:].count("default")
    assert 100 < again <= 100 + 1 + (rig.now_ms - begin_ms) // 500

    rig.server.put_slice(builders.resource_slice("slice-b", node="b", generation=9, devices=0))
    looks.clear()
    rig.wait(20_000)
    assert "other" in looks, "who is alone in a namespace is looked at each time"


def test_pods_that_can_be_tried_come_first_and_the_sentence_does_not_wait() -> None:
    rig = rig_with("a", cycles_per_tick=1)
    for number in range(3):
        want(rig, f"p{number}", builders.request_object(count=3))
    rig.watch()
    for number in range(2):
        rig.tick()
        rig.execute(watch=False)
        assert said(rig, f"p{number}") == (said(rig, f"p{number}")[0], "")
        assert said(rig, f"p{number}")[0]
    rig.wait(1_000)
    for number in range(3):
        assert (
            f"ask for 1 device instead of 3 in request gpu of ResourceClaim default/p{number}-gpu"
            in (said(rig, f"p{number}")[1])
        )


def test_a_few_steps_at_a_time_come_to_an_end_too() -> None:
    rig = rig_with("a", "b", "c", search_steps_per_turn=1)
    for number in range(4):
        want(rig, f"p{number}", builders.request_object(count=3), namespace=f"ns-{number % 2}")
    rig.settle()
    assert [bool(said(rig, f"p{number}", f"ns-{number % 2}")[1]) for number in range(4)].count(True) < 4
    rig.wait(5_000)
    assert all(said(rig, f"p{number}", f"ns-{number % 2}")[1] for number in range(4))
    assert rig.machine.causes.next_deadline_ms() is None


def test_namespaces_take_turns() -> None:
    rig = rig_with("a", search_steps_per_turn=1)
    for number in range(6):
        want(rig, f"many{number}", builders.request_object(count=3), namespace="many")
    want(rig, "one", builders.request_object(count=3), namespace="few")
    rig.settle()
    while not said(rig, "one", "few")[1]:
        rig.wait(10)
    told = [number for number in range(6) if said(rig, f"many{number}", "many")[1]]
    assert len(told) <= 2


def test_a_restart_says_nothing_new() -> None:
    """Also where others are to be tried first, so that the sentence is reported before its cause is known."""
    rig = rig_with("a")
    for name in ("p", "q", "r"):
        want(rig, name, builders.request_object(count=3))
    rig.wait(1_000)
    again = rig_with(cycles_per_tick=1)
    again.server = rig.server
    for observed in rig.server.list_all():
        again.tell(observed)
    again.wait(1_000)
    assert said(again, "p")[1]
    assert failures(again)
    assert not [one for one in again.decided if isinstance(one, PatchPodStatus)]


def test_a_pod_that_is_gone_is_forgotten() -> None:
    rig = rig_with("a", search_steps_per_turn=1)
    for number in range(3):
        want(rig, f"p{number}", builders.request_object(count=3))
    rig.settle()
    while not said(rig, "p0")[1]:
        rig.wait(10)
    assert not said(rig, "p2")[1]
    for number in range(3):
        rig.server.delete_pod(builders.pod(f"p{number}").key)
    rig.wait(1_000)
    assert rig.machine.causes.next_deadline_ms() is None
    assert not rig.machine.causes.remembered


@pytest.mark.parametrize("sentence", ["0/1 nodes are available.", "x" * 900, "ü" * 2_000])
@pytest.mark.parametrize("cause", ["", "short", "ä" * 3_000])
def test_a_message_is_as_long_as_an_event_may_be_and_keeps_its_sentence(sentence: str, cause: str) -> None:
    message = with_cause(sentence, cause)
    assert without_cause(message) == sentence
    assert cause_of(message) in (cause, cause_of(message)[:-1] + "…")
    assert bool(cause_of(message)) == bool(cause)
    if len(sentence.encode()) < LENGTH_MAX - 250:
        assert len(message.encode()) <= LENGTH_MAX


DEVICES = st.lists(st.tuples(st.sampled_from(["A", "B"]), st.booleans()), min_size=1, max_size=3)


@settings(max_examples=40)
@given(
    nodes=st.lists(st.tuples(DEVICES, st.booleans(), st.booleans()), min_size=1, max_size=2),
    count=st.integers(1, 3),
    selector=st.sampled_from(["", "device.attributes['gpu.example.com'].model == 'A'"]),
    is_same=st.booleans(),
    cpu=st.sampled_from(["1", "9"]),
)
def test_a_change_that_is_said_binds_the_pod_once_it_is_made(nodes, count, selector, is_same, cpu) -> None:
    """Whatever is asked for; and where the pod is bound at once, nothing is said."""
    constraint = ({"requests": ["gpu"], "matchAttribute": "gpu.example.com/model"},) if is_same else ()
    spec = builders.claim_spec_object(builders.request_object(count=count, selector=selector), constraints=constraint)
    claim, pod = builders.claim("c", spec=spec), builders.pod("p", claims=("c",), requests={"cpu": cpu})

    def world() -> Rig:
        rig = rig_with(cycles_per_tick=1)
        for number, (devices, is_cordoned, is_tainted) in enumerate(nodes):
            name, taints = (
                f"node-{number}",
                ({"key": "example.com/kept", "effect": "NoSchedule"},) if is_tainted else (),
            )
            rig.server.put_node(builders.node(name, unschedulable=is_cordoned, taints=taints))
            published = [
                builders.device_object(f"gpu-{at}", model=model) | ({"taints": [TAINT]} if is_hot else {})
                for at, (model, is_hot) in enumerate(devices)
            ]
            rig.server.put_slice(builders.resource_slice(f"slice-{name}", node=name, devices=tuple(published)))
        return rig

    before = world()
    before.server.put_claim(claim)
    before.server.put_pod(pod)
    helpful: list[Fix] = []
    search = before.machine.causes._search
    helped = search._helped

    def noted(case: object, change: Fix) -> Fix | None:
        found = helped(case, change)
        helpful.extend([found] if found else [])
        return found

    search._helped = noted
    before.wait(1_000)

    assert bool(said(before, "p")[1]) == (before.node_of("p") is None)
    assert ("; to make it fit: " in said(before, "p")[1]) == bool(helpful)
    for change in helpful[:1]:
        after = world()
        after.server.put_claim(change.claims[0] if change.claims else claim)
        after.server.put_pod(change.pod or pod)
        if change.node is not None:
            after.server.put_node(change.node)
        after.wait(1_000)
        assert after.node_of("p") is not None


@pytest.mark.parametrize("ticks", range(3))
def test_a_change_that_is_overtaken_by_another_harms_nobody(ticks: int) -> None:
    """The holder of the device goes between finding that it holds it, and asking as if it had gone."""
    rig = rig_with("a", search_steps_per_turn=1)
    want(rig, "first")
    rig.settle()
    want(rig, "second", preemptionPolicy="Never")
    rig.settle()
    for _ in range(ticks):
        rig.tick(10)
    holder = next(pod for key, pod in rig.server.pods.items() if key.name == "first")
    rig.server.delete_pod(holder.key)
    (claim,) = [one for one in rig.server.claims.values() if one.key.name == "first-gpu"]
    rig.server.put_claim(replace(claim, allocation=None, reserved_for=()))
    rig.watch()
    rig.wait(20_000)
    assert rig.node_of("second") == "a"


def test_what_was_given_back_meanwhile_is_not_supposed_to_be() -> None:
    rig = rig_with("a")
    want(rig, "first")
    rig.settle()
    want(rig, "second", preemptionPolicy="Never")
    rig.settle()
    pods = {key.name: pod for key, pod in rig.server.pods.items()}
    (claim,) = [one for one in rig.server.claims.values() if one.key.name == "first-gpu"]
    runner = rig.machine.runners[builders.SCHEDULER]
    (held,) = rig.machine.overlay.counted[claim.uid]
    given_back = (Held(claim.key, claim.uid, held),)
    change = Fix("end-holders", {}, (NodeName("a"),), removed=(pods["first"].uid,), released=given_back)
    case, search = _Case(runner, pods["second"], EVENT), rig.machine.causes._search
    assert search._helped(case, change)
    rig.server.put_claim(replace(claim, allocation=None, reserved_for=()))
    rig.watch()
    assert not search._helped(case, change)


def test_the_condition_of_a_pod_that_waits_follows_what_is_true_now_and_its_events_do_not() -> None:
    """Which device is in use, by whom, changes all the time; who reads the pod's status reads it as it is."""
    rig = rig_with("a")
    want(rig, "p", builders.request_object(count=5))
    rig.settle()
    first = failures(rig)[-1]
    assert "ask for 1 device instead of 5" in said(rig, "p")[1]
    for generation, devices in enumerate((2, 3, 3), 2):
        rig.server.put_slice(builders.resource_slice("slice-a", node="a", generation=generation, devices=devices))
        rig.wait(20_000)
        assert f"ask for {devices} devices instead of 5" in said(rig, "p")[1]
    assert set(failures(rig)) == {first}
    assert len([one for one in rig.decided if isinstance(one, PatchPodStatus)]) == 3, "where it says the same, no write"
    rig.server.put_slice(builders.resource_slice("slice-a", node="a", generation=9, devices=4))
    rig.wait(400_000)
    assert "ask for 4 devices instead of 5" in failures(rig)[-1]


def test_ending_a_pod_frees_its_devices_too() -> None:
    """Who ends it frees both, so it is one change; cpu is what the node lacks, and the device is in use, too."""
    rig = rig_with("a")
    want(rig, "first", requests={"cpu": "7"})
    rig.settle()
    want(rig, "second", requests={"cpu": "8"}, preemptionPolicy="Never")
    rig.settle()
    assert said(rig, "second")[1].endswith("; to make it fit: end pod default/first (priority 0) on node a")


@pytest.mark.parametrize("is_important", [True, False])
def test_what_harms_others_comes_after_all_that_does_not(monkeypatch, is_important: bool) -> None:
    """Whatever their sizes: a larger change of the pod's own comes before a smaller one of somebody else's object."""
    rig = rig_with("a")
    want(rig, "important", priority=1_000)
    rig.settle()
    (important,) = [pod.uid for pod in rig.server.pods.values()]
    whom, removed = (Whom.OWN, (important,)) if is_important else (Whom.OTHERS, ())
    theirs = Fix("namespace-label", {"command": "theirs"}, (NodeName("a"),), whom=whom, removed=removed)
    ours = Fix("class-resource", {"command": "ours"}, (NodeName("a"),))
    reason = Reason("devices-short", {"node": "a", "counts": "it is so"}, "counts", (theirs, ours))
    monkeypatch.setattr(Runner, "diagnose", lambda *_: (reason,))
    want(rig, "p", builders.request_object(count=2), priority=10, preemptionPolicy="Never")
    rig.settle()
    (asked,) = rig.machine.queue.all()
    monkeypatch.setattr(EqualAnswers, "of", lambda *_: None)  # the same pod is asked about twice
    for helping in (("ours", "theirs"), ("theirs",)):
        rig.machine.causes._search._helped = lambda _, change, texts=helping: (
            change if change.text(EVERYBODY) in texts else None
        )
        why, _ = rig.machine.causes.why(asked.uid, COMMAND)
        assert tuple(one.text(EVERYBODY) for one in (*why.fixes, *why.also)) == helping


@pytest.mark.parametrize(
    ("owner", "labels", "name"),
    [
        (None, None, "pod default/p"),
        (("DaemonSet", "agents"), None, "daemonset default/agents"),
        (("Job", "train"), None, "job default/train"),
        (("ReplicaSet", "web-5d4f8"), {"pod-template-hash": "5d4f8"}, "deployment default/web"),
        (("ReplicaSet", "web"), None, "replicaset default/web"),
    ],
)
def test_what_is_edited_is_what_makes_such_pods(owner, labels, name: str) -> None:
    owners = [] if owner is None else [OwnerReference(*owner, uid="uid-1", controller=True)]
    pod = builders.pod("p")
    metadata = structs.replace(pod.metadata, labels=labels, owner_references=tuple(owners))
    assert edited_object(structs.replace(pod, metadata=metadata)) == name
