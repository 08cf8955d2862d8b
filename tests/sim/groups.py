"""Worlds whose pods belong to groups: all that are needed get a node in one turn, or none does.

What is checked at each step: whenever a machine gives a pod of a group a node, at least as many of the group have one
as it needs. At the end, where there is room for all, every group that can be whole is bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.core.ground.inputs import Input
from scheduler.model.group import GROUP_LABEL, MIN_COUNT_LABEL, GroupKey, key_of_group
from scheduler.model.keys import NodeName, PodGroupKey
from scheduler.model.objects import Pod
from scheduler.model.pod_group import PodGroup
from tests.sim.foreign_scheduler import UnsafeError
from tests.sim.records import is_foreign
from tests.sim.world import World


class GroupWorld(World):
    """Most pods belong to a group of two or three, which come one after the other."""

    sizes: Sequence[int] = (1, 2, 2, 3)
    open_group = ("", 0, 0)  # its name, how many pods it needs, how many of them are still to come
    open_fields: Mapping[str, Any] = {}  # what its pods have
    turns_taken = 0
    """In how many turns a group was given nodes."""

    def pod_fields(self) -> dict[str, Any]:
        fields = super().pod_fields()
        name, needed, to_come = self.open_group
        if not to_come:
            needed = to_come = self.rnd.choice(self.sizes)
            name = f"group-{next(self.uids)}"
            self.open_fields = self.group_fields(name, needed) if needed > 1 else {}
        self.open_group = name, needed, to_come - 1
        labels = {**(fields["labels"] or {}), **self.open_fields.get("labels", {})}
        return {**fields, **self.open_fields, "labels": labels}

    def group_fields(self, name: str, needed: int) -> dict[str, Any]:
        """What the pods of a new group have."""
        return {"labels": {GROUP_LABEL: name, MIN_COUNT_LABEL: str(needed)}}

    def tell(self, given: Input) -> None:
        before = set(self.machine.store.assumed)
        super().tell(given)
        store = self.machine.store
        placed = [store.pods[uid] for uid in store.assumed.keys() - before]
        for key in {key_of_group(pod) for pod in placed}:
            if key is not None:
                self.turns_taken += 1
                self.check_group(key)
        for pod in placed:
            self.check_placed(pod, store.assumed[pod.uid])

    def check_placed(self, pod: Pod, node: NodeName) -> None:
        """The machine has given the pod a node."""

    def check_group(self, key: GroupKey) -> None:
        """The machine has given pods of the group a node."""
        store = self.machine.store
        members = [store.pods[uid] for uid in store.gangs.of(key)]
        placed = [one for one in members if one.node_name is not None or one.uid in store.assumed]
        if len(placed) < self.needed(key, members, store.pod_groups):
            raise UnsafeError(f"group {key}: {[one.key.name for one in placed]} were placed without the others")

    def needed(self, key: GroupKey, members: list[Pod], pod_groups: Mapping[PodGroupKey, PodGroup]) -> int:
        """How many of the group's pods are placed together or not at all."""
        if key.is_pod_group:
            return pod_groups[key.pod_group].min_count or 0
        return max(int((one.metadata.labels or {})[MIN_COUNT_LABEL]) for one in members)

    def can_ever_run(self, pod: Pod) -> bool:
        if not super().can_ever_run(pod):
            return False
        key = key_of_group(pod)
        if key is None:
            return True
        pod_groups = {group.key: group for group, _ in self.server.pod_groups.values()}
        if key.is_pod_group and key.pod_group not in pod_groups:
            return False
        members = [
            one for one in self.server.pods.values() if key_of_group(one) == key and one.status.phase != "Failed"
        ]
        able = [one for one in members if one.node_name is not None or self.could_run_alone(one)]
        return len(able) >= self.needed(key, members, pod_groups)

    def could_run_alone(self, pod: Pod) -> bool:
        if pod.is_deleting or pod.is_terminal or is_foreign(pod):
            return False
        return super().can_ever_run(pod)
