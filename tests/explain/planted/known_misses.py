"""What is not said yet, by row: on which channel, and what of it (`judging.faults`). Only ever shorter."""

from typing import Final

KNOWN_MISSES: Final[dict[str, str]] = {
    "no-rack-has-room-for-the-gang@plain": ("files harm"),
    "no-rack-has-room-for-the-gang@fleet": ("files harm"),
    "no-node-has-the-gang-s-label@plain": ("files kind change"),
    "no-node-has-the-gang-s-label@fleet": ("files kind change"),
    "the-gang-s-leader-names-a-class-that-is-not-there@plain": ("files says; online says"),
    "the-gang-s-leader-names-a-class-that-is-not-there@pair": ("files says; online says"),
    "the-scheduler-makes-the-room-itself@plain": ("event kind change; files kind; online kind object change"),
    "the-scheduler-makes-the-room-itself@fleet": ("event kind change; files kind; online kind object change"),
    "victims-share-the-claim-with-a-boss@plain": ("event change; files change untrue; online change"),
    "victims-share-the-claim-with-a-boss@fleet": ("event change; files change untrue or-untrue; online change"),
    "its-victim-takes-long-to-go@plain": ("files kind object says change; online kind object says change"),
    "its-victim-takes-long-to-go@fleet": ("files kind object says change; online kind object says change"),
    "room-is-kept-for-a-more-important-pod@plain": ("files kind says"),
    "room-is-kept-for-a-more-important-pod@fleet": ("files kind says"),
    "a-group-s-sibling-group-is-let-be@plain": ("event object change; files object change; online object change"),
    "a-group-s-sibling-group-is-let-be@fleet": ("event object change; files object change; online object change"),
}
