"""Runs the image's file tree without a container tool, under the image's settings.

    python manifests/image/run.py FOLDER [--tmp] [--volume HERE:THERE] [-- --version]

What the last stage of manifests/Dockerfile says (ENV, USER, ENTRYPOINT, CMD) is what counts here. The tree is the root
and read-only, with /proc and /dev, in mount names of its own; the environment is the image's alone; no privilege can be
gained. Different from a container: network, processes and limits are this machine's.

As root the program is the image's user. Without, a user namespace is made, in which it is the caller, under the number
0. Where the machine allows neither, `command` says so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DOCKERFILE: Final = Path(__file__).resolve().parents[1] / "Dockerfile"

# $1 is the tree; mounts end with the process, since only it has these mount names.
_SCRIPT: Final = """
mount --bind "$1" "$1"
mount --rbind /proc "$1/proc"
mount --rbind /dev "$1/dev"
{more}
mount -o remount,bind,ro "$1"
cd "$1"
exec {drop}
"""


class CannotRunError(Exception):
    """This machine does not allow another root; the text has its words."""


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """What a container tool would do with the image."""

    environment: tuple[str, ...]
    user: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]


def read_settings(text: str) -> ImageSettings:
    """Those of a Dockerfile's last stage, in the forms that ours has."""
    last = text[text.rindex("\nFROM ") :]

    def of(instruction: str) -> str:
        (found,) = re.findall(rf"^{instruction} (.+)$", last, re.MULTILINE)
        return str(found)

    return ImageSettings(
        environment=tuple(shlex.split(of("ENV"))),
        user=of("USER"),
        entrypoint=tuple(json.loads(of("ENTRYPOINT"))),
        command=tuple(json.loads(of("CMD"))),
    )


def command(
    root: Path,
    arguments: Sequence[str],
    *,
    entrypoint: str | None = None,
    tmp: bool = False,
    volumes: Sequence[tuple[Path, str]] = (),
) -> list[str]:
    """The command that runs the image's program in `root` with `arguments` (none: the image's own).

    entrypoint: another program of the tree. tmp: with an empty, writable /tmp. volumes: folders of here and where they
    are mounted, read-only; the image's user must be able to read them.

    Raises:
        CannotRunError: neither root's mounts nor a user namespace's are allowed here.
    """
    settings = read_settings(DOCKERFILE.read_text(encoding="utf-8"))
    become = ["unshare", "--mount", "--propagation", "private"]
    user = [f"--userspec={settings.user}", "--groups="]
    if os.geteuid() != 0:
        become += ["--user", "--map-root-user"]
        user = []
    tried = subprocess.run(
        [*become, "mount", "--bind", str(root), str(root)], capture_output=True, text=True, check=False
    )
    if tried.returncode != 0:
        raise CannotRunError(f"{shlex.join(become)}: {tried.stderr.strip()}")
    more = [f"mount -t tmpfs -o mode=1777 none {shlex.quote(f'{root}/tmp')}"] if tmp else []  # noqa: S108
    for here, there in volumes:
        target = shlex.quote(f"{root}{there}")
        more += [f"mount --bind {shlex.quote(str(here))} {target}", f"mount -o remount,bind,ro {target}"]
    drop = [_path("setpriv"), "--no-new-privs", _path("chroot"), *user, str(root)]
    started = [*([entrypoint] if entrypoint else settings.entrypoint), *(arguments or settings.command)]
    script = _SCRIPT.format(more="\n".join(more), drop=shlex.join([_path("env"), "-i", *settings.environment, *drop]))
    return [*become, "sh", "-ec", f"{script.rstrip()} {shlex.join(started)}", "sh", str(root)]


def _path(name: str) -> str:
    """Absolute: the image's PATH does not lead there."""
    found = shutil.which(name)
    if found is None:
        raise CannotRunError(f"{name} is not on PATH")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the image's file tree.")
    parser.add_argument("root", type=Path)
    parser.add_argument("--tmp", action="store_true", help="an empty, writable /tmp (demo needs it, run does not)")
    parser.add_argument("--volume", action="append", default=[], metavar="HERE:THERE", help="mount a folder, read-only")
    # What follows `--` is the program's; none: the image's own.
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given = parser.parse_args(sys.argv[1:split])
    volumes = [(Path(here).resolve(), there) for here, _, there in (one.partition(":") for one in given.volume)]
    try:
        started = command(given.root.resolve(), sys.argv[split + 1 :], tmp=given.tmp, volumes=volumes)
    except CannotRunError as error:
        sys.exit(f"error: this machine does not let the tree be run: {error}")
    os.execvp(started[0], started)  # noqa: S606


if __name__ == "__main__":
    main()
