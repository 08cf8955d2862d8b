"""How lists merge: which lists are sets of entries with a key, and which are replaced whole.

Strategic merge patch and server-side apply ask this of every list they meet. The two disagree in
places (a container's resources.claims is a keyed list for apply only), so an entry names both.

Source: the patchStrategy/patchMergeKey tags and +listType/+listMapKey comments of k8s.io/api v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class ListRule:
    """One list field, or (with `is_atomic_map`) one object field that is replaced whole by apply."""

    patch_key: str | None = None
    """Merge key of strategic merge patch; None: the list is replaced."""
    apply_keys: tuple[str, ...] = ()
    """Keys of server-side apply; empty: atomic, or a set when `is_set`."""
    is_set: bool = False
    """A list of scalars that merges as a set in both."""
    is_atomic_map: bool = False
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Values of apply keys that may be left out."""


def _keyed(key: str, *more: str, patch: bool = True, defaults: Mapping[str, str] | None = None) -> ListRule:
    return ListRule(patch_key=key if patch else None, apply_keys=(key, *more), defaults=defaults or {})


_SET: Final = ListRule(is_set=True)
_ATOMIC_MAP: Final = ListRule(is_atomic_map=True)

_METADATA: Final[dict[str, ListRule]] = {
    "metadata.ownerReferences": _keyed("uid"),
    "metadata.finalizers": _SET,
}

_CONTAINER: Final[dict[str, ListRule]] = {
    "": _keyed("name"),
    ".ports": _keyed("containerPort", "protocol", defaults={"protocol": "TCP"}),
    ".env": _keyed("name"),
    ".volumeMounts": _keyed("mountPath"),
    ".volumeDevices": _keyed("devicePath"),
    ".resources.claims": _keyed("name", patch=False),
}


def _pod_spec(prefix: str) -> dict[str, ListRule]:
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

_BY_KIND: Final[dict[str, dict[str, ListRule]]] = {
    "Pod": {
        **_pod_spec("spec"),
        **_CONDITIONS,
        "status.podIPs": _keyed("ip"),
        "status.hostIPs": ListRule(patch_key="ip"),
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
    "Job": {**_pod_spec("spec.template.spec"), "status.conditions": ListRule(patch_key="type"), **_SELECTOR},
    "ResourceClaim": {
        "status.reservedFor": _keyed("uid"),
        "status.devices": _keyed("driver", "device", "pool", "shareID", patch=False),
        "status.devices.conditions": _keyed("type", patch=False),
        "status.allocation.nodeSelector": _ATOMIC_MAP,
    },
    "ResourceSlice": {"spec.nodeSelector": _ATOMIC_MAP},
    "DeviceTaintRule": _CONDITIONS,
    "PodDisruptionBudget": {**_CONDITIONS, **_SELECTOR},
}


def rules_of_kind(kind: str) -> Mapping[str, ListRule]:
    """Dotted path (without indices) -> rule, for every list of a kind that is not simply replaced."""
    return {**_METADATA, **_BY_KIND.get(kind, {})}
