"""A pod of an offline cluster, asked of every node, as if it waited and nothing else did.

Not here: cases of JSON lines (`cases`), what the scheduler would do with pods one after the other (`verdicts`).
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from allocator import Features
from scheduler.core.inputs import PodObserved
from scheduler.core.machine import KINDS, Machine
from scheduler.framework.api import Profile
from scheduler.framework.runner import Runner
from scheduler.kube.codec import Codec
from scheduler.kube.watched_kind import Broken
from scheduler.offline.cluster import Obj, OfflineCluster
from scheduler.offline.every_node import Answer, EveryNode
from scheduler.offline.observing import observe_all, unreadable
from scheduler.plugins import default_plugins


@dataclass(frozen=True, slots=True)
class Asked:
    """What the scheduler says of a pod; `broken`: objects that it cannot read, with the reason."""

    answer: Answer | None
    broken: tuple[str, ...]


def ask_every_node(cluster: OfflineCluster, pod: Obj, *, features: Features) -> Asked:
    """Ask every node about a pod of the cluster; one that runs takes no room, and may go elsewhere.

    Returns:
        No answer where the pod itself cannot be read.
    """
    name, uid = str(pod["spec"].get("schedulerName") or ""), str(pod["metadata"]["uid"])
    is_placed = bool(pod["spec"].get("nodeName"))
    # Its queue holds pods of this name; a profile without plugins keeps none of them out.
    machine = Machine([Profile(name)], features=features, new_uid=lambda: "")
    codec, broken = Codec(reads=KINDS), []
    for kind, seen in observe_all(cluster, codec, {uid} if is_placed else ()):
        if isinstance(seen, Broken):
            broken.append(unreadable(kind, seen))
        else:
            machine.handle(seen.input, now_ms=cluster.now_ms)
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    decoded = codec.pods.decode_object(orjson.dumps({**pod, "spec": spec}))
    if isinstance(decoded, Broken) or not isinstance(decoded.input, PodObserved):
        return Asked(None, tuple(broken))
    runner = Runner(Profile(name, default_plugins()))
    return Asked(EveryNode(machine, cluster.now_ms).answer(runner, decoded.input.pod), tuple(broken))
