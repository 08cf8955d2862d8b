"""A cluster in one process: an in-memory API server and the claim controllers."""

from __future__ import annotations

from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.server.statuses import ApiError

__all__ = ["ApiError", "EmbeddedCluster"]
