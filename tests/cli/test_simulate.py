"""`dra-scheduler simulate`: what runs where, through time, and what is given out in the end."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import cli
from tests.offline.causes import CLASS, allocated, claim, device_class, gpu, node, pod, request, slice_, template

Obj = dict[str, Any]
WORLD = [
    device_class(),
    template(),
    *(node(name) for name in ("node-1", "node-2")),
    *(slice_(gpu("gpu-0"), gpu("gpu-1"), where=name) for name in ("node-1", "node-2")),
]


def written(path: Path, *objects: Obj) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    return str(path)


def lines(path: Path, *arrivals: Obj) -> str:
    path.write_text("".join(json.dumps(arrival) + "\n" for arrival in arrivals))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["simulate", *arguments])


def answer(*arguments: str, exit_code: int = 0) -> dict[str, Any]:
    result = run(*arguments, "-o", "json")
    assert result.exit_code == exit_code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def outcomes(found: Obj) -> dict[str, Any]:
    return {one["name"]: one["node"] for one in found["pods"]}


@pytest.fixture
def world(tmp_path: Path) -> str:
    return written(tmp_path / "world.json", *WORLD)


def arriving(at: float, name: str, *, lasts: float | None = None, entry: str = "template:gpu", **more: Any) -> Obj:
    return {"at": at, "for": lasts, "objects": [*more.pop("objects", ()), pod(entry, name=name, **more)]}


# -- what waits, and what is added ------------------------------------------------------------------


def test_copies_fill_the_cluster_and_the_rest_waits(world: str, tmp_path: Path) -> None:
    file = written(tmp_path / "pod.json", pod("template:gpu", name="job"))
    found = answer("-f", world, "--add", f"5x{file}", exit_code=1)
    assert (found["placed"], found["refused"]) == (4, 1)
    assert found["allocated"] == {CLASS: {"share": 1.0, "devices": 4, "used": 4.0}}
    assert [one["name"] for one in found["pods"]] == [f"job-{number}" for number in range(1, 6)]
    (left,) = (one for one in found["pods"] if one["node"] is None)
    assert left["outcome"] == "unschedulable"
    assert "2 cannot allocate all claims" in left["reason"]


def test_what_a_quota_refuses_is_not_placed(world: str, tmp_path: Path) -> None:
    devices = f"{CLASS}.deviceclass.resource.k8s.io/devices"
    spec = {"hard": {devices: "2", "limits.cpu": "1"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": spec}
    files = ("-f", world, "-f", written(tmp_path / "quota.json", quota))
    files += ("--add", f"3x{written(tmp_path / 'pod.json', pod('template:gpu', name='job'))}")
    copies = answer(*files, exit_code=1)
    assert (copies["placed"], copies["refused"]) == (2, 1)
    (left,) = (one for one in copies["pods"] if one["node"] is None)
    assert f"exceeded quota: few, requested: {devices}=1, used: {devices}=2, limited: {devices}=2" in left["reason"]
    assert "note: ResourceQuota default/few: limits.cpu: not looked at" in run(*files).stderr


def test_each_copy_has_its_own_claim(world: str, tmp_path: Path) -> None:
    file = written(tmp_path / "pod.json", claim(name="mine"), pod("mine", name="job"))
    found = answer("-f", world, "--add", f"2x{file}")
    assert [one["devices"][0]["claim"] for one in found["pods"]] == ["mine-1", "mine-2"]
    assert found["allocated"][CLASS]["used"] == 2


def test_a_pod_of_a_removed_node_waits_for_another_when_it_has_a_controller(tmp_path: Path) -> None:
    owned = pod("gpu", name="owned", nodeName="node-1")
    owned["metadata"] |= {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r"}]}
    owned["metadata"]["ownerReferences"][0]["controller"] = True
    bare = pod("other", name="bare", nodeName="node-1")
    for one in (owned, bare):
        one["metadata"] |= {"uid": f"uid-{one['metadata']['name']}", "resourceVersion": "5"}
    counted = request(allocationMode="ExactCount", count=1)  # as a server has filled it in
    claims = [
        allocated(claim(counted), "gpu-0", users=["owned"]),
        allocated(claim(counted, name="other"), "gpu-1", users=["bare"]),
    ]
    for number, one in enumerate(claims):
        one["metadata"] |= {"uid": f"claim-{number}", "resourceVersion": "4"}
    file = written(tmp_path / "dump.json", *WORLD, *claims, owned, bare)
    assert answer("-f", file)["pods"] == []
    found = answer("-f", file, "--remove", "node/node-1")
    assert outcomes(found) == {"owned": "node-2"}
    said = run("-f", file, "--remove", "node/node-1").stderr
    assert "note: 1 pod (default/bare) would not be made again, as no controller makes it" in said
    assert found["allocated"][CLASS] == {"share": 0.5, "devices": 2, "used": 1.0}


# -- through time -----------------------------------------------------------------------------------


def test_a_pod_that_ends_makes_room_for_one_that_waits(world: str, tmp_path: Path) -> None:
    trace = lines(
        tmp_path / "trace.jsonl",
        *(arriving(0, f"early-{number}", lasts=100) for number in range(4)),
        arriving(10, "late", lasts=5),
    )
    found = answer("-f", world, "--arrivals", trace)
    late = found["pods"][-1]
    assert (late["at"], late["bound"], late["ended"]) == (10, 100, 105)
    assert (found["placed"], found["allocated"][CLASS]["used"], found["end"]) == (5, 0, 105)


def test_offered_once_a_pod_that_does_not_fit_is_taken_away(world: str, tmp_path: Path) -> None:
    trace = lines(
        tmp_path / "trace.jsonl",
        *(arriving(0, f"early-{number}", lasts=100) for number in range(4)),
        arriving(10, "late"),
        arriving(200, "last"),
    )
    found = answer("-f", world, "--arrivals", trace, "--once", exit_code=1)
    late, last = found["pods"][-2:]
    assert (late["bound"], late["outcome"], late["ended"]) == (None, "unschedulable", 10)
    assert "cannot allocate all claims" in late["reason"]
    assert last["bound"] == 200
    assert (found["placed"], found["refused"], found["allocated"][CLASS]["used"]) == (5, 1, 1)


def test_a_claim_that_comes_with_a_pod_goes_with_it(world: str, tmp_path: Path) -> None:
    trace = lines(
        tmp_path / "trace.jsonl",
        *(arriving(10 * number, "again", lasts=5, entry="mine", objects=[claim(name="mine")]) for number in range(3)),
    )
    found = answer("-f", world, "--arrivals", trace)
    assert [(one["bound"], one["ended"]) for one in found["pods"]] == [(0, 5), (10, 15), (20, 25)]
    assert found["allocated"][CLASS]["used"] == 0


def test_a_claim_of_several_is_free_when_the_last_has_ended(world: str, tmp_path: Path) -> None:
    file = written(tmp_path / "shared.json", claim(request(count=2), name="both"))
    trace = lines(
        tmp_path / "trace.jsonl",
        arriving(0, "one", lasts=50, entry="both"),
        arriving(1, "two", lasts=20, entry="both"),
        arriving(30, "other", objects=[claim(request(count=2), name="more")], entry="more"),
        arriving(31, "third", objects=[claim(request(count=2), name="most")], entry="most"),
    )
    found = answer("-f", world, "-f", file, "--arrivals", trace)
    assert [one["bound"] for one in found["pods"]] == [0, 1, 30, 50]
    assert found["pods"][0]["node"] == found["pods"][1]["node"] != found["pods"][2]["node"]


def test_victims_are_gone_when_their_grace_period_is_over(world: str, tmp_path: Path) -> None:
    classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    file = written(tmp_path / "classes.json", classes)
    trace = lines(
        tmp_path / "trace.jsonl",
        *(arriving(0, f"low-{number}") for number in range(4)),
        arriving(10, "high", priorityClassName="high"),
    )
    found = answer("-f", world, "-f", file, "--arrivals", trace)
    high = found["pods"][-1]
    victims = [one for one in found["pods"] if one["ended"] is not None]
    assert high["bound"] == 40, "30 s of grace"
    assert [one["node"] for one in victims] == [high["node"]]


def test_equal_input_gives_equal_bytes_and_a_seed_another_order(world: str, tmp_path: Path) -> None:
    trace = lines(tmp_path / "trace.jsonl", *(arriving(10 * number, f"job-{number}") for number in range(6)))
    given = ("-f", world, "--arrivals", trace, "-o", "json")
    assert run(*given).stdout == run(*given).stdout
    drawn = {seed: json.loads(run(*given, "--seed", str(seed)).stdout)["pods"] for seed in (1, 1, 2)}
    assert [one["at"] for one in drawn[1]] == [0, 10, 20, 30, 40, 50]
    orders = {seed: [one["name"] for one in pods] for seed, pods in drawn.items()}
    assert sorted(orders[1]) == sorted(orders[2])
    assert orders[1] != orders[2]


def test_a_placement_chooses_the_device_with_the_least_left_that_suffices(tmp_path: Path) -> None:
    policy = {"default": "100", "validRange": {"min": "10", "step": "10"}}
    capacity = {"memory": {"value": "100", "requestPolicy": policy}}
    shared = [{**gpu(f"gpu-{number}"), "allowMultipleAllocations": True, "capacity": capacity} for number in range(2)]
    world = written(tmp_path / "world.json", device_class(), node(), slice_(*shared))

    def asking(name: str, amount: str) -> Obj:
        part = request(capacity={"requests": {"memory": amount}})
        return arriving(0, name, objects=[claim(part, name=name)], entry=name)

    trace = lines(tmp_path / "trace.jsonl", asking("a", "50"), asking("b", "80"), asking("c", "20"), asking("d", "50"))

    def devices(*more: str, exit_code: int = 0) -> list[str]:
        found = answer("-f", world, "--arrivals", trace, *more, exit_code=exit_code)
        return [one["devices"][0]["device"] if one["devices"] else "" for one in found["pods"]]

    assert devices(exit_code=1) == ["gpu-0", "gpu-1", "gpu-0", ""]
    for placement in ("bestFit", "fragmentation", "leastWaste"):  # fgd takes the first of equals, as its authors do
        assert devices("--placement", placement) == ["gpu-0", "gpu-1", "gpu-1", "gpu-0"]


def test_a_placement_fills_nodes_one_by_one(world: str, tmp_path: Path) -> None:
    trace = lines(tmp_path / "trace.jsonl", *(arriving(number, f"job-{number}") for number in range(3)))
    nodes = {
        placement: [one["node"] for one in answer("-f", world, "--arrivals", trace, "--placement", placement)["pods"]]
        for placement in ("firstFit", "fragmentation")
    }
    assert nodes["firstFit"][:2] == ["node-1", "node-2"], "cpu and memory spread them"
    assert nodes["fragmentation"] == ["node-1", "node-1", "node-2"]


# -- shares -----------------------------------------------------------------------------------------


def test_of_devices_that_are_shared_their_capacity_counts(tmp_path: Path) -> None:
    policy = {"default": "80Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
    capacity = {"memory": {"value": "80Gi", "requestPolicy": policy}}
    shared = {**gpu("gpu-0"), "allowMultipleAllocations": True, "capacity": capacity}
    part = request(capacity={"requests": {"memory": "20Gi"}})
    world = written(
        tmp_path / "world.json", device_class(), node(), slice_(shared), template(part), pod("template:gpu", name="job")
    )
    assert answer("-f", world)["allocated"][CLASS] == {"share": 0.25, "devices": 1, "used": 0.25}


def test_of_partitions_their_device_counts(tmp_path: Path) -> None:
    units = {f"slice-{number}": {"value": "1"} for number in range(4)}
    counters = [{"name": "gpu-0", "counters": {**units, "memory": {"value": "80Gi"}}}]

    def partition(name: str, *taken: int) -> Obj:
        consumed = {f"slice-{number}": {"value": "1"} for number in taken} | {"memory": {"value": "10Gi"}}
        return {**gpu(name), "consumesCounters": [{"counterSet": "gpu-0", "counters": consumed}]}

    pool = {"resourceSliceCount": 2}
    devices = slice_(partition("part-0", 0), partition("part-1", 1, 2, 3), pool=pool)
    sets = slice_(name="counters", pool=pool, sharedCounters=counters)
    world = written(tmp_path / "world.json", device_class(), node(), devices, sets, template(), pod("template:gpu"))
    assert answer("-f", world)["allocated"][CLASS] == {"share": 0.25, "devices": 1, "used": 0.25}


# -- forms, and bad input ---------------------------------------------------------------------------


def test_the_table_names_each_pod_and_why_others_wait(world: str, tmp_path: Path) -> None:
    file = written(tmp_path / "pod.json", pod("template:gpu", name="job"))
    result = run("-f", world, "--add", f"6x{file}")
    rows = result.stdout.splitlines()
    assert rows[0] == "POD\tNODE\tDEVICES"
    assert rows[1].startswith("default/job-1\tnode-1\tgpu.example.com/node-1/gpu-0")
    assert rows[-3].startswith("default/job (2 pods): 0/2 nodes are available: 2 cannot allocate all claims.")
    assert rows[-1] == f"4 placed, 2 not; given out at the end: {CLASS} 100.0 % of 4"
    assert result.exit_code == 1


def test_a_scheduler_that_has_placed_nobody_is_noted(world: str, tmp_path: Path) -> None:
    asked = written(tmp_path / "pod.json", pod(name="job", schedulerName="dra-schedular"), pod(name="other"))
    result = run("-f", world, "-f", asked)
    text = (
        "note: no pod that has a node names the scheduler dra-schedular: answered as if it ran, and were dra-scheduler"
    )
    assert f"{text}; did you mean dra-scheduler?" in result.stderr
    assert (result.exit_code, result.stderr.count("note:")) == (0, 1)


def test_csv_has_a_row_a_pod(world: str, tmp_path: Path) -> None:
    file = written(tmp_path / "pod.json", pod("template:gpu", name="job"))
    rows = list(csv.DictReader(run("-f", world, "--add", file, "-o", "csv").stdout.splitlines()))
    assert [(row["name"], row["node"], row["devices"]) for row in rows] == [
        ("job", "node-1", "gpu.example.com/node-1/gpu-0")
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{", "trace.jsonl:1: not JSON"),
        ("[]", "trace.jsonl:1: not an object"),
        ('{"at": 0, "objcts": []}', "trace.jsonl:1: unknown field objcts; there are at, for and objects"),
        ('{"at": -1, "objects": [{"kind": "Pod", "metadata": {"name": "a"}}]}', "at: must be a number of seconds"),
        ('{"at": 0, "for": "1h", "objects": [{"kind": "Pod", "metadata": {"name": "a"}}]}', "for: must be a number"),
        ('{"at": 0, "objects": []}', "objects: must be a list with at least a Pod"),
        ('{"at": 0, "objects": [{"kind": "Pod"}]}', "objects[0].metadata.name: must be there"),
        ('{"at": 0, "objects": [{"metadata": {"name": "a"}}]}', "objects[0]: must be an object with a kind"),
    ],
)
def test_a_line_that_is_no_arrival_is_named(world: str, tmp_path: Path, line: str, text: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(line + "\n")
    result = run("-f", world, "--arrivals", str(path))
    assert result.exit_code == 2
    assert text in result.output


def test_a_pod_that_the_api_server_refuses_is_a_warning_and_stops_no_other(world: str, tmp_path: Path) -> None:
    trace = lines(
        tmp_path / "trace.jsonl",
        {"at": 0, "objects": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"}, "spec": {}}]},
        arriving(1, "good"),
    )
    result = run("-f", world, "--arrivals", trace)
    assert result.exit_code == 2
    assert "default/good\tnode-1" in result.stdout
    assert "trace.jsonl:1: Pod bad" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--remove", "node/no-such"), "--remove node/no-such: there is no such object"),
        (("--once",), "--once needs --arrivals"),
        (("--seed", "1"), "--seed needs --arrivals"),
        (("--add", "0xpod.yaml"), "the number of copies must be from 1 to 100000"),
        (("--add", "no-such.yaml"), "no-such.yaml"),
    ],
)
def test_wrong_use_is_told(world: str, arguments: tuple[str, ...], text: str) -> None:
    result = run("-f", world, *arguments)
    assert result.exit_code == 2
    assert text in result.output


# -- shapes of nodes --------------------------------------------------------------------------------


def shape(path: Path, devices: int, **spec: Any) -> str:
    gpus = [gpu(f"gpu-{number}") for number in range(devices)]
    return written(path, node("big", **spec), slice_(*gpus, where="big"))


def test_how_many_nodes_of_a_shape_are_needed(world: str, tmp_path: Path) -> None:
    pods = written(tmp_path / "pods.json", *(pod("template:gpu", name=f"job-{number}") for number in range(9)))
    asked = ("-f", world, "-f", pods, "--what-node", shape(tmp_path / "two.json", 2))
    found = answer(*asked, "--what-node", shape(tmp_path / "four.json", 4))
    assert [(one["node"], one["count"], len(one["run"]), one["wait"]) for one in found["shapes"]] == [
        ("big", 3, 5, []),
        ("big", 2, 5, []),
    ]
    assert {one["node"] for one in found["shapes"][1]["run"]} <= {"big-1", "big-2", "node-1", "node-2"}
    lines_ = run(*asked).output.splitlines()
    assert lines_[:2] == ["big: 3 nodes let 5 more pods run", "NODE\tPODS"]
    assert [line.split("\t")[0] for line in lines_[2:5]] == ["big-1", "big-2", "big-3"]


def test_who_would_run_there_and_who_waits_is_named(tmp_path: Path) -> None:
    five = pod("template:five", name="many")
    one = pod("template:gpu", name="one")
    more = [pod("template:five", name=f"more-{number:02}") for number in range(11)]
    files = written(tmp_path / "world.json", device_class(), template(), template(request(count=5), name="five"))
    pods = written(tmp_path / "pods.json", five, one, *more)
    asked = ("-f", files, "-f", pods, "--what-node", shape(tmp_path / "small.json", 4))
    result = run(*asked)
    assert result.exit_code == 1
    assert "big-1\tdefault/one" in result.output
    assert "with big, 12 wait (default/many, default/more-00," in result.output
    assert "default/more-08 and 2 more): 0/1 nodes are available" in result.output
    assert "default/more-10" in run(*asked, "-o", "wide").output


def test_pods_of_daemon_sets_need_no_nodes(world: str, tmp_path: Path) -> None:
    """Each node brings its own: with them every node more let one more pod run."""
    template_ = {"metadata": {"labels": {"a": "a"}}, "spec": pod()["spec"]}
    daemons = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "a"}}, "template": template_},
    }
    pods = [pod("template:gpu", name=f"job-{number}") for number in range(9)]
    asked = ("-f", world, "-f", written(tmp_path / "pods.json", daemons, *pods))
    (found,) = answer(*asked, "--what-node", shape(tmp_path / "four.json", 4))["shapes"]
    assert (found["count"], len(found["run"]), found["wait"]) == (2, 5, [])
    full = answer(*asked, "--what-node", shape(tmp_path / "none.json", 1, unschedulable=True), exit_code=1)["shapes"][0]
    assert (full["count"], len(full["wait"])) == (0, 5)


def test_pods_that_come_only_when_others_run_want_nodes_too(tmp_path: Path) -> None:
    stateful = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "set", "namespace": "default"},
        "spec": {
            "replicas": 3,
            "serviceName": "set",
            "selector": {"matchLabels": {"a": "a"}},
            "template": {"metadata": {"labels": {"a": "a"}}, "spec": pod("template:gpu")["spec"]},
        },
    }
    world = written(tmp_path / "world.json", device_class(), template(), stateful)
    (found,) = answer("-f", world, "--what-node", shape(tmp_path / "one.json", 1))["shapes"]
    assert (found["count"], [one["name"] for one in found["run"]]) == (3, ["set-0", "set-1", "set-2"])


def test_a_shape_that_does_not_help_is_said_not_to(world: str, tmp_path: Path) -> None:
    five = pod("template:gpu", name="many")
    five["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = "five"
    pods = written(
        tmp_path / "pods.json", template(request(count=5), name="five"), five, pod("template:gpu", name="one")
    )
    asked = ("-f", world, "-f", pods, "--what-node")
    small = answer(*asked, shape(tmp_path / "small.json", 4), exit_code=1)["shapes"][0]
    assert (small["count"], small["run"], [one["name"] for one in small["wait"]]) == (0, [], ["many"])
    large = answer(*asked, shape(tmp_path / "large.json", 5))["shapes"][0]
    assert (large["count"], [one["name"] for one in large["run"]]) == (1, ["many"])
    tainted = shape(tmp_path / "tainted.json", 5, taints=[{"key": "example.com/only", "effect": "NoSchedule"}])
    result = run(*asked, tainted)
    assert result.exit_code == 1
    assert "big: no number of such nodes lets a pod run that waits; 1 wait" in result.output
    assert "untolerated taint" in result.output


def test_a_shape_is_one_node(world: str, tmp_path: Path) -> None:
    none = written(tmp_path / "none.json", device_class())
    result = run("-f", world, "--what-node", none)
    assert (result.exit_code, "a shape is one Node with its ResourceSlices; there are 0" in result.output) == (2, True)
    assert answer("-f", world, "--what-node", shape(tmp_path / "one.json", 1))["shapes"][0]["count"] == 0
    assert run("-f", world, "--what-node", none, "-o", "name").exit_code == 2
