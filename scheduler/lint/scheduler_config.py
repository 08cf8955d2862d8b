"""kube-scheduler's configuration: versions that are gone, brought to v1.

The profiles that switch plugins on and off are the same in v1beta2, v1beta3 and v1; older versions had other places for
some settings. What has a place in v1 is moved there; a plugin that is gone is refused where it is switched on.

Source: k8s.io/kube-scheduler config/v1 (v0.36.3), and the types of v1alpha1 (1.18), v1alpha2 (1.19), v1beta1 (1.22).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler.lint.findings import FieldPath
from scheduler.lint.view import View, mapping, mappings, text
from scheduler.model.gone_plugins import INSTEAD_OF

CONFIG_GROUP: Final = "kubescheduler.config.k8s.io"
SERVED: Final[Mapping[str, str]] = {
    "v1alpha1": "up to 1.19",
    "v1alpha2": "1.18 to 1.19",
    "v1beta1": "1.19 to 1.22",
    "v1beta2": "1.22 to 1.27",
    "v1beta3": "1.23 to 1.28",
}
_UPSTREAM_ARGS: Final = ("apiVersion", "kind", "filterTimeout", "bindingTimeout")
_V1_FIELDS: Final = (
    "apiVersion",
    "kind",
    "parallelism",
    "leaderElection",
    "clientConnection",
    "enableProfiling",
    "enableContentionProfiling",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "profiles",
    "extenders",
    "delayCacheUntilActive",
)
_ADDRESSES: Final = ("healthzBindAddress", "metricsBindAddress")
_OF_PROFILES: Final = ("schedulerName", "plugins", "pluginConfig")
_MOVED: Final[Mapping[str, str]] = {
    "bindTimeoutSeconds": "profiles[].pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: ...}}]",
    "hardPodAffinitySymmetricWeight": "profiles[].pluginConfig: "
    "[{name: InterPodAffinity, args: {hardPodAffinityWeight: ...}}]",
    "disablePreemption": "profiles[].plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}",
    "algorithmSource": "profiles[].plugins, with the plugins that the policy meant",
}
_DEFAULTS: Final[Mapping[str, Any]] = {
    "disablePreemption": False,
    "bindTimeoutSeconds": 600,
    "hardPodAffinitySymmetricWeight": 1,
    "algorithmSource": {"provider": "DefaultProvider"},
}


def modernize_config(view: View) -> None:
    """Bring a KubeSchedulerConfiguration to v1, and report what kube-scheduler refuses in it."""
    if view.kind != "KubeSchedulerConfiguration":
        return
    served = SERVED.get(view.version)
    if served is not None:
        view.obj["apiVersion"] = f"{CONFIG_GROUP}/v1"
        view.error(
            "old-scheduler-config",
            ("apiVersion",),
            f"kube-scheduler no longer reads {view.version}",
            f"apiVersion: {CONFIG_GROUP}/v1",
            served=served,
            converted=f"apiVersion: {CONFIG_GROUP}/v1",
        )
        _left_out(view, served)
        _into_profile(view, served)
        _leader_election(view, served)
    for name in [name for name in view.obj if name not in _V1_FIELDS and name != "metadata"]:
        view.error(
            "unknown-field",
            (name,),
            f"there is no field {name} in v1",
            _MOVED.get(name, f"known here: {', '.join(_V1_FIELDS[2:])}"),
            key=True,
        )
    for index, profile in mappings(view.obj.get("profiles")):
        _plugins(view, ("profiles", index, "plugins"), mapping(profile.get("plugins")))
        _plugin_config(view, ("profiles", index), profile)


def _left_out(view: View, served: str) -> None:
    for name in (*_ADDRESSES, *_DEFAULTS):
        if name not in view.obj or (name in _DEFAULTS and view.obj[name] != _DEFAULTS[name]):
            continue
        del view.obj[name]
        is_address = name in _ADDRESSES
        view.warning(
            "old-scheduler-config",
            (name,),
            f"{name} is not in v1" + ("" if is_address else ", and this was its default"),
            "use the flags --bind-address and --secure-port" if is_address else "leave it out",
            served=served,
            converted="left out",
            key=True,
        )


def _into_profile(view: View, served: str) -> None:
    """What v1alpha1 had for its one scheduler stands in a profile."""
    found = [name for name in _OF_PROFILES if name in view.obj]
    if not found or "profiles" in view.obj:
        return
    view.obj["profiles"] = [{name: view.obj.pop(name) for name in found}]
    for name in found:
        view.warning(
            "old-scheduler-config",
            (name,),
            f"{name} stands in a profile",
            f"profiles: [{{{name}: ...}}]",
            served=served,
            converted="moved into profiles[0]",
            written=True,
            key=True,
        )
        view.moved(("profiles", 0, name), (name,))


def _leader_election(view: View, served: str) -> None:
    election = mapping(view.obj.get("leaderElection"))
    for old, new in (("lockObjectNamespace", "resourceNamespace"), ("lockObjectName", "resourceName")):
        if old in election and new not in election:
            election[new] = election.pop(old)
            view.warning(
                "old-scheduler-config",
                ("leaderElection", old),
                f"{old} is called {new}",
                f"{new}: {election[new]}",
                served=served,
                converted=new,
                key=True,
            )
    lock = election.get("resourceLock")
    if lock not in (None, "", "leases"):
        election["resourceLock"] = "leases"
        view.warning(
            "old-scheduler-config",
            ("leaderElection", "resourceLock"),
            f"locks are leases, and no {lock}",
            "resourceLock: leases",
            served=served,
            converted="resourceLock: leases",
        )


def _plugins(view: View, path: FieldPath, plugins: dict[str, Any]) -> None:
    if "unreserve" in plugins:
        del plugins["unreserve"]
        view.warning(
            "old-scheduler-config",
            (*path, "unreserve"),
            "plugins of reserve undo what they reserved; unreserve is no extension point",
            "leave it out",
            served=SERVED["v1alpha2"],
            converted="left out",
            key=True,
        )
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
            entry["args"]["apiVersion"] = f"{CONFIG_GROUP}/v1"  # kinds of arguments came and went with the versions
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
