"""A runner that measures: how long each plugin takes, and each extension point, in the cycles it is used for.

Rules of this module
  1. It says what the runner of the same profile says; what it measures decides nothing.
  2. Its plugins are copies whose methods are measured, so that the runner of all other cycles pays nothing.
  3. What is remembered is not asked, so it is not measured; Filter and Score count once a cycle, as the sum of their
     calls, where there was any.
  4. An exception counts as ERROR.

Not here: the clock, which whoever makes the machine gives it; using it for a cycle (`core.scheduling_cycle`).

Source: pkg/scheduler/framework/runtime/framework.go, pkg/scheduler/metrics/metrics.go v1.36.3 (labels, buckets).
Differs on purpose: both durations are of the same hundredth of cycles; there plugins' are of a tenth, the others of
all. Of a plugin that judges facts reading and judging a fact are calls; Bind is a request here, and PreEnqueue is not
measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

from scheduler.framework.api import FactFilterPlugin, Plugin, PreBindWait
from scheduler.framework.distribution import Distribution, exponential
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, Code, Status

_P = TypeVar("_P", bound=Plugin)

_ONE_IN: Final = 101
"""A measured cycle takes about twice as long: with one in ten, deciding took 1.05 to 1.1 times as long (plain pods)."""
PLUGIN_BOUNDS_S: Final = exponential(0.00001, 1.5, 20)
POINT_BOUNDS_S: Final = exponential(0.0001, 2, 12)
_POINTS: Final = {
    "pre_filter": "PreFilter",
    "filter": "Filter",
    "filter_fact": "Filter",
    "post_filter": "PostFilter",
    "pre_score": "PreScore",
    "score": "Score",
    "score_facts": "Score",
    "normalize_score": "ScoreExtensionNormalize",
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "pre_bind": "PreBind",
}
"""The extension points by the plugins' methods; `fact` belongs to Filter or to Score."""


class Durations:
    """Seconds, in the cycles that were measured."""

    def __init__(self) -> None:
        self._plugins: Final[dict[tuple[str, str, Code], Distribution]] = {}
        self._points: Final[dict[tuple[str, Code, str], Distribution]] = {}

    @property
    def plugins(self) -> Mapping[tuple[str, ...], Distribution]:
        """By plugin, extension point and status."""
        return {
            (plugin, point, status.value): one for (plugin, point, status), one in self._plugins.items() if one.total
        }

    @property
    def points(self) -> Mapping[tuple[str, ...], Distribution]:
        """By extension point, status and profile."""
        return {(point, status.value, profile): one for (point, status, profile), one in self._points.items()}

    def of_plugin(self, plugin: str, point: str, status: Code) -> Distribution:
        found = self._plugins.get((plugin, point, status))
        if found is None:
            found = self._plugins[plugin, point, status] = Distribution(PLUGIN_BOUNDS_S)
        return found

    def of_point(self, point: str, status: Code, profile: str) -> Distribution:
        found = self._points.get((point, status, profile))
        if found is None:
            found = self._points[point, status, profile] = Distribution(POINT_BOUNDS_S)
        return found


class _Sum:
    """The calls of one extension point in one cycle."""

    __slots__ = ("calls", "failed", "seconds")

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0
        self.failed = False

    def add(self, seconds: float, *, failed: bool) -> None:
        self.calls += 1
        self.seconds += seconds
        self.failed = self.failed or failed


class TimedRunner(Runner):
    """Does what `runner` does, and measures it."""

    def __init__(self, runner: Runner, clock: Callable[[], float], durations: Durations) -> None:
        """Args: clock: Seconds. durations: Where they are counted, of all profiles."""
        self._durations: Final = durations
        plugins = tuple(measured(plugin, clock, durations) for plugin in runner.profile.plugins)
        super().__init__(replace(runner.profile, plugins=plugins), is_strict=runner.is_strict)
        self.clock: Final = clock
        self._sums: Final = {"Filter": _Sum(), "Score": _Sum()}

    def end_cycle(self) -> None:
        """The cycle is over: what Filter and Score took in all counts."""
        for point, done in self._sums.items():
            if done.calls:
                status = Code.ERROR if done.failed else Code.SUCCESS
                self._durations.of_point(point, status, self.scheduler_name).add(done.seconds)
                done.calls, done.seconds, done.failed = 0, 0.0, False

    def ended(self, point: str, status: Code, seconds: float) -> None:
        """Count one call of an extension point, Filter and Score when the cycle is over."""
        done = self._sums.get(point)
        if done is None:
            self._durations.of_point(point, status, self.scheduler_name).add(seconds)
        else:
            done.add(seconds, failed=status is Code.ERROR)


def _timed(method: Callable[..., Any], point: str) -> Callable[..., Any]:
    def run(self: TimedRunner, *given: Any) -> Any:
        begun_s = self.clock()
        result = method(self, *given)
        self.ended(point, _code_of(result), self.clock() - begun_s)
        return result

    return run


for _name, _point in (_POINTS | {"facts": "Filter", "normalize_score": "Score"}).items():
    setattr(TimedRunner, _name, _timed(getattr(Runner, _name), _point))


class Measured:
    """Which cycles are measured, and what was.

    Attributes:
        durations: Of all profiles.
        runners: By scheduler name; none where nothing is measured.
    """

    def __init__(
        self, runners: Mapping[str, Runner] = MappingProxyType({}), clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        """Args: runners: Those that are used for all other cycles; clock: Seconds."""
        self.durations: Final = Durations()
        self.runners: Final = {name: TimedRunner(one, clock, self.durations) for name, one in runners.items()}

    def runner(self, scheduler_name: str, cycle: int) -> TimedRunner | None:
        """The runner to use for a cycle that is measured; None for the others."""
        return self.runners.get(scheduler_name) if is_measured(cycle) else None


def is_measured(cycle: int) -> bool:
    """The first cycle, and one in about a hundred: a prime, so that pods of many kinds that take turns all are."""
    return cycle % _ONE_IN == 1


def measured(plugin: _P, clock: Callable[[], float], durations: Durations) -> _P:
    """A copy of the plugin that measures its calls."""
    kind = type(plugin)
    points = {**_POINTS, "fact": "Filter" if isinstance(plugin, FactFilterPlugin) else "Score"}
    methods: dict[str, Any] = {
        method: _measuring(getattr(kind, method), plugin.name, point, clock, durations)
        for method, point in points.items()
        if hasattr(kind, method)
    }
    made = copy(plugin)
    # Nothing is added to the objects, so that the copy can be one of the subclass.
    object.__setattr__(made, "__class__", type(kind.__name__, (kind,), {"__slots__": (), **methods}))
    return made


def _measuring(
    method: Callable[..., Any], plugin: str, point: str, clock: Callable[[], float], durations: Durations
) -> Callable[..., Any]:
    successes = durations.of_plugin(plugin, point, Code.SUCCESS)

    def run(self: Any, *given: Any) -> Any:
        begun_s = clock()
        try:
            result = method(self, *given)
        except Exception:
            durations.of_plugin(plugin, point, Code.ERROR).add(clock() - begun_s)
            raise
        spent_s = clock() - begun_s
        if result is SUCCESS or type(result) is int:
            successes.add(spent_s)
        else:
            durations.of_plugin(plugin, point, _code_of(result)).add(spent_s)
        return result

    return run


def _code_of(result: Any) -> Code:
    """Of what an extension point gives; what has no status is a success."""
    if isinstance(result, PreBindWait):
        return Code.WAIT
    status = result if isinstance(result, Status) else getattr(result, "status", SUCCESS)
    return status.code if isinstance(status, Status) else Code.SUCCESS
