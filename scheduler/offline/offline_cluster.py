"""A cluster at one instant: the embedded API server without HTTP, and what its controllers would have done by now.

Manifests go through the API server's defaults, admission and validation, as they would in a cluster; objects of a dump
are stored as they are. Then the workload controllers make their pods, and claims are made from templates, one for each
pod, or for the pod's PodGroup where the entry is the group's.

Rules of this module
  1. Nothing awaits, sleeps or reads a clock: `now_ms` is the time, and whoever asks moves it.
  2. An object that cannot be stored becomes a `Problem` with its place, and the others are stored.
  3. Equal objects in equal order give equal names and uids.

Not here: deciding (`verdicts`), reading files.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from scheduler.answering import go_on
from scheduler.embedded.controllers.claim_work import (
    claim_from,
    entries_of_templates,
    made_for,
    names_in_status,
    owner_of_claims,
)
from scheduler.embedded.controllers.owned import PODS_MAX, pods_wanted
from scheduler.embedded.controllers.reactors import ObjectKey, Reactor
from scheduler.embedded.controllers.volumes import Volumes
from scheduler.embedded.controllers.workloads import Workloads
from scheduler.embedded.kinds.catalog import CLAIM, CLAIM_TEMPLATE, NODE, POD, default_registry
from scheduler.embedded.kinds.pod_kinds import TERMINAL_PHASES
from scheduler.embedded.kinds.priorities import PRIORITY_CLASSES
from scheduler.embedded.loading import (
    Restorable,
    apply_object,
    is_from_a_server,
    is_restored,
    kind_of,
    restorable,
    restore,
)
from scheduler.embedded.seed import seed_objects
from scheduler.embedded.server.field_validation import check_fields, is_known_elsewhere
from scheduler.embedded.server.incoming import Incoming
from scheduler.embedded.server.object_store import Change, ChangeType, ObjectStore, Stored
from scheduler.embedded.server.quotas import QUOTAS, uncounted
from scheduler.embedded.server.rest import Api
from scheduler.embedded.server.routes import Routes
from scheduler.embedded.server.statuses import ApiError, bad_request
from scheduler.kube.codec import Codec
from scheduler.kube.outcomes import UndecodableError
from scheduler.kube.watched_kind import Broken, Seen
from scheduler.model.keys import PodGroupKey
from scheduler.model.objects import PodResourceClaim
from scheduler.model.pod_group import API_GROUP, PodGroup
from scheduler.model.pod_selectors import SELECTOR_KINDS, SERVICE

Obj = Mapping[str, Any]
Decoded: TypeAlias = dict[tuple[str, bytes], Seen | Broken]

# Whatever others refer to comes first; the rest in the order in which it was given.
_FIRST: Final = (
    *("Namespace", "ResourceQuota", "PriorityClass", "DeviceClass", "Node", "ResourceSlice", "DeviceTaintRule"),
    *("ResourceClaimTemplate", "ResourceClaim"),
    *("StorageClass", "CSIDriver", "CSINode", "PersistentVolume", "PersistentVolumeClaim"),
)
_NOT_RUN: Final = ("CronJob", "ReplicationController")
_WORKLOADS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")
_SELECTING_OWNERS: Final = frozenset(SELECTOR_KINDS) - {SERVICE}
_OF_ONE: Final = ("Pod", "ResourceClaim", "ResourceClaimTemplate", *_WORKLOADS)
_WINDOW: Final = 1
"""Nobody watches: the listener hears of every change."""
_LOOKS_MAX: Final = 100_000


class SourceObject(NamedTuple):
    """An object, and where it stands, for messages."""

    place: str
    obj: Obj


@dataclass(slots=True)
class Problem:
    """Something that could not be used.

    Attributes:
        pod: When it is a pod that the API server refuses.
        concerns_others: Whether somebody else's answer may be another without it: not that of a manifest whose pod
            or claim does not come into being.
    """

    place: str
    name: str
    text: str
    pod: tuple[str, str] | None = None
    concerns_others: bool = True

    def __str__(self) -> str:
        return f"{self.place}: {self.name}: {self.text}"


@dataclass(slots=True)
class Loaded:
    """What became of the objects.

    Attributes:
        problems: What could not be stored.
        notes: What is worth knowing: kinds that play no role, namespaces nobody described.
        claim_problems: By the pod's uid: why a claim could not be made from its template.
        pod_groups: PodGroups with a uid, as given otherwise; the embedded server serves none.
        foreign_groups: Notes on those of another API group, which say nothing to this scheduler.
        owners: What owns the pods of a dump, for its selector alone: a controller would make its pods once more.
        written_pods: Namespace and name of pods that came as manifests.
    """

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    claim_problems: dict[str, str] = field(default_factory=dict)
    pod_groups: list[Obj] = field(default_factory=list)
    foreign_groups: list[str] = field(default_factory=list)
    owners: list[Obj] = field(default_factory=list)
    written_pods: set[tuple[str, str]] = field(default_factory=set)


class OfflineCluster:
    """Objects as an API server holds them.

    Args:
        checked: Objects of a dump that another cluster has checked, by `id`: they are not looked at again. Whoever
            gives it keeps them alive, and leaves them as they are.
        decoded: What machines observed of other clusters' objects, by kind and stored bytes; None shares nothing.
        pods_max: Pods that workloads may make in all.

    Attributes:
        now_ms: The time; only who asks moves it.
        changes: What changed since it was last emptied: kind and change.
    """

    def __init__(
        self,
        now_ms: int,
        checked: dict[int, Restorable] | None = None,
        decoded: Decoded | None = None,
        pods_max: int = PODS_MAX,
    ) -> None:
        self.now_ms = now_ms
        self.decoded: Final = decoded
        self._checked: Final = {} if checked is None else checked
        self.api: Final = Api(default_registry(), ObjectStore(watch_window=_WINDOW), clock=self._clock, seed=0)
        self.changes: list[tuple[str, Change]] = []
        self.loaded: Final = Loaded()
        self._server: Final = Routes(self.api)
        self._workloads: Final = Workloads(self.api, waits_for_ready=False, pods_per_look=PODS_MAX)
        self._volumes: Final = Volumes(self.api)
        self._due: OrderedDict[tuple[Reactor, ObjectKey], None] = OrderedDict()
        self._order: dict[str, int] = {}
        self._groups: dict[PodGroupKey, PodGroup] = {}
        self._made: dict[tuple[str, str], str] = {}
        self._why_missing: Final[dict[tuple[str, str, str], str]] = {}
        self._pods_max: Final = pods_max
        self._pods_made = 0
        self.api.store.listen(self._notice)
        seed_objects(self.api)

    def _clock(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms / 1000, UTC)

    def _notice(self, kind_id: str, change: Change) -> None:
        self.changes.append((kind_id, change))
        if kind_id == POD.kind_id:
            self._order.setdefault(change.current.uid, len(self._order))
        for controller in (self._workloads, self._volumes):
            self._due.update(dict.fromkeys((controller, key) for key in controller.notice(kind_id, change)))

    def send(self, method: str, path: str, body: bytes | None, content_type: str) -> tuple[int, bytes]:
        """A request's code and body."""
        incoming = Incoming(method, path, {}, "application/json", content_type, "dra-scheduler", body or b"")
        reply = self._server.reply_to(incoming)
        return reply.code, reply.body

    def misshapen(self, obj: Obj) -> str:
        """Which field has a value of a wrong type; "" when none has, and for kinds that are not served."""
        try:
            kind = kind_of(self.api, obj)
        except ApiError:
            return ""
        try:
            check_fields(kind, obj, allows_unknown=True)
        except ApiError as error:
            return f"{_name_of(obj)}: {error.message}"
        return ""

    def too_many_pods(self, obj: Obj) -> str:
        """Count the pods that a workload makes, before they are made; what is wrong where there is no room, else ""."""
        if obj.get("kind") not in _WORKLOADS or not self.is_well_shaped(obj):
            return ""
        field, count = pods_wanted(obj, len(self.api.store.listed(NODE.kind_id)))
        if count > self._pods_max - self._pods_made:
            others = f", and others here make {self._pods_made}" if self._pods_made else ""
            return f"{field}: {count} pods; at most {self._pods_max} are made here{others}: write a smaller number"
        self._pods_made += count
        return ""

    def is_well_shaped(self, obj: Obj) -> bool:
        """Whether an object is of a kind that is served, and all values have their types; any may be missing."""
        kind = self.api.registry.by_kind(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
        return kind is not None and not self.misshapen(obj)

    # -- loading -----------------------------------------------------------------------------------

    def load(self, objects: Iterable[SourceObject]) -> Loaded:
        """Store the objects, and do what controllers would do about them."""
        self._store_all(objects)
        for quota in self.api.store.listed(QUOTAS):
            if names := uncounted(quota.obj):
                note = f"ResourceQuota {quota.namespace}/{quota.name}: {', '.join(names)}: not looked at"
                self.loaded.notes.append(note)
        self.run_controllers()
        self.make_claims()
        return self.loaded

    def add(self, objects: Iterable[SourceObject]) -> None:
        """The same for objects that come later, at the cost of what comes."""
        seen = len(self.changes)
        self._store_all(objects)
        self.run_controllers()
        for kind_id, change in self.changes[seen:]:
            if kind_id == POD.kind_id and change.type is ChangeType.ADDED:
                self.make_claims_of(change.current)

    def _store_all(self, objects: Iterable[SourceObject]) -> None:
        rank = {kind: index for index, kind in enumerate(_FIRST)}
        ordered = sorted(
            objects, key=lambda given: (rank.get(str(given.obj.get("kind")), len(rank)), _revision(given.obj))
        )
        described = {name_of(given.obj) for given in ordered if given.obj.get("kind") == "Namespace"}
        for given in ordered:
            go_on()
            try:
                self._store(given, described)
            except ApiError as error:
                self._refused(given, error)

    def _store(self, given: SourceObject, described: set[str]) -> None:
        place, obj = given
        kind_name = str(obj.get("kind", ""))
        if kind_name == "PodGroup":
            self._store_group(obj)
            return
        namespace = str(_metadata(obj).get("namespace") or "default")
        if is_from_a_server(obj):
            if kind_name in _SELECTING_OWNERS:
                self.loaded.owners.append(obj)
            elif is_restored(obj):
                one = self._checked.get(id(obj))
                if one is None:
                    if kind_name == "Pod":
                        check_fields(kind_of(self.api, obj), obj, allows_unknown=True)  # `_undecided` looks inside
                    one = self._checked[id(obj)] = restorable(self.api, _undecided(obj))
                kind, _ = restore(self.api, one)
                if kind.is_namespaced:
                    self._have_namespace(namespace, described)
            return
        if kind_name in _NOT_RUN:
            self.loaded.problems.append(
                Problem(place, _name_of(obj), "no pods are made for it here; write its pods, or a Job or Deployment")
            )
            return
        try:
            kind = kind_of(self.api, obj)
        except ApiError:
            if not is_known_elsewhere(str(obj.get("apiVersion", "")), kind_name):
                raise
            self.loaded.notes.append(f"{place}: {_name_of(obj)}: not looked at")
            return
        # Of a slice only the device is left out that has a field too many (`observing`).
        check_fields(kind, obj, suggests=True, allows_unknown=kind_name == "ResourceSlice")
        if wrong := self.too_many_pods(obj):
            raise bad_request(wrong)
        if kind.is_namespaced:
            self._have_namespace(namespace, described)
        _, stored = apply_object(self.api, obj)
        if kind is POD:
            self.loaded.written_pods.add((stored.namespace, stored.name))

    def _store_group(self, obj: Obj) -> None:
        if not name_of(obj):
            raise bad_request("PodGroup without metadata.name")
        if (api_group := str(obj.get("apiVersion", "")).rpartition("/")[0]) not in ("", API_GROUP):
            text = f"PodGroup {'/'.join(key_of(obj))} of {api_group} is not ours: its pods are scheduled one by one"
            self.loaded.foreign_groups.append(text)
            return
        uid = f"PodGroup-{len(self.loaded.pod_groups)}"
        group = {**obj, "metadata": {"uid": uid, "namespace": "default", "resourceVersion": "1", **_metadata(obj)}}
        spec = group.get("spec")
        if isinstance(spec, dict) and spec.get("priorityClassName") and spec.get("priority") is None:
            # What an API server's admission does.
            kind = self.api.registry.by_storage(PRIORITY_CLASSES)
            found = self.api.find(kind.kind_id, "", str(spec["priorityClassName"]))
            group["spec"] = spec | ({"priority": found.get("value", 0)} if found is not None else {})
        self.loaded.pod_groups.append(group)
        with suppress(UndecodableError):  # the machine says what is wrong
            read: PodGroup = Codec().pod_groups.decode_reply(orjson.dumps(group))
            self._groups[read.key] = read

    def _have_namespace(self, name: str, described: set[str]) -> None:
        kind = self.api.registry.by_storage("namespaces")
        if self.api.find(kind.kind_id, "", name) is None:
            self.api.create(kind, "", {"metadata": {"name": name}})
            if name not in described:
                self.loaded.notes.append(
                    f"namespace {name} is not among the objects: taken as one without labels (admin access needs one)"
                )

    def _refused(self, given: SourceObject, error: ApiError) -> None:
        obj = given.obj
        pod = (str(_metadata(obj).get("namespace") or "default"), name_of(obj)) if obj.get("kind") == "Pod" else None
        concerns_others = is_from_a_server(obj) or obj.get("kind") not in _OF_ONE
        self.loaded.problems.append(Problem(given.place, _name_of(obj), error.message, pod, concerns_others))
        why = error.message.partition(" is invalid: ")[2] or error.message
        self._why_missing[str(obj.get("kind")), *key_of(obj)] = f"{_name_of(obj)}: {why}"

    # -- controllers -------------------------------------------------------------------------------

    def run_controllers(self) -> None:
        """Let the controllers of workloads and volumes look until nothing is due."""
        for _ in range(_LOOKS_MAX):
            if not self._due:
                return
            (controller, key), _ = self._due.popitem(last=False)
            try:
                controller.look(key)
            except ApiError as error:
                name = f"{key.kind_id.partition('.')[0]} {key.namespace}/{key.name}"
                problem = Problem("its controller", name, error.message)
                if problem not in self.loaded.problems:
                    self.loaded.problems.append(problem)

    def make_claims(self) -> None:
        """What the resource claim controller does for pods that wait for claims from templates."""
        for claim in self.api.store.listed(CLAIM.kind_id):
            for key in made_for(claim.obj):
                self._made.setdefault(key, claim.name)
        for stored in self.stored_pods():
            status = stored.obj.get("status") or {}
            if not stored.obj["metadata"].get("deletionTimestamp") and status.get("phase") not in TERMINAL_PHASES:
                self.make_claims_of(stored)

    def make_claims_of(self, pod: Stored) -> None:
        """Make the claims that a pod waits for, and name them in its status."""
        known, made = names_in_status(pod.obj), dict[str, str]()
        for entry, template_name in entries_of_templates(pod.obj):
            if entry in known:
                continue
            try:
                made[entry] = self._claim_for(pod, entry, template_name)
            except ApiError as error:
                # The claim's name was made up; a quota's text says which.
                self.loaded.claim_problems[pod.uid] = error.message.rpartition(" is forbidden: ")[2]
        for entry in pod.obj["spec"].get("resourceClaims") or ():
            name = str(entry.get("resourceClaimName"))
            why = self._why_missing.get((CLAIM.kind, pod.namespace, name))
            if why is not None and self.api.find(CLAIM.kind_id, pod.namespace, name) is None:
                self.loaded.claim_problems[pod.uid] = why
        if not made:
            return

        def change(obj: dict[str, Any]) -> dict[str, Any]:
            statuses = obj.setdefault("status", {}).setdefault("resourceClaimStatuses", [])
            statuses += ({"name": entry, "resourceClaimName": claim} for entry, claim in made.items())
            return obj

        self.api.update(POD, pod.namespace, pod.name, change, sub_resource="status")

    def _claim_for(self, pod: Stored, entry: str, template_name: str) -> str:
        """The name of the pod's claim for an entry, or of its group's, made where there is none."""
        owner = owner_of_claims(pod.obj)
        named = pod.obj["spec"].get("schedulingGroup") or {}
        group = self._groups.get(PodGroupKey(pod.namespace, str(named.get("podGroupName"))))
        if group is not None and PodResourceClaim(entry, resource_claim_template_name=template_name) in group.claims:
            owner |= {"apiVersion": f"{API_GROUP}/v1alpha2", "kind": "PodGroup"}
            owner |= {"name": group.key.name, "uid": group.uid}
        made = self._made.get((owner["uid"], entry))
        if made is None or self.api.find(CLAIM.kind_id, pod.namespace, made) is None:
            template = self.api.find(CLAIM_TEMPLATE.kind_id, pod.namespace, template_name)
            if template is None:
                missing = f'resource claim template "{template_name}": not found'
                why = self._why_missing.get((CLAIM_TEMPLATE.kind, pod.namespace, template_name), missing)
                raise ApiError(404, "NotFound", why)
            made = self.api.create(CLAIM, pod.namespace, claim_from(template, owner, entry)).name
            self._made[owner["uid"], entry] = made
        return made

    # -- reading -----------------------------------------------------------------------------------

    def stored_pods(self) -> list[Stored]:
        """All pods: those of dumps by revision, the order in which a scheduler observes them, then the others."""
        return sorted(self.api.store.listed(POD.kind_id), key=lambda pod: self._order[pod.uid])

    def pods(self) -> list[Obj]:
        """The same as objects."""
        return [stored.obj for stored in self.stored_pods()]


def _metadata(obj: Obj) -> Mapping[str, Any]:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def name_of(obj: Obj) -> str:
    """`metadata.name` as a text, "" where there is none."""
    return str(_metadata(obj).get("name") or "")


def key_of(obj: Obj) -> tuple[str, str]:
    """Namespace and name, as they were given; of one without a namespace `default`."""
    return str(_metadata(obj).get("namespace") or "default"), name_of(obj)


def created_at(obj: Obj) -> str:
    """When an object was created, as the server writes times; "" in a manifest."""
    return str(_metadata(obj).get("creationTimestamp") or "")


def makes_pods(obj: Obj) -> bool:
    """Whether a manifest is a workload whose pods are made here (those of a dump are in the dump)."""
    return obj.get("kind") in (*_WORKLOADS, *_NOT_RUN) and not is_from_a_server(obj)


def is_waiting(pod: Obj) -> bool:
    """Whether a scheduler would have to find a node for a pod, or somebody wrote it with a node of its own."""
    status = pod.get("status")
    status = status if isinstance(status, Mapping) else {}
    return (
        (not pod["spec"].get("nodeName") or not is_from_a_server(pod))
        and not _metadata(pod).get("deletionTimestamp")
        and str(status.get("phase")) not in TERMINAL_PHASES
    )


def waits_for_a_node(pod: Obj) -> bool:
    """Whether it waits, and names no node of its own."""
    return is_waiting(pod) and not pod["spec"].get("nodeName")


def _revision(obj: Obj) -> tuple[bool, int]:
    """Objects of a dump by revision, then all others."""
    text = str(_metadata(obj).get("resourceVersion", ""))
    return (False, int(text)) if text.isdecimal() else (True, 0)


def _undecided(obj: Obj) -> Obj:
    """A pod of a dump that waits, without what its scheduler said: it is asked anew."""
    if obj.get("kind") != "Pod" or not isinstance(obj.get("spec"), Mapping) or not is_waiting(obj):
        return obj
    if obj["spec"].get("schedulingGates"):
        return obj
    status = dict(obj.get("status") or {})
    status["conditions"] = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
    return {**obj, "status": status}


def _name_of(obj: Obj) -> str:
    return f"{obj.get('kind', '')} {name_of(obj) or _metadata(obj).get('generateName') or '<unnamed>'}"
