"""Pods that wait for a change, found by the plugins that rejected them: one by one, or as groups of one signature.

Rules of this module
  1. A waiting pod is in one of two places: alone, under each of its rejecters, or a member of its signature's group,
     which is under the rejecters of all its members. So what `wakers` leads to is all that a change can help.

Not here: when a pod waits, and what becomes of one that is woken (`scheduling_queue`).

Cost: O(rejecters) for each pod that comes or goes; heaps of groups O(log members).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from scheduler.core.ground.indexes import drop
from scheduler.core.queue.queued_pod import QueuedPod, SignatureGroup
from scheduler.framework.api import Action, ClusterEvent, Plugin, Resource, TargetedHints
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.plan import PodSignature
from scheduler.framework.runner import Runner
from scheduler.model.keys import PodUid


class Waker(NamedTuple):
    """A plugin that some change of a kind of object may wake pods for."""

    actions: Action
    key: tuple[str, str]  # scheduler name and plugin name
    runner: Runner
    plugin: Plugin
    targeted: TargetedHints | None


class WaitingPods:
    """All pods that are unschedulable or gated."""

    def __init__(self, runners: Mapping[str, Runner], view: ClusterView) -> None:
        self._view: Final = view
        self._groups: Final[dict[PodSignature, SignatureGroup]] = {}
        self._alone_by_plugin: Final[dict[tuple[str, str], dict[PodUid, QueuedPod]]] = {}
        self._groups_by_plugin: Final[dict[tuple[str, str], dict[PodSignature, SignatureGroup]]] = {}
        self._wakers: Final[dict[Resource, list[Waker]]] = {}
        for runner in runners.values():
            for plugin in runner.plugins.values():
                targeted = plugin if isinstance(plugin, TargetedHints) else None
                for resource, action in plugin.wakes_on:
                    waker = Waker(action, (runner.scheduler_name, plugin.name), runner, plugin, targeted)
                    self._wakers.setdefault(resource, []).append(waker)
        self._wakers_by_change: Final[dict[tuple[Resource, Action], tuple[Waker, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._groups or self._alone_by_plugin)

    def groups(self) -> Iterable[SignatureGroup]:
        return self._groups.values()

    def alone(self) -> Iterable[QueuedPod]:
        """The pods that are in no group."""
        return {uid: pod for pods in self._alone_by_plugin.values() for uid, pod in pods.items()}.values()

    def can_be_woken(self, queued: QueuedPod) -> bool:
        """Whether some index leads to this waiting pod (for `invariants`)."""
        group = queued.group
        if group is not None and queued.uid in group.members:
            keys = _keys(group.signature.scheduler_name, queued.unschedulable_plugins)
            return bool(keys) and all(self._groups_by_plugin.get(key, {}).get(group.signature) is group for key in keys)
        keys = _keys(queued.runner.scheduler_name, queued.unschedulable_plugins)
        return bool(keys) and all(self._alone_by_plugin.get(key, {}).get(queued.uid) is queued for key in keys)

    # Who could be helped

    def wakers(self, resource: Resource, action: Action) -> tuple[Waker, ...]:
        """The plugins that such a change may wake pods for. Looked for once: intersecting flags is slow."""
        wakers = self._wakers_by_change.get((resource, action))
        if wakers is None:
            wakers = tuple(waker for waker in self._wakers.get(resource, ()) if waker.actions & action)
            self._wakers_by_change[resource, action] = wakers
        return wakers

    def awaiting(self, resource: Resource, action: Action) -> tuple[Waker, ...]:
        """The same, empty when none of them rejected a pod that waits (or may know pods that get another signature)."""
        wakers = self.wakers(resource, action)
        for waker in wakers:
            if waker.key in self._alone_by_plugin or waker.key in self._groups_by_plugin:
                return wakers
            if waker.targeted is not None and self._groups:
                return wakers
        return ()

    def concerned(self, waker: Waker, event: ClusterEvent) -> Iterable[PodUid] | None:
        """The only pods that the change concerns, where the plugin knows them."""
        if waker.targeted is None:
            return None
        return waker.runner.concerned(waker.targeted, event, self._view)

    def rejected_by(self, waker: Waker) -> tuple[QueuedPod, ...]:
        return tuple(self._alone_by_plugin.get(waker.key, {}).values())

    def groups_rejected_by(self, waker: Waker) -> tuple[SignatureGroup, ...]:
        return tuple(self._groups_by_plugin.get(waker.key, {}).values())

    def is_helped(self, queued: QueuedPod, waker: Waker, event: ClusterEvent) -> bool:
        """Whether the plugin rejected this pod and thinks that `event` could help it."""
        return (
            waker.key[0] == queued.runner.scheduler_name
            and waker.key[1] in queued.all_unschedulable_plugins
            and waker.runner.is_helped(waker.plugin, queued.pod, event, self._view)
        )

    # Coming and going

    def add(self, queued: QueuedPod) -> None:
        """The pod waits alone."""
        for key in _keys(queued.runner.scheduler_name, queued.unschedulable_plugins):
            self._alone_by_plugin.setdefault(key, {})[queued.uid] = queued

    def add_to_group(self, queued: QueuedPod, signature: PodSignature, now_ms: int) -> None:
        """The pod waits with all of its signature, none of which fits now."""
        group = self._groups.get(signature)
        if group is None:
            group = self._groups[signature] = SignatureGroup(signature, frozenset())
        for key in _keys(signature.scheduler_name, queued.unschedulable_plugins - group.unschedulable_plugins):
            self._groups_by_plugin.setdefault(key, {})[signature] = group
        group.unschedulable_plugins |= queued.unschedulable_plugins
        group.checked_ms = now_ms
        if group.leader is queued:
            group.leader = None
        queued.group = group
        group.members[queued.uid] = queued
        group.namespaces[queued.namespace] += 1
        group.push(queued)

    def remove(self, queued: QueuedPod) -> None:
        """The pod waits no more."""
        group = queued.group
        if group is None or queued.uid not in group.members:
            for key in _keys(queued.runner.scheduler_name, queued.unschedulable_plugins):
                drop(self._alone_by_plugin, key, queued.uid)
            return
        del group.members[queued.uid]
        group.namespaces[queued.namespace] -= 1
        if not group.namespaces[queued.namespace]:
            del group.namespaces[queued.namespace]
        queued.group = None
        if not group.members and group.leader is None:
            self.forget(group)

    def forget(self, group: SignatureGroup) -> None:
        """The group has no members and no leader."""
        self._groups.pop(group.signature, None)
        for key in _keys(group.signature.scheduler_name, group.unschedulable_plugins):
            drop(self._groups_by_plugin, key, group.signature)


def _keys(scheduler_name: str, unschedulable_plugins: Iterable[str]) -> list[tuple[str, str]]:
    return [(scheduler_name, name) for name in unschedulable_plugins]
