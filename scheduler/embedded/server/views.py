"""From stored objects to the bytes a client asked for: plain objects, or Tables.

Rules of this module
  1. The plain form costs no encoding: a stored body is already JSON, only kind and apiVersion are put in front.
  2. Items of a plain list carry neither kind nor apiVersion, as in kube-apiserver.

Not here: which columns a kind has (`columns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import Final

import orjson

from scheduler.embedded.server.columns import Column, columns_of
from scheduler.embedded.server.object_store import Stored
from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.validation.field_errors import Json

JSON_TYPE: Final = "application/json"


def wants_table(accept: str) -> bool:
    """Whether an Accept header asks for a Table before the plain form; other forms do not count."""
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        value = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        if media == JSON_TYPE and (value.get("as"), value.get("v")) == ("Table", "v1"):
            return True
        if media in (JSON_TYPE, "*/*", "application/*") and "as" not in value:
            return False
    return False


@dataclass(frozen=True, slots=True)
class View:
    """Writes objects of one kind, plain or as Tables.

    Args:
        includes_object: Whether the rows of a Table carry whole objects, and not their metadata only.
    """

    kind: ServedKind
    _: KW_ONLY
    is_table: bool = False
    includes_object: bool = False

    def one(self, stored: Stored) -> bytes:
        if self.is_table:
            return self._table([stored], {"resourceVersion": stored.obj["metadata"]["resourceVersion"]}, header=True)
        return self._object(stored)

    def event(self, kind: str, stored: Stored, *, header: bool) -> bytes:
        """One line of a watch; a Table repeats its column definitions only when `header` is set."""
        if self.is_table:
            body = self._table([stored], {"resourceVersion": stored.obj["metadata"]["resourceVersion"]}, header=header)
        else:
            body = self._object(stored)
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)

    def bookmark(self, revision: int, annotations: dict[str, str] | None = None) -> bytes:
        """A BOOKMARK line: an empty object that carries only the revision."""
        metadata: dict[str, Json] = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        if self.is_table:
            shown: Json = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": str(revision)},
                "columnDefinitions": None,
                "rows": [],
            }
            if annotations:
                partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
                shown["rows"] = [{"cells": [], "object": partial}]
        else:
            shown = {
                "kind": self.kind.kind,
                "apiVersion": self.kind.api_version,
                "metadata": metadata,
                **self.kind.bookmark,
            }
        return b'{"type":"BOOKMARK","object":%b}\n' % orjson.dumps(shown)

    def listing(self, items: Sequence[Stored], metadata: dict[str, Json]) -> bytes:
        if self.is_table:
            return self._table(items, metadata, header=True)
        return b'{"kind":"%bList","apiVersion":"%b","metadata":%b,"items":[%b]}\n' % (
            self.kind.kind.encode(),
            self.kind.api_version.encode(),
            orjson.dumps(metadata),
            b",".join(self._item(stored) for stored in items),
        )

    def _item(self, stored: Stored) -> bytes:
        if self.kind.from_storage is None:
            return stored.body
        return orjson.dumps(self.kind.from_storage(stored.copy()))

    def _object(self, stored: Stored) -> bytes:
        return self.kind.prefix + self._item(stored)[1:]

    def _table(self, items: Sequence[Stored], metadata: dict[str, Json], *, header: bool) -> bytes:
        columns = columns_of(self.kind.kind)
        now = datetime.now(UTC)
        rows = []
        for stored in items:
            row: dict[str, Json] = {"cells": [column.cell(stored.obj, now) for column in columns]}
            shown = self._object(stored) if self.includes_object else _partial(stored)
            rows.append({**row, "object": orjson.Fragment(shown)})
        table = {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": [_definition(column) for column in columns] if header else None,
            "rows": rows,
        }
        return orjson.dumps(table)


def _partial(stored: Stored) -> bytes:
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%b}' % orjson.dumps(
        stored.obj["metadata"]
    )


def _definition(column: Column) -> dict[str, Json]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": "",
        "priority": column.priority,
    }
