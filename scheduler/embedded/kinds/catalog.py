"""The kinds the embedded API server serves. One entry adds a kind."""

from __future__ import annotations

from typing import Final

from scheduler.embedded.kinds.claims import ClaimStrategy, ClaimTemplateStrategy
from scheduler.embedded.kinds.core_strategies import (
    NODE_INFO,
    DisruptionBudgetStrategy,
    LeaseStrategy,
    NamespaceStrategy,
    NodeStrategy,
    PriorityClassStrategy,
    ServiceStrategy,
)
from scheduler.embedded.kinds.events import SELECTABLE as EVENT_FIELDS
from scheduler.embedded.kinds.events import CoreEventStrategy, EventStrategy, to_core_v1, to_events_v1
from scheduler.embedded.kinds.pods import PodStrategy
from scheduler.embedded.kinds.slices import DeviceClassStrategy, DeviceTaintRuleStrategy, SliceStrategy
from scheduler.embedded.kinds.sub_resources import bind_pod, evict_pod, finalize_namespace
from scheduler.embedded.kinds.workload_strategies import (
    DaemonSetStrategy,
    DeploymentStrategy,
    JobStrategy,
    ReplicaSetStrategy,
    StatefulSetStrategy,
)
from scheduler.embedded.server.kinds import Kind, Registry, SubResource

CORE: Final = ""
APPS: Final = "apps"
BATCH: Final = "batch"
RESOURCE: Final = "resource.k8s.io"
EVENTS: Final = "events.k8s.io"

POD_FIELDS: Final = {
    "spec.nodeName": "spec.nodeName",
    "spec.restartPolicy": "spec.restartPolicy",
    "spec.schedulerName": "spec.schedulerName",
    "spec.serviceAccountName": "spec.serviceAccountName",
    "spec.hostNetwork": "spec.hostNetwork",
    "status.phase": "status.phase",
    "status.podIP": "status.podIP",
    "status.nominatedNodeName": "status.nominatedNodeName",
}

_EMPTY_TEMPLATE: Final = {"metadata": {}, "spec": {"containers": None}}

