"""The scheduler asked about objects, without a cluster and without time: every pod's verdict, and why."""

from scheduler.offline.cluster import Given, Loaded, OfflineCluster, is_waiting, makes_pods, name_of
from scheduler.offline.observing import observed_machine
from scheduler.offline.reasons import NodeGroup, Reasons
from scheduler.offline.verdicts import Answers, Outcome, Verdict, decide, devices_of

__all__ = [
    "Answers",
    "Given",
    "Loaded",
    "NodeGroup",
    "OfflineCluster",
    "Outcome",
    "Reasons",
    "Verdict",
    "decide",
    "devices_of",
    "is_waiting",
    "makes_pods",
    "name_of",
    "observed_machine",
]
