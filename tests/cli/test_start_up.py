"""What commands load, and what not: half of their time and memory. A scheduler's start is mostly imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
INCIDENTS = EXAMPLES / "incidents"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["explain", "pod/render", "-f", INCIDENTS / "copied-selector.yaml"], id="explain"),
        pytest.param(
            ["explain", "pod/train", "-f", INCIDENTS / "free-in-pieces.yaml", "-f", INCIDENTS / "train.yaml"],
            id="files",
        ),
        pytest.param(
            ["make-room", "-f", INCIDENTS / "free-in-pieces.yaml", INCIDENTS / "train.yaml"],
            id="make-room",
        ),
        pytest.param(["devices", "-f", INCIDENTS / "free-in-pieces.yaml"], id="devices"),
        pytest.param(["lint", EXAMPLES / "gpu-class.yaml", EXAMPLES / "training-numa.yaml"], id="lint"),
    ],
)
def test_files_are_asked_about_without_http_and_models(command: list[str]) -> None:
    """And nobody looks for garbage hundreds of times among modules, of which nothing is."""
    code = (
        "import atexit, gc, sys\n"
        "from scheduler.__main__ import main\n"
        "names = ('aiohttp', 'kubernetes_asyncio')\n"
        "atexit.register(lambda: print('loaded:', *(one for one in names if one in sys.modules), file=sys.stderr))\n"
        "looks = lambda: sum(one['collections'] for one in gc.get_stats())\n"
        "before = looks()\n"
        "atexit.register(lambda: looks() - before < 20 or print('looked for garbage', looks(), file=sys.stderr))\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *map(str, command)], capture_output=True, text=True, check=False)

    assert done.returncode in (0, 1), done.stderr
    assert done.stderr.splitlines()[-1].strip() == "loaded:"
    assert "looked for garbage" not in done.stderr


def test_run_loads_nothing_that_it_may_never_need() -> None:
    """Commands, the page, an HTTP server and certificates are loaded by those who ask for them."""
    unused = {
        "aiohttp.web",  # only where a port is asked for
        "cryptography",
        "kopf",
        "kubernetes_asyncio",
        "matplotlib",
        "rich",
        *(f"scheduler.{name}" for name in ("embedded", "explain", "inventory", "lint", "offline", "ui")),
    }
    code = "import sys, scheduler.cli.run, scheduler.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert unused.isdisjoint(done.stdout.split())
