"""The pages of docs/examples: their pictures are as drawn, and `demo` ends as the `simulate` that they show."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler.cli.demo import demo
from tests.example_pictures import EXAMPLES, PICTURES, ROOT, picture, simulated

SHOWN = sorted(
    {
        found
        for path in (ROOT / "docs/examples").glob("*.md")
        for found in re.findall(r"simulate -f docs/examples/(\S+)-cluster\.yaml", path.read_text(encoding="utf-8"))
    }
)


def placed(answer: dict[str, Any]) -> Counter[tuple[str | None, tuple[str, ...]]]:
    """Nodes and devices of the pods that are there in the end; names of workloads' pods are random in a cluster."""
    return Counter(
        (pod["node"], tuple(sorted(f"{one['pool']}/{one['device']}" for one in pod["devices"])))
        for pod in answer["pods"]
        if not str(pod.get("reason")).startswith("preempted: ")
    )


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_picture_is_what_the_script_draws(example: str) -> None:
    drawn = (PICTURES / f"{Path(example).name}.svg").read_text(encoding="utf-8")
    assert drawn == picture(example), "python -m tests.example_pictures"


def test_each_use_has_its_page_with_a_picture() -> None:
    assert len(SHOWN) == 7  # two of first-pods.md are not shown again
    assert set(SHOWN) <= set(EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("example", SHOWN)
def test_the_demo_ends_as_the_page_says(example: str) -> None:
    cluster, applied = (str(ROOT / f"docs/examples/{example}{part}.yaml") for part in ("-cluster", ""))
    ended = CliRunner().invoke(demo, ["--cluster", cluster, "--apply", applied, "-o", "json"])
    assert placed(json.loads(ended.stdout)) == placed(simulated(example))
