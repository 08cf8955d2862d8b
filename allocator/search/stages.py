"""The stages of a request's funnel: what takes devices from it, from published to given."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """What removed a device from the candidates of a request, in words, in the order of the funnel.

    A device counts at the first stage that refuses it. Stages up to UNREAD hold whatever else is
    going on in the cluster.
    """

    CLASS_SELECTOR = "not of the device class"
    REQUEST_SELECTOR = "not matched by the request's selectors"
    UNDECIDED = "not decided, as a selector fails"
    NODE = "for other nodes"
    FEATURE = "need a feature that is off"
    OPERATIONS = "need the node to declare DRAOptionalNodeOperations"
    SIZE = "without the requested capacity"
    UNREAD = "with a field that this scheduler does not know"
    TAINT = "tainted and not tolerated"
    IN_USE = "in use"
    CAPACITY = "with too little capacity left"
    GROUPS = "not compatible with partitions in use"
    COUNTERS = "without counters left in their pool"
    CONSTRAINT = "refused by a constraint of the claim"

    @property
    def is_lasting(self) -> bool:
        """Whether the device would never do, as long as it is published like this."""
        return _ORDER[self] <= _ORDER[Stage.UNREAD]

    @property
    def depth(self) -> int:
        """How far down the funnel it stands."""
        return _ORDER[self]


_ORDER = {stage: number for number, stage in enumerate(Stage)}
