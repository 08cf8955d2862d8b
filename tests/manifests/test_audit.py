"""`.ci/audit`: a known vulnerability fails CI, and what could not be looked up is said, never taken for none."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.manifests.rendering import ROOT

FINE = {"name": "a", "version": "1", "vulns": []}
SKIPPED = {"name": "b", "skip_reason": "not found"}
BAD = {"name": "c", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}


def audit(folder: Path, *, report: object = None, says: str = "", status: int = 0, accepted: str = "") -> tuple:
    """Exit code, what it prints, what CI's last lines get, and the arguments that pip-audit was given."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "audit", folder / ".ci" / "audit")
    (folder / ".ci" / "audit-accepted").write_text(accepted)
    tools = folder / ".venv" / "bin"
    tools.mkdir(parents=True)
    (tools / "python").symlink_to(sys.executable)
    written = f"cat > .cache/audit <<'E'\n{json.dumps({'dependencies': report})}\nE\n" if report is not None else ""
    (tools / "pip-audit").write_text(f'#!/bin/bash\necho "$@" > arguments\necho "{says}" >&2\n{written}exit {status}\n')
    (tools / "pip-audit").chmod(0o755)
    done = subprocess.run([str(folder / ".ci" / "audit")], capture_output=True, text=True, check=False)
    left_out, arguments = folder / ".cache" / "left-out", folder / "arguments"
    return (
        done.returncode,
        done.stdout + done.stderr,
        left_out.read_text() if left_out.exists() else "",
        arguments.read_text() if arguments.exists() else "",
    )


def test_none_found(tmp_path: Path) -> None:
    code, text, left_out, _ = audit(tmp_path, report=[FINE])
    assert (code, left_out) == (0, "")
    assert "no known vulnerabilities" in text


def test_a_known_vulnerability_fails_and_is_named(tmp_path: Path) -> None:
    code, text, _, _ = audit(tmp_path, report=[FINE, BAD, SKIPPED], says="Found 1", status=1)
    assert code == 1
    assert "PYSEC-1" in text


def test_what_was_skipped_is_left_out_and_not_fine(tmp_path: Path) -> None:
    code, text, left_out, _ = audit(tmp_path, report=[FINE, SKIPPED], says="No known vulnerabilities found")
    assert code == 0
    assert "no known" not in text
    assert left_out.startswith("LEFT OUT, dependencies were not compared with known vulnerabilities: ")
    assert left_out.endswith("does not know 1 of them here\n")


@pytest.mark.parametrize("says", ["ConnectionError: Max retries exceeded", "Failed to resolve 'db'", "Read timed out"])
def test_without_a_network_it_is_said_and_fails_nothing(tmp_path: Path, says: str) -> None:
    code, _, left_out, _ = audit(tmp_path, says=says, status=1)
    assert code == 0
    assert left_out.startswith("LEFT OUT")
    assert left_out.endswith("the database does not answer\n")


def test_another_failure_fails(tmp_path: Path) -> None:
    code, text, left_out, _ = audit(tmp_path, says="hash missing for a==1", status=1)
    assert (code, left_out) == (1, "")
    assert "hash missing" in text


def test_what_is_accepted_needs_a_reason(tmp_path: Path) -> None:
    given = "# a comment\n\nPYSEC-1 we never call it\n"
    code, _, _, arguments = audit(tmp_path, report=[FINE], accepted=given)
    assert code == 0
    assert arguments.endswith("--ignore-vuln PYSEC-1\n")


def test_what_is_accepted_without_a_reason_fails(tmp_path: Path) -> None:
    code, text, _, _ = audit(tmp_path, report=[FINE], accepted="X\n")
    assert code == 1
    assert "X: say why" in text


def test_the_real_ones_have_reasons() -> None:
    lines = (ROOT / ".ci" / "audit-accepted").read_text().splitlines()
    assert all(line.startswith("#") or len(line.split()) > 1 for line in lines if line)
