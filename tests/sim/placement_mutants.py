"""Volumes and placement broken on purpose, one way each; `mutants` says what must notice each of them."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.core.binding import binding_cycle
from scheduler.core.ground.inputs import WriteOutcomeUnknown, WriteRejected
from scheduler.core.state import volume_overlay
from scheduler.core.writes import volume_writes
from scheduler.framework.decisions import SelectNode
from scheduler.framework.status import SUCCESS
from scheduler.model.storage import SELECTED_NODE, PersistentVolumeClaim
from scheduler.plugins import inter_pod_affinity, node_ports
from scheduler.plugins.volume_binding import VolumeBinding, pre_bind, volume_matching
from scheduler.plugins.volume_binding.pod_volumes import is_claimed_by
from tests.core import test_volume_writes, test_volumes


def on_volume_rig(test: Callable[..., None], *given: object) -> Callable[[], None]:
    """A test of volumes in the core, with a rig of its own."""
    return lambda: test(test_volumes.rig_with(VolumeBinding()), *given)


def on_writes_rig(test: Callable[..., None]) -> Callable[[], None]:
    """A test of the writes alone."""
    return lambda: test(test_volume_writes.rig_that_promises())


def unknown_volume_write_counts_as_failed(patch):
    original = volume_writes.VolumeWrites._answered

    def answered(self, write, answer):
        if isinstance(answer, WriteOutcomeUnknown):
            self._settle(write, WriteRejected(answer.id, 500, "InternalError", "not written"))
        else:
            original(self, write, answer)

    patch.setattr(volume_writes.VolumeWrites, "_answered", answered)


def volume_conflicts_settle_unseen(patch):
    """Who is refused decides anew on what it saw before."""
    patch.setattr(volume_writes.VolumeWrites, "_look", lambda self, write, answer: self._overtaken(write))


def unknown_volume_writes_are_forgotten(patch):
    original = volume_writes.VolumeWrites.__init__

    def init(self, *args):
        original(self, *args)
        self._retry = lambda *_, **__: None

    patch.setattr(volume_writes.VolumeWrites, "__init__", init)


def given_up_pods_keep_their_volumes(patch):
    """A volume is promised in memory for ever."""
    patch.setattr(volume_overlay.VolumeOverlay, "release", lambda self, pod: [])


def volume_hold_ends_when_pod_is_given_up(patch):
    """While its write may still land."""
    original = binding_cycle.BindingCycles._give_up

    def give_up(self, binding, failure):
        self._stakes._volumes.release(binding.pod.uid)
        original(self, binding, failure)

    patch.setattr(binding_cycle.BindingCycles, "_give_up", give_up)


def any_change_ends_a_volume_hold(patch):
    """As upstream's cache of assumed volumes has it."""

    def observe(self, key):
        if key in self._holds:
            self._drop(key)

    patch.setattr(volume_overlay.VolumeOverlay, "observe", observe)


def volumes_are_promised_twice(patch):
    """Who holds a volume is not looked at, and whoever has got it meanwhile is written over."""
    original = pre_bind._of_volume

    def of_volume(goal, node, view):
        stored, claim = view.storage.stored_volume(goal.volume), view.storage.stored_claim(goal.claim)
        if stored is not None and claim is not None and not is_claimed_by(stored, claim):
            return pre_bind._promise(goal, stored, claim)
        return original(goal, node, view)

    hold = volume_overlay.VolumeOverlay.hold
    patch.setattr(
        volume_overlay.VolumeOverlay,
        "hold",
        lambda self, pod, objects: hold(self, pod, [one for one in objects if isinstance(one, PersistentVolumeClaim)]),
    )
    patch.setattr(pre_bind, "_of_volume", of_volume)


def failed_provisioning_is_waited_for(patch):
    """A node that is selected no more leaves the pod where it is."""
    original = pre_bind._of_claim

    def of_claim(goal, node, view):
        found = original(goal, node, view)
        return pre_bind.Missing(goal.claim.name, "its volume") if isinstance(found, str) else found

    patch.setattr(pre_bind, "_of_claim", of_claim)


def selects_a_node_where_one_is_selected(patch):
    """What other pods wait for is moved away."""
    original = pre_bind._of_claim

    def of_claim(goal, node, view):
        stored = view.storage.stored_claim(goal.claim)
        if stored is not None and stored.annotations.get(SELECTED_NODE) not in (None, node.name):
            return SelectNode(goal.claim, goal.uid, stored.revision, node.name)
        return original(goal, node, view)

    patch.setattr(pre_bind, "_of_claim", of_claim)


def binds_before_the_claim_is_bound(patch):
    patch.setattr(pre_bind, "_unbound", lambda claim, text: None)


def every_node_reaches_every_volume(patch):
    patch.setattr(volume_matching, "is_reachable", lambda volume, node, csi_node: True)
    patch.setattr(pre_bind, "is_reachable", lambda volume, node, csi_node: True)
    patch.setattr(volume_matching, "_is_matched", lambda affinity, labels: True)


def host_ports_are_not_looked_at(patch):
    patch.setattr(node_ports.NodePorts, "filter", lambda self, cycle, node, view: SUCCESS)


def anti_affinity_is_not_looked_at(patch):
    original = inter_pod_affinity.InterPodAffinity.filter_fact

    def filter_fact(self, cycle, fact, view):
        status = original(self, cycle, fact, view)
        is_anti = {inter_pod_affinity.REASON_ANTI_AFFINITY, inter_pod_affinity.REASON_EXISTING} & set(status.reasons)
        return SUCCESS if is_anti else status

    patch.setattr(inter_pod_affinity.InterPodAffinity, "filter_fact", filter_fact)
