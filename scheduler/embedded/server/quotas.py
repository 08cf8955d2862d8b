"""ResourceQuota: what the objects of a namespace come to, and what one more may not exceed.

Counted are objects of every kind (`count/KIND.GROUP`) and what a kind's `Strategy.usage` says: pods, the devices of
claims by class, extended resources. A quota's other names (cpu, memory, `limits.`), and quotas with scopes, are not
looked at (`uncounted`).

The sums of a namespace are made when the first object comes that a quota there could refuse, and kept up to date.

Source: k8s.io/kubernetes v1.37.2 pkg/quota/v1/evaluator/core, k8s.io/apiserver pkg/admission/plugin/resourcequota.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from cel.quantity import Quantity
from scheduler.embedded.server.object_store import Change, ChangeType, ObjectStore, Stored
from scheduler.embedded.server.served_kinds import Registry, ServedKind
from scheduler.model.resources import IMPLICIT_PREFIX, parse_nano
from scheduler.validation.field_errors import Json

QUOTAS: Final = "resourcequotas"
DEVICES_OF_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
REQUESTS: Final = "requests."
_CLASSES: Final = "deviceclasses.resource.k8s.io"
_NANO: Final = 10**9


def uncounted(quota: Mapping[str, Json]) -> list[str]:
    """What of a quota nobody looks at here."""
    spec = quota.get("spec") or {}
    scopes = [name for name in ("scopes", "scopeSelector") if spec.get(name)]
    return scopes or sorted(name for name in spec.get("hard") or {} if not _is_counted(name))


def _is_counted(name: str) -> bool:
    is_extended = name.startswith(REQUESTS) and "/" in name
    return is_extended or name == "pods" or name.startswith("count/") or name.endswith(DEVICES_OF_CLASS)


class Quotas:
    """What is used of each namespace that has a quota."""

    def __init__(self, registry: Registry, store: ObjectStore) -> None:
        self._registry: Final = registry
        self._store: Final = store
        self._used: Final[dict[str, Counter[str]]] = {}
        store.listen(self._notice)

    def why_not(self, kind: ServedKind, namespace: str, obj: Mapping[str, Json]) -> str:
        """Which quota a new object would exceed, in the API server's words; "" where none."""
        quotas = self._store.listed(QUOTAS, namespace) if kind.is_namespaced else ()
        if not quotas:
            return ""
        asked = _usage(kind, obj)
        used = self._used.get(namespace)
        if used is None:
            used = self._used[namespace] = self._sum_up(namespace)
        for quota in quotas:
            spec = quota.obj.get("spec") or {}
            if spec.get("scopes") or spec.get("scopeSelector"):
                continue
            over = list(self._exceeded(spec.get("hard") or {}, asked, used))
            if over:
                parts = (",".join(f"{one[0]}={one[index]}" for one in over) for index in (1, 2, 3))
                return "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(quota.name, *parts)
        return ""

    def _exceeded(
        self, hard: Mapping[str, Json], asked: Mapping[str, int], used: Mapping[str, int]
    ) -> Iterator[tuple[str, str, str, Json]]:
        for name in sorted(filter(_is_counted, hard)):
            limit = parse_nano(hard[name])
            names = self._names_of(name)
            more, taken = (sum(counts.get(one, 0) for one in names) for counts in (asked, used))
            if limit is not None and more and (more + taken) * _NANO > limit:
                yield name, *(str(Quantity.from_int(count, "DecimalSI")) for count in (more, taken)), hard[name]

    def _names_of(self, name: str) -> list[str]:
        """An extended resource is what pods ask of it, and what claims of its DeviceClass ask."""
        resource = name.removeprefix(REQUESTS)
        if not name.startswith(REQUESTS) or resource.startswith(IMPLICIT_PREFIX):
            return [name]
        classes = (one.name for one in self._store.listed(_CLASSES) if _extended_name(one) == resource)
        return [name, *(f"{REQUESTS}{IMPLICIT_PREFIX}{one}" for one in classes)]

    def _sum_up(self, namespace: str) -> Counter[str]:
        used: Counter[str] = Counter()
        for kind_id, stored in self._store:
            if stored.namespace == namespace:
                used.update(_usage(self._registry.by_storage(kind_id), stored.obj))
        return used

    def _notice(self, kind_id: str, change: Change) -> None:
        used = self._used.get(change.current.namespace)
        if used is None:
            return
        kind = self._registry.by_storage(kind_id)
        if change.previous is not None:
            used.subtract(_usage(kind, change.previous.obj))
        if change.type is not ChangeType.DELETED:
            used.update(_usage(kind, change.current.obj))


def _usage(kind: ServedKind, obj: Mapping[str, Json]) -> Mapping[str, int]:
    return {**kind.strategy.usage(obj), f"count/{kind.kind_id}": 1}


def _extended_name(device_class: Stored) -> Json:
    return (device_class.obj.get("spec") or {}).get("extendedResourceName")
