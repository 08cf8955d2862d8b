"""The typed registry: upstream's plugin names to the factories that build the plugins, and checked profiles.

Rules of this module
  1. A profile names each plugin at most once, and only plugins that have an extension point.
  2. A plugin that can reject a pod says what wakes it: an empty `wakes_on` would strand the pod for ever.

Not here: calling plugins (`runner`), choosing which are enabled (configuration, in the shell).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from scheduler.framework.api import (
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Profile,
    ReservePlugin,
    ScorePlugin,
)

_CAN_REJECT: Final = (PreEnqueuePlugin, PreFilterPlugin, FilterPlugin)
_SCORE_WEIGHT_MAX: Final = 2**53  # keeps weighted sums of 0..100 exact for anything that reads them as JSON numbers


class ProfileError(ValueError):
    """A profile that cannot work; the text names the profile, the plugin and what to do."""


class Registry:
    """Plugin factories by upstream's plugin name, in the order in which they run unless a profile says otherwise."""

    def __init__(self, factories: Mapping[str, Callable[[], Plugin]]) -> None:
        self._factories: Final = dict(factories)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._factories)

    def profile(self, scheduler_name: str, enabled: Sequence[str] | None = None) -> Profile:
        """Build the plugins of one scheduler name; None enables all.

        Raises:
            ProfileError: an unknown or repeated name, or a plugin that breaks the rules of this module.
        """
        names = self.names if enabled is None else tuple(enabled)
        unknown = [name for name in names if name not in self._factories]
        if unknown:
            raise ProfileError(
                f"profile {scheduler_name}: unknown plugin {', '.join(unknown)}; known are {', '.join(self.names)}"
            )
        profile = Profile(scheduler_name, tuple(self._factories[name]() for name in names))
        check_profile(profile)
        return profile


def extension_points(plugin: Plugin) -> tuple[str, ...]:
    """Names of the extension points that `plugin` implements."""
    implements = {
        "PreEnqueue": isinstance(plugin, PreEnqueuePlugin),
        "PreFilter": isinstance(plugin, PreFilterPlugin),
        "Filter": isinstance(plugin, FilterPlugin),
        "PostFilter": isinstance(plugin, PostFilterPlugin),
        "Score": isinstance(plugin, ScorePlugin),
        "Reserve": isinstance(plugin, ReservePlugin),
        "Permit": isinstance(plugin, PermitPlugin),
        "PreBind": isinstance(plugin, PreBindPlugin),
        "PostBind": isinstance(plugin, PostBindPlugin),
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
        if isinstance(plugin, ScorePlugin) and not 0 < plugin.weight <= _SCORE_WEIGHT_MAX:
            raise ProfileError(f"{where}: weight {plugin.weight} is not within 1..{_SCORE_WEIGHT_MAX}")
