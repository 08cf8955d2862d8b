"""VolumeBinding: the volumes of pods' claims, chosen with the node and bound before the pod."""

from scheduler.plugins.volume_binding.plugin import VolumeBinding, argument_errors

__all__ = ["VolumeBinding", "argument_errors"]
