"""What the API server does to objects on their way in, kind by kind: defaults, resets, validation.

`Strategy` is what a kind without rules of its own gets. A kind with rules overrides the steps it needs
(`pods`, `claims`, `slices`, ...); `rest` calls them in this order:

    create:         default -> prepare_create -> validate_create
    update:         default -> prepare_update -> validate_update
    status update:  prepare_status_update -> validate_status_update

Rules of this module
  1. `default` and the `prepare_` steps change the new object only; a `validate_` step changes nothing.
  2. Unknown fields are kept as they are: the client may know fields that this server does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from scheduler.embedded.server.field_selectors import read_path
from scheduler.validation.field_errors import FieldError, Json, invalid
from scheduler.validation.name_rules import NameRule, dns_subdomain

Object = dict[str, Json]

SYSTEM_METADATA: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
"""Metadata that the server alone writes."""
_METADATA_FROM_STATUS: Final = ("generation", "labels", "annotations", "finalizers", "ownerReferences")
"""Metadata that an update of the status sub-resource does not change (ResetObjectMetaForStatus)."""


class StrategyView(Protocol):
    """What a strategy may see of other objects. `minor`: the release of Kubernetes that the server is."""

    minor: int

    def find(self, kind_id: str, namespace: str, name: str) -> Mapping[str, Json] | None:
        """The current object, or None; not to be changed."""

    def listed(self, kind_id: str) -> Iterable[Mapping[str, Json]]:
        """All objects of a kind; not to be changed."""

    def now(self) -> str:
        """The time as RFC 3339, seconds, UTC."""


class Strategy:
    """The rules of a kind; this class: no defaults, no limits."""

    name_rule: NameRule = staticmethod(dns_subdomain)
    bumps_generation = False
    allows_unconditional_update = True
    allows_create_on_update = False
    returns_deleted_object = False
    resets_status_on_create = True
    """A client cannot create an object with a status of its own choosing."""

    def default(self, obj: Object, cluster: StrategyView) -> None:
        """Fill what a client may leave out, in a new object and in an update."""

    def prepare_create(self, obj: Object, cluster: StrategyView) -> None:
        """What a new object gets besides: its first status, and what admission adds."""

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        """What is wrong with a new object."""
        return []

    def prepare_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> None:
        """What the old object decides about the new one."""

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        """What is wrong with an update; kinds with an immutable spec say so here."""
        return self.validate_create(new, cluster)

    def prepare_status_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> None:
        """Take everything but the status from the old object."""
        keep_all_but_status(new, old)
        for field in _METADATA_FROM_STATUS:
            keep_field(new["metadata"], old["metadata"], field)

    def validate_status_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        """What is wrong with an update of the status."""
        return []

    def warnings(self, obj: Mapping[str, Json], cluster: StrategyView) -> list[str]:
        """What a client is told about an object that is taken."""
        return []

    def usage(self, obj: Mapping[str, Json]) -> Mapping[str, int]:
        """What an object takes of quotas, besides being one; of an unchanged spec and phase always the same."""
        return {}

    def grace_period_s(self, obj: Mapping[str, Json], asked: int | None) -> int | None:
        """Seconds an object lives on after DELETE; None: the kind knows no graceful deletion."""
        return None


def keep_field(new: Object, old: Mapping[str, Json], field: str) -> None:
    """Make `new[field]` what it is in `old`, absent included."""
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def keep_all_but_status(new: Object, old: Mapping[str, Json]) -> None:
    """Take every top-level member but metadata and status from `old`."""
    for field in {*new, *old} - {"metadata", "status"}:
        keep_field(new, old, field)


def check_immutable(new: Mapping[str, Json], old: Mapping[str, Json], *paths: str) -> list[FieldError]:
    """What is wrong where members, given as dotted paths, may never change."""
    return [
        invalid(path, read_path(new, path), "field is immutable")
        for path in paths
        if read_path(new, path) != read_path(old, path)
    ]


def set_default(obj: Object, field: str, value: Json) -> None:
    """Set a field that is absent, null or the empty string: what Go's defaulting sees as unset."""
    if obj.get(field) in (None, ""):
        obj[field] = value
