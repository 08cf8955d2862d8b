"""A node with what runs on it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

from allocator import NodeView
from scheduler.model.host_ports import host_ports
from scheduler.model.keys import ClaimKey, NodeName, PodUid
from scheduler.model.label_set import LabelSet, likeness_of
from scheduler.model.objects import Node, Pod
from scheduler.model.pod_terms import PodTerm, pod_terms
from scheduler.model.resources import PODS, counted_amounts, node_allocatable

Name = TypeVar("Name", bound=Hashable)


class NodeInfo:
    """One node, the pods bound to it or assumed there, and the sums plugins need. Written only by the core.

    `generation` grows with every change that a Filter or Score plugin could see on this node: the node object, its
    pods, devices on it coming into or out of use, slices published for it. Equal generation, equal verdict.
    """

    __slots__ = (
        "_allocatable",
        "_allocatable_of",
        "_host",
        "_host_of",
        "claim_users",
        "generation",
        "likenesses",
        "name",
        "node",
        "pod_terms",
        "pods",
        "requested",
        "scoring_requested",
        "used_ports",
    )

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name: NodeName = node.name
        self.generation = 0
        self.pods: dict[PodUid, Pod] = {}
        # Sums of pod requests by resource name (cpu in milli, others in base units; "pods" counts pods), kept by
        # `add_pod` and `remove_pod`.
        self.requested: dict[str, int] = {}
        # The same for scoring: containers without cpu or memory requests count with upstream's assumed amounts.
        self.scoring_requested: dict[str, int] = {}
        # How many pods here use an address, by protocol and host port.
        self.used_ports: dict[tuple[str, int], dict[str, int]] = {}
        # How many pods here look alike to selectors, and how many have a term of pod affinity or anti-affinity.
        self.likenesses: dict[LabelSet, int] = {}
        self.pod_terms: dict[PodTerm, int] = {}
        # How many pods here have a claim that takes of the node's own resources.
        self.claim_users: dict[ClaimKey, int] = {}
        self._allocatable: dict[str, int] = {}
        self._allocatable_of: Node | None = None
        self._host = NodeView(self.name)
        self._host_of: Node | None = None

    @property
    def host(self) -> NodeView:
        """The node as the allocator sees it; made once per node object."""
        if self._host_of is not self.node:
            self._host = NodeView(self.name, self.node.labels, self.node.status.declared_features or ())
            self._host_of = self.node
        return self._host

    @property
    def allocatable(self) -> dict[str, int]:
        """`status.allocatable` of `node` in the units of `requested`; computed once per node object."""
        if self._allocatable_of is not self.node:
            self._allocatable = node_allocatable(self.node)
            self._allocatable_of = self.node
        return self._allocatable

    def add_pod(self, pod: Pod) -> None:
        """Count `pod` on this node, replacing an earlier state of the same pod. Does not touch `generation`."""
        uid = pod.uid
        self.remove_pod(uid)
        self.pods[uid] = pod
        self._count(pod, 1)

    def simulated(self, *, added: Iterable[Pod] = (), removed: Iterable[PodUid] = ()) -> NodeInfo:
        """The node as it would be with some pods more and some less. Cost: O(these pods), and copies of the sums."""
        info = NodeInfo(self.node)
        info._host, info._host_of = self._host, self._host_of
        info._allocatable, info._allocatable_of = self._allocatable, self._allocatable_of
        info.pods = dict(self.pods)
        info.requested = dict(self.requested)
        info.scoring_requested = dict(self.scoring_requested)
        info.used_ports = {port: dict(addresses) for port, addresses in self.used_ports.items()}
        info.likenesses = dict(self.likenesses)
        info.pod_terms = dict(self.pod_terms)
        info.claim_users = dict(self.claim_users)
        for uid in removed:
            info.remove_pod(uid)
        for pod in added:
            info.add_pod(pod)
        return info

    def remove_pod(self, uid: PodUid) -> Pod | None:
        """Take the pod's requests out again; None when it is not here. Does not touch `generation`."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._count(pod, -1)
        return pod

    def _count(self, pod: Pod, sign: int) -> None:
        amounts = counted_amounts(pod)
        for name, amount in amounts.requests.items():
            _add(self.requested, name, sign * amount)
        _add(self.requested, PODS, sign)
        for name, amount in amounts.scoring.items():
            _add(self.scoring_requested, name, sign * amount)
        _add(self.likenesses, likeness_of(pod), sign)
        if pod.spec.affinity is not None:
            for term in pod_terms(pod):
                _add(self.pod_terms, term, sign)
        for port in host_ports(pod):
            key = (port.protocol, port.port)
            addresses = self.used_ports.setdefault(key, {})
            _add(addresses, port.address, sign)
            if not addresses:
                del self.used_ports[key]
        for claim in pod.status.node_allocatable_resource_claim_statuses or ():
            if not (claim.resources or claim.mapping):
                continue  # overhead alone may be shared
            _add(self.claim_users, ClaimKey(pod.metadata.namespace, claim.resource_claim_name), sign)


def _add(sums: dict[Name, int], name: Name, amount: int) -> None:
    total = sums.get(name, 0) + amount
    if total:
        sums[name] = total
    else:
        sums.pop(name, None)  # sums over the same pods compare equal, whatever came and went
