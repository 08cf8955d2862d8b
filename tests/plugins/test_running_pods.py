"""What pods that run take of their node, as kubelets write their statuses: never less than kube-scheduler counts.

The kubelet admits pods by the sums that kube-scheduler has: who is placed beside a pod that takes more may be refused.
"""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

from allocator import Features
from tests.answers.verdicts import Cases
from tests.oracle.client import Oracle
from tests.oracle.fixture import each_oracle  # noqa: F401
from tests.plugins.recorded_cases import expected, ours

Obj = dict[str, Any]
CASES: Final = 480
UNIT: Final = 100  # milli cores
SIZE: Final = 40  # of the node, in units


def amount(rnd: random.Random) -> Obj:
    return {"cpu": f"{UNIT * rnd.randrange(0, 6)}m"}


def container(rnd: random.Random, name: str, **more: Any) -> Obj:
    return {"name": name, "image": "i", "resources": {"requests": amount(rnd)}, **more}


def status_of(rnd: random.Random, one: Obj) -> Obj:
    """As kubelets write it: before it runs, while it is resized, with what it was admitted with."""
    wanted = one["resources"]["requests"]
    found: Obj = {"name": one["name"]}
    if rnd.random() < 0.7:
        found["allocatedResources"] = rnd.choice((wanted, amount(rnd)))
    if rnd.random() < 0.7:
        found["resources"] = rnd.choice(({}, {"requests": wanted}, {"requests": amount(rnd)}))
    return found


def running_pod(rnd: random.Random, number: int) -> Obj:
    inits = [
        container(rnd, f"i{index}", **({"restartPolicy": "Always"} if rnd.random() < 0.5 else {}))
        for index in range(rnd.randrange(3))
    ]
    containers = [container(rnd, f"c{index}") for index in range(rnd.randrange(1, 3))]
    spec: Obj = {"nodeName": "n", "containers": containers, "initContainers": inits}
    status: Obj = {"phase": "Running"}
    if rnd.random() < 0.4:
        spec["overhead"] = amount(rnd)
    if rnd.random() < 0.3:
        spec["resources"] = {"requests": amount(rnd)}
    if rnd.random() < 0.8:
        status["containerStatuses"] = [status_of(rnd, one) for one in containers if rnd.random() < 0.9]
        status["initContainerStatuses"] = [status_of(rnd, one) for one in inits if rnd.random() < 0.9]
    if rnd.random() < 0.6:  # kubelets of 1.37: of each pod, with its overhead in it
        status["allocatedResources"] = amount(rnd)
        status["resources"] = {"requests": amount(rnd)} if rnd.random() < 0.9 else {}
    if rnd.random() < 0.3:
        reason = rnd.choice(("Infeasible", "Deferred"))
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    metadata = {"name": f"r{number}", "namespace": "default", "uid": f"u{number}"}
    return {"metadata": metadata, "spec": spec, "status": status}


def case(seed: int) -> Obj:
    """One pod that runs, and one that asks for what is left to some extent: how much is taken shows in the verdict."""
    rnd = random.Random(seed)
    asked = UNIT * rnd.randrange(SIZE - 25, SIZE)
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": f"{SIZE * UNIT}m", "pods": "9"}}}
    asking = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": f"{asked}m"}}}]},
    }
    return {
        **{"name": f"running-{seed}", "config": {}, "pod": asking},
        "cluster": {"nodes": [node], "pods": [running_pod(rnd, 0)]},
    }


@pytest.mark.oracle
def test_a_node_that_kube_scheduler_refuses_is_not_taken(each_oracle: Oracle) -> None:  # noqa: F811
    cases = [case(seed) for seed in range(CASES)]
    answers = each_oracle.ask({"kind": "scheduler-verdicts", "cases": cases})["answers"]
    reader = Cases(Features(kubernetes=each_oracle.minor))
    refused = more = 0
    for one, answer in zip(cases, answers, strict=True):
        theirs, mine = (found["nodes"]["n"]["code"] for found in (expected(answer), ours(reader, one)))
        assert "Success" in (theirs, mine) or theirs == mine
        assert mine != "Success" or theirs == "Success", f"kube-scheduler refuses the node: {one}"
        refused += theirs != "Success"
        more += theirs != mine

    assert refused > CASES // 10
    assert more < CASES // 10  # where each container counts by itself, or 1.36 leaves a status out
