"""What `devices` prints: profiles, what blocks a device, pools that contradict each other; whatever names there are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.cli.main import cli
from tests.inventory.test_accounts import mig_objects
from tests.inventory.test_listing import DRIVER, GPU_CLASS, TAINT, Obj, gpu, held, node, slice_of


def printed(tmp_path: Path, objects: list[Obj], *arguments: str) -> str:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [GPU_CLASS, *objects]}))
    result = CliRunner().invoke(cli, ["devices", "-f", str(path), *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_partitions_have_a_row_for_each_profile_and_say_what_blocks_them(tmp_path: Path) -> None:
    objects = [*mig_objects(), held("c", {"pool": "n", "device": "three-4"})]
    lines = printed(tmp_path, objects).splitlines()

    assert lines[0].startswith("gpu: 5 of 10 free, 1 used, 4 blocked; largest request that fits: 4 on one node (n)")
    assert lines[2:6] == [
        "PROFILE\tDRIVER\tFREE\tTOGETHER\tCOUNTERS",
        f"1g.10gb\t{DRIVER}\t4 of 7\t4\tmemory=10Gi, memory-slice=1, 3 blocked",
        f"3g.40gb\t{DRIVER}\t1 of 2\t1\tmemory=40Gi, memory-slice=4, 1 used",
        f"7g.80gb\t{DRIVER}\t0 of 1\t0\tmemory=80Gi, memory-slice=8, 1 blocked",
    ]
    assert "n\tgpu\t5 of 10\tteam/p\t4 blocked" in lines
    assert (
        f"{DRIVER}/n/one-5\tblocked\tcounter c.memory-slice-5: 0 of 1 left, 1 needed; "
        "partition three-4 (claim team/c, pod team/p)"
    ) in lines


def test_pools_that_contradict_each_other_are_printed(tmp_path: Path) -> None:
    pool = [slice_of("pool", gpu("a"), name=f"s-{name}", nodeName=name) for name in ("m", "n")]
    lines = printed(tmp_path, [node("m"), node("n"), *pool, slice_of("n", gpu("b", taints=[TAINT]))]).splitlines()

    assert lines[-2:] == [
        "POOL\tFAULT\tWHICH SLICES, AND HOW",
        f"{DRIVER}/pool\ttwo-nodes\t2 nodes publish it, each as a whole pool: nodes m, n in slices s-m, s-n",
    ]
    assert f"{DRIVER}/n/b\ttainted\ttaint example.com/broken:NoSchedule" in lines


def test_a_short_list_stays_short(tmp_path: Path) -> None:
    tainted = [gpu(f"d{number}", taints=[TAINT]) for number in range(60)]
    lines = printed(tmp_path, [node("n"), slice_of("n", *tainted)]).splitlines()

    assert lines[-1] == "... and 10 more: -o wide lists all"
    assert sum("\ttainted\t" in line for line in lines) == 50


HOSTILE = "a\x1b[2J\r\u202e\u2066b\x00"


@pytest.mark.parametrize("output", ["table", "wide", "name", "json", "yaml"])
def test_hostile_names_move_no_cursor_and_turn_no_direction(tmp_path: Path, output: str) -> None:
    """A dump is a file of somebody's: no server has looked at its names."""
    broken = {"key": HOSTILE, "effect": "NoSchedule"}
    objects = [
        {**GPU_CLASS, "metadata": {"name": HOSTILE}},
        node(HOSTILE, unschedulable=True),
        node("n"),
        slice_of(HOSTILE, {"name": HOSTILE, "attributes": {f"{HOSTILE}numa": {"int": 0}}}),
        slice_of("n", gpu(HOSTILE, taints=[broken]), name=HOSTILE + "2"),
        slice_of("x", gpu("x"), name=HOSTILE + "3", count=2, nodeName=HOSTILE + "gone"),
        {**held(HOSTILE, {"pool": HOSTILE, "device": HOSTILE}, pod=HOSTILE)},
    ]
    text = printed(tmp_path, objects, "-o", output)

    assert [each for each in text if not each.isprintable() and each not in "\n\t"] == []
