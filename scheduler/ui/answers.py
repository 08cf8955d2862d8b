"""The forms of the page's answers; its scripts have the same as types (`Api`).

`python -m tests.ui.answer_types` writes these types, which only `tsc` reads, and says which address below /api/ answers
what. What commands print too has its form with them (`scheduler.inventory.device_answer`, docs/schemas).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from scheduler.explain.pod_explanation import Explanation
from scheduler.inventory.device_answer import ClassSummary, DeviceSummary, ProfileSummary, States, User
from scheduler.inventory.physical_devices import PhysicalDevice


class Answered(Struct, frozen=True, kw_only=True):
    """Beside each answer that is followed: its version, and when it was made, in milliseconds since 1970."""

    version: int
    as_of: int = field(name="asOf")


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


class Overview(Struct, frozen=True, kw_only=True):
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


class Devices(Struct, frozen=True, kw_only=True):
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
    """One device.

    `name` is what commands call it, `more` are the users that are left out, `tainted` says since when it has its
    taints, where that is published, `nominated` are the pods for which room is being made on its node.
    """

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
    names: tuple[str, ...]
    owner: str
    created: str
    outcome: str
    node: str
    kind: str
    cause: str
    change: str
    first_look: bool = field(name="firstLook")


class Pending(Struct, frozen=True, kw_only=True):
    """The pods that wait: how many, for which kinds of causes, and a row for those of one owner and cause.

    `running`: how many pods of their owners run, where any do; `again`: first looks are being corrected.
    """

    waiting: int
    not_asked: int = field(name="notAsked")
    kinds: dict[str, int]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    pods: tuple[PendingRow, ...]
    running: dict[str, int] = {}
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

    created: str = ""
    history: tuple[HistoryLine, ...] = ()
    unlisted: tuple[str, ...] = ()
