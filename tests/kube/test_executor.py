"""Decisions to requests, replies to inputs: bodies, classification, order, bounds, stopping."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest

from allocator import Allocation, DeviceResult
from scheduler.core.ground.inputs import WriteAccepted, WriteConflicted, WriteOutcomeUnknown, WriteRejected
from scheduler.framework.decisions import (
    AddClaimFinalizer,
    BindPersistentVolume,
    BindPod,
    CreateClaim,
    DeleteClaim,
    DeletePod,
    PatchExtendedResources,
    PatchNodeAllocatable,
    PatchPodDisruption,
    PatchPodStatus,
    ReadClaim,
    ReadPod,
    RecordEvent,
    RemoveClaimFinalizer,
    SelectNode,
    WriteClaimStatus,
    WriteId,
)
from scheduler.kube.api_requests import ApiClient, Timeouts
from scheduler.kube.clock import Clock
from scheduler.kube.codec import Codec
from scheduler.kube.credentials import Connection
from scheduler.kube.decision_requests import encode_decision
from scheduler.kube.event_records import EventSeries
from scheduler.kube.exact_claims import ExactClaim
from scheduler.kube.executor import Executor
from scheduler.model.api_rules import FINALIZER
from scheduler.model.claim import Consumer
from scheduler.model.keys import ClaimKey, PodKey, VolumeClaimKey
from scheduler.model.objects import ContainerExtendedResource, ExtendedResourceClaimStatus, NodeAllocatableClaim
from scheduler.model.protobuf_wire import PROTOBUF
from scheduler.model.special_claim import DeviceCount
from scheduler.model.storage import SELECTED_NODE
from tests import builders, storage_builders
from tests.kube.claim_bytes import protobuf_claim
from tests.kube.misbehaving import SERVER, Pauses, Reports, Told, drop, hang, misbehaving, pod, reply, status

CLAIM = ClaimKey("default", "c")
POD = PodKey("default", "a")
ALLOCATION = Allocation(results=(DeviceResult("gpu", "gpu.example.com", "node-1", "gpu-0"),))
CLAIM_OBJECT = {
    "metadata": {"name": "c", "namespace": "default", "uid": "uid-c", "resourceVersion": "8"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "x"}}]}},
}
FINALIZE = AddClaimFinalizer(CLAIM, "uid-c", 7, (FINALIZER,), WriteId(1))
ALLOCATE = WriteClaimStatus(
    CLAIM,
    "uid-c",
    7,
    allocation=ALLOCATION,
    reserved_for=(Consumer("pods", "a", "uid-a"),),
    allocation_timestamp_ms=1_767_323_045_678,
    id=WriteId(2),
)
BIND = BindPod(POD, "uid-a", "node-1", id=WriteId(3))
READ_CLAIM = ReadClaim(CLAIM, "u", WriteId(4))
READ_POD = ReadPod(POD, "u", WriteId(5))
CREATE = CreateClaim(CLAIM, "p", POD, "uid-a", (DeviceCount("container-0-request-1", "gpus", 2),), id=WriteId(7))
MAPPING_FIELDS = ("containerName", "resourceName", "requestName")
MAPPING_TEXTS = ("main", "example.com/gpu", "container-0-request-1")
MAPPING = ContainerExtendedResource(*MAPPING_TEXTS)
TAKEN = PatchNodeAllocatable(POD, "uid-a", 7, (NodeAllocatableClaim("c", ("main",), {"cpu": "2"}),), WriteId(9))
NOTE = PatchExtendedResources(POD, "uid-a", 7, ExtendedResourceClaimStatus("c", (MAPPING,)), WriteId(8))
VOLUME_CLAIM = VolumeClaimKey("default", "c")
PROMISE = BindPersistentVolume(
    *("pv", "uid-pv", 7, VOLUME_CLAIM, "uid-c", 5), (("pv.kubernetes.io/bound-by-controller", "yes"),), WriteId(10)
)
SELECT = SelectNode(VOLUME_CLAIM, "uid-c", 7, "node-1", WriteId(11))
UNSCHEDULABLE = PatchPodStatus(POD, "uid-a", "Unschedulable", "0/1 nodes are available", id=WriteId(6))
BINDING_REFUSED = (
    "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires "
    'resource="resourceclaims/binding", verb="patch" permission'
)

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.mark.parametrize(
    ("decision", "method", "path", "content_type", "body"),
    [
        pytest.param(
            FINALIZE,
            "PATCH",
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c",
            MERGE,
            {"metadata": {"uid": "uid-c", "resourceVersion": "7", "finalizers": [FINALIZER]}},
            id="finalizer",
        ),
        pytest.param(
            ALLOCATE,
            "PATCH",
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status",
            MERGE,
            {
                "metadata": {"uid": "uid-c", "resourceVersion": "7"},
                "status": {
                    "allocation": {
                        "devices": {
                            "results": [
                                {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
                            ]
                        },
                        "allocationTimestamp": "2026-01-02T03:04:05Z",
                    },
                    "reservedFor": [{"resource": "pods", "name": "a", "uid": "uid-a"}],
                },
            },
            id="allocation",
        ),
        pytest.param(
            PROMISE,
            "PATCH",
            "/api/v1/persistentvolumes/pv",
            MERGE,
            {
                "metadata": {
                    "uid": "uid-pv",
                    "resourceVersion": "7",
                    "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
                },
                "spec": {
                    "claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "namespace": "default",
                        "name": "c",
                        "uid": "uid-c",
                        "resourceVersion": "5",
                    }
                },
            },
            id="volume",
        ),
        pytest.param(
            SELECT,
            "PATCH",
            "/api/v1/namespaces/default/persistentvolumeclaims/c",
            MERGE,
            {
                "metadata": {
                    "uid": "uid-c",
                    "resourceVersion": "7",
                    "annotations": {"volume.kubernetes.io/selected-node": "node-1"},
                }
            },
            id="selected-node",
        ),
        pytest.param(
            WriteClaimStatus(CLAIM, "uid-c", 7, reserved_for=()),
            "PATCH",
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status",
            MERGE,
            {"metadata": {"uid": "uid-c", "resourceVersion": "7"}, "status": {"reservedFor": None}},
            id="last-reservation-goes",
        ),
        pytest.param(
            WriteClaimStatus(CLAIM, "uid-c", 7, clear_allocation=True),
            "PATCH",
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status",
            MERGE,
            {
                "metadata": {"uid": "uid-c", "resourceVersion": "7"},
                "status": {"allocation": None, "reservedFor": None, "devices": None},
            },
            id="de-allocation",
        ),
        pytest.param(
            BIND,
            "POST",
            "/api/v1/namespaces/default/pods/a/binding",
            "application/json",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"namespace": "default", "name": "a", "uid": "uid-a"},
                "target": {"kind": "Node", "name": "node-1"},
            },
            id="binding",
        ),
        pytest.param(
            BindPod(POD, "uid-a", "node-1", expect_revision=12),
            "POST",
            "/api/v1/namespaces/default/pods/a/binding",
            "application/json",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"namespace": "default", "name": "a", "uid": "uid-a", "resourceVersion": "12"},
                "target": {"kind": "Node", "name": "node-1"},
            },
            id="binding-of-a-revision",
        ),
        pytest.param(
            UNSCHEDULABLE,
            "PATCH",
            "/api/v1/namespaces/default/pods/a/status",
            STRATEGIC,
            {
                "metadata": {"uid": "uid-a"},
                "status": {
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "0/1 nodes are available",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                        }
                    ]
                },
            },
            id="condition",
        ),
        pytest.param(
            PatchPodStatus(POD, "uid-a", "Unschedulable", "no", nominated_node=""),
            "PATCH",
            "/api/v1/namespaces/default/pods/a/status",
            STRATEGIC,
            {
                "metadata": {"uid": "uid-a"},
                "status": {
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "no",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                        }
                    ],
                    "nominatedNodeName": None,
                },
            },
            id="nomination-cleared",
        ),
        pytest.param(
            PatchPodStatus(
                POD, "uid-a", "SchedulerError", "no", expect_revision=7, fence_ms=1_767_323_046_000, id=WriteId(6)
            ),
            "PATCH",
            "/api/v1/namespaces/default/pods/a/status",
            STRATEGIC,
            {
                "metadata": {"uid": "uid-a", "resourceVersion": "7"},
                "status": {
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "SchedulerError",
                            "message": "no",
                            "lastProbeTime": "2026-01-02T03:04:06Z",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                        }
                    ]
                },
            },
            id="fence",
        ),
        pytest.param(
            PatchPodStatus(POD, "uid-a", "", "", nominated_node=""),
            "PATCH",
            "/api/v1/namespaces/default/pods/a/status",
            STRATEGIC,
            {"metadata": {"uid": "uid-a"}, "status": {"nominatedNodeName": None}},
            id="nomination-cleared-and-nothing-else",
        ),
        pytest.param(
            PatchPodDisruption(POD, "uid-a", "dra-scheduler: preempting", generation=3),
            "PATCH",
            "/api/v1/namespaces/default/pods/a/status",
            STRATEGIC,
            {
                "metadata": {"uid": "uid-a"},
                "status": {
                    "conditions": [
                        {
                            "type": "DisruptionTarget",
                            "status": "True",
                            "reason": "PreemptionByScheduler",
                            "message": "dra-scheduler: preempting",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                            "observedGeneration": 3,
                        }
                    ]
                },
            },
            id="disruption",
        ),
        pytest.param(
            DeletePod(POD, "uid-a"),
            "DELETE",
            "/api/v1/namespaces/default/pods/a",
            "application/json",
            {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "uid-a"}},
            id="deletion-of-exactly-this-pod",
        ),
        pytest.param(
            READ_CLAIM,
            "GET",
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c",
            "application/json",
            None,
            id="read-claim",
        ),
        pytest.param(READ_POD, "GET", "/api/v1/namespaces/default/pods/a", "application/json", None, id="read-pod"),
        pytest.param(
            CREATE,
            "POST",
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
            "application/json",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {
                    "namespace": "default",
                    "name": "c",
                    "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                    "finalizers": [FINALIZER],
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "uid-a", "controller": True}
                    ],
                },
                "spec": {
                    "devices": {
                        "requests": [
                            {
                                "name": "container-0-request-1",
                                "exactly": {"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": 2},
                            }
                        ]
                    }
                },
            },
            id="special-claim",
        ),
        pytest.param(
            RemoveClaimFinalizer(CLAIM, "uid-c", 7, ("other",)),
            "PATCH",
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c",
            MERGE,
            {"metadata": {"uid": "uid-c", "resourceVersion": "7", "finalizers": ["other"]}},
            id="finalizer-goes",
        ),
        pytest.param(
            DeleteClaim(CLAIM, "uid-c", 7),
            "DELETE",
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c",
            "application/json",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "uid-c", "resourceVersion": "7"},
            },
            id="deletion",
        ),
        pytest.param(
            NOTE,
            "PATCH",
            "/api/v1/namespaces/default/pods/a/status",
            STRATEGIC,
            {
                "metadata": {"uid": "uid-a", "resourceVersion": "7"},
                "status": {
                    "extendedResourceClaimStatus": {
                        "resourceClaimName": "c",
                        "requestMappings": [
                            {
                                "containerName": "main",
                                "resourceName": "example.com/gpu",
                                "requestName": "container-0-request-1",
                            }
                        ],
                    }
                },
            },
            id="extended-resources",
        ),
        pytest.param(
            PatchExtendedResources(POD, "uid-a", 7, None),
            "PATCH",
            "/api/v1/namespaces/default/pods/a/status",
            STRATEGIC,
            {
                "metadata": {"uid": "uid-a", "resourceVersion": "7"},
                "status": {"extendedResourceClaimStatus": None},
            },
            id="extended-resources-taken-back",
        ),
        pytest.param(
            TAKEN,
            "PATCH",
            "/api/v1/namespaces/default/pods/a/status",
            MERGE,
            {
                "metadata": {"uid": "uid-a", "resourceVersion": "7"},
                "status": {
                    "nodeAllocatableResourceClaimStatuses": [
                        {"resourceClaimName": "c", "containers": ["main"], "resources": {"cpu": "2"}}
                    ]
                },
            },
            id="node-allocatable",
        ),
        pytest.param(
            PatchNodeAllocatable(POD, "uid-a", 7, ()),
            "PATCH",
            "/api/v1/namespaces/default/pods/a/status",
            MERGE,
            {
                "metadata": {"uid": "uid-a", "resourceVersion": "7"},
                "status": {"nodeAllocatableResourceClaimStatuses": []},
            },
            id="node-allocatable-taken-back",
        ),
    ],
)
def test_request_of_each_decision(decision, method, path, content_type, body):
    request = encode_decision(decision, now_ms=1_767_225_600_000)

    assert (request.method, request.path, request.content_type) == (method, path, content_type)
    assert (json.loads(request.body) if request.body else None) == body


def test_condition_of_a_pod_that_stays_unschedulable_keeps_its_transition_time():
    request = encode_decision(UNSCHEDULABLE, now_ms=0, is_transition=False)

    assert "lastTransitionTime" not in json.loads(request.body)["status"]["conditions"][0]


class Running:
    def __init__(self, executor, told, reports, stack) -> None:
        self.executor, self.told, self.reports, self._stack = executor, told, reports, stack

    async def answers(self, *decisions):
        self.executor.submit(decisions)
        await self.told.until(lambda inputs: len(inputs) == len(decisions))
        return self.told.inputs

    async def stop(self):
        await self._stack.aclose()


@asynccontextmanager
async def executing(server, *, in_flight_max=4, drain_s=0.05, timeouts=None, events=None, url=""):
    told, reports = Told(), Reports()
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as outer:
        client = await outer.enter_async_context(
            ApiClient(await Connection(url=url or server.url).open(), timeouts=timeouts or Timeouts(), pause=Pauses())
        )
        inner = await outer.enter_async_context(AsyncExitStack())
        executor = await inner.enter_async_context(
            Executor(
                client,
                Codec(),
                Clock(loop.time),
                told.one,
                reports,
                events=EventSeries(["dra-scheduler"], "test") if events is None else events,
                in_flight_max=in_flight_max,
                drain_s=drain_s,
            )
        )
        yield Running(executor, told, reports, inner)


async def test_accepted_claim_write_carries_the_claim_as_the_server_answered():
    async with misbehaving(reply(CLAIM_OBJECT)) as server, executing(server) as running:
        (answer,) = await running.answers(ALLOCATE)

        assert isinstance(answer, WriteAccepted)
        assert answer.id == ALLOCATE.id
        assert answer.claim.revision == 8


async def test_accepted_claim_write_with_an_unreadable_reply_is_accepted():
    async with misbehaving(reply(b"<html>")) as server, executing(server) as running:
        assert await running.answers(ALLOCATE) == [WriteAccepted(ALLOCATE.id)]
        assert running.reports.broken[0][:2] == ("ResourceClaim", "default/c")


@pytest.mark.parametrize(
    ("decision", "answered"),
    [
        (PROMISE, storage_builders.volume_object("pv", claim="default/c", claim_uid="uid-c", revision=8)),
        (SELECT, storage_builders.volume_claim_object("c", revision=8, annotations={SELECTED_NODE: "node-1"})),
    ],
    ids=["volume", "claim"],
)
async def test_accepted_volume_write_carries_the_object_as_the_server_answered(decision, answered):
    async with misbehaving(reply(answered), reply({"metadata": {}})) as server, executing(server) as running:
        answer, unread = await running.answers(decision, decision)
        assert isinstance(answer, WriteAccepted)
        assert answer.volume.revision == 8
        assert unread == WriteAccepted(decision.id)
        assert running.reports.broken[0][0] == type(answer.volume).__name__


@pytest.mark.parametrize("decision", [PROMISE, SELECT], ids=["volume", "claim"])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (status(409, "Conflict", "modified"), WriteConflicted),
        (status(404, "NotFound", "gone"), WriteRejected),
        (status(422, "Invalid", "spec: Invalid value: immutable"), WriteRejected),
        (status(500, "InternalError", "broken"), WriteOutcomeUnknown),
        (drop(), WriteOutcomeUnknown),
    ],
)
async def test_outcomes_of_volume_writes(decision, answer, expected):
    async with misbehaving(answer) as server, executing(server) as running:
        (answered,) = await running.answers(decision)
        assert type(answered) is expected
        assert len(server.asked) == 1


async def test_fields_that_an_accepted_allocation_lost_are_reported_with_an_event_on_the_claim():
    share = DeviceResult("gpu", "gpu.example.com", "node-1", "gpu-0", share_id="s", binding_conditions=("ready",))
    stored = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    answer = {**CLAIM_OBJECT, "status": {"allocation": {"devices": {"results": [stored]}}}}
    async with misbehaving(reply(answer), reply({}, 201)) as server, executing(server) as running:
        (accepted,) = await running.answers(msgspec.structs.replace(ALLOCATE, allocation=Allocation(results=(share,))))
        await server.asked_for(2)

        assert isinstance(accepted, WriteAccepted)
        lost = (
            "bindingConditions (feature gate DRADeviceBindingConditions)",
            "shareID (feature gate DRAConsumableCapacity)",
        )
        assert running.reports.losses == [("default/c", lost)]
        event = server.asked[1].body
        assert (event["reason"], event["type"], event["regarding"]["name"]) == (
            "AllocationFieldsDropped",
            "Warning",
            "c",
        )
        assert event["note"].startswith("the API server dropped bindingConditions (feature gate DRADev")


async def test_accepted_note_to_a_pod_carries_the_pod_as_the_server_answered():
    """So that a server which drops the field is found out."""
    told = {"resourceClaimName": "c", "requestMappings": [dict(zip(MAPPING_FIELDS, MAPPING_TEXTS, strict=True))]}
    answered = {**pod("a", 9), "status": {"extendedResourceClaimStatus": told}}
    async with misbehaving(reply(answered)) as server, executing(server) as running:
        (answer,) = await running.answers(NOTE)
        assert answer.pod.status.extended_resource_claim_status == NOTE.status
    async with misbehaving(reply(b"<html>")) as server, executing(server) as running:
        assert await running.answers(NOTE) == [WriteAccepted(NOTE.id)]
        assert running.reports.broken[0][:2] == ("Pod", "default/a")


async def test_a_deletion_is_accepted_without_looking_at_the_reply():
    async with misbehaving(reply(CLAIM_OBJECT)) as server, executing(server) as running:
        assert await running.answers(DeleteClaim(CLAIM, "uid-c", 7, WriteId(9))) == [WriteAccepted(WriteId(9))]


async def test_binding_is_accepted_without_looking_at_the_reply_and_logged(caplog):
    caplog.set_level("INFO")
    async with misbehaving(reply(b"", 201)) as server, executing(server) as running:
        assert await running.answers(BIND) == [WriteAccepted(BIND.id)]
    assert "pod default/a is bound to node-1" in caplog.messages


async def test_reads_carry_what_was_read():
    async with (
        misbehaving(reply(CLAIM_OBJECT), reply(pod("a", 9, node="node-1"))) as server,
        executing(server, in_flight_max=1) as running,
    ):
        (claim,) = await running.answers(READ_CLAIM)
        running.executor.submit([READ_POD])  # one after the other: two writers would race for the server's answers
        await running.told.until(lambda inputs: len(inputs) == 2)
        seen = running.told.inputs[1]

        assert (claim.id, claim.claim.uid) == (READ_CLAIM.id, "uid-c")
        assert (seen.id, seen.pod.node_name) == (READ_POD.id, "node-1")


@pytest.mark.parametrize("decision", [FINALIZE, ALLOCATE, BIND, UNSCHEDULABLE], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        pytest.param(status(409, "Conflict", "stale"), WriteConflicted(WriteId(0), "stale"), id="conflict"),
        pytest.param(
            status(404, "NotFound", "gone"), WriteRejected(WriteId(0), 404, "NotFound", "gone"), id="not-found"
        ),
        pytest.param(
            status(422, "Invalid", BINDING_REFUSED),
            WriteRejected(WriteId(0), 422, "Invalid", BINDING_REFUSED, is_configuration=True),
            id="binding-right-missing",
        ),
        pytest.param(
            status(422, "Invalid", "reservedFor: too many"),
            WriteRejected(WriteId(0), 422, "Invalid", "reservedFor: too many"),
            id="invalid",
        ),
        pytest.param(
            status(500, "InternalError", "etcd"), WriteOutcomeUnknown(WriteId(0), "HTTP 500: etcd"), id="server-error"
        ),
    ],
)
async def test_refusals_by_decision(decision, answer, wanted):
    async with misbehaving(answer) as server, executing(server) as running:
        (given,) = await running.answers(decision)

        assert given == type(wanted)(**{name: getattr(wanted, name) for name in wanted.__slots__} | {"id": decision.id})
        assert bool(running.reports.refusals) == getattr(wanted, "is_configuration", False)


@pytest.mark.parametrize("trouble", [drop(), status(500, "InternalError", "etcd")], ids=["lost", "server-error"])
async def test_read_that_fails_may_be_repeated(trouble):
    async with misbehaving(trouble, trouble, trouble) as server, executing(server) as running:
        (given,) = await running.answers(READ_POD)

        assert isinstance(given, WriteRejected)
        assert given.is_retriable


async def test_unreadable_reply_to_a_read_may_be_repeated():
    async with misbehaving(reply(b"{}")) as server, executing(server) as running:
        (given,) = await running.answers(READ_CLAIM)

        assert isinstance(given, WriteRejected)
        assert (given.reason, given.is_retriable) == ("Undecodable", True)


async def test_no_connection_is_a_retriable_rejection():
    async with misbehaving() as server:
        url = server.url
    async with executing(None, url=url) as running:
        (given,) = await running.answers(BIND)

        assert isinstance(given, WriteRejected)
        assert (given.code, given.is_retriable) == (0, True)


async def test_lost_connection_leaves_the_outcome_open():
    async with misbehaving(drop()) as server, executing(server) as running:
        (given,) = await running.answers(BIND)

        assert isinstance(given, WriteOutcomeUnknown)


async def test_missing_right_is_reported_until_a_write_succeeds():
    async with (
        misbehaving(status(422, "Invalid", BINDING_REFUSED), reply(CLAIM_OBJECT)) as server,
        executing(server) as running,
    ):
        running.executor.submit([ALLOCATE])
        await running.told.until(lambda inputs: len(inputs) == 1)
        assert "resourceclaims/binding" in str(running.reports.refusals)

        running.executor.submit([ALLOCATE])
        await running.told.until(lambda inputs: len(inputs) == 2)
        assert running.reports.refusals == {}


CHANGED_SPEC = (
    'ResourceClaim.resource.k8s.io "c" is invalid: spec: Invalid value: {"Devices":{"Requests":[]}}: field is immutable'
)
CHANGED_ALLOCATION = CHANGED_SPEC.replace(": spec:", ": status.allocation:")
RESERVE = WriteClaimStatus(CLAIM, "uid-c", 7, reserved_for=(Consumer("pods", "a", "uid-a"),), id=WriteId(2))


@pytest.mark.parametrize(
    ("decision", "message", "path"),
    [
        pytest.param(FINALIZE, CHANGED_SPEC, "/resourceclaims/c", id="finalizer"),
        pytest.param(RESERVE, CHANGED_ALLOCATION, "/resourceclaims/c/status", id="reservation"),
    ],
)
async def test_a_patch_that_would_change_a_text_becomes_an_update_of_the_very_bytes(decision, message, path):
    stored = protobuf_claim(uid="uid-c", revision=7)
    async with (
        misbehaving(status(422, "Invalid", message), reply(stored), reply(CLAIM_OBJECT)) as server,
        executing(server) as running,
    ):
        (given,) = await running.answers(decision)

        patch, get, put = server.asked
        assert isinstance(given, WriteAccepted)
        assert given.claim is not None
        assert [one.method for one in server.asked] == ["PATCH", "GET", "PUT"]
        assert (get.path, get.headers["Accept"]) == (patch.path.removesuffix("/status"), PROTOBUF)
        assert (put.path, put.headers["Content-Type"]) == (patch.path, PROTOBUF)
        assert put.path.endswith(path)
        claim = ExactClaim(stored)
        want = (
            claim.with_finalizers([FINALIZER])
            if decision is FINALIZE
            else claim.with_reserved_for(RESERVE.reserved_for)
        )
        assert put.body == want != stored


@pytest.mark.parametrize(("uid", "revision"), [("uid-c", 8), ("uid-d", 7)], ids=["changed", "replaced"])
async def test_a_claim_that_changed_since_is_a_conflict_and_not_written(uid, revision):
    stored = protobuf_claim(uid=uid, revision=revision)
    async with (
        misbehaving(status(422, "Invalid", CHANGED_SPEC), reply(stored)) as server,
        executing(server) as running,
    ):
        (given,) = await running.answers(FINALIZE)

        assert isinstance(given, WriteConflicted)
        assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        pytest.param([drop(), drop()], "ReadFailed", id="lost"),  # a GET is sent twice
        pytest.param([status(404, "NotFound", "gone")], "NotFound", id="gone"),
        pytest.param([reply(CLAIM_OBJECT)], "Invalid", id="json-all-the-same"),
        pytest.param([reply(b"k8s\x00\x12\x7f")], "Invalid", id="cut"),
    ],
)
async def test_where_the_bytes_cannot_be_read_nothing_is_written(answers, want):
    async with (
        misbehaving(status(422, "Invalid", CHANGED_SPEC), *answers) as server,
        executing(server) as running,
    ):
        (given,) = await running.answers(FINALIZE)

        assert isinstance(given, WriteRejected)
        assert given.reason == want
        assert "PUT" not in {one.method for one in server.asked}


async def test_an_update_without_an_answer_is_unknown():
    """And never sent again: the second one would be refused because of the first."""
    stored = protobuf_claim(uid="uid-c", revision=7)
    again = status(409, "Conflict", "it has been modified")
    async with (
        misbehaving(status(422, "Invalid", CHANGED_SPEC), reply(stored), drop(), again) as server,
        executing(server) as running,
    ):
        (given,) = await running.answers(FINALIZE)

        assert isinstance(given, WriteOutcomeUnknown)
        assert [one.method for one in server.asked] == ["PATCH", "GET", "PUT"]


async def test_an_update_that_is_refused_is_a_conflict():
    stored = protobuf_claim(uid="uid-c", revision=7)
    refused = status(409, "Conflict", "it has been modified")
    async with (
        misbehaving(status(422, "Invalid", CHANGED_SPEC), reply(stored), refused) as server,
        executing(server) as running,
    ):
        (given,) = await running.answers(FINALIZE)

        assert isinstance(given, WriteConflicted)


@pytest.mark.parametrize("second", [status(404, "NotFound", "gone"), status(409, "Conflict", "another uid")])
async def test_a_deletion_without_an_answer_is_unknown_and_not_sent_again(second):
    async with misbehaving(drop(), second) as server, executing(server) as running:
        (given,) = await running.answers(DeleteClaim(CLAIM, "uid-c", 7, WriteId(5)))

        assert isinstance(given, WriteOutcomeUnknown)
        assert [one.method for one in server.asked] == ["DELETE"]


async def test_other_refusals_are_not_tried_in_another_way():
    message = 'ResourceClaim.resource.k8s.io "c" is invalid: status.allocation.devices.results[0]: Invalid value: "x"'
    async with misbehaving(status(422, "Invalid", message)) as server, executing(server) as running:
        (given,) = await running.answers(ALLOCATE)

        assert isinstance(given, WriteRejected)
        assert len(server.asked) == 1


class Gate:
    """Answers that wait for their release, and count how many wait."""

    def __init__(self) -> None:
        self.waiting = 0
        self.most = 0
        self.opened = asyncio.Event()

    async def __call__(self, request):
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await self.opened.wait()
        self.waiting -= 1
        return await reply(CLAIM_OBJECT)(request)


async def test_one_object_in_order_and_others_meanwhile():
    order = []

    async def slow(request):
        order.append("finalizer begins")
        server = request.app[SERVER]
        await server.asked_for(2)
        order.append("finalizer ends")
        return await reply(CLAIM_OBJECT)(request)

    async def other(request):
        order.append("binding")
        return await reply({})(request)

    async def second(request):
        order.append("status")
        return await reply(CLAIM_OBJECT)(request)

    async with misbehaving(slow, other, second) as server, executing(server) as running:
        given = await running.answers(FINALIZE, ALLOCATE, BIND)

        assert order[0] == "finalizer begins"
        assert order.index("finalizer ends") < order.index("status")
        assert order.index("binding") < order.index("status")
        assert [one.id for one in given if one.id != BIND.id] == [FINALIZE.id, ALLOCATE.id]


async def test_no_more_than_the_limit_in_flight():
    gate = Gate()
    async with misbehaving(*[gate] * 10) as server, executing(server, in_flight_max=3) as running:
        running.executor.submit([ReadClaim(ClaimKey("default", f"c{n}"), "u", WriteId(n + 1)) for n in range(10)])
        await server.asked_for(3)
        assert running.executor.stats.in_flight == 3
        assert running.executor.stats.waiting == 7
        gate.opened.set()
        await running.told.until(lambda inputs: len(inputs) == 10)

        assert gate.most == 3
        assert (running.executor.stats.in_flight, running.executor.stats.waiting) == (0, 0)


async def test_requests_that_hang_for_one_namespace_leave_slots_to_others():
    """Otherwise all slots are its, until the API server gives up on its webhook after ten seconds."""
    gate = Gate()

    async def answer(asked):
        return await gate(asked) if "/namespaces/hangs/" in asked.path else await reply(CLAIM_OBJECT)(asked)

    async with misbehaving(*[answer] * 30) as server, executing(server, in_flight_max=8) as running:
        running.executor.submit([ReadClaim(ClaimKey("hangs", f"c{n}"), "u", WriteId(n + 1)) for n in range(20)])
        running.executor.submit([ReadClaim(ClaimKey("default", f"c{n}"), "u", WriteId(n + 100)) for n in range(5)])
        await running.told.until(lambda inputs: len(inputs) == 5)
        assert {one.id for one in running.told.inputs} == set(range(100, 105))
        assert running.executor.stats.in_flight == 6, "three quarters of the slots"
        gate.opened.set()
        await running.told.until(lambda inputs: len(inputs) == 25)
        assert (running.executor.stats.in_flight, running.executor.stats.waiting) == (0, 0)


async def test_conditions_do_not_wait_behind_claims_that_hang_for_their_namespace():
    """They say why its pods wait; behind hundreds of claims they came a minute late."""
    gate = Gate()

    async def answer(asked):
        return await gate(asked) if "/resourceclaims/" in asked.path else await reply({})(asked)

    async with misbehaving(*[answer] * 30) as server, executing(server, in_flight_max=8) as running:
        running.executor.submit([ReadClaim(ClaimKey("default", f"c{n}"), "u", WriteId(n + 100)) for n in range(20)])
        running.executor.submit([UNSCHEDULABLE])
        await running.told.until(lambda inputs: len(inputs) == 1)
        assert [one.id for one in running.told.inputs] == [UNSCHEDULABLE.id]
        gate.opened.set()
        await running.told.until(lambda inputs: len(inputs) == 21)


def allocations(namespace, count, *, first):
    return [
        msgspec.structs.replace(ALLOCATE, claim=ClaimKey(namespace, f"c{n}"), id=WriteId(n))
        for n in range(first, first + count)
    ]


WEBHOOK_DOWN = status(500, "InternalError", 'failed calling webhook "quota.example.com"')


async def test_while_the_writes_of_a_namespace_fail_two_of_them_are_under_way():
    """Hundreds at once, out of their backoff together, took the API server's processors from everybody."""
    gate = Gate()

    async def answer(asked):
        if "/namespaces/fails/" not in asked.path:
            return await reply(CLAIM_OBJECT)(asked)
        if len(server.asked) > 1:
            await gate(asked)
        return await WEBHOOK_DOWN(asked)

    writes = allocations("fails", 20, first=1)
    others = allocations("default", 5, first=100)
    async with misbehaving(*[answer] * 40) as server, executing(server, in_flight_max=8) as running:
        running.executor.submit(writes[:1])
        await running.told.until(lambda inputs: len(inputs) == 1)
        running.executor.submit(writes[1:])
        running.executor.submit(others)
        await running.told.until(lambda inputs: len(inputs) == 6)
        assert {one.id for one in running.told.inputs[1:]} == set(range(100, 105))
        assert running.executor.stats.in_flight == 2
        gate.opened.set()
        await running.told.until(lambda inputs: len(inputs) == 25)
        assert gate.most == 2


