"""An administrator of the simulated world: taints devices by rules, changes the rules, and takes them away again."""

from __future__ import annotations

import random

from allocator import DeviceTaint
from scheduler.model.device_taint_rules import DeviceSelector, DeviceTaintRule
from tests.sim.api_server import FakeApiServer

NAMES = ("broken", "maintenance")


class TaintRuleActions:
    """Mixed into `World`."""

    rnd: random.Random
    server: FakeApiServer
    devices: int

    def change_taint_rule(self) -> None:
        """A rule appears, changes what it selects or its effect, or goes."""
        name = self.rnd.choice(NAMES)
        if name in self.server.taint_rules and self.rnd.random() < 0.5:
            self.server.delete_taint_rule(name)
            return
        pool = self.rnd.choice([None, *sorted(self.server.nodes)])
        device = self.rnd.choice([None, *(f"gpu-{index}" for index in range(self.devices))])
        effect = self.rnd.choice(["NoSchedule", "NoSchedule", "NoExecute", "None"])
        taint = DeviceTaint("example.com/out-of-service", name, effect, None)
        self.server.put_taint_rule(DeviceTaintRule(name, DeviceSelector(None, pool, device), taint))

    def clear_taint_rules(self) -> None:
        for name in NAMES:
            self.server.delete_taint_rule(name)
