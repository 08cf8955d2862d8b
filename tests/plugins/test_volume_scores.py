"""VolumeBinding's scores, which nodes' storage would be fuller (1.37), and ImageLocality's of image volumes by release.

Both are compared with kube-scheduler's for random pods (`tests.oracle.test_scheduler_differential`).
"""

from __future__ import annotations

from typing import Any

import pytest

from allocator import Features
from scheduler.framework.status import Code
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.scoring_strategies import ShapePoint
from scheduler.plugins.volume_binding import VolumeBinding
from tests import storage_builders as storage
from tests.plugins.cluster import Cluster, cycle_of
from tests.plugins.objects import node, pod
from tests.plugins.test_image_locality import image, running
from tests.plugins.test_volume_plugins import ZONE, using

NODES = ("a", "b", "c")
FULLEST_FIRST = (ShapePoint(0, 0), ShapePoint(100, 10))


def cluster(*objects: Any, release: str = "1.37") -> Cluster:
    made = Cluster(features=Features(kubernetes=release))
    for name in NODES:
        made.store.observe_node(node(name, labels={"name": name, ZONE: name}))
    for one in objects:
        made.store.observe_storage(one)
    return made


def left(on: str, amount: str | None, **more: Any) -> Any:
    """What the driver says of a node."""
    return storage.capacity(
        f"at-{on}-{amount or 'unsaid'}".lower(), amount, nodeTopology={"matchLabels": {"name": on}}, **more
    )


def scored(made: Cluster, one: Any, plugin: VolumeBinding = VolumeBinding()) -> list[int] | None:  # noqa: B008 - frozen
    """The scores of the nodes; None where the plugin skips."""
    cycle, nodes = cycle_of(one), [made.node_infos[name] for name in NODES]
    plugin.pre_filter(cycle, made)
    if plugin.pre_score(cycle, nodes, made).code is Code.SKIP:
        return None
    return [plugin.score(cycle, info, made) for info in nodes]


DYNAMIC = (storage.storage_class(), storage.csi_driver("csi.example.com"), storage.volume_claim("c", request="10Gi"))
ROOM = (left("a", "100Gi"), left("b", "20Gi"), left("c", "10Gi"))


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param((*DYNAMIC, *ROOM), [90, 50, 0], id="the-emptiest-first"),
        pytest.param(
            (*DYNAMIC, left("a", "100Gi", maximumVolumeSize="10Gi")), [90, 0, 0], id="by-what-is-left-not-the-largest"
        ),
        pytest.param(
            (*DYNAMIC, storage.volume("v", capacity="40Gi", zone="b"), *ROOM), [90, 75, 0], id="a-volume-that-is-there"
        ),
        pytest.param(
            (*DYNAMIC, left("a", None, maximumVolumeSize="10Gi"), *ROOM[1:]), [0, 50, 0], id="only-the-largest-is-said"
        ),
        pytest.param((DYNAMIC[0], DYNAMIC[2]), [0, 0, 0], id="a-driver-that-does-not-say"),
    ],
)
def test_by_the_share_of_storage_that_would_be_used(objects: tuple[Any, ...], want: list[int]) -> None:
    assert scored(cluster(*objects), using("c")) == want


def test_two_claims_of_a_class_add_up_and_classes_are_alike() -> None:
    other = storage.storage_class("other")
    claims = [storage.volume_claim("d", request="10Gi"), storage.volume_claim("e", request="5Gi", class_name="other")]
    made = cluster(*DYNAMIC, other, *claims, *ROOM, left("a", "10Gi", class_name="other"))
    found = scored(made, using("c", "d", "e"))
    assert found is not None
    assert found[0] == (80 + 50) // 2  # 20 of 100 GiB, 5 of 10 GiB


def test_the_shape_may_be_turned_round() -> None:
    assert scored(cluster(*DYNAMIC, *ROOM), using("c"), VolumeBinding(scoring_shape=FULLEST_FIRST)) == [10, 50, 100]


@pytest.mark.parametrize(
    ("release", "one"),
    [
        pytest.param("1.36", using("c"), id="before-1.37"),
        pytest.param("1.37", pod(), id="no-volumes"),
        pytest.param("1.37", using("bound"), id="all-bound"),
    ],
)
def test_who_has_nothing_to_compare_pays_nothing(release: str, one: Any) -> None:
    bound = (storage.volume_claim("bound", volume_name="v"), storage.volume("v", claim="bound"))
    assert scored(cluster(*DYNAMIC, *ROOM, *bound, release=release), one) is None


@pytest.mark.parametrize(("release", "want"), [("1.36", 100), ("1.37", 49)])
def test_from_1_37_on_a_node_is_full_with_the_images_of_volumes_too(release: str, want: int) -> None:
    made, plugin = Cluster(features=Features(kubernetes=release)), ImageLocality()
    made.store.observe_node(node("n", images=[image("app:1", 2000)]))
    cycle = cycle_of(running("app:1", volumes=("one:1", "two:1", "three:1")))
    (info,) = made.node_infos.values()
    (score,) = plugin.score_facts(cycle, {plugin.fact(cycle, info, made): 1}, made).values()
    assert score == want  # 2000 of 1000 MiB, and of 4000
