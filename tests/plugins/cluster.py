"""A tiny ClusterView for plugin tests, with an API server for claims behind it: conditional writes and nothing else."""

from __future__ import annotations

from dataclasses import replace

from allocator import Features, InUse, Inventory, decode_allocation, decode_claim_spec, decode_class, decode_slice
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import AddClaimFinalizer, WriteClaimStatus
from scheduler.model.claim import Consumer, DeviceCondition, ResourceClaim
from scheduler.model.keys import ClaimKey, ClaimUid, NodeName, PodGroupKey
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import OwnerReference, Pod
from scheduler.model.pod_group import PodGroup
from tests.plugins.objects import pod

DRIVER = "gpu.example.com"
NOW_MS = 1_800_000_000_000


class Cluster:
    """Satisfies ClusterView; `execute` stands in for the API server and answers whether the write was accepted."""

    def __init__(self, *nodes, slices=(), classes=("gpu",), claims=(), features=None) -> None:
        self.features = features or Features()
        self.node_infos = {info.name: info for info in nodes}
        self.inventory = Inventory()
        self.in_use = InUse()
        self.claims: dict[ClaimKey, ResourceClaim] = {}
        self.held: set[ClaimUid] = set()
        self.pods: dict[str, Pod] = {}
        self.pod_groups: dict[PodGroupKey, PodGroup] = {}
        self.uids = 0
        for obj in slices:
            self.inventory.put_slice(decode_slice(obj))
        for obj in classes:
            self.inventory.put_class(
                decode_class({"metadata": {"name": obj}, "spec": {}} if isinstance(obj, str) else obj)
            )
        for claim in claims:
            self.put(claim)

    def put(self, claim: ResourceClaim) -> ResourceClaim:
        """Observe a claim, counting its devices."""
        old = self.claims.get(claim.key)
        if old is not None and old.allocation is not None:
            self.in_use.remove(old.allocation)
        if claim.allocation is not None:
            self.in_use.add(claim.allocation)
            self.held.discard(claim.uid)  # a hold ends when its allocation is observed
        self.claims[claim.key] = claim
        return claim

    def change(self, key: ClaimKey, **fields) -> ResourceClaim:
        """Somebody else changes a claim."""
        claim = self.claims[key]
        return self.put(replace(claim, revision=claim.revision + 1, **fields))

    def delete(self, key: ClaimKey) -> None:
        claim = self.claims.pop(key)
        if claim.allocation is not None:
            self.in_use.remove(claim.allocation)

    def execute(self, decision) -> bool:
        """What the API server does with a claim write; False is a conflict."""
        stored = self.claims.get(decision.claim)
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

    # ClusterView

    def claim(self, key):
        return self.claims.get(key)

    def is_held(self, claim):
        return claim in self.held

    def pod(self, uid):
        return self.pods.get(uid)

    def namespace(self, name):
        return None

    def pod_group(self, key):
        return self.pod_groups.get(key)

    def users_of(self, claim):
        return tuple(self._users_of(claim))

    def _users_of(self, claim):
        for one in self.pods.values():
            entries = one.spec.resource_claims or ()
            generated = {status.name: status.resource_claim_name for status in one.status.resource_claim_statuses or ()}
            if any(claim.name == (entry.resource_claim_name or generated.get(entry.name)) for entry in entries):
                yield one.uid

    def new_uid(self):
        self.uids += 1
        return f"uid-{self.uids}"


def rfc3339(at_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
