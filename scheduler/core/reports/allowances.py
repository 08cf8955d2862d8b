"""What a namespace may have at once, and then at intervals: work for people, which one user could ask for without end.

Not here: what is allowed (`causes`, `pod_conditions`).

Cost: O(1), amortized.
"""

from __future__ import annotations

from typing import Final

_NAMESPACES_MAX: Final = 1_000
"""So many are remembered before those are forgotten that have nothing to wait for."""


class Allowances:
    """Each namespace may have `at_once`, and one more every `every_ms`."""

    def __init__(self, at_once: int, every_ms: int) -> None:
        self._ahead_ms: Final = (at_once - 1) * every_ms
        self._every_ms: Final = every_ms
        self._paid_until_ms: Final[dict[str, int]] = {}  # when all that it had would have been had at intervals

    def next_ms(self, namespace: str) -> int:
        """When it may have the next one; a time that has passed for at once."""
        return self._paid_until_ms.get(namespace, 0) - self._ahead_ms

    def take(self, namespace: str, now_ms: int) -> bool:
        """Whether it may have one now; if so it has."""
        if self.next_ms(namespace) > now_ms:
            return False
        paid = self._paid_until_ms
        if len(paid) >= _NAMESPACES_MAX and namespace not in paid:
            for name in [one for one, until_ms in paid.items() if until_ms <= now_ms]:
                del paid[name]
        paid[namespace] = max(paid.get(namespace, 0), now_ms) + self._every_ms
        return True
