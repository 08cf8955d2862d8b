"""The tables of reasons and fixes, by name."""

from __future__ import annotations

from typing import Final

from scheduler.why import claims, devices, nodes, pods, published, volumes

_TABLES: Final = (claims, published, devices, nodes, volumes, pods)

KINDS: Final = {row.name: row for table in _TABLES for row in table.ROWS}
FIXES: Final = {row.name: row for table in _TABLES for row in table.FIXES}