async def test_when_a_write_of_a_namespace_is_stored_again_it_has_its_share_of_the_slots():
    gate = Gate()

    async def answer(asked):
        if len(server.asked) == 1:
            return await WEBHOOK_DOWN(asked)
        return await (gate(asked) if len(server.asked) > 2 else reply(CLAIM_OBJECT)(asked))

    writes = allocations("mended", 20, first=1)
    async with misbehaving(*[answer] * 40) as server, executing(server, in_flight_max=8) as running:
        for write in writes[:2]:
            running.executor.submit([write])
            await server.asked_for(write.id)
            await running.told.until(lambda inputs, count=int(write.id): len(inputs) == count)
        running.executor.submit(writes[2:])
        await server.asked_for(8)
        assert running.executor.stats.in_flight == 6, "three quarters of the slots"
        gate.opened.set()
        await running.told.until(lambda inputs: len(inputs) == 20)


async def test_namespaces_take_turns():
    gate, order = Gate(), []

    async def answer(asked):
        order.append(asked.path.rsplit("/", 1)[-1])
        return await gate(asked) if len(order) == 1 else await reply(CLAIM_OBJECT)(asked)

    async with misbehaving(*[answer] * 30) as server, executing(server, in_flight_max=1) as running:
        names = [("a", "a1"), ("a", "a2"), ("a", "a3"), ("a", "a4")]
        running.executor.submit([ReadClaim(ClaimKey(*name), "u", WriteId(n)) for n, name in enumerate(names)])
        await server.asked_for(1)
        running.executor.submit([ReadClaim(ClaimKey("b", name), "u", WriteId(10)) for name in ("b1",)])
        await running.told.until(lambda inputs: len(inputs) == 1)
        assert order == ["a1", "b1"]
        gate.opened.set()
        await running.told.until(lambda inputs: len(inputs) == 5)
        assert order == ["a1", "b1", "a2", "a3", "a4"]


