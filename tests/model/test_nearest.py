"""The name that was meant is one like it, and not one that shares only a vendor's domain."""

from __future__ import annotations

import pytest

from scheduler.model.nearest import near

CLASSES = ("gpu.vendor.example", "compute-domain-daemon.vendor.example")


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("gpu.vndor.example", CLASSES, "gpu.vendor.example"),
        ("gpus.vendor.example", CLASSES, "gpu.vendor.example"),
        ("gpu.vendor.org", CLASSES, "gpu.vendor.example"),
        ("gpu", CLASSES, "gpu.vendor.example"),
        ("gpu.vendor.example", CLASSES[1:], ""),
        ("gaudi.vendor.example", CLASSES, ""),
        ("gpu.nvidia.com", ("gpu.intel.com",), ""),
        ("vendor.example/mig", ("vendor.example/gpu",), ""),
        ("vendor.example/gpuu", ("vendor.example/gpu",), "vendor.example/gpu"),
        ("example", CLASSES, ""),
        ("team-a", ("team-b",), "team-b"),
        ("team-a", ("team-a", "team-b"), ""),
    ],
)
def test_the_name_that_was_meant(name: str, known: tuple[str, ...], meant: str) -> None:
    assert near(name, known) == meant
