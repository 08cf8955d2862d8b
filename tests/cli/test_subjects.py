"""Pods, claims and workloads are found by the names that people write, and a name of a bad form is answered."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cli.known_names import KINDS
from scheduler.cli.main import cli
from scheduler.cli.subjects import Subject, read_subject
from scheduler.explain import waiting as waiting_pods
from scheduler.explain.wording import kind_of
from scheduler.offline import PodResult
from scheduler.why.kinds import KINDS as REASONS
from tests.cli.answers import ExplainAllAnswer
from tests.offline.causes import claim, device_class, gpu, node, pod, request, slice_, template

Obj = dict[str, Any]
WORLD = [node(), slice_(gpu("gpu-0"), gpu("gpu-1")), device_class(), template(), claim(name="gpu")]
BOUND = {"nodeName": "node-1"}


def owned(name: str, kind: str, owner: str, *, entry: str | None = "template:gpu", **fields: Any) -> Obj:
    """A pod of a dump with a controller; its claim is not made yet."""
    obj = pod(*([entry] if entry else []), name=name, **fields)
    reference = {"apiVersion": "v1", "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
    obj["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "5", "ownerReferences": [reference]}
    if kind == "ReplicaSet":
        obj["metadata"]["labels"] = {"pod-template-hash": owner.rpartition("-")[2]}
    return obj


def file_of(folder: Path, *objects: Obj) -> str:
    path = folder / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*WORLD, *objects]}))
    return str(path)


def explain(folder: Path, objects: list[Obj], *args: str) -> Result:
    result = CliRunner().invoke(cli, ["explain", *args, "-f", file_of(folder, *objects)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


# -- forms ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        (["web"], Subject("pod", "web")),
        (["pod/web"], Subject("pod", "web")),
        (["po/team/web"], Subject("pod", "team/web")),
        (["team/web"], Subject("pod", "team/web")),
        (["pod", "web"], Subject("pod", "web")),
        (["deploy/web"], Subject("deployment", "web")),
        (["Deployment.apps/web"], Subject("deployment", "web")),
        (["job", "team/web"], Subject("job", "team/web")),
        (["rs/web"], Subject("replicaset", "web")),
        (["sts/web"], Subject("statefulset", "web")),
        (["ds/web"], Subject("daemonset", "web")),
        (["cj/web"], Subject("cronjob", "web")),
        (["resourceclaims/gpu"], Subject("claim", "gpu")),
    ],
)
def test_a_name_is_read_as_kubectl_reads_it(words: list[str], subject: Subject) -> None:
    assert read_subject(words) == subject


@pytest.mark.parametrize(
    "words", [[""], ["/"], ["pod"], ["pod/"], ["pod/a/b/c"], ["a", "b"], ["pod", "a", "b"], ["a//b"], ["node/web"]]
)
def test_a_name_of_another_form_is_answered_with_the_forms(words: list[str]) -> None:
    with pytest.raises(click.UsageError, match="give NAME or pod/NAME, claim/NAME, or deploy/"):
        read_subject(words)


@functools.cache
def fuzzed_world() -> str:
    return file_of(Path(tempfile.mkdtemp()), pod("gpu", name="web"), owned("w-1", "ReplicaSet", "w-abc", entry=None))


NAMES = st.one_of(
    st.text(max_size=12),
    st.builds(
        "/".join,
        st.lists(st.sampled_from([*KINDS, "web", "gpu", "w", "", "default", "é", "\n", "a b", "-"]), max_size=4),
    ),
    st.text(st.characters(codec=None, categories=["Cs", "Cc", "Zs", "So"]), min_size=1, max_size=4),
)
ASKING = st.sampled_from(
    [
        ["explain"],
        ["simulate", "--pod"],
        ["simulate", "--claim"],
        ["explain", "-n"],
        ["make-room"],
    ]
)


@pytest.mark.slow
@given(asking=ASKING, name=NAMES)
@settings(max_examples=150, deadline=None)
def test_no_name_is_answered_with_a_traceback(asking: list[str], name: str) -> None:
    """Whatever is written as a name: an answer, or one line that says what is wrong."""
    result = CliRunner().invoke(cli, [*asking, name, "-f", fuzzed_world()])

    assert result.exception is None or isinstance(result.exception, SystemExit), (asking, name, result.exception)
    assert result.exit_code in (0, 1, 2)
    if result.exit_code == 2:
        assert "Error: " in result.stderr
        # click writes an option that it does not know as it was written.
        assert name.startswith("-") or result.stderr.replace("\n", "").isprintable(), result.stderr


# -- workloads ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "pods"),
    [
        ("deploy/web", [owned("web-abc-1", "ReplicaSet", "web-abc")]),
        ("rs/web-abc", [owned("web-abc-1", "ReplicaSet", "web-abc")]),
        ("sts/web", [owned("web-0", "StatefulSet", "web")]),
        ("ds/web", [owned("web-x", "DaemonSet", "web")]),
        ("job/web", [owned("web-x", "Job", "web")]),
        ("cronjob/web", [owned("web-77-x", "Job", "web-77")]),
    ],
)
def test_a_workload_means_its_pods(written: str, pods: list[Obj], tmp_path: Path) -> None:
    other = owned("other-1", "ReplicaSet", "other-abc")
    result = explain(tmp_path, [*pods, other], written)

    assert result.exit_code == 0, result.output
    assert f"pod default/{pods[0]['metadata']['name']} fits" in result.stdout
    assert "1 of its 1 pod waits" in result.stderr


def test_the_replica_set_between_says_whose_it_is_where_it_is_there(tmp_path: Path) -> None:
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "odd", "namespace": "default"}}
    replica_set["metadata"] |= {"uid": "uid-odd", "resourceVersion": "4"}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": True}
    replica_set["metadata"]["ownerReferences"] = [owner]

    result = explain(tmp_path, [owned("p", "ReplicaSet", "odd"), replica_set], "deploy/web")

    assert "pod default/p fits" in result.stdout, result.output


def test_pods_that_a_manifest_makes_are_meant(tmp_path: Path) -> None:
    labels = {"app": "a"}
    spec = {"metadata": {"labels": labels}, "spec": pod("template:gpu")["spec"]}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    workload["spec"] = {"replicas": 3, "selector": {"matchLabels": labels}, "template": spec}

    result = explain(tmp_path, [workload], "deploy/web")

    assert "deployment default/web: 3 of its 3 pods wait" in result.stderr
    assert "1 pod of them (web-" in result.stderr
    assert "2 pods of them (web-" in result.stderr  # two devices are free


def test_each_cause_is_told_once_with_its_pods(tmp_path: Path) -> None:
    """Four pods wait: three for one cause, though each has a claim of another name, and one for another."""
    waiting = [owned(f"web-{number}", "StatefulSet", "web", entry="template:many") for number in range(3)]
    many = template(request(count=9), name="many")
    hungry = owned("web-9", "StatefulSet", "web", entry=None, requests={"cpu": "999"})
    running = owned("web-8", "StatefulSet", "web", entry=None, **BOUND)

    result = explain(tmp_path, [*waiting, hungry, running, many], "sts/web")
    answer = json.loads(explain(tmp_path, [*waiting, hungry, running, many], "sts/web", "-o", "json").stdout)

    assert result.exit_code == 1
    assert result.stdout.startswith("pod default/web-0 does not fit")
    notes = [line.removeprefix("note: ") for line in result.stderr.splitlines()][:3]
    assert notes[0] == "statefulset default/web: 4 of its 5 pods wait, 0 of them fit, 4 do not"
    assert notes[1].endswith("] this one's cause")
    assert notes[1].startswith("3 pods of them (web-0, web-1, web-2): [")
    assert notes[2].startswith("1 pod of them (web-9): ")
    assert answer["notes"][:3] == notes


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("deploy/wep", "no deployment is named wep; did you mean web?"),
        ("job/web", "no job is named web; known: none"),
        ("sts/web", "no statefulset is named web; known: none"),
        ("team/web", "no pod is named team/web; known: default/web-abc-1"),
    ],
)
def test_a_workload_that_is_not_there_is_answered_with_the_nearest(written: str, words: str, tmp_path: Path) -> None:
    result = explain(tmp_path, [owned("web-abc-1", "ReplicaSet", "web-abc")], written)

    assert (result.exit_code, words in result.stderr) == (2, True), result.output


def test_of_a_workload_that_runs_a_pod_is_shown(tmp_path: Path) -> None:
    result = explain(tmp_path, [owned("web-0", "StatefulSet", "web", entry=None, **BOUND)], "sts/web")

    assert (result.exit_code, "statefulset default/web: none of its 1 pod waits" in result.stderr) == (0, True)
    assert "pod default/web-0 is bound to node node-1" in result.stdout


def test_simulate_plays_the_pods_of_a_workload(tmp_path: Path) -> None:
    file = file_of(tmp_path, owned("web-0", "StatefulSet", "web"), owned("other-0", "StatefulSet", "other"))

    result = CliRunner().invoke(cli, ["simulate", "--pod", "sts/web", "-f", file, "-o", "name"])

    assert result.stdout == "pod/default/web-0\n", result.output


# -- all that wait --------------------------------------------------------------------------------------------------

MANY = [
    pod("template:gpu", name="fits"),
    pod("template:gone", name="no-template"),
    pod(name="hungry", requests={"cpu": "999"}),
    pod(name="held", schedulingGates=[{"name": "example.com/wait"}]),
    pod(name="runs", **BOUND),
]


def test_all_pods_that_wait_have_a_line(tmp_path: Path) -> None:
    result = explain(tmp_path, MANY, "-A")

    assert result.exit_code == 1
    rows = [line.split("\t") for line in result.stdout.splitlines()[1:-1]]
    assert [row[0] for row in rows] == ["default/fits", "default/held", "default/hungry", "default/no-template"]
    assert rows[0][1:] == ["(fits)", "fits: it would run on node node-1"]
    assert rows[1][1:] == ["[scheduling-gate]", "pod default/held has the scheduling gate example.com/wait"]
    assert rows[2][2] != ""
    assert result.stdout.splitlines()[-1].startswith("4 pods wait: ")


def test_programs_get_the_kind_by_itself(tmp_path: Path) -> None:
    answer = ExplainAllAnswer.model_validate_json(explain(tmp_path, MANY[2:3], "-A", "-o", "json").stdout)

    (found,) = answer.pods
    assert (answer.waiting, found.name, found.kind) == (1, "hungry", "resources-short")
    assert found.cause == "node node-1 has 8 cpu free, and pod default/hungry asks for 999"
    assert (found.change, found.first_look) == (
        "ask for cpu 8 instead of 999 in container main of pod default/hungry",
        False,
    )


def test_a_pod_whose_scheduler_is_misspelt_does_not_just_fit(tmp_path: Path) -> None:
    """The list said that it fits, its own answer that nobody looks at it."""
    misspelt = pod("template:gpu", name="web")
    misspelt["spec"]["schedulerName"] = "dra-schedular"
    listed = explain(tmp_path, [misspelt], "-A")
    alone = explain(tmp_path, [misspelt], "web")

    assert listed.exit_code == alone.exit_code == 1
    _, kind, cause = listed.stdout.splitlines()[1].split("\t")
    assert (kind, f"{kind}: {cause}" in alone.stdout) == ("[scheduler-unknown]", True)


@pytest.mark.parametrize("outcome", [one for one in PodResult if one is not PodResult.FITS])
def test_what_only_the_scheduler_says_has_a_kind_of_the_page(outcome: PodResult) -> None:
    assert kind_of(outcome) in REASONS


def test_a_namespace_alone_and_nobody(tmp_path: Path) -> None:
    other = pod(name="away", requests={"cpu": "999"})
    other["metadata"]["namespace"] = "team"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}

    of_team = explain(tmp_path, [*MANY, namespace, other], "-n", "team")
    nobody = explain(tmp_path, [MANY[-1]], "-A")

    assert [line.split("\t")[0] for line in of_team.stdout.splitlines()] == [
        "POD",
        "team/away",
        of_team.stdout.splitlines()[-1],
    ]
    assert (nobody.exit_code, nobody.stdout) == (0, "no pods wait\n")
    assert explain(tmp_path, MANY).exit_code == 2


def test_more_pods_than_are_asked_about_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_pods, "PODS_MAX", 1)

    result = explain(tmp_path, MANY, "-A")

    assert len(result.stdout.splitlines()) == 3
    assert result.stdout.splitlines()[-1].endswith(", 3 not asked about")


def test_a_long_cause_is_cut_in_a_table_alone(tmp_path: Path) -> None:
    long = pod(name="x" * 200, requests={"cpu": "999"})

    cut = explain(tmp_path, [long], "-A").stdout.splitlines()[1].split("\t")[2]

    assert (len(cut), cut[-1]) == (160, "…")
    assert f"pod default/{'x' * 200} asks for 999" in explain(tmp_path, [long], "-A", "-o", "wide").stdout


# -- room -----------------------------------------------------------------------------------------------------------


def test_room_is_made_for_a_pod_that_waits_by_its_name(tmp_path: Path) -> None:
    file = file_of(tmp_path, pod("template:gpu", name="web"), owned("w-abc-1", "ReplicaSet", "w-abc"))

    def room(*args: str) -> Result:
        return CliRunner().invoke(cli, ["make-room", "-f", file, *args])

    assert room("web").stdout.startswith("default/web fits on node-1 as it is"), room("web").output
    assert room("deploy/w").stdout.startswith("default/w-abc-1 fits on node-1 as it is")
    for written, words in (
        ("wep", "no pod is named wep; did you mean web?"),
        ("claim/gpu", "'claim/gpu' is not a pod"),
        ("gone.yaml", "gone.yaml"),
        ("pod/", "give NAME or pod/NAME"),
    ):
        assert (room(written).exit_code, words in room(written).stderr) == (2, True), room(written).output
