"""Pods of hundreds of terms: read as any other, kept as text, prepared in parts; what is kept of them is bounded."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from scheduler.kube import codec
from scheduler.kube.codec import Codec
from scheduler.model import pod_terms as terms_module
from scheduler.model import resources
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.objects import Affinity, LabelSelector, NodeSelectorRequirement, PackedAffinity, Pod
from scheduler.model.pod_terms import are_prepared, pod_terms, prepare
from scheduler.model.sized_cache import SizedCache
from scheduler.plugins import default_plugins
from scheduler.plugins.pod_topology_spread import spread_constraints
from tests import builders
from tests.core.rig import Rig
from tests.plugins.cluster import Cluster

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
CODEC = Codec()


def terms(count: int, app: str = "web", key: str = HOST, of: str = "") -> list[dict[str, Any]]:
    """Terms about pods of that label, all different."""
    return [
        {
            "topologyKey": key,
            "labelSelector": {
                "matchLabels": {"app": app},
                "matchExpressions": [{"key": "n", "operator": "NotIn", "values": [f"v{of}-{index}"]}],
            },
        }
        for index in range(count)
    ]


def large(name: str, affinity: dict[str, Any], **fields: Any) -> Pod:
    """As the API server's answer is read."""
    made = builders.pod_object(name, **fields)
    made["spec"]["affinity"] = affinity
    return CODEC.decode_pod(orjson.dumps(made))


def near(count: int, **about: Any) -> dict[str, Any]:
    return {"podAffinity": {REQUIRED: terms(count, **about)}}


def far(count: int, **about: Any) -> dict[str, Any]:
    return {"podAntiAffinity": {REQUIRED: terms(count, **about)}}


EVERYTHING = {
    "nodeAffinity": {
        REQUIRED: {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": HOST, "operator": "In", "values": [f"n{index}"]}]} for index in range(90)
            ]
        }
    },
    **near(70),
    "podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": one} for one in terms(70, app="db")]},
}


def test_a_pod_of_many_terms_is_kept_as_text_and_has_the_same_terms():
    packed, plain = large("p", EVERYTHING), builders.pod("p", affinity=EVERYTHING)
    kept = packed.spec.affinity
    assert isinstance(kept, PackedAffinity)
    assert kept.unpacked() == plain.spec.affinity
    for part in ("node_affinity", "pod_affinity", "pod_anti_affinity"):
        assert getattr(kept, part) == getattr(plain.spec.affinity, part)
    assert pod_terms(packed) == pod_terms(plain)
    assert kept == large("q", EVERYTHING).spec.affinity
    assert hash(kept) == hash(large("q", EVERYTHING).spec.affinity)
    assert kept != large("p", near(71)).spec.affinity


def test_an_ordinary_pod_is_kept_as_it_is():
    pod = large("p", near(3))
    assert isinstance(pod.spec.affinity, Affinity)
    assert pod.packed() is pod


def test_terms_are_prepared_in_parts():
    pod = large("p", near(100, of="parts"))
    assert not are_prepared(pod)
    turns = []
    while not are_prepared(pod):
        turns.append(prepare(pod, 400))
    assert [is_prepared for is_prepared, _ in turns[:-1]] == [False] * (len(turns) - 1)
    assert turns[-1][0]
    assert all(0 < steps <= 400 for _, steps in turns)
    assert len(turns) == 6
    assert prepare(pod, 0) == (True, 0)


def test_one_part_at_least_is_prepared_however_few_steps_there_are():
    pod = large("p", near(60, of="few"))
    for _ in range(7):
        prepare(pod, 0)
    assert are_prepared(pod)


def world(nodes: int = 4) -> Rig:
    rig = Rig(*default_plugins())
    rig.add_nodes(*(f"n{index}" for index in range(nodes)))
    return rig


def test_it_goes_near_the_pods_that_all_its_terms_mean():
    rig = world()
    rig.server.put_pod(large("p", near(600)))
    rig.settle()
    assert rig.node_of("p") is None
    rig.add_pod("web", node="n2", labels={"app": "web"})
    rig.wait(15_000)
    assert rig.node_of("p") == "n2"


def test_no_turn_takes_longer_for_it():
    rig = Rig(*default_plugins(), is_paranoid=False, checks_invariants=False)
    rig.add_nodes("n0", "n1")
    rig.add_pod("web", node="n1", labels={"app": "web"})
    rig.server.put_pod(large("p", near(600, of="turns")))
    rig.watch()
    spent = []
    while rig.node_of("p") is None:
        before = rig.machine.feasibility.steps
        rig.tick(1)
        spent.append(rig.machine.feasibility.steps - before)
        rig.execute()
    assert len(spent) > 10
    assert max(spent) <= 2 * rig.machine.settings.steps_per_tick


