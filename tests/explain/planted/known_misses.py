"""What is not said yet, by row: on which channel, and what of it (`judging.faults`). Only ever shorter."""

from typing import Final

KNOWN_MISSES: Final[dict[str, str]] = {
    "fewer-share-what-a-request-derives@plain": "files or-untrue",
    "fewer-share-what-a-request-derives@fleet": "files or-untrue",
    "siblings-have-all-devices@plain": (
        "event harm sibling; files harm sibling or-sibling; online harm sibling or-sibling"
    ),
    "siblings-have-all-devices@fleet": (
        "event harm sibling; files harm sibling or-sibling; online harm sibling or-sibling"
    ),
    "a-stranger-has-one-and-siblings-the-rest@plain": (
        "event object change harm sibling; "
        "files object change harm sibling or-sibling; "
        "online object change harm sibling or-sibling"
    ),
    "a-stranger-has-one-and-siblings-the-rest@pair": (
        "event object change harm sibling; "
        "files object change harm sibling or-sibling; "
        "online object change harm sibling or-sibling"
    ),
    "siblings-of-a-job-have-the-cpu@plain": ("files or-sibling; online or-sibling"),
    "siblings-of-a-job-have-the-cpu@fleet": ("files or-sibling; online or-sibling"),
    "siblings-have-the-host-port@plain": (
        "event change harm; files change harm or-sibling; online change harm or-sibling"
    ),
    "siblings-have-the-host-port@fleet": (
        "event change harm; files change harm or-sibling; online change harm or-sibling"
    ),
    "replicas-keep-apart@plain": ("event harm sibling; files harm sibling; online harm sibling"),
    "replicas-keep-apart@fleet": ("event harm sibling; files harm sibling or-sibling; online harm sibling or-sibling"),
    "replicas-share-a-claim-on-a-full-node@plain": ("event change; files change or-sibling; online change or-sibling"),
    "replicas-share-a-claim-on-a-full-node@pair": ("event change; files change or-sibling; online change or-sibling"),
    "the-last-replica-of-many-that-wait@plain": (
        "event object says harm sibling; files kind says; online harm sibling or-sibling"
    ),
    "the-last-replica-of-many-that-wait@fleet": (
        "event object says harm sibling; files kind says; online harm sibling or-sibling"
    ),
    "the-older-pods-of-its-deployment-have-the-devices@plain": (
        "event harm sibling; files harm sibling or-sibling; online harm sibling or-sibling"
    ),
    "the-older-pods-of-its-deployment-have-the-devices@fleet": (
        "event harm sibling; files harm sibling or-sibling; online harm sibling or-sibling"
    ),
    "no-rack-has-room-for-the-gang@plain": ("files says harm"),
    "no-rack-has-room-for-the-gang@fleet": ("files says harm"),
    "no-node-has-the-gang-s-label@plain": ("files kind change"),
    "no-node-has-the-gang-s-label@fleet": ("files kind change"),
    "its-own-members-and-a-stranger-have-the-devices@plain": (
        "event change harm sibling; "
        "files object change harm untrue or-untrue sibling or-sibling; "
        "online object change harm sibling or-sibling"
    ),
    "its-own-members-and-a-stranger-have-the-devices@fleet": (
        "event change harm sibling; "
        "files object change harm untrue or-untrue sibling or-sibling; "
        "online object change harm sibling or-sibling"
    ),
    "the-gang-s-leader-names-a-class-that-is-not-there@plain": ("event change; files says change; online says change"),
    "the-gang-s-leader-names-a-class-that-is-not-there@pair": ("event change; files says change; online says change"),
    "one-alternative-s-class-is-missing-and-another-is-in-use@fleet": ("event change; files change; online change"),
    "the-node-that-was-chosen-by-name-is-full@pair": (
        "event kind object says; files kind object says; online kind object says"
    ),
    "a-sibling-has-the-extended-resource@plain": ("event harm sibling; files harm sibling; online harm sibling"),
    "a-sibling-has-the-extended-resource@fleet": ("event harm sibling; files harm sibling; online harm sibling"),
    "a-sibling-blocks-one-and-a-stranger-another@plain": (
        "event object; files object or-sibling; online object or-sibling"
    ),
    "a-sibling-blocks-one-and-a-stranger-another@fleet": (
        "event object; files object or-sibling; online object or-sibling"
    ),
    "a-whole-and-a-half-of-one-device@plain": (
        "event kind says change; files kind says change; online kind says change"
    ),
    "a-whole-and-a-half-of-one-device@pair": (
        "event kind says change; files kind says change; online kind says change"
    ),
    "the-scheduler-makes-the-room-itself@plain": ("event kind change; files harm; online kind"),
    "the-scheduler-makes-the-room-itself@fleet": ("event kind change; files elsewhere; online kind"),
    "the-victim-is-a-static-pod@plain": ("files comes-back; online comes-back"),
    "the-victim-is-a-static-pod@fleet": ("files comes-back; online comes-back"),
    "its-victim-takes-long-to-go@plain": ("files kind object says change; online kind object says change"),
    "its-victim-takes-long-to-go@fleet": ("files kind object says change; online kind object says change"),
    "room-is-kept-for-a-more-important-pod@plain": ("files kind says"),
    "room-is-kept-for-a-more-important-pod@fleet": ("files kind says"),
    "one-claim-is-pinned-away-from-the-other-s-devices@plain": ("event object; files object; online object"),
    "one-claim-is-pinned-away-from-the-other-s-devices@fleet": ("event object; files object; online object"),
    "an-amount-that-is-never-given@plain": ("event says change; files says change; online says change"),
    "an-amount-that-is-never-given@one": ("event says change; files says change; online says change"),
    "nodes-are-of-another-architecture@plain": ("files lie; online lie"),
    "nodes-are-of-another-architecture@fleet": ("files lie; online lie"),
    "a-daemon-has-the-cpu@plain": ("files comes-back; online comes-back"),
    "a-daemon-has-the-cpu@fleet": ("files comes-back; online comes-back"),
    "a-sibling-has-the-volume@plain": ("event harm sibling; files harm sibling; online harm sibling"),
    "a-sibling-has-the-volume@fleet": ("event harm sibling; files harm sibling; online harm sibling"),
    "a-group-s-sibling-group-is-let-be@plain": ("event change; files object change; online object change"),
    "a-group-s-sibling-group-is-let-be@fleet": ("event change; files object change; online object change"),
    "what-two-requests-want-is-on-two-nodes@plain": "event says; files says; online says",
    "what-two-requests-want-is-on-two-nodes@fleet": "event says; files says; online says",
}
