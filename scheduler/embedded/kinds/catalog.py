"""The kinds the embedded API server serves. One entry adds a kind."""

from __future__ import annotations

from typing import Final

from scheduler.embedded.kinds.claims import ClaimStrategy, ClaimTemplateStrategy
from scheduler.embedded.kinds.core_strategies import (
    NODE_INFO,
    LeaseStrategy,
    NamespaceStrategy,
    NodeStrategy,
)
from scheduler.embedded.kinds.disruption_budgets import DisruptionBudgetStrategy
from scheduler.embedded.kinds.events import SELECTABLE as EVENT_FIELDS
from scheduler.embedded.kinds.events import CoreEventStrategy, EventStrategy, to_core_v1, to_events_v1
from scheduler.embedded.kinds.pods import PodStrategy
from scheduler.embedded.kinds.priorities import PriorityClassStrategy
from scheduler.embedded.kinds.slices import DeviceClassStrategy, DeviceTaintRuleStrategy, SliceStrategy
from scheduler.embedded.kinds.sub_resources import bind_pod, evict_pod, finalize_namespace
from scheduler.embedded.kinds.volume_strategies import (
    PersistentVolumeClaimStrategy,
    PersistentVolumeStrategy,
    StorageClassStrategy,
)
from scheduler.embedded.kinds.workload_strategies import (
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
_EMPTY_TEMPLATE: Final = {"metadata": {}, "spec": {"containers": None}}

NAMESPACE: Final = ServedKind(
    "v1",
    "Namespace",
    NamespaceStrategy(),
    is_namespaced=False,
    short_names=("ns",),
    has_status=True,
    sub_resources={"finalize": SubResource(finalize_namespace, method="PUT", verb="update")},
    selectable={"status.phase": "status.phase"},
    bookmark={"spec": {}, "status": {}},
)
NODE: Final = ServedKind(
    "v1",
    "Node",
    NodeStrategy(),
    is_namespaced=False,
    short_names=("no",),
    has_status=True,
    selectable={"spec.unschedulable": "spec.unschedulable"},
    bookmark={
        "spec": {},
        "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": dict.fromkeys(NODE_INFO, "")},
    },
)
POD: Final = ServedKind(
    "v1",
    "Pod",
    PodStrategy(),
    short_names=("po",),
    categories=("all",),
    has_status=True,
    sub_resources={
        "binding": SubResource(bind_pod, body=("", "v1", "Binding")),
        "eviction": SubResource(evict_pod, body=("policy", "v1", "Eviction")),
    },
    selectable={field: field for field in _POD_FIELDS},
    bookmark={"spec": {"containers": None}, "status": {}},
)
EVENT: Final = ServedKind(
    "v1",
    "Event",
    CoreEventStrategy(),
    short_names=("ev",),
    selectable=EVENT_FIELDS,
    bookmark={
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
)
DEPLOYMENT: Final = ServedKind(
    "apps/v1",
    "Deployment",
    DeploymentStrategy(),
    short_names=("deploy",),
    categories=("all",),
    has_status=True,
    bookmark={"spec": {"replicas": 0, "selector": None, "template": _EMPTY_TEMPLATE, "strategy": {}}, "status": {}},
)
REPLICA_SET: Final = ServedKind(
    "apps/v1",
    "ReplicaSet",
    ReplicaSetStrategy(),
    short_names=("rs",),
    categories=("all",),
    has_status=True,
    bookmark={"spec": {"replicas": 0, "selector": None, "template": _EMPTY_TEMPLATE}, "status": {"replicas": 0}},
)
STATEFUL_SET: Final = ServedKind(
    "apps/v1",
    "StatefulSet",
    StatefulSetStrategy(),
    short_names=("sts",),
    categories=("all",),
    has_status=True,
    bookmark={"spec": {"selector": None, "template": _EMPTY_TEMPLATE, "updateStrategy": {}}, "status": {"replicas": 0}},
)
DAEMON_SET: Final = ServedKind(
    "apps/v1",
    "DaemonSet",
    DaemonSetStrategy(),
    short_names=("ds",),
    categories=("all",),
    has_status=True,
    bookmark={
        "spec": {"selector": None, "template": _EMPTY_TEMPLATE, "updateStrategy": {}},
        "status": {
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        },
    },
)
JOB: Final = ServedKind(
    "batch/v1",
    "Job",
    JobStrategy(),
    categories=("all",),
    has_status=True,
    bookmark={"spec": {"template": _EMPTY_TEMPLATE}, "status": {}},
)
CLAIM: Final = ServedKind(
    "resource.k8s.io/v1",
    "ResourceClaim",
    ClaimStrategy(),
    has_status=True,
    bookmark={"spec": {"devices": {"requests": None}}, "status": {}},
)
CLAIM_TEMPLATE: Final = ServedKind(
    "resource.k8s.io/v1",
    "ResourceClaimTemplate",
    ClaimTemplateStrategy(),
    bookmark={"spec": {"metadata": {}, "spec": {"devices": {"requests": None}}}},
)
SLICE: Final = ServedKind(
    "resource.k8s.io/v1",
    "ResourceSlice",
    SliceStrategy(),
    is_namespaced=False,
    selectable={"spec.nodeName": "spec.nodeName", "spec.driver": "spec.driver"},
    bookmark={"spec": {"driver": "", "pool": {"name": "", "generation": 0, "resourceSliceCount": 0}}},
)
DEVICE_CLASS: Final = ServedKind(
    "resource.k8s.io/v1", "DeviceClass", DeviceClassStrategy(), is_namespaced=False, bookmark={"spec": {}}
)
TAINT_RULE: Final = ServedKind(
    "resource.k8s.io/v1beta2",
    "DeviceTaintRule",
    DeviceTaintRuleStrategy(),
    is_namespaced=False,
    has_status=True,
    bookmark={"spec": {"taint": {"key": "", "effect": ""}}, "status": {}},
)
LEASE: Final = ServedKind("coordination.k8s.io/v1", "Lease", LeaseStrategy(), bookmark={"spec": {}})
VOLUME: Final = ServedKind(
    "v1",
    "PersistentVolume",
    PersistentVolumeStrategy(),
    is_namespaced=False,
    short_names=("pv",),
    has_status=True,
    bookmark={"spec": {}, "status": {}},
)
VOLUME_CLAIM: Final = ServedKind(
    "v1",
    "PersistentVolumeClaim",
    PersistentVolumeClaimStrategy(),
    short_names=("pvc",),
    has_status=True,
    bookmark={"spec": {"resources": {}}, "status": {}},
)
STORAGE_CLASS: Final = ServedKind(
    "storage.k8s.io/v1",
    "StorageClass",
    StorageClassStrategy(),
    is_namespaced=False,
    short_names=("sc",),
    bookmark={"provisioner": ""},
)
DISRUPTION_BUDGET: Final = ServedKind(
    "policy/v1",
    "PodDisruptionBudget",
    DisruptionBudgetStrategy(),
    short_names=("pdb",),
    has_status=True,
    bookmark={
        "spec": {},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    },
)

KINDS: Final = (
    NAMESPACE,
    NODE,
    POD,
    EVENT,
    ServedKind("v1", "ConfigMap", short_names=("cm",)),
    ServedKind("v1", "Secret", selectable={"type": "type"}),
    ServedKind(
        "v1",
        "Service",
        short_names=("svc",),
        categories=("all",),
        has_status=True,
        bookmark={"spec": {}, "status": {"loadBalancer": {}}},
    ),
    ServedKind("v1", "ServiceAccount", short_names=("sa",)),
    ServedKind("v1", "ReplicationController", short_names=("rc",), has_status=True),
    VOLUME,
    VOLUME_CLAIM,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    DAEMON_SET,
    JOB,
    CLAIM,
    CLAIM_TEMPLATE,
    SLICE,
    DEVICE_CLASS,
    TAINT_RULE,
    LEASE,
    ServedKind(
        "events.k8s.io/v1",
        "Event",
        EventStrategy(),
        bookmark={
            "eventTime": None,
            "regarding": {},
            "deprecatedSource": {},
            "deprecatedFirstTimestamp": None,
            "deprecatedLastTimestamp": None,
        },
        short_names=("ev",),
        selectable=EVENT_FIELDS,
        storage=EVENT.kind_id,
        from_storage=to_events_v1,
        to_storage=to_core_v1,
    ),
    DISRUPTION_BUDGET,
    ServedKind(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        PriorityClassStrategy(),
        is_namespaced=False,
        short_names=("pc",),
        bookmark={"value": 0},
    ),
    STORAGE_CLASS,
    ServedKind("storage.k8s.io/v1", "CSINode", is_namespaced=False, bookmark={"spec": {"drivers": None}}),
    ServedKind("storage.k8s.io/v1", "CSIDriver", is_namespaced=False, bookmark={"spec": {}}),
    ServedKind("storage.k8s.io/v1", "CSIStorageCapacity", bookmark={"storageClassName": ""}),
    ServedKind(
        "storage.k8s.io/v1",
        "VolumeAttachment",
        is_namespaced=False,
        has_status=True,
        bookmark={"spec": {"attacher": "", "source": {}, "nodeName": ""}, "status": {"attached": False}},
    ),
)


def default_registry() -> Registry:
    return Registry(KINDS)
