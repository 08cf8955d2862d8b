"""Why a pod is where it is: all nodes asked again as they are now, without the pod and what only it has.

What was free at the time of the decision is not known any more; so what is said is about now, and says so.

Not here: pods that do not fit (`explaining`), output.
"""

from __future__ import annotations

from typing import Any, Final

from scheduler.config.settings import Config
from scheduler.embedded.kinds.catalog import CLAIM, POD
from scheduler.explain.pod_explanation import NodeScore
from scheduler.explain.world import Ruling, World
from scheduler.model.keys import NodeName
from scheduler.model.nearest import some
from scheduler.model.pod_claims import claim_names
from scheduler.offline.every_node import PodRuling
from scheduler.offline.offline_cluster import Obj, OfflineCluster
from scheduler.offline.one_pod import ask_every_node
from scheduler.offline.reasons import NodeGroup, nodes_alike

_SCORES_MAX: Final = 20
_VOLUMES: Final = {"persistentVolumeClaim", "ephemeral"}
"""What a decision binds to a node for good: such a pod is asked about without its siblings' places."""


def scores_and_groups(
    world: World, ruling: Ruling, node: str, steps_max: int
) -> tuple[str, tuple[NodeScore, ...], tuple[NodeGroup, ...]]:
    """Why `node`, in a sentence; the nodes that fit with their scores, the best first; the others by reason.

    Args:
        steps_max: As of `EveryNode`.
    """
    cluster = ruling.answers.cluster
    pod = cluster.api.find(POD.kind_id, *world.pod)
    if not ruling.fit or any(_VOLUMES & one.keys() for one in (pod or {}).get("spec", {}).get("volumes") or ()):
        cluster = OfflineCluster(world.now_ms)
        cluster.load(world.objects)
        pod = cluster.api.find(POD.kind_id, *world.pod)
    assert pod is not None
    for name in claim_names(pod):
        _give_back(cluster, pod, name)
    answer = ask_every_node(cluster, pod, world.config or Config(), world.features, steps_max=steps_max)
    if answer is None or not answer.nodes:
        reason = answer.message if answer else "the pod cannot be read"
        return f"how other nodes compare cannot be said: {reason}", (), ()
    ranked = sorted(answer.totals.items(), key=lambda one: (-one[1], one[0] != node, one[0]))
    scores = tuple(
        NodeScore(node=at, total=total, plugins={key: score for key, score in answer.scores[at].items() if score})
        for at, total in ranked[:_SCORES_MAX]
    )
    refused = nodes_alike((name, status, ()) for name, status in answer.nodes.items() if not status.is_success)
    return _sentence(answer, NodeName(node)), scores, tuple(one.cut() for one in refused)


def _sentence(answer: PodRuling, node: NodeName) -> str:
    totals, count = answer.totals, len(answer.nodes)
    if node not in totals:
        refused = answer.nodes.get(node)
        why = f": {refused.message}" if refused is not None else ""
        return f"asked again now, without the pod, the node would be refused{why}"
    if len(totals) == 1:
        return f"it is the only one of {count} nodes that fits" if count > 1 else "it is the only node"
    best = max(totals.values())
    others = sorted(name for name, total in totals.items() if total == best and name != node)
    if totals[node] < best:
        return (
            f"of the {len(totals)} nodes that fit, {others[0]} would be preferred now: {_lead(answer, others[0], node)}"
        )
    if others:
        return f"of the {len(totals)} nodes that fit, none is better; {some(others, 1)} would do as well"
    second = max((name for name in totals if name != node), key=lambda name: (totals[name], name))
    return f"of the {len(totals)} nodes that fit it is the best: {_lead(answer, node, second)}"


def _lead(answer: PodRuling, better: NodeName, other: NodeName) -> str:
    """What most sets two nodes apart."""
    gains = {name: score - answer.scores[other].get(name, 0) for name, score in answer.scores[better].items()}
    plugin = max(sorted(gains), key=lambda name: gains[name])
    totals = answer.totals
    return f"{totals[better]} against {totals[other]} of {other}, most by {plugin}"


def _give_back(cluster: OfflineCluster, pod: Obj, name: str) -> None:
    """Take the claim's devices from the pod, if it alone has them."""
    namespace = pod["metadata"]["namespace"]
    status = (cluster.api.find(CLAIM.kind_id, namespace, name) or {}).get("status") or {}
    if [one.get("name") for one in status.get("reservedFor") or ()] == [pod["metadata"]["name"]]:
        cluster.api.update(CLAIM, namespace, name, _without_status, sub_resource="status")


def _without_status(claim: dict[str, Any]) -> dict[str, Any]:
    return {**claim, "status": {}}
