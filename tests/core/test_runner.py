"""The runner and the registry: order, signatures, broken plugins, profiles that cannot work."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from scheduler.framework.api import PreBindDone, PreFilterResult, Profile
from scheduler.framework.cycle import Cycle
from scheduler.framework.evaluations import Row
from scheduler.framework.plan import PreFiltered
from scheduler.framework.profiles import ProfileError, extension_points
from scheduler.framework.runner import Runner
from scheduler.framework.status import SKIP, SUCCESS, Code, Status
from scheduler.model.node_info import NodeInfo
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.plugins import (
    ALL_CHANGES,
    Emptier,
    Gate,
    Helper,
    Patience,
    Prefer,
    Reject,
    Scaled,
    Slots,
    TinyDevices,
    Zoned,
)
from tests.core.rig import Rig


@dataclass(frozen=True)
class Says:
    """PreFilter and Filter: a status each."""

    name: str
    before: Status = SUCCESS
    verdict: Status = SUCCESS
    wakes_on: tuple = ALL_CHANGES

    def pre_filter(self, cycle, view):
        return PreFilterResult(self.before)

    def signature(self, cycle, view):
        return ()

    def filter(self, cycle, node, view):
        return self.verdict

    def hint(self, pod, change, view):
        raise NotImplementedError


def runner(*plugins, **options) -> Runner:
    return Runner(Profile(builders.SCHEDULER, plugins), **options)


def cycle(pod=None) -> Cycle:
    return Cycle(pod or builders.pod(), 0)


def test_the_first_verdict_against_a_node_counts_and_is_signed():
    plugins = [Says("A"), Says("B", verdict=Status.unschedulable("b")), Says("C", verdict=Status.unschedulable("c"))]
    status = runner(*plugins).filter(Row(plugins), cycle(), None, None)
    assert status == Status(Code.UNSCHEDULABLE, ("b",), "B")


def test_pre_filter_goes_on_after_unschedulable_and_ends_at_unresolvable():
    first = Says("A", before=Status.unschedulable("a"))
    got = runner(first, Says("B", before=Status.unresolvable("b"))).pre_filter(cycle(), None)
    assert got.status == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("b",), "B")
    got = runner(first, Says("B", before=Status.unschedulable("b"))).pre_filter(cycle(), None)
    assert got.status == Status(Code.UNSCHEDULABLE, ("a",), "A")


def test_a_plugin_that_skips_is_named():
    got = runner(Says("A", before=SKIP), Says("B")).pre_filter(cycle(), None)
    assert (got.status, got.skipped) == (SUCCESS, frozenset({"A"}))


def test_a_plugin_that_breaks_fails_its_pod_and_no_other():
    class Breaks(Slots):
        def filter(self, cycle, node, view):
            if cycle.pod.metadata.name == "bad":
                raise ZeroDivisionError("by pod bad")
            return super().filter(cycle, node, view)

    rig = Rig(Breaks(2), is_strict=False)
    rig.add_nodes("a")
    rig.add_pod("bad")
    rig.add_pod("good")
    rig.settle()
    assert rig.node_of("good") == "a"
    text = 'running Filter plugin "Slots": ZeroDivisionError: by pod bad'
    assert rig.condition_of("bad") == ("SchedulerError", text)


@pytest.mark.parametrize("point", ["pre_enqueue", "pre_filter", "reserve", "pre_bind", "unreserve"])
def test_a_plugin_may_break_anywhere(point):
    def breaking(self, *args):
        raise RuntimeError("broken")

    class Breaks(TinyDevices):
        pass

    setattr(Breaks, point, breaking)
    rig = Rig(Breaks(), is_strict=False)
    rig.add_nodes("a")
    rig.server.put_claim(builders.claim("c"))
    rig.add_pod("p", claims=("c",))
    rig.settle()
    rig.wait(3_000)
    is_harmless = point == "unreserve"
    assert (rig.node_of("p") == "a") is is_harmless
    if not is_harmless and point != "pre_enqueue":
        assert "RuntimeError: broken" in rig.condition_of("p")[1]
        assert len(list(rig.machine.overlay.in_use.devices())) == 0


@pytest.mark.parametrize("point", ["hint", "concerned"])
def test_a_hint_that_breaks_wakes_rather_than_strands(point):
    def breaking(self, *args):
        raise RuntimeError("broken")

    class Breaks(TinyDevices):
        pass

    setattr(Breaks, point, breaking)
    rig = Rig(Breaks(count=1), is_strict=False)
    rig.add_nodes("a")
    for name in ("c", "d"):
        rig.server.put_claim(builders.claim(name))
        rig.add_pod(f"p{name}", claims=(name,))
    rig.settle()
    rig.add_nodes("b")
    rig.wait(1_000)
    assert {rig.node_of("pc"), rig.node_of("pd")} == {"a", "b"}


@dataclass(frozen=True)
class Shaped(Says):
    """A plugin whose shape is the pod's labels."""

    def signature(self, cycle, view):
        return tuple(sorted((cycle.pod.metadata.labels or {}).items())) or None


