"""Cases of `verdicts`: a cluster, one pod and a configuration; answered with what each plugin says about the pod.

The objects are those of the API, read by the code that reads a live cluster. The machine observes them and is never
started: nothing is queued, decided or written.

Rules of this module
  1. Uids that a case leaves out are made up; an object that cannot be read is a `CaseError`.
  2. Nobody is preempted for devices: an answer is what kube-scheduler would say.
  3. The pod is asked about as it stands, and is not among the cluster's pods: one with `spec.nodeName` takes no room.

Not here: the answer itself (`scheduler.offline.every_node`), lines (`__main__`).

Source: none upstream. The form is that of the recorded cases of tests/plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson
from pydantic import ValidationError

from allocator import Features
from scheduler.config.profile_config import ProfileConfig
from scheduler.core.ground.inputs import Input, Observed
from scheduler.core.machine import Machine
from scheduler.core.observation import KINDS
from scheduler.framework.api import Profile
from scheduler.framework.preemption import Preemption
from scheduler.framework.runner import Runner
from scheduler.framework.status import Status
from scheduler.kube.codec import Codec
from scheduler.kube.watched_kind import Broken, WatchedKind
from scheduler.offline.every_node import EveryNode, PodRuling

_NAME: Final = "default-scheduler"
_RUNNERS_MAX: Final = 1_000
_LISTS: Final[Mapping[str, str]] = {
    "nodes": "Node",
    "namespaces": "Namespace",
    "persistentVolumes": "PersistentVolume",
    "persistentVolumeClaims": "PersistentVolumeClaim",
    "storageClasses": "StorageClass",
    "csiNodes": "CSINode",
    "csiDrivers": "CSIDriver",
    "csiStorageCapacities": "CSIStorageCapacity",
    "volumeAttachments": "VolumeAttachment",
    "services": "Service",
    "replicationControllers": "ReplicationController",
    "replicaSets": "ReplicaSet",
    "statefulSets": "StatefulSet",
    "podDisruptionBudgets": "PodDisruptionBudget",
    "priorityClasses": "PriorityClass",
    "deviceClasses": "DeviceClass",
    "resourceSlices": "ResourceSlice",
    "resourceClaims": "ResourceClaim",
    "pods": "Pod",
}
"""Keys of a case's cluster, in the order in which they are observed."""


class CaseError(ValueError):
    """A case that cannot be read; the text names the field."""


class Cases:
    """Reads cases and answers them, each by itself."""

    def __init__(self, features: Features = Features()) -> None:  # noqa: B008 - frozen
        self._features: Final = features
        codec = self._codec = Codec(reads=KINDS)
        self._kinds: Final = {kind.name: kind for kind in codec.kinds}
        self._runners: Final[dict[bytes, Runner]] = {}

    def answer(self, case: Any) -> dict[str, Any]:
        """The answer in the form of the recorded cases, with the case's name.

        Raises:
            CaseError: The case or one of its objects cannot be read.
        """
        if not isinstance(case, Mapping):
            raise CaseError("a case is a JSON object")
        return {"name": str(case.get("name", "")), **as_json(self.ask(case))}

    def answer_anyhow(self, case: Any) -> dict[str, Any]:
        """The same; of a case that cannot be answered its name and an `error`."""
        name = str(case.get("name", "")) if isinstance(case, Mapping) else ""
        try:
            return self.answer(case)
        except CaseError as error:
            return {"name": name, "error": str(error)}
        except Exception as error:  # a defect of ours harms this case only
            return {"name": name, "error": f"{type(error).__name__}: {error}"}

    def ask(self, case: Mapping[str, Any]) -> PodRuling:
        """The scheduler's answer.

        Raises:
            CaseError: The case or one of its objects cannot be read.
        """
        runner = self._runner(case.get("config"))
        given = _read(self._codec.pods, case.get("pod"), "pod")
        assert isinstance(given, Observed)
        # Its queue knows the pods of this name; a profile without plugins keeps none of them out.
        machine = Machine([Profile(_NAME)], features=self._features, new_uid=lambda: "")
        for observed in self._objects(case.get("cluster") or {}):
            machine.handle(observed, now_ms=0)
        return EveryNode(machine, now_ms=0).answer(runner, given.object)

    def _runner(self, config: Any) -> Runner:
        """The plugins of a configuration, built once: many cases have the same."""
        key = orjson.dumps(config, option=orjson.OPT_SORT_KEYS)
        runner = self._runners.get(key)
        if runner is None:
            if len(self._runners) >= _RUNNERS_MAX:
                self._runners.clear()
            runner = self._runners[key] = Runner(_profile(config, self._features))
        return runner

    def _objects(self, cluster: Any) -> Iterator[Input]:
        if not isinstance(cluster, Mapping):
            raise CaseError("cluster: expected an object of lists")
        for key in cluster:
            if key not in _LISTS:
                raise CaseError(f"cluster.{key}: not a kind of object here; known: {', '.join(_LISTS)}")
        for key, name in _LISTS.items():
            objects = cluster.get(key) or ()
            if not isinstance(objects, list | tuple):
                raise CaseError(f"cluster.{key}: expected a list")
            kind = self._kinds.get(name)
            if kind is not None:
                for index, obj in enumerate(objects):
                    yield _read(kind, obj, f"cluster.{key}[{index}]")


