"""Metrics of devices and of the pods that wait: what is counted now and then, as it takes too long for a scrape.

They are named `dra_…`, not `dra_scheduler_…`: they are about the cluster, whoever schedules there.

Not here: counting (`inventory.device_metrics`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

Values: TypeAlias = Mapping[tuple[str, ...], float]
"""Numbers by the values of the labels."""
DeviceNumbers: TypeAlias = Mapping[str, Values]
"""By the `field` of each of `OF_DEVICES`."""


class DeviceMetric(NamedTuple):
    """A gauge."""

    name: str
    text: str
    labels: tuple[str, ...]
    kind: str = "gauge"

    @property
    def field(self) -> str:
        return self.name.removeprefix("dra_")


_STATES: Final = (
    "Published devices by state, as `dra-scheduler devices` has it; one of several classes counts for each."
)
_LARGEST: Final = (
    "Most devices of a class that one request could be given on one node now, as far as is found out soon."
)
_HELD: Final = "Seconds since a device was tainted that is held by a claim which does not tolerate it."
_WANTED: Final = "Fewest devices of a class that a waiting pod asks for, as a resource too; alternatives do not count."


OF_DEVICES: Final = (
    DeviceMetric("dra_devices", _STATES, ("driver", "device_class", "node_pool", "state")),
    DeviceMetric("dra_largest_request", _LARGEST, ("device_class",)),
    DeviceMetric("dra_partitions", "Partitions of devices by profile and state.", ("driver", "profile", "state")),
    DeviceMetric(
        "dra_partitions_free_together",
        "Free partitions of a profile that could be given together, at most.",
        ("driver", "profile"),
    ),
    DeviceMetric("dra_tainted_device_held_seconds", _HELD, ("driver", "pool", "device")),
    DeviceMetric(
        "dra_waiting_pods", "Pods that wait, by the kind of cause in their condition, and by age.", ("cause", "age")
    ),
    DeviceMetric("dra_waiting_pods_oldest_seconds", "Age of the oldest pod that waits for a cause.", ("cause",)),
    DeviceMetric("dra_waiting_pods_smallest_request", _WANTED, ("device_class",)),
    DeviceMetric("dra_counted_age_seconds", "Seconds since devices and waiting pods were counted.", ()),
)
