"""A site with a folder for each release, in the layout of mike, which the site's own version selector reads.

    bash .ci/site && python -m manifests.site_versions 0.1.0 .cache/site PAGES

`PAGES/0.1.0/` is what was built, `PAGES/latest/` a copy of the newest release's, `PAGES/versions.json` names all of
them, the newest first, and `PAGES/index.html` leads to the newest. What was there of other releases stays.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

LATEST: Final = "latest"
_INDEX: Final = (
    f'<!doctype html><meta http-equiv="refresh" content="0; url={LATEST}/"><a href="{LATEST}/">{LATEST}</a>\n'
)


def add(version: Version, built: Path, pages: Path) -> None:
    """Put the site `built` of a release into `pages`, in place of what was there of this release."""
    listed = pages / "versions.json"
    known = {Version(one["version"]) for one in json.loads(listed.read_text())} if listed.exists() else set()
    known.add(version)
    newest = max(known, key=lambda one: (not one.is_prerelease, one))
    _replace(pages / str(version), built)
    _replace(pages / LATEST, pages / str(newest))
    rows = [
        {"version": str(one), "title": str(one), "aliases": [LATEST] if one == newest else []}
        for one in sorted(known, reverse=True)
    ]
    listed.write_text(json.dumps(rows, indent=2) + "\n")
    (pages / "index.html").write_text(_INDEX)


def _replace(folder: Path, source: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m manifests.site_versions", description=__doc__)
    parser.add_argument("version", help="the release, as in 0.1.0 or v0.1.0")
    parser.add_argument("built", type=Path, help="what .ci/site has built")
    parser.add_argument("pages", type=Path, help="the folder of all releases; made where it is not there")
    given = parser.parse_args(arguments)
    try:
        version = Version(given.version)
    except InvalidVersion:
        parser.error(f"{given.version} is no version: write it as in 0.1.0")
    if not (given.built / "index.html").is_file():
        parser.error(f"{given.built} is no site: `bash .ci/site` builds it")
    given.pages.mkdir(parents=True, exist_ok=True)
    add(version, given.built, given.pages)


if __name__ == "__main__":
    main()
