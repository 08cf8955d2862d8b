"""Conditions of pods that wait: a few of a namespace are under way, and what is written is what holds by then."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.ground.inputs import WriteRejected
from scheduler.core.reports.pod_conditions import UNSCHEDULABLE, PodConditions, Refusal
from scheduler.framework.decisions import PatchPodStatus
from scheduler.model.keys import PodKey
from tests.core.rig import Rig

UNDER_WAY_MAX = 2
AT_ONCE = 50
EVERY_MS = 200
FULL = "0/{} nodes are available: Insufficient cpu."


class Reporting:
    """Pods of some namespaces, and the conditions that they are to have; nothing is written before `rig.settle()`."""

    def __init__(self, *pods: str) -> None:
        self.rig = Rig()
        for name in pods:
            namespace, _, short = name.partition("/")
            self.rig.add_pod(short, namespace=namespace, scheduler="another-scheduler")
        self.rig.watch()
        self.conditions = PodConditions(self.rig.machine.ground)
        self.pods = {str(one.key): one.uid for one in self.rig.machine.store.pods.values()}

    def report(self, text: str, *names: str) -> None:
        for name in names or self.pods:
            pod = self.rig.machine.store.pods[self.pods[name]]
            self.conditions.report(pod, Refusal(UNSCHEDULABLE, text))
        self.rig.tick()

    def under_way(self, namespace: str = "many") -> list[PatchPodStatus]:
        patches = [one for one in self.rig.pending if isinstance(one, PatchPodStatus)]
        return [one for one in patches if one.pod.namespace == namespace]

    @property
    def written(self) -> Counter[PodKey]:
        """How often a condition of each pod was written."""
        return Counter(one.pod for one in self.rig.decided if isinstance(one, PatchPodStatus))

    def said(self) -> set[str]:
        keys = [PodKey(*name.split("/")) for name in self.pods]
        return {(self.rig.condition_of(key.name, key.namespace) or ("", ""))[1] for key in keys}


def many(count: int) -> list[str]:
    return [f"many/p{number}" for number in range(count)]


def test_a_few_of_a_namespace_are_under_way_and_those_of_others_do_not_wait_for_them() -> None:
    it = Reporting(*many(10), "few/p")
    it.report("no")
    assert len(it.under_way()) == UNDER_WAY_MAX
    assert len(it.under_way("few")) == 1
    it.rig.settle()
    assert set(it.written.values()) == {1}
    assert it.said() == {"no"}


def test_what_is_written_is_what_holds_by_then() -> None:
    it = Reporting(*many(10))
    it.report("no")
    it.report("no, and here is why")
    assert len(it.under_way()) == UNDER_WAY_MAX
    it.rig.settle()
    assert it.said() == {"no, and here is why"}
    assert it.written.total() == 10 + UNDER_WAY_MAX
    assert len(it.rig.events) == it.written.total(), "an event for each that is written, with the same text"


def test_an_event_does_not_wait_where_the_condition_stays() -> None:
    it = Reporting(*many(10))
    it.report("no")
    it.rig.settle()
    it.report("no")
    assert len(it.rig.events) == 20


def test_numbers_that_change_are_written_one_after_another() -> None:
    it = Reporting(*many(AT_ONCE + 10))
    it.report(FULL.format(1))
    it.rig.settle()
    before = it.written.total()
    assert before == AT_ONCE + 10, "what is new is not paced"
    it.report(FULL.format(2))
    it.rig.settle()
    assert it.written.total() - before == AT_ONCE
    it.rig.wait(3 * EVERY_MS)
    assert it.written.total() - before == AT_ONCE + 3
    it.report("another reason", *many(AT_ONCE + 10)[-1:])
    it.rig.settle()
    assert "another reason" in it.said(), "what is new does not wait for numbers"
    it.rig.wait(10 * EVERY_MS)
    assert it.said() == {FULL.format(2), "another reason"}
    it.rig.wait(60_000)
    it.report(FULL.format(3))
    it.rig.settle()
    assert it.said() == {FULL.format(2), FULL.format(3)}


def test_one_that_comes_back_while_another_is_under_way_is_written_last() -> None:
    it = Reporting(*many(1))
    it.report("first")
    it.rig.settle()
    it.report("second")
    it.report("first")
    it.rig.settle()
    assert it.said() == {"first"}


def test_those_that_are_refused_are_written_again_a_few_at_a_time() -> None:
    it = Reporting(*many(10))
    it.report("no")
    for _ in range(40):
        patches = it.under_way()
        assert len(patches) <= UNDER_WAY_MAX
        for one in patches:
            it.rig.pending.remove(one)
            it.rig.tell(WriteRejected(one.id, 500, "InternalError", "a webhook failed"))
        it.rig.tick(1_000)
    assert min(it.written.values()) >= 2
    it.rig.wait(60_000)
    assert it.said() == {"no"}


def test_pods_that_are_gone_keep_nobody_waiting() -> None:
    it = Reporting(*many(6))
    it.report("no")
    for one in it.under_way():
        it.rig.server.delete_pod(one.pod)
    it.rig.settle()
    left = [key.name for key in it.rig.server.pods]
    assert all(it.rig.condition_of(name, "many") for name in left)
    assert len(left) == 6 - UNDER_WAY_MAX


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(many(4)), st.sampled_from(["a 1", "a 2", "b"]), st.integers(0, 3)), max_size=25)
)
def test_whatever_comes_in_whatever_order_the_last_report_is_what_is_stored(
    steps: list[tuple[str, str, int]],
) -> None:
    """Some answers come between reports, as many as the third number says; each report is of one pod."""
    it = Reporting(*many(4))
    last: dict[str, str] = {}
    for name, text, answers in steps:
        it.report(text, name)
        last[name] = text
        for one in it.rig.pending[:answers]:
            it.rig.pending.remove(one)
            it.rig.tell(it.rig.server.execute(one))
        it.rig.watch()
    it.rig.wait(60_000)
    stored = {name: it.rig.condition_of(name.split("/")[1], "many") for name in last}
    assert stored == {name: (UNSCHEDULABLE, text) for name, text in last.items()}
