"""Reasons, fixes and what a search came to, as values: who made them says no sentence.

Rules of this module
  1. A reason is a fact about the cluster as it is: its kind, and the objects and amounts that make it so.
  2. A fix is one thing that a person could do, with the objects as they would be once it is done.
  3. What is said of either stands in its row of `kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import IntEnum
from typing import Any, Final

from msgspec import Struct, structs

from allocator import DeviceClass, ResourceSlice
from scheduler.model.claim import ResourceClaim
from scheduler.model.held import Held
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.objects import Node, Pod
from scheduler.model.owners import edited_object
from scheduler.why.kinds import FIXES, KINDS
from scheduler.why.say import Fields, Reader, Sentence, say

TO_MAKE_IT_FIT: Final = "; to make it fit: "
"""Between a cause and a fix."""
FIRST_LOOK: Final = ", first look"
"""After the kind of an answer that a longer search may replace."""
MAKING_ROOM: Final = "making-room"
"""The kind for which nothing needs to be done."""
NOTHING_TO_DO: Final = "nothing needs to be done"
_REASONS_SAID: Final = 3


class Whom(IntEnum):
    """Who has to do something or gives way, who is nearest to the pod first."""

    OWN = 0
    """The pod, its claims and templates, its namespace, a node."""
    ABOVE = 1
    """More important pods of its namespace."""
    OTHERS = 2
    """A class, a driver, pods and claims of other namespaces."""


class Fix(Struct, frozen=True):
    """One thing that a person could do, with all that is different once it is done.

    Args:
        kind: A row of `kinds.FIXES`.
        fields: What its sentence names, beside the command and, of a pod, what is edited.
        on: The nodes that the pod may fit on then.
        command: A line for a shell that does it, "" where there is none.
        more: How much more it asks of people than one of its kind usually does.
        reason: What it removes; None: the reason that offers it.
        whom: Who is concerned, as far as the objects that end do not say so.
        pod, node, claims, slices, classes: Objects as they would be.
        removed, released: Pods that would be gone from the node, and what claims count that would give it back.
        edits: Of objects that no plugin sees, by their index among those that were given.
        objects: What it is about, `KIND/NAMESPACE/NAME`, where the other fields do not say so.
    """

    kind: str
    fields: Fields
    on: tuple[NodeName, ...] = ()
    command: str = ""
    more: int = 0
    reason: Reason | None = None
    whom: Whom = Whom.OWN
    pod: Pod | None = None
    node: Node | None = None
    claims: tuple[ResourceClaim, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    removed: tuple[PodUid, ...] = ()
    released: tuple[Held, ...] = ()
    edits: tuple[tuple[int, Callable[[dict[str, Any]], None]], ...] = ()
    objects: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How much it asks of people."""
        return FIXES[self.kind].size + self.more

    @property
    def same(self) -> Hashable:
        """Equal for fixes of which the first that helps is enough: where less helps, still less does, too."""
        said = self.said
        return self.kind, *(_hashable(said.get(name)) for name in FIXES[self.kind].same)

    def text(self, reader: Reader) -> str:
        """What to do, with the names of all whom it concerns."""
        return Sentence(FIXES[self.kind].says, self.said).said(reader)

    @property
    def said(self) -> Fields:
        """All that its sentence may name."""
        edited = edited_object(self.pod) if self.pod is not None else ""
        return {"command": self.command, "edited": edited, **self.fields}


class Reason(Struct, frozen=True):
    """A fact that keeps the pod from nodes.

    Args:
        kind: A row of `kinds.KINDS`.
        fields: The objects and amounts that make it so.
        form: Which of the row's sentences says it.
        fixes: What may help, to be tried.
    """

    kind: str
    fields: Fields
    form: str = ""
    fixes: tuple[Fix, ...] = ()

    @property
    def sentence(self) -> Sentence:
        """What is said of it, also within another sentence."""
        return Sentence(KINDS[self.kind].says[self.form], self.fields)

    def text(self, reader: Reader) -> str:
        """The fact; the object that makes it so stands first."""
        return say(self.sentence, reader)

    @property
    def about(self) -> Hashable:
        """Equal for facts about the same things: a pod's events name each once."""
        return self.kind, self.form, *(_hashable(self.fields.get(name)) for name in KINDS[self.kind].same)


class Diagnosis(Struct, frozen=True):
    """Why a pod fits no node.

    Args:
        reasons: What plugins say, the nearest miss first.
        fixes: What lets the pod in, together and in this order: one, or two where no single one does, or none.
        also: Other single fixes that do.
        asked: How many fixes were tried.
        is_exhausted: The limits ended the search, so there may be a fix that nobody tried.
    """

    reasons: tuple[Reason, ...]
    fixes: tuple[Fix, ...] = ()
    also: tuple[Fix, ...] = ()
    asked: int = 0
    is_exhausted: bool = False

    @property
    def decisive(self) -> tuple[Reason, ...]:
        """What the fixes remove, together; where nothing helps, what plugins say."""
        return tuple([one.reason for one in self.fixes if one.reason is not None]) or self.reasons[:_REASONS_SAID]

    @property
    def kind(self) -> str:
        """Of the first of them."""
        return self.decisive[0].kind

    def cause(self, reader: Reader) -> str:
        """The facts alone."""
        return ("; and then " if self.fixes else "; ").join(one.text(reader) for one in self.decisive)

    def advice(self, reader: Reader) -> str:
        """What to do, "" where nothing helps."""
        nothing = NOTHING_TO_DO if self.kind == MAKING_ROOM else ""
        return "; then ".join(one.text(reader) for one in self.fixes) or nothing

    def text(self, reader: Reader) -> str:
        """All of it, as events have it."""
        kind = f"[{self.kind}{FIRST_LOOK if self.is_exhausted else ''}]"
        cause, advice = self.cause(reader), self.advice(reader)
        return f"{kind} {cause}{(TO_MAKE_IT_FIT if self.fixes else '; ') if advice else ''}{advice}"

    @property
    def about(self) -> Hashable:
        """Equal for the same things."""
        size = sum(one.size for one in self.fixes)
        return ("fix", size, self.reasons[0].about) if size else tuple([one.about for one in self.reasons])


def removing(fix: Fix, reason: Reason) -> Fix:
    """The fix with the reason that it removes, where it has none of its own."""
    return fix if fix.reason is not None else structs.replace(fix, reason=structs.replace(reason, fixes=()))


def _hashable(value: object) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return str(value)
    return value
