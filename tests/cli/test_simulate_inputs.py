"""Whatever a file holds, `simulate` answers or says what is wrong with it: no option ends with a traceback."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cli.main import cli
from tests.offline.causes import claim, device_class, gpu, node, pod, slice_, template
from tests.offline.test_making_room import NODES, big, budget, count_of, fleet, runs, runs_from_template

Obj = dict[str, Any]
Where = tuple[str | int, ...]
DROPPED = object()
VALUES = (DROPPED, None, "x", 7, -1, True, [], {}, ["x"], {"x": "y"}, [None])


def places(value: Any, here: Where = ()) -> Iterator[Where]:
    """Every place in a document."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inside in steps:
        yield (*here, step)
        yield from places(inside, (*here, step))


def altered(document: list[Obj], place: Where, value: Any) -> list[Obj]:
    new: Any = copy.deepcopy(document)
    owner = new
    for step in place[:-1]:
        owner = owner[step]
    if value is DROPPED:
        del owner[place[-1]]
    else:
        owner[place[-1]] = value
    return new


def written(path: Path, objects: Sequence[Any]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    return str(path)


def lines(path: Path, arrivals: Sequence[Any]) -> str:
    path.write_text("".join(f"{json.dumps(one)}\n" for one in arrivals))
    return str(path)


def dumped(objects: list[Obj]) -> list[Obj]:
    """As a server prints them."""
    for number, one in enumerate(objects):
        metadata = {"uid": f"uid-{number}", "resourceVersion": str(number + 1), **one["metadata"]}
        one["metadata"] = {"creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
    return objects


def simulated(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, [*(() if "make-room" in arguments else ("simulate",)), *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code in (0, 1, 2)
    assert result.output
    return result


CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}, "data": {}}
WORLD = [*fleet(*NODES, devices=2), template(count_of(1), name="gpu-1"), budget(1, app="a")]
WORLD += [*runs_from_template("a", "node-1", 0), *runs("b", "node-2", 0), CONFIG]
SHAPE = [node("big"), slice_(gpu("gpu-0"), where="big"), device_class()]
WAITING = [pod("template:gpu-1", name=f"job-{number}") for number in range(2)]
VOLUME = {"name": "v", "persistentVolumeClaim": {"claimName": "v"}}
ADDED = [claim(name="mine"), pod("mine", name="job", volumes=[VOLUME])]
ARRIVALS = [{"at": 0, "for": 5, "objects": [*ADDED, template()]}, {"at": 1, "for": None, "objects": WAITING}]
ALTERED = {
    "a dump, when room is made": (dumped(copy.deepcopy(WORLD)), ("make-room", "asked")),
    "manifests, when room is made": (WORLD, ("make-room", "asked")),
    "the pod that room is made for": (big(2), ("make-room", "altered", "-f", "world")),
    "profiles": (WORLD[:5], ("make-room", "--free-profile", "1g")),
    "a shape": (SHAPE, ("-f", "world", "-f", "waiting", "--what-node", "altered")),
    "a shape from a dump": (dumped(copy.deepcopy(SHAPE)), ("-f", "world", "-f", "waiting", "--what-node", "altered")),
    "what is added": (ADDED, ("-f", "world", "--add", "2xaltered")),
    "what a node is taken from": (dumped(copy.deepcopy(WORLD)), ("--remove", "node/node-1")),
    "arrivals": (ARRIVALS, ("-f", "world", "--once", "--arrivals", "altered")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALTERED)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_an_altered_file_gives_an_answer_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    document, arguments = ALTERED[name]
    folder = tmp_path_factory.mktemp("altered")
    place = data.draw(st.sampled_from(list(places(document))))
    found = altered(document, place, data.draw(st.sampled_from(VALUES)))
    files = {
        "altered": (lines if name == "arrivals" else written)(folder / "altered", found),
        "world": written(folder / "world", WORLD),
        "waiting": written(folder / "waiting", WAITING),
        "asked": written(folder / "asked", big(2)),
    }
    files["2xaltered"] = f"2x{files['altered']}"
    own = () if "-f" in arguments else ("-f", files["altered"])
    simulated(*(files.get(one, one) for one in arguments), *own)


@pytest.mark.parametrize(
    ("place", "value", "text"),
    [
        ((1, "spec", "pool"), "x", 'cannot unmarshal string into field "spec.pool"'),
        ((1, "spec"), DROPPED, "spec.driver: Required value"),
        ((0, "metadata"), {}, "Node without metadata.name"),
        ((0, "metadata", "labels"), {"a": "not a label!"}, "Invalid value"),
    ],
)
def test_what_is_wrong_with_a_shape_is_said(tmp_path: Path, place: Where, value: Any, text: str) -> None:
    shape = written(tmp_path / "shape", altered(SHAPE, place, value))
    files = ("-f", written(tmp_path / "world", WORLD), "-f", written(tmp_path / "waiting", WAITING * 2))
    result = simulated(*files, "-f", written(tmp_path / "more", big(3)), "--what-node", shape)
    assert (result.exit_code, f"--what-node {shape}" in result.output, text in result.output) == (2, True, True), (
        result.output
    )


def test_a_shape_from_a_dump_is_as_good_as_a_manifest(tmp_path: Path) -> None:
    shape = dumped(copy.deepcopy(SHAPE))
    for one in shape:
        entry = {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
        one["metadata"] |= {"managedFields": [{**entry, "fieldsV1": {}}], "generation": 3}
    files = ("-f", written(tmp_path / "world", WORLD), "-f", written(tmp_path / "pods", [*WAITING, *big(1)]))
    result = simulated(*files, "--what-node", written(tmp_path / "shape", shape))
    assert result.output.startswith("big: 1 node lets 1 more pod run"), result.output


def test_defaults_that_a_claim_of_a_dump_lacks_are_those_of_a_server(tmp_path: Path) -> None:
    world = dumped([*fleet(*NODES), *runs("a", "node-1", 0), *runs("b", "node-2", 0, 1)])
    held = next(one for one in world if one["kind"] == "ResourceClaim" and one["metadata"]["name"] == "a")
    del held["spec"]["devices"]["requests"][0]["exactly"]["allocationMode"]
    result = simulated("make-room", "-f", written(tmp_path / "world", world), written(tmp_path / "asked", big(4)))
    assert result.output.startswith("default/big fits on node-1 after 1 move"), result.output


def test_a_budget_of_neither_a_number_nor_a_text_is_said(tmp_path: Path) -> None:
    wrong = budget(1, app="a")
    for key in ("uid", "resourceVersion"):
        del wrong["metadata"][key]
    wrong["spec"]["minAvailable"] = {}
    result = simulated("-f", written(tmp_path / "world", [*WORLD, wrong]))
    assert "spec.minAvailable: Invalid value" in result.output


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"ownerReferences": [{"kind": "ReplicaSet", "controller": True}]}, "metadata.ownerReferences[0].uid"),
        ({"creationTimestamp": "yesterday"}, 'parsing time "yesterday" of field "metadata.creationTimestamp"'),
    ],
)
def test_what_is_wrong_with_an_object_of_a_dump_is_said(tmp_path: Path, change: Obj, text: str) -> None:
    world = dumped([*fleet(*NODES), *runs("a", "node-1", 0), *runs("b", "node-2", 0, 1)])
    world[-1]["metadata"] |= change
    result = simulated("make-room", "-f", written(tmp_path / "world", world), written(tmp_path / "asked", big(4)))
    first, second, *_ = result.output.splitlines()
    assert first.startswith("not all is considered: ")
    assert text in result.stderr  # whole; the first line is cut
    assert second.startswith("default/big fits on node-1 after 1 move")  # of a; b was left out


