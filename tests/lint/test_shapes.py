"""The examples of docs/examples lint clean on the clusters they are for, but for the shape that cannot fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.cli.manifests import read_manifests
from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.lint.engine import Source, lint
from scheduler.lint.findings import Finding
from scheduler.lint.published import read_published
from tests.lint.texts import codes, find

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
SHAPES = EXAMPLES / "shapes"
WORKLOADS = sorted(path for path in SHAPES.glob("*.yaml") if not path.stem.endswith("-cluster"))
FEATURES = sorted(
    path
    for folder in ("features", "nvidia")
    for path in (EXAMPLES / folder).glob("*.yaml")
    if not path.stem.endswith("-cluster")
)
NOT_SERVED = {"HorizontalPodAutoscaler", "PodGroup"}  # the embedded cluster has neither


def findings(workload: Path) -> list[Finding]:
    cluster = workload.with_name(f"{workload.stem}-cluster.yaml")
    published = read_published(document.obj for document in read_manifests([cluster]))
    assert published.slices
    assert published.nodes
    assert published.problems == []
    return find(*(path.read_text(encoding="utf-8") for path in (workload, cluster)), published=published)


def test_there_are_the_eight_shapes() -> None:
    assert [path.stem for path in WORKLOADS] == [
        "containers-shared",
        "development-shared",
        "inference-partitions",
        "large-or-two-small",
        "training-linked",
        "training-near",
        "training-workers",
        "two-on-one-node",
    ]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda p: p.stem)
def test_a_workload_fits_on_its_cluster(workload: Path) -> None:
    assert findings(workload) == [] or workload.stem == "two-on-one-node"


@pytest.mark.parametrize("workload", FEATURES, ids=lambda p: p.stem)
def test_nothing_is_wrong_with_an_example_of_a_feature(workload: Path) -> None:
    """Some of their pods wait, to show why."""
    assert codes(findings(workload)) <= {"does-not-fit"}


def test_two_free_on_one_node_are_missing() -> None:
    (finding,) = findings(SHAPES / "two-on-one-node.yaml")

    assert finding.object == "ResourceClaimTemplate two-gpus"
    assert finding.message.startswith("[devices-short] node single-0 has 1 device")


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_of_the_demo_lint_clean(example: Path) -> None:
    assert lint([Source(example.name, example.read_text(encoding="utf-8"))]).findings == []


def test_the_autoscaler_of_the_partitions_could_not_go_higher() -> None:
    path = SHAPES / "inference-partitions.yaml"
    published = read_published(
        document.obj for document in read_manifests([path.with_name("inference-partitions-cluster.yaml")])
    )
    higher = path.read_text(encoding="utf-8").replace("maxReplicas: 14", "maxReplicas: 15")

    (finding,) = find(higher, published=published)

    assert finding.message.endswith("; 14 of 15 pods fit")


@pytest.mark.parametrize("workload", [*WORKLOADS, *FEATURES], ids=lambda path: path.stem)
async def test_an_api_server_takes_an_example_and_its_cluster(workload: Path) -> None:
    paths = [workload.with_name(f"{workload.stem}-cluster.yaml"), workload]
    async with EmbeddedCluster() as cluster:
        for document in read_manifests(paths):
            if document.kind not in NOT_SERVED:
                await cluster.apply([document.obj])
