"""kube-scheduler's profiles, as what answers for the pods of its scheduler names.

Rules of this module
  1. What only this scheduler does is off: nobody is preempted for devices.

Not here: who is answered by such a profile (`offline.verdicts`).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from scheduler.config.profile_config import PluginConfig, ProfileConfig
from scheduler.config.settings import Config

KUBE_SCHEDULER: Final = "default-scheduler"


class KubeProfile(ProfileConfig):
    """A profile of kube-scheduler."""


def _as_theirs(profile: ProfileConfig) -> KubeProfile:
    args = profile.dynamic_resources.model_copy(update={"preempt_for_devices": False})
    others = [one for one in profile.plugin_config if one.name != "DynamicResources"]
    given: dict[str, Any] = {name: getattr(profile, name) for name in profile.model_fields_set}
    given["plugin_config"] = (*others, PluginConfig(name="DynamicResources", args=args))
    return KubeProfile(**{"scheduler_name": KUBE_SCHEDULER, **given})


@cache
def stock() -> KubeProfile:
    """Its default profile."""
    return _as_theirs(ProfileConfig())


def with_their_profiles(config: Config, theirs: Config) -> Config:
    """A configuration that answers for the scheduler names of kube-scheduler's, too, where it has none of its own."""
    own = set(config.scheduler_names)
    added = [one for one in map(_as_theirs, theirs.profiles) if one.scheduler_name not in own]
    return config.model_copy(update={"profiles": (*config.profiles, *added)})
