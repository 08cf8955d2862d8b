"""Settings: what can be set, its defaults, and the configuration file with errors that name file, line and column.

The file has the shape and the field names of KubeSchedulerConfiguration where it sets the same thing; it has its own
apiVersion because it sets other things too:

    apiVersion: dra-scheduler/v1alpha1
    kind: DraSchedulerConfiguration
    profiles:
      - schedulerName: dra-scheduler
    podInitialBackoffSeconds: 1
    featureGates:
      DRAConsumableCapacity: false

Rules of this module
  1. Unknown fields and wrong types are errors, all of them reported at once, with a suggestion where one is near.
  2. Numbers are not read from strings, as in Go's strict decoding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import yaml
from pydantic import Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from allocator import Features
from scheduler.config.fields import (
    FieldName,
    NodeSelectorText,
    SchedulerName,
    Seconds,
    Section,
    SliceSelectorText,
    suggestion,
)
from scheduler.config.plugin_args import ARGS_BY_PLUGIN, PluginArgs
from scheduler.config.profiles import PluginConfig, PluginsError, ProfileConfig, profile_plugins
from scheduler.core.settings import CoreSettings
from scheduler.model.api_rules import FIELD_BY_GATE
from scheduler.model.label_selectors import TextSelector, parse_label_selector, parse_slice_selector
from scheduler.yaml_reading import Mapping as MappingNode
from scheduler.yaml_reading import Node, Sequence, compose

__all__ = [
    "Config",
    "ConfigError",
    "LeaderElection",
    "PluginsError",
    "ProfileConfig",
    "load_config",
    "profile_plugins",
]

API_VERSION: Final = "dra-scheduler/v1alpha1"
KIND: Final = "DraSchedulerConfiguration"

_JITTER_FACTOR: Final = 1.2  # client-go's


class ConfigError(Exception):
    """The configuration cannot be used; one problem a line, each with file:line:column where there is a file."""


class LeaderElection(Section):
    """Who of several processes schedules; see `kube.lease`. Upstream's fields and defaults, but for the names.

    Attributes:
        lease_duration: How long others wait after the last renewal that they saw.
        renew_deadline: How long after its last renewal the holder goes on.
        retry_period: Between two attempts to take or renew it.
        resource_name: The Lease's name; None: one for each scheduler name, called like it.
        resource_namespace: None: that of the pod we run in, elsewhere kube-system.
    """

    leader_elect: bool = True
    lease_duration: Seconds = 15.0
    renew_deadline: Annotated[Seconds, Field(gt=0)] = 10.0
    retry_period: Annotated[Seconds, Field(gt=0)] = 2.0
    resource_lock: Literal["leases"] = "leases"
    resource_name: SchedulerName | None = None
    resource_namespace: SchedulerName | None = None

    @model_validator(mode="after")
    def _check_times(self) -> LeaderElection:
        if self.lease_duration != int(self.lease_duration) or self.lease_duration < 1:
            raise ValueError("leaseDuration must be whole seconds: that is what the Lease object holds")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= self.retry_period * _JITTER_FACTOR:
            raise ValueError(f"renewDeadline must be greater than retryPeriod * {_JITTER_FACTOR}")
        return self


class Config(Section):
    """All settings of the live scheduler.

    Attributes:
        profiles: The scheduler names we answer to.
        leader_election: Which process of this scheduler name may write.
        nodes: Label selector of the nodes this scheduler may use, None for all.
        slices: Selector, by `driver` and `pool`, of the ResourceSlices it may allocate from, None for all.
        health_port: Port of /livez, /readyz and /metrics; 0 takes a free one, None serves nothing.
        health_address: None: all addresses in a pod, loopback elsewhere.
        writes_in_flight: Requests sent at once, at most three quarters of them for one namespace (upstream's
            `parallelism` has no counterpart: deciding has one thread).
        request_timeout: After it the outcome of a write is unknown.
        watch_inactivity: A watch silent for so long is cut; servers send bookmarks every minute.
        not_ready_after: /readyz fails when some kind has not been heard of for so long; None: 20 s after its watch was
            cut for silence.
        not_alive_after: /livez fails when the API server has not been heard of at all for so long; None: never.
        events_per_second, events_burst: What is beyond is delayed, then dropped.
        ignored_pod_fields: Names of `model.unsupported_fields.FIELDS` that refuse no pod, "*" for all.
        kubernetes: Whose verdicts to match where 1.37 changed them.
        feature_gates: Upstream's names of the DRA gates; they switch the allocator's code paths.
        tune_gc: Adapt the process's garbage collector to a large cache; for processes that are ours alone.
        preflight: Check server version, API and permissions at the start.
    """

    api_version: Literal["dra-scheduler/v1alpha1"] = "dra-scheduler/v1alpha1"
    kind: Literal["DraSchedulerConfiguration"] = "DraSchedulerConfiguration"
    profiles: Annotated[tuple[ProfileConfig, ...], Field(strict=False)] = (ProfileConfig(),)
    leader_election: LeaderElection = LeaderElection()
    nodes: NodeSelectorText | None = None
    slices: SliceSelectorText | None = None
    health_port: Annotated[int, Field(ge=0, le=65535)] | None = 10259
    health_address: str | None = None
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
    ignored_pod_fields: Annotated[tuple[FieldName, ...], Field(strict=False)] = ()
    kubernetes: Literal["1.36", "1.37"] = "1.36"
    feature_gates: dict[str, bool] = Field(default_factory=dict)
    is_paranoid: bool = Field(default=False, alias="paranoid")
    checks_invariants: bool = False
    tune_gc: bool = False
    preflight: bool = True

    @model_validator(mode="after")
    def _check_across_fields(self) -> Config:
        if self.pod_max_backoff_seconds < self.pod_initial_backoff_seconds:
            raise ValueError("podMaxBackoffSeconds must not be less than podInitialBackoffSeconds")
        names = [profile.scheduler_name for profile in self.profiles]
        if not names:
            raise ValueError("profiles: at least one is needed")
        if len(set(names)) != len(names):
            raise ValueError(f"profiles: each schedulerName may occur once, got {', '.join(names)}")
        for gate in self.feature_gates:
            if gate not in FIELD_BY_GATE:
                raise ValueError(f"featureGates: unknown gate {gate!r}{suggestion(gate, FIELD_BY_GATE)}")
        return self

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        return tuple(profile.scheduler_name for profile in self.profiles)

    @property
    def lease_names(self) -> tuple[str, ...]:
        """The leases to be held: processes that have one scheduler name in common exclude each other."""
        return (self.leader_election.resource_name,) if self.leader_election.resource_name else self.scheduler_names

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

    def features(self) -> Features:
        """The allocator's code paths."""
        gates = {FIELD_BY_GATE[gate]: is_on for gate, is_on in self.feature_gates.items()}
        return Features(**gates, kubernetes=self.kubernetes)

    def core_settings(self) -> CoreSettings:
        """The machine's settings, in its units."""
        return CoreSettings(
            backoff_ms_initial=self.pod_initial_backoff_seconds * 1000,
            backoff_ms_max=self.pod_max_backoff_seconds * 1000,
            unschedulable_ms_max=int(self.pod_max_in_unschedulable_pods_duration * 1000),
            is_paranoid=self.is_paranoid,
            checks_invariants=self.checks_invariants,
        )