@pytest.mark.slow
def test_a_plot_of_no_arrivals_is_a_picture_of_one_moment(tmp_path: Path) -> None:
    world, picture = written(tmp_path / "world", WORLD), tmp_path / "picture.svg"
    result = simulated("-f", world, "--arrivals", lines(tmp_path / "none", ()), "--plot", str(picture))
    assert result.exit_code == 0, result.output
    assert picture.read_text().startswith("<?xml")


def test_a_pod_may_name_a_scheduler_that_no_configuration_could_have(tmp_path: Path) -> None:
    waiting = {**pod(name="odd"), "spec": {**pod()["spec"], "schedulerName": "My Scheduler"}}
    assert "1 placed, 0 not" in simulated("-f", written(tmp_path / "world", [*WORLD, waiting])).output


def test_a_class_of_a_dump_with_a_field_that_is_not_known_serves_no_request(tmp_path: Path) -> None:
    """Found by the test of altered files: how much of its devices is in use was asked, and `simulate` ended."""
    world = copy.deepcopy(WORLD)
    (klass,) = [one for one in world if one["kind"] == "DeviceClass"]
    klass["spec"] = {"x": "y"}
    result = simulated("-f", written(tmp_path / "dump", dumped(world)), "--remove", "node/node-1")
    assert "spec.x" in result.output
