"""A release of this checkout, made from a tag in a copy of it; and the image's file tree that is in it.

What is made is made once; every test looks at it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from manifests.image.root import RootError, build_root
from manifests.image.run import DOCKERFILE, CannotRunError, command, read_settings
from manifests.release import ReleaseError, notes_of, release
from scheduler.embedded.cluster import EmbeddedCluster
from tests.controlplane.build import built_or_skip
from tests.manifests.rendering import MANIFESTS, ROOT, named, objects, overlay_text
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.oracle, pytest.mark.helm]

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
MORE_THAN_READ = stat.S_ISUID | stat.S_ISGID | stat.S_IWGRP | stat.S_IWOTH
LOCKED = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
# What uv says when the package index does not answer, as opposed to what is ours to repair.
INDEX_SILENT = re.compile(
    r"dns error|error sending request|Connection refused|operation timed out|network is unreachable"
)


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with this checkout's files, ready to be released as v0.1.0."""
    folder = tmp_path_factory.mktemp("tagged")
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    changelog = folder / "docs" / "CHANGELOG.md"
    changelog.write_text(
        re.sub(r"^## Unreleased.*$", f"## {VERSION} (today)", changelog.read_text(), flags=re.MULTILINE)
    )
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "--message", "all")
    git(folder, "tag", f"v{VERSION}")
    return folder


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True)


