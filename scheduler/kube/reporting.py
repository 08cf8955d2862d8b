"""Reports about the API server's answers: each is logged once; refusals are kept while they last."""

from __future__ import annotations

import logging
from collections.abc import Sequence

log = logging.getLogger(__name__)

_UNDECODABLE_MAX = 10_000  # objects remembered


class Reporter:
    """Takes the reports of reflectors, leases and the executor, and logs them; it never changes what they do.

    Attributes:
        refused_by_subject: What the server refuses us now, by right or kind.
    """

    def __init__(self) -> None:
        self.refused_by_subject: dict[str, str] = {}
        self._undecodable: dict[tuple[str, str], str] = {}
        self._dropped: set[tuple[str, ...]] = set()

    def undecodable(self, kind: str, name: str, reason: str) -> None:
        """Once for each object and reason."""
        if self._undecodable.get((kind, name)) != reason:
            if len(self._undecodable) >= _UNDECODABLE_MAX:
                self._undecodable.clear()
            self._undecodable[kind, name] = reason
            log.warning("%s %s cannot be used: %s", kind, name or "without a name", reason)

    def refused(self, subject: str, message: str) -> None:
        """`subject` (a kind, or a right) is refused for lack of permission, until `granted`."""
        if self.refused_by_subject.get(subject) != message:
            self.refused_by_subject[subject] = message
            log.error("refused by the API server, see manifests/base/rbac.yaml: %s: %s", subject, message)

    def dropped(self, claim: str, fields: Sequence[str]) -> None:
        """The server stored an allocation of ours without `fields`. Once for each set: all such claims lose them."""
        if fields not in self._dropped:
            self._dropped.add(tuple(fields))
            log.error("the API server dropped %s from the allocation of claim %s", ", ".join(fields), claim)

    def granted(self, subject: str) -> None:
        if self.refused_by_subject and self.refused_by_subject.pop(subject, None) is not None:
            log.info("permitted again: %s", subject)
