"""The search for the highest rate of arrivals: which rate comes next, who comes when, what counts, the picture."""

from __future__ import annotations

import itertools
import json
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.arrivals import next_rate, picture, poisson
from benchmarks.compare import main
from benchmarks.fleet import Fleet, Size, workloads
from benchmarks.loads import Measured, Run
from tests.controlplane.build import built_or_skip


@pytest.mark.parametrize(
    ("held", "failed", "want"),
    [
        pytest.param([], [], 25, id="the first"),
        pytest.param([25], [], 50, id="twice what held"),
        pytest.param([25, 50], [100], 75, id="the middle"),
        pytest.param([25, 50, 75, 87.5], [100], 93.75, id="wider than a tenth"),
        pytest.param([25, 50, 75, 87.5, 93.75], [100], 46.875, id="at last half of the highest"),
        pytest.param([25, 50, 75, 87.5, 93.75, 46.875], [100], None, id="all is known"),
        pytest.param([], [25, 12.5], 6.25, id="the first was too much"),
        pytest.param([], [25, 1.5], 0.75, id="hardly any"),
        pytest.param([], [25, 1], None, id="none holds"),
        pytest.param([25, 100], [50], 37.5, id="what held above one that did not is no proof"),
    ],
)
def test_the_next_rate(held: list[float], failed: list[float], want: float | None) -> None:
    assert next_rate({**dict.fromkeys(held, True), **dict.fromkeys(failed, False)}, 25) == want


def test_arrivals_are_random_and_the_same_each_time() -> None:
    moments = poisson(50, 100)
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(moments))

    assert moments == poisson(50, 100) == sorted(moments)
    assert 0 < moments[0] < moments[-1] < 100
    assert len(moments) == pytest.approx(5000, rel=0.05)
    assert gaps[len(gaps) // 2] == pytest.approx(0.02 * 0.693, rel=0.1)  # the median of exponential gaps, not 0.02


def test_of_the_mixed_pods_every_second_has_a_claim() -> None:
    fleet = Fleet(workloads()["mixed"], Size(1, 8, 1, taken=4))
    pods = [fleet.pod(f"pod-{number:05}", "x")["spec"] for number in range(4)]

    assert ["resourceClaims" in pod for pod in pods] == [True, False, True, False]
    assert ["claims" in pod["containers"][0]["resources"] for pod in pods] == [True, False, True, False]
    assert len(list(fleet.taken())) == 4


class Empty:
    """An API server without objects."""

    async def request(self, method: str, path: str) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "1"}}

    async def list(self, resource: str, namespace: str | None = None) -> list[Any]:
        return []


async def test_what_is_not_bound_counts_as_long_as_it_has_waited() -> None:
    run: Any = Run(None, Empty(), Fleet(workloads()["plain"], Size(1, 1, 1)), SimpleNamespace(name="ours"), 1)
    now = time.monotonic()
    bound: Any = SimpleNamespace(at={"pod-0": now - 99}, interruptions=0)

    found = await run.result(bound, {"pod-0": now - 100, "pod-1": now - 50}, 10, "")

    assert (found.pods, found.bound, found.pods_per_s, found.p50_s >= 50) == (2, 1, 0.1, True)


def searched(contender: str, *rates: tuple[float, float, bool]) -> Measured:
    figures = dict.fromkeys(("pods_per_s", "cpu_s", "cpu_ms_per_pod", "p50_s", "p99_s", "cluster_cpu_s"), 1.0)
    given = {"workload": "w", "contender": contender, "round": 1, "pods": 1, "bound": 1, "resident_mib": 1.0}
    return Measured(**given, **figures, violations=0, rates=[[rate, p99_s, holds] for rate, p99_s, holds in rates])


def test_the_picture_has_each_rate_and_a_ring_where_it_did_not_hold() -> None:
    kube = searched("kube-scheduler", (25, 0.1, True), (50, 12, False), (37.5, 0, False))
    text = picture([kube, searched("dra-scheduler", (25, 0.02, True), (50, 0.3, True), (100, 3, False))])
    drawn = ET.fromstring(text)

    classes = [one.get("class") for one in drawn.findall("{*}circle")]
    assert classes == ["c0", "c0 ring", "c1", "c1", "c1 ring"]  # an API server that gave up has no time
    lines = [one.get("points") for one in drawn.findall("{*}polyline")]
    assert [len(str(points).split()) for points in lines] == [2, 3]
    texts = [one.text for one in drawn.findall("{*}text")]
    assert {"25", "50", "100", "1 s", "10 s", "kube-scheduler", "dra-scheduler"} <= set(texts)
    slow, ring = (float(one.get("cy", "")) for one in drawn.findall("{*}circle")[:2])
    assert 20 == ring < slow  # what is slower than the scale stands at its end


@pytest.mark.controlplane
def test_a_small_search_finds_a_rate_and_says_that_it_was_not_finished(tmp_path: Path) -> None:
    built_or_skip("controlplane")
    chosen = ["--quick", "--table", "arrivals", "--contenders", "ours", "--out", str(tmp_path / "found")]
    assert main(chosen) == 1

    (run,) = json.loads((tmp_path / "found.json").read_text())["runs"]
    assert [rate[0] for rate in run["rates"]][:1] == [5]
    assert (run["violations"], run["pods_per_s"] >= 5, "minutes were over" in run["failure"]) == (0, True, True)
