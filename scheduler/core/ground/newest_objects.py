"""The newest known state of each object of one kind, by name or by uid.

Rules of this module
  1. What is observed changes nothing unless it is newer than what is known (`versions`): then the answer is UNCHANGED.
  2. With uids a name belongs to one object at a time. An object of the same name and another uid that is newer means
     that the earlier one is gone: the caller deletes that one first (`replaced_by`). An older one is not believed.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Generic, Protocol, TypeVar

from scheduler.core.ground.versions import Versions


class Unchanged(Enum):
    """What was observed is nothing new."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED

Name = TypeVar("Name")
Object = TypeVar("Object")
Uid = TypeVar("Uid")
Key_co = TypeVar("Key_co", covariant=True)


class NewestObjects(dict[Name, Object]):
    """Objects that their name identifies. A subclass with an index keeps it in line in `_replaced`."""

    def __init__(self, *, may_return: bool = False) -> None:
        self._versions: Final[Versions[Name]] = Versions(may_return=may_return)
        self.changes = 0

    def observe(self, name: Name, revision: int, new: Object) -> Object | Unchanged | None:
        """The state that this one replaces, None for a new object."""
        if not self._versions.observe(name, revision):
            return UNCHANGED
        old = self.get(name)
        self[name] = new
        self.changes += 1
        self._replaced(old, new)
        return old

    def delete(self, name: Name, revision: int) -> Object | None:
        """The last state, None when the object was not known or the deletion is older than what is."""
        if not self._versions.delete(name, revision):
            return None
        old = self.pop(name)
        self.changes += 1
        self._replaced(old, None)
        return old

    def _replaced(self, old: Object | None, new: Object | None) -> None:
        """Called after each change: None stands for no object."""


class Keyed(Protocol[Key_co]):
    @property
    def key(self) -> Key_co: ...


Identified = TypeVar("Identified", bound=Keyed[object])


class ObjectsByUid(dict[Uid, Identified], Generic[Uid, Identified]):
    """Objects whose names can be given again."""

    def __init__(self) -> None:
        self._versions: Final[Versions[Uid]] = Versions(is_final=True)
        self._uid_by_key: Final[dict[object, Uid]] = {}

    def by_key(self, key: object) -> Identified | None:
        uid = self._uid_by_key.get(key)
        return self[uid] if uid is not None else None

    def has_observed(self, uid: Uid, revision: int) -> bool:
        """Whether this state, or a newer one, is known: each of our writes is observed twice, in its reply and in the
        watch."""
        known = self._versions.newest(uid)
        return known is not None and revision <= known

    def replaced_by(self, uid: Uid, revision: int, new: Identified) -> Uid | None:
        """The object of the same name that cannot exist any more, given that `new` was observed."""
        if uid in self:
            return None  # its name is its own
        namesake = self._uid_by_key.get(new.key)
        known = self._versions.newest(namesake) if namesake is not None else None
        return namesake if known is not None and known < revision else None

    def observe(self, uid: Uid, revision: int, new: Identified) -> Identified | Unchanged | None:
        """The state that this one replaces, None for a new object. First delete the one of `replaced_by`."""
        old = self.get(uid)
        if old is None:
            namesake = self._uid_by_key.get(new.key)
            if namesake is not None and (self._versions.newest(namesake) or 0) > revision:
                return UNCHANGED
        if not self._versions.observe(uid, revision):
            return UNCHANGED
        self[uid] = new
        if old is None:
            self._uid_by_key[new.key] = uid
        return old

    def delete(self, uid: Uid, revision: int) -> Identified | None:
        """The last state, None when the object was not known or the deletion is older than what is."""
        if not self._versions.delete(uid, revision):
            return None
        old = self.pop(uid)
        if self._uid_by_key.get(old.key) == uid:
            del self._uid_by_key[old.key]
        return old
