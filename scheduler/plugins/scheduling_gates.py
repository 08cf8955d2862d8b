"""SchedulingGates: keep pods out of the queue while someone holds a gate on them.

Extension points: PreEnqueue, RequeueHints.
Reads: pod.spec.schedulingGates.  Writes: nothing.
Upstream: pkg/scheduler/framework/plugins/schedulinggates (same verdicts, same reason text).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits, with_spec
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.why.reasons import Fix, Reason

NAME: Final = "SchedulingGates"


@dataclass(frozen=True, slots=True)
class SchedulingGates:
    """Reject a pod that has scheduling gates left."""

    name: str = NAME
    wakes_on: tuple[tuple[Resource, Action], ...] = ((Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),)

    def pre_enqueue(self, pod: Pod, view: ClusterView) -> Status:
        gates = pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        return Status.unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")

    def diagnose(self, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits) -> Sequence[Reason]:
        """The gates, and the pod without them: whoever set one must remove it."""
        pod, gates = cycle.pod, cycle.pod.spec.scheduling_gates or ()
        if not gates:
            return ()
        fields = {"pod": pod.key, "gates": tuple([one.name for one in gates])}
        free = with_spec(pod, scheduling_gates=None)
        on = tuple(view.node_infos)[: limits.nodes]
        fix = Fix("gate-removed", fields, on, pod=free, objects=(f"pod/{pod.key}",))  # whatever makes such pods
        return (Reason("scheduling-gate", fields, fixes=(fix,)),)

    def hint(self, pod: Pod, change: ClusterEvent, view: ClusterView) -> Hint:
        """Wake `pod` when it is the pod that lost its gates."""
        changed = change.new
        return Hint.QUEUE if isinstance(changed, Pod) and changed.uid == pod.uid else Hint.SKIP
