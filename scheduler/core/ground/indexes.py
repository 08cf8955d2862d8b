"""Indexes: members by what they are found by. An entry has members, or is not there."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar

At = TypeVar("At", bound=Hashable)
Member = TypeVar("Member", bound=Hashable)


def drop(index: dict[At, dict[Member, Any]], at: At, member: Member) -> None:
    """Take a member out of an entry, and the entry away with its last; nothing where it is not there."""
    members = index.get(at)
    if members is not None:
        members.pop(member, None)
        if not members:
            del index[at]
