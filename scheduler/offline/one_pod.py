"""A pod of an offline cluster, asked of every node, as if it waited and nothing else did.

Not here: what the scheduler would do with pods one after the other (`verdicts`).
"""

from __future__ import annotations

import orjson

from allocator import Features
from scheduler.config.settings import Config
from scheduler.framework.cycle import UNLIMITED_STEPS
from scheduler.framework.runner import Runner
from scheduler.kube.codec import Codec
from scheduler.kube.outcomes import UndecodableError
from scheduler.offline.every_node import EveryNode, PodRuling
from scheduler.offline.observing import observed_machine
from scheduler.offline.offline_cluster import Obj, OfflineCluster
from scheduler.offline.verdicts import profile_of, scheduler_name_of


def ask_every_node(
    cluster: OfflineCluster, pod: Obj, config: Config, features: Features, *, steps_max: int = UNLIMITED_STEPS
) -> PodRuling | None:
    """Ask every node about a pod of the cluster; one that runs takes no room, and may go elsewhere.

    Args:
        features: In place of the configuration's: what the API server has off is off, too.
        steps_max: As of `EveryNode`.

    Returns:
        No answer where the pod itself cannot be read.
    """
    name, is_placed = scheduler_name_of(pod), bool(pod["spec"].get("nodeName"))
    left_out = (str(pod["metadata"]["uid"]),) if is_placed else ()
    slices = config.slice_selector
    machine, _ = observed_machine(cluster, features, scheduler_name=name, left_out=left_out, slices=slices)
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    try:
        asked = Codec().decode_pod(orjson.dumps({**pod, "spec": spec}))
    except UndecodableError:
        return None
    runner = Runner(profile_of(config, features, name))
    return EveryNode(machine, cluster.now_ms, steps_max).answer(runner, asked, has_run=is_placed)
