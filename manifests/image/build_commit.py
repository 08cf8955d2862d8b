"""A hook of the build: the wheel says from which commit it was built, as `dra-scheduler version` prints it.

pip records a commit only where it installs from a URL of git. Without git, or from a source archive, the wheel says
none.
"""

from __future__ import annotations

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
        if version == "editable" or not (Path(self.root) / ".git").exists():
            return
        with suppress(OSError, subprocess.CalledProcessError):
            asked = subprocess.run(
                ["git", "-C", self.root, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
            )
            self._made = tempfile.NamedTemporaryFile("w", suffix=".commit")  # noqa: SIM115 - until the wheel is written
            self._made.write(asked.stdout)
            self._made.flush()
            build_data["force_include"][self._made.name] = "scheduler/commit"
