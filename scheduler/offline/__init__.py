"""The scheduler asked about objects, without a offline_cluster and without time: every pod's verdict, and why."""

from scheduler.offline.observing import observed_machine
from scheduler.offline.offline_cluster import Loaded, OfflineCluster, SourceObject, is_waiting, makes_pods, name_of
from scheduler.offline.reasons import NodeGroup, Reasons
from scheduler.offline.verdicts import Answers, PodResult, Verdict, decide, devices_of

__all__ = [
    "Answers",
    "Loaded",
    "NodeGroup",
    "OfflineCluster",
    "PodResult",
    "Reasons",
    "SourceObject",
    "Verdict",
    "decide",
    "devices_of",
    "is_waiting",
    "makes_pods",
    "name_of",
    "observed_machine",
]
