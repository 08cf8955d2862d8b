"""Nodes with a device plugin and a DRA driver in the simulated world: pods of both kinds, in any order, with faults.

Rules of this module
  1. Whatever pods have of a node's plugin, and claims of its devices, is never more than there are.
  2. With "leave", which counts, no write lands after its process is gone, and lists are as new as the server: what
     nobody knows is not counted (docs/adr/0038-two-stacks.md).
"""

from __future__ import annotations

from scheduler.model.resources import counted_amounts
from scheduler.model.stacks import Stacks
from tests.sim.foreign_scheduler import UnsafeError
from tests.sim.records import place_of
from tests.sim.world import EXTENDED, Conditions, World

KINDS = {"foreigners": 0, "extended": 12, "has_volumes": 0, "meddle_with_claim": 0, "bind_by_somebody_else": 0}
KNOWN = {"lateness": 0.0, "stale-list": 0.0, "machine-restart": 0.0}


class TwoStacksWorld(World):
    """Both nodes have a plugin that serves all of their devices."""

    def __init__(self, seed: int) -> None:
        self.mixed = 0  # how often a node had pods of both
        is_refusing = seed % 3 == 0
        focus = {**KINDS, "devices": 2 + seed % 4, **({} if is_refusing else KNOWN)}
        super().__init__(seed, Conditions(focus=focus, stacks=Stacks("refuse" if is_refusing else "leave")))

    def check_safety(self) -> None:
        super().check_safety()
        for name in self.server.nodes:
            pods = [one for one in self.server.pods.values() if one.node_name == name and not one.is_terminal]
            of_plugin = sum(counted_amounts(one).requests.get(EXTENDED, 0) for one in pods if one.uid in self.by_plugin)
            allocated = [one for one in self.server.claims.values() if one.allocation is not None]
            of_claims = {device for one in allocated if place_of(one) == name for device in one.allocation.device_ids()}
            self.mixed += bool(of_plugin and of_claims)
            published = self.server.slices.get(f"slice-{name}")
            there = max(self.devices, len(published[0].devices) if published is not None else 0)
            if of_plugin and of_plugin + len(of_claims) > there:
                raise UnsafeError(f"node {name}: pods have {of_plugin} of the plugin, claims {sorted(of_claims)}")

    def heal(self) -> None:
        """Without the plugins, and their pods."""
        for key in [one.key for one in self.server.pods.values() if one.uid in self.by_plugin]:
            self.server.delete_pod(key)
        super().heal()
