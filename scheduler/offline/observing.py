"""The objects of an offline cluster, as a machine observes them.

Not here: the objects (`offline_cluster`), what the machine makes of them (`verdicts`, `every_node`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from allocator import Features
from scheduler.core.machine import Machine
from scheduler.core.observation import KINDS
from scheduler.embedded.server.object_store import Stored
from scheduler.framework.api import Profile
from scheduler.kube.codec import Codec
from scheduler.kube.watched_kind import Broken, Seen, WatchedKind
from scheduler.model.label_selectors import TextSelector
from scheduler.offline.left_out_parts import LeftOutParts
from scheduler.offline.offline_cluster import Obj, OfflineCluster

_SHARED: Final = ("Node", "ResourceSlice")


def observed_machine(
    cluster: OfflineCluster,
    features: Features,
    *,
    scheduler_name: str = "dra-scheduler",
    left_out: Collection[str] = (),
    slices: TextSelector | None = None,
) -> tuple[Machine, list[str]]:
    """A machine that has observed the cluster's objects, and decides nothing as its lists are never complete.

    Args:
        scheduler_name: Whose pods its queue holds; no plugin keeps any out.
        left_out: Uids of pods that are not observed.

    Returns:
        The machine, and what of the objects it cannot read, with the reason.
    """
    machine = Machine([Profile(scheduler_name)], features=features, new_uid=lambda: "")
    left = LeftOutParts()
    for kind, seen in observe_all(cluster, Codec(slices, reads=KINDS), left_out):
        left.look_at(kind, seen)
        if isinstance(seen, Seen):
            machine.handle(seen.input, now_ms=cluster.now_ms)
    return machine, left.texts


def watched_kinds(cluster: OfflineCluster, codec: Codec) -> dict[str, WatchedKind]:
    """By the name under which they are stored; pods last, so that none waits for what is observed after it."""
    stored = {kind.kind: kind.kind_id for kind in cluster.api.registry.kinds}
    return {stored[kind.name]: kind for kind in codec.kinds if kind.name in stored}


def observe_all(
    cluster: OfflineCluster, codec: Codec, left_out: Collection[str]
) -> Iterator[tuple[WatchedKind, Seen | Broken]]:
    """Every object there is, decoded.

    Args:
        left_out: Uids of pods that are not observed.
    """
    for kind in codec.kinds:
        owners = [one for one in cluster.loaded.owners if one.get("kind") == kind.name]
        yield from _unstored(kind, owners)
    for kind_id, kind in watched_kinds(cluster, codec).items():
        listed: list[Stored] = cluster.stored_pods() if kind is codec.pods else list(cluster.api.store.listed(kind_id))
        for stored in listed:
            if stored.uid not in left_out:
                yield kind, _decoded(cluster, kind, stored.body)
    yield from _unstored(codec.pod_groups, cluster.loaded.pod_groups)


def _decoded(cluster: OfflineCluster, kind: WatchedKind, body: bytes) -> Seen | Broken:
    """An object as observed; equal bytes mean the same, so clusters may share it. Only kinds there are many of."""
    if cluster.decoded is None or kind.name not in _SHARED:
        return kind.decode_object(body)
    seen = cluster.decoded.get((kind.name, body))
    if seen is None:
        seen = cluster.decoded[kind.name, body] = kind.decode_object(body)
    return seen


def _unstored(kind: WatchedKind, objects: Iterable[Obj]) -> Iterator[tuple[WatchedKind, Seen | Broken]]:
    """Objects as they were given, which the cluster does not hold."""
    for index, obj in enumerate(objects):
        metadata = {**(obj.get("metadata") or {}), "resourceVersion": str(index + 1)}
        metadata.setdefault("uid", f"{kind.name}-{index}")
        metadata.setdefault("namespace", "default")
        yield kind, kind.decode_object(json.dumps({**obj, "metadata": metadata}).encode())
