"""The configuration as it is in force: all defaults filled in, as YAML that is accepted again.

Two documents: what kube-scheduler's configuration has too, as KubeSchedulerConfiguration, with the plugins of each
profile merged with the default ones; and our own settings. What has no effect here is left out.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from allocator import Features
from scheduler.config.plugin_args import ARGS_BY_PLUGIN, with_defaults
from scheduler.config.plugin_sets import MULTI_POINT, POINTS, Enabled, PluginSet
from scheduler.config.profile_config import ProfileConfig
from scheduler.config.settings import API_VERSION, KIND, UPSTREAM_API_VERSION, UPSTREAM_KIND, Config
from scheduler.model.api_rules import UPSTREAM_FIELDS
from scheduler.yaml_reading import without_nulls

_HEAD: Final = {"api_version", "kind"}
_IN_FORCE: Final = ("leaderElection", "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds")


def shown(config: Config) -> str:
    """`config` as a file."""
    values = config.model_dump(by_alias=True, mode="json", exclude=_HEAD)
    written = {name: values.pop(name) for name in UPSTREAM_FIELDS}
    theirs = {name: written[name] for name in _IN_FORCE}
    if kubeconfig := config.client_connection.kubeconfig:
        theirs["clientConnection"] = {"kubeconfig": kubeconfig}
    theirs["profiles"] = [_profile(profile, config.features()) for profile in config.profiles]
    documents = (
        {"apiVersion": UPSTREAM_API_VERSION, "kind": UPSTREAM_KIND, **without_nulls(theirs)},
        {"apiVersion": API_VERSION, "kind": KIND, **values},
    )
    return "---\n".join(yaml.safe_dump(one, sort_keys=False, allow_unicode=True) for one in documents)


def _profile(profile: ProfileConfig, features: Features) -> dict[str, Any]:
    sets = profile.plugin_sets(features)
    named = {entry.name for one in sets.values() for entry in one.enabled}
    args = {name: kind() for name, kind in ARGS_BY_PLUGIN.items() if name in named} | profile.args_by_plugin()
    return {
        "schedulerName": profile.scheduler_name,
        "percentageOfNodesToScore": profile.percentage_of_nodes_to_score,
        "plugins": {point: _set(sets[point]) for point in (MULTI_POINT, *POINTS) if sets[point] != PluginSet()},
        "pluginConfig": [{"name": name, "args": with_defaults(one)} for name, one in sorted(args.items())],
    }


def _set(one: PluginSet) -> dict[str, Any]:
    found = {
        "enabled": [_entry(entry) for entry in one.enabled],
        "disabled": [{"name": name} for name in sorted(one.disabled)],
    }
    return {name: entries for name, entries in found.items() if entries}


def _entry(entry: Enabled) -> dict[str, Any]:
    return {"name": entry.name, **({"weight": entry.weight} if entry.weight else {})}
