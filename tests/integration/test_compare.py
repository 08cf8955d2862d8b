"""The benchmark harness: its workloads are what they say, its sums are right, and a small run runs."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.compare import main, parse, planned
from benchmarks.fleet import Fleet, Size, workloads
from benchmarks.loads import Backlog, Measured, Steady, count_violations, quantile
from benchmarks.placed import before, namespaces
from benchmarks.report import Record, markdown, summarize
from benchmarks.tables import table, table_names
from tests.controlplane.build import built_or_skip
from tests.integration.invariants import State, check

SIZE = Size(nodes=6, devices=8, pods=6)
# Claims that a scheduler creates itself cannot be written bare.
WRITTEN_BARE = [name for name, workload in workloads().items() if Fleet(workload, SIZE).can_write_bare()]


def test_of_the_backlogs_only_extended_resources_cannot_be_written_bare() -> None:
    goals = {entry.fleet.workload.name for entry in table("goals")}
    assert goals - set(WRITTEN_BARE) == {"extended-resource"}


@pytest.mark.parametrize("name", WRITTEN_BARE)
def test_what_bare_writes_write_breaks_no_rule(name: str) -> None:
    """The limit is measured with allocations that a scheduler could have made."""
    fleet = Fleet(workloads()[name], SIZE)
    claims, pods = [], []
    for number, (node, results) in enumerate(itertools.islice(fleet.bare_places(), SIZE.pods)):
        pod = {"metadata": {"namespace": "bench", "name": f"pod-{number}", "uid": f"uid-{number}"}}
        pod["spec"] = {**fleet.pod(f"pod-{number}", "y")["spec"], "nodeName": node}
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


OTHERS = [entry for entry in table("scheduler-perf-others") if entry.fleet.size.nodes <= 1000]


@pytest.mark.parametrize("is_quick", [True, False])
def test_what_is_on_the_nodes_before_fits_there(is_quick: bool) -> None:
    for entry in OTHERS:
        is_well_before((entry.quick() if is_quick else entry).fleet, is_quick=is_quick)


def is_well_before(fleet: Fleet, *, is_quick: bool) -> None:
    objects = [*before(fleet), *(("namespaces", item) for item in namespaces(fleet))]
    keys = Counter((kind, item["metadata"].get("namespace"), item["metadata"]["name"]) for kind, item in objects)
    assert max(keys.values()) == 1
    pods = [item for kind, item in objects if kind == "pods"]
    assert len(pods) == fleet.size.placed * max(len(fleet.workload.before), 1)
    assert {pod["metadata"]["namespace"] for pod in pods} <= {name for kind, _, name in keys if kind == "namespaces"}
    nodes = list(fleet.nodes())
    tainted = {node["metadata"]["name"] for node in nodes if node["spec"]}
    assert not [pod for pod in pods if pod["spec"]["nodeName"] in tainted]
    for pod in pods:
        pod["metadata"]["uid"] = pod["metadata"]["name"]
    assert not is_quick or check(State(pods=pods, claims=[], slices=[], nodes=nodes)) == []
    if fleet.workload.apart:
        assert max(Counter(pod["spec"]["nodeName"] for pod in pods).values(), default=0) <= 1
        assert len(pods) + fleet.size.pods <= fleet.size.nodes


def test_as_many_devices_match_as_there_are_pods() -> None:
    fleet = Fleet(workloads()["selector-fill"], Size(nodes=10, devices=8, pods=20))
    models = [device["attributes"]["model"]["string"] for item in fleet.slices() for device in item["spec"]["devices"]]

    assert models.count("A100") == 20
    assert len(models) == 80


@pytest.mark.parametrize("name", table_names())
def test_each_row_of_a_table_has_room_for_its_pods(name: str) -> None:
    """Whole and quick: devices for all pods besides what is taken, which breaks no rule."""
    for one in (whole_or_quick for entry in table(name) for whole_or_quick in (entry, entry.quick())):
        size, workload = one.fleet.size, one.fleet.workload
        claims = []
        for _, claim, status in one.fleet.taken():
            assert status["allocation"]["nodeSelector"]
            claims.append({**claim, "status": status})
        if claims or size.nodes <= 10:  # without claims there is nothing that could break a rule, however large it is
            nodes, slices = list(one.fleet.nodes()), list(one.fleet.slices())
            assert check(State(claims=claims, slices=slices, nodes=nodes)) == []
            assert len(nodes) == size.nodes
        assert bool(claims) == bool(size.taken)
        if isinstance(one.load, Backlog) and workload.bare is not None:
            a_device = 4 if "share" in workload.bare else 1
            needed = workload.bare.get("take", 0) * size.pods / max(workload.sharing, 1) / a_device
            assert needed <= size.nodes * size.devices - size.taken
        if isinstance(one.load, Steady) and one.load.stay:
            assert one.load.rate * one.load.seconds <= size.nodes * size.devices - size.taken


def test_the_partitions_are_as_scheduler_perf_says() -> None:
    counters, devices = Fleet(workloads()["backtracking"], Size(nodes=1, devices=7, pods=1)).slices()

    assert len(devices["spec"]["devices"]) == 8
    memory = [device["consumesCounters"][1]["counters"]["mem"]["value"] for device in devices["spec"]["devices"]]
    assert memory == ["20Gi", *["10Gi"] * 7]
    assert counters["spec"]["sharedCounters"][1]["counters"]["mem"]["value"] == "70Gi"


def test_classes_and_claims_go_round() -> None:
    fleet = Fleet(workloads()["extended-25-classes"], SIZE)
    names = [item["spec"]["extendedResourceName"] for item in fleet.device_classes()]
    asked = [
        resource
        for number in range(26)
        for resource in fleet.pod(f"pod-{number:05}", "x")["spec"]["containers"][0]["resources"]["limits"]
    ]

    assert len(set(names)) == 25
    assert asked == [*names, names[0]]

    shared = Fleet(workloads()["shared-claim"], Size(nodes=3, devices=8, pods=12))
    used = [shared.pod(f"pod-{n:05}", "x")["spec"]["resourceClaims"][0]["resourceClaimName"] for n in range(12)]
    assert used == [*["shared-00000"] * 5, *["shared-00001"] * 5, *["shared-00002"] * 2]
    assert set(used) <= {claim["metadata"]["name"] for claim in shared.shared_claims()}


def test_of_preemption_all_room_is_the_victims() -> None:
    """Each node is full of less important pods, and every pod fits when one of them has gone."""
    for entry in table("preemption"):
        fleet = entry.quick().fleet
        victims = list(fleet.victims())
        assert len(victims) == 2 * fleet.size.nodes == fleet.size.pods
        claims = [{**claim, "status": status} for _, claim, status in victims if claim]
        pods = [{**pod, "spec": {**pod["spec"], "resourceClaims": []}} for pod, _, _ in victims]
        nodes = list(fleet.nodes())
        assert check(State(pods=pods, claims=claims, slices=list(fleet.slices()), nodes=nodes)) == []
        assert {pod["spec"]["nodeName"] for pod in pods} == {node["metadata"]["name"] for node in nodes}
        assert fleet.pod("pod-00000", "x")["spec"]["priorityClassName"] != pods[0]["spec"]["priorityClassName"]


def test_an_entry_says_how_many_pods_kube_scheduler_gets() -> None:
    chosen = planned(parse(["--table", "goals", "--rows", "partition", "--rounds", "1"]))
    sizes = {short: entry.fleet.size.pods for _, entry, short in chosen}

    assert sizes == {"kube": 10, "ours": 1000, "bare": 1000}


def test_rows_are_named_and_may_have_commas_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["--rows", "one-device at 20/s, half full", "--rows", "one-device at 50/s, half full"]
    chosen = planned(parse(["--table", "steady", *rows, "--rounds", "1"]))
    assert {entry.name for _, entry, _ in chosen} == {rows[1], rows[3]}

    chosen = planned(parse(["--table", "plugins", "--rows", "plain, spread-zone 5000 nodes", "--rounds", "1"]))
    assert {entry.name for _, entry, _ in chosen} == {"plain", "spread-zone 5000 nodes"}

    with pytest.raises(SystemExit):
        parse(["--table", "plugins", "--rows", "plain,spread-zones"])
    assert "table plugins has no row 'spread-zones', did you mean 'spread-zone'?" in capsys.readouterr().err


def test_the_table_of_plugins_has_each_row_alone_and_with_a_device_in_both_sizes() -> None:
    names = {entry.name for entry in table("plugins")}
    alone = {name.removesuffix(" 5000 nodes") for name in names}
    with_device = {"one-device"} | {f"{name}-device" for name in alone if f"{name}-device" in alone}
    rows = alone - with_device
    assert with_device == {"one-device" if name == "plain" else f"{name}-device" for name in rows}
    assert names == {f"{name}{size}" for name in (*rows, *with_device) for size in ("", " 5000 nodes")}
    assert {entry.fleet.size.pods for entry in table("plugins") if "volume" in entry.name} == {1000}


def test_an_estimate_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--table", "steady", "--estimate", "--rounds", "1"]) == 0
    assert "in all, 1 round(s)" in capsys.readouterr().out


def test_an_interrupted_table_keeps_its_rows_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "table"
    first = Record(path, {"table": "goals"})
    first.add(run("kube-scheduler", 10, workload="w"))
    first.add(run("dra-scheduler", 30, workload="w"))

    again = Record(path, {"table": "goals"})
    again.resume()

    assert again.runs == first.runs
    assert again.has("w", "kube-scheduler", 1)
    assert not again.has("w", "kube-scheduler", 2)
    assert "| w        | dra-scheduler  |" in path.with_suffix(".md").read_text()
    assert path.with_suffix(".md").read_text() == markdown(summarize(first.runs)) + "\n"


def run(contender: str, pods_per_s: float, **more: object) -> Measured:
    values = {"workload": "w", "round": 1, "pods": 10, "bound": 10, "cpu_s": 1, "cpu_ms_per_pod": 100, "p50_s": 1}
    values |= {"p99_s": 2, "cluster_cpu_s": 1, "resident_mib": 1, "violations": 0, **more}
    return Measured(contender=contender, pods_per_s=pods_per_s, **values)


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
    assert "want kube, ours, bare, sampled" in capsys.readouterr().err


@pytest.mark.controlplane
def test_a_small_loop_and_small_arrivals_run(tmp_path: Path) -> None:
    """The closed loop on partitions, and pods behind others that nothing fits."""
    built_or_skip("controlplane")
    quick = ["--quick", "--contenders", "ours", "--out", str(tmp_path / "table")]
    row = "backtracking, 10 at a time, steady state half_500"
    assert main([*quick, "--table", "scheduler-perf", "--rows", row]) == 0
    assert main([*quick, "--table", "waiting", "--resume"]) == 0

    runs = json.loads((tmp_path / "table.json").read_text())["runs"]
    assert [(one["workload"], one["violations"], one["bound"] > 0) for one in runs] == [
        (row, 0, True),
        ("one-device arriving, 0 waiting", 0, True),
        ("one-device arriving, 10000 waiting", 0, True),
        ("one-device arriving, 10000 of another scheduler", 0, True),
    ]


@pytest.mark.controlplane
@pytest.mark.parametrize(("table_name", "row"), [("goals", "one-device"), ("steady", "one-device at 20/s, half full")])
def test_a_small_run_binds_everything(tmp_path: Path, table_name: str, row: str) -> None:
    built_or_skip("controlplane")
    assert main(["--quick", "--table", table_name, "--rows", row, "--out", str(tmp_path / "table")]) == 0

    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    want = ["kube-scheduler", "dra-scheduler"] + (["bare writes"] if table_name == "goals" else [])
    assert [row["contender"] for row in rows] == want
    assert all(row["pods_per_s"] > 0 and row["p99_s"] >= row["p50_s"] for row in rows)


@pytest.mark.controlplane
def test_a_small_preemption_has_all_bound(tmp_path: Path) -> None:
    built_or_skip("controlplane")
    chosen = ["--table", "preemption", "--rows", "preempt-device", "--contenders", "ours"]
    assert main(["--quick", *chosen, "--out", str(tmp_path / "table")]) == 0

    runs = json.loads((tmp_path / "table.json").read_text())["runs"]
    assert [(one["bound"], one["violations"], one["failure"]) for one in runs] == [(20, 0, "")]


class ListsThatLag:
    """An API server whose list of claims is older than its list of pods; single claims are read as they are."""

    def __init__(self, listed_claim: dict, stored_claim: dict) -> None:
        pod = {"metadata": {"namespace": "bench", "name": "pod-0", "uid": "uid-0"}}
        entry = {"name": "gpu", "resourceClaimName": "claim-0"}
        pod["spec"] = {"nodeName": "node-0", "resourceClaims": [entry], "containers": []}
        self.pods = {"metadata": {"resourceVersion": "20"}, "items": [pod]}
        self.listed, self.stored = listed_claim, stored_claim

    async def request(self, method: str, path: str) -> dict:
        assert (method, path) == ("GET", "/api/v1/namespaces/bench/pods")
        return self.pods

    async def list(self, resource: str, namespace: str | None = None) -> list[dict]:
        return [self.listed] if resource == "resourceclaims" else []

    async def get(self, resource: str, name: str, namespace: str) -> dict:
        return self.stored


def claim_at(revision: int, *, is_reserved: bool) -> dict:
    meta = {"namespace": "bench", "name": "claim-0", "uid": "c", "resourceVersion": str(revision)}
    meta["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    status = {"allocation": {"devices": {}}, "reservedFor": [{"name": "pod-0", "uid": "uid-0"}]}
    return {"metadata": meta, "status": status if is_reserved else {}}


@pytest.mark.parametrize(
    ("stored_revision", "is_reserved", "violations"),
    [
        pytest.param(19, True, 0, id="the list was old"),
        pytest.param(19, False, 1, id="it is so"),
        pytest.param(21, True, 1, id="reserved after the pod was seen bound"),
    ],
)
async def test_only_a_list_that_lags_is_forgiven(stored_revision: int, is_reserved: bool, violations: int) -> None:
    api = ListsThatLag(claim_at(9, is_reserved=False), claim_at(stored_revision, is_reserved=is_reserved))

    assert await count_violations(api, "bench") == violations
