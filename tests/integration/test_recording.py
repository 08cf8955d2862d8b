"""Recordings: what the scheduler did on a cluster is decided the same way once more, by `dra-scheduler replay`.

`DRA_TEST_RECORD=1` does so for every scheduler of the suite (`World`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.cli.replay import replay
from tests.integration.world import UNDER_TEST, World

pytestmark = pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler records nothing")


async def test_a_recorded_run_replays_to_the_same_decisions(world: World, tmp_path: Path) -> None:
    """With pods that fit and one that does not, a conflict, a lost reply, and a second process in the file."""
    path = tmp_path / "run.jsonl"
    await world.start_scheduler(f"--record={path}")
    await world.add_nodes(2, devices=2)
    await world.add_class()
    template = await world.add_template()
    world.conflict_next_status_write()
    world.fault("lose-reply", "binding")
    for number in range(4):
        await world.add_pod(f"p{number}", template=template)
    await world.wait_bound("p0", "p1", "p2", "p3")
    await world.add_pod("late", template=template)
    await world.wait_unschedulable("late")

    await world.stop_scheduler(kill=True)
    await world.start_scheduler(f"--record={path}")
    await world.api.delete("pods", "p1", world.namespace)
    await world.wait_bound("late")
    await world.stop_scheduler()

    done = CliRunner().invoke(replay, [str(path)])
    assert done.exit_code == 0, done.output
    assert "of 2 processes led to the same" in done.output


async def test_a_recording_tells_what_was_decided_otherwise(world: World, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await world.start_scheduler(f"--record={path}")
    await world.add_nodes(1)
    await world.add_pod("p")
    await world.wait_bound("p")
    await world.stop_scheduler()

    lines = path.read_bytes().splitlines(keepends=True)
    number, line = next((number, line) for number, line in enumerate(lines, 1) if b"decisions.BindPod" in line)
    lines[number - 1] = line.replace(b'"node":"' + world.node_name(0).encode(), b'"node":"elsewhere')
    path.write_bytes(b"".join(lines))

    done = CliRunner().invoke(replay, [str(path)])
    assert done.exit_code == 1
    assert f"{path.name}:{number}: other decisions than recorded" in done.output
    assert "elsewhere" in done.output
