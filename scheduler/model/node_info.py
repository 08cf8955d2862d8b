"""A node with what runs on it."""

from __future__ import annotations

from scheduler.model.keys import NodeName, PodUid
from scheduler.model.objects import Node, Pod


class NodeInfo:
    """One node, the pods bound to it or assumed there, and the sums plugins need. Written only by the core.

    `generation` grows with every change that a Filter or Score plugin could see on this node: the node object, its
    pods, devices on it coming into or out of use, slices published for it. Equal generation, equal verdict.
    """

    __slots__ = ("generation", "name", "node", "pods", "requested")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name: NodeName = node.name
        self.generation = 0
        self.pods: dict[PodUid, Pod] = {}
        # Sums of pod requests by resource name (cpu in milli, others in base units; "pods" counts pods), kept by core
        # through scheduler.model.resources.pod_requests.
        self.requested: dict[str, int] = {}
