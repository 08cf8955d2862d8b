"""The same pods under kube-scheduler and under ours end in equivalent states, on real control planes.

    DIFFERENTIAL_SEED=7 pytest tests/integration/test_differential.py      # another fleet

`random_fleet` says what is drawn and what must be equal, `side_by_side` how it is played.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from typing import Final

import pytest

from tests.controlplane.build import built_or_skip
from tests.integration.random_fleet import Fleet, Group, draw
from tests.integration.side_by_side import (
    Outcome,
    SchedulerKind,
    Verdict,
    differences,
    is_settled,
    play,
    reasons,
    second_thoughts,
)
from tests.integration.vocabulary import add_vocabulary

SEED: Final = int(os.environ.get("DIFFERENTIAL_SEED", "1"))


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    print(f"DIFFERENTIAL_SEED={SEED}")
    made = draw(SEED)
    add_vocabulary(made, 2, 20)
    return made


@pytest.fixture(scope="module")
def kube(fleet: Fleet) -> Outcome:
    return _played(fleet, "kube-scheduler")


@pytest.fixture(scope="module")
def ours(fleet: Fleet, kube: Outcome) -> Outcome:
    return _played(fleet, "ours", kube)


def _played(fleet: Fleet, scheduler: SchedulerKind, leader: Outcome | None = None) -> Outcome:
    built_or_skip("controlplane")
    return asyncio.run(play(fleet, scheduler, leader))


@pytest.mark.controlplane
def test_equal_where_the_order_does_not_matter(fleet: Fleet, kube: Outcome, ours: Outcome) -> None:
    """Verdict, reason, devices, alternatives: what each kind of group promises."""
    found = differences(fleet, kube, ours)
    assert not found, f"DIFFERENTIAL_SEED={SEED}: {len(found)} differences\n" + "\n".join(found)


@pytest.mark.controlplane
def test_every_rule_is_kept(kube: Outcome, ours: Outcome) -> None:
    assert kube.violations == []
    assert ours.violations == []


@pytest.mark.controlplane
def test_what_one_leaves_pending_the_other_cannot_place_either(kube: Outcome, ours: Outcome) -> None:
    """In one and the same state both refuse the same pods, for the same reasons."""
    assert kube.final
    assert ours.final
    assert second_thoughts(ours) == []
    assert second_thoughts(kube) == []


@pytest.mark.controlplane
def test_the_fleet_is_worth_it(kube: Outcome) -> None:
    """A few hundred pods, many of them placed, many refused, by every feature."""
    verdicts = [verdict for group in kube.verdicts.values() for verdict in group.values()]
    results = [
        result
        for verdict in verdicts
        for allocation in verdict.allocations.values()
        for result in allocation["results"]
    ]
    assert len(verdicts) > 250
    assert sum(bool(verdict.node) for verdict in verdicts) > 60
    assert sum(not verdict.node for verdict in verdicts) > 60
    for feature in ("adminAccess", "shareID", "consumedCapacity", "tolerations"):
        assert any(feature in result for result in results), feature
    assert any("/" in result["request"] for result in results)
    assert len({result["driver"] for result in results}) == 3


# -- the comparison itself, without any server


def _two(seed: int = 1) -> tuple[Fleet, Outcome, Outcome]:
    """Two equal outcomes, everything bound."""
    fleet = draw(seed, one_by_one=1)

    def outcome(scheduler: SchedulerKind) -> Outcome:
        made = Outcome(scheduler)
        for group in fleet.groups:
            results = {"results": [{"request": "gpu"}]}
            made.verdicts[group.name] = {
                pod["metadata"]["name"]: Verdict("node", "", "", {"gpu": dict(results)}) for pod in group.pods
            }
        return made

    return fleet, outcome("kube-scheduler"), outcome("ours")


def test_equal_outcomes_have_no_differences() -> None:
    assert differences(*_two()) == []


@pytest.mark.parametrize(
    ("group", "change"),
    [
        ("g00", {"node": "other"}),
        ("g00", {"allocations": {}}),
        ("g00", {"message": "0/3 nodes are available: 3 Too many pods."}),
        ("p00", {"node": ""}),
        ("a00", {"node": ""}),
        ("a00", {"allocations": {"gpu": {"results": [{"request": "gpu/one"}]}}}),
        ("waiting", {"node": ""}),
    ],
)
def test_a_difference_is_found(group: str, change: dict[str, object]) -> None:
    fleet, kube, ours = _two()
    pod = next(iter(ours.verdicts[group]))
    ours.verdicts[group][pod] = ours.verdicts[group][pod]._replace(**change)

    (found,) = differences(fleet, kube, ours)
    assert found.startswith(group)


@pytest.mark.parametrize("node", ["", "node"])
def test_a_search_that_ran_out_of_time_is_no_answer(node: str) -> None:
    """And where the other one found a place, what comes after it in the group is not compared."""
    fleet, kube, ours = _two()
    first, second, *_ = kube.verdicts["g00"]
    message = 'running "DynamicResources" filter plugin: node g00-node: timed out trying to allocate devices'
    kube.verdicts["g00"][first] = Verdict("", "SchedulerError", message, {})
    ours.verdicts["g00"][first] = Verdict(node, "" if node else "Unschedulable", "", {})
    ours.verdicts["g00"][second] = Verdict("", "Unschedulable", "", {})

    assert len(differences(fleet, kube, ours)) == (0 if node else 1)


@pytest.mark.parametrize(
    ("message", "settled"),
    [
        ("0/1 nodes are available: 1 cannot allocate all claims.", True),
        ("adding the finalizer to ResourceClaim a/b fails since 2026-01-01T00:00:00Z: no answer yet", False),
        ("waiting for volumes on node node-1", False),
    ],
)
def test_what_passes_by_itself_is_no_verdict(message: str, settled: bool) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": message}
    assert is_settled({"spec": {}, "status": {"conditions": [condition]}}) == settled


def test_a_pod_that_the_other_one_places_is_found() -> None:
    outcome = Outcome("ours", final={"x/a": "Unschedulable: no", "x/b": "Unschedulable: no"})
    outcome.handed_over = {"x/a": "Unschedulable: no", "x/b": "bound to node-1"}
    assert second_thoughts(outcome) == ["x/b: ours says 'Unschedulable: no', kube-scheduler 'bound to node-1'"]


def test_only_the_node_of_a_pod_that_is_led_may_differ() -> None:
    fleet, kube, ours = _two()
    fleet.groups.append(Group("v00", "led", [{"metadata": {"name": "p"}}]))
    bound = Verdict("a", "", "", {})
    kube.verdicts["v00"] = {"p": bound}
    ours.verdicts["v00"] = {"p": bound._replace(node="b")}
    assert differences(fleet, kube, ours) == []
    ours.verdicts["v00"] = {"p": Verdict("", "Unschedulable", "0/2 nodes are available: 2 Too many pods.", {})}
    assert len(differences(fleet, kube, ours)) == 1


def test_the_vocabulary_is_drawn_whole() -> None:
    fleet = Fleet(1)
    add_vocabulary(fleet, 40, 25)
    text = json.dumps([pod["spec"] for group in fleet.groups for pod in group.pods])
    words = [
        *("podAffinity", "podAntiAffinity", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys", "minDomains"),
        *("nodeTaintsPolicy", "nodeAffinityPolicy", "hostPort", "hostIP", "tolerations", "matchFields", "Gt"),
        *("gcePersistentDisk", "persistentVolumeClaim", "priorityClassName", "resourceClaims", "restartPolicy"),
    ]
    assert [word for word in words if f'"{word}"' not in text] == []


def test_a_seed_is_a_fleet() -> None:
    assert draw(3) == draw(3)
    assert draw(3) != draw(4)
    kinds = Counter(group.kind for group in draw(3).groups)
    assert set(kinds) == {"one-by-one", "by-priority", "alike", "anywhere", "waiting"}


@pytest.mark.parametrize(
    ("message", "want"),
    [
        (
            "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes …",
            "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable",
        ),
        (
            "0/2 nodes are available: request r: device class c does not exist. no new claims to deallocate, "
            "preemption: not eligible due to preemptionPolicy=Never.",
            "0/2 nodes are available: request r: device class c does not exist.",
        ),
        (
            '0/2 nodes are available: persistentvolumeclaim "a" not found. not found',
            '0/2 nodes are available: persistentvolumeclaim "a" not found.',
        ),
        (
            "claim g01/g01-05-claim-2-x2k9c: selector #0: CEL runtime error: no such key: late",
            "claim g01/g01-05-claim-2: selector #0: CEL runtime error: no such key: late",
        ),
    ],
)
def test_reasons_are_compared_without_what_is_not_ours(message: str, want: str) -> None:
    assert reasons(message) == want
