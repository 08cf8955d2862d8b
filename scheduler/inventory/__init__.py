"""Which devices there are, who uses them, what is free, and the largest request that still fits."""

from scheduler.inventory.device_answer import DeviceList
from scheduler.inventory.listing import Filter, UnknownNameError, devices_observed, list_devices

__all__ = ["DeviceList", "Filter", "UnknownNameError", "devices_observed", "list_devices"]
