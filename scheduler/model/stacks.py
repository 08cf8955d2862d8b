"""What is to become of nodes where a device plugin and a DRA driver serve the same devices (`framework.two_stacks`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

Mode: TypeAlias = Literal["refuse", "leave", "ignore"]
"""What the rules of `two_stacks` say; with "ignore" the driver's devices are said to be others than the plugin's."""


class Stacks(Struct, frozen=True):
    """The settings: `resources` are class names by resource; pods of the schedulers `ignored_by` are given both."""

    mode: Mode = "refuse"
    resources: Mapping[str, str] = {}
    ignored_by: frozenset[str] = frozenset()


REFUSING: Final = Stacks()
