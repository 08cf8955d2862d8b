"""UnsupportedFields: which fields of a pod are refused (none is left), what is said of one, and what lifts it."""

from __future__ import annotations

import pytest

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.status import Code
from scheduler.model.unsupported_fields import FIELDS, FieldUse, unsupported_fields
from scheduler.plugins import unsupported_fields as module
from scheduler.plugins.unsupported_fields import UnsupportedFields
from tests.plugins.cluster import Cluster, cycle_of
from tests.plugins.objects import pod

VIEW = Cluster()
TERM = {"topologyKey": "kubernetes.io/hostname"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LOOKED_AT = {
    "affinity": {"podAffinity": {REQUIRED: [TERM]}, "podAntiAffinity": {REQUIRED: [TERM]}},
    "topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}],
    "volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}, {"name": "b", "rbd": {}}],
}


def test_nothing_of_a_pod_is_refused() -> None:
    assert FIELDS == {}
    assert unsupported_fields(pod(**LOOKED_AT)) == ()
    assert UnsupportedFields().pre_filter(cycle_of(pod(**LOOKED_AT)), VIEW).status.is_success


@pytest.fixture
def fields(monkeypatch) -> None:
    """Two fields of a pod that nobody reads."""
    uses = (FieldUse("rbd", "spec.volumes[1].rbd"), FieldUse("cinder", "spec.volumes[2].cinder"))
    monkeypatch.setattr(module, "unsupported_fields", lambda one: uses if one.spec.volumes else ())


@pytest.mark.usefixtures("fields")
def test_the_verdict_names_each_field_and_what_to_do() -> None:
    status = UnsupportedFields().pre_filter(cycle_of(pod(**LOOKED_AT)), VIEW).status
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == (
        "spec.volumes[1].rbd and spec.volumes[2].cinder are not looked at by this scheduler; name another "
        "schedulerName, or have its configuration say ignoredPodFields: [rbd, cinder]"
    )


@pytest.mark.usefixtures("fields")
def test_ignored_fields_are_not_in_the_verdict() -> None:
    def message(*ignored):
        plugin = UnsupportedFields(ignored=frozenset(ignored))
        return plugin.pre_filter(cycle_of(pod(**LOOKED_AT)), VIEW).status.message

    assert message("rbd").startswith("spec.volumes[2].cinder is not looked at by this scheduler;")
    assert message("rbd", "cinder") == message("*") == ""


@pytest.mark.usefixtures("fields")
def test_only_the_pods_own_change_wakes_it_and_only_when_nothing_is_left() -> None:
    plugin, refused = UnsupportedFields(), pod(**LOOKED_AT)
    for changed, hint in ((pod(), Hint.QUEUE), (refused, Hint.SKIP), (pod("other"), Hint.SKIP)):
        change = ClusterEvent(Resource.POD, Action.UPDATE_POD_LABEL, refused, changed)
        assert plugin.hint(refused, change, VIEW) is hint
