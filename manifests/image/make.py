"""Makes the image, or where no container tool works its file tree; runs what it made, and lists what is in it.

    poe image [--output dist] [--wheel FILE]

With docker or podman: the image `dra-scheduler:VERSION`, run once with a read-only root. Without: the same tree by the
same script with this machine's interpreter, run under the image's settings (`run.py` says what that lacks). Either way
the tree is left in OUTPUT/image-root, and its bill in OUTPUT/sbom.cdx.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

from manifests.image.root import PROJECT, RootError, build_root
from manifests.image.run import DOCKERFILE, CannotRunError, command
from manifests.image.sbom import bill_of

TOOLS: Final = ("docker", "podman")
_VERSION_TRIED: Final = ("--version",)
_DEMO_TRIED: Final = ("demo", "--nodes", "1", "-o", "json")


class MakeError(Exception):
    """Something that was made does not work; the text has its words."""


def container_tool() -> str | None:
    """The first that is here and can reach what builds."""
    for name in filter(shutil.which, TOOLS):
        if subprocess.run([name, "info"], capture_output=True, check=False).returncode == 0:
            return name
    return None


def make(output: Path, wheel: Path | None = None) -> str:
    """Make all of it in `output`; what was made, in words.

    Raises:
        MakeError, RootError: it cannot be built, or does not run.
    """
    version: str = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    tree = output / "image-root"
    shutil.rmtree(tree, ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    tool = container_tool()
    made = _by_tool(tool, f"dra-scheduler:{version}", tree) if tool else _by_hand(version, tree, wheel)
    (output / "sbom.cdx.json").write_text(bill_of(tree), encoding="utf-8")
    return made


def _by_tool(tool: str, tag: str, tree: Path) -> str:
    _said([tool, "build", "--file", str(DOCKERFILE), "--tag", tag, str(PROJECT)])
    _said([tool, "run", "--rm", "--read-only", tag, *_VERSION_TRIED])
    container = _said([tool, "create", tag]).strip()
    try:
        _said([tool, "cp", f"{container}:/", str(tree)])
    finally:
        _said([tool, "rm", container])
    return f"{tool} built the image {tag}, and ran it with a read-only root"


def _by_hand(version: str, tree: Path, wheel: Path | None) -> str:
    build_root(tree, wheel)
    made = f"no container tool works here: its file tree is {tree}, with this machine's Python {sys.version.split()[0]}"
    try:
        said = _said(command(tree, _VERSION_TRIED))
        if said != f"dra-scheduler {version}\n":
            raise MakeError(f"the tree's program says {said!r} instead of version {version}")
        bound = _said(command(tree, _DEMO_TRIED, tmp=True))
    except CannotRunError as error:
        return f"{made}; it was NOT run, since this machine does not allow it: {error}"
    check_demo(bound)
    return f"{made}; it ran as a read-only root under the image's settings"


def check_demo(said: str) -> None:
    """The demo's JSON has pods with devices.

    Raises:
        MakeError: it has none.
    """
    pods = json.loads(said)["pods"]
    if not any(pod["node"] and pod["devices"] for pod in pods):
        raise MakeError(f"the demo gave no pod a device: {said}")


def _said(started: list[str]) -> str:
    done = subprocess.run(started, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise MakeError(f"{started[0]} ended with {done.returncode}: {' '.join(started[1:])}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the image, or its file tree.")
    parser.add_argument("--output", type=Path, default=PROJECT / "dist")
    parser.add_argument("--wheel", type=Path, help="the program's wheel, for a tree; default: built from this checkout")
    given = parser.parse_args()
    try:
        print(make(given.output.resolve(), given.wheel and given.wheel.resolve()))
    except (MakeError, RootError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
