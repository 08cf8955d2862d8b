"""The core broken on purpose, where preemption must not be in vain; part of `mutants`."""

from __future__ import annotations

from scheduler.core.preempting import preemptions
from scheduler.core.state import budget_index, core_view, running_groups
from scheduler.plugins.default_preemption import parts
from scheduler.plugins.dynamic_resources import pre_filter


def replacements_join_the_claim(patch):
    """A controller's new pods share the claim that its old ones were removed for."""
    patch.setattr(pre_filter, "_refuse_awaited", lambda claim, pod, view: None)


def equals_join_the_claim(patch):
    original = pre_filter._refuse_awaited

    def refuse(claim, pod, view):
        other = view.awaiting_release(claim.key)
        return original(claim, pod, view) if other is not None and other.priority > pod.priority else None

    patch.setattr(pre_filter, "_refuse_awaited", refuse)


def what_was_given_away_is_taken_again(patch):
    patch.setattr(core_view.CoreView, "was_awaited_in_vain", lambda self, claim: False)


def what_was_given_away_is_never_taken_again(patch):
    """Also when the claim has lost what it had."""

    def changed(self, key):
        for record in self.records.of_claim(key):
            self._look_if_current(record)

    patch.setattr(preemptions.Preemptions, "claim_changed", changed)


def who_may_share_again_is_not_told(patch):
    """Pods that had to leave a claim alone sleep on when nobody waits for it any more."""
    patch.setattr("scheduler.core.binding.aftermath.Aftermath.claim_may_be_shared", lambda self, key: None)


def groups_are_single_pods(patch):
    patch.setattr(core_view.CoreView, "running_group", lambda self, pod: None)


def groups_are_never_removed(patch):
    original = parts._Met
    patch.setattr(parts, "_Met", lambda gang, may_go: original(gang, False))


def victims_still_run(patch):
    """What is removed of a group already is counted as spare again."""
    original = running_groups.running_group

    def running(store, pod):
        victims = dict(store.nominations.victims)
        store.nominations.victims.clear()
        try:
            return original(store, pod)
        finally:
            store.nominations.victims.update(victims)

    patch.setattr(core_view, "running_group", running)


def groups_elsewhere_are_waited_for(patch):
    """Until the last pod of the group, on another node, has ended."""

    def is_over(self, record, pod):
        node = record.elsewhere.get(pod.uid, record.node)
        return pod.is_terminal or (pod.node_name or self._store.assumed.get(pod.uid)) != node

    patch.setattr(preemptions.Preemptions, "_is_over", is_over)


def budgets_that_cannot_be_read_are_none(patch):
    patch.setattr(budget_index.DisruptionBudgets, "tell_readable", lambda self, is_readable: False)
