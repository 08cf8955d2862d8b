"""Devices that nobody who runs has: their claims are held for pods that are gone or going, or for nobody.

Rules of this module
  1. A claim counts as such only when none of its pods runs or waits, or when it is being deleted.
  2. No advice is to end a pod that is not there. Who must let go is said; a claim is said to be deleted only where no
     pod names it.

Not here: devices that pods have (`device_blame`).

Cost: O(claims on the devices that are in the way, and their pods).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from msgspec import Struct

from allocator import Allocation, DeviceId, Funnel, Stage
from allocator.pools.faults import listed_names
from scheduler.framework.diagnosis import told
from scheduler.model.claim import Consumer, ResourceClaim
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, PodKey, PodUid
from scheduler.plugins.dynamic_resources.near_node import NearNode, ids_of, some_devices
from scheduler.why.reasons import Fix, Reason, plain_fix, plain_reason

_SIZE: Final = 2
_USERS_NAMED: Final = 2
_CONTROLLER: Final = "kube-controller-manager's resource claim controller"
_STEPS: Final = 2


class _Stale(Struct):
    """A claim that nobody who runs uses.

    Args:
        fact: What is so, after the claim's name.
        going: Its pods that are still there.
    """

    kind: str
    claim: ResourceClaim
    devices: list[DeviceId]
    fact: str
    going: tuple[PodUid, ...]


def blame_stale(found: NearNode, funnel: Funnel) -> Reason | None:
    """The claim of that kind with most of the devices that are in the way; all of them are offered to be let go."""
    if (twice := _published_twice(found, funnel)) is not None:
        return twice
    stale: dict[ClaimKey, _Stale] = {}
    for device in _in_the_way(found, funnel):
        found.cycle.charge(_STEPS)
        for claim in found.view.holders(device):
            if claim.key in stale:
                stale[claim.key].devices.append(device)
            elif (one := _stale(found, claim)) is not None:
                stale[claim.key] = one
                one.devices.append(device)
    if not stale:
        return None
    ordered = sorted(stale.values(), key=lambda one: (-len(one.devices), one.claim.key))
    worst = ordered[0]
    changes = [_released(found, [one]) for one in ordered[: found.limits.holders]]
    if len(ordered) > 1:
        changes.append(_released(found, ordered[: found.limits.holders]))
    about = (worst.kind, worst.claim.key, tuple(worst.devices))
    return plain_reason(worst.kind, _cause(found, worst), about, tuple(changes))


def unused_claim(found: NearNode, devices: Iterable[DeviceId]) -> str:
    """A claim that has one of the devices and that no pod uses, "" for none."""
    for device in devices:
        for claim in found.view.holders(device):
            if (one := _stale(found, claim)) is not None and not one.going:
                return f"{_who(found, one)}, which nobody uses"
    return ""


def _published_twice(found: NearNode, funnel: Funnel) -> Reason | None:
    """Devices that are in use on another node, which publishes a pool of the same name: to a claim they are the same.

    Asked as if this node's pool had its own name.
    """
    node, view = found.node.name, found.view
    for device in funnel.devices(funnel.step(Stage.IN_USE).removed):
        pool = device.id.pool_id
        faults = view.inventory.faults(view.features).get(pool, ())
        if all(one.kind != "two-nodes" for one in faults):
            continue
        own = f"{pool.pool}-{node}"
        slices = [
            replace(
                slice_,
                pool=own,
                devices=tuple([replace(one, id=DeviceId(pool.driver, own, one.name)) for one in slice_.devices]),
            )
            for slice_ in view.inventory.slices_of_pool(pool).values()
            if slice_.node_name == node
        ]
        text = f"the driver must give each node's pool a name of its own, such as the node's, instead of {pool.pool}"
        change = plain_fix(_SIZE, text, (node,), slices=tuple(slices))
        nodes = listed_names(sorted({one.node_name or "" for one in view.inventory.slices_of_pool(pool).values()}))
        cause = f"pool {pool} is published by nodes {nodes}, and {some_devices([device.id])} is in use on one of them"
        return plain_reason("pool-contradictory", cause, ("two nodes", pool), (change,))
    return None


def _in_the_way(found: NearNode, funnel: Funnel) -> Iterable[DeviceId]:
    """Devices that would do and are in use; and, of pools whose devices share counters, all that are in use."""
    in_the_way = dict.fromkeys(ids_of(funnel.devices(funnel.step(Stage.IN_USE).removed)))
    in_the_way |= dict.fromkeys(ids_of(funnel.devices(funnel.step(Stage.CAPACITY).removed)))
    blocked = funnel.step(Stage.COUNTERS).removed | funnel.step(Stage.GROUPS).removed
    if blocked:
        for pool in {one.id.pool_id for one in funnel.devices(blocked)}:
            use = found.view.in_use.pools.get(pool)
            in_the_way |= dict.fromkeys(DeviceId(*pool, name) for name in (use.held() if use is not None else ()))
    return in_the_way


def _stale(found: NearNode, claim: ResourceClaim) -> _Stale | None:
    view, own = found.view, found.search.claims.claims
    if view.is_held(claim.uid) or any(one.uid == claim.uid for one in own):
        return None
    found.cycle.charge(len(claim.reserved_for) // _STEPS)
    facts: dict[str, list[str]] = {}
    going: list[PodUid] = []
    for consumer in claim.reserved_for:
        fact = _gone(found, claim, consumer)
        pod = view.pod(consumer.pod_uid) if consumer.pod_uid is not None else None
        if not fact and not claim.is_deleting:
            return None
        facts.setdefault(fact, []).append(consumer.name)
        going += [pod.uid] if pod is not None and fact == _TERMINATING else []
    names = found.may_name(claim.key)
    users = "; ".join(_users(fact, pods, names=names) for fact, pods in facts.items())
    if claim.is_deleting:
        still = f"still reserved for {users}" if users else "still has its devices"
        return _Stale("claim-deleting", claim, [], f"is being deleted and {still}", tuple(going))
    if not users:
        return _Stale("holder-gone", claim, [], "is reserved for nobody", ())
    kind = "holder-terminating" if going else "holder-gone"
    return _Stale(kind, claim, [], f"is reserved for {users}", tuple(going))


_TERMINATING: Final = "being deleted and has not ended"


def _gone(found: NearNode, claim: ResourceClaim, consumer: Consumer) -> str:
    """Why a user of the claim is none any more, "" for one that is."""
    if consumer.pod_uid is None:
        return ""
    pod = found.view.pod(consumer.pod_uid)
    if pod is None:
        is_there = found.view.pod_named(PodKey(claim.key.namespace, consumer.name)) is not None
        return "an earlier pod of that name" if is_there else "which does not exist"
    if pod.is_terminal:
        return "which has ended"
    return _TERMINATING if pod.is_deleting else ""


def _users(fact: str, pods: list[str], *, names: bool) -> str:
    more = f" and {len(pods) - _USERS_NAMED} more" if len(pods) > _USERS_NAMED else ""
    who = f"pod{'s' if len(pods) > 1 else ''} {', '.join(pods[:_USERS_NAMED])}{more}" if names else "a pod"
    if fact == _TERMINATING:
        fact = f"which {'is' if len(pods) == 1 else 'are'} {fact}"
    elif len(pods) > 1:
        fact = fact.replace("does not", "do not").replace("has ended", "have ended")
        fact = fact.replace("an earlier pod of that name", "earlier pods of these names")
    return f"{who}, {fact}" if fact else who


def _cause(found: NearNode, one: _Stale) -> str:
    return f"{_who(found, one)} {one.fact}; it has {some_devices(one.devices)}"


def _who(found: NearNode, one: _Stale) -> str:
    return told("ResourceClaim", one.claim.key, to=found.pod.metadata.namespace, limits=found.limits)


def _released(found: NearNode, some: list[_Stale]) -> Fix:
    texts = list(dict.fromkeys(text for one in some for text in _advice(found, one)))
    command = _command(found, some[0]) if len(some) == 1 else ""
    return plain_fix(
        _SIZE + len(some) - 1,
        "; then ".join(texts),
        (found.node.name,),
        command=command,
        cause=_cause(found, some[0]) if len(some) == 1 else "",
        kind=some[0].kind,
        removed=tuple(uid for one in some for uid in one.going),
        released=tuple([Held(one.claim.key, one.claim.uid, held) for one in some for held in _counted(found, one)]),
    )


def _counted(found: NearNode, one: _Stale) -> Iterable[Allocation]:
    return found.view.counted(one.claim.uid)


def _advice(found: NearNode, one: _Stale) -> Iterator[str]:
    """Who must let go."""
    what = f"ResourceClaim {one.claim.key}" if found.may_name(one.claim.key) else "it"
    if one.going:
        where = {node for uid in one.going if (node := found.view.node_of(uid)) is not None}
        kubelet = f"the kubelet of node {', '.join(sorted(where))}" if where else "its kubelet"
        yield f"{kubelet} must end the pod (a finalizer may keep it); then {_CONTROLLER} releases {what}"
    elif one.claim.is_deleting:
        yield f"{_CONTROLLER} must release {what} and take its finalizer away; look at its log"
    elif command := _command(found, one):
        yield f"{_CONTROLLER} must release {what}; where it does not: {command}"
    else:
        yield f"{_CONTROLLER} must release {what}; look at its log"


def _command(found: NearNode, one: _Stale) -> str:
    """Only a claim that no pod names may be deleted."""
    key = one.claim.key
    if one.kind != "holder-gone" or not found.may_name(key) or found.view.users_of(key):
        return ""
    return shlex.join(("kubectl", "delete", "resourceclaim", key.name, "-n", key.namespace))
