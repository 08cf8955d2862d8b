"""A device of an allocation in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def device_text(result: Mapping[str, Any]) -> str:
    """A device of an allocation in one line: `driver/pool/device (memory=40Gi, admin access)`."""
    parts = [f"{name}={amount}" for name, amount in result.get("consumedCapacity", {}).items()]
    if result.get("adminAccess"):
        parts.append("admin access")
    more = f" ({', '.join(parts)})" if parts else ""
    return f"{result['driver']}/{result['pool']}/{result['device']}{more}"
