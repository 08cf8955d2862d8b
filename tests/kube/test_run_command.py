"""`dra-scheduler run`: exit codes, one clear line for each failure; as a process, what it does once it has begun."""

from __future__ import annotations

import asyncio
import json
import logging
import pstats
import signal
import socket
import ssl
import sys
from pathlib import Path

import aiohttp
import click
import pytest
from click.testing import CliRunner

from scheduler.cli.run import find_configuration, run
from scheduler.embedded.cluster import EmbeddedCluster
from tests.controlplane.fault_proxy import FaultProxy
from tests.kube.misbehaving import misbehaving, status
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
HEAD = "apiVersion: dra-scheduler/v1alpha1\nkind: DraSchedulerConfiguration\n"


async def start(*arguments: str, **environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "scheduler", "run", *arguments),
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def end(process: asyncio.subprocess.Process) -> tuple[int, str]:
    """Its exit code and what it wrote to standard error."""
    async with asyncio.timeout(PATIENCE_S):
        _, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, errors.decode()


def refused(*arguments: str) -> tuple[int, str]:
    """Of one that ends before it has spoken to a server, in this process: its exit code and its standard error."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        result = CliRunner(env={"KUBECONFIG": None, "HOME": "/nonexistent"}).invoke(run, arguments)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    return result.exit_code, result.stderr


def kubeconfig(folder: Path, server: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param([], "give --kubeconfig FILE, or set KUBECONFIG", id="nothing-to-connect-to"),
        pytest.param(["--no-such-option"], "No such option", id="unknown-option"),
        pytest.param(["--tls-cert-file", __file__], "tlsPrivateKeyFile: Required value", id="no-key"),
        pytest.param(["--serving", "plain", "--bind-address", "::"], "is for loopback addresses only", id="plain"),
        pytest.param(["--secure-port", "99999"], "99999 is not in the range", id="secure-port-out-of-range"),
        pytest.param(["--health-port", "99999"], "99999 is not in the range", id="port-out-of-range"),
        pytest.param(["--config", "/nowhere.yaml"], "'/nowhere.yaml' does not exist", id="config-missing"),
        pytest.param(
            ["--scheduler-name", "No Good"],
            "Invalid value for --scheduler-name: 'No Good': a DNS subdomain is needed",
            id="bad-name",
        ),
        pytest.param(["--nodes", "pool=gpu,"], "Invalid value for '--nodes': 'pool=gpu,': cannot read", id="bad-nodes"),
        pytest.param(["--slices", "node=a"], "unknown key 'node': slices are selected by driver", id="bad-slices"),
        pytest.param(["--scheduler-name=a"] * 2, 'profiles[1].schedulerName: Duplicate value: "a"', id="name-twice"),
    ],
)
def test_wrong_use_is_exit_code_2(arguments, complaint):
    code, errors = refused(*arguments)

    assert code == 2
    assert complaint in errors
    assert "Traceback" not in errors


def test_configuration_errors_name_file_line_and_column(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(HEAD + "writesInFligth: 3\n")
    code, errors = refused("--config", str(path))

    assert code == 2
    assert f'{path}:3:1: writesInFligth: unknown field; did you mean "writesInFlight"?' in errors


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(None, "kubeconfig: no such kubeconfig file", id="no-such-file"),
        pytest.param("clusters: [", "kubeconfig:2:1: no valid YAML: ", id="no-yaml"),
    ],
)
def test_kubeconfig_that_cannot_be_used_is_exit_code_1(tmp_path, content, complaint):
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    code, errors = refused("--kubeconfig", str(path))

    assert code == 1
    assert complaint in errors
    assert "Traceback" not in errors


def test_unreachable_server_is_one_clear_line_and_exit_code_1(tmp_path):
    code, errors = refused("--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1"))

    assert code == 1
    assert errors == ("Error: the API server does not answer: cannot connect to 127.0.0.1:1: Connection refused\n")


@pytest.mark.slow
async def test_missing_rights_are_listed_and_exit_code_1(tmp_path):
    async with EmbeddedCluster(controllers=False) as cluster, FaultProxy(cluster.url) as proxy:
        proxy.deny("create", "", "pods", "binding")
        proxy.deny("patch", "resource.k8s.io", "resourceclaims", "binding")
        code, errors = await end(await start("--kubeconfig", kubeconfig(tmp_path, proxy.url)))

    assert code == 1
    assert errors.splitlines() == [
        "Error: not permitted: create pods/binding (in all namespaces)",
        "not permitted: patch resourceclaims/binding.resource.k8s.io (in all namespaces)",
        "manifests/base/rbac.yaml holds the role that grants all of them",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code_wanted"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_signal_stops_it_in_order(tmp_path, number, code_wanted):
    async with EmbeddedCluster(controllers=False) as cluster:
        process = await start("--no-health", "--log-format", "json", "--kubeconfig", kubeconfig(tmp_path, cluster.url))
        entries = []
        async with asyncio.timeout(PATIENCE_S):
            while not any("caches filled" in entry["message"] for entry in entries):
                entries.append(json.loads(await process.stderr.readline()))
        process.send_signal(number)
        code, rest = await end(process)

    assert code == code_wanted
    said = [line for line in rest.splitlines() if line.startswith("{")]  # Ctrl-C is told to people, too
    assert [json.loads(line)["message"] for line in said][-2:] == [
        "stopping",
        "released the lease kube-system/dra-scheduler",
    ]
    assert {"time", "level", "logger", "message"} <= entries[0].keys()


@pytest.mark.parametrize(
    ("arguments", "is_on"), [([], True), (["--leader-elect=false"], False), (["--leader-elect"], True)]
)
def test_election_is_on_unless_it_is_said_otherwise(monkeypatch, arguments, is_on):
    seen = []
    monkeypatch.setattr("scheduler.cli.run._run", lambda _, config, *more: seen.append(config))
    result = CliRunner(env={"KUBECONFIG": "/nowhere"}).invoke(run, [*arguments, "--no-health"])

    assert result.exit_code == 0, result.output
    assert [config.leader_election.leader_elect for config in seen] == [is_on]


@pytest.mark.slow
async def test_lost_lease_is_one_clear_line_and_exit_code_1(tmp_path):
    async with EmbeddedCluster(controllers=False) as cluster:
        process = await start("--no-health", "--kubeconfig", kubeconfig(tmp_path, cluster.url))
        line = b""
        async with asyncio.timeout(PATIENCE_S):
            while b"caches filled" not in line:
                line = await process.stderr.readline()
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/dra-scheduler"
        async with aiohttp.ClientSession() as session, session.delete(cluster.url + path) as response:
            assert response.status == 200
        code, errors = await end(process)

    assert code == 1
    assert errors.splitlines()[-1] == (
        "Error: the lease kube-system/dra-scheduler was lost: deleted; this process ends, for another one may be "
        "scheduling by now: start it again to wait for its turn"
    )
    assert "Traceback" not in errors


@pytest.mark.slow
async def test_a_profile_is_written_when_it_is_stopped(tmp_path):
    calls = tmp_path / "calls.pstats"
    async with EmbeddedCluster(controllers=False) as cluster:
        options = ["--no-health", "--profile-calls", str(calls)]
        process = await start(*options, "--kubeconfig", kubeconfig(tmp_path, cluster.url))
        async with asyncio.timeout(PATIENCE_S):
            while b"caches filled" not in await process.stderr.readline():
                pass
        process.send_signal(signal.SIGTERM)
        code, _ = await end(process)

    assert code == 0
    assert any(name == "handle" for _, _, name in vars(pstats.Stats(str(calls)))["stats"])


@pytest.mark.slow
async def test_health_port_that_is_taken_is_exit_code_1(tmp_path):
    async with EmbeddedCluster(controllers=False) as cluster:
        port = cluster.url.rsplit(":", 1)[1]
        code, errors = await end(await start("--health-port", port, "--kubeconfig", kubeconfig(tmp_path, cluster.url)))

    assert code == 1
    assert errors.splitlines()[-1].startswith(f"Error: cannot serve on port {port}: ")


@pytest.mark.slow
async def test_it_serves_with_tls_and_ends_in_order_with_a_connection_open(tmp_path):
    trusted = tmp_path / "made" / "dra-scheduler.crt"
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = str(one.getsockname()[1])
    async with EmbeddedCluster(controllers=False) as cluster, aiohttp.ClientSession() as session:
        options = ["--secure-port", port, "--cert-dir", str(trusted.parent), "--log-level", "debug"]
        process = await start(*options, "--kubeconfig", kubeconfig(tmp_path, cluster.url))
        async with asyncio.timeout(PATIENCE_S):
            while b"caches filled" not in await process.stderr.readline():
                pass
        tls = ssl.create_default_context(cafile=str(trusted))
        headers = {"Authorization": "Bearer marked"}
        for path, wanted in (("/livez", 200), ("/readyz", 200), ("/metrics", 401)):
            async with session.get(f"https://localhost:{port}{path}", ssl=tls, headers=headers) as answer:
                assert answer.status == wanted
        process.send_signal(signal.SIGTERM)
        code, errors = await end(process)

    assert code == 0
    assert "Traceback" not in errors
    # The embedded server answers no reviews: that is said, and without the token.
    assert "cannot find out who sent a token" in errors
    assert "marked" not in errors


@pytest.mark.slow
async def test_options_win_over_the_file(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(HEAD + "profiles: [{schedulerName: from-file}]\nhealthPort: null\n")
    async with EmbeddedCluster(controllers=False) as cluster:
        arguments = ("--config", str(path), "--kubeconfig", kubeconfig(tmp_path, cluster.url))
        names = []
        for extra in ((), ("--scheduler-name", "from-option", "--scheduler-name", "another")):
            process = await start(*arguments, *extra)
            line = b""
            async with asyncio.timeout(PATIENCE_S):
                while b"scheduling pods of" not in line:
                    line = await process.stderr.readline()
            names.append(line.decode().strip().rsplit("scheduling pods of ", 1)[1])
            process.terminate()
            assert (await end(process))[0] == 0

    assert names == ["from-file", "from-option, another"]


ONE_PROFILE = HEAD + (
    "profiles:\n  - schedulerName: from-file\n"
    "    pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 7s}}]\n"
)
TWO_PROFILES = ONE_PROFILE + "  - schedulerName: second\n"


@pytest.mark.parametrize(
    ("text", "names", "timeouts"),
    [
        pytest.param(ONE_PROFILE, [], {"from-file": 7}, id="as-the-file-says"),
        pytest.param(ONE_PROFILE, ["from-file"], {"from-file": 7}, id="same-name"),
        pytest.param(ONE_PROFILE, ["other"], {"other": 7}, id="renamed"),
        pytest.param(TWO_PROFILES, ["second", "from-file"], {"second": 600, "from-file": 7}, id="chosen-by-name"),
        pytest.param(HEAD, ["other"], {"other": 600}, id="no-profiles"),
    ],
)
def test_a_scheduler_name_leaves_the_files_plugin_arguments_alone(
    tmp_path: Path, text: str, names: list[str], timeouts: dict[str, float]
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")

    config = find_configuration(path, {}, names)

    found = {one.scheduler_name: one.dynamic_resources.binding_timeout for one in config.profiles}
    assert found == timeouts


def test_a_scheduler_name_that_is_none_of_several_profiles_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(TWO_PROFILES, encoding="utf-8")

    with pytest.raises(click.BadParameter, match="third: the file's profiles are from-file, second"):
        find_configuration(path, {}, ["third"])


def test_a_profile_that_cannot_be_written_is_told_before_anything_starts(tmp_path: Path) -> None:
    given = ["--profile-calls", str(tmp_path / "missing" / "profile"), "--kubeconfig", str(tmp_path / "none")]
    result = CliRunner().invoke(run, given)

    assert result.exit_code == 2
    assert "Invalid value for '--profile-calls': cannot be written: No such file or directory" in result.output


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("", "kubeconfig: this kubeconfig is empty", id="empty"),
        pytest.param("hello there", "kubeconfig: no kubeconfig, but text", id="text"),
        pytest.param(b"\x00\xff\x10", "kubeconfig: no kubeconfig, but binary data", id="binary"),
        pytest.param("https://no-such-host.invalid", "cannot find host no-such-host.invalid: ", id="unknown-host"),
    ],
)
def test_a_kubeconfig_that_leads_nowhere_is_one_line_in_words(tmp_path, content, complaint):
    path = tmp_path / "kubeconfig"
    if isinstance(content, str) and content.startswith("https:"):
        kubeconfig(tmp_path, content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, errors = refused("--kubeconfig", str(path))

    assert code == 1
    assert complaint in errors
    assert len(errors.splitlines()) == 1


def test_a_plugin_that_is_missing_is_named_with_its_user(tmp_path):
    path = Path(kubeconfig(tmp_path, "https://127.0.0.1:1"))
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin", "interactiveMode": "Never"}
    content = json.loads(path.read_text())
    content["users"][0]["user"]["exec"] = plugin
    path.write_text(json.dumps(content))
    code, errors = refused("--kubeconfig", str(path))

    assert code == 1
    assert errors == f'Error: {path}: user "u": exec: no-such-plugin: the plugin is not installed, or not on PATH\n'


@pytest.mark.slow
async def test_credentials_that_are_not_accepted_are_named_and_not_called_silence(tmp_path):
    async with misbehaving(status(401, "Unauthorized", "Unauthorized"), status(401, "Unauthorized", "no")) as server:
        path = kubeconfig(tmp_path, server.url)
        code, errors = await end(await start("--no-health", "--kubeconfig", path))

    assert code == 1
    assert errors == (
        f'Error: the API server does not accept the credentials of {path}: context "x", user "u": no (HTTP 401)\n'
    )