async def test_stopping_waits_for_writes_in_flight():
    gate = Gate()
    async with misbehaving(gate) as server, executing(server, drain_s=20) as running:
        running.executor.submit([ALLOCATE])
        await server.asked_for(1)
        stopping = asyncio.create_task(running.stop())
        gate.opened.set()
        await stopping

        assert [type(one) for one in running.told.inputs] == [WriteAccepted]


async def test_stopping_answers_everything_that_hangs_or_comes_late():
    async with misbehaving(hang()) as server, executing(server, in_flight_max=1) as running:
        running.executor.submit([FINALIZE, ALLOCATE, BIND])
        await server.asked_for(1)
        await running.stop()
        running.executor.submit([READ_POD])

        assert {one.id for one in running.told.inputs} == {FINALIZE.id, ALLOCATE.id, BIND.id, READ_POD.id}
        assert {type(one) for one in running.told.inputs} == {WriteOutcomeUnknown}


async def test_a_fence_is_answered_with_the_pod():
    fence = PatchPodStatus(POD, "uid-a", "SchedulerError", "no", expect_revision=7, fence_ms=0, id=WriteId(7))
    pod = builders.pod_object("a", uid="uid-a", revision=8)
    async with misbehaving(reply(pod)) as server, executing(server) as running:
        (answer,) = await running.answers(fence)

        assert answer.pod.metadata.revision == 8


