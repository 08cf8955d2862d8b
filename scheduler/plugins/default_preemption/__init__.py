"""DefaultPreemption: whom to remove so that a more important pod fits. See `plugin`."""

from scheduler.plugins.default_preemption.plugin import NAME, DefaultPreemption, argument_errors

__all__ = ["NAME", "DefaultPreemption", "argument_errors"]
