"""The site of docs/ is built without a warning: each page is there, and each link and anchor leads somewhere."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def test_the_site_is_built_and_has_every_page_of_its_table_of_contents() -> None:
    built = subprocess.run(["bash", ".ci/site"], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    site = ROOT / ".cache/site"
    contents = tomllib.loads((ROOT / ".ci/site.toml").read_text(encoding="utf-8"))["project"]["nav"]
    for page in pages(contents):
        name = page.removesuffix(".md").removesuffix("README").removesuffix("index").rstrip("/")
        assert (site / name / "index.html").is_file(), page


def pages(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from pages(value)
