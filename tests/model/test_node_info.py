"""A node as it would be."""

from __future__ import annotations

import itertools
from typing import Any

from scheduler.model.node_info import NodeInfo
from tests import builders

ANTI = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
            ]
        }
    }
}


def with_port(name: str, port: int, address: str = "", **more: Any) -> Any:
    container = {"name": "c", "ports": [{"hostPort": port, "hostIP": address}], "resources": {"requests": {"cpu": "1"}}}
    return builders.pod(name, containers=[container], **more)


PODS = (
    with_port("a", 80, labels={"app": "web"}),
    with_port("b", 80, "127.0.0.1", labels={"app": "web"}),
    builders.pod("c", requests={"cpu": "2", "example.com/gpu": "1"}, **ANTI),
    builders.pod("d", **ANTI),
)


def counting(*pods: Any) -> NodeInfo:
    info = NodeInfo(builders.node("n", revision=1))
    for pod in pods:
        info.add_pod(pod)
    return info


def sums(info: NodeInfo) -> list[Any]:
    names = ("pods", "requested", "scoring_requested", "used_ports", "likenesses", "pod_terms", "claim_users")
    return [getattr(info, name) for name in names]


def test_what_is_supposed_counts_as_if_it_were_and_changes_nothing() -> None:
    new = with_port("new", 81, labels={"app": "other"})
    for size in range(len(PODS) + 1):
        for gone in itertools.combinations(PODS, size):
            info = counting(*PODS)
            supposed = info.simulated(added=[new], removed=[pod.uid for pod in gone])
            assert sums(supposed) == sums(counting(*(pod for pod in PODS if pod not in gone), new))
            assert list(supposed.pods) == [pod.uid for pod in PODS if pod not in gone] + [new.uid]
            assert sums(info) == sums(counting(*PODS))
