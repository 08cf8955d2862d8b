"""Another scheduler in the simulated world, which knows nothing of ours and sees the claims some events late.

It hands out devices of the same slices, and binds at once. What must hold then is checked here: no device twice among
ours, none of ours bound that could have known better, and whatever is given twice is told, and undone while it can be.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import msgspec

from scheduler.core.ground.inputs import Input
from scheduler.core.machine import Machine
from scheduler.core.state.store import claims_of
from scheduler.model.api_rules import FINALIZER
from scheduler.model.keys import ClaimKey
from tests import builders
from tests.sim.api_server import FakeApiServer
from tests.sim.records import FOREIGN, fold, is_foreign


class UnsafeError(AssertionError):
    """The cluster is in a state that must never be."""


class ForeignScheduler:
    """Part of `World`: actions of the other scheduler, and what it must not lead to."""

    rnd: random.Random
    server: FakeApiServer
    trace: list[str]
    names: itertools.count[int]
    uids: itertools.count[int]
    foreigners: int
    foreign_lag: int
    founded: int
    machine: Machine
    told_conflicts: set[tuple[str, str]]

    def chance(self, probability: float) -> bool:
        raise NotImplementedError

    def check_safety(self) -> None:
        raise NotImplementedError

    def create_foreign_pod(self) -> None:
        """Another scheduler's pod, with a claim of its own."""
        alive = [pod for pod in self.server.pods.values() if is_foreign(pod) and not pod.is_terminal]
        if len(alive) >= self.foreigners:
            return
        name = f"foreign-{next(self.names)}"
        self.server.put_claim(builders.claim(f"{name}-gpu", uid=f"uid-{name}-{next(self.uids)}"))
        self.server.put_pod(builders.pod(name, claims=(f"{name}-gpu",), scheduler=FOREIGN))

    def schedule_foreign_pod(self) -> None:
        """The other scheduler hands out a device that was free as it saw the claims, some events ago."""
        waiting = [pod for pod in self.server.pods.values() if is_foreign(pod) and pod.node_name is None]
        if not waiting:
            return
        pod = self.rnd.choice(waiting)
        key = ClaimKey("default", pod.spec.resource_claims[0].resource_claim_name)
        claim = self.server.claims.get(key)
        if claim is None or claim.allocation is not None or claim.is_deleting or pod.is_deleting:
            return
        log = self.server.log
        seen: dict[object, Input] = {}
        for event in log[: max(self.founded, len(log) - self.rnd.randrange(self.foreign_lag))]:
            if event.kind == "ResourceClaim":
                fold(seen, event)
        taken = {
            device
            for event in seen.values()
            if event.object.allocation is not None
            for device in event.object.allocation.device_ids()
        }
        free = [
            (node, device)
            for name, (slice_, _) in sorted(self.server.slices.items())
            if (node := slice_.node_name) in self.server.nodes
            for device in slice_.devices
            if device.id not in taken
        ]
        if not free:
            return
        # As fate will have it, often what ours is about to hand out or has just handed out.
        ours = set(self.machine.overlay.in_use.devices())
        node, chosen = self.rnd.choice([one for one in free if one[1].id in ours and self.chance(0.7)] or free)
        device = chosen.name
        self.trace.append(f"foreign {pod.key} takes {device} of {node}")
        self.server.put_claim(
            replace(
                claim,
                allocation=builders.allocation(device, pool=node),
                reserved_for=builders.claim("x", reserved_for=(pod,)).reserved_for,
                finalizers=(FINALIZER,),
            )
        )
        self.check_safety()
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        self.server.put_pod(msgspec.structs.replace(pod, spec=spec))

    def double_devices(self) -> list[tuple[str, ClaimKey, ClaimKey]]:
        """Devices that two claims have, as the server stores it; each pair once."""
        holders: dict[str, list[ClaimKey]] = {}
        for key, claim in self.server.claims.items():
            for device in claim.allocation.device_ids() if claim.allocation is not None else ():
                holders.setdefault(str(device), []).append(key)
        return [
            (device, one, other) for device, keys in holders.items() for one, other in itertools.combinations(keys, 2)
        ]

    def check_binding(self, uid: str) -> None:
        """Nobody else had the pod's devices before we stored our allocation, unless we allocated them before that."""
        pod = next((one for one in self.server.pods.values() if one.uid == uid), None)
        keys = claims_of(pod) if pod is not None else ()
        at = self.server.allocated_at
        for device, one, other in self.double_devices():
            for ours, theirs in ((one, other), (other, one)):
                claim = self.server.claims[ours]
                is_first_use = all(consumer.uid == uid for consumer in claim.reserved_for)
                if ours in keys and is_first_use and at[theirs] < at[ours]:
                    raise UnsafeError(
                        f"pod {uid} is bound with device {device} of claim {ours} (r{at[ours]}), which claim {theirs} "
                        f"had before (r{at[theirs]})"
                    )

    def check_conflicts(self) -> None:
        """All is quiet: what is given twice is used by a bound pod of ours, or none of ours; and it was told."""
        for device, one, other in self.double_devices():
            for ours, theirs in ((one, other), (other, one)):
                users = [pod for pod in self.server.pods.values() if ours in claims_of(pod) and not is_foreign(pod)]
                if not users:
                    continue
                if {(ours.name, theirs.name), (theirs.name, ours.name)} - self.told_conflicts:
                    raise UnsafeError(f"device {device} is given to {ours} and to {theirs}, and nobody told")
                claim = self.server.claims[ours]
                if not any(pod.node_name for pod in users) and not claim.is_deleting:
                    raise UnsafeError(f"device {device} is given to {ours} and to {theirs}; no pod of {ours} is bound")
