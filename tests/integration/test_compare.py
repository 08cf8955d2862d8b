"""The benchmark harness: its workloads are what they say, its sums are right, and a small run runs."""

from __future__ import annotations

import itertools
import json

import pytest

from benchmarks.compare import Measured, main, parse, quantile, summarize
from benchmarks.fleet import Fleet, Size, workloads
from tests.controlplane.build import built_or_skip
from tests.integration.invariants import State, check

SIZE = Size(nodes=3, devices=8, pods=6)
everything = pytest.mark.parametrize("name", list(workloads()))


# Claims that a scheduler creates itself cannot be written bare.
WRITTEN_BARE = [name for name, workload in workloads().items() if Fleet(workload, SIZE).can_write_bare()]


def test_only_extended_resources_cannot_be_written_bare() -> None:
    assert set(workloads()) - set(WRITTEN_BARE) == {"extended-resource"}


@pytest.mark.parametrize("name", WRITTEN_BARE)
def test_what_bare_writes_write_breaks_no_rule(name: str) -> None:
    """The limit is measured with allocations that a scheduler could have made."""
    fleet = Fleet(workloads()[name], SIZE)
    claims, pods = [], []
    for number, (node, results) in enumerate(itertools.islice(fleet.bare_places(), SIZE.pods)):
        pod = {"metadata": {"namespace": "bench", "name": f"pod-{number}", "uid": f"uid-{number}"}}
        pod["spec"] = {**fleet.pod("x", "y")["spec"], "nodeName": node}
        pods.append(pod)
        if results:
            pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"claim-{number}"}]
            term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
            status = {
                "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}},
                "reservedFor": [{"name": f"pod-{number}", "uid": f"uid-{number}"}],
            }
            finalizers = ["resource.kubernetes.io/delete-protection"]
            meta = {"namespace": "bench", "name": f"claim-{number}", "finalizers": finalizers}
            claims.append({"metadata": meta, "status": status})

    assert len(pods) == SIZE.pods
    assert check(State(pods=pods, claims=claims, slices=list(fleet.slices()), nodes=list(fleet.nodes()))) == []


def test_as_many_devices_match_as_there_are_pods() -> None:
    fleet = Fleet(workloads()["selector-fill"], Size(nodes=10, devices=8, pods=20))
    models = [device["attributes"]["model"]["string"] for item in fleet.slices() for device in item["spec"]["devices"]]

    assert models.count("A100") == 20
    assert len(models) == 80


def run(contender: str, pods_per_s: float, **more: object) -> Measured:
    values = {"workload": "w", "round": 1, "pods": 10, "bound": 10, "cpu_s": 1, "cpu_ms_per_pod": 100, "p50_s": 1}
    values |= {"p99_s": 2, "cluster_cpu_s": 1, "resident_mib": 1, "violations": 0, **more}
    return Measured(contender=contender, pods_per_s=pods_per_s, **values)  # type: ignore[arg-type]


def test_rows_have_medians_and_ratios() -> None:
    measured = [
        *(run("kube-scheduler", speed) for speed in (10, 30, 20)),
        *(run("dra-scheduler", speed) for speed in (60, 40, 80)),
        *(run("bare writes", speed) for speed in (100, 100, 100)),
        run("dra-scheduler", 5, workload="alone", violations=2),
    ]
    kube, ours, bare, alone = summarize(measured)

    assert (kube.pods_per_s, kube.pods_per_s_min, kube.pods_per_s_max) == (20, 10, 30)
    assert (ours.times_baseline, ours.share_of_limit) == (3, 0.6)
    assert (bare.times_baseline, bare.share_of_limit) == (5, 1)
    assert (alone.times_baseline, alone.share_of_limit, alone.violations) == (None, None, 2)


def test_a_run_that_failed_does_not_pull_the_median_and_is_said() -> None:
    (row,) = summarize([run("kube-scheduler", 10), run("kube-scheduler", 0, bound=0, failure="it ended")])

    assert (row.rounds, row.pods_per_s, row.failures) == (2, 10, ("it ended",))


@pytest.mark.parametrize(("share", "want"), [(0.5, 6), (0.99, 10), (0, 1)])
def test_quantile(share: float, want: float) -> None:
    assert quantile(list(range(1, 11)), share) == want


def test_wrong_use_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--contenders", "kube,nobody"])
    assert "want kube, ours or bare" in capsys.readouterr().err


@pytest.mark.controlplane
@pytest.mark.parametrize("more", [[], ["--steady", "5", "--seconds", "2", "--full", "0.5"]], ids=["backlog", "steady"])
def test_a_small_run_binds_everything(capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    built_or_skip("controlplane")
    size = ["--nodes", "4", "--devices", "4", "--pods", "8", "--rounds", "1", "-o", "json"]
    assert main([*size, "--workload", "one-device", *more]) == 0

    rows = json.loads(capsys.readouterr().out)["rows"]
    want = ["kube-scheduler", "dra-scheduler"] + ([] if more else ["bare writes"])
    assert [row["contender"] for row in rows] == want
    assert all(row["pods_per_s"] > 0 and row["p99_s"] >= row["p50_s"] for row in rows)
