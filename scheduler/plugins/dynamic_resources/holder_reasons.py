"""Devices that nobody who runs has: their claims are held for pods that are gone or going, or for nobody.

Rules of this module
  1. A claim counts as such only when none of its pods runs or waits, or when it is being deleted.
  2. Advice never ends a pod that is gone: it names who must release the claim, and deletes one that no pod names.

Not here: devices that pods have (`device_reasons`).

Cost: O(claims on the devices that are in the way, and their pods).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from msgspec import Struct, field, structs

from allocator import DeviceId, Funnel, Stage
from allocator.pools.faults import listed_names
from scheduler.framework.steps import within_steps
from scheduler.model.claim import Consumer, ResourceClaim
from scheduler.model.keys import ClaimKey, PodKey, PodUid
from scheduler.plugins.dynamic_resources.changed_claims import held_by
from scheduler.plugins.dynamic_resources.near_node import NearNode, ids_of, listed
from scheduler.why.reasons import Fix, Reason

_STEPS: Final = 2
_USERS: Final = ("runs", "earlier", "missing", "ended", "going")
"""What became of a pod that a claim is reserved for."""


class _Stale(Struct):
    """A claim that nobody who runs uses.

    Args:
        users: Of whom it is reserved for, by what became of them.
        going: Its pods that are still there.
    """

    claim: ResourceClaim
    devices: list[DeviceId] = field(default_factory=list)
    users: dict[str, list[PodKey]] = field(default_factory=dict)
    going: list[PodUid] = field(default_factory=list)

    @property
    def kind(self) -> str:
        if self.claim.is_deleting:
            return "claim-deleting"
        return "holder-terminating" if self.going else "holder-gone"

    @property
    def reason(self) -> Reason:
        form = ("reserved" if self.users else "held") if self.claim.is_deleting else "" if self.users else "nobody"
        users = {fact: tuple(self.users.get(fact, ())) for fact in _USERS}
        return Reason(self.kind, {"claim": self.claim.key, "devices": listed(self.devices), **users}, form)


def diagnose_stale(found: NearNode, funnel: Funnel) -> Reason | None:
    """The claim of that kind with most of the devices that are in the way; all of them are offered to be let go."""
    if (twice := _published_twice(found, funnel)) is not None:
        return twice
    stale: dict[ClaimKey, _Stale] = {}
    for device in _in_the_way(found, funnel):
        found.cycle.charge(_STEPS)
        for claim in found.view.holders(device):
            if (one := stale.get(claim.key) or _stale(found, claim)) is not None:
                stale[claim.key] = one
                one.devices.append(device)
    if not stale:
        return None
    ordered = sorted(stale.values(), key=lambda one: (-len(one.devices), one.claim.key))
    some = ordered[: found.limits.holders]
    fixes = [_released(found, [one]) for one in some] + ([_released(found, some)] if len(some) > 1 else [])
    return structs.replace(ordered[0].reason, fixes=tuple(fixes))


def unused_claim(found: NearNode, devices: Iterable[DeviceId]) -> ClaimKey | None:
    """A claim that has one of the devices and that no pod uses."""
    for device in devices:
        for claim in found.view.holders(device):
            if (one := _stale(found, claim)) is not None and not one.going:
                return claim.key
    return None


def _published_twice(found: NearNode, funnel: Funnel) -> Reason | None:
    """Devices that are in use on another node, which publishes a pool of the same name: to a claim they are the same.

    Asked as if this node's pool had its own name.
    """
    node, inventory = found.node.name, found.view.inventory
    devices = ids_of(funnel.devices(funnel.step(Stage.IN_USE).removed))
    with within_steps(found.cycle, found.view):
        faults = ((one, inventory.faults_of(one.pool_id, found.view.features)) for one in devices)
        device = next((one for one, some in faults if any(each.kind == "two-nodes" for each in some)), None)
    if device is None:
        return None
    own, published = f"{device.pool}-{node}", inventory.slices_of_pool(device.pool_id).values()
    renamed = []
    for slice_ in [one for one in published if one.node_name == node]:
        own_devices = [replace(one, id=DeviceId(device.driver, own, one.name)) for one in slice_.devices]
        renamed.append(replace(slice_, pool=own, devices=tuple(own_devices)))
    fix = Fix("rename-pool", {"pool": device.pool}, found.on, slices=tuple(renamed))
    nodes = listed_names(sorted({one.node_name or "" for one in published}))
    fields = {"pool": device.pool_id, "nodes": nodes, "device": listed([device])}
    return Reason("pool-contradictory", fields, "two-nodes", (fix,))


def _in_the_way(found: NearNode, funnel: Funnel) -> Iterable[DeviceId]:
    """Devices that would do and are in use; and, of pools whose devices share counters, all that are in use."""
    taken = funnel.step(Stage.IN_USE).removed | funnel.step(Stage.CAPACITY).removed
    in_the_way = dict.fromkeys(ids_of(funnel.devices(taken)))
    blocked = funnel.step(Stage.COUNTERS).removed | funnel.step(Stage.GROUPS).removed
    for pool in dict.fromkeys(one.id.pool_id for one in funnel.devices(blocked)):
        in_the_way |= dict.fromkeys(DeviceId(*pool, name) for name in sorted(found.held(pool)))
    return in_the_way


def _stale(found: NearNode, claim: ResourceClaim) -> _Stale | None:
    view, own = found.view, found.search.claims.claims
    if view.is_held(claim.uid) or any(one.uid == claim.uid for one in own):
        return None
    found.cycle.charge(len(claim.reserved_for) // _STEPS)
    stale = _Stale(claim)
    for consumer in claim.reserved_for:
        key = PodKey(claim.key.namespace, consumer.name)
        fact = _became(found, key, consumer)
        if fact == "runs" and not claim.is_deleting:
            return None
        stale.users.setdefault(fact, []).append(key)
        if fact == "going" and consumer.pod_uid is not None:
            stale.going.append(consumer.pod_uid)
    return stale


def _became(found: NearNode, key: PodKey, consumer: Consumer) -> str:
    if consumer.pod_uid is None:
        return "runs"
    pod = found.view.pod(consumer.pod_uid)
    if pod is None:
        return "earlier" if found.view.pod_named(key) is not None else "missing"
    if pod.is_terminal:
        return "ended"
    return "going" if pod.is_deleting else "runs"


def _released(found: NearNode, some: list[_Stale]) -> Fix:
    """Who must let go; a claim of one's own that nobody names may be deleted."""
    kinds, keys = {_release(found, one) for one in some}, tuple([one.claim.key for one in some])
    going = tuple([uid for one in some for uid in one.going])
    may_delete = kinds == {"delete-claim"} and len(some) == 1
    is_own = keys[0].namespace == found.pod.metadata.namespace
    kind = kinds.pop() if len(kinds) == 1 else "release-claim"
    command = shlex.join(("kubectl", "delete", "resourceclaim", keys[0].name, "-n", keys[0].namespace))
    nodes = {node for uid in going if (node := found.view.node_of(uid)) is not None}
    return Fix(
        kind if kind != "delete-claim" or (may_delete and is_own) else "release-claim",
        {"claims": keys, "nodes": tuple(sorted(nodes))},
        found.on,
        command if may_delete else "",
        len(some) - 1,
        some[0].reason if len(some) == 1 else None,
        removed=going,
        released=tuple([held for one in some for held in held_by(one.claim, found.view)]),
    )


def _release(found: NearNode, one: _Stale) -> str:
    """The kind of its fix; only a claim that no pod names may be deleted."""
    if one.going:
        return "end-terminating"
    if one.claim.is_deleting:
        return "release-deleting"
    return "release-claim" if found.view.users_of(one.claim.key) else "delete-claim"
