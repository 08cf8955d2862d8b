"""A node that is looked at closely for one pod: its funnels, who holds its devices, and how things are called.

Rules of this module
  1. What another namespace runs is not named where `limits.names_others` is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct

from allocator import Device, DeviceId, Explanation, Funnel
from allocator.requests.requests import Slot
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, may_name, pod_text, told_pods
from scheduler.model.claim import ResourceClaim
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.plugins.dynamic_resources.changed_claims import label_of, with_request
from scheduler.plugins.dynamic_resources.node_search import NodeSearch
from scheduler.why.reasons import Fix, plain_fix

USERS_NAMED: Final = 4
CAUSE_MAX: Final = 160
"""Characters of a cause, beyond which fewer pods are named."""
_DEVICES_NAMED: Final = 3


class Holder(Struct, frozen=True):
    """A claim that is counted on the node's devices, and whose pods all run there; none of the pod's own claims."""

    claim: ResourceClaim
    users: tuple[PodUid, ...]
    priority: int
    released: tuple[Held, ...]
    devices: frozenset[DeviceId]


class NearNode:
    """See the module's text."""

    def __init__(  # noqa: PLR0917
        self,
        search: NodeSearch,
        cycle: Cycle,
        node: NodeInfo,
        view: ClusterView,
        limits: Limits,
        explanation: Explanation,
    ) -> None:
        self.pod: Final = cycle.pod
        self.search: Final = search
        self.cycle: Final = cycle
        self.node: Final = node
        self.view: Final = view
        self.limits: Final = limits
        self.explanation: Final = explanation

    # Names

    def named(self, slot: Slot) -> str:
        """A request by its name; with its claim where another claim has one of that name."""
        if (resource := self._resource(slot)) is not None:
            return resource
        slots = self.explanation.problem.plan.slots
        if any(one.base == slot.base and one.claim != slot.claim for one in slots):
            return f"request {slot.label} of ResourceClaim {self.explanation.problem.claims[slot.claim]}"
        return f"request {slot.label}"

    def label(self, slot: Slot) -> str:
        """A request as a person finds it: with its claim, and the template that this was made from."""
        claim = self.claim(slot)
        if claim is None:
            return self._resource(slot) or f"request {slot.label}"
        return f"request {slot.label} of {label_of(claim, self.pod)}"

    def _resource(self, slot: Slot) -> str | None:
        """The extended resource that the slot serves."""
        special = self.search.claims.special
        if special is None or self.claim(slot) is not None:
            return None
        names = [name for name, one in special.classes.items() if one == slot.device_class.name]
        return f"resource {names[0]}" if names else None

    def claim(self, slot: Slot) -> ResourceClaim | None:
        """The claim as it is stored; None for the special one."""
        unallocated = self.search.claims.unallocated
        return unallocated[slot.claim] if slot.claim < len(unallocated) else None

    def pods(self, holders: Iterable[Holder], most: int = USERS_NAMED) -> str:
        """The pods that hold something, the least important first."""
        users = {one: None for holder in sorted(holders, key=_importance) for one in holder.users}
        pods = [pod for one in users if (pod := self.node.pods.get(one)) is not None]
        if len(pods) <= 1:
            return "".join(pod_text(pod, to=self.pod, limits=self.limits) for pod in pods)
        who = told_pods([pod.key for pod in pods], most, to=self.pod.metadata.namespace, limits=self.limits)
        priorities = sorted({pod.spec.priority or 0 for pod in pods})
        what = f"priority {priorities[0]}" + (f" to {priorities[-1]}" if len(priorities) > 1 else "")
        return f"pods {who} ({what})"

    def briefly(self, cause: Callable[[str], str], holders: Sequence[Holder]) -> str:
        """A cause with as many of the pods as it has room for."""
        for most in range(USERS_NAMED, 1, -1):
            if len(text := cause(self.pods(holders, most))) <= CAUSE_MAX:
                return text
        return cause(self.pods(holders, 1))

    def may_name(self, key: ClaimKey) -> bool:
        return may_name(key, to=self.pod.metadata.namespace, limits=self.limits)

    # Who holds what

    @cached_property
    def holders(self) -> Sequence[Holder]:
        """Of the node's devices, the pod's own claims too; those of the least important pods first."""
        found: dict[ClaimKey, Holder] = {}
        claims = [(claim.key, claim, tuple[PodUid, ...]()) for claim in self.search.claims.claims]
        self.cycle.charge(len(self.node.pods))
        for uid in self.node.pods:
            for key in self.view.claims_of(uid):
                users = tuple(self.view.users_of(key))
                if (claim := self.view.claim(key)) is not None and all(one in self.node.pods for one in users):
                    claims.append((key, claim, users))
        for key, claim, users in claims:
            if key not in found:
                released = tuple([Held(key, claim.uid, one) for one in self.view.counted(claim.uid)])
                devices = frozenset(one.device_id for held in released for one in held.allocation.results)
                if devices:
                    priority = max([self.node.pods[one].spec.priority or 0 for one in users], default=0)
                    found[key] = Holder(claim, users, priority, released, devices)
        return sorted(found.values(), key=_importance)

    def holding(self, devices: Iterable[DeviceId]) -> list[Holder]:
        """Those that hold one of the devices."""
        wanted = set(devices)
        return [one for one in self.holders if not wanted.isdisjoint(one.devices)]

    def is_own(self, holder: Holder) -> bool:
        """Whether the pod itself uses the claim."""
        return any(one.uid == holder.claim.uid for one in self.search.claims.claims)

    # Changes that several facts share

    def ends(self, devices: Sequence[DeviceId], lacks: int) -> Iterator[Fix]:
        """Ending pods that give back so many of the devices: of one claim, or the least important ones together."""
        holders = [one for one in self.holding(devices) if not self.is_own(one)][: self.limits.holders]
        for holder in holders:
            if len(holder.devices.intersection(devices)) >= lacks:
                yield self._end([holder])
        some: list[Holder] = []
        freed: set[DeviceId] = set()
        for holder in holders:
            some.append(holder)
            freed |= holder.devices & set(devices)
            if len(freed) >= lacks:
                break
        if len(some) > 1:
            yield self._end(some)

    def _end(self, holders: Sequence[Holder]) -> Fix:
        pods, names = self.pods(holders), sorted({name for one in holders for name in one.devices})
        claims = [str(one.claim.key) for one in holders if self.may_name(one.claim.key)]
        whose = f", whose ResourceClaim is {claims[0]}" if len(claims) == 1 and len(holders) == 1 else ""
        return plain_fix(
            5 + len(holders),
            f"free {some_devices(names)}: end {pods}{whose}",
            (self.node.name,),
            removed=tuple(dict.fromkeys(one for holder in holders for one in holder.users)),
            released=tuple([held for holder in holders for held in holder.released]),
        )

    def fewer(self, slot: Slot, most: int) -> Iterator[Fix]:
        """Asking for less devices, the most first; for the command all, as beside another change still less may do."""
        claim = self.claim(slot)
        if claim is None or slot.is_all:
            return
        most = slot.count - 1 if self.limits.also else most
        for less in range(min(slot.count - 1, most), 0, -1)[: self.limits.counts]:
            yield plain_fix(
                3,
                f"ask for {less} {'device' if less == 1 else 'devices'} instead of {slot.count} in {self.label(slot)}",
                (self.node.name,),
                claims=(with_request(claim, slot.label, count=less),),
            )


def _importance(holder: Holder) -> tuple[int, ClaimKey]:
    return holder.priority, holder.claim.key


def some_devices(names: Iterable[DeviceId]) -> str:
    """`device a/0`, `devices a/0, a/1, a/2 and 4 more`."""
    texts = [f"{one.pool}/{one.device}" for one in names]
    more = f" and {len(texts) - _DEVICES_NAMED} more" if len(texts) > _DEVICES_NAMED else ""
    return f"device{'s' if len(texts) > 1 else ''} {', '.join(texts[:_DEVICES_NAMED])}{more}"


def ids_of(devices: Iterable[Device]) -> list[DeviceId]:
    return [one.id for one in devices]


def free_of(funnel: Funnel, name: str) -> str:
    """What is left of a request's devices beside those that a sentence has named."""
    if funnel.slot.is_all:
        return f"; {name} asks for all {funnel.needed}" if funnel.needed > 1 else ""
    if funnel.needed == 1:
        return ""
    left = {0: "none is", 1: "1 is"}.get(funnel.left, f"{funnel.left} are")
    return f"; {name} asks for {funnel.needed}, and {left} left"
