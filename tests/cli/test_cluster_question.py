"""All commands that can ask a cluster find it, its gates and its namespace in one way, which is kubectl's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from click.testing import CliRunner, Result

from scheduler.cli.main import cli
from scheduler.embedded.cluster import EmbeddedCluster
from tests.cli.test_cluster_objects import without
from tests.cli.test_schemas import NODE, pod, template
from tests.inventory.test_listing import GPU_CLASS, gpu, slice_of
from tests.kube.misbehaving import misbehaving, status

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "features"
GATE_OFF = ["--feature-gates", "DRAConsumableCapacity=false"]
COMMANDS = {
    "explain": ["web"],
    "devices": [],
    "dump": ["-o", "name"],
    "simulate": [],
}


def in_namespace(namespace: str, *objects: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**one, "metadata": {**one["metadata"], "namespace": namespace}} for one in objects]


CLUSTER = [GPU_CLASS, NODE, slice_of("n", gpu("a"), gpu("b"))]
TEAM = in_namespace("team", template("one", 1), pod("web", "one"))
NAMESPACES = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("team", "other")]


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=False) as running:
        await running.apply([*NAMESPACES, *CLUSTER, *TEAM])
        yield running


def kubeconfig(url: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    context = {"cluster": "c", "user": "u", **({"namespace": namespace} if namespace else {})}
    return {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": context}],
        "current-context": "x",
        **fields,
    }


def home_with(folder: Path, config: Mapping[str, Any] | None) -> dict[str, str | None]:
    """The environment of somebody whose home has this kubeconfig, and nothing else."""
    if config is not None:
        (folder / ".kube").mkdir()
        (folder / ".kube" / "config").write_text(json.dumps(config))
    return {"HOME": str(folder), "KUBECONFIG": None}


async def run(env: Mapping[str, str | None], *args: str) -> Result:
    return await asyncio.to_thread(CliRunner(env=env).invoke, cli, args)


def written(path: Path, *objects: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


# -- which cluster ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
async def test_without_files_the_cluster_of_the_kubeconfig_is_asked(
    command: str, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    env = home_with(tmp_path, kubeconfig(cluster.url, "team"))

    result = await run(env, command, *COMMANDS[command])

    assert result.exit_code == 0, result.output
    assert {"devices": "gpu: 2 of 2 free", "dump": "Pod/team/web"}.get(command, "n") in result.stdout


async def test_files_of_the_variable_are_merged_and_a_context_is_chosen(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    (tmp_path / "contexts").write_text(
        json.dumps({"contexts": kubeconfig("", "team")["contexts"], "current-context": "gone"})
    )
    (tmp_path / "rest").write_text(json.dumps({**kubeconfig(cluster.url), "contexts": []}))
    env = {"HOME": str(tmp_path), "KUBECONFIG": f"{tmp_path / 'absent'}:{tmp_path / 'contexts'}:{tmp_path / 'rest'}"}

    assert (await run(env, "explain", "web", "--context", "x")).exit_code == 0
    assert 'no context "gone"' in (await run(env, "devices")).stderr


async def test_files_alone_ask_no_cluster_and_a_context_asks_one_beside_them(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    env = home_with(tmp_path, kubeconfig(cluster.url, "team"))
    file = written(tmp_path / "mine.yaml", NODE | {"metadata": {"name": "mine"}})

    alone = await run(env, "dump", "-f", file, "-o", "name")
    both = await run(env, "dump", "-f", file, "-o", "name", "--context", "x")

    assert alone.stdout == "Node/mine\n"
    assert {"Node/mine", "Node/n"} <= set(both.stdout.split())


@pytest.mark.parametrize("command", COMMANDS)
async def test_where_no_cluster_is_configured_what_was_looked_for_is_said(command: str, tmp_path: Path) -> None:
    result = await run(home_with(tmp_path, None), command, *COMMANDS[command])

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"Error: no cluster to connect to: $KUBECONFIG is not set, there is no {tmp_path}/.kube/config, and this is no "
        'pod with a service account; give --kubeconfig FILE, or set KUBECONFIG, or files with -f ("-" is standard '
        "input)\n"
    )


@pytest.mark.parametrize(
    ("config", "args", "words"),
    [
        (kubeconfig("http://127.0.0.1:1"), ["--context", "y"], 'no context "y"; choose another with --context; there'),
        (kubeconfig("http://127.0.0.1:1", **{"current-context": ""}), [], "no current-context; set it, or choose one"),
        (kubeconfig("http://127.0.0.1:1"), [], "cannot connect to 127.0.0.1:1"),
        (kubeconfig("h:1"), [], "it must begin with https:// or http://"),
        (
            kubeconfig("http://h", contexts=[{"name": "x", "context": {"namespace": 7, "cluster": "c"}}]),
            [],
            "namespace",
        ),
        ({"kind": "List"}, [], "its kind is List, not Config"),
    ],
)
async def test_what_is_wrong_with_the_kubeconfig_is_said(
    config: dict[str, Any], args: list[str], words: str, tmp_path: Path
) -> None:
    env = home_with(tmp_path, config)
    for command, more in COMMANDS.items():
        result = await run(env, command, *more, *args)

        assert (result.exit_code, result.stdout) == (2, ""), (command, result.output)
        assert words in result.stderr


async def test_a_variable_that_names_no_file_is_named(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "KUBECONFIG": "/nowhere/a:/nowhere/b"}

    result = await run(env, "devices")

    assert result.exit_code == 2
    assert "$KUBECONFIG: /nowhere/a:/nowhere/b: no such kubeconfig file" in result.stderr


async def test_a_token_that_has_expired_is_said(tmp_path: Path) -> None:
    async with misbehaving(*[status(401, "Unauthorized", "Unauthorized")] * 2) as server:
        result = await run(home_with(tmp_path, kubeconfig(server.url)), "devices")

    assert result.exit_code == 2
    assert "the API server does not accept the credentials of" in result.stderr


# -- gates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["explain", "large-0", "-o", "json"],
        ["simulate", "-o", "json"],
    ],
    ids=lambda command: command[0],
)
async def test_a_gate_that_is_off_counts_in_every_command(command: list[str], tmp_path: Path) -> None:
    """By option, by configuration, and as the server has it: one answer, and another than with the gate on."""
    files = [str(EXAMPLES / f"shared-partitions{part}.yaml") for part in ("-cluster", "")]
    given = [part for file in files for part in ("-f", file)]
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: dra-scheduler/v1alpha1\nkind: DraSchedulerConfiguration\n"
        "featureGates: {DRAConsumableCapacity: false}\n"
    )
    on = await run({}, *command, *given)
    off = await run({}, *command, *given, *GATE_OFF)
    configured = await run({}, *command, *given, "--config", str(config))
    async with without(code=403, gates={"DRAConsumableCapacity": 0}, lists={}) as url:
        of_server = await run(home_with(tmp_path, kubeconfig(url)), *command, *given, "--context", "x")

    assert on.stdout != off.stdout
    assert configured.stdout == off.stdout, configured.output
    assert of_server.stdout == off.stdout, of_server.output


async def test_a_gate_that_is_off_counts_for_devices(tmp_path: Path) -> None:
    files = ["-f", str(EXAMPLES / "partitionable-devices-cluster.yaml"), "-o", "json"]
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: dra-scheduler/v1alpha1\nkind: DraSchedulerConfiguration\n"
        "featureGates: {DRAPartitionableDevices: false}\n"
    )
    on = await run({}, "devices", *files)
    off = await run({}, "devices", *files, "--feature-gates", "DRAPartitionableDevices=false")
    configured = await run({}, "devices", *files, "--config", str(config))

    assert on.stdout != off.stdout
    assert configured.stdout == off.stdout


async def test_nodes_slices_and_plugins_of_a_configuration_count_in_every_command(tmp_path: Path) -> None:
    objects = written(tmp_path / "all.yaml", *CLUSTER, *TEAM)
    head = "apiVersion: dra-scheduler/v1alpha1\nkind: DraSchedulerConfiguration\n"
    for text, words in (
        ("nodes: pool=gpu\n", "0/1 nodes are available"),
        ("slices: driver=other.example.com\n", "0/1 nodes are available"),
    ):
        config = tmp_path / "config.yaml"
        config.write_text(head + text)
        for command in (["simulate"], ["explain", "web"]):
            result = await run({}, *command, "-f", objects, "--config", str(config), "-o", "json")

            assert (result.exit_code, words in result.stdout) == (1, True), (command, text, result.output)


# -- namespaces and names ---------------------------------------------------------------------------

OTHERS = [*in_namespace("other", template("one", 1), pod("web", "one"), pod("db", "one"))]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["web"], 0, "pod team/web fits"),
        (["pod/web", "-n", "other"], 0, "pod other/web fits"),
        (["db"], 0, "pod other/db fits"),
        (["pod/other/db"], 0, "pod other/db fits"),
        (["db", "-n", "team"], 2, "no pod is named team/db; there is other/db"),
        (["web", "-A"], 2, "several pods are named web: other/web, team/web; say which with -n NAMESPACE or"),
        (["wep"], 2, "no pod is named wep; did you mean web?"),
        (["claim/web"], 2, "no claim is named web; known: none"),
        (["."], 2, "no pod is named ."),
        ([""], 2, "give NAME or pod/NAME"),
        (["claim"], 2, "give NAME or pod/NAME, claim/NAME"),
        (["pod/"], 2, "give NAME or pod/NAME"),
        (["/"], 2, "give NAME or pod/NAME"),
        (["pod/a/b/c"], 2, "give NAME or pod/NAME"),
    ],
)
async def test_names_are_looked_for_in_the_namespace_and_then_where_they_are(
    args: list[str], code: int, words: str, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    await cluster.apply(OTHERS)

    result = await run(home_with(tmp_path, kubeconfig(cluster.url, "team")), "explain", *args)

    assert (result.exit_code, words in result.output) == (code, True), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


async def test_of_files_a_name_alone_is_the_only_pod_of_that_name(tmp_path: Path) -> None:
    one = written(tmp_path / "one.yaml", *CLUSTER, *TEAM)
    two = written(tmp_path / "two.yaml", *CLUSTER, *TEAM, *OTHERS)

    assert "pod team/web fits" in (await run({}, "explain", "web", "-f", one)).stdout
    assert "several pods are named web: other/web, team/web" in (await run({}, "explain", "web", "-f", two)).stderr
    assert "several pods are named web" in (await run({}, "simulate", "--pod", "web", two)).stderr


async def test_pods_of_all_namespaces_are_played_and_with_a_namespace_its_own(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    await cluster.apply(OTHERS)
    env = home_with(tmp_path, kubeconfig(cluster.url, "team"))

    of_other = await run(env, "simulate", "-o", "name", "-n", "other")
    assert sorted(of_other.stdout.split()) == ["pod/other/db", "pod/other/web"]
    for more in ([], ["-A"]):
        assert len((await run(env, "simulate", "-o", "json", *more)).stdout.split('"outcome"')) == 4
    nobody = await run(env, "simulate", "-n", "default")
    assert (nobody.exit_code, nobody.stdout.partition(";")[0]) == (0, "0 placed, 0 not")
    assert "no pod waits in the namespace default; without -n all are asked about" in nobody.stderr


@pytest.mark.parametrize("args", [["simulate"], ["explain", "web"]])
async def test_objects_without_a_namespace_are_in_that_of_the_option(args: list[str], tmp_path: Path) -> None:
    mine = written(tmp_path / "mine.yaml", *CLUSTER, template("one", 1), pod("web", "one"))

    result = await run({}, *args, "-f", mine, "-n", "team", "-o", "json")
    elsewhere = await run({}, "explain", "default/web", "-f", mine, "-n", "team")

    assert result.exit_code == 0, result.output
    assert elsewhere.exit_code == 2


async def test_what_is_added_is_in_the_contexts_namespace(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    env = home_with(tmp_path, kubeconfig(cluster.url, "team"))
    mine = written(tmp_path / "mine.yaml", pod("mine", "one"))

    result = await run(env, "simulate", "--add", mine, "-o", "name")

    assert set(result.stdout.split()) == {"pod/team/mine", "pod/team/web"}


async def test_profiles_of_a_configuration_count_and_any_schedulers_pods_are_answered(tmp_path: Path) -> None:
    """A profile without DynamicResources gives no devices; a name that no configuration could have gets the first."""
    odd = pod("odd", "one")
    odd["spec"]["schedulerName"] = "No Such_Name"
    objects = written(tmp_path / "all.yaml", *CLUSTER, template("one", 1), pod("web", "one"), odd)
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- schedulerName: first\n- schedulerName: dra-scheduler\n  plugins: {multiPoint: {disabled: [{name: "
        "DynamicResources}]}}\n"
    )
    rows = {}
    for more in ([], ["--config", str(config)]):
        result = await run({}, "simulate", "-f", objects, "-o", "json", *more)
        rows[len(more)] = {one["name"]: len(one["devices"]) for one in json.loads(result.stdout)["pods"]}

    assert rows == {0: {"web": 1, "odd": 1}, 2: {"web": 0, "odd": 1}}


async def test_a_file_that_is_not_there_is_wrong_use_in_every_command(tmp_path: Path) -> None:
    for command, more in COMMANDS.items():
        for option in ("-f", "--kubeconfig", "--config"):
            result = await run({}, command, *more, option, str(tmp_path / "gone"))

            assert (result.exit_code, "does not exist" in result.stderr) == (2, True), (command, result.output)


# -- folders ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        ["simulate", "FOLDER"],
        ["lint", "FOLDER"],
        ["lint", "-f", "FOLDER", "--against", "FOLDER"],
        ["convert", "FOLDER"],
        ["cel", "check", "-f", "FOLDER"],
        ["cel", "eval", "true", "-f", "FOLDER"],
        ["simulate", "-f", "FOLDER"],
        ["simulate", "--add", "FOLDER", "-f", "NODE"],
        ["explain", "web", "-f", "FOLDER"],
        ["devices", "-f", "FOLDER"],
        ["dump", "-f", "FOLDER"],
    ],
    ids=" ".join,
)
async def test_folders_are_taken_wherever_files_are(args: list[str], tmp_path: Path) -> None:
    folder, empty = tmp_path / "folder", tmp_path / "empty"
    for one in (folder, empty):
        one.mkdir()
    written(folder / "cluster.yaml", *CLUSTER)
    written(folder / "mine.yml", *TEAM)
    (folder / "README.md").write_text("{no manifest")
    node = written(tmp_path / "node.yaml", {**NODE, "metadata": {"name": "other"}})
    places = {"FOLDER": str(folder), "NODE": node}

    whole = await run({}, *(places.get(one, one) for one in args))
    nothing = await run({}, *({**places, "FOLDER": str(empty)}.get(one, one) for one in args))

    assert whole.exit_code == 0, whole.output
    assert nothing.exit_code in (1, 2)
    assert str(empty) in nothing.output
    assert "no file in it ends in .yaml, .yml or .json" in nothing.output


async def test_selectors_are_evaluated_on_the_devices_of_a_cluster(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    env = home_with(tmp_path, kubeconfig(cluster.url))

    result = await run(env, "cel", "eval", "device.driver != ''", "--context", "x", "-o", "json")

    assert [one["device"] for one in json.loads(result.stdout)["items"]] == ["a", "b"]
