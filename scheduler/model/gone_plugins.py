"""Plugins that kube-scheduler had once, and what does their work now.

Source: k8s.io/kubernetes pkg/scheduler/apis/config/v1beta1 to v1 (1.18 to 1.36), validation.go v1.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

INSTEAD_OF: Final[Mapping[str, str]] = {
    "NodeLabel": "NodeAffinity, with pluginConfig addedAffinity",
    "ServiceAffinity": "InterPodAffinity, in the pods",
    "NodePreferAvoidPods": "taints of the nodes",
    "SelectorSpread": "PodTopologySpread",
    "DefaultPodTopologySpread": "PodTopologySpread",
    "NodeResourcesLeastAllocated": "NodeResourcesFit, with args.scoringStrategy.type: LeastAllocated",
    "NodeResourcesMostAllocated": "NodeResourcesFit, with args.scoringStrategy.type: MostAllocated",
    "RequestedToCapacityRatio": "NodeResourcesFit, with args.scoringStrategy.type: RequestedToCapacityRatio",
    "AzureDiskLimits": "NodeVolumeLimits",
    "CinderLimits": "NodeVolumeLimits",
    "EBSLimits": "NodeVolumeLimits",
    "GCEPDLimits": "NodeVolumeLimits",
}
REMOVED: Final = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
"""Those that v1 refuses to hear of, even in pluginConfig."""
