"""`dra-scheduler version`: which program this is, and which Kubernetes it is for."""

from __future__ import annotations

import json
import platform
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import click

from scheduler.cli.options import output_option
from scheduler.cli.tables import print_document
from scheduler.cli.terminal import echo
from scheduler.validation.api_fields import KNOWN, NEWEST, OLDEST

KUBERNETES: Final = tuple(f"1.{minor}" for minor in range(OLDEST, NEWEST + 1))
"""Releases whose API servers it schedules for."""
_COMMIT_LENGTH: Final = 40


@click.command()
@output_option("text", "json", "yaml")
def version(output: str) -> None:
    """Print the version, the commit it was built from where that is known, and the supported Kubernetes.

    \b
    dra-scheduler version
    dra-scheduler version -o json
    """
    found = distribution("dra-scheduler")
    answer = {
        "version": found.version,
        "commit": _commit(found),
        "kubernetes": list(KUBERNETES),
        "python": platform.python_version(),
    }
    if output != "text":
        print_document(answer, output)
        return
    echo(f"dra-scheduler {answer['version']}")
    echo(f"commit: {answer['commit'] or 'unknown'}")
    echo(f"Kubernetes: {KNOWN}")
    echo(f"Python: {answer['python']}")


def _commit(found: Distribution) -> str | None:
    """As the wheel says, or pip recorded (PEP 610) installing from git, or of the working copy that this runs from."""
    package = Path(__file__).resolve().parents[1]
    with suppress(OSError):
        return (package / "commit").read_text(encoding="ascii").strip()
    try:
        recorded = json.loads(found.read_text("direct_url.json") or "{}").get("vcs_info", {}).get("commit_id")
    except (ValueError, AttributeError, PackageNotFoundError):
        recorded = None
    return str(recorded) if recorded else _of_working_copy(package.parent)


def _of_working_copy(root: Path) -> str | None:
    """What HEAD of a git working copy names; without git, which need not be installed."""
    try:
        folder = root / ".git"
        if folder.is_file():
            folder = root / folder.read_text().removeprefix("gitdir:").strip()
        common = folder
        if (folder / "commondir").is_file():
            common = folder / (folder / "commondir").read_text().strip()
        head = (folder / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head if len(head) == _COMMIT_LENGTH else None
        name = head.removeprefix("ref:").strip()
        if (common / name).is_file():
            return (common / name).read_text().strip()
        packed = (common / "packed-refs").read_text().splitlines()
        return next((line.split()[0] for line in packed if line.endswith(f" {name}")), None)
    except (OSError, UnicodeDecodeError):
        return None
