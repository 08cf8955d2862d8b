"""A pod of an offline cluster, asked of every node, as if it waited and nothing else did.

Not here: what the scheduler would do with pods one after the other (`verdicts`).
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from allocator import Features
from scheduler.config.profile_config import ProfileConfig
from scheduler.config.settings import Config
from scheduler.framework.cycle import UNLIMITED_STEPS
from scheduler.framework.runner import Runner
from scheduler.kube.codec import Codec
from scheduler.kube.outcomes import UndecodableError
from scheduler.offline.every_node import EveryNode, PodRuling
from scheduler.offline.observing import observed_machine
from scheduler.offline.offline_cluster import Obj, OfflineCluster


@dataclass(frozen=True, slots=True)
class PodEvaluation:
    """What the scheduler says of a pod; `broken`: objects that it cannot read, with the reason."""

    answer: PodRuling | None
    broken: tuple[str, ...]


class UnknownProfileError(ValueError):
    """The pod asks for a scheduler that is none of several profiles."""


def ask_every_node(
    cluster: OfflineCluster, pod: Obj, config: Config, features: Features, *, steps_max: int = UNLIMITED_STEPS
) -> PodEvaluation:
    """Ask every node about a pod of the cluster; one that runs takes no room, and may go elsewhere.

    Args:
        config: The profile that the pod names answers; a profile that is the only one answers for any name.
        features: In place of the configuration's: what the API server has off is off, too.
        steps_max: As of `EveryNode`.

    Returns:
        No answer where the pod itself cannot be read.

    Raises:
        UnknownProfileError: No profile answers for the pod.
    """
    name, uid = str(pod["spec"].get("schedulerName") or ""), str(pod["metadata"]["uid"])
    is_placed = bool(pod["spec"].get("nodeName"))
    profile = _profile_of(name, config)
    left_out, slices = (uid,) if is_placed else (), config.slice_selector
    machine, broken = observed_machine(cluster, features, scheduler_name=name, left_out=left_out, slices=slices)
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    try:
        asked = Codec().decode_pod(orjson.dumps({**pod, "spec": spec}))
    except UndecodableError:
        return PodEvaluation(None, tuple(broken))
    runner = Runner(profile.profile(nodes=config.node_selector, slices=config.slice_selector, features=features))
    answer = EveryNode(machine, cluster.now_ms, steps_max).answer(runner, asked, has_run=is_placed)
    return PodEvaluation(answer, tuple(broken))


def _profile_of(name: str, config: Config) -> ProfileConfig:
    """Raises UnknownProfileError."""
    by_name = {profile.scheduler_name: profile for profile in config.profiles}
    if name not in by_name and len(by_name) > 1:
        raise UnknownProfileError(
            f"the pod's schedulerName is {name or 'not set'}; the file's profiles are {', '.join(by_name)}"
        )
    return by_name.get(name, config.profiles[0])
