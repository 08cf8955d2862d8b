"""The pins of what the image, developers and CI install (`.ci/lock` writes them)."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.manifests.rendering import ROOT

LOCKS = ("manifests/image/requirements.txt", "manifests/image/tools.txt", "tests/requirements.txt")
PINNED = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def _asked_for(lock: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    if lock.endswith("tools.txt"):
        return [*project["build-system"]["requires"], *(ROOT / "manifests/image/tools.in").read_text().splitlines()]
    return project["project"]["optional-dependencies"]["dev"] if "tests" in lock else project["project"]["dependencies"]


@pytest.mark.parametrize("lock", LOCKS)
def test_the_locks_have_what_is_asked_for_by_hash_and_from_nowhere_in_particular(lock: str) -> None:
    text = (ROOT / lock).read_text()
    # Developers install all of them.
    pinned = dict(PINNED.findall("".join((ROOT / one).read_text() for one in (LOCKS if "tests" in lock else [lock]))))
    entries = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]

    requirements = [Requirement(line) for line in _asked_for(lock)]
    assert requirements
    unmet = [one for one in requirements if Version(pinned[canonicalize_name(one.name)]) not in one.specifier]
    assert unmet == [], "poe lock"
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in text
    assert "index-url" not in text


def test_what_the_image_and_developers_have_is_pinned_in_one_place() -> None:
    places: dict[str, set[str]] = {}
    for lock in LOCKS:
        for name, _ in PINNED.findall((ROOT / lock).read_text()):
            places.setdefault(name, set()).add(lock)

    assert {name for name, locks in places.items() if len(locks) > 1} == set(), "poe lock"
