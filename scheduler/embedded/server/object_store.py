"""The object store: every object by kind and key, one revision for all writes, and a bounded history.

It stands where etcd and the watch cache stand in a real cluster. Writes are plain function calls on
one thread, so they are atomic; nothing in here awaits.

Rules of this module
  1. A stored object is never changed: a write replaces it. Readers may keep references, nobody may
     assign into one. `Stored.copy()` gives a private copy.
  2. Each write takes the next revision; the object's `metadata.resourceVersion` is that revision, and
     the history entry carries the same number.
  3. The history keeps the last `watch_window` entries of each kind. Asking for more raises `ExpiredError`.

Not here: what may be written (`rest`, the strategies), how it is sent (`watches`).

Cost: get O(1), put O(log n) plus a list insert, list O(n), `since` O(log n + entries returned). The
JSON bytes of an object are made once per write and shared by all replies and watch events.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

import orjson

from scheduler.validation.field_errors import Json

ANNOTATION_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class ChangeType(StrEnum):
    """What a watch event says."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class ExpiredError(Exception):
    """The history does not reach back to the revision asked for."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")


class Stored:
    """One version of one object. `obj` has neither kind nor apiVersion: these belong to the view."""

    __slots__ = ("body", "key", "name", "namespace", "obj", "revision")

    def __init__(self, namespace: str, name: str, obj: dict[str, Json], revision: int) -> None:
        self.namespace = namespace
        self.name = name
        self.key = object_key(namespace, name)
        self.obj = obj
        self.revision = revision
        self.body = orjson.dumps(obj)
        """JSON of `obj`; always begins with `{"` because metadata is never empty."""

    def copy(self) -> dict[str, Json]:
        """A deep copy that may be changed."""
        copied: dict[str, Json] = orjson.loads(self.body)
        return copied

    @property
    def uid(self) -> str:
        uid: str = self.obj["metadata"]["uid"]
        return uid


class Change:
    """One entry of the history."""

    __slots__ = ("current", "previous", "revision", "type")

    def __init__(self, kind: ChangeType, current: Stored, previous: Stored | None) -> None:
        self.type = kind
        self.current = current
        """The new state; for DELETED the last state, carrying the revision of the deletion."""
        self.previous = previous
        self.revision = current.revision


Listener = Callable[[str, Change], None]


def object_key(namespace: str, name: str) -> str:
    """The key objects are ordered by in a list: etcd's order, `namespace/name` byte by byte."""
    return f"{namespace}/{name}" if namespace else name


class _Table:
    """All objects of one kind, in key order, and their recent changes."""

    __slots__ = ("changes", "changes_floor", "keys", "stored_by_key", "wakers")

    def __init__(self, floor: int) -> None:
        self.stored_by_key: dict[str, Stored] = {}
        self.keys: list[str] = []
        self.changes: list[Change] = []
        self.changes_floor = floor
        self.wakers: set[Callable[[], None]] = set()


