"""The columns `kubectl get` shows, kind by kind: server-side printing.

To give a kind columns of its own, add an entry to `_SHOWN`; other kinds show NAME and AGE.

Source: k8s.io/kubernetes v1.36.3 pkg/printers/internalversion/printers.go (names, order, priorities and texts).
Differs on purpose: columns for `-o wide` that an embedded cluster has no values for are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from functools import cache
from typing import Final, TypeAlias

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
    format: str = ""
    _: KW_ONLY
    priority: int = 0


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


_Cells: TypeAlias = Mapping[str, str | Cell | tuple[str | Cell, *tuple[str, ...]]]
"""By column: the path of a value, or what works it out, alone or with the column's type and format."""

_SHOWN: Final[Mapping[str, _Cells]] = {
    "Pod": {"Ready": _pod_ready, "Status": pod_status_text, "Restarts": _pod_restarts},
    "Node": {"Status": _node_status, "Roles": _node_roles, "Age": _age, "Version": "status.nodeInfo.kubeletVersion"},
    "Namespace": {"Status": "status.phase"},
    "Deployment": {
        "Ready": _deployment_ready,
        "Up-to-date": _at("status.updatedReplicas", default=0),
        "Available": _at("status.availableReplicas", default=0),
    },
    "ReplicaSet": {
        "Desired": (_at("spec.replicas", default=1), "integer"),
        "Current": (_at("status.replicas", default=0), "integer"),
        "Ready": (_at("status.readyReplicas", default=0), "integer"),
    },
    "Job": {"Status": _job_status, "Completions": _job_completions, "Duration": _job_duration},
    "ResourceClaim": {"State": claim_state},
    "ResourceSlice": {"Node": "spec.nodeName", "Driver": "spec.driver", "Pool": "spec.pool.name"},
    "DeviceTaintRule": {
        "Key": "spec.taint.key",
        "Value": "spec.taint.value",
        "Effect": "spec.taint.effect",
        "TimeAdded": _taint_added,
    },
    "PersistentVolume": {
        "Capacity": "spec.capacity.storage",
        "Access Modes": _access_modes,
        "Reclaim Policy": "spec.persistentVolumeReclaimPolicy",
        "Status": _volume_phase,
        "Claim": _claim_of_volume,
        "StorageClass": "spec.storageClassName",
        "VolumeAttributesClass": _at("spec.volumeAttributesClassName", default=_UNSET),
        "Reason": "status.reason",
    },
    "PersistentVolumeClaim": {
        "Status": _volume_phase,
        "Volume": "spec.volumeName",
        "Capacity": _claim_capacity,
        "Access Modes": _access_modes,
        "StorageClass": "spec.storageClassName",
        "VolumeAttributesClass": _at("spec.volumeAttributesClassName", default=_UNSET),
    },
    "StorageClass": {
        "Provisioner": "provisioner",
        "ReclaimPolicy": "reclaimPolicy",
        "VolumeBindingMode": "volumeBindingMode",
        "AllowVolumeExpansion": _at("allowVolumeExpansion", default=False),
    },
    "CSINode": {"Drivers": (_driver_count, "integer")},
    "VolumeAttachment": {
        "Attacher": (_at("spec.attacher"), "string", "name"),
        "PV": "spec.source.persistentVolumeName",
        "Node": "spec.nodeName",
        "Attached": (_at("status.attached", default=False), "boolean"),
    },
    "Lease": {"Holder": "spec.holderIdentity"},
    "PriorityClass": {
        "Value": (_at("value", default=0), "integer"),
        "Global-Default": (_at("globalDefault", default=False), "boolean"),
    },
}
"""Behind NAME; AGE comes last where it is not among them."""

_VOLUME_MODE: Final[_Cells] = {"VolumeMode": _at("spec.volumeMode", default=_UNSET)}
_WIDE: Final[Mapping[str, _Cells]] = {
    "Pod": {
        "IP": _pod_ip,
        "Node": _at("spec.nodeName", default=_NONE),
        "Nominated Node": _at("status.nominatedNodeName", default=_NONE),
    },
    **dict.fromkeys(("PersistentVolume", "PersistentVolumeClaim"), _VOLUME_MODE),
}
"""Behind these, with `-o wide` only."""
_EVENT: Final[_Cells] = {
    "Last Seen": _event_last,
    "Type": "type",
    "Reason": "reason",
    "Object": _event_object,
    "Message": "message",
}


@cache
def columns_of(kind: str) -> tuple[Column, ...]:
    """The columns of a kind, in order."""
    if kind == "Event":
        return (*_columns(_EVENT),)
    shown = _SHOWN.get(kind, {})
    shown = shown if "Age" in shown else {**shown, "Age": _age}
    return (NAME, *_columns(shown), *_columns(_WIDE.get(kind, {}), priority=1))


def _columns(cells: _Cells, priority: int = 0) -> Iterator[Column]:
    for name, shown in cells.items():
        cell, *how = shown if isinstance(shown, tuple) else (shown,)
        yield Column(name, _at(cell) if isinstance(cell, str) else cell, *how, priority=priority)
