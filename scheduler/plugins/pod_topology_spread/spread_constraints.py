"""Spread constraints of a pod, its own or the defaults, checked and prepared: which pods and nodes they count.

Rules of this module
  1. A pod with constraints of its own has no others, not even for what they leave open.
  2. Default constraints select what the Services and the owner of the pod select; without those there are none.
  3. Before 1.38 an empty selector counts no pod, but the pod itself matches it; without a selector nothing matches.

Source: pkg/scheduler/framework/plugins/podtopologyspread (common.go, plugin.go) v1.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.pod_counts_view import PodQuestion
from scheduler.model.label_selectors import NOTHING, Selector, compile_label_selector
from scheduler.model.node_selectors import RequiredNodeAffinity, required_node_affinity
from scheduler.model.objects import Pod, Toleration, TopologySpreadConstraint
from scheduler.model.sized_cache import SizedCache

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
HONOR: Final = "Honor"
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY),
)
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_ANYWHERE: Final = RequiredNodeAffinity((), None)
_Nodes: TypeAlias = tuple[RequiredNodeAffinity | None, tuple[Toleration, ...]]
_Key: TypeAlias = tuple[str, bytes, tuple[tuple[str, str], ...], _Nodes, bool, bool]


class Constraint(msgspec.Struct, frozen=True):
    """One constraint.

    Attributes:
        selector: What the pod itself and changed pods are matched with.
        question: Counts the pods it is about, by value of `key`.
        honors_taints: Whether nodes count only if the pod tolerates their taints.
    """

    key: str
    max_skew: int
    min_domains: int
    selector: Selector
    question: PodQuestion
    honors_taints: bool


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """The constraints of a pod; one object for pods that have the same, so it is compared and hashed as one.

    Attributes:
        hard, soft: DoNotSchedule and ScheduleAnyway.
        requires_all: Nodes without one of the keys of soft constraints are ignored, where otherwise they count as one
            more domain.
    """

    hard: tuple[Constraint, ...]
    soft: tuple[Constraint, ...]
    requires_all: bool


NONE: Final = Constraints((), (), requires_all=True)


def constraints_of(
    pod: Pod, defaults: tuple[TopologySpreadConstraint, ...], *, are_system_defaults: bool, view: ClusterView
) -> Constraints:
    """The pod's constraints, or `defaults` with the selector that is found for the pod."""
    labels = pod.metadata.labels or {}
    own = pod.spec.topology_spread_constraints
    if own:
        keys = {key for one in own for key in one.match_label_keys or () if key in labels}
        matched = tuple((key, labels[key]) for key in sorted(keys))
        return _prepared(pod, _ENCODER.encode(own), matched, view, requires_all=True)
    selector = view.selectors_of(pod) if defaults else None
    if selector is None:
        return NONE
    encoded = _ENCODER.encode([msgspec.structs.replace(one, label_selector=selector) for one in defaults])
    return _prepared(pod, encoded, (), view, requires_all=not are_system_defaults)


def _prepared(
    pod: Pod, encoded: bytes, matched: tuple[tuple[str, str], ...], view: ClusterView, *, requires_all: bool
) -> Constraints:
    affinity = required_node_affinity(pod)
    nodes = affinity if affinity != _ANYWHERE else None, pod.spec.tolerations or ()
    key = pod.metadata.namespace, encoded, matched, nodes, requires_all, view.features.has_138_semantics
    found = _KEPT.get(key)
    if found is None:
        terms = affinity.terms or ()
        values = sum([3 + len(one.values) for term in terms for one in term.requirements])
        size = 500 + len(encoded) + 100 * (values + len(affinity.labels) + len(nodes[1]))
        found = _KEPT.put(key, _compile(key), size)
    return found


_KEPT: Final[SizedCache[_Key, Constraints]] = SizedCache(1_000_000)
"""In bytes, about. Without it pods that spread take 7 % more CPU (benchmarks.deciding --workload spread-zone)."""


def _compile(key: _Key) -> Constraints:
    namespace, encoded, matched, (affinity, tolerations), requires_all, counts_empty = key
    decoded = msgspec.json.decode(encoded, type=tuple[TopologySpreadConstraint, ...])
    labels = dict(matched)

    def prepare(action: str) -> tuple[Constraint, ...]:
        chosen = [one for one in decoded if one.when_unsatisfiable == action]
        needs_all = action == DO_NOT_SCHEDULE or requires_all
        keys = tuple(sorted({one.topology_key for one in chosen})) if needs_all else ()
        return tuple(_constraint(one, keys, needs_all=needs_all) for one in chosen)

    def _constraint(one: TopologySpreadConstraint, keys: tuple[str, ...], *, needs_all: bool) -> Constraint:
        selector = _selector(one, labels)
        honors_taints = one.node_taints_policy == HONOR
        question = PodQuestion(
            clauses=((frozenset({namespace}), NOTHING if selector.is_empty and not counts_empty else selector),),
            key=one.topology_key,
            skips_terminating=True,
            needed_keys=tuple(key for key in keys if key != one.topology_key),
            affinity=affinity if one.node_affinity_policy in (None, HONOR) else None,
            tolerations=tolerations if honors_taints else None,
            counts_keyless=not needs_all,
        )
        min_domains = 1 if one.min_domains is None else one.min_domains
        return Constraint(one.topology_key, one.max_skew, min_domains, selector, question, honors_taints)

    return Constraints(prepare(DO_NOT_SCHEDULE), prepare(SCHEDULE_ANYWAY), requires_all)


def _selector(one: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    keys = one.match_label_keys or ()
    return compile_label_selector(one.label_selector).and_labels({key: labels[key] for key in keys if key in labels})
