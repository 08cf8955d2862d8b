"""The kinds the embedded API server serves. One entry adds a kind."""

from __future__ import annotations

from functools import partial
from typing import Final

from scheduler.embedded.kinds.claim_kinds import ClaimStrategy, ClaimTemplateStrategy
from scheduler.embedded.kinds.core_strategies import (
    NODE_INFO,
    LeaseStrategy,
    NamespaceStrategy,
    NodeStrategy,
)
from scheduler.embedded.kinds.disruption_budgets import DisruptionBudgetStrategy
from scheduler.embedded.kinds.events import SELECTABLE as EVENT_FIELDS
from scheduler.embedded.kinds.events import CoreEventStrategy, EventStrategy, to_core_v1, to_events_v1
from scheduler.embedded.kinds.pod_kinds import PodStrategy
from scheduler.embedded.kinds.priorities import PriorityClassStrategy
from scheduler.embedded.kinds.slice_kinds import DeviceClassStrategy, DeviceTaintRuleStrategy, SliceStrategy
from scheduler.embedded.kinds.sub_resources import bind_pod, evict_pod, finalize_namespace
from scheduler.embedded.kinds.volume_strategies import (
    PersistentVolumeClaimStrategy,
    PersistentVolumeStrategy,
    StorageClassStrategy,
)
from scheduler.embedded.kinds.workload_strategies import (
    DAEMON_SET_STATUS,
    DaemonSetStrategy,
    DeploymentStrategy,
    JobStrategy,
    ReplicaSetStrategy,
    StatefulSetStrategy,
)
from scheduler.embedded.server.served_kinds import Registry, ServedKind, SubResource

_POD_FIELDS: Final = (
    *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork"),
    *("status.phase", "status.podIP", "status.nominatedNodeName"),
)
_TEMPLATE: Final = {"metadata": {}, "spec": {"containers": None}}
_DRA: Final = "resource.k8s.io/v1"
_STORAGE: Final = "storage.k8s.io/v1"

_of_cluster: Final = partial(ServedKind, is_namespaced=False)
_with_status: Final = partial(ServedKind, has_status=True)
_workload: Final = partial(_with_status, categories=("all",))

NAMESPACE: Final = _of_cluster(
    *("v1", "Namespace", NamespaceStrategy()),
    short_names=("ns",),
    has_status=True,
    sub_resources={"finalize": SubResource(finalize_namespace, method="PUT", verb="update")},
    selectable={"status.phase": "status.phase"},
    bookmark={"spec": {}, "status": {}},
)
NODE: Final = _of_cluster(
    *("v1", "Node", NodeStrategy()),
    short_names=("no",),
    has_status=True,
    selectable={"spec.unschedulable": "spec.unschedulable"},
    bookmark={
        "spec": {},
        "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": dict.fromkeys(NODE_INFO, "")},
    },
)
POD: Final = _workload(
    *("v1", "Pod", PodStrategy()),
    short_names=("po",),
    sub_resources={
        "binding": SubResource(bind_pod, body=("", "v1", "Binding")),
        "eviction": SubResource(evict_pod, body=("policy", "v1", "Eviction")),
    },
    selectable={field: field for field in _POD_FIELDS},
    bookmark={"spec": {"containers": None}, "status": {}},
)
EVENT: Final = ServedKind(
    *("v1", "Event", CoreEventStrategy()),
    short_names=("ev",),
    selectable=EVENT_FIELDS,
    bookmark={
        **{"involvedObject": {}, "source": {}, "firstTimestamp": None, "lastTimestamp": None, "eventTime": None},
        **{"reportingComponent": "", "reportingInstance": ""},
    },
)
DEPLOYMENT: Final = _workload(
    *("apps/v1", "Deployment", DeploymentStrategy()),
    short_names=("deploy",),
    bookmark={"spec": {"replicas": 0, "selector": None, "template": _TEMPLATE, "strategy": {}}, "status": {}},
)
REPLICA_SET: Final = _workload(
    *("apps/v1", "ReplicaSet", ReplicaSetStrategy()),
    short_names=("rs",),
    bookmark={"spec": {"replicas": 0, "selector": None, "template": _TEMPLATE}, "status": {"replicas": 0}},
)
STATEFUL_SET: Final = _workload(
    *("apps/v1", "StatefulSet", StatefulSetStrategy()),
    short_names=("sts",),
    bookmark={"spec": {"selector": None, "template": _TEMPLATE, "updateStrategy": {}}, "status": {"replicas": 0}},
)
DAEMON_SET: Final = _workload(
    *("apps/v1", "DaemonSet", DaemonSetStrategy()),
    short_names=("ds",),
    bookmark={
        "spec": {"selector": None, "template": _TEMPLATE, "updateStrategy": {}},
        "status": dict.fromkeys(DAEMON_SET_STATUS, 0),
    },
)
JOB: Final = _workload("batch/v1", "Job", JobStrategy(), bookmark={"spec": {"template": _TEMPLATE}, "status": {}})
CLAIM: Final = _with_status(
    _DRA, "ResourceClaim", ClaimStrategy(), bookmark={"spec": {"devices": {"requests": None}}, "status": {}}
)
CLAIM_TEMPLATE: Final = ServedKind(
    *(_DRA, "ResourceClaimTemplate", ClaimTemplateStrategy()),
    bookmark={"spec": {"metadata": {}, "spec": {"devices": {"requests": None}}}},
)
LEASE: Final = ServedKind("coordination.k8s.io/v1", "Lease", LeaseStrategy(), bookmark={"spec": {}})
VOLUME: Final = _of_cluster(
    *("v1", "PersistentVolume", PersistentVolumeStrategy()),
    short_names=("pv",),
    has_status=True,
    bookmark={"spec": {}, "status": {}},
)
VOLUME_CLAIM: Final = _with_status(
    *("v1", "PersistentVolumeClaim", PersistentVolumeClaimStrategy()),
    short_names=("pvc",),
    bookmark={"spec": {"resources": {}}, "status": {}},
)
STORAGE_CLASS: Final = _of_cluster(
    _STORAGE, "StorageClass", StorageClassStrategy(), short_names=("sc",), bookmark={"provisioner": ""}
)
DISRUPTION_BUDGET: Final = _with_status(
    *("policy/v1", "PodDisruptionBudget", DisruptionBudgetStrategy()),
    short_names=("pdb",),
    bookmark={
        "spec": {},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    },
)

