"""The forms of the page's answers; its scripts have the same as types (`Api`).

`python -m tests.ui.answer_types` writes these types, which only `tsc` reads. `ANSWERS` says which address below /api/
answers what. What the commands print too has its form there (`scheduler.inventory.device_answer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from scheduler.explain.pod_explanation import Explanation
from scheduler.inventory.device_answer import ClassSummary, DeviceSummary, ProfileSummary, States, User
from scheduler.inventory.physical_devices import PhysicalDevice
from scheduler.offline.reasons import NodeGroup


class Answered(Struct, frozen=True, kw_only=True):
    """An answer that is followed: its version, and when it was made, in milliseconds since 1970."""

    version: int = 0
    as_of: int = field(default=0, name="asOf")


# -- the frame ---------------------------------------------------------------------------------------------------------


class About(Struct, frozen=True, kw_only=True):
    """Where answers come from, whether they can change, and what is not seen."""

    source: str
    live: bool
    problems: tuple[str, ...]


# -- overview ----------------------------------------------------------------------------------------------------------


class OwnerShare(Struct, frozen=True, kw_only=True):
    """What the pods of one owner have: `deployment ml/chat`, a bare pod, or a claim that is reserved for nobody.

    `pod` is one of them, NAMESPACE/NAME, "" where there is none.
    """

    owner: str
    devices: int
    pod: str


class Holder(Struct, frozen=True, kw_only=True):
    """A namespace whose claims have devices, or shares of them; `owners` are those with most."""

    namespace: str
    devices: int
    owners: tuple[OwnerShare, ...]


class Finding(Struct, frozen=True, kw_only=True):
    """Something that is wrong, or of note.

    `count` devices are concerned, `devices` are the first few, each as driver, pool and name with spaces between.
    """

    kind: str
    text: str
    since: str | None = None
    count: int = 0
    devices: tuple[str, ...] = ()


class Overview(Answered, frozen=True, kw_only=True):
    """The cluster in short. Lists have an end; `*_count` count all.

    `waiting` pods have no node; `held` devices or shares are claims'.
    """

    waiting: int
    count: int
    nodes: int
    states: States
    classes: tuple[ClassSummary, ...]
    classes_count: int
    profiles: tuple[ProfileSummary, ...]
    profiles_count: int
    held: int
    holders: tuple[Holder, ...]
    holders_count: int
    warnings: tuple[Finding, ...]
    warnings_count: int
    remarks: tuple[Finding, ...]
    notes: tuple[str, ...]


# -- devices -----------------------------------------------------------------------------------------------------------


class DeviceColumns(Struct, frozen=True, kw_only=True):
    """All devices: each column has a position in `texts` for each device.

    `group` is the node, or the value of the attribute that was asked for; `near` the NUMA node or PCIe root.
    """

    device: list[int]
    pool: list[int]
    driver: list[int]
    node: list[int]
    state: list[int]
    group: list[int]
    near: list[int]


class Devices(Answered, frozen=True, kw_only=True):
    """All devices as a picture has them.

    Devices are in the order of the list that `dra-scheduler devices` has. `by`, `near` and `rack` are what was followed
    of the question, "" for nothing; `attributes`, `nears` and `labels` what they can be. `racks` has a value of the
    label `rack` for each node that has it. `shares` are percent, of devices that claims share. `nominated`: the nodes
    where room is being made, and for which pods.
    """

    count: int
    nodes: int
    states: States
    classes: tuple[ClassSummary, ...]
    by: str
    attributes: list[str]
    near: str
    nears: list[str]
    rack: str
    labels: list[str]
    racks: dict[str, str]
    shares: list[tuple[int, int]]
    nominated: dict[str, list[str]]
    frames: list[PhysicalDevice]
    texts: list[str]
    columns: DeviceColumns
    left_out: tuple[str, ...]
    notes: tuple[str, ...]


class DeviceUser(User, frozen=True, kw_only=True):
    """A claim that has a device, or a share of it: since when, and who makes its pods, if anybody does."""

    owners: tuple[str, ...]
    since: str | None


class OneDevice(DeviceSummary, frozen=True, kw_only=True):
    """One device, as an answer that is followed (`Answered`).

    `name` is what commands call it, `more` are the users that are left out, `tainted` says since when it has its
    taints, where that is published, `nominated` are the pods for which room is being made on its node.
    """

    version: int = 0
    as_of: int = field(default=0, name="asOf")
    name: str
    users: tuple[DeviceUser, ...]
    more: int
    tainted: dict[str, str]
    attributes: dict[str, dict[str, Any]]
    nominated: list[str]


# -- pending, and a pod ------------------------------------------------------------------------------------------------


class PendingRow(Struct, frozen=True, kw_only=True):
    """Pods of one owner that wait for one cause: all their `names`, and the rest as it is of the first of them.

    `owner` is KIND/NAMESPACE/NAME; `created`: when the oldest was, "" where no object says it.
    """

    namespace: str
    name: str
    names: tuple[str, ...]
    label: str
    owner: str
    created: str
    outcome: str
    node: str
    kind: str
    cause: str
    change: str
    first_look: bool = field(name="firstLook")


class Pending(Answered, frozen=True, kw_only=True):
    """The pods that wait: how many, for which kinds of causes, and a row for those of one owner and cause.

    `again`: first looks are being corrected.
    """

    waiting: int
    not_asked: int = field(name="notAsked")
    kinds: dict[str, int]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    pods: tuple[PendingRow, ...]
    unlisted: tuple[str, ...] = ()
    again: bool = False


class HistoryLine(Struct, frozen=True, kw_only=True):
    """What happened, and when for the last time; `first`: the first time, where it happened often."""

    at: str
    what: str
    text: str
    count: int = 1
    first: str = ""


class PodAnswer(Explanation, frozen=True, kw_only=True):
    """What `explain` says of a pod, when it was created ("" where it does not say it), and what has happened to it."""

    version: int = 0  # a struct has one base
    as_of: int = field(default=0, name="asOf")
    created: str = ""
    history: tuple[HistoryLine, ...] = ()
    unlisted: tuple[str, ...] = ()


# -- what if: of what `simulate`, `make-room` and `drain-device` answer, what the page shows ---------------------------


class GivenDevice(Struct, frozen=True, kw_only=True):
    """A device of a claim."""

    driver: str
    pool: str
    device: str


class PlayedPod(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What would become of a pod; `node` is null where it has none."""

    namespace: str
    name: str
    outcome: str
    node: str | None
    devices: tuple[GivenDevice, ...]
    reason: str = ""
    refusals: tuple[NodeGroup, ...] = ()


