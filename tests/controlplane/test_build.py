"""A release of Kubernetes is a row, a mod file, and what the oracle does otherwise there."""

from __future__ import annotations

import re

import pytest

from tests.controlplane.build import BETAS, MINOR, SOURCE, VERSIONS


@pytest.mark.parametrize("minor", VERSIONS | BETAS)
def test_each_release_has_its_files_and_they_ask_for_it(minor: str) -> None:
    """`docs/CONTRIBUTING.md`, "A new release of Kubernetes": nothing else is needed to build its programs."""
    mod = (SOURCE / f"kubernetes-{minor}.mod").read_text(encoding="utf-8")
    assert re.search(rf"k8s\.io/kubernetes {re.escape((VERSIONS | BETAS)[minor])}( |$)", mod, re.MULTILINE)
    assert (SOURCE / f"kubernetes-{minor}.sum").exists()
    own = SOURCE / "oracle" / f"release_{minor.replace('.', '_')}.go"
    assert f"kubernetes_{minor.replace('.', '_')}" in own.read_text(encoding="utf-8")


def test_nobody_s_file_is_left_over_and_the_newest_is_the_default() -> None:
    assert {path.stem.removeprefix("kubernetes-") for path in SOURCE.glob("kubernetes-*.mod")} == {*VERSIONS, *BETAS}
    assert list(VERSIONS)[-1] == MINOR