def load_config(path: str | Path) -> Config:
    """Read a configuration file (YAML or JSON).

    Raises:
        ConfigError: It cannot be read or does not fit; the text has a line for each problem.
    """
    name = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{name}: {reason}") from error
    try:
        root = compose(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ConfigError(f"{name}{place}: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: {error}") from error
    values = root.data if root is not None else None
    if values is None:
        return Config()  # an empty file sets nothing
    if not isinstance(values, dict):
        raise ConfigError(f"{name}:1:1: a mapping is needed that begins with apiVersion: {API_VERSION}, kind: {KIND}")
    missing = [
        f"{field}: {wanted}" for field, wanted in (("apiVersion", API_VERSION), ("kind", KIND)) if field not in values
    ]
    if missing:
        raise ConfigError(f"{name}:1:1: {' and '.join(missing)} must be given")
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(_lines(error, root, name))) from error


def _lines(error: ValidationError, root: Node | None, name: str) -> list[str]:
    lines = []
    for one in error.errors(include_url=False):
        location = tuple(part for part in one["loc"] if isinstance(part, int) or not part.startswith("function-"))
        mark = _position(root, location)
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
        text = _text(one, location, root.data if root is not None else None)
        lines.append((mark, f"{name}:{mark[0]}:{mark[1]}: {path + ': ' if path else ''}{text}"))
    return [line for _, line in sorted(lines)]


def _text(one: ErrorDetails, location: tuple[int | str, ...], values: Any) -> str:
    if one["type"] == "extra_forbidden":
        known = _section_at(location, values)
        return f"unknown field{suggestion(str(location[-1]), [f.alias or n for n, f in known.model_fields.items()])}"
    message = one["msg"].removeprefix("Value error, ")
    return message[:1].lower() + message[1:] if message.split(" ")[0] in {"Input", "String"} else message


def _section_at(location: tuple[int | str, ...], values: Any) -> type[Section]:
    """The kind of mapping in which the field at `location` stands."""
    section: type[Section] = Config
    for part in location[:-1]:
        here: Any = values
        values = here[part]
        if isinstance(part, int):
            continue
        if section is PluginConfig and part == "args":
            section = ARGS_BY_PLUGIN.get(here["name"], PluginArgs)
            continue
        field = next(field for name, field in section.model_fields.items() if part in (name, field.alias))
        section = _section_in(field.annotation) or section
    return section


def _section_in(annotation: Any) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for one in get_args(annotation) if (found := _section_in(one)) is not None), None)


def _position(root: Node | None, location: tuple[int | str, ...]) -> tuple[int, int]:
    """Line and column, from 1, of the value at `location`, of its key when it is the last part of a mapping."""
    node = mark = root
    for part in location:
        if isinstance(node, MappingNode):
            found = next((pair for pair in node.pairs if pair[0].value == part), None)
            if found is None:
                break
            mark, node = found
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            mark = node = node.items[part]
        else:
            break
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
