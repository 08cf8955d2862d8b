"""A hook of the build: the wheel says from which commit it was built, as `dra-scheduler version` prints it.

pip records a commit only where it installs from a URL of git. In a clone git says it; in what `git archive` packs, and
in an sdist of that, the file `commit` beside this one has it. Elsewhere the wheel says none.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface[Any]):
    """Puts `scheduler/commit` into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version` is "editable" where the working copy itself is installed: then that is asked."""
        if version == "editable":
            return
        commit = _commit(Path(self.root))
        if re.fullmatch("[0-9a-f]{40,64}", commit):
            self._made = tempfile.NamedTemporaryFile("w", suffix=".commit")  # noqa: SIM115 - until the wheel is written
            self._made.write(f"{commit}\n")
            self._made.flush()
            build_data["force_include"][self._made.name] = "scheduler/commit"


def _commit(root: Path) -> str:
    if (root / ".git").exists():
        with suppress(OSError, subprocess.CalledProcessError):
            asked = ["git", "-C", str(root), "rev-parse", "HEAD"]
            return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    with suppress(OSError):
        return (root / "manifests/image/commit").read_text(encoding="ascii").strip()
    return ""
