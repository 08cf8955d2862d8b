"""The configuration: what can be set, and the file that sets it.

A file holds a KubeSchedulerConfiguration as people have it, a document of our own kind, or both:

    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profile_config:
      - schedulerName: dra-scheduler
    ---
    apiVersion: dra-scheduler/v1alpha1
    kind: DraSchedulerConfiguration
    featureGates:
      DRAConsumableCapacity: false

Our own kind may have the fields of both; no field may be in both documents (ADR 0022).

Not here: reading a file (`file`), which loads YAML and lint. A scheduler without a file needs neither to start.
"""

from scheduler.config.profile_config import ProfileConfig
from scheduler.config.sections import LeaderElection, Serving
from scheduler.config.settings import Config

__all__ = [
    "Config",
    "LeaderElection",
    "ProfileConfig",
    "Serving",
]
