"""A cluster in one process: an in-memory API server and the claim controllers."""

from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.server.faults import Faults
from scheduler.embedded.server.statuses import ApiError

__all__ = ["ApiError", "EmbeddedCluster", "Faults"]
