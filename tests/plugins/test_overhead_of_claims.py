"""What a running pod takes of its node for claims with overhead per container, by its status; asked of the releases.

1.37 multiplies by the containers that are named; 1.38 sums as containers run, init containers by their maximum (2.8 of
1.38's changes). The gate DRANodeAllocatableResources is alpha. What is taken is found by asking how much still fits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest

from allocator import Features
from tests.answers.verdicts import Cases
from tests.controlplane.build import BETAS, built_or_skip
from tests.oracle.client import Oracle
from tests.plugins.recorded_cases import Case, ours
from tests.plugins.test_releases import case, node, pod

Obj = dict[str, Any]
Asks = Callable[[Sequence[Case]], list[bool]]
CPUS: Final = 16
STEP: Final = 250  # thousandths
GATE: Final = "DRANodeAllocatableResources=true"
SIDECAR: Final = {"restartPolicy": "Always"}


def container(name: str, cpu: str | None = "1", **more: Any) -> Obj:
    return {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}} if cpu else {}, **more}


def overhead(*containers: str, name: str = "x", per: str = "1", pod: str = "", mapped: str = "") -> Obj:
    """A claim's entry in a pod's status."""
    amounts = {"name": "cpu", "perContainer": per, **({"perPod": pod} if pod else {})}
    mapping = {"mapping": [{"name": "cpu", "quantity": mapped}]} if mapped else {}
    return {"resourceClaimName": name, "containers": list(containers), "overhead": [amounts], **mapping}


def running(inits: Sequence[Obj], containers: Sequence[Obj], *entries: Obj, **spec: Any) -> Obj:
    one = pod("running", nodeName="a", initContainers=list(inits), **spec)
    one["spec"]["containers"] = list(containers)
    return {**one, "status": {"phase": "Running", "nodeAllocatableResourceClaimStatuses": list(entries)}}


FIRST, SECOND, C, D, SIDE = container("i"), container("j"), container("c"), container("d"), container("s", **SIDECAR)
# A pod; what it takes in 1.37, in 1.38.
PODS: Final[dict[str, tuple[Obj, float, float]]] = {
    "two containers": (running([], [C, D], overhead("c", "d")), 4, 4),
    "an init container and one": (running([FIRST], [C], overhead("i", "c")), 3, 2),
    "an init container alone": (running([FIRST], [C], overhead("i")), 2, 2),
    "two init containers": (running([FIRST, SECOND], [C], overhead("i", "j")), 3, 2),
    "two init containers and one": (running([FIRST, SECOND], [C], overhead("i", "j", "c")), 4, 2),
    "a sidecar and one": (running([SIDE], [C], overhead("s", "c")), 4, 4),
    "a sidecar, then an init container": (running([SIDE, FIRST], [C], overhead("s", "i", "c")), 5, 4),
    "an init container, then a sidecar": (running([FIRST, SIDE], [C], overhead("s", "i", "c")), 5, 4),
    "a large init container": (running([container("i", "4")], [C], overhead("i", "c")), 6, 5),
    "a large one without": (running([container("i", "4")], [C], overhead("c")), 5, 4),
    "for the pod, too": (running([FIRST], [C], overhead("i", "c", pod="500m")), 3.5, 2.5),
    "mapped, too": (running([FIRST], [C], overhead("i", "c", pod="500m", mapped="2")), 5.5, 4.5),
    "two claims": (running([FIRST], [C], overhead("i"), overhead("c", name="y", per="250m")), 2.25, 2),
    "nobody named": (running([FIRST], [C], overhead()), 1, 1),
    "nobody known": (running([FIRST], [C], overhead("other")), 2, 1),
    "asks as a whole": (running([FIRST], [C], overhead("i", "c"), resources={"requests": {"cpu": "2"}}), 2, 2),
    "the runtime's overhead": (running([FIRST], [C], overhead("i", "c"), overhead={"cpu": "250m"}), 3.25, 2.25),
}


def some_pods(seed: int, count: int) -> list[Obj]:
    draw = random.Random(seed)
    pods = []
    for _ in range(count):
        inits = [
            container(f"i{number}", draw.choice((None, "1", "2", "3")), **(SIDECAR if draw.random() < 0.4 else {}))
            for number in range(draw.choice((0, 1, 2, 3)))
        ]
        containers = [
            container(f"c{number}", draw.choice((None, "1", "500m"))) for number in range(draw.choice((1, 2)))
        ]
        names = [one["name"] for one in (*inits, *containers)]
        entries = [
            overhead(
                *draw.sample(names, draw.randint(0, len(names))),
                name=f"x{number}",
                per=draw.choice(("250m", "1")),
                pod=draw.choice(("", "250m")),
                mapped=draw.choice(("", "", "1")),
            )
            for number in range(draw.choice((1, 1, 2)))
        ]
        whole = {"resources": {"requests": {"cpu": "9"}}} if draw.random() < 0.15 else {}
        pods.append(running(inits, containers, *entries, **whole))
    return pods


def beside(one: Obj, asked: int) -> Case:
    only = node("a")
    only["status"]["allocatable"]["cpu"] = str(CPUS)
    return case("by-hand", [only], [one], pod("p", f"{asked}m"))


def taken(pods: Sequence[Obj], asks: Asks) -> list[float]:
    """What each takes in CPUs: all are searched at once, by halves."""
    least, most = [0] * len(pods), [CPUS * 1000 // STEP] * len(pods)
    while least != most:
        middle = [(low + high + 1) // 2 for low, high in zip(least, most, strict=True)]
        fit = asks([beside(one, steps * STEP) for one, steps in zip(pods, middle, strict=True)])
        rows = list(zip(least, middle, most, fit, strict=True))
        least = [half if fits else low for low, half, _, fits in rows]
        most = [high if fits else max(low, half - 1) for low, half, high, fits in rows]
    return [CPUS - steps * STEP / 1000 for steps in least]


def asks_ours(release: str) -> Asks:
    reader = Cases(Features(kubernetes=release))
    return lambda cases: [_fits(ours(reader, one)) for one in cases]


def _fits(answer: Mapping[str, Any]) -> bool:
    return bool(answer["nodes"]["a"]["code"] == "Success")


@pytest.mark.parametrize("release", ["1.37", "1.38"])
def test_ours(release: str) -> None:
    """1.38 is not followed: what is counted is what 1.37 counts, which is never less."""
    pods, of_137, of_138 = zip(*PODS.values(), strict=True)
    assert taken(pods, asks_ours(release)) == list(of_137)
    assert all(newer <= older for newer, older in zip(of_138, of_137, strict=True))


@pytest.mark.oracle
@pytest.mark.parametrize("release", ["1.37", *BETAS])
def test_theirs(release: str) -> None:
    built_or_skip(f"oracle-{release}")
    by_hand, at_random = [one for one, _, _ in PODS.values()], some_pods(5, 150)
    with Oracle(release, GATE) as oracle:

        def asks(cases: Sequence[Case]) -> list[bool]:
            answers = oracle.ask({"kind": "scheduler-verdicts", "cases": cases})["answers"]
            return [_fits(answer) for answer in answers]

        found = taken([*by_hand, *at_random], asks)

    assert found[: len(by_hand)] == [of_138 if release == "1.38" else of_137 for _, of_137, of_138 in PODS.values()]
    pairs = list(zip(found[len(by_hand) :], taken(at_random, asks_ours(release)), strict=True))
    assert all(theirs == mine if release == "1.37" else theirs <= mine for theirs, mine in pairs)
