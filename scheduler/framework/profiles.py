"""Which extension points a plugin has, and profiles that can work.

Rules of this module
  1. A profile names each plugin at most once, and only plugins that have an extension point.
  2. A plugin that can reject a pod says what wakes it: an empty `wakes_on` would strand the pod for ever.

Not here: calling plugins (`runner`), choosing which are enabled (configuration, in the shell).
"""

from __future__ import annotations

from typing import Final

from scheduler.framework.api import (
    FactFilterPlugin,
    FactScorePlugin,
    FilterPlugin,
    Plugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Profile,
    ReservePlugin,
    ScorePlugin,
)

_CAN_REJECT: Final = (PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, FactFilterPlugin)
_SCORE_WEIGHT_MAX: Final = 2**53  # keeps weighted sums of 0..100 exact for anything that reads them as JSON numbers


class ProfileError(ValueError):
    """A profile that cannot work; the text names the profile, the plugin and what to do."""


def extension_points(plugin: Plugin) -> tuple[str, ...]:
    """Names of the extension points that `plugin` implements."""
    implements = {
        "PreEnqueue": isinstance(plugin, PreEnqueuePlugin),
        "PreFilter": isinstance(plugin, PreFilterPlugin),
        "Filter": isinstance(plugin, FilterPlugin | FactFilterPlugin),
        "PostFilter": isinstance(plugin, PostFilterPlugin),
        "Score": isinstance(plugin, ScorePlugin | FactScorePlugin),
        "Reserve": isinstance(plugin, ReservePlugin),
        "PreBind": isinstance(plugin, PreBindPlugin),
    }
    return tuple(point for point, is_implemented in implements.items() if is_implemented)


def check_profile(profile: Profile) -> None:
    """Raise ProfileError unless the rules of this module hold."""
    seen: set[str] = set()
    for plugin in profile.plugins:
        where = f"profile {profile.scheduler_name}: plugin {plugin.name}"
        if plugin.name in seen:
            raise ProfileError(f"{where} is named twice; name it once")
        seen.add(plugin.name)
        if not extension_points(plugin):
            raise ProfileError(f"{where} implements no extension point; see scheduler/framework/api.py")
        if isinstance(plugin, _CAN_REJECT) and not plugin.wakes_on:
            raise ProfileError(f"{where} can reject pods but wakes_on is empty: they would never be tried again")
        if isinstance(plugin, ScorePlugin | FactScorePlugin) and not 0 < plugin.weight <= _SCORE_WEIGHT_MAX:
            raise ProfileError(f"{where}: weight {plugin.weight} is not within 1..{_SCORE_WEIGHT_MAX}")
