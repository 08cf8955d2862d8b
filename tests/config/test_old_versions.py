"""Older versions of kube-scheduler's configuration: brought to v1, with a word for each change."""

from __future__ import annotations

import pytest

from scheduler.config.file import ConfigError, parse_config

HEAD = "apiVersion: kubescheduler.config.k8s.io/{}\nkind: KubeSchedulerConfiguration\n"


def test_v1beta3_is_read():
    text = """profiles:
- schedulerName: old
  plugins: {score: {disabled: [{name: SelectorSpread}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1beta3
      kind: NodeResourcesFitArgs
      scoringStrategy: {type: MostAllocated}
"""
    found = parse_config(HEAD.format("v1beta3") + text, "f.yaml")

    assert found.config.scheduler_names == ("old",)
    places = [line.split(" ", 1)[0] for line in found.words]
    assert places == ["f.yaml:1:13:", "f.yaml:5:39:"]
    assert "kube-scheduler no longer reads" in found.words[0]
    fit = next(plugin for plugin in found.config.profiles[0].profile().plugins if plugin.name == "NodeResourcesFit")
    assert "MostAllocated" in str(fit)


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v2"])
def test_other_versions_are_refused_with_those_that_are_accepted(version):
    with pytest.raises(ConfigError) as raised:
        parse_config(HEAD.format(version) + "schedulerName: s\n", "f.yaml")

    accepted = "kubescheduler.config.k8s.io/v1 or kubescheduler.config.k8s.io/v1beta3"
    assert str(raised.value) == f"f.yaml:1:1: apiVersion: {version} is not accepted: write {accepted}"


@pytest.mark.parametrize(
    ("version", "text", "complaint"),
    [
        ("v1beta3", "parallelizm: 1\n", "f.yaml:3:1: parallelizm: there is no field parallelizm in v1"),
        (
            "v1beta3",
            "profiles: [{plugins: {score: {enabled: [{name: NodeResourcesMostAllocated}]}}}]\n",
            "f.yaml:3:48: profiles[0].plugins.score.enabled[0].name: there is no plugin NodeResourcesMostAllocated any",
        ),
        (
            "v1beta3",
            "podInitialBackoffSeconds: 20\n",
            "f.yaml:3:1: podMaxBackoffSeconds: Invalid value: 10: must not be less than podInitialBackoffSeconds, 20",
        ),
    ],
)
def test_what_has_no_place_in_v1_is_refused(version, text, complaint):
    with pytest.raises(ConfigError) as raised:
        parse_config(HEAD.format(version) + text, "f.yaml")

    assert str(raised.value).startswith(complaint)


def test_one_field_in_both_documents():
    text = HEAD.format("v1") + "podMaxBackoffSeconds: 20\n---\napiVersion: dra-scheduler/v1alpha1\n"
    with pytest.raises(ConfigError) as raised:
        parse_config(text + "kind: DraSchedulerConfiguration\npodMaxBackoffSeconds: 30\n", "f.yaml")

    assert str(raised.value) == "f.yaml:7:1: podMaxBackoffSeconds: is in the other document too: keep one"


def test_two_documents_of_one_kind():
    with pytest.raises(ConfigError, match=r"^f\.yaml:4:1: a second document of kind KubeSchedulerConfiguration"):
        parse_config(HEAD.format("v1") + "---\n" + HEAD.format("v1"), "f.yaml")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("profiles: [{}]\n", "f.yaml:3:12: profiles[0] has no schedulerName: kube-scheduler takes default-scheduler"),
        (
            "profiles: [{schedulerName: default-scheduler}]\n",
            "f.yaml:3:13: profiles[0].schedulerName is kube-",
        ),
        ("extenders: [{urlPrefix: 'http://a'}]\n", "f.yaml:3:1: extenders are never called"),
        ("delayCacheUntilActive: false\n", "f.yaml:3:1: delayCacheUntilActive is always true here"),
        ("clientConnection: {qps: 5}\n", "f.yaml:3:20: clientConnection.qps has no effect"),
        (
            "leaderElection: {resourceName: kube-scheduler}\n",
            "f.yaml:3:18: leaderElection.resourceName is the Lease",
        ),
        (
            "profiles: [{schedulerName: a, pluginConfig: [{name: NodeResourceFit}]}]\n",
            "f.yaml:3:47: profiles[0].pluginConfig[0].name there is no such plugin, its args are not read; did you",
        ),
        (
            "profiles: [{schedulerName: a, plugins: {multiPoint: {disabled: [{name: DynamicResources}]}}}]\n",
            "f.yaml:3:31: profiles[0].plugins DynamicResources is off: pods are bound without the devices they claim",
        ),
        (
            "profiles: [{schedulerName: a, plugins: {preFilter: {disabled: [{name: NodeAffinity}]}}}]\n",
            "f.yaml:3:41: profiles[0].plugins.preFilter without it, filter of NodeAffinity fails for every pod",
        ),
        (
            "profiles: [{schedulerName: a, plugins: {permit: {enabled: [{name: GangScheduling}]}}}]\n",
            "f.yaml:3:61: profiles[0].plugins.permit.enabled[0].name belongs to a feature that is off by default",
        ),
    ],
)
def test_a_word_is_said(text, word):
    assert any(line.startswith(word) for line in parse_config(HEAD.format("v1") + text, "f.yaml").words)


def test_nothing_is_said_of_what_counts():
    text = "profiles: [{schedulerName: a, plugins: {score: {disabled: [{name: '*'}]}}}]\npercentageOfNodesToScore: 5\n"

    assert parse_config(HEAD.format("v1") + text, "f.yaml").words == ()
