"""The configuration file: what is accepted, and the text of every complaint."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from scheduler.config import Config, ProfileConfig
from scheduler.config.file import ConfigError, parse_config, read_config

ROOT = Path(__file__).resolve().parents[2]
HEAD = "apiVersion: dra-scheduler/v1alpha1\nkind: DraSchedulerConfiguration\n"


@pytest.fixture
def config_file(tmp_path, monkeypatch):
    """Writes `config.yaml` into the working directory and gives its name."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        (tmp_path / "config.yaml").write_text(text)
        return "config.yaml"

    return write


def test_defaults_are_upstreams():
    config = Config()

    assert config.scheduler_names == ("dra-scheduler",)
    assert config.core_settings().backoff_ms_initial == 1000
    assert config.core_settings().backoff_ms_max == 10_000
    assert config.core_settings().unschedulable_ms_max == 300_000
    assert config.health_port == 10259
    election = config.leader_election
    assert (election.leader_elect, election.lease_duration, election.renew_deadline) == (True, 15.0, 10.0)
    assert (election.retry_period, election.resource_namespace) == (2.0, None)


def test_each_scheduler_name_has_its_lease():
    config = Config(profiles=(ProfileConfig(scheduler_name="a"), ProfileConfig(scheduler_name="b")))

    assert config.lease_names == ("a", "b")


def test_everything_can_be_set(config_file):
    path = config_file(
        HEAD
        + """
profiles:
  - schedulerName: gpu-scheduler
    pluginConfig:
      - name: DynamicResources
        args: {bindingTimeout: 5m, searchSteps: 1000}
  - schedulerName: batch.example.com
nodes: pool in (gpu, big), !spot
slices: driver=gpu.example.com
leaderElection:
  leaseDuration: 1m
  renewDeadline: 40s
  retryPeriod: 500ms
  resourceLock: leases
  resourceName: gpus
  resourceNamespace: team
healthPort: null
healthAddress: 0.0.0.0
writesInFlight: 64
requestTimeout: 1m30s
watchInactivity: 90s
eventsPerSecond: 50
eventsBurst: 100
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
podMaxInUnschedulablePodsDuration: 2m
kubernetes: "1.37"
featureGates:
  DRAConsumableCapacity: false
"""
    )
    config = read_config(path).config

    assert config.scheduler_names == ("gpu-scheduler", "batch.example.com")
    args = [profile.dynamic_resources for profile in config.profiles]
    assert [(one.binding_timeout, one.search_steps) for one in args] == [(300.0, 1000), (600.0, 200_000)]
    assert config.node_selector.matches({"pool": "big"})
    assert not config.node_selector.matches({"pool": "big", "spot": ""})
    assert config.slice_selector.matches({"driver": "gpu.example.com", "pool": "a"})
    election = config.leader_election
    assert (election.leader_elect, config.lease_names, election.resource_namespace) == (True, ("gpus",), "team")
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == (60.0, 40.0, 0.5)
    assert config.health_port is None
    assert (config.request_timeout, config.watch_inactivity) == (90.0, 90.0)
    assert config.core_settings().unschedulable_ms_max == 120_000
    features = config.features()
    assert (features.consumable_capacity, features.device_taints, features.kubernetes) == (False, True, "1.37")


def test_shipped_configuration_is_accepted(config_file):
    manifest = yaml.safe_load((ROOT / "manifests" / "base" / "configmap.yaml").read_text())
    config = read_config(config_file(manifest["data"]["config.yaml"])).config

    assert config.scheduler_names == ("dra-scheduler",)
    assert config.health_port == 10259


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "---\n"])
def test_empty_file_sets_nothing(config_file, text):
    assert read_config(config_file(text)).config == Config()


