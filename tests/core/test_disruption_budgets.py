"""PodDisruptionBudgets as a plugin finds them."""

from __future__ import annotations

from scheduler.core.state.budget_index import DisruptionBudgets
from scheduler.model.keys import ObjectKey
from tests.builders import budget
from tests.core.rig import Rig
from tests.observed import deleted, observed


def keep(budgets, new, revision):
    budgets.observe(new.key, revision, new)


def test_those_of_a_namespace_are_found_by_name():
    budgets = DisruptionBudgets()
    for name, namespace in (("b", "default"), ("a", "default"), ("c", "other")):
        keep(budgets, budget(name, namespace=namespace), 3)
    assert [one.key.name for one in budgets.of("default")] == ["a", "b"]
    assert [one.key.name for one in budgets.of("other")] == ["c"]
    assert list(budgets.of("third")) == []


def test_the_newest_counts_and_one_that_is_gone_is_gone():
    budgets = DisruptionBudgets()
    key = ObjectKey("default", "a")
    keep(budgets, budget("a", allowed=2), 5)
    keep(budgets, budget("a", allowed=1), 4)
    assert [one.allowed for one in budgets.of("default")] == [2]
    budgets.delete(key, 4)
    assert len(budgets.of("default")) == 1
    budgets.delete(key, 6)
    assert not budgets.of("default")
    keep(budgets, budget("a"), 6)
    assert not budgets.of("default")


def test_one_of_a_kind_that_is_served_again_may_return_as_it_was():
    budgets = DisruptionBudgets()
    keep(budgets, budget("a", allowed=2), 5)
    budgets.delete(ObjectKey("default", "a"), 0)
    assert not budgets.of("default")
    keep(budgets, budget("a", allowed=2), 5)
    assert len(budgets.of("default")) == 1


def test_plugins_see_what_the_machine_was_told():
    rig = Rig()
    rig.tell(observed(budget("a", allowed=2), 5))
    view = rig.machine.ground.view
    assert [one.allowed for one in view.disruption_budgets("default")] == [2]
    rig.tell(deleted("PodDisruptionBudget", ObjectKey("default", "a"), 6))
    assert not view.disruption_budgets("default")
