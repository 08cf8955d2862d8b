"""The kinds that are watched only where a plugin reads them: volumes, CSI objects, what selects pods or guards them.

Rules of this module
  1. Where the API server does not have such a kind, or does not let us read it, it counts as empty. Each row says what
     that costs; it is reported, and all pods that need nothing of the kind go on.
  2. Of a Service or an owner of pods only the selector stays in memory; of a PodDisruptionBudget that and its count.

Not here: which plugins read what (`Plugin.reads`), the kinds that every scheduler reads (`codec`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from scheduler.core.state.storage_objects import STORAGE_KINDS
from scheduler.kube.api_versions import ServedAs
from scheduler.kube.watched_kind import WatchedKind
from scheduler.model.disruption_budget import DISRUPTION_BUDGET, DisruptionBudget
from scheduler.model.keys import ObjectKey
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.objects import LabelSelector, PodMeta, Record
from scheduler.model.pod_selectors import REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, STATEFUL_SET, PodSelector


class _LabelsSpec(Record, frozen=True):
    selector: dict[str, str] | None = None


class _SelectorSpec(Record, frozen=True):
    selector: LabelSelector | None = None


class _ByLabels(Record, frozen=True):
    """A Service or ReplicationController."""

    metadata: PodMeta
    spec: _LabelsSpec = _LabelsSpec()


class _BySelector(Record, frozen=True):
    """A ReplicaSet or StatefulSet."""

    metadata: PodMeta
    spec: _SelectorSpec = _SelectorSpec()


class _BudgetStatus(Record, frozen=True):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] | None = None


class _Budget(Record, frozen=True):
    """A PodDisruptionBudget."""

    metadata: PodMeta
    spec: _SelectorSpec = _SelectorSpec()
    status: _BudgetStatus = _BudgetStatus()


def _of_labels(kind: str, wire: _ByLabels) -> PodSelector:
    return PodSelector(kind, _key(wire.metadata), _items(wire.spec.selector))


def _of_selector(kind: str, wire: _BySelector) -> PodSelector:
    selector = wire.spec.selector or LabelSelector()
    return PodSelector(kind, _key(wire.metadata), _items(selector.match_labels), selector.match_expressions or ())


def _budget(wire: _Budget) -> DisruptionBudget:
    selector, disrupted = compile_label_selector(wire.spec.selector), frozenset(wire.status.disrupted_pods or ())
    return DisruptionBudget(_key(wire.metadata), selector, wire.status.disruptions_allowed, disrupted)


def _key(meta: PodMeta) -> ObjectKey:
    return ObjectKey(sys.intern(meta.namespace), meta.name)


def _items(labels: dict[str, str] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted([(sys.intern(key), value) for key, value in (labels or {}).items()]))


class PluginKind(NamedTuple):
    """One row: the kind, where the API serves it, what its absence costs, and how it is decoded (as `WatchedKind`)."""

    name: str
    group: str
    plural: str
    cost: str
    decoding: tuple[Any, Callable[[Any], object]] | None = None
    """None for kinds of `model.storage`."""


_STORAGE: Final = "storage.k8s.io"
_NOT_SPREAD: Final = "pods without constraints of their own are not spread by their"
PLUGIN_KINDS: Final = (
    PluginKind("PersistentVolumeClaim", "", "persistentvolumeclaims", "pods with such claims will wait"),
    PluginKind("PersistentVolume", "", "persistentvolumes", "pods with PersistentVolumeClaims will wait"),
    PluginKind("StorageClass", _STORAGE, "storageclasses", "pods whose claims have no volume yet will wait"),
    PluginKind("CSINode", _STORAGE, "csinodes", "nodes have no limit of attached volumes"),
    PluginKind("CSIDriver", _STORAGE, "csidrivers", "the storage that is left on a node is not looked at"),
    PluginKind(
        *("CSIStorageCapacity", _STORAGE, "csistoragecapacities"),
        "pods whose volumes are made by a driver that publishes what it has left will wait",
    ),
    PluginKind(
        *("VolumeAttachment", _STORAGE, "volumeattachments"),
        "volumes that no pod uses any more do not count towards a node's limit while they are attached",
    ),
    PluginKind(SERVICE, "", "services", f"{_NOT_SPREAD} Services", (_ByLabels, partial(_of_labels, SERVICE))),
    PluginKind(
        *(REPLICATION_CONTROLLER, "", "replicationcontrollers", f"{_NOT_SPREAD} ReplicationController"),
        (_ByLabels, partial(_of_labels, REPLICATION_CONTROLLER)),
    ),
    PluginKind(
        *(REPLICA_SET, "apps", "replicasets", f"{_NOT_SPREAD} ReplicaSet"),
        (_BySelector, partial(_of_selector, REPLICA_SET)),
    ),
    PluginKind(
        *(STATEFUL_SET, "apps", "statefulsets", f"{_NOT_SPREAD} StatefulSet"),
        (_BySelector, partial(_of_selector, STATEFUL_SET)),
    ),
    PluginKind(
        *(DISRUPTION_BUDGET, "policy", "poddisruptionbudgets"),
        "pods of lower priority make no room for others: nobody is preempted",
        (_Budget, _budget),
    ),
)


def plugin_kinds() -> dict[str, WatchedKind]:
    """How to watch each of them, by name."""
    return {
        one.name: WatchedKind(
            one.name,
            "",
            *(one.decoding or (STORAGE_KINDS[one.name],)),
            served_as=ServedAs(one.group, ("v1",), one.plural),
            cost=one.cost,
        )
        for one in PLUGIN_KINDS
    }
