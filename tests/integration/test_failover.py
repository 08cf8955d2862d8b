"""Who schedules is killed, stopped and cut off, on the real control plane with its audit log; see `failover`.

The short form. How long nobody schedules is measured by the long one, on a machine that does nothing else.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.build import built_or_skip
from tests.integration.failover import LOSSES, three_instances
from tests.integration.world import UNDER_TEST

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler has its own tests"),
]
PODS = 60


async def test_whoever_is_lost_another_goes_on_and_the_lost_one_writes_no_more(tmp_path: Path) -> None:
    built_or_skip("controlplane")
    async with three_instances(tmp_path, devices=PODS * len(LOSSES)) as failover:
        for what in LOSSES:
            seen = await failover.lose(what, PODS)
            assert seen.writes_after == [], what
            assert await failover.broken_rules() == [], what
