"""Whether a pod fits on a node beside the pods that are nominated for it.

Not here: for how long that holds, and the verdict on the node as it is (`feasibility`).

Source: RunFilterPluginsWithNominatedPods of pkg/scheduler/framework/runtime/framework.go v1.36.3. Differs on purpose:
PreFilter is run again instead of each plugin's AddPod, as its answers are kept up to date from what changed.
"""

from __future__ import annotations

from scheduler.core.store import Store
from scheduler.framework.api import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, Status
from scheduler.model.node_info import NodeInfo


def beside_nominated(runner: Runner, cycle: Cycle, node: NodeInfo, store: Store, view: ClusterView) -> Status:
    """What the plugins say of `node` as if the pods were there that the cycle's pod must leave room for."""
    pods = store.nominations.ahead_of(cycle.pod, node.name)
    if not pods:
        return SUCCESS
    supposed = node.simulated(added=pods)
    attempt = Cycle(cycle.pod, cycle.now_ms, cycle.steps_left)
    with store.pod_counts.as_if(supposed):
        filtered = runner.pre_filter(attempt, view)
        if not filtered.status.is_success:
            return filtered.status
        plan = runner.plan(attempt, view, filtered)
        status = plan if isinstance(plan, Status) else runner.verdict(plan, attempt, supposed, view)
    cycle.steps_left = attempt.steps_left
    return status