@pytest.mark.parametrize("affinity", [far(600), {"podAntiAffinity": {REQUIRED: [*terms(60), *terms(60, app="db")]}}])
def test_where_it_runs_it_keeps_others_away_until_it_goes(affinity):
    rig = world(2)
    rig.server.put_pod(large("there", affinity, node="n0"))
    rig.add_pod("p", labels={"app": "web"})
    rig.settle()
    assert rig.node_of("p") == "n1"
    rig.server.put_pod(large("there-too", affinity, node="n1"))
    rig.add_pod("q", labels={"app": "web"})
    rig.settle()
    assert rig.node_of("q") is None
    rig.server.delete_pod(large("there-too", affinity).key)
    rig.wait(15_000)
    assert rig.node_of("q") == "n1"


def test_node_affinity_of_many_terms_decides_as_it_does_otherwise():
    rig = world(200)
    rig.server.put_pod(large("p", {"nodeAffinity": EVERYTHING["nodeAffinity"]}))
    rig.settle()
    assert rig.node_of("p") in {f"n{index}" for index in range(90)}
    rig.server.put_pod(
        large(
            "q",
            {
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {
                                        "key": HOST,
                                        "operator": "In",
                                        "values": [f"nowhere-{index}" for index in range(900)],
                                    }
                                ]
                            }
                        ]
                    }
                }
            },
        )
    )
    rig.settle()
    assert rig.condition_of("q")[1].startswith("0/200 nodes are available: 200 node(s) didn't match Pod's node")


@pytest.mark.slow
def test_what_is_kept_of_pods_that_wait_is_bounded(monkeypatch):
    monkeypatch.setattr(terms_module, "_KEPT", SizedCache(1_400_000))
    rig = Rig(*default_plugins(), is_paranoid=False, checks_invariants=False, remembered_bytes_max=500_000)
    rig.add_nodes("n0")
    before = len(terms_module._KNOWN)
    for number in range(40):
        rig.server.put_pod(large(f"p{number}", near(200, of=str(number))))
        rig.settle()
    assert terms_module._KEPT.size <= 1_400_000
    assert rig.machine.store.ledger.size <= 500_000
    assert len(terms_module._KNOWN) - before <= 20 * 200
    rig.add_pod("web", node="n0", labels={"app": "web"})
    for _ in range(5_000):
        rig.tick(10)
        rig.execute()
        rig.watch()
        if not len(rig.machine.queue):
            break
    assert all(rig.node_of(f"p{number}") == "n0" for number in range(40))


def test_a_sized_cache_lets_the_oldest_go_and_keeps_the_newest_whatever_its_size():
    cache: SizedCache[str, int] = SizedCache(10)
    for number, name in enumerate("abc"):
        cache.put(name, number, 4)
    assert [cache.get(name) for name in "abc"] == [None, 1, 2]
    cache.put("large", 3, 40)
    assert [cache.get(name) for name in ("b", "c", "large")] == [None, None, 3]
    cache.put("d", 4, 1)
    assert (cache.get("large"), cache.get("d"), cache.size) == (None, 4, 1)


def test_large_texts_do_not_add_up_in_what_was_read_of_pods_and_claims(monkeypatch):
    monkeypatch.setattr(resources, "_SUMS", SizedCache(1_000))
    monkeypatch.setattr(spread_constraints, "_KEPT", SizedCache(20_000))
    view = Cluster()
    decoder = codec.ClaimDecoder()
    for number in range(8):
        amounts = {f"example.com/r{number}-{index}": "1" for index in range(300)}
        assert len(resources.pod_amounts(builders.pod("p", requests=amounts)).requests) == 300
        selector = {"matchLabels": {f"l{number}-{index}": "v" for index in range(300)}}
        spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        one = builders.pod("p", topologySpreadConstraints=[spread])
        assert spread_constraints.constraints_of(one, (), are_system_defaults=True, view=view).hard
        config = [{"opaque": {"driver": "d", "parameters": {"text": f"{number}" * 6_000}}}]
        spec, _ = decoder._specs(orjson.dumps({"devices": {"requests": [], "config": config}}))
        assert decoder._specs(orjson.dumps({"devices": {"requests": [], "config": config}}))[0] is spec is not None
    assert 300 < resources._SUMS.size <= 1_000
    assert 3_000 < spread_constraints._KEPT.size <= 20_000
    assert [*decoder._specs._by_raw.values()] == [spec], "what no claim has is gone"


def test_terms_of_a_pod_have_what_is_alike_once():
    of_pod = pod_terms(large("p", far(200)))
    assert len(of_pod) == 200
    for part in ("namespaces", "topology_key"):
        assert len({id(getattr(term, part)) for term in of_pod}) == 1
    operators = {id(one.operator) for term in of_pod for one in term.selector.requirements or ()}
    assert len(operators) == 2


@pytest.mark.parametrize("count", [1, 2, 4, 5, 50])
def test_selectors_are_equal_whatever_the_order_of_their_values(count):
    def selector(values: list[str]):
        return compile_label_selector(
            LabelSelector(match_expressions=(NodeSelectorRequirement("app", "In", tuple(values)),))
        )

    values = [f"v{index}" for index in range(count)]
    one, other = selector(values), selector([*reversed(values), values[0]])
    assert one == other
    assert hash(one) == hash(other)
    assert all(one.matches({"app": value}) for value in values)
    assert not one.matches({"app": "v"})
    if count == 1:
        assert one == compile_label_selector(LabelSelector()).and_labels({"app": "v0"})
