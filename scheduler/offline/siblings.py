"""A pod beside the other pods of its owner: those that wait, too, and fit have the places that they would get.

Rules of this module
  1. Pods that workloads of files make become objects of their own, in their workloads' stead; of these the selectors
     stay, by which pods are spread.
  2. A pod of a group has no siblings here: it is placed with its group (`group_mates`).

Not here: what is asked then (`scheduler.explain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from allocator import Features
from scheduler.config.settings import Config
from scheduler.embedded.kinds.catalog import CLAIM, DAEMON_SET, DEPLOYMENT, JOB, POD, REPLICA_SET, STATEFUL_SET
from scheduler.embedded.server.object_store import Stored
from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.model.pod_claims import claim_names
from scheduler.offline.group_mates import group_of
from scheduler.offline.offline_cluster import Obj, OfflineCluster, SourceObject, key_of, makes_pods, waits_for_a_node
from scheduler.offline.verdicts import BUDGET_STEPS, PodResult, decide

SIBLINGS_MAX: Final = 1_000
"""Pods that are tried beside the one that is asked about; there may be more."""
_TURNS_MAX: Final = 2_000
"""Of the scheduler, for the siblings: those that have no place by then take none."""
_WORKLOADS: Final = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB)
_KINDS: Final = {"Pod": POD, "ResourceClaim": CLAIM}
_OF_THE_SERVER: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")

Key = tuple[str, str]


class Beside(NamedTuple):
    """Objects among which the pod is asked about alone; how many siblings were tried, and how many of them fit."""

    given: Sequence[SourceObject]
    tried: int = 0
    fit: int = 0


def beside_siblings(
    given: Sequence[SourceObject],
    key: Key,
    cluster: OfflineCluster,
    *,
    features: Features,
    config: Config | None,
) -> Beside:
    """The objects with the pod's siblings on their nodes, where they fit.

    Args:
        cluster: An empty one, of which nothing is left to use.
    """
    makes = any(makes_pods(one.obj) for one in given)
    if not makes and not any(True for _ in _siblings(_pods(given), key)):
        return Beside(given)
    cluster.load(given)
    if makes:
        given = [*_with_made(given, cluster)]
    siblings = [key_of(pod) for pod in _siblings(cluster.pods(), key)][:SIBLINGS_MAX]
    if not siblings:
        return Beside(given)
    before = {kind: {(one.namespace, one.name): one.revision for one in _stored(cluster, kind)} for kind in _KINDS}
    asked = {key, *siblings}
    answers = decide(
        cluster, features=features, budget_steps=BUDGET_STEPS, config=config, asked=asked, turns_max=_TURNS_MAX
    )
    fit = {one.pod for one in answers.verdicts if one.outcome is PodResult.FITS and one.pod != key}
    return Beside([*_placed(given, key, cluster, fit, before)], len(siblings), len(fit))


def _pods(given: Sequence[SourceObject]) -> Iterator[Obj]:
    for _, obj in given:
        if (
            obj.get("kind") == "Pod"
            and isinstance(obj.get("metadata"), Mapping)
            and isinstance(obj.get("spec"), Mapping)
        ):
            yield obj


def _siblings(pods: Iterable[Obj], key: Key) -> Iterator[Obj]:
    """The pods of the same controller that wait, too."""
    there = {key_of(pod): pod for pod in pods}
    pod = there.get(key)
    if pod is None or group_of(pod) is not None or (owner := controller_of(pod)) is None or not waits_for_a_node(pod):
        return
    for other, one in there.items():
        if other != key and other[0] == key[0] and controller_of(one) == owner and waits_for_a_node(one):
            yield one


def controller_of(obj: Obj) -> Key | None:
    """Kind and name of who makes an object; any field may be wrong."""
    metadata = obj.get("metadata")
    references = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    for one in references if isinstance(references, list) else ():
        if isinstance(one, Mapping) and one.get("controller") is True:
            return str(one.get("kind")), str(one.get("name"))
    return None


def _with_made(given: Sequence[SourceObject], cluster: OfflineCluster) -> Iterator[SourceObject]:
    """Workloads whose pods were made are replaced by these; others stay, for what is wrong with them."""
    places = {(str(one.obj.get("kind")), *key_of(one.obj)): one.place for one in given if makes_pods(one.obj)}
    stored = [_named(one, kind) for kind in _WORKLOADS for one in cluster.api.store.listed(kind.kind_id)]
    above = {(str(obj["kind"]), *key_of(obj)): controller_of(obj) for obj in stored}
    written = {key_of(pod) for pod in _pods(given)}
    made: list[SourceObject] = []
    gone = set()
    for pod in cluster.pods():
        owner, namespace = controller_of(pod), pod["metadata"]["namespace"]
        while owner is not None and (owner[0], namespace, owner[1]) not in places:
            owner = above.get((owner[0], namespace, owner[1]))
        if owner is not None and key_of(pod) not in written:
            gone.add((owner[0], namespace, owner[1]))
            made.append(SourceObject(places[owner[0], namespace, owner[1]], _as_written(pod)))
    for one in given:
        if not makes_pods(one.obj) or (str(one.obj.get("kind")), *key_of(one.obj)) not in gone:
            yield one
    yield from (SourceObject("made", obj) for obj in stored if obj["kind"] in ("ReplicaSet", "StatefulSet"))
    yield from made


def _stored(cluster: OfflineCluster, kind: str) -> Iterable[Stored]:
    return cluster.api.store.listed(_KINDS[kind].kind_id)


def _named(stored: Stored, kind: ServedKind) -> Obj:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **stored.obj}


def _as_written(pod: Obj) -> dict[str, Any]:
    """Without what the server and controllers have set: its claims are made from templates as these are then."""
    metadata = {field: value for field, value in pod["metadata"].items() if field not in _OF_THE_SERVER}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}


def _placed(
    given: Sequence[SourceObject],
    key: Key,
    cluster: OfflineCluster,
    fit: set[Key],
    before: Mapping[str, Mapping[Key, int]],
) -> Iterator[SourceObject]:
    """The objects as these pods leave them: whom they preempt is gone."""
    now = {kind: {(one.namespace, one.name): one for one in _stored(cluster, kind)} for kind in before}
    own, *others = ({(one[0], name) for name in claim_names(now["Pod"][one].obj)} for one in (key, *sorted(fit)))
    taken = set[Key]().union(*others)
    claims = now["ResourceClaim"].items()
    left = {one for one, claim in claims if claim.revision != before["ResourceClaim"].get(one)} - own | taken
    changed = [*(("Pod", one) for one in sorted(fit)), *(("ResourceClaim", one) for one in sorted(left))]
    gone = {(kind, one) for kind in before for one in before[kind].keys() - now[kind].keys()}
    replaced = gone.union(changed)
    yield from (one for one in given if (str(one.obj.get("kind")), key_of(one.obj)) not in replaced)
    known = {str(meta.get("uid")) for one in given if isinstance(meta := one.obj.get("metadata"), Mapping)}
    objects = [_named(now[kind][one], _KINDS[kind]) for kind, one in changed]
    text = orjson.dumps(objects).decode()
    for made in {obj["metadata"]["uid"] for obj in objects} - known:
        text = text.replace(made, f"beside-{made}")  # the next cluster would make the same
    yield from (SourceObject("as it would be", obj) for obj in orjson.loads(text))