def test_python_names_serve_in_code():
    assert Config(health_port=None, profiles=(ProfileConfig(scheduler_name="a"),)).scheduler_names == ("a",)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(
            HEAD + "writesInFligth: 3\n",
            'config.yaml:3:1: writesInFligth: unknown field; did you mean "writesInFlight"?',
            id="misspelt-field",
        ),
        pytest.param(
            HEAD + "profiles:\n  - schedulerNam: x\n",
            'config.yaml:4:5: profiles[0].schedulerNam: unknown field; did you mean "schedulerName"?',
            id="misspelt-field-below",
        ),
        pytest.param(
            HEAD + "profiles:\n  - pluginConfig:\n      - name: DynamicResources\n        args: {bindingTimeuot: 5m}\n",
            "config.yaml:6:16: profiles[0].pluginConfig[0].args.bindingTimeuot: unknown field; "
            'did you mean "bindingTimeout"?',
            id="plugin-arguments",
        ),
        pytest.param(
            HEAD + "writesInFlight: '3'\n",
            "config.yaml:3:1: writesInFlight: input should be a valid integer",
            id="number-as-text",
        ),
        pytest.param(
            HEAD + "requestTimeout: soon\n",
            'config.yaml:3:1: requestTimeout: a duration is needed, such as "15s" or "2m30s"',
            id="not-a-duration",
        ),
        pytest.param(
            HEAD + "leaderElection: {leaderElects: true}\n",
            'config.yaml:3:18: leaderElection.leaderElects: unknown field; did you mean "leaderElect"?',
            id="misspelt-election",
        ),
        pytest.param(
            HEAD + "leaderElection: {leaseDuration: 10s}\n",
            'config.yaml:3:18: leaderElection.leaseDuration: Invalid value: "10s": must be greater than',
            id="lease-ends-before-its-holder",
        ),
        pytest.param(
            HEAD + "leaderElection: {renewDeadline: 2400ms}\n",
            'config.yaml:3:18: leaderElection.renewDeadline: Invalid value: "2.4s": must be greater than retry',
            id="no-time-to-try-again",
        ),
        pytest.param(
            HEAD + "leaderElection: {leaseDuration: 15500ms}\n",
            'config.yaml:3:18: leaderElection.leaseDuration: Invalid value: "15.5s": must be whole seconds',
            id="lease-of-half-a-second",
        ),
        pytest.param(
            HEAD + "leaderElection: {retryPeriod: 0s}\n",
            'config.yaml:3:18: leaderElection.retryPeriod: Invalid value: "0s": must be greater than zero',
            id="no-retry-period",
        ),
        pytest.param(
            HEAD + "leaderElection: {resourceName: No Good}\n",
            "config.yaml:3:18: leaderElection.resourceName: a DNS subdomain is needed",
            id="lease-name",
        ),
        pytest.param(
            HEAD + "healthPort: 70000\n",
            "config.yaml:3:1: healthPort: input should be less than or equal to 65535",
            id="port-out-of-range",
        ),
        pytest.param(
            HEAD + "podInitialBackoffSeconds: 30\n",
            "config.yaml:3:1: podMaxBackoffSeconds: Invalid value: 10: must not be less than",
            id="across-fields",
        ),
        pytest.param(
            HEAD + "featureGates: {DRAConsumableCapacit: true}\n",
            'config.yaml:3:16: featureGates.DRAConsumableCapacit: Invalid value: "DRAConsumableCapacit": unknown',
            id="unknown-gate",
        ),
        pytest.param(
            HEAD + "profiles: [{schedulerName: a}, {schedulerName: a}]\n",
            'config.yaml:3:33: profiles[1].schedulerName: Duplicate value: "a"',
            id="name-twice",
        ),
        pytest.param(
            HEAD + "profiles: [{schedulerName: 'No good'}]\n",
            "config.yaml:3:13: profiles[0].schedulerName: a DNS subdomain is needed",
            id="not-a-dns-name",
        ),
        pytest.param(
            "apiVersion: v1\nkind: DraSchedulerConfiguraton\n",
            'config.yaml:2:1: kind: no configuration of a scheduler; did you mean "DraSchedulerConfiguration"?',
            id="misspelt-kind",
        ),
        pytest.param(
            "apiVersion: dra-scheduler/v1\nkind: DraSchedulerConfiguration\n",
            "config.yaml:1:1: apiVersion: input should be 'dra-scheduler/v1alpha1'",
            id="another-version",
        ),
        pytest.param(
            "writesInFlight: 3\n",
            "config.yaml:1:1: a mapping is needed that begins with apiVersion: dra-scheduler/v1alpha1, kind: ",
            id="without-a-kind",
        ),
        pytest.param(
            HEAD + "profiles: []\n",
            "config.yaml:3:1: profiles: Required value: at least",
            id="no-profile",
        ),
        pytest.param("- a\n", "config.yaml:1:1: a mapping is needed that begins with apiVersion", id="a-list"),
        pytest.param(
            HEAD + "profiles: [\n",
            "config.yaml:4:1: no valid YAML: while parsing a flow node",
            id="no-yaml",
        ),
        pytest.param(HEAD + "nodes: pool=gpu,\n", "config.yaml:3:1: nodes: cannot read 'the end' at", id="nodes"),
        pytest.param(HEAD + "slices: zone=a\n", "config.yaml:3:1: slices: unknown key 'zone': slices", id="slices"),
    ],
)
def test_complaints_name_the_place_and_the_cure(config_file, text, complaint):
    with pytest.raises(ConfigError) as raised:
        read_config(config_file(text))

    assert str(raised.value).startswith(complaint)