NAMESPACE: Final = Kind(
    CORE,
    "v1",
    "Namespace",
    "namespaces",
    False,
    NamespaceStrategy(),
    short_names=("ns",),
    has_status=True,
    sub_resources={"finalize": SubResource(finalize_namespace, method="PUT", verb="update")},
    selectable={"status.phase": "status.phase"},
    bookmark={"spec": {}, "status": {}},
)
NODE: Final = Kind(
    CORE,
    "v1",
    "Node",
    "nodes",
    False,
    NodeStrategy(),
    short_names=("no",),
    has_status=True,
    selectable={"spec.unschedulable": "spec.unschedulable"},
    bookmark={
        "spec": {},
        "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": dict.fromkeys(NODE_INFO, "")},
    },
)
POD: Final = Kind(
    CORE,
    "v1",
    "Pod",
    "pods",
    True,
    PodStrategy(),
    short_names=("po",),
    categories=("all",),
    has_status=True,
    sub_resources={
        "binding": SubResource(bind_pod, body=("", "v1", "Binding")),
        "eviction": SubResource(evict_pod, body=("policy", "v1", "Eviction")),
    },
    selectable=POD_FIELDS,
    bookmark={"spec": {"containers": None}, "status": {}},
)
EVENT: Final = Kind(
    CORE,
    "v1",
    "Event",
    "events",
    True,
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
DEPLOYMENT: Final = Kind(
    APPS,
    "v1",
    "Deployment",
    "deployments",
    True,
    DeploymentStrategy(),
    short_names=("deploy",),
    categories=("all",),
    has_status=True,
    bookmark={"spec": {"replicas": 0, "selector": None, "template": _EMPTY_TEMPLATE, "strategy": {}}, "status": {}},
)
REPLICA_SET: Final = Kind(
    APPS,
    "v1",
    "ReplicaSet",
    "replicasets",
    True,
    ReplicaSetStrategy(),
    short_names=("rs",),
    categories=("all",),
    has_status=True,
    bookmark={"spec": {"replicas": 0, "selector": None, "template": _EMPTY_TEMPLATE}, "status": {"replicas": 0}},
)
STATEFUL_SET: Final = Kind(
    APPS,
    "v1",
    "StatefulSet",
    "statefulsets",
    True,
    StatefulSetStrategy(),
    short_names=("sts",),
    categories=("all",),
    has_status=True,
    bookmark={"spec": {"selector": None, "template": _EMPTY_TEMPLATE, "updateStrategy": {}}, "status": {"replicas": 0}},
)
DAEMON_SET: Final = Kind(
    APPS,
    "v1",
    "DaemonSet",
    "daemonsets",
    True,
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
JOB: Final = Kind(
    BATCH,
    "v1",
    "Job",
    "jobs",
    True,
    JobStrategy(),
    categories=("all",),
    has_status=True,
    bookmark={"spec": {"template": _EMPTY_TEMPLATE}, "status": {}},
)
CLAIM: Final = Kind(
    RESOURCE,
    "v1",
    "ResourceClaim",
    "resourceclaims",
    True,
    ClaimStrategy(),
    has_status=True,
    bookmark={"spec": {"devices": {"requests": None}}, "status": {}},
)
CLAIM_TEMPLATE: Final = Kind(
    RESOURCE,
    "v1",
    "ResourceClaimTemplate",
    "resourceclaimtemplates",
    True,
    ClaimTemplateStrategy(),
    bookmark={"spec": {"metadata": {}, "spec": {"devices": {"requests": None}}}},
)
SLICE: Final = Kind(
    RESOURCE,
    "v1",
    "ResourceSlice",
    "resourceslices",
    False,
    SliceStrategy(),
    selectable={"spec.nodeName": "spec.nodeName", "spec.driver": "spec.driver"},
    bookmark={"spec": {"driver": "", "pool": {"name": "", "generation": 0, "resourceSliceCount": 0}}},
)
DEVICE_CLASS: Final = Kind(
    RESOURCE,
    "v1",
    "DeviceClass",
    "deviceclasses",
    False,
    DeviceClassStrategy(),
    bookmark={"spec": {}},
)
TAINT_RULE: Final = Kind(
    RESOURCE,
    "v1beta2",
    "DeviceTaintRule",
    "devicetaintrules",
    False,
    DeviceTaintRuleStrategy(),
    has_status=True,
    bookmark={"spec": {"taint": {"key": "", "effect": ""}}, "status": {}},
)
LEASE: Final = Kind(
    "coordination.k8s.io",
    "v1",
    "Lease",
    "leases",
    True,
    LeaseStrategy(),
    bookmark={"spec": {}},
)

KINDS: Final = (
    NAMESPACE,
    NODE,
    POD,
    EVENT,
    Kind(CORE, "v1", "ConfigMap", "configmaps", True, short_names=("cm",)),
    Kind(CORE, "v1", "Secret", "secrets", True, selectable={"type": "type"}),
    Kind(
        CORE,
        "v1",
        "Service",
        "services",
        True,
        ServiceStrategy(),
        short_names=("svc",),
        categories=("all",),
        has_status=True,
        bookmark={"spec": {}, "status": {"loadBalancer": {}}},
    ),
    Kind(CORE, "v1", "ServiceAccount", "serviceaccounts", True, short_names=("sa",)),
    Kind(CORE, "v1", "ReplicationController", "replicationcontrollers", True, short_names=("rc",), has_status=True),
    Kind(CORE, "v1", "PersistentVolume", "persistentvolumes", False, short_names=("pv",), has_status=True),
    Kind(CORE, "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, short_names=("pvc",), has_status=True),
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
    Kind(
        EVENTS,
        "v1",
        "Event",
        "events",
        True,
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
    Kind(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        True,
        DisruptionBudgetStrategy(),
        short_names=("pdb",),
        has_status=True,
        bookmark={
            "spec": {},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
        },
    ),
    Kind(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        False,
        PriorityClassStrategy(),
        short_names=("pc",),
        bookmark={"value": 0},
    ),
    Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, short_names=("sc",)),
    Kind("storage.k8s.io", "v1", "CSINode", "csinodes", False),
    Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False),
    Kind("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", True),
    Kind("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False, has_status=True),
)


def default_registry() -> Registry:
    """The registry of all kinds above."""
    return Registry(KINDS)
