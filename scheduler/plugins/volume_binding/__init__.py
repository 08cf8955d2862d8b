"""VolumeBinding: the volumes of pods' claims, chosen with the node and bound before the pod."""

from scheduler.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
