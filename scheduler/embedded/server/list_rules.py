"""How lists merge: which lists are sets of entries with a key, and which are replaced whole.

Strategic merge patch and server-side apply ask this of every list they meet. The two disagree in
places (a container's resources.claims is a keyed list for apply only), so an entry has both rules.

Source: the patchStrategy/patchMergeKey tags and +listType/+listMapKey comments of k8s.io/api v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class ListRule:
    """How one list field merges, or (with `is_atomic_map`) one object field that is replaced whole.

    Attributes:
        keys: Of entries that merge one by one; empty: the list is replaced, or merges as a set.
        is_set: A list of scalars that merges as a set.
        defaults: Values of keys that an entry may leave out.
    """

    keys: tuple[str, ...] = ()
    is_set: bool = False
    is_atomic_map: bool = False
    defaults: Mapping[str, str | None] = field(default_factory=dict)


REPLACED: Final = ListRule()


class _Rules(NamedTuple):
    """Of one field: the rule of strategic merge patch, and that of server-side apply."""

    patch: ListRule
    apply: ListRule


def _keyed(key: str, *more: str, patch: bool = True, defaults: Mapping[str, str | None] | None = None) -> _Rules:
    return _Rules(ListRule((key,)) if patch else REPLACED, ListRule((key, *more), defaults=defaults or {}))


_SET: Final = _Rules(ListRule(is_set=True), ListRule(is_set=True))
_ATOMIC_MAP: Final = _Rules(REPLACED, ListRule(is_atomic_map=True))

_METADATA: Final[dict[str, _Rules]] = {
    "metadata.ownerReferences": _keyed("uid"),
    "metadata.finalizers": _SET,
}

_CONTAINER: Final[dict[str, _Rules]] = {
    "": _keyed("name"),
    ".ports": _keyed("containerPort", "protocol", defaults={"protocol": "TCP"}),
    ".env": _keyed("name"),
    ".volumeMounts": _keyed("mountPath"),
    ".volumeDevices": _keyed("devicePath"),
    ".resources.claims": _keyed("name", patch=False),
}


def _pod_spec(prefix: str) -> dict[str, _Rules]:
    rules = {
        f"{prefix}.{containers}{suffix}": rule
        for containers in ("containers", "initContainers", "ephemeralContainers")
        for suffix, rule in _CONTAINER.items()
    }
    rules |= {
        f"{prefix}.{name}": rule
        for name, rule in {
            "volumes": _keyed("name"),
            "imagePullSecrets": _keyed("name"),
            "hostAliases": _keyed("ip"),
            "topologySpreadConstraints": _keyed("topologyKey", "whenUnsatisfiable"),
            "schedulingGates": _keyed("name"),
            "resourceClaims": _keyed("name"),
            "resources.claims": _keyed("name", patch=False),
            "nodeSelector": _ATOMIC_MAP,
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution": _ATOMIC_MAP,
        }.items()
    }
    return rules


_CONDITIONS: Final = {"status.conditions": _keyed("type")}
_SELECTOR: Final = {"spec.selector": _ATOMIC_MAP}

_BY_KIND: Final[dict[str, dict[str, _Rules]]] = {
    "Pod": {
        **_pod_spec("spec"),
        **_CONDITIONS,
        "status.podIPs": _keyed("ip"),
        "status.hostIPs": _Rules(ListRule(("ip",)), REPLACED),
        "status.resourceClaimStatuses": _keyed("name"),
    },
    "Node": {**_CONDITIONS, "status.addresses": _keyed("type"), "spec.podCIDRs": _SET},
    "Namespace": _CONDITIONS,
    "Service": {
        **_CONDITIONS,
        **_SELECTOR,
        "spec.ports": _keyed("port", "protocol", defaults={"protocol": "TCP"}),
    },
    "ServiceAccount": {"secrets": _keyed("name")},
    "Deployment": {**_pod_spec("spec.template.spec"), **_CONDITIONS, **_SELECTOR},
    "ReplicaSet": {**_pod_spec("spec.template.spec"), **_CONDITIONS, **_SELECTOR},
    "Job": {**_pod_spec("spec.template.spec"), "status.conditions": _Rules(ListRule(("type",)), REPLACED), **_SELECTOR},
    "ResourceClaim": {
        "status.reservedFor": _keyed("uid"),
        "status.devices": _keyed("driver", "device", "pool", "shareID", patch=False, defaults={"shareID": None}),
        "status.devices.conditions": _keyed("type", patch=False),
        "status.allocation.nodeSelector": _ATOMIC_MAP,
    },
    "ResourceSlice": {"spec.nodeSelector": _ATOMIC_MAP},
    "DeviceTaintRule": _CONDITIONS,
    "PodDisruptionBudget": {**_CONDITIONS, **_SELECTOR},
}


@cache
def rules_of_patch(kind: str) -> Mapping[str, ListRule]:
    """Of strategic merge: dotted path (without indices) -> rule, for every list of a kind that is not replaced."""
    return {path: rules.patch for path, rules in {**_METADATA, **_BY_KIND.get(kind, {})}.items()}


@cache
def rules_of_apply(kind: str) -> Mapping[str, ListRule]:
    """The same of server-side apply."""
    return {path: rules.apply for path, rules in {**_METADATA, **_BY_KIND.get(kind, {})}.items()}
