"""A node that is looked at closely for one pod: its funnels, who holds its devices, and how things are called.

Rules of this module
  1. Nobody is told to end a pod of the asked pod's own controller: that one would wait instead.
  2. Advice to ask for fewer names the number that its reason gives; advice for still fewer has a reason with that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from msgspec import Struct, structs

from allocator import Device, DeviceId, Explanation, Funnel, PoolId, Stage
from allocator.requests.requests import Slot
from scheduler.model.claim import ResourceClaim
from scheduler.model.group import key_of_group
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.owners import controller_of, edited_object, is_replica
from scheduler.plugins.dynamic_resources.changed_claims import held_by
from scheduler.plugins.dynamic_resources.survey import Requests
from scheduler.why.reasons import Fix, Reason, Whom
from scheduler.why.say import Pods


class Holder(Struct, frozen=True):
    """A claim that is counted on the node's devices, and whose pods all run there; of the asked pod's own, no pods."""

    claim: ResourceClaim
    pods: tuple[Pod, ...]
    released: tuple[Held, ...]
    devices: frozenset[DeviceId]

    @property
    def priority(self) -> int:
        """Of its most important pod."""
        return max([one.priority for one in self.pods], default=0)


@dataclass(frozen=True)
class NearNode(Requests):
    """See the module's text."""

    node: NodeInfo
    explanation: Explanation

    def facts(self, funnel: Funnel, *said: Stage) -> Mapping[str, object]:
        """What sentences about a request name: where, how much it asks for, what is left of that, and what took others.

        Args:
            said: Stages of whose devices the sentence speaks anyway.
        """
        took = {stage: count for stage, count in funnel.removed.items() if not stage.is_lasting and stage not in said}
        tainted, in_use = took.pop(Stage.TAINT, 0), took.pop(Stage.IN_USE, 0)
        slot, needed = funnel.slot, funnel.needed if funnel.needed > 1 else 0
        return {
            "node": self.node.name,
            "of": (funnel.claim, funnel.request),
            "request": self.named(slot),
            "all": needed * slot.is_all,
            "needed": needed * (not slot.is_all),
            "left": funnel.left or "none",
            "tainted": tainted,
            "in_use": in_use,
            "blocked": sum(took.values()),
        }

    # Who holds what

    @cached_property
    def holders(self) -> Sequence[Holder]:
        """Of the node's devices, the pod's own claims too; those of the least important pods first."""
        found: dict[ClaimKey, tuple[ResourceClaim, tuple[Pod, ...]]]
        found, pods = {claim.key: (claim, ()) for claim in self.search.claims.claims}, self.node.pods
        self.cycle.charge(len(pods))
        for key in [key for uid in pods for key in self.view.claims_of(uid)]:
            stored, uids = self.view.claim(key), self.view.users_of(key)
            if key not in found and stored is not None and all(uid in pods for uid in uids):
                found[key] = stored, tuple([pods[uid] for uid in uids])
        holders = list[Holder]()
        for claim, users in found.values():
            released = held_by(claim, self.view)
            if devices := frozenset([one.device_id for held in released for one in held.allocation.results]):
                holders.append(Holder(claim, users, released, devices))
        return sorted(holders, key=lambda one: (one.priority, one.claim.key))

    def holding(self, devices: Iterable[DeviceId]) -> list[Holder]:
        """Those that hold one of the devices."""
        wanted = set(devices)
        return [one for one in self.holders if not wanted.isdisjoint(one.devices)]

    def held(self, pool: PoolId) -> Set[str]:
        """Devices of a pool that are in use."""
        use = self.view.in_use.pools.get(pool)
        return use.held() if use is not None else frozenset[str]()

    def pods(self, holders: Iterable[Holder]) -> Pods:
        """Their pods, the least important first."""
        return Pods.of({pod.uid: pod for holder in holders for pod in holder.pods}.values())

    def users(self, devices: Iterable[DeviceId]) -> Pods | str:
        """Who has them, for a sentence."""
        return self.pods(self.holding(devices)) or "other claims"

    def own_claim(self, holders: Sequence[Holder]) -> str:
        """The claim of one holder, where whoever reads about the pod may read it too."""
        keys = [one.claim.key for one in holders]
        return str(keys[0]) if len(keys) == 1 and keys[0].namespace == self.pod.metadata.namespace else ""

    def is_own(self, holder: Holder) -> bool:
        """Whether the pod itself uses the claim."""
        return any(one.uid == holder.claim.uid for one in self.search.claims.claims)

    @cached_property
    def owner(self) -> str:
        """The workload that makes the pod, where it has one."""
        return edited_object(self.pod) if controller_of(self.pod) is not None else ""

    def is_siblings(self, holder: Holder, is_one: Callable[[Pod, Pod], bool] = is_replica) -> bool:
        """Whether a pod of the same controller uses the claim, or one of another revision of its Deployment."""
        return any(is_one(self.pod, pod) for pod in holder.pods)

    def is_planned(self, holder: Holder) -> bool:
        """Whether pods of the pod's group have it that wait as it does: nobody uses it yet."""
        group = key_of_group(self.pod)
        is_waiting = all(key_of_group(pod) == group and pod.node_name is None for pod in holder.pods)
        return group is not None and bool(holder.pods) and is_waiting

    # Changes that several facts share

    def ends(self, devices: Sequence[DeviceId], lacks: int) -> Iterator[Fix]:
        """Ending pods that give back so many of the devices: of one claim, or the least important ones together."""
        holders = [one for one in self.holding(devices) if not self.is_own(one) and not self.is_siblings(one)]
        some: list[Holder] = []
        freed: set[DeviceId] = set()
        for holder in holders[: self.limits.holders]:
            if len(holder.devices.intersection(devices)) >= lacks:
                yield self._end([holder])
            if len(freed) < lacks:
                some.append(holder)
                freed |= holder.devices.intersection(devices)
        if len(some) > 1 and len(freed) >= lacks:
            yield self._end(some)

    def _end(self, holders: Sequence[Holder]) -> Fix:
        own = self.pod.metadata.namespace
        return Fix(
            "end-holders",
            {
                "devices": listed(sorted({name for one in holders for name in one.devices})),
                "pods": self.pods(holders),
                "claim": self.own_claim(holders),
            },
            self.on,
            more=len(holders) - 1,
            whom=Whom.OWN if all(one.claim.key.namespace == own for one in holders) else Whom.OTHERS,
            removed=tuple(dict.fromkeys(pod.uid for holder in holders for pod in holder.pods)),
            released=tuple([held for holder in holders for held in holder.released]),
        )

    def fewer(self, slot: Slot, most: int, unsolved: Reason | None = None, *, even_all: bool = False) -> Iterator[Fix]:
        """Asking for less devices, `most` first.

        Args:
            unsolved: The reason where only the search knows how many fit: `fit` of it becomes the number asked for.
            even_all: Also where the request asks for all devices, as it can never have them.
        """
        asked = self.explanation.problem.count(slot)
        if slot.is_all and not even_all:
            return
        facts = {"node": self.node.name, "request": self.named(slot), "needed": asked}
        base = unsolved or Reason("devices-short", facts, "fewer")
        for less in range(min(asked - 1, most), 0, -1)[: self.limits.counts]:
            said, more = {"count": less, "instead": "all" if slot.is_all else asked}, 4 * slot.is_all
            reason = Reason(base.kind, {**base.fields, "fit": less}, base.form) if unsolved or less < most else None
            for fix in self.asking(slot, "ask-for-fewer", said, more, count=less, allocation_mode="ExactCount"):
                yield structs.replace(fix, reason=reason)


def listed(devices: Iterable[DeviceId]) -> tuple[str, ...]:
    """`a/0`, `a/1`: as sentences name them."""
    return tuple([f"{one.pool}/{one.device}" for one in devices])


def ids_of(devices: Iterable[Device]) -> list[DeviceId]:
    return [one.id for one in devices]
