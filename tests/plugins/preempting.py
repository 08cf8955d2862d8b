"""Clusters for tests of preemption, as JSON: nodes, pods that run, one that is too important to wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduler.framework.preemption import Preemption
from scheduler.model.keys import NodeName
from scheduler.offline.every_node import PodRuling
from tests.answers.verdicts import Cases

Obj = dict[str, Any]


def node(name: str, *, cpu: int = 4, **labels: str) -> Obj:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}},
    }


def pod(
    name: str,
    *,
    on: str = "",
    cpu: int = 1,
    priority: int = 0,
    started: int | None = 0,
    labels: Mapping[str, str] | None = None,
    ports: Sequence[int] = (),
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Obj:
    """A pod; `started`: minutes after midnight, None for one that has not."""
    begun = {} if started is None else {"startTime": f"2026-01-01T{started // 60:02}:{started % 60:02}:00Z"}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": dict(labels or {}), **(metadata or {})},
        "spec": {
            "schedulerName": "default-scheduler",
            "nodeName": on,
            "priority": priority,
            "containers": [
                {
                    "name": "c",
                    "resources": {"requests": {"cpu": str(cpu)}},
                    "ports": [{"containerPort": port, "hostPort": port, "protocol": "TCP"} for port in ports],
                }
            ],
            **spec,
        },
        "status": {**begun, **(status or {})},
    }


def budget(name: str, *, allowed: int = 0, selector: Any = None, disrupted: Iterable[str] = ()) -> Obj:
    """A PodDisruptionBudget of pods labelled app=web, unless `selector` says otherwise."""
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}} if selector is None else selector},
        "status": {
            "disruptionsAllowed": allowed,
            "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
        },
    }


def ask(
    preemptor: Obj,
    nodes: Iterable[Obj],
    pods: Iterable[Obj],
    *,
    budgets: Iterable[Obj] = (),
    **args: Any,
) -> PodRuling:
    """The answer of the default profile; `args` are those of DefaultPreemption."""
    cluster = {"nodes": list(nodes), "pods": list(pods), "podDisruptionBudgets": list(budgets)}
    config = {"profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": args}]}]} if args else None
    return Cases().ask({"name": "case", "cluster": cluster, "pod": preemptor, "config": config})


def chosen(answer: PodRuling) -> tuple[NodeName, list[str], int]:
    """The node, the victims in their order and how many no budget allows."""
    preemption = preemption_of(answer)
    return preemption.node, [one.metadata.name for one in preemption.victims], preemption.violations


def preemption_of(answer: PodRuling) -> Preemption:
    assert answer.helped is not None
    assert answer.helped.preemption is not None, answer.message
    return answer.helped.preemption