class ObjectStore:
    """Objects of all kinds. `kind_id` is any text that names a kind; the registry supplies it."""

    def __init__(self, *, watch_window: int) -> None:
        if watch_window < 1:
            raise ValueError(f"watch_window must be at least 1, not {watch_window}")
        self.revision = 1
        self._watch_window = watch_window
        self._floor_for_new_tables = 0
        self._tables: dict[str, _Table] = {}
        self._listeners: list[Listener] = []

    def _table(self, kind_id: str) -> _Table:
        table = self._tables.get(kind_id)
        if table is None:
            table = self._tables[kind_id] = _Table(self._floor_for_new_tables)
        return table

    # -- reading -----------------------------------------------------------------------------------

    def get(self, kind_id: str, namespace: str, name: str) -> Stored | None:
        return self._table(kind_id).stored_by_key.get(object_key(namespace, name))

    def listed(self, kind_id: str, namespace: str = "") -> list[Stored]:
        """All objects of a kind (of one namespace when given), in key order."""
        table = self._table(kind_id)
        if not namespace:
            return [table.stored_by_key[key] for key in table.keys]
        first = bisect_left(table.keys, namespace + "/")
        last = bisect_left(table.keys, namespace + "0")  # "0" is the byte after "/"
        return [table.stored_by_key[key] for key in table.keys[first:last]]

    def since(self, kind_id: str, revision: int) -> list[Change]:
        """Changes of a kind after `revision`, oldest first.

        Raises:
            ExpiredError: changes after `revision` have been forgotten.
        """
        table = self._table(kind_id)
        if revision < table.changes_floor:
            raise ExpiredError(revision, table.changes_floor)
        first = bisect_right(table.changes, revision, key=_revision_of)
        return table.changes[first:]

    def is_reachable(self, kind_id: str, revision: int) -> bool:
        """Whether `since(kind_id, revision)` would answer."""
        return revision >= self._table(kind_id).changes_floor

    def changed_after(self, kind_id: str, revision: int) -> bool:
        """Whether the kind changed after `revision`; True as well when that is no longer known."""
        table = self._table(kind_id)
        return revision < table.changes_floor or (bool(table.changes) and table.changes[-1].revision > revision)

    # -- writing -----------------------------------------------------------------------------------

    def put(self, kind_id: str, namespace: str, name: str, obj: dict[str, Json]) -> Stored:
        """Store a new version of an object; `obj` belongs to the store from now on."""
        table = self._table(kind_id)
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        stored = Stored(namespace, name, obj, self.revision)
        previous = table.stored_by_key.get(stored.key)
        if previous is None:
            insort(table.keys, stored.key)
        table.stored_by_key[stored.key] = stored
        kind = ChangeType.ADDED if previous is None else ChangeType.MODIFIED
        self._record(kind_id, table, Change(kind, stored, previous))
        return stored

    def remove(self, kind_id: str, namespace: str, name: str, last: dict[str, Json]) -> Stored:
        """Delete an object; `last` is what the DELETED event shows, it belongs to the store.

        Raises:
            KeyError: there is no such object.
        """
        table = self._table(kind_id)
        previous = table.stored_by_key.pop(object_key(namespace, name))
        del table.keys[bisect_left(table.keys, previous.key)]
        self.revision += 1
        last["metadata"]["resourceVersion"] = str(self.revision)
        gone = Stored(namespace, name, last, self.revision)
        self._record(kind_id, table, Change(ChangeType.DELETED, gone, previous))
        return gone

    def _record(self, kind_id: str, table: _Table, change: Change) -> None:
        table.changes.append(change)
        # Trim in halves, so that forgetting costs O(1) per write.
        if len(table.changes) > 2 * self._watch_window:
            cut = len(table.changes) - self._watch_window
            table.changes_floor = table.changes[cut - 1].revision
            del table.changes[:cut]
        elif len(table.changes) > self._watch_window:
            table.changes_floor = table.changes[len(table.changes) - self._watch_window - 1].revision
        for wake in tuple(table.wakers):
            wake()
        for listener in self._listeners:
            listener(kind_id, change)

    def forget_history(self) -> None:
        """Lose every kind's history, as a restarted API server does: older watches get 410."""
        for table in self._tables.values():
            table.changes.clear()
            table.changes_floor = self.revision
        # Kinds that have no table yet must refuse older revisions as well.
        self._floor_for_new_tables = self.revision

    # -- notifications -----------------------------------------------------------------------------

    def wake_on_change(self, kind_id: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after each write of a kind, until the returned function is called."""
        wakers = self._table(kind_id).wakers
        wakers.add(wake)
        return lambda: wakers.discard(wake)

    def listen(self, listener: Listener) -> None:
        """Call `listener(kind_id, change)` after each write, synchronously; it must not write."""
        self._listeners.append(listener)

    def __iter__(self) -> Iterator[tuple[str, Stored]]:
        for kind_id, table in self._tables.items():
            for key in tuple(table.keys):
                yield kind_id, table.stored_by_key[key]


def _revision_of(change: Change) -> int:
    return change.revision
