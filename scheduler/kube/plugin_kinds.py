"""The kinds that are watched only where a plugin reads them: volumes, CSI objects, what selects pods or guards them.

Rules of this module
  1. Where the API server does not have such a kind, or does not let us read it, it counts as empty. Each row says what
     that costs; it is reported, and all pods that need nothing of the kind go on.
  2. Of a Service or an owner of pods only the selector stays in memory; of a PodDisruptionBudget that and its count.

Not here: which plugins read what (`Plugin.reads`), the kinds that every scheduler reads (`codec`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple

from scheduler.core.ground.inputs import (
    DisruptionBudgetDeleted,
    DisruptionBudgetObserved,
    Input,
    PodSelectorDeleted,
    PodSelectorObserved,
    StorageDeleted,
    StorageObserved,
)
from scheduler.core.state.storage_objects import STORAGE_KINDS
from scheduler.kube.api_versions import ServedAs
from scheduler.kube.watched_kind import WatchedKind, checked
from scheduler.model.disruption_budget import DISRUPTION_BUDGET, DisruptionBudget
from scheduler.model.keys import ObjectKey
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.objects import LabelSelector, PodMeta, Record
from scheduler.model.pod_selectors import REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, STATEFUL_SET, PodSelector
from scheduler.model.storage import AnyStorageObject


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


class PluginKind(NamedTuple):
    """One row: the kind, where the API serves it, how it is decoded, and what its absence costs."""

    name: str
    group: str
    plural: str
    wire: Any
    cost: str


_STORAGE: Final = "storage.k8s.io"
_NOT_SPREAD: Final = "pods without constraints of their own are not spread by their"
PLUGIN_KINDS: Final = (
    PluginKind("PersistentVolumeClaim", "", "persistentvolumeclaims", None, "pods with such claims will wait"),
    PluginKind("PersistentVolume", "", "persistentvolumes", None, "pods with PersistentVolumeClaims will wait"),
    PluginKind("StorageClass", _STORAGE, "storageclasses", None, "pods whose claims have no volume yet will wait"),
    PluginKind("CSINode", _STORAGE, "csinodes", None, "nodes have no limit of attached volumes"),
    PluginKind("CSIDriver", _STORAGE, "csidrivers", None, "the storage that is left on a node is not looked at"),
    PluginKind(
        *("CSIStorageCapacity", _STORAGE, "csistoragecapacities", None),
        "pods whose volumes are made by a driver that publishes what it has left will wait",
    ),
    PluginKind(
        *("VolumeAttachment", _STORAGE, "volumeattachments", None),
        "volumes that no pod uses any more do not count towards a node's limit while they are attached",
    ),
    PluginKind(SERVICE, "", "services", _ByLabels, f"{_NOT_SPREAD} Services"),
    PluginKind(
        *(REPLICATION_CONTROLLER, "", "replicationcontrollers", _ByLabels), f"{_NOT_SPREAD} ReplicationController"
    ),
    PluginKind(REPLICA_SET, "apps", "replicasets", _BySelector, f"{_NOT_SPREAD} ReplicaSet"),
    PluginKind(STATEFUL_SET, "apps", "statefulsets", _BySelector, f"{_NOT_SPREAD} StatefulSet"),
    PluginKind(
        *(DISRUPTION_BUDGET, "policy", "poddisruptionbudgets", _Budget),
        "pods of lower priority make no room for others: nobody is preempted",
    ),
)


def plugin_kinds(kinds: Iterable[PluginKind] = PLUGIN_KINDS) -> dict[str, WatchedKind]:
    """How to watch each of them, by name."""
    watched = {}
    for one in kinds:
        observed: Callable[[Any], tuple[PodMeta, Input]]
        deleted: Callable[..., Input]
        if one.wire is None:
            observed, deleted = _observed_storage, partial(StorageDeleted, one.name)
        elif one.wire is _Budget:
            observed, deleted = _observed_budget, DisruptionBudgetDeleted
        else:
            observed = partial(_observed_labels if one.wire is _ByLabels else _observed_selector, one.name)
            deleted = partial(PodSelectorDeleted, one.name)
        watched[one.name] = WatchedKind(
            one.name,
            "",
            one.wire or STORAGE_KINDS[one.name],
            observed,
            partial(_deleted, deleted),
            served_as=ServedAs(one.group, ("v1",), one.plural),
            cost=one.cost,
        )
    return watched


def _deleted(input_: Callable[[ObjectKey, int], Input], key: ObjectKey, _: str, revision: int) -> Input:
    return input_(key, revision)


def _observed_storage(stored: AnyStorageObject) -> tuple[PodMeta, Input]:
    return checked(stored.metadata), StorageObserved(stored)


def _observed_labels(kind: str, wire: _ByLabels) -> tuple[PodMeta, Input]:
    meta = checked(wire.metadata)
    return meta, PodSelectorObserved(PodSelector(kind, _key(meta), _items(wire.spec.selector)), meta.revision)


def _observed_selector(kind: str, wire: _BySelector) -> tuple[PodMeta, Input]:
    meta, selector = checked(wire.metadata), wire.spec.selector or LabelSelector()
    made = PodSelector(kind, _key(meta), _items(selector.match_labels), selector.match_expressions or ())
    return meta, PodSelectorObserved(made, meta.revision)


def _observed_budget(wire: _Budget) -> tuple[PodMeta, Input]:
    meta, status = checked(wire.metadata), wire.status
    selector, disrupted = compile_label_selector(wire.spec.selector), frozenset(status.disrupted_pods or ())
    budget = DisruptionBudget(_key(meta), selector, status.disruptions_allowed, disrupted)
    return meta, DisruptionBudgetObserved(budget, meta.revision)


def _key(meta: PodMeta) -> ObjectKey:
    return ObjectKey(sys.intern(meta.namespace), meta.name)


def _items(labels: dict[str, str] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted([(sys.intern(key), value) for key, value in (labels or {}).items()]))
