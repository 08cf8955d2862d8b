"""DynamicResources: devices for pods by ResourceClaims (Dynamic Resource Allocation)."""

from scheduler.plugins.dynamic_resources.plugin import NAME, DynamicResources, argument_errors

__all__ = ["NAME", "DynamicResources", "argument_errors"]
