"""kube-scheduler's configuration: v1beta3 brought to v1; both switch plugins on and off in the same way.

A plugin that is gone is refused where it is switched on. Versions before v1beta3 are refused.

Source: k8s.io/kube-scheduler config/v1 (v0.36.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler.lint.findings import FieldPath
from scheduler.lint.view import View, mapping, mappings, text
from scheduler.model.api_rules import UPSTREAM_FIELDS
from scheduler.model.gone_plugins import INSTEAD_OF

CONFIG_GROUP: Final = "kubescheduler.config.k8s.io"
ACCEPTED: Final = (f"{CONFIG_GROUP}/v1", f"{CONFIG_GROUP}/v1beta3")
GONE: Final[Mapping[str, str]] = {
    "v1alpha1": "up to 1.19",
    "v1alpha2": "1.18 to 1.19",
    "v1beta1": "1.19 to 1.22",
    "v1beta2": "1.22 to 1.27",
}
"""When kube-scheduler read the versions that are refused here."""
_UPSTREAM_ARGS: Final = ("apiVersion", "kind", "filterTimeout", "bindingTimeout")


def modernize_config(view: View) -> None:
    """Bring a KubeSchedulerConfiguration to v1, and report what kube-scheduler refuses in it."""
    if view.kind != "KubeSchedulerConfiguration":
        return
    if view.version in GONE:
        view.error(
            "old-scheduler-config",
            ("apiVersion",),
            f"kube-scheduler no longer reads {view.version}",
            f"write it anew for {ACCEPTED[0]}; {ACCEPTED[1]} is accepted, too",
            served=GONE[view.version],
        )
        return
    if view.version == "v1beta3":
        view.obj["apiVersion"] = ACCEPTED[0]
        view.error(
            "old-scheduler-config",
            ("apiVersion",),
            "kube-scheduler no longer reads v1beta3",
            f"apiVersion: {ACCEPTED[0]}",
            served="1.23 to 1.28",
            converted=f"apiVersion: {ACCEPTED[0]}",
        )
    for name in [name for name in view.obj if name not in ("apiVersion", "kind", "metadata", *UPSTREAM_FIELDS)]:
        view.error(
            "unknown-field",
            (name,),
            f"there is no field {name} in v1",
            f"known here: {', '.join(UPSTREAM_FIELDS)}",
            key=True,
        )
    for index, profile in mappings(view.obj.get("profiles")):
        _plugins(view, ("profiles", index, "plugins"), mapping(profile.get("plugins")))
        _plugin_config(view, ("profiles", index), profile)


def _plugins(view: View, path: FieldPath, plugins: dict[str, Any]) -> None:
    for point, sets in plugins.items():
        for which in ("enabled", "disabled"):
            kept = []
            for index, entry in mappings(mapping(sets).get(which)):
                name = text(entry.get("name"))
                if name not in INSTEAD_OF:
                    kept.append(entry)
                    continue
                if which == "enabled":
                    kept.append(entry)
                view.error(
                    "old-scheduler-config",
                    (*path, point, which, index, "name"),
                    f"there is no plugin {name} any more",
                    f"instead: {INSTEAD_OF[name]}" if which == "enabled" else "leave it out",
                    served="up to 1.22 to 1.28",
                    converted="" if which == "enabled" else "left out",
                )
            if isinstance(mapping(sets).get(which), list) and len(kept) != len(sets[which]):
                sets[which] = kept


def _plugin_config(view: View, path: FieldPath, profile: dict[str, Any]) -> None:
    entries = profile.get("pluginConfig")
    emptied = []
    for number, entry in mappings(entries):
        if "apiVersion" in mapping(entry.get("args")):
            entry["args"]["apiVersion"] = ACCEPTED[0]
        if entry.get("name") != "DynamicResources":
            continue
        args = mapping(entry.get("args"))
        for name in [name for name in args if name not in _UPSTREAM_ARGS]:
            del args[name]
            view.never_valid(
                "plugin-args",
                (*path, "pluginConfig", number, "args", name),
                f"kube-scheduler's DynamicResources plugin never had {name}; it refuses the configuration",
                "leave it out: upstream's are filterTimeout and bindingTimeout; this scheduler's own are "
                "bindingTimeout and searchSteps, in a DraSchedulerConfiguration (apiVersion: dra-scheduler/v1alpha1)",
                converted="left out",
                key=True,
            )
            if not args:
                emptied.append(number)
    if emptied and isinstance(entries, list):
        profile["pluginConfig"] = [entry for number, entry in enumerate(entries) if number not in emptied]
        if not profile["pluginConfig"]:
            del profile["pluginConfig"]
