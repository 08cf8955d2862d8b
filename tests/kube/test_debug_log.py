"""`--log-level debug`: a line for each attempt, decision and answer, and no work when it is off."""

from __future__ import annotations

import json
import logging

from scheduler.cli.run import JsonFormatter
from scheduler.core.ground.inputs import WriteAccepted, WriteConflicted, WriteOutcomeUnknown, WriteRejected
from scheduler.debug_log import DebugLog, describe
from scheduler.framework.decisions import BindPod, PatchPodStatus, ReadClaim, RecordEvent, WriteClaimStatus, WriteId
from scheduler.model.api_rules import FINALIZER
from scheduler.model.claim import Consumer
from scheduler.model.keys import ClaimKey, ClaimUid, NodeName, PodKey, PodUid
from tests import builders
from tests.core.plugins import TinyDevices
from tests.core.rig import Rig

POD = PodKey("default", "p")
CLAIM = ClaimKey("default", "c")


def test_decisions_in_a_line():
    gpu = builders.allocation("gpu-0", "gpu-1", pool="n")
    me = (Consumer("pods", "p", PodUid("u")),)
    write = WriteClaimStatus(CLAIM, ClaimUid("u"), 7, allocation=gpu, reserved_for=me, id=WriteId(3))
    assert [
        describe(one)
        for one in (
            write,
            WriteClaimStatus(CLAIM, ClaimUid("u"), 7, clear_allocation=True, id=WriteId(4)),
            WriteClaimStatus(CLAIM, ClaimUid("u"), 7, reserved_for=(), id=WriteId(5)),
            BindPod(POD, PodUid("u"), NodeName("n"), id=WriteId(6)),
            PatchPodStatus(POD, PodUid("u"), "Unschedulable", "no node", "", id=WriteId(7)),
            ReadClaim(CLAIM, ClaimUid("u"), id=WriteId(8)),
            RecordEvent("Pod", "default", "p", "u", "Normal", "Scheduled", "Binding", "to n"),
        )
    ] == [
        "#3 WriteClaimStatus default/c at revision 7: allocates gpu.example.com/n/gpu-0, gpu.example.com/n/gpu-1, "
        "reserved for p",
        "#4 WriteClaimStatus default/c at revision 7: takes the allocation back",
        "#5 WriteClaimStatus default/c at revision 7: reserved for nobody",
        "#6 BindPod default/p to node n",
        "#7 PatchPodStatus default/p: Unschedulable: no node, nominated node none",
        "#8 ReadClaim default/c",
        "event Scheduled about Pod default/p: to n",
    ]


def test_a_log_in_json_says_which_pod_claim_and_cycle_it_is_about():
    rig = Rig(TinyDevices(count=1), takes_notes=True)
    rig.add_nodes("a")
    for name in ("p", "q"):
        rig.server.put_claim(builders.claim(name, finalizers=(FINALIZER,)))
        rig.add_pod(name, claims=(name,))
    rig.settle()
    lines = []
    handler = logging.Handler(logging.DEBUG)
    handler.emit = lambda record: lines.append(json.loads(JsonFormatter().format(record)))
    logger = logging.getLogger("scheduler.debug_log")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        debug_log = DebugLog()
        debug_log.attempts(rig.machine.outbox.notes)
        debug_log.decisions([BindPod(POD, PodUid("u"), NodeName("n"), id=WriteId(6)), ReadClaim(CLAIM, ClaimUid("u"))])
        debug_log.answer(WriteAccepted(WriteId(6)))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    about = [{name: line[name] for name in ("pod", "claim", "cycle", "decision") if name in line} for line in lines]
    assert about == [
        {"pod": "default/p", "cycle": 1},
        {"pod": "default/q", "cycle": 2},
        {"pod": "default/p", "decision": 6},
        {"claim": "default/c", "decision": 0},
        {"decision": 6},
    ]


def test_answers_in_a_line(caplog):
    caplog.set_level(logging.DEBUG)
    for answer in (
        WriteAccepted(WriteId(1)),
        WriteConflicted(WriteId(2), "changed"),
        WriteRejected(WriteId(3), 422, "Invalid", "no"),
        WriteOutcomeUnknown(WriteId(4), "HTTP 500"),
    ):
        DebugLog().answer(answer)
    assert caplog.messages == [
        "#1 accepted",
        "#2 conflict: changed",
        "#3 rejected: 422 Invalid: no",
        "#4 outcome unknown: HTTP 500",
    ]


def attempts(**settings) -> list[str]:
    rig = Rig(TinyDevices(count=1), **settings)
    rig.add_nodes("a")
    for name in ("p", "q"):
        rig.server.put_claim(builders.claim(name, finalizers=(FINALIZER,)))
        rig.add_pod(name, claims=(name,))
    rig.settle()
    rig.add_pod("r", claims=("missing",))
    rig.settle()
    return [f"pod {note.pod}: {note.text}" for note in rig.machine.outbox.notes]


def test_the_core_notes_attempts_when_asked():
    notes = attempts(takes_notes=True)
    assert notes[:2] == [
        "pod default/p: node a, devices gpu.example.com/a/gpu-0 for claim default/p",
        "pod default/q: unschedulable, waits for a change (TinyDevices): 0/1 nodes are available: "
        "1 cannot allocate all claims.",
    ]


def test_the_core_notes_nothing_otherwise():
    assert attempts() == []