class GivenOut(Struct, frozen=True, kw_only=True):
    """How much of a class would be given out, from 0 to 1, and of how many devices."""

    share: float
    devices: int


class Played(Struct, frozen=True, kw_only=True):
    """A question that was played; `now` is the share of each class that is given out now, `more` pods are left out."""

    text: str
    allocated: dict[str, GivenOut]
    now: dict[str, float]
    pods: tuple[PlayedPod, ...]
    more: int
    evicted: tuple[str, ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]


class PlannedPod(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pod of a plan, with its devices: its step, where it would go and what it would be given, or why it stays."""

    namespace: str
    name: str
    source: str = field(name="from")
    devices: tuple[GivenDevice, ...]
    step: int = 0
    target: str = field(default="", name="to")
    given: tuple[GivenDevice, ...] = ()
    why: str = ""


class PlannedBudget(Struct, frozen=True, kw_only=True):
    """What a PodDisruptionBudget allows, and takes."""

    text: str


class MovePlan(Struct, frozen=True, kw_only=True):
    """What came of looking for a plan, and the commands that carry it out."""

    outcome: str
    text: str
    budgets: tuple[PlannedBudget, ...]
    warnings: tuple[str, ...]
    problems: tuple[str, ...]
    commands: tuple[str, ...]


class RoomPod(Struct, frozen=True, kw_only=True):
    """The pod that room is made for."""

    namespace: str
    name: str


class RoomPlan(MovePlan, frozen=True, kw_only=True):
    """What would have to move for a pod."""

    pod: RoomPod
    moves: tuple[PlannedPod, ...]
    cannot_move: dict[str, int] = field(name="cannotMove")


class DrainPlan(MovePlan, frozen=True, kw_only=True):
    """Who holds a device, and where they would go; `more` that stay are left out. The first device was asked about."""

    devices: tuple[GivenDevice, ...]
    holders: tuple[PlannedPod, ...]
    more: int
    notes: tuple[str, ...]


ANSWERS: Final[Mapping[str, type[Struct]]] = {
    "about": About,
    "overview": Overview,
    "devices": Devices,
    "device": OneDevice,
    "pending": Pending,
    "pod": PodAnswer,
    "whatif": Played,
    "whatif?room": RoomPlan,
    "whatif?drain": DrainPlan,
}
