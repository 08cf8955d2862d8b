"""Priorities: PriorityClasses on their way in, and what admission makes of a pod's class.

Source: k8s.io/kubernetes v1.36.3 plugin/pkg/admission/priority, pkg/apis/scheduling/{validation,v1/helpers.go}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.embedded.server.statuses import forbidden_request
from scheduler.embedded.server.strategy import Object, Strategy, StrategyView, check_immutable, set_default
from scheduler.validation.field_errors import FieldError, Json, forbidden, not_supported

PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

_GROUP, _PLURAL = "scheduling.k8s.io", "priorityclasses"
_SYSTEM_PREFIX: Final = "system-"
_HIGHEST_OF_USERS: Final = 1_000_000_000
_PREEMPTS: Final = "PreemptLowerPriority"
_POLICIES: Final = (_PREEMPTS, "Never")


class PriorityClassStrategy(Strategy):
    """scheduling.k8s.io/v1 PriorityClass."""

    bumps_generation = True

    def default(self, obj: Object, cluster: StrategyView) -> None:
        set_default(obj, "preemptionPolicy", _PREEMPTS)

    def prepare_create(self, obj: Object, cluster: StrategyView) -> None:
        _admit_class(obj, cluster)

    def prepare_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> None:
        _admit_class(new, cluster)

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        errors: list[FieldError] = []
        name: str = obj["metadata"].get("name") or ""
        value = obj.get("value", 0)
        if name.startswith(_SYSTEM_PREFIX):
            why = _unlike_the_systems(name, value, is_default=bool(obj.get("globalDefault")))
            if why:
                text = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only. error: "
                errors.append(forbidden("metadata.name", text + why))
        elif value > _HIGHEST_OF_USERS:
            text = f"maximum allowed value of a user defined priority is {_HIGHEST_OF_USERS}"
            errors.append(forbidden("value", text))
        if obj["preemptionPolicy"] not in _POLICIES:
            errors.append(not_supported("preemptionPolicy", obj["preemptionPolicy"], _POLICIES))
        return errors

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        errors: list[FieldError] = []
        if new.get("value", 0) != old.get("value", 0):
            errors.append(forbidden("value", "may not be changed in an update."))
        return errors + check_immutable(new, old, "preemptionPolicy")


def _unlike_the_systems(name: str, value: int, *, is_default: bool) -> str:
    if name not in SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    if value != SYSTEM_PRIORITIES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def _default_class(cluster: StrategyView) -> Mapping[str, Json] | None:
    """The class of pods that name none; of several, which a race can make, the lowest."""
    defaults = [one for one in cluster.listed(PRIORITY_CLASSES) if one.get("globalDefault")]
    return min(defaults, key=lambda one: one.get("value", 0), default=None)


def _admit_class(obj: Object, cluster: StrategyView) -> None:
    default = _default_class(cluster) if obj.get("globalDefault") else None
    name = obj["metadata"].get("name", "")
    if default is not None and default["metadata"]["name"] != name:
        why = f"PriorityClass {default['metadata']['name']} is already marked as default. Only one default can exist"
        raise forbidden_request(_GROUP, _PLURAL, name, why)


def admit_priority(pod: Object, cluster: StrategyView) -> None:
    """Give a new pod the priority and preemption policy of its class, or of the default one.

    Raises:
        ApiError: 403, it names a class that does not exist, or brings values of its own.
    """
    spec, pod_name = pod["spec"], pod["metadata"].get("name", "")
    name: str = spec.get("priorityClassName") or ""
    found = cluster.find(PRIORITY_CLASSES, "", name) if name else _default_class(cluster)
    if name and found is None:
        raise forbidden_request("", "pods", pod_name, f"no PriorityClass with name {name} was found")
    if found is None:
        found = {"value": 0, "preemptionPolicy": _PREEMPTS}
    elif not name:
        spec["priorityClassName"] = found["metadata"]["name"]
    value, policy = found.get("value", 0), found.get("preemptionPolicy")
    given, given_policy = spec.get("priority"), spec.get("preemptionPolicy")
    if given is not None and given != value:
        why = (
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission controller "
            f"computed {value} from the given PriorityClass name"
        )
        raise forbidden_request("", "pods", pod_name, why)
    spec["priority"] = value
    if not policy:
        return
    if given_policy is not None and given_policy != policy:
        why = (
            f"the string value of PreemptionPolicy ({given_policy}) must not be provided in pod spec; priority "
            f"admission controller computed {policy} from the given PriorityClass name"
        )
        raise forbidden_request("", "pods", pod_name, why)
    spec["preemptionPolicy"] = policy
