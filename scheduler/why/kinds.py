"""The tables of reasons and fixes, by name."""

from __future__ import annotations

from typing import Final

from scheduler.why import claims, devices, nodes, pods, published, volumes
from scheduler.why.rows import FixKind, Kind

TABLES: Final = (claims, published, devices, nodes, volumes, pods)

KINDS: Final[dict[str, Kind]] = {row.name: row for table in TABLES for row in table.ROWS}
FIXES: Final[dict[str, FixKind]] = {row.name: row for table in TABLES for row in table.FIXES}
