"""`poe base`: the digest that a registry tells is written into the Dockerfile, and nothing else ever is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from manifests.base_image import BASE, DOCKERFILE, base_of, main

DIGEST, LATER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of programs, besides bash."""
    folder = tmp_path / "bin"
    folder.mkdir()
    bash = shutil.which("bash")
    assert bash is not None
    (folder / "bash").symlink_to(bash)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!{folder}/bash\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def dockerfile(tmp_path: Path) -> Path:
    """As it is shipped, but not pinned."""
    path = tmp_path / "Dockerfile"
    path.write_text(BASE.sub(r"ARG BASE=\g<tag>", DOCKERFILE.read_text()))
    return path


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("docker", "buildx imagetools inspect --format {{.Manifest.Digest}} python:3.14-slim"),
        ("skopeo", "inspect --format {{.Digest}} docker://docker.io/library/python:3.14-slim"),
    ],
)
def test_it_is_pinned_and_renewed(name: str, asked: str, tools: Path, dockerfile: Path) -> None:
    before = dockerfile.read_text()
    for digest in (DIGEST, LATER):
        tool(tools, name, f'[ "$*" = "{asked}" ] && echo {digest}')
        assert main(dockerfile) == 0
        assert dockerfile.read_text() == before.replace("BASE=python:3.14-slim", f"BASE=python:3.14-slim@{digest}")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        pytest.param("echo no such host >&2; exit 1", "docker: no such host", id="no-answer"),
        pytest.param("echo '<html>'", "'<html>' is no digest", id="no-digest"),
        pytest.param("", "'' is no digest", id="nothing"),
        pytest.param(None, "none of docker, skopeo is here", id="no-tool"),
    ],
)
def test_without_an_answer_nothing_is_written(
    script: str | None, why: str, tools: Path, dockerfile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dockerfile.read_text()
    if script is not None:
        tool(tools, "docker", script)

    assert main(dockerfile) == 1
    assert dockerfile.read_text() == before
    assert capsys.readouterr().err == f"Dockerfile is as it was: {why}\n"


def test_the_image_is_built_from_that_base() -> None:
    text = DOCKERFILE.read_text()
    first, last = [line for line in text.splitlines() if line.startswith("FROM ")]
    assert (first, last) == ("FROM ${BASE} AS build", "FROM scratch")
    tag, digest = base_of(text)
    assert tag == "python:3.14-slim"
    if not digest:
        pytest.skip(
            "LEFT OUT, the image's base is not pinned by its digest: `poe base` where a registry of images answers"
        )
