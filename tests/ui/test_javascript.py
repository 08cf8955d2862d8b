"""What the page's scripts work out without a browser: `*.test.mjs`, run by node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.patience import PATIENCE_S

HERE: Final = Path(__file__).parent
NODE: Final = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="LEFT OUT, the page's scripts by themselves: there is no node")
@pytest.mark.parametrize("tested", sorted(HERE.glob("*.test.mjs")), ids=lambda path: path.name)
def test_what_scripts_work_out(tested: Path) -> None:
    command = [str(NODE), "--import", str(HERE / "tools/imports.mjs"), str(tested)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