KINDS: Final = (
    *(NAMESPACE, NODE, POD, EVENT),
    ServedKind("v1", "ConfigMap", short_names=("cm",)),
    ServedKind("v1", "Secret", selectable={"type": "type"}),
    _workload("v1", "Service", short_names=("svc",), bookmark={"spec": {}, "status": {"loadBalancer": {}}}),
    ServedKind("v1", "ServiceAccount", short_names=("sa",)),
    _with_status("v1", "ResourceQuota", short_names=("quota",), bookmark={"spec": {}, "status": {}}),
    _with_status("v1", "ReplicationController", short_names=("rc",)),
    *(VOLUME, VOLUME_CLAIM, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, CLAIM, CLAIM_TEMPLATE),
    _of_cluster(
        *(_DRA, "ResourceSlice", SliceStrategy()),
        selectable={"spec.nodeName": "spec.nodeName", "spec.driver": "spec.driver"},
        bookmark={"spec": {"driver": "", "pool": {"name": "", "generation": 0, "resourceSliceCount": 0}}},
    ),
    _of_cluster(_DRA, "DeviceClass", DeviceClassStrategy(), bookmark={"spec": {}}),
    _of_cluster(
        *("resource.k8s.io/v1", "DeviceTaintRule", DeviceTaintRuleStrategy()),
        has_status=True,
        bookmark={"spec": {"taint": {"key": "", "effect": ""}}, "status": {}},
    ),
    LEASE,
    ServedKind(
        *("events.k8s.io/v1", "Event", EventStrategy()),
        bookmark={
            **{"eventTime": None, "regarding": {}, "deprecatedSource": {}},
            **{"deprecatedFirstTimestamp": None, "deprecatedLastTimestamp": None},
        },
        short_names=("ev",),
        selectable=EVENT_FIELDS,
        storage=EVENT.kind_id,
        from_storage=to_events_v1,
        to_storage=to_core_v1,
    ),
    DISRUPTION_BUDGET,
    _of_cluster(
        *("scheduling.k8s.io/v1", "PriorityClass", PriorityClassStrategy()),
        short_names=("pc",),
        bookmark={"value": 0},
    ),
    STORAGE_CLASS,
    _of_cluster(_STORAGE, "CSINode", bookmark={"spec": {"drivers": None}}),
    _of_cluster(_STORAGE, "CSIDriver", bookmark={"spec": {}}),
    ServedKind(_STORAGE, "CSIStorageCapacity", bookmark={"storageClassName": ""}),
    _of_cluster(
        *(_STORAGE, "VolumeAttachment"),
        has_status=True,
        bookmark={"spec": {"attacher": "", "source": {}, "nodeName": ""}, "status": {"attached": False}},
    ),
)


def default_registry() -> Registry:
    return Registry(KINDS)
