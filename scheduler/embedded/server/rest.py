"""The REST semantics of the API: create, update, patch, delete, list, binding, on the store.

Plain calls without HTTP, used by the HTTP server and by the controllers that live in this process.

Rules of this module
  1. Every operation is one synchronous call: it either refuses with `ApiError` and changes nothing, or
     is applied completely. Two requests never interleave.
  2. A write that changes nothing makes no new revision and no watch event.
  3. The rules of one kind are in its `Strategy` and its sub-resources; nothing here looks at a kind's name, except
     for namespaces, which contain the other objects, and their quotas (`quotas`).

Source: k8s.io/apiserver v0.36.3 pkg/registry/generic/registry/store.go, pkg/registry/rest/{create,update,delete}.go.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from scheduler.embedded.server.field_selectors import ObjectPredicate
from scheduler.embedded.server.object_store import ObjectStore, Stored
from scheduler.embedded.server.quotas import Quotas
from scheduler.embedded.server.served_kinds import Registry, ServedKind
from scheduler.embedded.server.statuses import (
    ApiError,
    already_exists,
    bad_request,
    conflict,
    forbidden_request,
    invalid_object,
    not_found,
)
from scheduler.embedded.server.strategy import SYSTEM_METADATA, Object, keep_field
from scheduler.model.label_selectors import TextSelector
from scheduler.model.timestamps import format_rfc3339
from scheduler.validation.api_fields import NEWEST
from scheduler.validation.field_errors import FieldError, Json, forbidden, invalid
from scheduler.validation.name_rules import validate_metadata

NAMESPACES: Final = "namespaces"
FINALIZER_ORPHAN: Final = "orphan"
FINALIZER_FOREGROUND: Final = "foregroundDeletion"

_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_NAME_LENGTH_MAX: Final = 63


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a client may ask of a write besides the object."""

    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The body and query of a DELETE."""

    grace_period_s: int | None = None
    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    dry_run: bool = False

    @classmethod
    def read(cls, body: Mapping[str, Json]) -> DeleteOptions:
        preconditions = body.get("preconditions") or {}
        grace, propagation = body.get("gracePeriodSeconds"), body.get("propagationPolicy") or ""
        if body.get("orphanDependents") is not None and not propagation:
            propagation = "Orphan" if str(body["orphanDependents"]).lower() == "true" else "Background"
        return cls(
            grace_period_s=None if grace is None else int(grace),
            uid=preconditions.get("uid") or "",
            resource_version=preconditions.get("resourceVersion") or "",
            propagation=propagation,
            dry_run="All" in (body.get("dryRun") or ()),
        )


DEFAULT_WRITE: Final = WriteOptions()
DEFAULT_DELETE: Final = DeleteOptions()


def format_time(moment: datetime) -> str:
    """RFC 3339 with seconds, UTC: metav1.Time."""
    return format_rfc3339(moment.timestamp())


class Api:
    """All operations on the objects of a registry's kinds.

    Args:
        clock: Returns the wall-clock time, timezone-aware.
        minor: The release of Kubernetes whose rules hold.
        seed: For uids and the suffixes of generated names, where a caller wants the same values again.
    """

    def __init__(
        self,
        registry: Registry,
        store: ObjectStore,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        minor: int = NEWEST,
        seed: int | None = None,
    ) -> None:
        self.registry = registry
        self.minor = minor
        self.store = store
        self._quotas = Quotas(registry, store)
        self._clock = clock
        self._random = random.Random(seed)  # noqa: S311 - uids and name suffixes, no secret

    # -- what strategies may see (StrategyView) ----------------------------------------------------

    def find(self, kind_id: str, namespace: str, name: str) -> Mapping[str, Json] | None:
        """The current object, or None; not to be changed."""
        stored = self.store.get(kind_id, namespace, name)
        return stored.obj if stored else None

    def listed(self, kind_id: str) -> Iterable[Mapping[str, Json]]:
        """All objects of a kind; not to be changed."""
        return (stored.obj for stored in self.store.listed(kind_id))

    def now(self) -> str:
        return format_time(self._clock())

    # -- reading -----------------------------------------------------------------------------------

    def get(self, kind: ServedKind, namespace: str, name: str) -> Stored:
        """One object. Raises ApiError: 404."""
        stored = self.store.get(kind.kind_id, namespace, name)
        if stored is None:
            raise not_found(kind.group, kind.plural, name)
        return stored

    def select(
        self, kind: ServedKind, namespace: str, labels: TextSelector | None, fields: ObjectPredicate | None
    ) -> list[Stored]:
        """The objects that match, in key order."""
        found = self.store.listed(kind.kind_id, namespace)
        if labels is None and fields is None:
            return found
        return [stored for stored in found if matches(stored, labels, fields)]

    # -- create ------------------------------------------------------------------------------------

    def create(self, kind: ServedKind, namespace: str, obj: Object, options: WriteOptions = DEFAULT_WRITE) -> Stored:
        """Create an object; `obj` (in its stored shape) belongs to the store afterwards.

        Raises:
            ApiError: 400, 403, 404 (namespace), 409 (exists), 422 (invalid).
        """
        metadata = self._check_envelope(kind, namespace, obj)
        if metadata.get("resourceVersion"):
            # No reason and 500: what the real server answers, as this is an error of its storage layer.
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        self._name(kind, namespace, metadata)
        if kind.is_namespaced:
            metadata["namespace"] = namespace
            self._check_namespace_admits(kind, namespace, metadata.get("name", ""))
        else:
            metadata.pop("namespace", None)
        metadata["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = self.now()
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
            metadata.pop(field, None)
        strategy = kind.strategy
        if strategy.bumps_generation:
            metadata["generation"] = 1
        if kind.has_status and strategy.resets_status_on_create:
            obj["status"] = {}
        strategy.default(obj, self)
        strategy.prepare_create(obj, self)
        errors = validate_metadata(metadata, namespaced=kind.is_namespaced, rule=strategy.name_rule)
        errors += strategy.validate_create(obj, self)
        name: str = metadata.get("name") or ""
        if errors:
            raise invalid_object(kind.group, kind.kind, name, errors)
        if why := self._quotas.why_not(kind, namespace, obj):
            raise forbidden_request(kind.group, kind.plural, name, why)
        if self.store.get(kind.kind_id, namespace, name) is not None:
            raise already_exists(kind.group, kind.plural, name)
        if options.dry_run:
            return Stored(namespace, name, obj, self.store.revision)
        return self.store.put(kind.kind_id, namespace, name, obj)

    def _check_envelope(self, kind: ServedKind, namespace: str, obj: Object) -> Object:
        obj.pop("kind", None)
        obj.pop("apiVersion", None)
        metadata = obj.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise bad_request(f"{kind.kind}: metadata must be an object, not {type(metadata).__name__}")
        metadata.pop("managedFields", None)  # nobody owns fields here
        for field in ("labels", "annotations", "finalizers", "ownerReferences"):
            if field in metadata and not metadata[field]:
                del metadata[field]  # Go writes no empty maps and lists here.
        given = metadata.get("namespace")
        if given and kind.is_namespaced and given != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        # The first member of the body must be metadata: see ServedKind.prefix.
        obj_rest = {key: value for key, value in obj.items() if key != "metadata"}
        obj.clear()
        obj["metadata"] = metadata
        obj.update(obj_rest)
        return metadata

    def _name(self, kind: ServedKind, namespace: str, metadata: Object) -> None:
        if metadata.get("name"):
            return
        base: str = metadata.get("generateName") or ""
        if not base:
            return
        base = base[: _GENERATED_NAME_LENGTH_MAX - 5]
        name = ""
        for _ in range(8):
            name = base + "".join(self._random.choices(_SUFFIX_ALPHABET, k=5))
            if self.store.get(kind.kind_id, namespace if kind.is_namespaced else "", name) is None:
                break
        metadata["name"] = name

    def _check_namespace_admits(self, kind: ServedKind, namespace: str, name: str) -> None:
        found = self.store.get(NAMESPACES, "", namespace)
        if found is None:
            raise not_found("", NAMESPACES, namespace)
        if found.obj["metadata"].get("deletionTimestamp"):
            error = forbidden_request(
                kind.group,
                kind.plural,
                name,
                f"unable to create new content in namespace {namespace} because it is being terminated",
            )
            assert error.details is not None
            error.details["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise error

    # -- update ------------------------------------------------------------------------------------

    def update(
        self,
        kind: ServedKind,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        *,
        sub_resource: str = "",
        is_replacement: bool = False,
        options: WriteOptions = DEFAULT_WRITE,
    ) -> Stored:
        """Apply `change` to a private copy of the current object and store the result.

        Args:
            change: From the copy to the new object; may refuse with ApiError.
            sub_resource: `status`, or empty for the object itself.
            is_replacement: The client sent a whole object (PUT), so a missing resourceVersion means
                an unconditional update.

        Returns:
            The new version; the last version if the update removed the last finalizer of an object
            that was being deleted; the current one if nothing changed.

        Raises:
            ApiError: 404, 409 (resourceVersion or uid), 422.
        """
        current = self.get(kind, namespace, name)
        old = current.obj
        new = change(current.copy())
        metadata = self._check_envelope(kind, namespace, new)
        strategy = kind.strategy
        self._check_identity(kind, current, metadata, is_replacement=is_replacement)
        immutable = _validate_immutable_metadata(metadata, old["metadata"], is_status=sub_resource == "status")
        for field in SYSTEM_METADATA:
            keep_field(metadata, old["metadata"], field)
        metadata["name"] = name
        if kind.is_namespaced:
            metadata["namespace"] = namespace
        if sub_resource == "status":
            strategy.prepare_status_update(new, old, self)
            errors = strategy.validate_status_update(new, old, self)
        else:
            if kind.has_status:
                keep_field(new, old, "status")
            strategy.default(new, self)
            strategy.prepare_update(new, old, self)
            errors = validate_metadata(metadata, namespaced=kind.is_namespaced, rule=strategy.name_rule)
            errors += strategy.validate_update(new, old, self)
        errors = immutable + errors + _validate_metadata_change(metadata, old["metadata"])
        if errors:
            raise invalid_object(kind.group, kind.kind, name, errors)
        if strategy.bumps_generation and _differs_beyond_metadata(new, old):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1
        return self._commit(kind, current, new, options)

    def _check_identity(self, kind: ServedKind, current: Stored, metadata: Object, *, is_replacement: bool) -> None:
        given = metadata.get("name")
        if given != current.name:
            raise bad_request(
                f"the name of the object ({given or ''}) does not match the name on the URL ({current.name})"
                if is_replacement
                else f"metadata.name: Invalid value: the patch changes the name to {given!r}"
            )
        uid = metadata.get("uid")
        # A whole object's UID is a precondition; in a patch it is a field that may not change.
        if is_replacement and uid and uid != current.uid:
            raise conflict(kind.group, kind.plural, current.name, uid_precondition(uid, current.uid))
        version = metadata.get("resourceVersion")
        if version:
            if str(version) != str(current.revision):
                raise conflict(kind.group, kind.plural, current.name)
        elif is_replacement and not kind.strategy.allows_unconditional_update:
            error = FieldError(
                "FieldValueInvalid",
                "metadata.resourceVersion",
                "Invalid value: 0: must be specified for an update",
            )
            raise invalid_object(kind.group, kind.kind, current.name, [error])

    def _commit(self, kind: ServedKind, current: Stored, new: Object, options: WriteOptions) -> Stored:
        metadata = new["metadata"]
        metadata["resourceVersion"] = current.obj["metadata"]["resourceVersion"]
        if new == current.obj:
            return current
        if options.dry_run:
            return Stored(current.namespace, current.name, new, current.revision)
        if _is_ready_to_go(metadata) and not _has_namespace_finalizer(kind, new):
            return self.store.remove(kind.kind_id, current.namespace, current.name, new)
        return self.store.put(kind.kind_id, current.namespace, current.name, new)

    # -- delete ------------------------------------------------------------------------------------

    def delete(
        self, kind: ServedKind, namespace: str, name: str, options: DeleteOptions = DEFAULT_DELETE
    ) -> tuple[Stored, bool]:
        """Delete an object, or begin to.

        Returns:
            The object's last version, and whether it is gone (False: finalizers or a grace period keep it).

        Raises:
            ApiError: 404, 409 (preconditions).
        """
        current = self.get(kind, namespace, name)
        self._check_delete_preconditions(kind, current, options)
        new = current.copy()
        metadata = new["metadata"]
        finalizers = _finalizers_after_delete(metadata.get("finalizers") or [], options.propagation)
        grace_s = kind.strategy.grace_period_s(current.obj, options.grace_period_s)
        must_stay = bool(finalizers) or bool(grace_s) or _has_namespace_finalizer(kind, current.obj)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        if options.dry_run:
            return current, not must_stay
        if not must_stay and grace_s is None:
            return self.store.remove(kind.kind_id, namespace, name, new), True
        self._mark_deleted(kind, new, grace_s or 0)
        if new != current.obj:
            # Objects with graceful deletion are seen as deleted before they go, even when that is at once.
            current = self.store.put(kind.kind_id, namespace, name, new)
        if must_stay:
            return current, False
        return self.store.remove(kind.kind_id, namespace, name, current.copy()), True

    def _mark_deleted(self, kind: ServedKind, new: Object, grace_s: int) -> None:
        metadata = new["metadata"]
        if kind.kind_id == NAMESPACES:
            metadata.setdefault("deletionTimestamp", self.now())
            new.setdefault("status", {})["phase"] = "Terminating"
            return
        left_s = metadata.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" not in metadata or (left_s is not None and grace_s < left_s):
            metadata["deletionTimestamp"] = format_time(self._clock() + timedelta(seconds=grace_s))
            metadata["deletionGracePeriodSeconds"] = grace_s
            if kind.strategy.bumps_generation:
                metadata["generation"] = metadata.get("generation", 0) + 1

    def _check_delete_preconditions(self, kind: ServedKind, current: Stored, options: DeleteOptions) -> None:
        if options.uid and options.uid != current.uid:
            why = (
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({current.uid}). "
                "The object might have been deleted and then recreated"
            )
            raise conflict(kind.group, kind.kind, current.name, why)
        if options.resource_version and options.resource_version != str(current.revision):
            why = (
                f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
                f"ResourceVersion in record ({current.revision}). The object might have been modified"
            )
            raise conflict(kind.group, kind.kind, current.name, why)


def matches(stored: Stored, labels: TextSelector | None, fields: ObjectPredicate | None) -> bool:
    """Whether an object satisfies both selectors; None selects everything."""
    if labels is not None and not labels.matches(stored.obj["metadata"].get("labels") or {}):
        return False
    return fields is None or fields(stored.obj)


def uid_precondition(asked: str, actual: str) -> str:
    """Why a write that names another UID is refused."""
    return f"Precondition failed: UID in precondition: {asked}, UID in object meta: {actual}"


def _is_ready_to_go(metadata: Mapping[str, Json]) -> bool:
    """Whether a deleted object has nothing left that keeps it."""
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )


def _has_namespace_finalizer(kind: ServedKind, obj: Mapping[str, Json]) -> bool:
    return kind.kind_id == NAMESPACES and bool(obj.get("spec", {}).get("finalizers"))


def _finalizers_after_delete(finalizers: list[str], propagation: str) -> list[str]:
    """Add what the propagation policy asks for; the garbage collector takes it off again."""
    kept = [name for name in finalizers if not propagation or name not in (FINALIZER_ORPHAN, FINALIZER_FOREGROUND)]
    if propagation == "Orphan":
        kept.append(FINALIZER_ORPHAN)
    elif propagation == "Foreground":
        kept.append(FINALIZER_FOREGROUND)
    return kept


def _differs_beyond_metadata(new: Mapping[str, Json], old: Mapping[str, Json]) -> bool:
    members = {*new, *old} - {"metadata", "status"}
    return any(new.get(member) != old.get(member) for member in members)


def _validate_immutable_metadata(
    new: Mapping[str, Json], old: Mapping[str, Json], *, is_status: bool
) -> list[FieldError]:
    """Fields that a client may repeat or leave out, but not change; a status update resets more of them."""
    return [
        invalid(f"metadata.{field}", new[field], "field is immutable")
        for field in (("uid",) if is_status else ("uid", "deletionTimestamp"))
        if new.get(field) and new[field] != old.get(field)
    ]


def _validate_metadata_change(new: Mapping[str, Json], old: Mapping[str, Json]) -> list[FieldError]:
    """What is wrong with a change of metadata; fields that the server keeps by itself are no error."""
    if "deletionTimestamp" not in old:
        return []
    added = [name for name in new.get("finalizers") or () if name not in (old.get("finalizers") or ())]
    if not added:
        return []
    listed = ", ".join(f'"{name}"' for name in added)
    return [
        forbidden(
            "metadata.finalizers",
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}",
        )
    ]
