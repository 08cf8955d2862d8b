"""The kinds this program watches, and what it reads of each: bytes become model objects and inputs.

Rules of this module
  1. Bytes become frozen model objects in one step, and only the fields that somebody reads. Slices, classes, and the
     specs and allocations of claims go by way of a dict: the allocator's decoders read manifests with the same code.
  2. A claim whose spec or allocation cannot be decoded is still observed, with its `problem`.
  3. Claims' specs and allocations are decoded once per distinct raw bytes: the claims of one template share one spec.

Not here: events and pages (`watched_kind`), what is written (`decision_requests`), the allocator's own formats
(`allocator.decode_*`).

Cost, measured on 3.11 with `python -m tests.kube.measure decode`: pod 4 us, claim 8 us (21 with an allocation not seen
before), slice 10 us a device, nearly all of it in `allocator.decode_slice`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec
import orjson

from allocator import (
    Allocation,
    ClaimSpec,
    DeviceClass,
    DeviceResult,
    DeviceTaint,
    ResourceSlice,
    decode_allocation,
    decode_claim_spec,
    decode_class,
    decode_slice,
)
from scheduler.kube.api_versions import ServedAs
from scheduler.kube.plugin_kinds import plugin_kinds
from scheduler.kube.unread_fields import UNREAD, Harmless, decode_read
from scheduler.kube.watched_kind import WatchedKind
from scheduler.model import pod_group
from scheduler.model.claim import Consumer, DeviceCondition, ResourceClaim
from scheduler.model.device_taint_rules import DeviceSelector, DeviceTaintRule
from scheduler.model.keys import ClaimKey, ClaimUid, PodGroupKey
from scheduler.model.label_selectors import TextSelector, selects_slice
from scheduler.model.objects import Condition, Namespace, Node, ObjectMeta, Pod, PodResourceClaim, Record
from scheduler.model.pod_group import Disrupted, GroupCondition, PodGroup
from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim


class _WireDevice(Record, frozen=True):
    driver: str
    pool: str
    device: str
    conditions: tuple[Condition, ...] | None = None


class _WireClaimStatus(Record, frozen=True):
    allocation: msgspec.Raw = msgspec.Raw()  # not `Raw | None`: msgspec decodes that to None only
    reserved_for: tuple[Consumer, ...] | None = None
    devices: tuple[_WireDevice, ...] | None = None


class _WireClaim(Record, frozen=True):
    metadata: ObjectMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: _WireClaimStatus = _WireClaimStatus()


class _WireSelector(Record, frozen=True, forbid_unknown_fields=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    # Of v1alpha3 in Kubernetes 1.33 and 1.34 only.
    device_class_name: str | None = None
    selectors: tuple[msgspec.Raw, ...] | None = None


class _WireTaint(Record, frozen=True, forbid_unknown_fields=True):
    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class _WireTaintRuleSpec(Record, frozen=True, forbid_unknown_fields=True):
    taint: _WireTaint
    device_selector: _WireSelector | None = None


class _WireTaintRule(Record, frozen=True):
    metadata: ObjectMeta
    spec: _WireTaintRuleSpec


class _WireGang(Record, frozen=True, forbid_unknown_fields=True):
    min_count: int = 1


class _WireSchedulingPolicy(Record, frozen=True, forbid_unknown_fields=True):
    gang: _WireGang | None = None
    basic: Harmless = None  # what a group without gang is


class _WireDisruptionMode(Record, frozen=True, forbid_unknown_fields=True):
    single: dict[str, object] | None = None
    all: dict[str, object] | None = None


class _WireTopology(Record, frozen=True, forbid_unknown_fields=True):
    key: str


class _WireConstraints(Record, frozen=True, forbid_unknown_fields=True):
    topology: tuple[_WireTopology, ...] | None = None


class _WirePodGroupSpec(Record, frozen=True, forbid_unknown_fields=True):
    scheduling_policy: _WireSchedulingPolicy | None = None
    resource_claims: tuple[PodResourceClaim, ...] | None = None
    scheduling_constraints: _WireConstraints | None = None
    disruption_mode: _WireDisruptionMode | str | None = None  # a text in v1alpha2
    pod_group_template_ref: Harmless = None  # where it comes from: v1alpha2
    workload_ref: Harmless = None  # where it comes from
    priority_class_name: Harmless = None  # the API server has worked it into `priority`
    priority: int | None = None
    preemption_policy: str | None = None


class _WirePodGroupStatus(Record, frozen=True):
    conditions: tuple[Condition, ...] | None = None


class _WirePodGroup(Record, frozen=True):
    metadata: ObjectMeta
    status: _WirePodGroupStatus = _WirePodGroupStatus()
    spec: _WirePodGroupSpec = _WirePodGroupSpec()


_pod_group_decoder: Final = msgspec.json.Decoder(_WirePodGroup)
_taint_rule_decoder: Final = msgspec.json.Decoder(_WireTaintRule)


Decoded = TypeVar("Decoded")
Volume = TypeVar("Volume", PersistentVolume, PersistentVolumeClaim)


class _DecodedOnce(Generic[Decoded]):
    """A decoder that gives equal texts the same value, as long as somebody has it."""

    def __init__(self, decode: Callable[[Any], Decoded]) -> None:
        self._decode = decode
        self._by_raw: WeakValueDictionary[bytes, Decoded] = WeakValueDictionary()

    def __call__(self, raw: bytes) -> tuple[Decoded | None, str]:
        """The value, or None and what is wrong with the text."""
        found = self._by_raw.get(raw)
        if found is None:
            try:
                found = self._by_raw[raw] = self._decode(orjson.loads(raw))
            except ValueError as error:  # DecodeError and JSONDecodeError are
                return None, str(error)
            except Exception as error:  # see WatchedKind.decode_object
                return None, f"{type(error).__name__}: {error}"
        return found, ""


def salvage_allocation(raw: bytes) -> Allocation | None:
    """The devices of an allocation that cannot be read as a whole: they are certainly not free.

    Every result that names a device counts as a dedicated device. None when no result does.
    """
    try:
        results = orjson.loads(raw)["devices"]["results"]
    except (ValueError, TypeError, KeyError):
        return None
    devices = []
    for result in results if isinstance(results, list) else ():
        match result:
            case {"driver": str(driver), "pool": str(pool), "device": str(device)}:
                if result.get("adminAccess") is not True:
                    devices.append(DeviceResult(str(result.get("request", "")), driver, pool, device))
            case _:
                continue
    return Allocation(tuple(devices)) if devices else None


class ClaimDecoder:
    """ResourceClaims.

    Many claims have one spec. An allocation is one claim's: it is read in the answer to a write, and soon again in what
    is observed.
    """

    def __init__(self) -> None:
        self._specs: _DecodedOnce[ClaimSpec] = _DecodedOnce(decode_claim_spec)
        self._allocations: _DecodedOnce[Allocation] = _DecodedOnce(decode_allocation)

    def claim(self, wire: _WireClaim) -> ResourceClaim:
        meta, status = wire.metadata, wire.status
        spec, problem = self._specs(bytes(wire.spec))
        allocation = None
        raw_allocation = bytes(status.allocation)
        if raw_allocation not in {b"", b"null"}:
            allocation, allocation_problem = self._allocations(raw_allocation)
            if allocation is None:
                allocation = salvage_allocation(raw_allocation)
            problem = "; ".join(filter(None, (problem, allocation_problem)))
        return ResourceClaim(
            key=ClaimKey(meta.namespace, meta.name),
            uid=ClaimUid(meta.uid),
            revision=meta.revision,
            spec=spec,
            allocation=allocation,
            allocation_timestamp=allocation.allocation_timestamp if allocation else None,
            reserved_for=status.reserved_for or (),
            device_conditions=_device_conditions(status.devices),
            finalizers=meta.finalizers or (),
            annotations=tuple((meta.annotations or {}).items()),
            owner_references=meta.owner_references or (),
            deletion_timestamp=meta.deletion_timestamp,
            creation_timestamp=meta.creation_timestamp,
            problem=problem or None,
        )


def _device_conditions(wire: tuple[_WireDevice, ...] | None) -> tuple[DeviceCondition, ...]:
    return tuple(
        [
            DeviceCondition(
                one.driver, one.pool, one.device, condition.type, condition.status, condition.reason, condition.message
            )
            for one in wire or ()
            for condition in one.conditions or ()
        ]
    )


def _read_slice(selector: TextSelector | None, raw: msgspec.Raw) -> ResourceSlice | None:
    """A slice that is not selected counts as deleted: it may have been selected before."""
    slice_ = decode_slice(orjson.loads(bytes(raw)))
    return slice_ if selector is None or selects_slice(selector, slice_) else None


def _read_class(raw: msgspec.Raw) -> DeviceClass:
    return decode_class(orjson.loads(bytes(raw)))


def _read_taint_rule(raw: msgspec.Raw) -> DeviceTaintRule:
    """Raises ValueError for a selector that this program cannot apply: a part of it would taint too much."""
    wire, unread = decode_read(_taint_rule_decoder, raw)
    if unread:
        raise ValueError(f"{unread[0]}: {UNREAD}")
    wanted, taint = wire.spec.device_selector, wire.spec.taint
    selector = None
    if wanted is not None:
        if wanted.device_class_name or wanted.selectors:
            field = "deviceClassName" if wanted.device_class_name else "selectors"
            raise ValueError(
                f"spec.deviceSelector.{field}: Kubernetes 1.35 removed it; select by driver, pool and device"
            )
        selector = DeviceSelector(wanted.driver, wanted.pool, wanted.device)
    return DeviceTaintRule(
        wire.metadata.name, selector, DeviceTaint(taint.key, taint.value, taint.effect, taint.time_added)
    )


def _read_pod_group(raw: msgspec.Raw) -> PodGroup:
    wire, unread = decode_read(_pod_group_decoder, raw)
    meta, spec = wire.metadata, wire.spec
    policy = spec.scheduling_policy
    min_count = policy.gang.min_count if policy is not None and policy.gang is not None else None
    mode, constraints = spec.disruption_mode, spec.scheduling_constraints
    disrupted: Disrupted | None = None
    if isinstance(mode, _WireDisruptionMode):
        disrupted = Disrupted.TOGETHER if mode.all is not None else Disrupted.ALONE if mode.single is not None else None
    elif mode == "PodGroup":
        disrupted = Disrupted.TOGETHER
    elif mode not in (None, "", "Pod"):  # v1alpha2's server sets Pod where nobody said anything
        unread += ("spec.disruptionMode",)
    topology = (constraints.topology if constraints is not None else None) or ()
    if len(topology) > 1:
        unread += ("spec.schedulingConstraints.topology[1]",)
    return PodGroup(
        PodGroupKey(meta.namespace, meta.name),
        meta.uid,
        spec.resource_claims or (),
        min_count,
        unread,
        spec.priority or 0,
        spec.preemption_policy,
        disrupted,
        topology[0].key if topology else None,
        meta.generation,
        next((GroupCondition(*one) for one in _conditions_of(wire)), None),
    )


def _conditions_of(wire: _WirePodGroup) -> Iterator[tuple[bool, str, str]]:
    types = (pod_group.condition_type(is_136=False), pod_group.condition_type(is_136=True))
    for one in wire.status.conditions or ():
        if one.type in types:
            yield one.status == "True", one.reason, one.message


RESOURCE_GROUP: Final = "resource.k8s.io"
RESOURCE_API: Final = f"/apis/{RESOURCE_GROUP}/v1"
POD_GROUP_VERSIONS: Final = ("v1beta1", "v1alpha3", "v1alpha2")  # newest first; 1.37, 1.37, 1.36
TAINT_RULE_VERSIONS: Final = ("v1", "v1beta2", "v1alpha3")  # newest first; 1.37, 1.36, 1.33


class Codec:
    """The kinds this program watches, in the order in which they are worth knowing.

    Args:
        slices: The only ResourceSlices to observe, None for all.
        reads: The kinds of `PLUGIN_KINDS` that a plugin reads; no other of them is watched.
    """

    def __init__(
        self,
        slices: TextSelector | None = None,
        *,
        reads: Collection[str] = (),
    ) -> None:
        self.for_plugins: Final = plugin_kinds()
        self._reads: Final = frozenset(reads)
        self.pods = WatchedKind("Pod", "/api/v1/pods", Pod, Pod.packed)
        self.nodes = WatchedKind("Node", "/api/v1/nodes", Node)
        self.namespaces = WatchedKind("Namespace", "/api/v1/namespaces", Namespace)
        self.claims = WatchedKind("ResourceClaim", f"{RESOURCE_API}/resourceclaims", _WireClaim, ClaimDecoder().claim)
        self.slices = WatchedKind(
            "ResourceSlice",
            f"{RESOURCE_API}/resourceslices",
            msgspec.Raw,
            partial(_read_slice, slices),
            withdraws_broken=True,
        )
        self.classes = WatchedKind(
            "DeviceClass", f"{RESOURCE_API}/deviceclasses", msgspec.Raw, _read_class, withdraws_broken=True
        )
        self.taint_rules = WatchedKind(
            "DeviceTaintRule",
            "",
            msgspec.Raw,
            _read_taint_rule,  # a rule that becomes undecodable keeps its taints, so `withdraws_broken` is False
            served_as=ServedAs(RESOURCE_GROUP, TAINT_RULE_VERSIONS, "devicetaintrules"),
        )
        self.pod_groups = WatchedKind(
            "PodGroup",
            "",
            msgspec.Raw,
            _read_pod_group,
            served_as=ServedAs(pod_group.API_GROUP, POD_GROUP_VERSIONS, pod_group.RESOURCE),
        )
        self.decode_claim: Final[Callable[[bytes], ResourceClaim]] = self.claims.decode_reply
        """The claim of a GET or PATCH reply; UndecodableError when it has not even a name."""

    @property
    def kinds(self) -> tuple[WatchedKind, ...]:
        return (
            *(self.nodes, self.slices, self.classes, self.taint_rules),
            *(self.namespaces, self.pod_groups, self.claims),
            *(kind for name, kind in self.for_plugins.items() if name in self._reads),
            self.pods,
        )

    def decode_volume(self, body: bytes, kind: type[Volume]) -> Volume:
        """The volume, or the claim for one, of a PATCH reply; UndecodableError when it is not one."""
        volume: Volume = self.for_plugins[kind.__name__].decode_reply(body)
        return volume

    def decode_pod(self, body: bytes) -> Pod:
        """The pod of a GET reply; UndecodableError when it is not one."""
        pod: Pod = self.pods.decode_reply(body)
        return pod
