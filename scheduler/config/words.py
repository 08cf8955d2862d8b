"""What is said about settings that are accepted and mean something else here than in kube-scheduler, or nothing.

Rules of this module
  1. One sentence for each field that is written and has no effect, or may surprise; nothing for defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from scheduler.config.fields import suggestion
from scheduler.config.plugin_args import ARGS_BY_PLUGIN, DynamicResourcesArgs
from scheduler.config.plugin_sets import ALL, MULTI_POINT, POINTS_OF
from scheduler.config.profile_config import ProfileConfig
from scheduler.config.settings import Config
from scheduler.model.gone_plugins import INSTEAD_OF
from scheduler.plugins import DEFAULT_PROFILE, ROW_BY_NAME

Word: TypeAlias = tuple[tuple[str | int, ...], str]
"""The path of a field, and the sentence."""

_PROFILING: Final = "has no effect: see `dra-scheduler run --profile-calls`"
_WITHOUT_EFFECT: Final = {
    "parallelism": "has no effect: decisions are made by one thread; writesInFlight bounds requests",
    "percentage_of_placements_to_score": "has no effect: all placements are looked at",
    "enable_profiling": _PROFILING,
    "enable_contention_profiling": _PROFILING,
    "extenders": "are never called: what they would add must be a plugin",
}
_OF_CONNECTION: Final = {
    "accept_content_types": "has no effect: what is watched is asked for as JSON",
    "content_type": "has no effect: what is watched is asked for as JSON",
    "qps": "has no effect: writesInFlight bounds requests",
    "burst": "has no effect: writesInFlight bounds requests",
}
_WITHOUT_PLUGIN: Final = ("PrioritySort", "DefaultBinder")  # the core does their work


def words(config: Config, *, is_upstream: bool) -> Iterator[Word]:
    """About `config`.

    Args:
        is_upstream: Its profiles stand in a KubeSchedulerConfiguration, whose defaults are not always ours.
    """
    written = config.model_fields_set
    for name, sentence in _WITHOUT_EFFECT.items():
        if name in written and getattr(config, name) not in (None, ()):
            yield (str(Config.model_fields[name].alias),), sentence
    if "delay_cache_until_active" in written and not config.delay_cache_until_active:
        yield ("delayCacheUntilActive",), "is always true here: nothing is read before the lease is held"
    connection = config.client_connection
    for name, sentence in _OF_CONNECTION.items():
        if name in connection.model_fields_set:
            yield ("clientConnection", str(type(connection).model_fields[name].alias)), sentence
    if config.leader_election.resource_name == "kube-scheduler":
        yield (
            ("leaderElection", "resourceName"),
            "is the Lease of kube-scheduler: in its namespace, this scheduler waits as long as that one runs; leave it "
            "out to use one called like the scheduler name",
        )
    for index, profile in enumerate(config.profiles):
        for path, sentence in _of_profile(profile, is_upstream=is_upstream):
            yield ("profiles", index, *path), sentence


def _of_profile(profile: ProfileConfig, *, is_upstream: bool) -> Iterator[Word]:
    if profile.scheduler_name == "default-scheduler":
        yield (
            ("schedulerName",),
            "is kube-scheduler's: two schedulers of one name bind the same pods; only for clusters without that one",
        )
    if is_upstream and "scheduler_name" not in profile.model_fields_set:
        yield (), f"has no schedulerName: kube-scheduler takes default-scheduler, we take {profile.scheduler_name}"
    for index, one in enumerate(profile.plugin_config):
        path = ("pluginConfig", index)
        if one.name not in POINTS_OF:
            yield (*path, "name"), f"there is no such plugin, its args are not read{suggestion(one.name, POINTS_OF)}"
        elif one.name not in ARGS_BY_PLUGIN and one.args:
            yield (*path, "args"), "the plugin takes none, they are not read"
        if isinstance(one.args, DynamicResourcesArgs) and one.args.filter_timeout is not None:
            yield (*path, "args", "filterTimeout"), "has no effect: searchSteps bounds the search, not the clock"
    yield from _of_disabled(profile)
    yield from _of_plugins(profile)


def _of_disabled(profile: ProfileConfig) -> Iterator[Word]:
    """kube-scheduler passes over names that it does not know here, so the plugin that was meant stays on."""
    written = profile.plugins.model_dump(by_alias=True, exclude_none=True) if profile.plugins is not None else {}
    for point, one in written.items():
        for index, entry in enumerate(one["disabled"]):
            name, path = entry["name"], ("plugins", point, "disabled", index, "name")
            points = POINTS_OF.get(name)
            if points is None and name != ALL:
                gone = f" any more; instead: {INSTEAD_OF[name]}" if name in INSTEAD_OF else suggestion(name, POINTS_OF)
                yield path, f"switches nothing off: there is no plugin {name}{gone}"
            elif points is not None and point not in (MULTI_POINT, *points):
                yield path, f"switches nothing off: {name} is not called there, but at {', '.join(points)}"


def _of_plugins(profile: ProfileConfig) -> Iterator[Word]:
    expanded = profile.expanded()
    for point, one in profile.plugin_sets().items():
        for entry in one.enabled:
            if not entry.path or point == "placementScore":
                continue
            row = ROW_BY_NAME.get(entry.name)
            path = (*parts_of(entry.path), "name")
            if row is None:
                yield path, "belongs to a feature that is off by default: it does nothing"
            elif row.build is None and entry.name not in _WITHOUT_PLUGIN:
                yield path, "does not exist here yet: nothing is asked of it"
    off = {row.name for row in DEFAULT_PROFILE if row.build is not None} - set(expanded.names)
    if "DynamicResources" in off:
        yield ("plugins",), "DynamicResources is off: pods are bound without the devices they claim"
    for name in expanded.names:
        points = {point for point in POINTS_OF[name] if name in expanded.by_point[point]}
        if {"filter", "preFilter"} <= set(POINTS_OF[name]) and "filter" in points and "preFilter" not in points:
            yield ("plugins", "preFilter"), f"without it, filter of {name} fails for every pod that needs it"
        if {"score", "preScore"} <= set(POINTS_OF[name]) and "score" in points and "preScore" not in points:
            yield ("plugins", "preScore"), f"is part of score here: {name} scores as if it were on"


def parts_of(path: str) -> tuple[str | int, ...]:
    """`plugins.score.enabled[0]` in its parts."""
    parts: list[str | int] = []
    for part in path.split("."):
        name, _, index = part.partition("[")
        parts += [name, int(index[:-1])] if index else [name]
    return tuple(parts)
