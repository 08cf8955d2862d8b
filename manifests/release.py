"""Makes a release from a tag, and checks it in a clean environment.

    poe release v0.1.0 [--output dist]

From the tag's own files, not the checkout's: sdist, wheel (built from the sdist), chart (packed, and as an OCI layout),
image or its file tree, bill of materials, notes from docs/CHANGELOG.md, and SHA256SUMS. Nothing is uploaded. Checked:
the tag's version is everywhere the same; the wheel, in a new environment with the locked packages, says it and the
tag's commit, schedules the demo's pods and serves its page; the image's tree schedules them too; helm takes the packed
chart. It ends with 1 at the first thing that is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from manifests.chart_layout import write_layout
from manifests.image.make import MakeError, check_demo

PROJECT: Final = Path(__file__).resolve().parents[1]


class ReleaseError(Exception):
    """What keeps the tag from being released."""


def release(tag: str, output: Path, *, project: Path = PROJECT) -> list[str]:
    """Make and check the release of `tag` in `output`, an empty folder or none yet; what was made, in words.

    Raises:
        ReleaseError: with all that was found wrong, before anything is built, or with the first command that failed.
    """
    if output.exists() and any(output.iterdir()):
        raise ReleaseError(f"{output} is not empty")
    with tempfile.TemporaryDirectory() as folder:
        source, clean = Path(folder) / "source", Path(folder) / "clean"
        commit = _unpack(project, tag, source)
        version = tag.removeprefix("v")
        if wrong := version_errors(source, version):
            raise ReleaseError("\n".join(wrong))
        output.mkdir(parents=True, exist_ok=True)
        notes = notes_of((source / "docs/CHANGELOG.md").read_text(encoding="utf-8"), version)
        (output / "notes.md").write_text(notes, encoding="utf-8")
        wheel = _build_packages(source, output)
        _check_wheel(source, wheel, clean, version)
        _check_commit(commit, clean)
        _check_page(source, clean)
        _pack_chart(source, output, version)
        image = _run([sys.executable, "-m", "manifests.image.make", "--output", output, "--wheel", wheel], source)
    _pack_tree(output, version)
    sums = [f"{_digest(path)}  {path.name}" for path in sorted(output.iterdir())]
    (output / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    return [*(line.split()[1] for line in sums), image.strip()]


def version_errors(source: Path, version: str) -> list[str]:
    """Where these files say another version than the tag."""
    chart = yaml.safe_load((source / "manifests/chart/Chart.yaml").read_text(encoding="utf-8"))
    deployment = yaml.safe_load((source / "manifests/base/deployment.yaml").read_text(encoding="utf-8"))
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    said = {
        "pyproject.toml: project.version": tomllib.loads((source / "pyproject.toml").read_text())["project"]["version"],
        "manifests/chart/Chart.yaml: version": chart["version"],
        "manifests/chart/Chart.yaml: appVersion": chart["appVersion"],
        "manifests/base/deployment.yaml: image": image.partition(":")[2],
    }
    wrong = [f"{where} is {found}, the tag's is {version}" for where, found in said.items() if found != version]
    try:
        notes_of((source / "docs/CHANGELOG.md").read_text(encoding="utf-8"), version)
    except ReleaseError as error:
        wrong.append(str(error))
    return wrong


def notes_of(changelog: str, version: str) -> str:
    """The section of that version, `## VERSION` or `## VERSION (date)`, without its heading.

    Raises:
        ReleaseError: there is none, or it is empty.
    """
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for section in sections:
        heading, _, text = section.partition("\n")
        if heading.split()[0] == version and text.strip():
            return text.strip() + "\n"
    headings = ", ".join(section.partition("\n")[0] for section in sections)
    raise ReleaseError(f'docs/CHANGELOG.md has no section "## {version}" with text; it has: {headings}')


def _unpack(project: Path, tag: str, source: Path) -> str:
    """The files as they are at the tag; its commit."""
    named = ["git", "-C", str(project), "rev-parse", "--verify", "--quiet", f"refs/tags/{tag}^{{commit}}"]
    found = subprocess.run(named, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise ReleaseError(f"there is no tag {tag} (git tag {tag}, then again)")
    packed = source.with_suffix(".tar")
    _run(["git", "archive", "--output", packed, f"refs/tags/{tag}"], project)
    with tarfile.open(packed) as archive:
        archive.extractall(source, filter="data")
    return found.stdout.strip()


def _build_packages(source: Path, output: Path) -> Path:
    """The sdist, and from it the wheel."""
    constraints = ["--build-constraints", "manifests/image/tools.txt", "--require-hashes"]
    _run([*_uv("build"), "--python", sys.executable, *constraints, "--out-dir", output, "."], source)
    (output / ".gitignore").unlink(missing_ok=True)
    (wheel,) = output.glob("*.whl")
    return wheel


def _check_wheel(source: Path, wheel: Path, clean: Path, version: str) -> None:
    _run([*_uv("venv"), "--python", sys.executable, clean], source)
    install: list[str | Path] = [*_uv("pip"), "install", "--python", clean / "bin/python", "--no-deps"]
    _run([*install, "--require-hashes", "--only-binary=:all:", "-r", "manifests/image/requirements.txt"], source)
    _run([*install, "--offline", wheel], source)
    program = clean / "bin/dra-scheduler"
    said = _run([program, "--version"], clean).strip()
    if said != f"dra-scheduler {version}":
        raise ReleaseError(f"the wheel's program says {said!r}, the tag's version is {version}")
    try:
        check_demo(_run([program, "demo", "--nodes", "1", "-o", "json"], clean))
    except MakeError as error:
        raise ReleaseError(f"the wheel: {error}") from error


def _check_commit(commit: str, clean: Path) -> None:
    said = _run([clean / "bin/dra-scheduler", "version"], clean)
    if f"commit: {commit}\n" not in said:
        raise ReleaseError(f"the wheel's program does not name the tag's commit {commit}: {said}")


def _check_page(source: Path, clean: Path) -> None:
    """The wheel has the page's files, and answers about an example's devices."""
    example = source / "docs/examples/features/cel-selectors-cluster.yaml"
    command = [str(clean / "bin/dra-scheduler"), "ui", "--port", "0", "-f", str(example)]
    with subprocess.Popen(command, cwd=clean, stderr=subprocess.PIPE, text=True) as page:
        try:
            assert page.stderr is not None
            heard = ""
            while not (found := re.search(r"http://\S+/", heard)):
                line = page.stderr.readline()
                if not line:
                    raise ReleaseError(f"the wheel's page was not served: {heard}")
                heard += line
            for path, part in (("", "/js/main.js"), ("js/main.js", "Frame"), ("api/devices", "gpu-3")):
                with urllib.request.urlopen(found[0] + path, timeout=60) as answer:  # noqa: S310 - http, above
                    if part not in answer.read().decode():
                        raise ReleaseError(f"the wheel's page has no {part} in /{path}")
        finally:
            page.terminate()


def _pack_chart(source: Path, output: Path, version: str) -> None:
    helm = _helm()
    _run([helm, "package", source / "manifests/chart", "--destination", output], source)
    packed = output / f"dra-scheduler-{version}.tgz"
    values = ("--set", "image.repository=mirror.example/dra-scheduler")
    _run([helm, "lint", "--strict", packed, *values], source)
    rendered = _run([helm, "template", "dra-scheduler", packed, "--kube-version", "1.34.0", *values], source)
    if f"image: mirror.example/dra-scheduler:{version}\n" not in rendered:
        raise ReleaseError(f"{packed.name} does not render the image of version {version}")
    write_layout(packed, output / f"dra-scheduler-{version}-chart.oci.tar")


def _helm() -> Path:
    """The user's, or the one that the tests build."""
    found = shutil.which("helm")
    if found:
        return Path(found)
    from tests.controlplane.build import build  # noqa: PLC0415

    return build("helm")


def _pack_tree(output: Path, version: str) -> None:
    """One file of the tree, the same for the same tree; the image itself is the container tool's to keep."""
    tree = output / "image-root"

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(output / f"dra-scheduler-{version}-image-root.tar", "w") as archive:
        for path in sorted(tree.rglob("*")):
            archive.add(path, path.relative_to(tree), recursive=False, filter=plain)
    shutil.rmtree(tree)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _uv(command: str) -> list[str]:
    return [sys.executable, "-m", "uv", command, "--quiet"]


def _run(started: Sequence[str | Path], folder: Path) -> str:
    """Its standard output."""
    done = subprocess.run(list(map(str, started)), cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(map(str, started))} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a release from a tag, and check it.")
    parser.add_argument("tag", help="such as v0.1.0")
    parser.add_argument("--output", type=Path, default=PROJECT / "dist", help="an empty folder, or none yet")
    given = parser.parse_args()
    try:
        print("\n".join(release(given.tag, given.output.resolve())))
    except ReleaseError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
