"""What is not said yet, by row: on which channel, and what of it (`judging.faults`). Only ever shorter."""

from typing import Final

KNOWN_MISSES: Final[dict[str, str]] = {
    "fewer-share-what-a-request-derives@plain": ("files or-untrue"),
    "fewer-share-what-a-request-derives@fleet": ("files or-untrue"),
    "siblings-have-the-host-port@plain": ("event change harm; files change harm; online change harm"),
    "siblings-have-the-host-port@fleet": ("event change harm; files change harm; online change harm"),
    "replicas-share-a-claim-on-a-full-node@plain": ("event change; files change; online change"),
    "replicas-share-a-claim-on-a-full-node@pair": ("event change; files change; online change"),
    "the-last-replica-of-many-that-wait@plain": ("event object says"),
    "the-last-replica-of-many-that-wait@fleet": ("event object says"),
    "the-older-pods-of-its-deployment-have-the-devices@plain": (
        "event harm sibling; files harm sibling or-sibling; online harm sibling or-sibling"
    ),
    "the-older-pods-of-its-deployment-have-the-devices@fleet": (
        "event harm sibling; files harm sibling or-sibling; online harm sibling or-sibling"
    ),
    "a-sibling-has-the-extended-resource@plain": ("event object; files object; online object"),
    "a-sibling-has-the-extended-resource@fleet": ("event object; files object; online object"),
    "a-sibling-blocks-one-and-a-stranger-another@plain": ("event object; files object; online object"),
    "a-sibling-blocks-one-and-a-stranger-another@fleet": ("event object; files object; online object"),
    "a-whole-and-a-half-of-one-device@plain": ("event change; files says change; online says change"),
    "a-whole-and-a-half-of-one-device@pair": ("event change; files says change; online says change"),
    "victims-share-the-claim-with-a-boss@plain": ("event change; files change untrue; online change"),
    "victims-share-the-claim-with-a-boss@fleet": ("event change; files change untrue or-untrue; online change"),
    "one-claim-is-pinned-away-from-the-other-s-devices@plain": ("event object; files object; online object"),
    "one-claim-is-pinned-away-from-the-other-s-devices@fleet": ("event object; files object; online object"),
    "an-amount-that-is-never-given@plain": ("event says change; files says change; online says change"),
    "an-amount-that-is-never-given@one": ("event says change; files says change; online says change"),
    "nodes-are-of-another-architecture@plain": ("files lie; online lie"),
    "nodes-are-of-another-architecture@fleet": ("files lie; online lie"),
    "what-two-requests-want-is-on-two-nodes@plain": ("event says; files says; online says"),
    "what-two-requests-want-is-on-two-nodes@fleet": ("event says; files says; online says"),
}
