"""The core broken on purpose, where a group's search pauses; part of `mutants`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.core import group_cycles
from scheduler.core.ground import change_log
from scheduler.core.state import volume_overlay
from scheduler.core.trying import group_attempt, group_places
from scheduler.framework.status import SUCCESS
from scheduler.model.group import key_of_group
from scheduler.plugins import gang_scheduling
from tests.core import test_gangs


def on_short_turns(test: Callable[..., None], *given: object) -> Callable[[], None]:
    """A test of groups, where each turn is over after one piece of work."""

    def run() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(group_cycles, "_TURN_STEPS", 1)
            for name in ("search_steps_first", "search_steps_per_turn"):
                patch.setitem(test_gangs.TURNS, name, 1)
            test(*given)

    return run


def comes_elsewhere() -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_gangs.test_a_pod_that_comes_elsewhere_in_a_pause_forbids_a_place(True, patch)


def changed_nodes_are_taken_again(patch):
    """Whatever happened on the node in the pause."""
    original = group_places.GroupPlaces._is_as_it_was
    patch.setattr(group_places.GroupPlaces, "_is_as_it_was", lambda self, one, changed: original(self, one, ()))


def what_pods_elsewhere_decide_is_judged_once(patch):
    patch.setattr(group_places.GroupPlaces, "contradicted", lambda self: None)


def pauses_give_nothing_back(patch):
    def pause(self):
        self._paused = self._given_back = self._positions()

    patch.setattr(group_places.GroupPlaces, "pause", pause)


def detours_name_all_nodes(patch):
    """What others changed in a pause counts as brought back."""
    original = change_log.ChangeLog.revert
    patch.setattr(change_log.ChangeLog, "revert", lambda self, start, nodes=None: original(self, start))


def pod_groups_are_not_waited_for(patch):
    original = gang_scheduling._waits_for

    def waits_for(key, view):
        return SUCCESS if key.is_pod_group and view.pod_group(key.pod_group) is None else original(key, view)

    patch.setattr(gang_scheduling, "_waits_for", waits_for)
    run = group_cycles.GroupCycles.run

    def tried(self, queued, calls_max, steps_max):
        key = key_of_group(queued.pod)
        if key is not None and key.is_pod_group and key.pod_group not in self._store.pod_groups:
            return False
        return run(self, queued, calls_max, steps_max)

    patch.setattr(group_cycles.GroupCycles, "run", tried)


def pod_groups_wake_nobody(patch):
    patch.setattr(gang_scheduling.GangScheduling, "concerned", lambda self, change, view: ())


def turns_do_not_end(patch):
    patch.setattr(group_attempt.GroupAttempt, "_is_turn_over", lambda self, most=0: False)


def places_with_volumes_are_never_taken_again(patch):
    patch.setattr(volume_overlay.VolumeOverlay, "may_hold_again", lambda self, held: False)