def test_a_remembered_plan_is_the_one_that_would_be_made():
    remembering, forgetful = runner(Shaped("A"), Shaped("B")), runner(Shaped("A"), Shaped("B"))
    pods = [builders.pod(labels=labels) for labels in ({}, {"a": "1"}, {"a": "2"})]
    kept = []
    for pod in (*pods, *pods):
        for skipped in (frozenset(), frozenset("A")):
            filtered = PreFiltered(SUCCESS, skipped)
            plan = remembering.plan(Cycle(pod, 0), None, filtered)
            assert plan == forgetful.plan(Cycle(pod, 0), None, filtered)  # nobody has it, so it is made each time
            kept.append(plan)
    kept = [remembering.plan(Cycle(pod, 0), None, PreFiltered(SUCCESS)) for pod in pods]
    assert [plan.signature is None for plan in kept] == [True, False, False]
    assert kept[1] is remembering.plan(Cycle(pods[1], 0), None, PreFiltered(SUCCESS))
    assert kept[1].signature != kept[2].signature


def test_a_plan_has_the_filters_before_the_facts_the_facts_and_the_filters_after_them():
    first, slots, zoned, late, emptier = Shaped("First"), Slots(), Zoned(), Shaped("Late"), Emptier()
    prefer, scaled = Prefer(name="Plain"), Scaled()
    asked = runner(scaled, first, slots, prefer, zoned, late, emptier)
    plan = asked.plan(cycle(builders.pod(labels={"a": "1"})), None, PreFiltered(SUCCESS))
    assert plan.filters == (first, slots)
    assert plan.fact_plugins == (zoned, emptier)
    assert plan.fact_filters == ((0, zoned),)
    assert plan.late_filters == (late,)
    assert plan.fact_scorers == ((1, emptier),)
    assert (plan.scorers, plan.normalizing) == ((prefer, scaled), (scaled,))
    without = asked.plan(cycle(builders.pod(labels={"a": "1"})), None, PreFiltered(SUCCESS, frozenset({"Zoned"})))
    assert (without.filters, without.fact_plugins, without.late_filters) == ((first, slots, late), (emptier,), ())


def test_what_is_not_remembered_is_asked_in_order():
    """A filter between two plugins that filter by facts names its own reason."""

    @dataclass(frozen=True)
    class OfFacts(Shaped):
        def fact(self, cycle, node, view):
            return "here"

        def filter_fact(self, cycle, fact, view):
            return self.verdict

    no = Status.unschedulable("no")
    for refusing in range(4):
        kinds = enumerate((OfFacts, Shaped, OfFacts, Shaped))
        asked = runner(*(kind(str(place), verdict=no if place >= refusing else SUCCESS) for place, kind in kinds))
        pod = cycle(builders.pod())
        plan = asked.plan(pod, None, PreFiltered(SUCCESS))
        assert asked.verdict(plan, pod, NodeInfo(builders.node()), None).plugin == str(refusing)


def test_a_cycle_keeps_slots_by_type():
    one = cycle()
    assert one.find(Status) is None
    one.put(SUCCESS)
    assert one.get(Status) is SUCCESS
    with pytest.raises(KeyError):
        one.get(PreBindDone)


def test_extension_points_are_recognized():
    assert extension_points(TinyDevices()) == ("PreEnqueue", "PreFilter", "Filter", "Reserve", "PreBind")
    assert extension_points(Prefer()) == extension_points(Emptier()) == ("Score",)
    assert extension_points(Zoned()) == ("Filter",)
    assert extension_points(Helper()) == ("PostFilter",)
    assert extension_points(Patience()) == ("PreBind",)
    assert extension_points(Gate()) == ("PreEnqueue",)


@dataclass(frozen=True)
class Nothing:
    name: str = "Nothing"
    wakes_on: tuple = ()

    def hint(self, pod, change, view):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("plugins", "text"),
    [
        ((Slots(1), Slots(2)), "profile dra-scheduler: plugin Slots is named twice"),
        ((Reject(wakes_on=()),), "plugin Reject can reject pods but wakes_on is empty"),
        ((Nothing(),), "plugin Nothing implements no extension point"),
        ((Prefer(weight=0),), "plugin Prefer: weight 0 is not within"),
    ],
)
def test_profiles_that_cannot_work_are_refused(plugins, text):
    with pytest.raises(ProfileError, match=text):
        runner(*plugins)


def test_the_default_plugins_make_a_profile():
    names = list(runner(*default_plugins()).plugins)
    assert names[-2:] == ["NodeDeclaredFeatures", "GangScheduling"]
