"""The forms of what commands print with `-o json`; docs/schemas has their schemas.

The commands make these documents without models; tests read what they print with these, and compare the published
schemas. `MODELS` says which command prints what.

Not here: `explain` and `devices`, which print the models of `scheduler.explain` and `scheduler.inventory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from scheduler.offline import PodResult


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GivenDevice(_Part):
    """A device of one of the pod's claims."""

    claim: str
    request: str
    driver: str
    pool: str
    device: str
    consumed_capacity: dict[str, str] | None = Field(
        None, alias="consumedCapacity", description="What the share consumes, where claims share the device."
    )
    admin_access: bool | None = Field(None, alias="adminAccess")
    share_id: str | None = Field(None, alias="shareID")


class Share(_Part):
    """Of one device class."""

    share: float = Field(
        description="0 to 1: what is given out of its devices, or of their capacity where it is shared."
    )
    devices: int
    used: float


class Refusal(_Part):
    """Nodes that one plugin refuses for one reason."""

    plugin: str
    reason: str
    devices: tuple[str, ...] = Field(description="Of each request, how many devices each rule takes away.")
    count: int
    nodes: tuple[str, ...] = Field(description="The first 100 of them.")


class PlayedPod(_Part):
    """A pod that waited, or arrived; times in seconds from the beginning."""

    namespace: str
    name: str
    outcome: PodResult
    at: float
    bound: float | None
    ended: float | None
    node: str | None
    devices: tuple[GivenDevice, ...]
    reason: str | None = Field(None, description="Why it has no node.")
    refusals: tuple[Refusal, ...] | None = Field(
        None, description="Why nodes refuse it: of the first 100 pods that wait, one of each reason first."
    )


class ShareThen(_Part):
    """Of one device class, at a moment."""

    share: float = Field(description="0 to 1: what is given out.")
    fragmentation: float = Field(description="0 to 1: how much of it is free on nodes that gave out some of theirs.")


class Moment(_Part):
    """How things stood, in seconds from the beginning."""

    at: float
    waiting: int = Field(description="Pods that are there and have no node.")
    allocated: dict[str, ShareThen]


class SimulateAnswer(_Part):
    """What `simulate` prints, without --what-node."""

    placed: int
    refused: int
    end: float
    allocated: dict[str, Share] = Field(description="By device class, at the end.")
    pods: tuple[PlayedPod, ...]
    over_time: tuple[Moment, ...] = Field((), alias="overTime", description="With --plot: what is drawn.")


class WaitingPod(_Part):
    """A pod that waits, and what keeps it out."""

    namespace: str
    name: str
    owner: str = Field(description="Whose pod it is, KIND/NAMESPACE/NAME: its group's, its maker's, or its own.")
    outcome: PodResult | Literal["unserved"]
    node: str | None = Field(description="Where it would run.")
    kind: str | None = Field(description="The kind of its cause, as docs/reasons.md has it; null where it fits.")
    cause: str = Field(description="Empty where it fits.")
    change: str | None = Field(None, description="What makes it fit, where a change is known.")
    first_look: bool = Field(
        False, alias="firstLook", description="The budget of the list ended: `explain NAME` may have a better cause."
    )
    created: str | None = Field(None, description="When it was created, where the object says it.")


class ExplainAllAnswer(_Part):
    """What `explain -A` and `explain -n NAMESPACE` print, without a name."""

    waiting: int = Field(description="Pods that wait; at most 1,000 of them are asked about.")
    pods: tuple[WaitingPod, ...]


class PodOfRoom(_Part):
    """The pod that is to fit."""

    namespace: str
    name: str
    node: str | None
    devices: tuple[GivenDevice, ...]


class Move(_Part):
    """A pod that would have to go from one node to another."""

    namespace: str
    name: str
    source: str = Field(alias="from")
    target: str = Field(alias="to")
    devices: tuple[GivenDevice, ...] = Field(description="What it has.")
    given: tuple[GivenDevice, ...] = Field(description="What it would get.")
    controller: str = Field(description="KIND/NAME of who makes it again.")
    named_claims: tuple[str, ...] = Field(alias="namedClaims")
    step: int = Field(description="When it goes, from 1.")


class UsedBudget(_Part):
    """A PodDisruptionBudget, and how many of its pods the plan takes."""

    namespace: str
    name: str
    used: int
    allowed: int
    text: str


class RoomAnswer(_Part):
    """What `make-room` prints."""

    outcome: Literal["fits", "plan", "none", "unknown"]
    text: str
    pod: PodOfRoom
    cordoned: str | None = Field(description="The node that takes no other pod until the plan is done.")
    moves: tuple[Move, ...]
    budgets: tuple[UsedBudget, ...]
    moves_max: int = Field(alias="movesMax")
    questions: int
    nodes: int
    cannot_move: dict[str, int] = Field(alias="cannotMove", description="Why pods stay, and how many.")
    warnings: tuple[str, ...] = Field(description="What to know before pods are evicted.")
    commands: tuple[str, ...] = Field(description="The lines of a script for bash that carries the plan out.")
    reason: str | None = None


class DeviceName(_Part):
    """A device."""

    driver: str
    pool: str
    device: str


