"""The form of an explanation for programs: docs/schemas/explain.json is the schema of these models."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Part(BaseModel):
    # All of it is printed, so what has a default is there, too.
    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)


class Step(_Part):
    """One change."""

    kind: str = Field(description="Which kind of cause it removes: docs/reasons.md lists them.")
    cause: str = Field(description="What is in the way.")
    change: str = Field(description="What to do about it.")
    command: str = Field(default="", description="A line for a shell that does it, or opens what is to be edited.")
    objects: tuple[str, ...] = Field(default=(), description="What is changed: KIND/NAME or KIND/NAMESPACE/NAME.")


class NodeGroup(_Part):
    """Nodes that refuse the pod alike."""

    plugin: str
    reason: str
    devices: tuple[str, ...] = Field(
        description="Of each request, how many devices each rule takes away; on the first nodes only."
    )
    count: int
    nodes: tuple[str, ...] = Field(description="The first of them by name.")


class NodeScore(_Part):
    """A node on which the pod fits."""

    node: str
    total: int = Field(description="The sum of what the plugins give, weighted.")
    plugins: dict[str, int] = Field(description="What each plugin gives; those that give nothing are left out.")


class Device(_Part):
    """A device that the pod has, or would get."""

    claim: str
    request: str
    driver: str
    pool: str
    device: str


class FunnelStep(_Part):
    """One rule of a request's devices."""

    stage: str = Field(
        description="The name of the rule, as explain has it for a node; closed-node: other plugins refuse the node."
    )
    text: str = Field(description="What the devices that it takes away have in common.")
    removed: int
    left: int
    ends: bool = Field(description="On the node that comes nearest, this is where too few devices are left.")


class RequestFunnel(_Part):
    """How the devices for a request (or an alternative) get fewer, rule by rule."""

    claim: str
    request: str
    wanted: int = Field(description="0: all that match.")
    published: int = Field(description="Devices that the nodes see; one that several see counts on each.")
    nodes: int = Field(description="How many nodes were counted, at most 1,000.")
    steps: tuple[FunnelStep, ...]
    node: str = Field(description="The node that comes nearest, of those that no other plugin refuses.")
    node_published: int = Field(description="Devices that this node sees.")
    node_left: int = Field(description="How many of them the rules leave.")


class SelectorFailure(_Part):
    """A CEL selector that fails for a device instead of answering."""

    of: str = Field(description="The request or class that it belongs to.")
    expression: str
    device: str = Field(description="The first device for which it fails: DRIVER/POOL/NAME.")
    message: str
    offset: int = Field(description="Where in the expression, in characters from 0.")
    shown: str = Field(description="The message with line and column, the line, and a caret under the place.")


class Explanation(_Part):
    """Why a pod does not fit, or where it does."""

    subject: str = Field(description="pod/NAMESPACE/NAME, or claim/NAMESPACE/NAME.")
    fits: bool = Field(description="It fits, or is bound.")
    outcome: Literal["bound", "fits", "waits", "unschedulable", "error", "gated", "refused", "unknown", "unserved"] = (
        Field(description="unserved: it would fit, but no scheduler seems to answer to its schedulerName.")
    )
    node: str | None = None
    message: str = Field(default="", description="What the scheduler says; empty where the pod fits.")
    kind: str = Field(default="", description="Which kind of cause: docs/reasons.md lists them; empty where it fits.")
    cause: str = Field(default="", description="What keeps the pod out, whole; empty where it fits.")
    objects: tuple[str, ...] = Field(default=(), description="What the changes are made to.")
    verdict: str = Field(description="The first line: the verdict, and the cause, which is cut after 160 characters.")
    advice: str = Field(description="The second line: what to do.")
    command: str = Field(default="", description="All of the changes as a line for a shell, where there is one.")
    changes: tuple[Step, ...] = Field(
        default=(), description="What makes the pod fit, together, in the order in which to do it."
    )
    also: tuple[Step, ...] = Field(default=(), description="Other single changes that make it fit.")
    questions: int = Field(default=0, description="How many changes were asked about.")
    exhausted: bool = Field(default=False, description="The budget was used up before all were asked about.")
    siblings: int = Field(default=0, description="Other pods of its owner that wait, and were asked about beside it.")
    siblings_fit: int = Field(default=0, description="Those of them that fit.")
    devices: tuple[Device, ...] = ()
    nodes: tuple[NodeGroup, ...] = ()
    scores: tuple[NodeScore, ...] = Field(
        default=(), description="Of a pod that is bound or fits: the nodes that fit, asked again now; the best first."
    )
    funnels: tuple[RequestFunnel, ...] = Field(
        default=(), description="Of a pod that does not fit: its requests, where it has claims."
    )
    failures: tuple[SelectorFailure, ...] = Field(default=(), description="Selectors that the scheduler could not ask.")
    left_out: tuple[str, ...] = Field(default=(), description="What of the objects is not considered, and why.")
    notes: tuple[str, ...] = ()
