"""PodTopologySpread: the plugin, and the spread_constraints it judges by."""

from scheduler.plugins.pod_topology_spread.arguments import argument_errors
from scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread", "argument_errors"]
