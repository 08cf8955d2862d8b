"""Pods that wait, each with a node that was named for it: others of lower priority must not take its place there.

A pod is nominated by its `status.nominatedNodeName`, while it is neither bound nor assumed. Whoever is asked about that
node and is not more important must fit beside it, too.

Rules of this module
  1. Nominations count whoever schedules the pod: where kube-scheduler runs beside us, its preemption is respected.
  2. A pod for which room is being made is nominated for that node, whatever its status says yet.

Not here: what plugins say of a node with them (`dry_run`); who nominates (PostFilter); how
room is made (`preemptions`).

Source: pkg/scheduler/backend/queue/nominator.go and RunFilterPluginsWithNominatedPods of
pkg/scheduler/framework/runtime/framework.go v1.36.3. Differs on purpose: rule 1 (upstream: pods of its own profiles).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.core.ground.indexes import drop
from scheduler.framework.preemption import Preemption
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, NodeName, PodUid
from scheduler.model.objects import Pod


class Nominations:
    """All of them."""

    def __init__(self) -> None:
        self._node_of: Final[dict[PodUid, NodeName]] = {}
        self._by_node: Final[dict[NodeName, dict[PodUid, Pod]]] = {}
        self.preempting: Final[dict[PodUid, Preemption]] = {}
        """For whom room is being made, and what of it is not there yet (`preemption_records` writes it)."""
        self.victims: Final[dict[PodUid, dict[PodUid, None]]] = {}
        """Pods that go, each with those for whom it goes; as `preempting` says it."""
        self.awaited: Final[dict[ClaimKey, dict[PodUid, None]]] = {}
        """Claims that are to be released, each with the pods that wait for it; as `preempting` says it."""
        self.given_away: Final[dict[ClaimKey, Held]] = {}
        """Claims that were waited for in vain, with what they have had since (`preemptions` writes it)."""

    def wanted(self, pod: Pod) -> str:
        """The node for which a pod that waits is nominated, "" for none."""
        preemption = self.preempting.get(pod.uid)
        return pod.status.nominated_node_name if preemption is None else preemption.node

    def set(self, uid: PodUid, pod: Pod | None, node: str, *, is_kept_anew: bool = False) -> Iterator[NodeName]:
        """The pod is nominated for `node`, "" for none; yields the nodes for which that is another answer.

        Args:
            is_kept_anew: What `preempting` says of the pod has changed, which is part of the answer.
        """
        before = self._node_of.pop(uid, "")
        if before and before != node:
            drop(self._by_node, NodeName(before), uid)
            yield NodeName(before)
        if node and pod is not None:
            name = self._node_of[uid] = NodeName(node)
            pods = self._by_node.setdefault(name, {})
            is_new = pods.get(uid) is not pod or is_kept_anew
            pods[uid] = pod
            if is_new:
                yield name

    def concerns(self, uid: PodUid) -> bool:
        return uid in self._node_of or uid in self.preempting

    def node_of(self, uid: PodUid) -> NodeName | None:
        return self._node_of.get(uid)

    def ahead_of(self, pod: Pod, node: NodeName) -> list[Pod]:
        """The pods that `pod` must leave room for on `node`: nominated there, and at least as important."""
        pods = self._by_node.get(node)
        if not pods:
            return []
        priority = pod.spec.priority or 0
        return [one for uid, one in pods.items() if uid != pod.uid and (one.spec.priority or 0) >= priority]

    def behind(self, pod: Pod, node: NodeName) -> list[Pod]:
        """The less important pods that are nominated for `node`."""
        priority = pod.spec.priority or 0
        return [one for one in self._by_node.get(node, {}).values() if (one.spec.priority or 0) < priority]

    def at(self, node: NodeName, *, but: PodUid | None = None) -> bool:
        """Whether any pod is nominated for the node, or any other than this one."""
        pods = self._by_node.get(node)
        return pods is not None and (but not in pods or len(pods) > 1)