async def test_a_condition_says_of_which_generation_of_the_pod_it_speaks():
    decision = PatchPodStatus(POD, "uid-a", "Unschedulable", "no", generation=3, id=WriteId(7))
    async with misbehaving(reply({})) as server, executing(server) as running:
        await running.answers(decision)

        assert server.asked[0].body["status"]["conditions"][0]["observedGeneration"] == 3


async def test_transition_time_is_written_once_per_pod():
    again = PatchPodStatus(POD, "uid-a", "Unschedulable", "another message", id=WriteId(7))
    async with misbehaving(reply({}), reply({})) as server, executing(server) as running:
        await running.answers(UNSCHEDULABLE, again)

        conditions = [asked.body["status"]["conditions"][0] for asked in server.asked]
        assert ["lastTransitionTime" in one for one in conditions] == [True, False]


async def test_event_is_sent_and_never_answered():
    event = RecordEvent("Pod", "default", "a", "uid-a", "Warning", "FailedScheduling", "Scheduling", "no node fits")
    async with misbehaving(reply({}, 201)) as server, executing(server) as running:
        running.executor.submit([event])
        await server.asked_for(1)

        asked = server.asked[0]
        assert (asked.method, asked.path) == ("POST", "/apis/events.k8s.io/v1/namespaces/default/events")
        assert asked.body["note"] == "no node fits"
        assert running.told.inputs == []


