"""The site of docs/ is built without a warning: each page is there, and each link and anchor leads somewhere."""

from __future__ import annotations

import json
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from manifests.site_versions import main
from tests.ui.chromium import needs_chromium, new_page, opened_browser

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site() -> Path:
    built = subprocess.run(["bash", ".ci/site"], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return ROOT / ".cache/site"


def test_the_site_is_built_and_has_every_page_of_its_table_of_contents(site: Path) -> None:
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


def test_releases_stand_beside_each_other_and_the_newest_is_the_latest(tmp_path: Path) -> None:
    for version in ("0.1.0", "v0.10.0", "0.2.0", "0.11.0rc1"):
        main([version, str(_site(tmp_path / "built", version)), str(tmp_path / "pages")])
    main(["0.2.0", str(_site(tmp_path / "built", "0.2.0 again")), str(tmp_path / "pages")])

    rows = json.loads((tmp_path / "pages/versions.json").read_text())
    assert [row["version"] for row in rows] == ["0.11.0rc1", "0.10.0", "0.2.0", "0.1.0"]
    assert [row["version"] for row in rows if row["aliases"] == ["latest"]] == ["0.10.0"]
    pages = {path.parent.name: path.read_text() for path in (tmp_path / "pages").glob("*/index.html")}
    assert pages == {
        "0.1.0": "0.1.0",
        "0.2.0": "0.2.0 again",
        "0.10.0": "v0.10.0",
        "0.11.0rc1": "0.11.0rc1",
        "latest": "v0.10.0",
    }
    assert 'url=latest/"' in (tmp_path / "pages/index.html").read_text()


def _site(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "index.html").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("version", "folder", "text"), [("abc", "", "abc is no version"), ("0.1.0", "nowhere", "nowhere is no site")]
)
def test_what_is_no_version_or_no_site_is_refused(
    version: str, folder: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([version, str(tmp_path / folder), str(tmp_path / "pages")])
    assert text in capsys.readouterr().err
    assert not (tmp_path / "pages").exists()


@needs_chromium
async def test_a_reader_goes_from_one_release_to_another(site: Path, tmp_path: Path) -> None:
    """In a browser, on the site as it is built."""
    for version in ("0.1.0", "0.2.0"):
        main([version, str(site), str(tmp_path)])
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        async with opened_browser() as browser:
            page = await new_page(browser)
            await page.goto(f"http://127.0.0.1:{server.server_port}/0.1.0/try/")
            link = page.locator(".md-version__link", has_text="0.2.0")
            await link.wait_for(state="attached")
            assert await page.locator(".md-version__link").all_inner_texts() == ["0.2.0", "0.1.0"]
            await link.click(force=True)
            await page.wait_for_url("**/0.2.0/**")
            assert await page.locator(".md-version__current").inner_text() == "0.2.0"
        server.shutdown()
