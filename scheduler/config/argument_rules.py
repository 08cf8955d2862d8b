"""What is wrong with the arguments of plugins, in kube-scheduler's words.

Rules of this module
  1. Paths are relative to `args`.

Not here: unknown fields and wrong kinds (`plugin_args`); the rules, which stand beside each plugin.
"""

from __future__ import annotations

from scheduler.config.plugin_args import PluginArgs, plugin_fields
from scheduler.plugins import ROW_BY_NAME
from scheduler.validation.field_errors import FieldError


def argument_errors(name: str, args: PluginArgs) -> list[FieldError]:
    """What is wrong with the arguments of the plugin `name`."""
    row = ROW_BY_NAME[name]
    if row.build is None or row.argument_errors is None:
        return []
    return row.argument_errors(row.build(**plugin_fields(name, args)))
