"""ImageLocality: which images count, what they are worth, and how spread makes it change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import Features
from scheduler.core.state.node_images import NodeImages
from scheduler.model.images import asked_images, normalized_name
from scheduler.model.keys import NodeName
from scheduler.model.objects import NodeImage
from scheduler.plugins import default_plugins
from scheduler.plugins.image_locality import ImageLocality
from tests.core.rig import Rig
from tests.plugins.cluster import Cluster, cycle_of
from tests.plugins.objects import node, pod

MIB = 2**20
PLUGIN = ImageLocality()


def image(name, mib):
    return {"names": [name, f"{name}@sha256:0"], "sizeBytes": mib * MIB}


def running(*images, volumes=(), init=()):
    """A pod with a container for each image."""
    return pod(
        containers=[{"name": f"c{index}", "image": name} for index, name in enumerate(images)],
        initContainers=[{"name": f"i{index}", "image": name} for index, name in enumerate(init)],
        volumes=[{"name": f"v{index}", "image": {"reference": name}} for index, name in enumerate(volumes)],
    )


def scores(one, *images_of_nodes):
    """The score of each node in 1.36, of which only the images are said."""
    view = Cluster(features=Features(kubernetes="1.36"))
    for index, images in enumerate(images_of_nodes):
        view.store.observe_node(node(f"n{index}", images=list(images)))
    cycle = cycle_of(one)
    facts = [PLUGIN.fact(cycle, info, view) for info in view.node_infos.values()]
    given_ = PLUGIN.score_facts(cycle, {fact: facts.count(fact) for fact in facts}, view)
    return [given_.get(fact, 0) for fact in facts]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("app", "app:latest"),
        ("app:1", "app:1"),
        ("host:5000/app", "host:5000/app:latest"),
        ("host:5000/app:1", "host:5000/app:1"),
        ("app@sha256:0", "app@sha256:0"),
        ("", ":latest"),
    ],
)
def test_a_name_has_a_tag(name, want) -> None:
    assert normalized_name(name) == want


def test_init_containers_containers_and_volumes_count_each_time() -> None:
    one = running("a", "b:1", "a", volumes=["c"], init=["d"])
    assert asked_images(one) == ("a:latest", "b:1", "a:latest", "d:latest", "c:latest")


LARGE, SMALL = image("large:1", 500), image("small:1", 20)


@pytest.mark.parametrize(
    ("one", "nodes", "want"),
    [
        pytest.param(running("large:1"), [[LARGE], []], [23, 0], id="where-it-is"),
        pytest.param(running("large:1"), [[LARGE], [LARGE]], [48, 48], id="worth-more-when-more-nodes-have-it"),
        pytest.param(running("small:1"), [[SMALL], [SMALL]], [0, 0], id="a-small-one-is-worth-nothing"),
        pytest.param(running("large"), [[LARGE], []], [0, 0], id="another-tag"),
        pytest.param(running("large:1", "large:1"), [[LARGE]], [49], id="two-containers-of-one-image"),
        pytest.param(running("other:1", volumes=["large:1"]), [[LARGE]], [48], id="a-volume-counts-as-no-container"),
        pytest.param(running("big:1"), [[image("big:1", 5000)]], [100], id="at-most-100"),
        pytest.param(running("large:1"), [[LARGE], [image("large:1", 900)]], [48, 48], id="the-first-said-its-size"),
        pytest.param(running("large:1@sha256:0"), [[LARGE]], [48], id="by-digest"),
        pytest.param(running(), [[LARGE]], [0], id="no-container"),
    ],
)
def test_scores(one, nodes, want) -> None:
    assert scores(one, *nodes) == want


names = st.sampled_from(["a:1", "b:1", "c:1"])
images = st.lists(st.builds(NodeImage, st.lists(names, max_size=2).map(tuple), st.integers(0, 9)), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["n1", "n2", "n3"]), st.none() | images), max_size=12))
def test_what_came_and_went_leaves_no_trace(changes) -> None:
    index, last = NodeImages(), {}
    for name, listed in changes:
        if listed is None:
            index.forget(NodeName(name))
            last.pop(name, None)
        else:
            had = {one for image_ in last.get(name, ()) for one in image_.names}
            changed = index.observe(NodeName(name), listed)
            assert changed is (had != {one for image_ in listed for one in image_.names})
            last[name] = listed
    for name in ("a:1", "b:1", "c:1"):
        nodes = {one for one, listed in last.items() if any(name in image_.names for image_ in listed)}
        found = index.find(name)
        assert (found.nodes if found is not None else set()) == nodes


def test_a_pod_goes_where_its_image_is_until_another_node_has_it_too() -> None:
    rig = Rig(*default_plugins())
    rig.add_nodes("n1", "n3", labels={"kept": "empty"})
    rig.add_nodes("n2", images=[image("app:1", 900)])
    containers = [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}]
    rig.add_pod("first", containers=containers)
    rig.settle()
    rig.add_nodes("n3", images=[image("app:1", 900)])
    rig.add_pod("second", containers=containers)
    rig.settle()

    assert (rig.node_of("first"), rig.node_of("second")) == ("n2", "n3")
