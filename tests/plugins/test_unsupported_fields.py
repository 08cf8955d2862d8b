"""UnsupportedFields: which fields of a pod are refused, what is said, and what lifts it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from scheduler.config import Config, ConfigError, load_config
from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.status import Code
from scheduler.model.objects import Pod, Volume
from scheduler.model.unsupported_fields import FIELDS, FieldUse, unsupported_fields
from scheduler.plugins import default_plugins
from scheduler.plugins.unsupported_fields import UnsupportedFields
from tests import builders
from tests.core.rig import Rig
from tests.plugins.cluster import Cluster, cycle_of
from tests.plugins.objects import pod

ROOT = Path(__file__).resolve().parents[2]
VIEW = Cluster()
TERM = {"topologyKey": "kubernetes.io/hostname"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def volumes(*sources):
    return {"volumes": [{"name": f"v{index}", **source} for index, source in enumerate(sources)]}


USED = {
    **{
        source: (volumes({"emptyDir": {}}, {source: {"claimName": "x"}}), source)
        for source in (
            *("persistentVolumeClaim", "ephemeral", "awsElasticBlockStore", "azureDisk", "azureFile", "cinder"),
            *("gcePersistentDisk", "iscsi", "portworxVolume", "rbd", "vsphereVolume"),
        )
    },
}
UNUSED = {
    "nothing": {},
    "node-affinity": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
    "pod-affinity": {"affinity": {"podAffinity": {REQUIRED: [TERM]}, "podAntiAffinity": {REQUIRED: [TERM]}}},
    "empty-lists": {
        **{"volumes": [], "containers": [{"name": "c", "ports": None}]},
    },
    "nulls": {"affinity": {"podAffinity": None}, "volumes": None},
    "spread": {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
    "volumes-of-the-node-or-the-api": volumes(
        {"emptyDir": {}}, {"configMap": {"name": "a"}}, {"secret": {"secretName": "a"}}, {"projected": {"sources": []}},
        {"hostPath": {"path": "/x"}}, {"downwardAPI": {}}, {"nfs": {"path": "/"}}, {"csi": {"driver": "s.example.com"}},
        {"image": {"reference": "model:1"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", USED)
def test_a_required_field_is_found(case) -> None:
    spec, name = USED[case]
    (found,) = unsupported_fields(pod(**spec))

    assert found.name == name
    assert re.fullmatch(r"spec(\.\w+(\[\d+\])?)+", found.path)
    assert f"{name}" in found.path


@pytest.mark.parametrize("case", UNUSED)
def test_what_is_looked_at_or_only_preferred_is_not_found(case) -> None:
    assert unsupported_fields(pod(**UNUSED[case])) == ()


def test_every_field_of_the_table_has_a_case() -> None:
    assert {name for _, name in USED.values()} == FIELDS.keys()


def test_every_volume_source_of_the_model_is_one_of_the_table() -> None:
    assert {field.encode_name for field in msgspec.structs.fields(Volume)} - {"name", "image"} <= FIELDS.keys()


def test_each_field_is_named_once_where_it_first_is() -> None:
    spec = volumes({"rbd": {}}, *[{"persistentVolumeClaim": {}}] * 3)

    assert unsupported_fields(pod(**spec)) == (
        FieldUse("persistentVolumeClaim", "spec.volumes[1].persistentVolumeClaim"),
        FieldUse("rbd", "spec.volumes[0].rbd"),
    )


def test_the_verdict_names_each_field_and_what_to_do() -> None:
    spec = volumes({"rbd": {}}, {"iscsi": {}})
    status = UnsupportedFields().pre_filter(cycle_of(pod(**spec)), VIEW).status

    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == (
        "spec.volumes[1].iscsi and spec.volumes[0].rbd are not looked at by this scheduler; name another "
        "schedulerName, or have its configuration say ignoredPodFields: [iscsi, rbd]"
    )


def test_ignored_fields_are_not_in_the_verdict() -> None:
    spec = volumes({"rbd": {}}, {"iscsi": {}})

    def message(*ignored):
        return UnsupportedFields(ignored=frozenset(ignored)).pre_filter(cycle_of(pod(**spec)), VIEW).status.message

    assert message("rbd").startswith("spec.volumes[1].iscsi is not looked at by this scheduler;")
    assert message("rbd", "iscsi") == ""
    assert message("*") == ""


def test_only_the_pods_own_change_wakes_it_and_only_when_nothing_is_left() -> None:
    plugin, refused = UnsupportedFields(), pod(**USED["rbd"][0])
    for changed, hint in ((pod(), Hint.QUEUE), (refused, Hint.SKIP), (pod("other"), Hint.SKIP)):
        change = ClusterEvent(Resource.POD, Action.UPDATE_POD_LABEL, refused, changed)
        assert plugin.hint(refused, change, VIEW) is hint


def test_a_refused_pod_is_told_at_once_and_waits_whatever_happens() -> None:
    rig = Rig(*default_plugins())
    rig.add_nodes("n1")
    rig.add_pod("web", **USED["rbd"][0])
    rig.settle()
    reason, message = rig.condition_of("web")
    told = list(rig.events)
    rig.add_nodes("n2")
    rig.wait(60_000)

    assert reason == "Unschedulable"
    assert message.startswith("0/1 nodes are available: spec.volumes[1].rbd is")
    assert rig.node_of("web") is None
    assert told == [f"FailedScheduling: {message}"] == rig.events


def test_the_configuration_names_fields(tmp_path) -> None:
    path = tmp_path / "config.yaml"

    def load(text):
        path.write_text(f"apiVersion: dra-scheduler/v1alpha1\nkind: DraSchedulerConfiguration\n{text}\n")
        return load_config(path)

    assert load("").ignored_pod_fields == ()
    assert load("ignoredPodFields: [rbd]").ignored_pod_fields == ("rbd",)
    assert load('ignoredPodFields: ["*"]').ignored_pod_fields == ("*",)
    with pytest.raises(ConfigError, match=r':3:\d+: ignoredPodFields.0.: unknown field.*did you mean "rbd"'):
        load("ignoredPodFields: [rbds]")


def test_the_configuration_reaches_the_plugin() -> None:
    from scheduler.app import profile_recipe

    config = Config(ignored_pod_fields=("rbd",))
    plugins = {plugin.name: plugin for plugin in profile_recipe(config.profiles[0], config).profile().plugins}

    plugin = plugins["UnsupportedFields"]
    assert isinstance(plugin, UnsupportedFields)
    assert plugin.ignored == {"rbd"}


def test_the_guide_lists_every_field() -> None:
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")

    assert [name for name in FIELDS if f"`{name}`" not in guide] == []


def test_the_models_pod_is_what_the_api_prints() -> None:
    """The function is called with pods from anywhere: decoded from JSON, or converted from a dict."""
    built = builders.pod_object(**USED["persistentVolumeClaim"][0])

    assert unsupported_fields(msgspec.json.decode(msgspec.json.encode(built), type=Pod))
