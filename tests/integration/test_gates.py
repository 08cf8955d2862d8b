"""What the scheduler says at its start of features that the API server does not have."""

from __future__ import annotations

import asyncio
import logging

import pytest

from scheduler.app import SchedulerApp
from scheduler.config import Config
from scheduler.kube.credentials import Connection
from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import ControlPlane
from tests.patience import PATIENCE_S


@pytest.mark.controlplane
@pytest.mark.timeout(1800)
async def test_gates_that_are_off_are_reported_and_stop_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A real server with two gates off: both are named, no other is; the scheduler gets in step all the same."""
    built_or_skip("controlplane")
    off = {"DRADeviceTaints": False, "DRADeviceTaintRules": False, "DRAConsumableCapacity": False}
    plane = ControlPlane(controllers=(), feature_gates=off)
    try:
        await asyncio.to_thread(plane.start)
        caplog.set_level(logging.WARNING)
        async with SchedulerApp(Connection(kubeconfig=plane.kubeconfig()), Config(health_port=None)) as app:
            async with asyncio.timeout(PATIENCE_S):
                await app.synced()
            assert app.problems() == []
    finally:
        await asyncio.to_thread(plane.stop)
    said = [record.getMessage() for record in caplog.records if "feature gate" in record.getMessage()]
    assert [text.split()[5] for text in said] == ["DRAConsumableCapacity", "DRADeviceTaints"]
