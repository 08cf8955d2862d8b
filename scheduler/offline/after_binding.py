"""What is wrong with a pod that has a node: nobody allocates its claim, or its hardware is given out twice.

Schedulers leave a pod with a node alone, and the kubelet waits without a word. Nothing in the API says that partition
gpu-0-half-0 is part of what device gpu-0 was.

Rules of this module
  1. A claim that a pod without a node uses too can still be allocated for that pod: nothing is said.
  2. A pod that runs has all that it needs.

Not here: who asks (`verdicts`, `explain`, `inventory`).
"""

from __future__ import annotations

from typing import Final

from allocator import DeviceId, newest_slices, vanished_devices
from scheduler.core.machine import Machine
from scheduler.core.state.store import Store
from scheduler.model.claim import ResourceClaim
from scheduler.model.objects import Pod

# The claim controller makes a second claim for a pod when its watch of claims lags far behind that of pods.
_KNOWN: Final = "https://github.com/kubernetes/kubernetes/issues/140217"


def not_allocated(store: Store, pod: Pod) -> str:
    """Why a pod that has a node cannot start: no scheduler allocates a claim of it. "" where that is not so."""
    if pod.node_name is None or pod.is_deleting or pod.status.phase not in ("", "Pending"):
        return ""
    for key in store.claims_of(pod.uid):
        claim = store.claim(key)
        if claim is None or claim.allocation is not None or claim.is_deleting:
            continue
        if any(one.node_name is None and not one.is_terminal for one in store.pods_using(key)):
            continue
        start = f"the pod is on node {pod.node_name} already, so no scheduler allocates its ResourceClaim {key.name} "
        if old := _replaced_by(store, pod, claim):
            return (
                f"{start}and it cannot start: it was bound with ResourceClaim {old}, and the resource claim controller "
                f"has put {key.name} in its place since then ({_KNOWN}). Delete the pod and make it anew."
            )
        return (
            f"{start}and it cannot start. Delete the pod and make it anew; where its manifest has spec.nodeName, "
            "leave the node to the scheduler: use nodeSelector or nodeAffinity instead."
        )
    return ""


def _replaced_by(store: Store, pod: Pod, claim: ResourceClaim) -> str:
    """The claim in whose place the pod's status names `claim`: it is the pod's too, and reserved for it."""
    named = store.claims_of(pod.uid)
    return next(
        (
            other.key.name
            for other in store.claims.values()
            if other.controller is not None
            and other.controller == claim.controller
            and other.is_reserved_for(pod.uid)
            and other.key not in named
        ),
        "",
    )


def given_out_twice(machine: Machine, device: DeviceId) -> str:
    """Why the hardware of a device that a claim has may be another claim's too; "" where nothing says so."""
    pool, store, use = device.pool_id, machine.store, machine.overlay.in_use.pools.get(device.pool_id)
    slices = newest_slices(store.inventory.slices_of_pool(pool).values(), store.features)
    gone = vanished_devices(slices, use.held() if use is not None else ())
    if not gone:
        return ""
    if device.device in gone:
        return (
            f"{device} is not published any more, and its pool publishes partitions: no scheduler knows which of them "
            "are this device, so its hardware can be given to other claims too. End the pods that have it; change what "
            "a pool publishes only while its devices are idle."
        )
    if not any(one.name == device.device and one.consumes_counters for slice_ in slices for one in slice_.devices):
        return ""
    holders = machine.overlay.double_allocations.holders.get(DeviceId(*pool, gone[0]), ())
    names = [f"ResourceClaim {claim.key}" for uid in holders if (claim := store.claims.get(uid))]
    return (
        f"{device} may be the same hardware as {gone[0]}, which {', '.join(names) or 'a claim'} still has and the pool "
        "does not publish any more. End the pods of one of them."
    )
