"""The columns `kubectl get` shows, kind by kind: server-side printing.

To give a kind columns of its own, add an entry to `_BY_KIND`; other kinds show NAME and AGE.

Source: k8s.io/kubernetes v1.36.3 pkg/printers/internalversion/printers.go (names, order, priorities and texts).
Differs on purpose: columns for `-o wide` that an embedded cluster has no values for are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scheduler.embedded.server.field_selectors import read_path
from scheduler.model.timestamps import parse_rfc3339
from scheduler.validation.field_errors import Json

Cell = Callable[[Mapping[str, Json], datetime], Json]

_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"
_UNSET: Final = "<unset>"
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; priority 1 shows with `-o wide` only."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    format: str = ""


def parse_time(text: Json) -> datetime | None:
    """A metav1.Time or MicroTime; None when absent or not a time."""
    return parse_rfc3339(text) if isinstance(text, str) else None


def human_duration(seconds: float) -> str:
    """`5s`, `3m20s`, `4h`, `2d3h`: as kubectl prints ages."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{total}s"
    if minutes < 10:
        return _two(minutes, "m", total % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 8 * 365:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def _since(text: Json, now: datetime) -> str:
    moment = parse_time(text)
    return _UNKNOWN if moment is None else human_duration((now - moment).total_seconds())


def _name(obj: Mapping[str, Json], now: datetime) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _age(obj: Mapping[str, Json], now: datetime) -> str:
    return _since(obj["metadata"].get("creationTimestamp"), now)


def _at(path: str, default: Json = "") -> Cell:
    """A cell that shows the value at a dotted path, or the default."""

    def cell(obj: Mapping[str, Json], now: datetime) -> Json:
        value = read_path(obj, path)
        return default if value in (None, "") else value

    return cell


NAME: Final = Column("Name", _name, format="name")
AGE: Final = Column(
    "Age",
    _age,
)


# -- pods ------------------------------------------------------------------------------------------


def _condition(obj: Mapping[str, Json], kind: str) -> Mapping[str, Json]:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            found: Mapping[str, Json] = condition
            return found
    return {}


def _container_statuses(obj: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    return list((obj.get("status") or {}).get("containerStatuses") or ())


def _pod_ready(obj: Mapping[str, Json], now: datetime) -> str:
    ready = sum(
        bool(s.get("ready") and (s.get("state") or {}).get("running") is not None) for s in _container_statuses(obj)
    )
    return f"{ready}/{len(obj['spec'].get('containers') or ())}"


def pod_status_text(obj: Mapping[str, Json], now: datetime) -> str:
    """The STATUS column: phase, or the reason that says more."""
    status = obj.get("status") or {}
    phase = status.get("phase", "")
    reason: str = status.get("reason") or phase
    if _condition(obj, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    for container in reversed(_container_statuses(obj)):
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            ended = state["terminated"]
            reason = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
    if obj["metadata"].get("deletionTimestamp") and phase not in ("Succeeded", "Failed"):
        reason = "Terminating"
    return reason


def _pod_restarts(obj: Mapping[str, Json], now: datetime) -> str:
    return str(sum(status.get("restartCount", 0) for status in _container_statuses(obj)))


def _pod_ip(obj: Mapping[str, Json], now: datetime) -> str:
    addresses = (obj.get("status") or {}).get("podIPs") or ()
    return addresses[0].get("ip") or _NONE if addresses else _NONE


# -- nodes -----------------------------------------------------------------------------------------


def _node_status(obj: Mapping[str, Json], now: datetime) -> str:
    ready = _condition(obj, "Ready").get("status")
    states = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if (obj.get("spec") or {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _node_roles(obj: Mapping[str, Json], now: datetime) -> str:
    labels = obj["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)} - {""}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or _NONE


# -- workloads -------------------------------------------------------------------------------------


def _deployment_ready(obj: Mapping[str, Json], now: datetime) -> str:
    return f"{(obj.get('status') or {}).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 1)}"


def _job_status(obj: Mapping[str, Json], now: datetime) -> str:
    for kind in ("Complete", "Failed"):
        if _condition(obj, kind).get("status") == "True":
            return kind
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return "Suspended" if _condition(obj, "Suspended").get("status") == "True" else "Running"


def _job_completions(obj: Mapping[str, Json], now: datetime) -> str:
    done = (obj.get("status") or {}).get("succeeded", 0)
    wanted, parallelism = obj["spec"].get("completions"), obj["spec"].get("parallelism") or 0
    if wanted is not None:
        return f"{done}/{wanted}"
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(obj: Mapping[str, Json], now: datetime) -> str:
    status = obj.get("status") or {}
    start, end = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    return "" if start is None else human_duration(((end or now) - start).total_seconds())


# -- events, devices -------------------------------------------------------------------------------


def _event_last(obj: Mapping[str, Json], now: datetime) -> str:
    series = obj.get("series")
    if series:
        return _since(series.get("lastObservedTime"), now)
    return _since(obj.get("lastTimestamp") or obj.get("firstTimestamp") or obj.get("eventTime"), now)


def _event_object(obj: Mapping[str, Json], now: datetime) -> str:
    target = obj.get("involvedObject") or {}
    kind = (target.get("kind") or "").lower()
    return f"{kind}/{target['name']}" if target.get("name") else kind


def claim_state(obj: Mapping[str, Json], now: datetime) -> str:
    """pending, allocated, reserved, deleted."""
    status = obj.get("status") or {}
    is_deleted = bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if is_deleted else []
    if status.get("allocation") is None:
        states += [] if is_deleted else ["pending"]
    else:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    return ",".join(states)


def _taint_added(obj: Mapping[str, Json], now: datetime) -> str:
    return _since(obj["spec"].get("taint", {}).get("timeAdded"), now)


# -- volumes ---------------------------------------------------------------------------------------

_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _access_modes(obj: Mapping[str, Json], now: datetime) -> str:
    """Of a claim those of its volume, once it has one."""
    is_claim = "namespace" in obj["metadata"]
    holder = (obj.get("status") or {}) if is_claim else obj["spec"]
    modes = holder.get("accessModes") or () if not is_claim or obj["spec"].get("volumeName") else ()
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _claim_capacity(obj: Mapping[str, Json], now: datetime) -> Json:
    return read_path(obj, "status.capacity.storage") or "" if obj["spec"].get("volumeName") else ""


def _volume_phase(obj: Mapping[str, Json], now: datetime) -> Json:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else (obj.get("status") or {}).get("phase", "")


def _claim_of_volume(obj: Mapping[str, Json], now: datetime) -> str:
    reference = obj["spec"].get("claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def _driver_count(obj: Mapping[str, Json], now: datetime) -> int:
    return len((obj.get("spec") or {}).get("drivers") or ())


_BY_KIND: Final[dict[str, tuple[Column, ...]]] = {
    "Pod": (
        NAME,
        Column("Ready", _pod_ready),
        Column("Status", pod_status_text),
        Column("Restarts", _pod_restarts),
        AGE,
        Column("IP", _pod_ip, priority=1),
        Column("Node", _at("spec.nodeName", default=_NONE), priority=1),
        Column("Nominated Node", _at("status.nominatedNodeName", default=_NONE), priority=1),
    ),
    "Node": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _at("status.nodeInfo.kubeletVersion")),
    ),
    "Namespace": (NAME, Column("Status", _at("status.phase")), AGE),
    "Event": (
        Column("Last Seen", _event_last),
        Column("Type", _at("type")),
        Column("Reason", _at("reason")),
        Column("Object", _event_object),
        Column("Message", _at("message")),
    ),
    "Deployment": (
        NAME,
        Column("Ready", _deployment_ready),
        Column("Up-to-date", _at("status.updatedReplicas", default=0)),
        Column("Available", _at("status.availableReplicas", default=0)),
        AGE,
    ),
    "ReplicaSet": (
        NAME,
        Column("Desired", _at("spec.replicas", default=1), type="integer"),
        Column("Current", _at("status.replicas", default=0), type="integer"),
        Column("Ready", _at("status.readyReplicas", default=0), type="integer"),
        AGE,
    ),
    "Job": (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
    ),
    "ResourceClaim": (
        NAME,
        Column("State", claim_state),
        AGE,
    ),
    "ResourceSlice": (
        NAME,
        Column("Node", _at("spec.nodeName")),
        Column("Driver", _at("spec.driver")),
        Column("Pool", _at("spec.pool.name")),
        AGE,
    ),
    "DeviceTaintRule": (
        NAME,
        Column("Key", _at("spec.taint.key")),
        Column("Value", _at("spec.taint.value")),
        Column("Effect", _at("spec.taint.effect")),
        Column("TimeAdded", _taint_added),
        AGE,
    ),
    "PersistentVolume": (
        NAME,
        Column("Capacity", _at("spec.capacity.storage")),
        Column("Access Modes", _access_modes),
        Column("Reclaim Policy", _at("spec.persistentVolumeReclaimPolicy")),
        Column("Status", _volume_phase),
        Column("Claim", _claim_of_volume),
        Column("StorageClass", _at("spec.storageClassName")),
        Column("VolumeAttributesClass", _at("spec.volumeAttributesClassName", default=_UNSET)),
        Column("Reason", _at("status.reason")),
        AGE,
        Column("VolumeMode", _at("spec.volumeMode", default=_UNSET), priority=1),
    ),
    "PersistentVolumeClaim": (
        NAME,
        Column("Status", _volume_phase),
        Column("Volume", _at("spec.volumeName")),
        Column("Capacity", _claim_capacity),
        Column("Access Modes", _access_modes),
        Column("StorageClass", _at("spec.storageClassName")),
        Column("VolumeAttributesClass", _at("spec.volumeAttributesClassName", default=_UNSET)),
        AGE,
        Column("VolumeMode", _at("spec.volumeMode", default=_UNSET), priority=1),
    ),
    "StorageClass": (
        NAME,
        Column("Provisioner", _at("provisioner")),
        Column("ReclaimPolicy", _at("reclaimPolicy")),
        Column("VolumeBindingMode", _at("volumeBindingMode")),
        Column("AllowVolumeExpansion", _at("allowVolumeExpansion", default=False)),
        AGE,
    ),
    "CSINode": (NAME, Column("Drivers", _driver_count, type="integer"), AGE),
    "VolumeAttachment": (
        NAME,
        Column("Attacher", _at("spec.attacher"), format="name"),
        Column("PV", _at("spec.source.persistentVolumeName")),
        Column("Node", _at("spec.nodeName")),
        Column("Attached", _at("status.attached", default=False), type="boolean"),
        AGE,
    ),
    "Lease": (NAME, Column("Holder", _at("spec.holderIdentity")), AGE),
    "PriorityClass": (
        NAME,
        Column("Value", _at("value", default=0), type="integer"),
        Column("Global-Default", _at("globalDefault", default=False), type="boolean"),
        AGE,
    ),
}

_DEFAULT: Final = (NAME, AGE)


def columns_of(kind: str) -> Iterable[Column]:
    """The columns of a kind, in order."""
    return _BY_KIND.get(kind, _DEFAULT)
