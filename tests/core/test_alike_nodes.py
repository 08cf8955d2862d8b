"""Nodes that came and went leave nothing behind in what is known of alike nodes."""

from __future__ import annotations

from types import SimpleNamespace

from allocator import NodeView
from allocator.placement.ranks import Strategy
from scheduler.core.trying.alike_nodes import AlikeNodes
from scheduler.plugins.dynamic_resources.device_equivalence import DeviceLikeness
from scheduler.plugins.dynamic_resources.placing import PlacementMemory


class Labels:
    name = "Labels"

    def likeness(self, node, view):
        return node.labels


def node_of(name, labels, generation=1):
    return SimpleNamespace(name=name, generation=generation, labels=labels)


def alike_of(infos):
    return AlikeNodes(SimpleNamespace(node_infos=infos)), SimpleNamespace(steps_left=1_000_000)


def test_alike_nodes_have_the_same_number_and_others_another():
    infos = {name: node_of(name, labels) for name, labels in (("a", "x"), ("b", "y"), ("c", "x"))}
    alike, cycle = alike_of(infos)
    first, other, third = [alike.number((Labels(),), cycle, one) for one in infos.values()]
    assert first == third != other
    assert alike.number((Labels(),), cycle, infos["a"]) == first


def test_nodes_that_came_and_went_are_forgotten_and_what_was_read_of_them():
    infos = {}
    alike, cycle = alike_of(infos)
    for index in range(100):
        infos.clear()
        infos[f"node-{index}"] = node_of(f"node-{index}", f"labels-{index}")
        alike.number((Labels(),), cycle, infos[f"node-{index}"])
    (known,) = alike._known.values()
    assert len(known) <= 3
    assert len(alike._numbers) <= 3


def test_what_a_node_published_before_is_forgotten():
    class Pools(SimpleNamespace):
        __hash__ = object.__hash__

    likeness = DeviceLikeness()
    for index in range(100):
        pools = Pools(pools=(), usable=(), inoperable=index, use_of=lambda in_use: SimpleNamespace(used={}))
        inventory = SimpleNamespace(node_pools=lambda node, features, pools=pools: pools)
        view = SimpleNamespace(in_use=SimpleNamespace(is_supposed=False), inventory=inventory, features=None)
        assert likeness.of(NodeView("a"), view) == likeness.of(NodeView("a"), view)
    assert len(likeness._of_pools) <= 2
    assert len(likeness._published) <= 2


def test_pieces_of_nodes_that_are_gone_are_given_up_in_parts():
    memory, infos = PlacementMemory(Strategy.BEST_FIT), dict.fromkeys("ab")
    memory._pieces.update(dict.fromkeys(map(str, range(600))), a=None)
    memory.catch_up(SimpleNamespace(), SimpleNamespace(node_infos=infos))
    assert list(memory._pieces) == ["a"]
    assert [len(one) for one in memory._given_up] == [600 - 512]
