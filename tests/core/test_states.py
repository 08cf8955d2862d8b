"""The tables of states are what the code does: nothing happens that is in no row, and each row happens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from scheduler.core.binding import binding
from scheduler.core.queue import queued_pod
from scheduler.framework.status import Status
from tests.core import test_gangs, test_waiting_pods
from tests.core.plugins import Gate
from tests.core.rig import Rig
from tests.core.transitions import Transitions, compare, table
from tests.sim.groups import GroupWorld
from tests.sim.world import Conditions, World


@dataclass(frozen=True)
class Fails(Gate):
    """Cannot say whether a pod may be tried."""

    def pre_enqueue(self, pod, view):
        return Status.error("no answer")


@pytest.fixture(scope="module")
def seen() -> Iterator[Transitions]:
    """Of worlds of faults."""
    with pytest.MonkeyPatch.context() as patch:
        transitions = Transitions(patch)
        for seed in range(10):
            World(seed, Conditions()).run()
            World(seed, Conditions(focus={"preempts": 1, "devices": 1 + seed % 2, "pods_max": 16})).run()
            GroupWorld(seed).run()
        rig = Rig(Fails())
        rig.add_pod("p")
        rig.watch()
        test_gangs.test_a_pod_whose_group_is_deleted_before_it_is_tried_waits_for_it_again()
        test_waiting_pods.test_a_pod_that_waits_for_a_place_leads_nobody()
        test_waiting_pods.test_another_leads_as_soon_as_its_namespace_has_a_place()
        yield transitions


def test_places_of_queued_pods(seen: Transitions) -> None:
    assert compare(table(queued_pod), seen.places) == (set(), set())


def test_stages_of_bindings(seen: Transitions) -> None:
    assert compare(table(binding), seen.stages) == (set(), set())
