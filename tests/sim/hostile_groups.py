"""Worlds of groups whose search pauses wherever it can, while everything changes.

Groups are larger, their claims have several requests with selectors of their own, and shares that almost fill a node;
some pods of a group may not be on one node, or must be spread. Some groups are PodGroups, which come before their pods
or after them, change how many they need, are deleted and come again.

What is checked beside what `GroupWorld` does: no pod of a PodGroup that the machine has not seen is given a node;
whoever is given a node is where its constraint allows it, as far as the machine knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from msgspec import structs

from allocator import Allocation
from scheduler.core import group_cycles
from scheduler.core.ground.inputs import Input, TimerFired
from scheduler.core.trying.group_attempt import GroupAttempt
from scheduler.model.api_rules import FINALIZER
from scheduler.model.group import key_of_group
from scheduler.model.keys import NodeName, PodGroupKey
from scheduler.model.objects import Pod
from scheduler.model.pod_group import PodGroup
from scheduler.model.special_claim import is_provisional
from tests import builders
from tests.sim.foreign_scheduler import UnsafeError
from tests.sim.groups import GroupWorld
from tests.sim.records import FOREIGN

HOSTNAME = "kubernetes.io/hostname"
APP = "group"
POD_GROUP_ACTIONS = {"put_pod_group": 4, "change_pod_group": 0.5, "delete_pod_group": 0.3, "delete_member": 1}
NODES = 3


def _apart(app: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {APP: app}}, "topologyKey": HOSTNAME}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread(app: str) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [constraint | {"labelSelector": {"matchLabels": {APP: app}}}]}


class HostileGroupWorld(GroupWorld):
    """Groups of up to twelve on three nodes.

    Attributes:
        turn_steps: Steps of a turn of a group's search, at least.
        pauses: How often a search has paused.
        born: How many pods each PodGroup was made for.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        rnd = self.rnd
        self.weights |= {name: weight * rnd.choice([0.3, 1, 3]) for name, weight in POD_GROUP_ACTIONS.items()}
        self.weights["create_pod"] *= 2
        self.pods_max, self.sizes = rnd.choice([(8, (2, 3)), (12, (1, 2, 3, 6)), (24, (3, 6, 12))])
        self.devices = rnd.choice([2, 4, 8])
        self.turn_steps = rnd.choice([1, 1, 60, 200])
        self.search_steps = rnd.choice([60, 60, 150])  # less would not let a pod begin to look
        self.pauses = 0
        self.are_searches_disturbed = self.conditions.has_faults
        self.born: dict[str, int] = {}
        for index in range(NODES):
            self.add_node(f"node-{index}", self.devices)
        self.founded = len(self.server.log)
        for _ in self.each_process():
            self.start_machine()

    # Pods and what they have

    def group_fields(self, name: str, needed: int) -> dict[str, Any]:
        rnd = self.rnd
        fields = super().group_fields(name, needed)
        if rnd.random() < 0.5:
            self.born[name] = needed
            fields = {"labels": {}, "schedulingGroup": {"podGroupName": name}, "priority": 0}
        fields["labels"][APP] = name
        match rnd.randrange(4):
            case 0 if needed <= NODES:
                fields |= _apart(name)
            case 1:
                fields |= _spread(name)
        return fields

    def claim_spec(self, pod: Pod, kind: str) -> dict[str, Any]:
        """Up to three requests; few pods ask for the same."""
        if APP not in (pod.metadata.labels or {}):
            return super().claim_spec(pod, kind)
        rnd, index = self.rnd, "device.attributes['gpu.example.com'].index"
        selectors = ["", f"{index} % 2 == {rnd.randrange(2)}", f"{index} != {rnd.randrange(100)}"]
        return builders.claim_spec_object(
            *(
                builders.request_object(f"r{number}", count=rnd.choice([1, 1, 2]), selector=rnd.choice(selectors))
                for number in range(rnd.choice([1, 1, 2, 3]) if kind == "big" else 1)
            )
        )

    # What users and controllers do

    def put_pod_group(self) -> None:
        """The PodGroup of some pods comes, with or without a number."""
        missing = [name for name in self._named() if PodGroupKey("default", name) not in self.server.pod_groups]
        if missing:
            self._put(self.rnd.choice(missing))

    def change_pod_group(self) -> None:
        if self.server.pod_groups:
            self._put(self.rnd.choice(sorted(self.server.pod_groups)).name)

    def delete_pod_group(self) -> None:
        if self.server.pod_groups:
            self.server.delete_pod_group(self.rnd.choice(sorted(self.server.pod_groups)))

    def _put(self, name: str) -> None:
        most = self.born[name]
        needed = self.rnd.choice([most, most, max(1, most - 1), 1, None])
        self.trace.append(f"PodGroup {name} needs {needed}")
        self.server.put_pod_group(PodGroup(PodGroupKey("default", name), f"uid-{next(self.uids)}", min_count=needed))

    def _named(self) -> list[str]:
        keys = (key_of_group(pod) for pod in self.server.pods.values())
        return list(dict.fromkeys(key.name for key in keys if key is not None and key.is_pod_group))

    def delete_member(self) -> None:
        """A pod of a group whose search has paused."""
        pods = [one.pod.key for search in self.searches() for one in search.order if one.pod.key in self.server.pods]
        if pods:
            self.server.delete_pod(self.rnd.choice(pods))

    def fire(self) -> None:
        if self.are_searches_disturbed and self.chance(0.4):
            self.disturb_search()
        super().fire()

    def disturb_search(self) -> None:
        """Something happens to a place that a search has found, and the machine sees it before the next turn."""
        places = [one for search in self.searches() for one in search.places.by_pod.values()]
        if not places:
            return
        one = self.rnd.choice(places)
        pod, name = self.server.pods.get(one.queued.pod.key), f"foreign-{next(self.names)}"
        what = self.rnd.randrange(4)
        self.trace.append(f"disturb {one.queued.pod.key} on {one.node}: {what}")
        match what:
            case 0 if pod is not None:
                self.replace_claim_of(pod)
            case 1:
                node = self.server.nodes[one.node]
                spec = structs.replace(node.spec, unschedulable=not node.spec.unschedulable)
                self.server.put_node(structs.replace(node, spec=spec))
            case 2 if one.reserved.held and not is_provisional(one.reserved.held[0].uid):
                self._take(name, one.node, one.reserved.held[0].allocation)
            case 3:
                labels = {APP: (one.queued.pod.metadata.labels or {}).get(APP, "")}
                self.server.put_pod(builders.pod(name, node=one.node, scheduler=FOREIGN, labels=labels))
        for kind in self.waiting_kinds():
            while self.process.unwatched[kind]:
                self.watch(kind)

    def _take(self, name: str, node: NodeName, allocation: Allocation) -> None:
        """A pod of another scheduler gets these devices, as far as nobody has them."""
        taken = {
            str(id_) for one in self.server.claims.values() if one.allocation for id_ in one.allocation.device_ids()
        }
        if taken.isdisjoint(map(str, allocation.device_ids())):
            user = builders.pod(name, claims=(f"{name}-gpu",), scheduler=FOREIGN, node=node)
            reserved = builders.claim("x", reserved_for=(user,)).reserved_for
            claim = builders.claim(f"{name}-gpu", uid=f"uid-{name}-{next(self.uids)}")
            self.server.put_claim(replace(claim, allocation=allocation, reserved_for=reserved, finalizers=(FINALIZER,)))
            self.server.put_pod(user)

    def searches(self) -> list[GroupAttempt]:
        """Those that have paused."""
        return list(self.machine._gangs._searches.values())

    # What must hold

    def tell(self, given: Input) -> None:
        with patch.object(group_cycles, "_TURN_STEPS", self.turn_steps):
            super().tell(given)
        self.pauses += isinstance(given, TimerFired) and any(self.searches())

    def check_placed(self, pod: Pod, node: NodeName) -> None:
        key = key_of_group(pod)
        store = self.machine.store
        if key is not None and key.is_pod_group and key.pod_group not in store.pod_groups:
            raise UnsafeError(f"pod {pod.key} was placed, PodGroup {key} was not seen")
        if not _is_constrained(pod):
            return
        here = {name: _alike(pod, info.pods.values()) for name, info in store.node_infos.items()}
        if pod.spec.affinity is not None and here[node]:
            raise UnsafeError(f"pod {pod.key} is on {node}, which {[one.key.name for one in here[node]]} forbid")
        if pod.spec.topology_spread_constraints:
            counts = {name: len([one for one in pods if not one.is_deleting]) for name, pods in here.items()}
            if counts[node] > min(counts.values()):
                raise UnsafeError(f"pod {pod.key} is on {node}, with it there are {counts}")

    def can_ever_run(self, pod: Pod) -> bool:
        """Where others of its group are can make a pod wait for ever."""
        return not _is_constrained(pod) and super().can_ever_run(pod)

    def end_faults(self) -> None:
        self.are_searches_disturbed = False
        for name in self._named():
            if PodGroupKey("default", name) not in self.server.pod_groups:
                self._put(name)
        super().end_faults()


def _is_constrained(pod: Pod) -> bool:
    return pod.spec.affinity is not None or bool(pod.spec.topology_spread_constraints)


def _alike(pod: Pod, others: Iterable[Pod]) -> list[Pod]:
    """The other pods that the pod's constraint is about."""
    app = (pod.metadata.labels or {})[APP]
    return [one for one in others if one.uid != pod.uid and (one.metadata.labels or {}).get(APP) == app]