@pytest.fixture(scope="module")
def released(tagged: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("released")
    # Not in the tag: what a release is made from is the tag alone.
    (tagged / "pyproject.toml").write_text("not what was tagged")
    try:
        said = release(f"v{VERSION}", output, project=tagged)
    except ReleaseError as error:
        if INDEX_SILENT.search(str(error)):
            pytest.skip(f"LEFT OUT, the package index does not answer: {error}")
        raise
    (output / "said").write_text(said[-1])
    return output


@pytest.fixture(scope="module")
def tree(released: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The image's file tree, as it is unpacked by whoever takes it."""
    folder = tmp_path_factory.mktemp("tree")
    folder.chmod(0o755)
    with tarfile.open(released / f"dra-scheduler-{VERSION}-image-root.tar") as packed:
        packed.extractall(folder, filter="tar")
    yield folder
    shutil.rmtree(folder)


def started(tree: Path, *arguments: str, **more: object) -> list[str]:
    try:
        return command(tree, arguments, **more)
    except CannotRunError as error:
        pytest.skip(f"LEFT OUT, this machine does not let the image's tree be run: {error}")


def ran(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(started(tree, *arguments), capture_output=True, text=True, check=False)


def test_all_of_it_is_there_and_is_what_the_sums_say(released: Path) -> None:
    sums = dict(reversed(line.split("  ")) for line in (released / "SHA256SUMS").read_text().splitlines())

    assert sums.keys() == {
        f"dra_scheduler-{VERSION}-py3-none-any.whl",
        f"dra_scheduler-{VERSION}.tar.gz",
        f"dra-scheduler-{VERSION}.tgz",
        f"dra-scheduler-{VERSION}-chart.oci.tar",
        f"dra-scheduler-{VERSION}-image-root.tar",
        "notes.md",
        "sbom.cdx.json",
    }
    for name, digest in sums.items():
        assert hashlib.sha256((released / name).read_bytes()).hexdigest() == digest
    notes = (released / "notes.md").read_text()
    assert notes.startswith("The first release. Alpha")
    assert "\n## " not in notes


def test_the_chart_that_is_packed_has_the_rights_of_the_manifests(released: Path) -> None:
    with tarfile.open(released / f"dra-scheduler-{VERSION}.tgz") as packed:
        shipped = packed.extractfile("dra-scheduler/files/rbac.yaml")
        assert shipped is not None
        assert shipped.read() == (MANIFESTS / "base" / "rbac.yaml").read_bytes()


def test_the_chart_goes_to_a_registry_as_a_layout_or_by_helm(released: Path, tmp_path: Path) -> None:
    """A real registry; helm takes the same chart from it, however it came there."""
    packed, layout = released / f"dra-scheduler-{VERSION}.tgz", tmp_path / "layout"
    with tarfile.open(released / f"dra-scheduler-{VERSION}-chart.oci.tar") as archive:
        archive.extractall(layout, filter="data")
    with registry() as address:
        _said(built_or_skip("crane"), "push", layout, f"{address}/copied/dra-scheduler:{VERSION}")
        _said(built_or_skip("helm"), "push", "--plain-http", packed, f"oci://{address}/pushed")
        for folder in ("copied", "pushed"):
            (tmp_path / folder).mkdir()
            chart = f"oci://{address}/{folder}/dra-scheduler"
            where = ("--version", VERSION, "--plain-http", "--destination", tmp_path / folder)
            _said(built_or_skip("helm"), "pull", chart, *where)
            assert (tmp_path / folder / packed.name).read_bytes() == packed.read_bytes()


@contextmanager
def registry() -> Iterator[str]:
    """An empty registry of images on this machine; its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = [built_or_skip("crane"), "registry", "serve", "--address", f"127.0.0.1:{port}"]
    with subprocess.Popen(started, stderr=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stderr is not None
            assert f"serving on port {port}" in serving.stderr.readline()
            yield f"127.0.0.1:{port}"
        finally:
            serving.kill()


def _said(*started: str | Path) -> None:
    done = subprocess.run(list(map(str, started)), capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


def test_the_image_has_nothing_else_in_it(released: Path, tree: Path) -> None:
    files = [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
    assert {path.name for path in (tree / "usr/local/bin").iterdir() if not path.is_symlink()} == {
        "dra-scheduler",
        "kubectl-dra",
        next((tree / "usr/local/bin").glob("python3.*")).name,
    }
    assert [path for path in files if path.name in ("sh", "bash", "busybox", "apt", "pip", "uv")] == []
    with tarfile.open(released / f"dra-scheduler-{VERSION}-image-root.tar") as packed:  # unpacking takes modes away
        open_ones = {one.name for one in packed if one.mode & MORE_THAN_READ and not one.issym()}
    assert open_ones == {"tmp"}
    # All that is imported is compiled: a read-only root could not keep it.
    sources = {path for path in (tree / "usr/local/lib").rglob("*.py") if path.parent.name == "kube"}
    compiled = {path.name.partition(".")[0] for path in (tree / "usr/local/lib").rglob("kube/__pycache__/*.pyc")}
    assert {path.stem for path in sources} == compiled


def test_the_bill_of_materials_is_what_is_locked_and_what_is_in_the_image(released: Path, tree: Path) -> None:
    bill = json.loads((released / "sbom.cdx.json").read_text())
    listed = {one["name"]: one["version"] for one in bill["components"] if one.get("purl", "").startswith("pkg:pypi/")}
    infos = [
        path.name.removesuffix(".dist-info").rsplit("-", 1) for path in (tree / "usr/local/lib").rglob("*.dist-info")
    ]
    here = {name.replace("_", "-").replace(".", "-").lower(): version for name, version in infos}

    assert bill["metadata"]["component"]["version"] == here.pop("dra-scheduler") == VERSION
    assert listed == here == dict(LOCKED.findall((MANIFESTS / "image" / "requirements.txt").read_text()))
    libraries = {one["name"]: one["hashes"][0]["content"] for one in bill["components"] if "hashes" in one}
    assert libraries == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tree / "usr/lib").glob("*.so*")
    }
    assert {one["name"] for one in bill["components"]} == listed.keys() | libraries.keys() | {"cpython"}
    (ours,) = [one["dependsOn"] for one in bill["dependencies"] if one["ref"] == f"pkg:pypi/dra-scheduler@{VERSION}"]
    assert {one.split("@")[0].removeprefix("pkg:pypi/") for one in ours} >= {"aiohttp", "kopf", "cpython"}


PROBE = """
import json, os
error = ""
try:
    open("/x", "w")
except OSError as failed:
    error = str(failed).partition(":")[0]
gains = open("/proc/self/status").read().partition("NoNewPrivs:")[2].split()[0]
user = [os.getuid(), os.getgid(), os.getgroups()]
environment = sorted(set(os.environ) - {"LC_CTYPE"})
print(json.dumps({"user": user, "environment": environment, "written": error, "gains": gains}))
"""


def test_the_image_runs_as_nobody_on_a_read_only_root(released: Path, tree: Path) -> None:
    assert ran(tree, "--version").stdout == f"dra-scheduler {VERSION}\n"
    probe = started(tree, "-c", PROBE, entrypoint="/usr/local/bin/python3")
    done = subprocess.run(probe, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "user": [65532, 65532, []],
        "environment": ["LANG", "PATH", "SSL_CERT_FILE"],
        "written": "[Errno 30] Read-only file system",
        "gains": "1",  # none: no new privileges
    }
    assert "NOT run" not in (released / "said").read_text()


def test_without_roots_rights_the_image_runs_in_a_user_namespace(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    probe = started(tree, "-c", PROBE, entrypoint="/usr/local/bin/python3")
    assert "--map-root-user" in probe
    done = subprocess.run(probe, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["user"][0], said["written"], said["gains"]) == (0, "[Errno 30] Read-only file system", "1")


async def test_the_image_schedules_with_the_shipped_configuration(tree: Path, tmp_path: Path) -> None:
    """`run` as the Deployment runs it, without /tmp; against a cluster in this process."""
    config = named(objects(overlay_text("high-availability")), "ConfigMap", "dra-scheduler")["data"]["config.yaml"]
    mounted = tmp_path / "etc"
    mounted.mkdir(mode=0o755)
    (mounted / "config.yaml").write_text(config)
    async with EmbeddedCluster() as cluster:
        shutil.copy(cluster.kubeconfig_path, mounted / "kubeconfig")
        (mounted / "kubeconfig").chmod(0o644)
        arguments = [
            "run",
            "--config",
            "/etc/dra-scheduler/config.yaml",
            "--kubeconfig",
            "/etc/dra-scheduler/kubeconfig",
        ]
        process = await asyncio.create_subprocess_exec(
            *started(tree, *arguments, "--health-port", "0", volumes=[(mounted, "/etc/dra-scheduler")]),
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        log = ""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while "caches filled" not in log:
                    line = await process.stderr.readline()
                    assert line, log
                    log += line.decode()
            process.terminate()
            log += (await process.stderr.read()).decode()
            await process.wait()  # before the next line: `kill` may take an exit code away that is not read yet
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, log
    assert "ERROR" not in log


def test_the_wheel_needs_no_more_than_the_dockerfile_copies(released: Path, tmp_path: Path) -> None:
    copied = [line.split()[1:-1] for line in DOCKERFILE.read_text().splitlines() if re.match(r"COPY (?!--from)", line)]
    for name in (one for names in copied for one in names):
        target = tmp_path / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, target)
    build = "from pathlib import Path; from manifests.image.root import build_wheel; print(build_wheel(Path('wheel')))"
    done = subprocess.run(
        [sys.executable, "-c", build],
        cwd=tmp_path / "source",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    def names(path: Path) -> set[str]:
        return {name for name in zipfile.ZipFile(path).namelist() if "__pycache__" not in name}

    (theirs,) = released.glob("*.whl")
    # The image is built without the history of git, which names the commit.
    assert names(tmp_path / "source" / done.stdout.strip()) == names(theirs) - {"scheduler/commit"}


def test_the_image_and_the_deployment_agree() -> None:
    settings = read_settings(DOCKERFILE.read_text())
    pod = named(objects(overlay_text("single")), "Deployment")["spec"]["template"]["spec"]
    security = pod["securityContext"]

    assert settings.user == f"{security['runAsUser']}:{security['runAsGroup']}"
    assert settings.entrypoint == ("/usr/local/bin/dra-scheduler",)
    assert pod["containers"][0]["args"][0] == settings.command[0] == "run"
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]


def test_what_keeps_a_tag_from_being_released(tagged: Path, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"^there is no tag v98\.0\.0"):
        release("v98.0.0", tmp_path / "output", project=tagged)
    git(tagged, "tag", "--force", "v99.0.0")
    with pytest.raises(ReleaseError) as refused:
        release("v99.0.0", tmp_path / "output", project=tagged)

    wrong = f"is {VERSION}, the tag's is 99.0.0"
    changelog = str(refused.value).splitlines().pop()
    assert str(refused.value).splitlines() == [
        f"pyproject.toml: project.version {wrong}",
        f"manifests/chart/Chart.yaml: version {wrong}",
        f"manifests/chart/Chart.yaml: appVersion {wrong}",
        f"manifests/base/deployment.yaml: image {wrong}",
        changelog,
    ]
    assert changelog.startswith(f'docs/CHANGELOG.md has no section "## 99.0.0" with text; it has: {VERSION} (today)')
    assert not (tmp_path / "output").exists()


@pytest.mark.parametrize(
    "changelog", ["", "# Changelog\n\n## 1.2.0\n\n## 0.0.9\n\n- old\n", "## Unreleased (1.2.0)\n- x\n"]
)
def test_notes_are_of_that_version_or_there_are_none(changelog: str) -> None:
    with pytest.raises(ReleaseError, match="no section"):
        notes_of(changelog, "1.2.0")
    assert notes_of(f"{changelog}\n## 1.2.0 (2026-01-01)\n\n- new\n", "1.2.0") == "- new\n"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(RootError, match="is not empty"):
        build_root(tmp_path)
    with pytest.raises(ReleaseError, match="is not empty"):
        release(f"v{VERSION}", tmp_path)
