"""The base of what is decoded of the API's objects."""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all decoded objects. `gc=False`: they form trees, never cycles."""