def _as_kube_scheduler(profile: Any) -> Any:
    """Without what DynamicResources does beyond kube-scheduler, whose answers cases are compared with."""
    configs = profile.get("pluginConfig", []) if isinstance(profile, Mapping) else None
    if not isinstance(configs, list):
        return profile
    if not any(isinstance(one, Mapping) and one.get("name") == "DynamicResources" for one in configs):
        configs = [*configs, {"name": "DynamicResources"}]
    return {**profile, "pluginConfig": [_off(one) for one in configs]}


def _off(plugin: Any) -> Any:
    args = plugin.get("args") or {} if isinstance(plugin, Mapping) else None
    if not isinstance(args, Mapping) or plugin.get("name") != "DynamicResources":
        return plugin
    return {**plugin, "args": {"preemptForDevices": False, **args}}


def _profile(config: Any, features: Features) -> Profile:
    if config is None:
        return ProfileConfig.model_validate(_as_kube_scheduler({})).profile(features=features)
    profiles = config.get("profiles", [{}]) if isinstance(config, Mapping) else None
    if not isinstance(profiles, list) or len(profiles) != 1:
        raise CaseError("config: expected null or an object with one profile")
    try:
        return ProfileConfig.model_validate(_as_kube_scheduler(profiles[0])).profile(features=features)
    except ValidationError as error:
        wrong = (
            "".join(f".{part}" if isinstance(part, str) else f"[{part}]" for part in one["loc"]) + f": {one['msg']}"
            for one in error.errors()
        )
        raise CaseError("; ".join(f"config.profiles[0]{text}" for text in wrong)) from None
    except ValueError as error:
        raise CaseError(f"config.profiles[0]: {error}") from None


def _read(kind: WatchedKind, obj: Any, path: str) -> Input:
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    if not isinstance(metadata, Mapping):
        raise CaseError(f"{path}: expected an object with metadata")
    name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    metadata = {"uid": f"{kind.name}/{name}", **metadata, "resourceVersion": "1"}
    decoded = kind.decode_object(orjson.dumps({**obj, "metadata": metadata}))
    if isinstance(decoded, Broken):
        raise CaseError(f"{path}: {kind.name} {name} cannot be read: {decoded.reason}")
    return decoded.input


def as_json(answer: PodRuling) -> dict[str, Any]:
    """The answer in the form of the recorded cases."""
    filtered = answer.pre_filtered
    pre_filter = None
    if filtered is not None:
        names = sorted(filtered.node_names) if filtered.node_names is not None else None
        pre_filter = {**_verdict(filtered.status), "nodeNames": names}
    totals = answer.totals
    return {
        "preEnqueue": _verdict(answer.pre_enqueue) if answer.pre_enqueue is not None else None,
        "prefilter": pre_filter,
        "nodes": {name: _verdict(status) for name, status in answer.nodes.items()},
        "scores": {name: {"plugins": by, "total": totals[name]} for name, by in answer.scores.items()},
        "choices": answer.choices,
        "message": answer.message,
        "preemption": _preemption(answer),
    }


def _preemption(answer: PodRuling) -> dict[str, Any] | None:
    helped = answer.helped
    if helped is None:
        return None
    chosen = helped.preemption
    return {
        "code": helped.status.code.value,
        "message": helped.status.message,
        "nominatedNode": helped.nominated_node,
        "victims": _names(chosen) if chosen is not None else [],
        "anyOf": [chosen.node] if chosen is not None else [],
        "candidates": {
            name: {"victims": _names(one), "pdbViolations": one.violations}
            for name, one in answer.tried.items()
            if isinstance(one, Preemption)
        },
        "rejected": {name: _verdict(one) for name, one in answer.tried.items() if isinstance(one, Status)},
    }


def _names(preemption: Preemption) -> list[str]:
    return [str(pod.key) for pod in preemption.victims]


def _verdict(status: Status) -> dict[str, Any]:
    return {"code": status.code.value, "plugin": status.plugin, "reasons": list(status.reasons)}