def test_all_problems_are_told_at_once_in_the_order_of_the_file(config_file):
    with pytest.raises(ConfigError) as raised:
        read_config(config_file(HEAD + "writesInFlight: no\nrequestTimeout: soon\n"))

    assert [line.split(": ")[0] for line in str(raised.value).splitlines()] == ["config.yaml:3:1", "config.yaml:4:1"]


def test_file_that_is_no_text(config_file):
    Path(config_file("")).write_bytes(b"\x7fELF\x02\x01\xff\xfe")

    with pytest.raises(ConfigError, match=r"^config.yaml: not UTF-8 text \(byte 6\): is this a configuration file\?$"):
        read_config("config.yaml")


def test_file_that_is_not_there(config_file):
    with pytest.raises(ConfigError, match=r"^missing.yaml: No such file or directory$"):
        read_config("missing.yaml")


@pytest.mark.parametrize(
    ("text", "seconds"), [("15s", 15), ("2m30s", 150), ("1h", 3600), ("0.5h", 1800), ("1500ms", 1.5), (7, 7)]
)
def test_durations(text, seconds):
    assert Config.model_validate({"watchInactivity": text}).watch_inactivity == pytest.approx(seconds)


def _complaints(text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        parse_config(text, "f")
    return str(raised.value).splitlines()


UPSTREAM_HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_all_findings_of_a_file_are_told_together():
    text = f"""{UPSTREAM_HEAD}paralelism: 3
leaderElection: {{leaderElects: true, leaseDuration: 5s}}
podMaxBackoffSeconds: ten
profiles:
- schedulerName: a
  plugin: {{}}
  plugins: {{score: {{enabled: [{{name: NodeAfinity}}]}}}}
  pluginConfig:
  - name: VolumeBinding
    args: {{bindTimeoutSeconds: -1}}
  - name: InterPodAffinity
    args: {{hardPodAffinityWeight: 101, nothing: 1}}
"""
    assert [":".join(line.split(": ")[:2]) for line in _complaints(text)] == [
        "f:3:1:paralelism",
        "f:4:18:leaderElection.leaderElects",
        "f:4:38:leaderElection.leaseDuration",
        "f:5:1:podMaxBackoffSeconds",
        "f:8:3:profiles[0].plugin",
        "f:9:32:profiles[0].plugins.score.enabled[0].name",
        "f:12:12:profiles[0].pluginConfig[0].args.bindTimeoutSeconds",
        "f:14:12:profiles[0].pluginConfig[1].args.hardPodAffinityWeight",
        "f:14:40:profiles[0].pluginConfig[1].args.nothing",
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("leaderElection: {leaseDuration: 5s, renewDeadline: soon}\n", id="the-other-field-is-wrong"),
        pytest.param("podInitialBackoffSeconds: 30\npodMaxBackoffSeconds: x\n", id="its-default-would-be-too-small"),
        pytest.param("profiles: [{schedulerName: 1}, {schedulerName: dra-scheduler}]\n", id="two-would-have-one-name"),
        pytest.param(
            "profiles:\n- schedulerName: a\n  plugins: {queueSort: {enabled: [{name: Priority}]}}\n"
            "- schedulerName: b\n  plugins: {queueSort: {enabled: [{name: PrioritySort}]}}\n",
            id="sorting-compared-with-what-was-taken-out",
        ),
    ],
)
def test_what_may_follow_from_another_finding_is_not_told(text):
    assert len(_complaints(UPSTREAM_HEAD + text)) == 1


def test_disabled_plugins_that_do_not_exist_get_a_word():
    text = f"""{UPSTREAM_HEAD}profiles:
- schedulerName: a
  plugins:
    score: {{disabled: [{{name: ImageLocalty}}, {{name: NodeName}}, {{name: "*"}}]}}
    multiPoint: {{disabled: [{{name: SelectorSpread}}, {{name: ImageLocality}}]}}
"""
    words = [word.removeprefix("f:") for word in parse_config(text, "f").words]
    assert words == [
        "6:25: profiles[0].plugins.score.disabled[0].name switches nothing off: there is no plugin ImageLocalty; "
        'did you mean "ImageLocality"?',
        "6:47: profiles[0].plugins.score.disabled[1].name switches nothing off: NodeName is not called there, but at "
        "filter",
        "7:30: profiles[0].plugins.multiPoint.disabled[0].name switches nothing off: there is no plugin "
        "SelectorSpread any more; instead: PodTopologySpread",
    ]
