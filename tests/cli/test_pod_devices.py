"""Rows for people and programs, from API objects."""

from __future__ import annotations

from typing import Any

from scheduler.cli.pod_devices import is_shown, pod_rows, preempted_rows, verdict_of
from scheduler.model.pod_claims import claim_names


def _pod(name: str, *, node: str = "", claims: list[dict[str, Any]] | None = None, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"nodeName": node, "resourceClaims": claims or []},
        "status": status,
    }


def _condition(reason: str, message: str) -> list[dict[str, str]]:
    return [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]


CLAIM = {
    "metadata": {"namespace": "ns", "name": "c-1"},
    "status": {
        "allocation": {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}]}}
    },
}


def test_a_bound_pod_shows_its_node_and_the_devices_of_its_claims() -> None:
    pod = _pod("b", node="n1", claims=[{"name": "gpu", "resourceClaimName": "c-1"}])

    assert pod_rows([pod], [CLAIM]) == [
        {
            "namespace": "ns",
            "name": "b",
            "node": "n1",
            "devices": [{"claim": "c-1", "request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}],
        }
    ]


def test_a_claim_from_a_template_is_found_through_the_pods_status() -> None:
    pod = _pod(
        "a",
        claims=[{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "none", "resourceClaimTemplateName": "u"}],
        resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "c-1"}, {"name": "none"}],
    )

    assert list(claim_names(pod)) == ["c-1"]


def test_the_claim_behind_extended_resources_comes_last() -> None:
    pod = _pod(
        "e",
        claims=[{"name": "gpu", "resourceClaimName": "c-0"}],
        extendedResourceClaimStatus={"resourceClaimName": "c-1", "requestMappings": []},
    )

    assert list(claim_names(pod)) == ["c-0", "c-1"]


def test_a_pending_pod_shows_why() -> None:
    pod = _pod("a", conditions=_condition("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu."))

    (row,) = pod_rows([pod], [])

    assert row["node"] is None
    assert row["reason"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert verdict_of(pod)


def test_a_pod_the_scheduler_has_not_judged_is_not_settled() -> None:
    assert not verdict_of(_pod("a"))
    assert verdict_of(_pod("a", node="n1"))


def test_a_claim_of_the_same_name_in_another_namespace_is_another_claim() -> None:
    other = {**CLAIM, "metadata": {"namespace": "elsewhere", "name": "c-1"}}
    (row,) = pod_rows([_pod("a", claims=[{"name": "gpu", "resourceClaimName": "c-1"}])], [other])

    assert row["devices"] == []


def test_gates_errors_waits_and_other_schedulers_are_verdicts() -> None:
    """Nothing will change of itself, so nobody should wait for it."""
    stranger = _pod("s")
    stranger["spec"]["schedulerName"] = "dra-schedulr"

    assert verdict_of(_pod("a", conditions=_condition("SchedulingGated", "gate"))) == "is gated"
    assert verdict_of(_pod("a", conditions=_condition("SchedulerError", "CEL"))) == "failed"
    assert verdict_of(_pod("a", conditions=_condition("Unschedulable", "0/1"))) == "does not fit now"
    assert verdict_of(_pod("a"), [("BindingConditionsPending", "waiting")]) == "waits for its driver"
    assert not verdict_of(_pod("a"), [("BindingConditionsPending", "waiting"), ("BindingConditionsMet", "met")])
    assert verdict_of(stranger) == "nobody schedules it"
    assert "did you mean dra-scheduler?" in pod_rows([stranger], [])[0]["reason"]


def test_pods_of_others_are_shown_while_they_have_no_node() -> None:
    theirs, ours = _pod("t"), _pod("o", node="n")
    theirs["spec"]["schedulerName"] = "default-scheduler"
    ours["spec"]["schedulerName"] = "dra-scheduler"

    assert is_shown(theirs)
    assert is_shown(ours)
    assert not is_shown({**theirs, "spec": {**theirs["spec"], "nodeName": "n"}})
    assert not is_shown({**theirs, "status": {"phase": "Failed"}})


def _preempted(name: str, uid: str, note: str) -> dict[str, Any]:
    about = {"namespace": "default", "name": name, "uid": uid}
    return {"reason": "Preempted", "involvedObject": about, "related": {"namespace": "a", "name": "b"}, "message": note}


def test_a_pod_that_made_room_has_a_row_when_it_is_gone() -> None:
    gone = _preempted("gone", "1", "Preempted by pod u on node n: a/b, which needs its devices d/p/gpu-0")
    there = _preempted("there", "2", "Preempted by pod u on node n: a/b")
    pod = {"metadata": {"namespace": "default", "name": "there", "uid": "2"}}
    assert preempted_rows([there, gone, {"reason": "Scheduled"}], [pod]) == [
        {
            "namespace": "default",
            "name": "gone",
            "node": None,
            "devices": [],
            "reason": "preempted: made room for a/b, which needs its devices d/p/gpu-0",
        }
    ]


def test_while_room_is_made_for_a_pod_nothing_is_said_of_it() -> None:
    waiting = _pod("a", conditions=_condition("Unschedulable", "0/1"))
    waiting["status"]["nominatedNodeName"] = "n1"
    assert not verdict_of(waiting)
