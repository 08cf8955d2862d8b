"""Many tolerations are looked up, few are gone through: the same answers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.status import Code
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Taint, Toleration
from scheduler.model.taints import Tolerance, is_tolerated
from scheduler.plugins.taint_toleration import TaintToleration
from tests import builders
from tests.plugins.cluster import cycle_of

words = st.sampled_from(["", "a", "b"])
effects = st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"])
taints = st.builds(Taint, key=st.sampled_from(["a", "b"]), value=words, effect=effects)
operators = st.sampled_from(["", "Equal", "Exists", "Gt", "other"])
tolerations = st.builds(Toleration, key=words, operator=operators, value=words, effect=effects)


@settings(deadline=None, max_examples=500)
@given(taints, st.lists(tolerations, max_size=4))
def test_it_covers_what_one_of_them_tolerates(taint, given_tolerations):
    assert Tolerance(given_tolerations).covers(taint) == is_tolerated(taint, given_tolerations)


@settings(deadline=None, max_examples=200)
@given(st.lists(taints, max_size=3), st.lists(tolerations, max_size=3))
def test_the_plugin_says_the_same_of_a_pod_with_many_more(on_node, given_tolerations):
    plugin = TaintToleration()
    info = NodeInfo(builders.node("n", taints=[{"key": t.key, "value": t.value, "effect": t.effect} for t in on_node]))
    found = []
    for others in (0, 20):
        none = [{"key": f"other-{index}", "operator": "Exists"} for index in range(others)]
        own = [{"key": t.key, "operator": t.operator, "value": t.value, "effect": t.effect} for t in given_tolerations]
        cycle = cycle_of(builders.pod("p", tolerations=[*none, *own]))
        found.append((plugin.filter(cycle, info, None).code, plugin.score(cycle, info, None)))
    assert found[0] == found[1]
    assert found[0][0] in (Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
