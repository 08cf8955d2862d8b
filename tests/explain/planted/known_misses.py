"""What is not said yet, by row: on which channel, and what of it (`judging.faults`). Only ever shorter."""

from typing import Final

KNOWN_MISSES: Final[dict[str, str]] = {
    "a-group-that-fits@plain": "online fits",
    "a-group-that-fits@fleet": "online fits",
    "fewer-of-the-group-fit-than-are-needed@plain": "event kind; files kind; online kind",
    "the-volume-is-on-another-node@plain": "event kind; files kind; online kind",
    "the-volume-is-on-another-node@fleet": "event kind; files kind; online kind",
    "a-rule-taints-the-devices@one": "event object",
    "a-rule-taints-the-devices@pair": "event object",
    "the-pod-of-a-daemon-set@plain": "event change; files change",
    "the-pod-of-a-daemon-set@fleet": "event change; files change",
    "the-namespace-lacks-the-admin-label@plain": "event kind object change",
    "the-namespace-lacks-the-admin-label@fleet": "event kind object change",
    "the-claim-is-pinned-to-another-node@plain": "event kind object; files kind object; online kind object",
    "the-claim-is-pinned-to-another-node@fleet": "event kind object; files kind object; online kind object",
}
