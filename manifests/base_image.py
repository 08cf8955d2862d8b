"""Pins the image's base: writes into manifests/Dockerfile the digest that its tag has now.

    poe base

A tag moves: the same commit then builds another image, and nobody notices. A digest of the index is the same for all
architectures. Asked is the registry, with docker (buildx) or skopeo, so neither a daemon nor a download is needed. To
renew it, run this again, look at the difference, and build. Where no tool is here, or the registry does not answer,
nothing is written. Without it `docker build --build-arg BASE=python:3.14-slim@sha256:…` pins one build.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

DOCKERFILE: Final = Path(__file__).resolve().parent / "Dockerfile"
BASE: Final = re.compile(r"^ARG BASE=(?P<tag>[^@\s]+)(?:@(?P<digest>sha256:[0-9a-f]{64}))?$", re.MULTILINE)
ASKED: Final = {
    "docker": ("buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}", ""),
    "skopeo": ("inspect", "--format", "{{.Digest}}", "docker://docker.io/library/"),
}
"""Arguments; the tag goes to the end of the last one."""

_WAIT_S: Final = 60


class PinError(Exception):
    """Nothing was written; the text says why."""


def base_of(text: str) -> tuple[str, str]:
    """Tag and digest of a Dockerfile's base; the digest is empty where it is not pinned."""
    found = BASE.search(text)
    if found is None:
        raise PinError("it has no line ARG BASE=IMAGE:TAG")
    return found["tag"], found["digest"] or ""


def pinned(text: str, digest: str) -> str:
    """The Dockerfile `text` with its base at that digest."""
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise PinError(f"{digest!r} is no digest")
    return BASE.sub(rf"ARG BASE=\g<tag>@{digest}", text)


def digest_of(tag: str) -> str:
    """What the registry says that this tag is now."""
    said = []
    for tool, (*arguments, before_tag) in ASKED.items():
        if shutil.which(tool) is None:
            continue
        command = [tool, *arguments, before_tag + tag]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_WAIT_S)
        except subprocess.TimeoutExpired:
            said.append(f"{tool}: no answer within {_WAIT_S} s")
            continue
        if done.returncode == 0:
            return done.stdout.strip()
        said.append(f"{tool}: {done.stderr.strip().partition(chr(10))[0]}")
    raise PinError("\n".join(said) or f"none of {', '.join(ASKED)} is here")


def main(dockerfile: Path = DOCKERFILE) -> int:
    """Exit code 1: nothing was written."""
    text = dockerfile.read_text(encoding="utf-8")
    try:
        changed = pinned(text, digest_of(base_of(text)[0]))
    except PinError as error:
        print(f"{dockerfile.name} is as it was: {error}", file=sys.stderr)
        return 1
    dockerfile.write_text(changed, encoding="utf-8")
    print("{}@{}".format(*base_of(changed)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
