"""Simulation: the real machine, plugins and allocator in a world of faults; safety at every step, progress in the end."""

from __future__ import annotations

from tests.sim.world import Conditions, World


def run(seed: int, conditions: Conditions | None = None) -> World:
    world = World(seed, conditions or Conditions())
    try:
        return world.run()
    except BaseException as error:
        error.add_note(f"seed {seed}; the last steps:\n" + "\n".join(world.trace[-120:]))
        raise


def test_no_device_twice_no_pod_lost(seed: int) -> None:
    run(seed)