async def test_events_that_hang_for_one_namespace_leave_the_others_theirs():
    def event(namespace, number):
        return RecordEvent(
            "Pod", namespace, f"p{number}", "u", "Warning", "FailedScheduling", "Scheduling", "no node fits"
        )

    gate = Gate()

    async def answer(asked):
        return await (gate(asked) if "/namespaces/hangs/" in asked.path else reply({}, 201)(asked))

    async with misbehaving(*[answer] * 40) as server, executing(server) as running:
        running.executor.submit([event("hangs", number) for number in range(30)])
        await server.asked_for(4)
        running.executor.submit([event("default", number) for number in range(3)])
        await server.asked_for(7)
        paths = [asked.path for asked in server.asked]
        assert sum("/namespaces/default/" in path for path in paths) == 3
        gate.opened.set()
        await server.asked_for(33)


class Forgetting(EventSeries):
    """Says when it was told to forget an event."""

    def __init__(self) -> None:
        super().__init__("dra-scheduler", "test", series_pause_s=0)
        self.forgot = asyncio.Event()

    def forget(self, event: RecordEvent) -> None:
        super().forget(event)
        self.forgot.set()


async def test_event_patch_that_finds_nothing_leads_to_a_new_event():
    events = Forgetting()
    event = RecordEvent("Pod", "default", "a", "uid-a", "Warning", "FailedScheduling", "Scheduling", "no node fits")
    async with (
        misbehaving(status(403, "Forbidden", "no"), status(404, "NotFound", "gone"), reply({}, 201)) as server,
        executing(server, events=events) as running,
    ):
        running.executor.submit([event])
        await server.asked_for(1)
        running.executor.submit([event])
        await events.forgot.wait()
        running.executor.submit([event])
        await server.asked_for(3)

        assert [asked.method for asked in server.asked] == ["POST", "PATCH", "POST"]
