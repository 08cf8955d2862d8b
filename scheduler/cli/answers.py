"""The forms of `simulate -o json` and `allocate -o json`; docs/schemas has their schemas.

The commands make these documents themselves, without the cost of a model for each of many thousand pods; tests read
what they print with these models, and compare the published schemas.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from scheduler.offline import Outcome


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


class PlayedPod(_Part):
    """A pod that waited, or arrived; times in seconds from the beginning."""

    namespace: str
    name: str
    outcome: Outcome
    at: float
    bound: float | None
    ended: float | None
    node: str | None
    devices: tuple[GivenDevice, ...]
    reason: str | None = Field(None, description="Why it has no node.")


class SimulateAnswer(_Part):
    """What `simulate` prints; with --make-room-for and --free it is another document."""

    placed: int
    refused: int
    end: float
    allocated: dict[str, Share] = Field(description="By device class, at the end.")
    pods: tuple[PlayedPod, ...]


class Refusal(_Part):
    """Nodes that one plugin refuses for one reason."""

    plugin: str
    reason: str
    devices: tuple[str, ...] = Field(description="Of each request, how many devices each rule takes away.")
    count: int
    nodes: tuple[str, ...] = Field(description="The first 100 of them.")


class AskedPod(_Part):
    """A pod that was tried."""

    namespace: str
    name: str
    outcome: Outcome
    node: str | None
    devices: tuple[GivenDevice, ...]
    reason: str | None = None
    refusals: tuple[Refusal, ...] | None = None


class AllocateAnswer(_Part):
    """What `allocate` prints about pods; about claims alone it is another document."""

    pods: tuple[AskedPod, ...]
