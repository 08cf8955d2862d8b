"""How often plugins were asked: what the runner says of it is what the plugins themselves have seen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from scheduler.framework.api import Hint, PreFilterResult, Profile
from scheduler.framework.cycle import Cycle
from scheduler.framework.plan import PreFiltered
from scheduler.framework.runner import Runner
from scheduler.framework.status import SKIP, SUCCESS, Status
from tests import builders
from tests.core.plugins import ALL_CHANGES, Emptier, Zoned
from tests.core.rig import Rig

NO = Status.unschedulable("no")
NEVER = Status.unresolvable("never")
BROKEN = "breaks"


@dataclass(frozen=True)
class Counting:
    """Counts its calls; pods and nodes that have its name in the label of a point are answered otherwise."""

    name: str
    seen: Counter[tuple[str, str]]
    weight: int = 1
    wakes_on: tuple = ALL_CHANGES

    def pre_filter(self, cycle, view):
        label = cycle.pod.metadata.labels.get(f"pre-{self.name}", "")
        self.seen[self.name, "PreFilter"] += label != "skip"
        if label == BROKEN:
            raise ValueError(label)
        if label == "nowhere":
            return PreFilterResult(SUCCESS, frozenset())
        return PreFilterResult({"skip": SKIP, "no": NO, "never": NEVER}.get(label, SUCCESS))

    def signature(self, cycle, view):
        return cycle.pod.metadata.name

    def filter(self, cycle, node, view):
        self.seen[self.name, "Filter"] += 1
        label = node.node.labels.get(self.name, "")
        if label == BROKEN:
            raise ValueError(label)
        return NO if label == "no" else SUCCESS

    def pre_score(self, cycle, nodes, view):
        if cycle.pod.metadata.labels.get(f"score-{self.name}"):
            return SKIP
        self.seen[self.name, "PreScore"] += 1
        return SUCCESS

    def score(self, cycle, node, view):
        self.seen[self.name, "Score"] += 1
        return 1

    def hint(self, pod, change, view):
        return Hint.QUEUE


def counts(runner: Runner) -> dict[tuple[str, str], int]:
    told = runner.evaluations.by_point()
    return {(name, point): count for point, of in told.items() for name, count in of.items() if count}


@pytest.mark.parametrize("is_paranoid", [True, False])
def test_calls_of_a_whole_run_are_counted(is_paranoid: bool) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    rig = Rig(
        Counting("A", seen),
        zoned := Zoned(size=3),
        Counting("B", seen),
        emptier := Emptier(),
        Counting("C", seen),
        is_paranoid=is_paranoid,
        is_strict=False,
    )
    rig.add_nodes("n1", "n2", labels={"zone": "z"})
    rig.add_nodes("n3", labels={"A": "no"})
    rig.add_nodes("n4", labels={"C": "no"})
    for number, labels in enumerate(
        [
            {},
            {"pre-A": "skip"},
            {"pre-B": "never"},
            {"score-B": "y"},
            {"pre-A": "no"},
            {"pre-C": BROKEN},
            {"pre-A": "nowhere"},
            {"pre-A": "skip", "pre-B": "never"},
            {"pre-A": "skip", "pre-C": "nowhere"},
            {},
        ]
    ):
        rig.add_pod(f"p{number}", labels=labels)
    rig.settle()
    assert rig.node_of("p0")

    (runner,) = rig.machine.runners.values()
    told = counts(runner)
    assert told.pop(("Zoned", "Filter")) == len(zoned.calls)
    assert told.pop((emptier.name, "Score")) > 0
    assert told == dict(seen)
    assert {point for _, point in told} == {"PreFilter", "Filter", "PreScore", "Score"}


def test_calls_that_are_not_remembered_are_counted_in_order_and_to_where_they_end() -> None:
    """Filters stand before, between and after two that judge facts; one breaks, one refuses."""
    seen: Counter[tuple[str, str]] = Counter()
    first, second = Zoned(size=5, name="First"), Zoned(size=5, name="Second")
    plugins: list[Any] = [Counting("A", seen), first, Counting("B", seen), second, Counting("C", seen)]
    runner = Runner(Profile(builders.SCHEDULER, plugins))
    cycle = Cycle(builders.pod(), 0)
    rig = Rig(Counting("A", Counter()))
    rig.add_nodes("fits")
    rig.add_nodes("b-refuses", labels={"B": "no"})
    rig.add_nodes("b-breaks", labels={"B": BROKEN})
    rig.add_nodes("c-refuses", labels={"C": "no"})
    rig.settle()
    plan = runner.plan(cycle, None, PreFiltered(SUCCESS))

    verdicts = {
        name: runner.verdict(plan, cycle, info, None).plugin for name, info in rig.machine.store.node_infos.items()
    }

    assert verdicts == {"fits": "", "b-refuses": "B", "b-breaks": "B", "c-refuses": "C"}
    assert counts(runner) == {**seen, ("First", "Filter"): 4, ("Second", "Filter"): 2}
    assert seen == {("A", "Filter"): 4, ("B", "Filter"): 4, ("C", "Filter"): 2}