class HolderOfDevice(_Part):
    """A pod that has the device, or goes with one that has it."""

    namespace: str
    name: str
    source: str = Field(alias="from", description="Its node.")
    devices: tuple[GivenDevice, ...] = Field(description="What it has.")
    step: int | None = Field(None, description="When it goes; pods of one step go at once. Missing where it stays.")
    target: str | None = Field(None, alias="to")
    given: tuple[GivenDevice, ...] = Field((), description="What it would get.")
    controller: str | None = Field(None, description="KIND/NAME of who makes it again.")
    named_claims: tuple[str, ...] = Field((), alias="namedClaims")
    why: str | None = Field(None, description="Why it stays.")


class DrainAnswer(_Part):
    """What `drain-device` prints."""

    outcome: Literal["free", "plan", "none", "unknown"]
    text: str
    devices: tuple[DeviceName, ...] = Field(description="The device, and the partitions that are drained with it.")
    holders: tuple[HolderOfDevice, ...]
    budgets: tuple[UsedBudget, ...]
    questions: int
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = Field(description="What to know before pods are evicted.")
    rules: tuple[dict[str, Any], ...] = Field(description="DeviceTaintRules that keep new claims off.")
    commands: tuple[str, ...] = Field(
        description="The taints, and with a plan the script for bash that carries it out."
    )


class PodOnShape(_Part):
    """A pod that waits, and where it would run."""

    namespace: str
    name: str
    node: str | None = None
    reason: str | None = None


class ShapeOfNode(_Part):
    """What nodes of one shape would do for the pods that wait."""

    node: str
    count: int = Field(description="How many of them would be needed.")
    run: tuple[PodOnShape, ...]
    wait: tuple[PodOnShape, ...]


class WhatNodeAnswer(_Part):
    """What `simulate --what-node` prints."""

    shapes: tuple[ShapeOfNode, ...]


class LintFinding(_Part):
    """One finding; lines and columns from 1."""

    severity: Literal["error", "warning"]
    code: str
    file: str
    line: int
    column: int
    object: str = Field(description="KIND NAMESPACE/NAME; empty for a text that cannot be read.")
    field: str
    message: str
    served: str = Field(description="Since and until which Kubernetes the shape was served; empty where it still is.")
    fix: str
    converted: str = Field(description="What `convert` writes; empty where it leaves it as it is.")


class LintAnswer(_Part):
    """What `lint` prints."""

    kind: Literal["LintFindings"]
    items: tuple[LintFinding, ...]


class SelectorTrap(_Part):
    """Something that is valid and will surprise."""

    code: str
    line: int
    column: int
    message: str
    advice: str
    snippet: str


class CheckedSelector(_Part):
    """A selector as an API server would judge it."""

    expression: str
    source: str | None = Field(None, description="FILE:LINE:COLUMN, of a selector in a file.")
    field: str | None = None
    valid: bool
    error: str | None
    hint: str | None
    type: str | None
    cost: int | None = Field(description="The estimate.")
    limit: int = Field(alias="costLimit")
    warnings: tuple[SelectorTrap, ...]


class CelCheckAnswer(_Part):
    """What `cel check` prints."""

    kind: Literal["SelectorVerdicts"]
    items: tuple[CheckedSelector, ...]


class EvaluatedDevice(_Part):
    """What a selector says of one device: a value, or an error."""

    driver: str
    pool: str
    device: str
    value: bool | None = None
    runtime_error: str | None = None
    celpy: dict[str, Any] | None = Field(None, description="With --engine celpy: what cel-python says.")


class EvaluatedDevices(_Part):
    """A selector on devices."""

    kind: Literal["SelectorAnswers"]
    items: tuple[EvaluatedDevice, ...]


class EvaluatedAlone(_Part):
    """An expression without devices, or one that cannot be evaluated on any."""

    value: Any = Field(None, description='With its type: {"int": "3"}, {"list": […]}, true, ….')
    compile_error: str | None = None
    runtime_error: str | None = None


class CelEvalAnswer(RootModel[EvaluatedDevices | EvaluatedAlone]):
    """What `cel eval` prints."""


class DemoPod(_Part):
    """A pod of the demo, and what became of it."""

    namespace: str
    name: str
    node: str | None
    devices: tuple[GivenDevice, ...]
    reason: str | None = Field(None, description="Why it has no node.")


class DemoAnswer(_Part):
    """What `demo` prints."""

    pods: tuple[DemoPod, ...]
    kubeconfig: str | None = Field(None, description="With --serve.")


class VersionAnswer(_Part):
    """What `version` prints."""

    version: str
    commit: str | None
    kubernetes: tuple[str, ...] = Field(description="Supported releases.")
    python: str


MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "cel-check": CelCheckAnswer,
    "cel-eval": CelEvalAnswer,
    "demo": DemoAnswer,
    "drain-device": DrainAnswer,
    "explain-all": ExplainAllAnswer,
    "lint": LintAnswer,
    "make-room": RoomAnswer,
    "simulate": SimulateAnswer,
    "version": VersionAnswer,
    "what-node": WhatNodeAnswer,
}
"""By name of the schema's file."""
