"""What the page has of others: files of the packages that package-lock.json names, unchanged, with their licences."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

import pytest

VENDOR: Final = Path(__file__).parents[2] / "scheduler/ui/static/vendor"
FILES: Final = {
    "preact.mjs": ("preact", "dist/preact.mjs"),
    "preact-hooks.mjs": ("preact", "hooks/dist/hooks.mjs"),
    "signals.mjs": ("@preact/signals", "dist/signals.mjs"),
    "signals-core.mjs": ("@preact/signals-core", "dist/signals-core.mjs"),
    "htm.mjs": ("htm", "dist/htm.mjs"),
    "LICENSE.preact.txt": ("preact", "LICENSE"),
    "LICENSE.signals.txt": ("@preact/signals", "LICENSE"),
    "LICENSE.htm.txt": ("htm", "LICENSE"),
}
_SILENT: Final = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ECONNRESET", "E403", "network")


def locked() -> dict[str, dict[str, str]]:
    packages = json.loads((VENDOR / "package-lock.json").read_text())["packages"]
    return {path.removeprefix("node_modules/"): entry for path, entry in packages.items() if path}


def test_each_file_is_named_and_the_lock_has_what_package_json_asks_for() -> None:
    assert {one.name for one in VENDOR.iterdir()} == {*FILES, "package.json", "package-lock.json"}
    asked = json.loads((VENDOR / "package.json").read_text())["dependencies"]
    assert {name: entry["version"] for name, entry in locked().items()} == asked
    assert all("resolved" not in entry for entry in locked().values())
    assert sum((VENDOR / name).stat().st_size for name in FILES if name.endswith(".mjs")) < 30_000


@pytest.mark.timeout(180)
@pytest.mark.parametrize("package", sorted({package for package, _ in FILES.values()}))
def test_the_files_are_those_of_the_package_with_the_hash_that_the_lock_names(package: str, tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("LEFT OUT, vendored files beside their packages: there is no npm")
    entry = locked()[package]
    asked = [npm, "pack", f"{package}@{entry['version']}", "--pack-destination", str(tmp_path), "--silent"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode and any(word in done.stderr for word in _SILENT):
        pytest.skip("LEFT OUT, vendored files beside their packages: the registry does not answer")
    assert done.returncode == 0, done.stderr
    (packed,) = tmp_path.iterdir()
    body = packed.read_bytes()
    assert f"sha512-{base64.b64encode(hashlib.sha512(body).digest()).decode()}" == entry["integrity"]
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        for name, (of, path) in FILES.items():
            if of == package:
                member = archive.extractfile(f"package/{path}")
                assert member is not None
                assert (VENDOR / name).read_bytes() == member.read(), name
