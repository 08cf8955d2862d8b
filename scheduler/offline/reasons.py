"""Why a pod does not fit, node by node: the verdict of the first plugin that refuses, and where devices are missing
how many of them each rule took away.

Not here: the verdict (`verdicts`), the counting (`allocator.explain`).

Cost: O(nodes) for the plugins' verdicts; the counting looks at every device, so it is made for the first
`funnels_max` nodes only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from allocator import AllocationError, explain
from scheduler.core.cluster_view import CoreView
from scheduler.framework.cycle import Cycle
from scheduler.framework.status import Code, Status
from scheduler.model.keys import PodUid
from scheduler.model.node_info import NodeInfo
from scheduler.offline.verdicts import Question, Verdict
from scheduler.plugins.dynamic_resources import NAME as DYNAMIC_RESOURCES
from scheduler.plugins.dynamic_resources.claims_slot import ClaimsSlot


@dataclass(frozen=True, slots=True)
class NodeReason:
    """One node's answer; `devices` says, where it was counted, of each request how many devices each rule took away."""

    node: str
    plugin: str
    reason: str
    devices: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "; ".join(self.devices) or self.reason


def node_reasons(question: Question, verdict: Verdict, *, budget_steps: int, funnels_max: int) -> list[NodeReason]:
    """The nodes that refuse a pod, in the order of their names; none where it is refused before nodes are asked."""
    machine = question.machine
    pod = machine.store.pods.get(PodUid(verdict.uid))
    runner = machine.runners.get(pod.spec.scheduler_name) if pod is not None else None
    if pod is None or runner is None:
        return []
    view = CoreView(machine.store, machine.overlay, lambda: "")
    cycle = Cycle(pod, question.cluster.now_ms)
    filtered = runner.pre_filter(cycle, view)
    if not filtered.status.is_success:
        return []
    plan = runner.plan(cycle, view, filtered)
    if isinstance(plan, Status):
        return []
    reasons: list[NodeReason] = []
    funnels = 0
    for name in machine.store.node_order:
        if filtered.node_names is not None and name not in filtered.node_names:
            plugins = " ".join(filtered.narrowing)
            reasons.append(NodeReason(name, plugins, f"node(s) didn't satisfy plugin(s) [{plugins}]"))
            continue
        node = machine.store.node_infos[name]
        status = runner.filter((*plan.filters, *plan.live_filters), cycle, node, view)
        if status.code is Code.SUCCESS:
            continue
        devices: tuple[str, ...] = ()
        if status.plugin == DYNAMIC_RESOURCES and funnels < funnels_max:
            funnels += 1
            devices = tuple(_funnels(cycle, node, view, budget_steps))
        reasons.append(NodeReason(name, status.plugin, status.message, devices))
    return reasons


def _funnels(cycle: Cycle, node: NodeInfo, view: CoreView, budget_steps: int) -> Iterator[str]:
    """Of each request that the node lacks devices for, how many each rule took away; of all where none lacks any."""
    slot = cycle.find(ClaimsSlot)
    if slot is None:
        return
    wanted = slot.wanted
    if slot.special is not None:
        needed = slot.special.on(node)
        if not isinstance(needed, Status) and needed.wanted is not None:
            wanted = (*wanted, needed.wanted)
    if not wanted:
        return
    try:
        explanation = explain(
            wanted, node.host, view.inventory, view.in_use, features=view.features, budget_steps=budget_steps
        )
    except AllocationError as error:
        yield str(error)
        return
    short = [request for request in explanation.requests if request.left < max(request.wanted, 1)]
    yield from map(str, short or explanation.requests)
    if explanation.pools_left_out:
        yield f"left out: {', '.join(explanation.pools_left_out)}"
