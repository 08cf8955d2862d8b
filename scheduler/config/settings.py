"""All settings of the live scheduler, with their defaults.

Rules of this module
  1. What kube-scheduler's configuration has too has its name, shape, default and rules.

Not here: reading them from a file (`file`), what is said about fields without effect (`words`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import Field

from allocator import NEWEST_RELEASE, Features
from scheduler.config.fields import (
    NodeSelectorText,
    Seconds,
    Section,
    SliceSelectorText,
    suggestion,
)
from scheduler.config.plugin_args import VolumeBindingArgs
from scheduler.config.profile_config import ProfileConfig
from scheduler.config.sections import ClientConnection, Extender, LeaderElection, Serving, extender_errors
from scheduler.core.ground.core_settings import CoreSettings
from scheduler.core.scheduling_cycle import PREEMPTION
from scheduler.model.api_rules import FIELD_BY_GATE, LOCKED_GATES
from scheduler.model.label_selectors import TextSelector, parse_label_selector, parse_slice_selector
from scheduler.model.resources import is_extended_resource
from scheduler.model.stacks import Mode, Stacks
from scheduler.validation.field_errors import FieldError, duplicate, forbidden, invalid, required

API_VERSION: Final = "dra-scheduler/v1alpha1"
KIND: Final = "DraSchedulerConfiguration"
UPSTREAM_API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
UPSTREAM_KIND: Final = "KubeSchedulerConfiguration"
TOPOLOGY_GATE: Final = "TopologyAwareWorkloadScheduling"  # groups are placed by topology with and without it
_PERCENTAGE: Final = "percentage_of_placements_to_score"
_SINCE: Final = {_PERCENTAGE: "1.38", "placement_feasible": "1.38", "pod_group_post_filter": "1.37"}


class Config(Section):
    """All settings of the live scheduler.

    Attributes:
        profiles: The scheduler names we answer to, each with its plugins.
        percentage_of_nodes_to_score: When to stop looking for nodes that fit, in percent of all; 0 or None: as soon as
            100 are known.
        percentage_of_placements_to_score: Since 1.38; it has no effect here: all placements are looked at.
        leader_election: Which process of this scheduler name may write.
        client_connection: Where no option says how to connect.
        parallelism, enable_profiling, enable_contention_profiling, delay_cache_until_active, extenders: Of
            kube-scheduler; it has no effect here, and the start says so.
        nodes: Label selector of the nodes this scheduler may use, None for all.
        slices: Selector, by `driver` and `pool`, of the ResourceSlices it may allocate from, None for all.
        health_port: Port of /livez, /readyz and /metrics; 0 takes a free one, None serves nothing.
        health_address: None: all addresses in a pod, loopback elsewhere.
        serving: Certificates, and who may read what is served there.
        writes_in_flight: Requests sent at once, at most three quarters of them for one namespace (upstream's
            `parallelism` has no counterpart: deciding has one thread).
        request_timeout: After it the outcome of a write is unknown.
        watch_inactivity: A watch silent for so long is cut; servers send bookmarks every minute.
        not_ready_after: /readyz fails when some kind has not been heard of for so long; None: 20 s after its watch was
            cut for silence.
        not_alive_after: /livez fails when the API server has not been heard of at all for so long; None: never.
        events_per_second, events_burst: What is beyond is delayed, then dropped.
        pod_initial_backoff_seconds: How long a pod waits after its first failed attempt; doubled with each.
        pod_max_backoff_seconds: The longest wait between two attempts.
        pod_max_in_unschedulable_pods_duration: After so long a pod is tried again though nothing has changed.
        remembered_bytes: About so many bytes may be remembered to answer sooner; None: 32 MiB and 48 KiB for each node,
            512 MiB at most.
        report_causes: After kube-scheduler's sentence, events and conditions say why a pod fits no node.
        two_stacks: Nodes where a device plugin and a DRA driver serve the same devices: `refuse` gives claims none of
            them, `leave` as many as the plugin's pods leave, `ignore` says that they are others.
        device_resources: The DeviceClass of the devices that a plugin serves, by its resource, for classes without
            `extendedResourceName`.
        metrics_node_label: Label of nodes by whose value the metrics split devices into node pools; None: not split.
        kubernetes: The release to follow where releases differ; None: the API server's.
        feature_gates: Upstream's names of the DRA gates; they switch the allocator's code paths.
        is_paranoid: Compare every remembered verdict with a fresh one; slow.
        checks_invariants: Check the whole state after each input; very slow, for tests.
        tune_gc: Adapt the process's garbage collector to a large cache; for processes that are ours alone.
        preflight: Check server version, API and permissions at the start.
    """

    api_version: Literal["dra-scheduler/v1alpha1"] = "dra-scheduler/v1alpha1"
    kind: Literal["DraSchedulerConfiguration"] = "DraSchedulerConfiguration"
    profiles: Annotated[tuple[ProfileConfig, ...], Field(strict=False)] = (ProfileConfig(),)
    percentage_of_nodes_to_score: Annotated[int, Field(ge=0, le=100)] | None = None
    percentage_of_placements_to_score: Annotated[int, Field(ge=0, le=100)] | None = None
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    parallelism: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    delay_cache_until_active: bool = False
    extenders: Annotated[tuple[Extender, ...], Field(strict=False)] = ()
    nodes: NodeSelectorText | None = None
    slices: SliceSelectorText | None = None
    health_port: Annotated[int, Field(ge=0, le=65535)] | None = 10259
    health_address: str | None = None
    serving: Serving = Serving()
    writes_in_flight: Annotated[int, Field(ge=1, le=1000)] = 64
    request_timeout: Annotated[Seconds, Field(ge=0.1, le=600)] = 15.0
    watch_inactivity: Annotated[Seconds, Field(ge=1, le=3600)] = 70.0
    not_ready_after: Annotated[Seconds, Field(ge=1)] | None = None
    not_alive_after: Annotated[Seconds, Field(ge=1)] | None = 600.0
    events_per_second: Annotated[float, Field(gt=0, le=10_000, strict=False)] = 200.0
    events_burst: Annotated[int, Field(ge=1, le=100_000)] = 500
    pod_initial_backoff_seconds: Annotated[int, Field(ge=1)] = 1
    pod_max_backoff_seconds: Annotated[int, Field(ge=1)] = 10
    pod_max_in_unschedulable_pods_duration: Annotated[Seconds, Field(ge=1)] = 300.0
    remembered_bytes: Annotated[int, Field(ge=1_000_000)] | None = None
    report_causes: bool = True
    two_stacks: Mode = "refuse"
    device_resources: dict[str, str] = Field(default_factory=dict)
    metrics_node_label: str | None = None
    kubernetes: Literal["1.36", "1.37", "1.38"] | None = None
    feature_gates: dict[str, bool] = Field(default_factory=dict)
    is_paranoid: bool = Field(default=False, alias="paranoid")
    checks_invariants: bool = False
    tune_gc: bool = False
    preflight: bool = True

    def _errors(self) -> Iterator[FieldError]:
        least = self.pod_initial_backoff_seconds
        if self.pod_max_backoff_seconds < least:
            text = f"must not be less than podInitialBackoffSeconds, {least}"
            yield invalid("podMaxBackoffSeconds", self.pod_max_backoff_seconds, text)
        if not self.profiles:
            yield required("profiles", "at least one is needed")
        seen = set()
        for index, profile in enumerate(self.profiles):
            path = f"profiles[{index}].schedulerName"
            if len(self.profiles) > 1 and "scheduler_name" not in profile.model_fields_set:
                yield required(path, "of several profiles each has its own")
            elif profile.scheduler_name in seen:
                yield duplicate(path, profile.scheduler_name)
            seen.add(profile.scheduler_name)
            if profile.queue_sort() != self.profiles[0].queue_sort():
                yield invalid(f"profiles[{index}].plugins.queueSort", None, "must be the same for all profiles")
        for resource in self.device_resources:
            if not is_extended_resource(resource):
                yield invalid(
                    f"deviceResources.{resource}", resource, "must be an extended resource, as vendor.com/gpu"
                )
        for gate in self.feature_gates:
            if gate not in FIELD_BY_GATE and gate != TOPOLOGY_GATE:
                yield invalid(f"featureGates.{gate}", gate, f"unknown gate{suggestion(gate, FIELD_BY_GATE)}")
        yield from extender_errors(self.extenders)
        if self.kubernetes is not None:
            yield from self.missing_in(self.kubernetes)

    def missing_in(self, release: str) -> Iterator[FieldError]:
        """What is written that this release does not have, in upstream's words."""
        text = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        for index, profile in enumerate(self.profiles if release == "1.36" else ()):
            for at, one in enumerate(profile.plugin_config):
                if isinstance(one.args, VolumeBindingArgs) and one.args.scoring_shape:
                    shape = [point.model_dump(by_alias=True) for point in one.args.scoring_shape]
                    yield invalid(f"profiles[{index}].pluginConfig[{at}].args.shape", shape, text)
        of_profiles = [(f"profiles[{index}].", one) for index, one in enumerate(self.profiles)]
        of_plugins = [(f"{path}plugins.", one.plugins) for path, one in of_profiles if one.plugins is not None]
        for path, section in (("", self), *of_profiles, *of_plugins):
            for name in (name for name in _SINCE if getattr(section, name, None) is not None):
                field = f"{path}{type(section).model_fields[name].alias}"
                if release < _SINCE[name]:
                    yield forbidden(field, f"it is there since Kubernetes {_SINCE[name]}")
                elif name == _PERCENTAGE and not self.feature_gates.get(TOPOLOGY_GATE):
                    yield forbidden(field, f"it requires {TOPOLOGY_GATE} feature gate to be enabled")
        for gate in self._locked_in(release):
            yield invalid(f"featureGates.{gate}", False, f"it is locked to true since Kubernetes {release}")

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        return tuple(profile.scheduler_name for profile in self.profiles)

    @property
    def lease_names(self) -> tuple[str, ...]:
        """The leases to be held: processes that have one scheduler name in common exclude each other."""
        return (self.leader_election.resource_name,) if self.leader_election.resource_name else self.scheduler_names

    @property
    def preempts(self) -> bool:
        """Whether pods may be removed for others: the plugin is on in some profile."""
        return any(PREEMPTION in profile.expanded().names for profile in self.profiles)

    @property
    def ready_silence_s(self) -> float:
        """For how long a kind may be silent before /readyz fails; at least until its watch is cut for that."""
        if self.not_ready_after is None:
            return self.watch_inactivity + 20.0
        return max(self.not_ready_after, self.watch_inactivity)

    @property
    def alive_silence_s(self) -> float | None:
        """The same of the API server as a whole and /livez, which does not fail before /readyz."""
        return None if self.not_alive_after is None else max(self.not_alive_after, self.ready_silence_s)

    @property
    def node_selector(self) -> TextSelector | None:
        return parse_label_selector(self.nodes) if self.nodes is not None else None

    @property
    def slice_selector(self) -> TextSelector | None:
        return parse_slice_selector(self.slices) if self.slices is not None else None

    def features(self, release: str = NEWEST_RELEASE) -> Features:
        """The allocator's code paths, for a server that is to be followed as this release."""
        followed = self.kubernetes or release
        without = {TOPOLOGY_GATE, *self._locked_in(followed)}
        gates = {FIELD_BY_GATE[gate]: is_on for gate, is_on in self.feature_gates.items() if gate not in without}
        return Features(**gates, kubernetes=followed)

    def _locked_in(self, release: str) -> list[str]:
        """The gates that are written as off, and that nobody can turn off there."""
        locked = LOCKED_GATES.get(release, frozenset())
        return sorted(gate for gate, is_on in self.feature_gates.items() if gate in locked and not is_on)

    def core_settings(self) -> CoreSettings:
        """The machine's settings, in its units."""
        return CoreSettings(
            backoff_ms_initial=self.pod_initial_backoff_seconds * 1000,
            backoff_ms_max=self.pod_max_backoff_seconds * 1000,
            unschedulable_ms_max=int(self.pod_max_in_unschedulable_pods_duration * 1000),
            remembered_bytes_max=self.remembered_bytes,
            reports_causes=self.report_causes,
            stacks=Stacks(self.two_stacks, self.device_resources),
            is_paranoid=self.is_paranoid,
            checks_invariants=self.checks_invariants,
        )
