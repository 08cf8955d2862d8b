"""DynamicResources: devices for pods by ResourceClaims (Dynamic Resource Allocation)."""

from scheduler.plugins.dynamic_resources.plugin import NAME, DynamicResources

__all__ = ["NAME", "DynamicResources"]
