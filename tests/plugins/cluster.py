"""What plugins see in their tests: the core's own store and overlay, with an API server for claims behind them."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import replace

from allocator import Features, decode_allocation, decode_claim_spec, decode_class, decode_slice
from scheduler.core.state.claim_overlay import ClaimOverlay
from scheduler.core.state.core_view import CoreView
from scheduler.core.state.store import Store
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import AddClaimFinalizer, WriteClaimStatus
from scheduler.framework.preemption import Trial
from scheduler.framework.status import Status
from scheduler.model.claim import Consumer, DeviceCondition, ResourceClaim
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, ClaimUid, NodeName, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import OwnerReference, Pod
from scheduler.model.timestamps import format_rfc3339
from tests.plugins.objects import pod

DRIVER = "gpu.example.com"
NOW_MS = 1_800_000_000_000


class Cluster(CoreView):
    """What the core shows to plugins; `execute` answers for the API server whether the write was accepted."""

    def __init__(self, *nodes, slices=(), classes=("gpu",), claims=(), features=None) -> None:
        self.store = Store(features or Features())
        self.overlay = ClaimOverlay(self.store)
        uids = itertools.count(1)
        super().__init__(self.store, self.overlay, lambda: f"uid-{next(uids)}")
        for info in nodes:
            self.store.node_infos[info.name] = info
        for obj in slices:
            self.store.observe_slice(decode_slice(obj), 1)
        for obj in classes:
            full = {"metadata": {"name": obj}, "spec": {}} if isinstance(obj, str) else obj
            self.store.observe_class(decode_class(full), 1)
        for claim in claims:
            self.put(claim)

    @property
    def claims(self) -> dict[ClaimKey, ResourceClaim]:
        """Claims by name."""
        return {claim.key: claim for claim in self.store.claims.values()}

    def put(self, claim: ResourceClaim) -> ResourceClaim:
        """Observe a claim."""
        self.store.observe_claim(claim)
        self.overlay.observe(claim)
        return claim

    def put_pods(self, *pods: Pod) -> None:
        for one in pods:
            self.store.observe_pod(one)

    def hold(self, *held: Held) -> None:
        """Keep these devices for a pod that is being bound."""
        self.overlay.hold(PodUid("holder"), held)

    def change(self, key: ClaimKey, **fields) -> ResourceClaim:
        """Somebody else changes a claim."""
        claim = self.claims[key]
        return self.put(replace(claim, revision=claim.revision + 1, **fields))

    def delete(self, key: ClaimKey) -> None:
        uid = self.claims[key].uid
        self.store.delete_claim(uid, 0)
        self.overlay.forget(uid)

    def execute(self, decision) -> bool:
        """What the API server does with a claim write; False is a conflict."""
        stored = self.claim(decision.claim)
        if stored is None or stored.uid != decision.uid or stored.revision != decision.expect_revision:
            return False
        match decision:
            case AddClaimFinalizer(finalizers=finalizers):
                self.change(decision.claim, finalizers=finalizers)
            case WriteClaimStatus(clear_allocation=True):
                self.change(decision.claim, allocation=None, reserved_for=(), device_conditions=())
            case WriteClaimStatus(allocation=allocation, reserved_for=reserved_for):
                written = {"allocation": allocation} if allocation is not None else {}
                if reserved_for is not None:
                    written["reserved_for"] = reserved_for
                if decision.allocation_timestamp_ms is not None:
                    written["allocation_timestamp"] = rfc3339(decision.allocation_timestamp_ms)
                self.change(decision.claim, **written)
        return True


def rfc3339(at_ms: int) -> str:
    return format_rfc3339(at_ms // 1000)


def cycle_of(one: Pod, now_ms: int = NOW_MS) -> Cycle:
    return Cycle(one, now_ms)


def gpu(name="gpu-0", **fields):
    return {"name": name, **fields}


def node_slice(node_name: str, *devices, pool="", driver=DRIVER, **spec):
    """A slice with the devices of one node, a pool of its own."""
    pool = pool or node_name
    return {
        "metadata": {"name": f"{pool}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node_name,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
            **spec,
        },
    }


ONE = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}  # what the API server's defaults make


def exactly(name="req", device_class="gpu", **fields):
    return {"name": name, "exactly": {**ONE, "deviceClassName": device_class, **fields}}


def first_available(name, *subs):
    return {"name": name, "firstAvailable": [{"name": sub, **ONE, **fields} for sub, fields in subs]}


def cel(expression):
    return {"selectors": [{"cel": {"expression": expression}}]}


def allocation(node_name="", *devices, request="req", pool="", **result):
    """The allocation of these devices, usable on one node or (without a name) everywhere."""
    obj = {
        "devices": {
            "results": [
                {
                    "request": request,
                    "driver": DRIVER,
                    "pool": pool or node_name or "shared",
                    "device": device,
                    **result,
                }
                for device in devices
            ]
        }
    }
    if node_name:
        field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
        obj["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return decode_allocation(obj)


def claim(name="claim", *requests, owner: Pod | None = None, reserved_for=(), spec=None, **fields) -> ResourceClaim:
    """A claim in namespace default; `owner` makes it one generated for that pod."""
    owners = (OwnerReference(kind="Pod", name=owner.metadata.name, uid=owner.uid, controller=True),) if owner else ()
    return ResourceClaim(
        key=ClaimKey("default", name),
        uid=ClaimUid(f"uid-of-{name}"),
        revision=fields.pop("revision", 1),
        spec=decode_claim_spec({"devices": {"requests": list(requests) or [exactly()], **(spec or {})}}),
        owner_references=owners,
        reserved_for=tuple(consumer(one) for one in reserved_for),
        **fields,
    )


def consumer(one: Pod) -> Consumer:
    return Consumer(resource="pods", name=one.metadata.name, uid=one.uid)


def pod_with(*claim_names, name="pod", **spec) -> Pod:
    """A pod that names its claims."""
    entries = [{"name": f"r{index}", "resourceClaimName": claim} for index, claim in enumerate(claim_names)]
    return pod(name, resourceClaims=entries, **spec)


def templated_pod(claim_name: str | None = "claim", *, name="pod", is_generated=True) -> Pod:
    """A pod with one claim from a template; its status tells the generated claim unless `is_generated` is off."""
    status = {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": claim_name}]} if is_generated else {}
    return pod(name, resourceClaims=[{"name": "r", "resourceClaimTemplateName": "template"}], status=status)


def condition(type_: str, status="True", device="gpu-0", pool="node", **fields) -> DeviceCondition:
    return DeviceCondition(driver=DRIVER, pool=pool, device=device, type=type_, status=status, **fields)


def info_of(cluster: Cluster, name="node") -> NodeInfo:
    return cluster.node_infos[NodeName(name)]


class NoDryRun:
    """For PostFilter plugins that must not ask what happened if pods were gone."""

    def may_help(self, node: NodeName, status: Status) -> bool:
        raise AssertionError

    def without(self, node: NodeName, removed: Collection[PodUid]) -> Trial:
        raise AssertionError
