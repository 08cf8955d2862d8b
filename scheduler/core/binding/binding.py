"""One pod between Reserve and the end of its binding: how far it is, and what it waits for.

    PreBind ──> Bind ──> bound
       │         │
       └─────────┴──> Settle ──> Unreserve ──> queued again, or gone

    stage      call                to         when
    -          start               PreBind    its node and devices are set aside
    PreBind    _bind_when_certain  Bind       every plugin is done, and nothing that was written may be undone
    PreBind    _give_up            Settle     a plugin fails, or the pod, its claims or its devices are others by now
    Bind       _give_up            Settle     the binding is refused, or the pod is gone or bound to another node
    Bind       _succeed            -          it is bound
    Settle     begin               Unreserve  no write of the pod may land any more
    Unreserve  _take_back          -          nothing is left to be taken back

Not here: what happens to it (`binding_cycle`).
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from scheduler.core.ground.inputs import WriteRejected
from scheduler.core.ground.timers import TimerId
from scheduler.core.reports.pod_conditions import Refusal
from scheduler.framework.cycle import Cycle
from scheduler.framework.runner import Runner
from scheduler.framework.status import Status
from scheduler.model.keys import ClaimKey, NodeName, PodUid
from scheduler.model.objects import Pod


class Stage(Enum):
    PRE_BIND = "PreBind"
    BIND = "Bind"
    SETTLE = "Settle"
    UNRESERVE = "Unreserve"


_SETTLE, _UNRESERVE = Stage.SETTLE, Stage.UNRESERVE


class BindingCycle(Struct, eq=False):
    """One pod on its way to `node`.

    Args:
        awaited: Answers to writes and reads that must come before the next step (the binding itself is not counted).
        trouble: Conflicts and refusals survived so far.
        awakened_by: Claims whose next change continues the cycle.
        is_last_write: When the writes under way are accepted, PreBind has nothing left to write.
        awaits_revision: The cycle continues when the watch of claims has reached this revision; None when it waits for
            something else.
        is_bind_doubtful: An earlier sending of the binding may still land.
        fence_ms: The pod's fence when the cycle began; `written` is kept only where there is one.
        written: Claims that a write of this cycle has changed.
        patience_ms: Until when another process may finish what it has reserved for the pod, None: not asked yet.
        leaves_claims: Given up for another process of our name, which takes the claims back itself.
        notes: What the pod's status said about its devices when PreBind was done.
        failure: Why the pod is given up; set from SETTLE on.
        retry_ms: Wait before the pod is tried again, None for the usual backoff.
        waits_for: What a plugin waits for; reported once it has lasted.
    """

    uid: PodUid
    pod: Pod
    node: NodeName
    cycle: Cycle
    runner: Runner
    stage: Stage = Stage.PRE_BIND
    awaited: int = 0
    is_last_write: bool = False
    trouble: int = 0
    timer: TimerId | None = None
    awakened_by: tuple[ClaimKey, ...] = ()
    awaits_revision: int | None = None
    is_bind_doubtful: bool = False
    bind_attempts: int = 0
    fence_ms: int | None = None
    written: tuple[ClaimKey, ...] = ()
    patience_ms: int | None = None
    leaves_claims: bool = False
    notes: tuple[object, ...] = ()
    unreserve_rounds: int = 0
    failure: Status | None = None
    retry_ms: int | None = None
    refusal: WriteRejected | None = None
    waits_for: Refusal | None = None
    is_wait_reported: bool = False

    @property
    def is_given_up(self) -> bool:
        return self.stage is _SETTLE or self.stage is _UNRESERVE


class Bindings(dict[PodUid, BindingCycle]):
    """The pods that are being bound, from Reserve on; `binding_cycle` puts them in and takes them out."""

    def stage_of(self, uid: PodUid) -> Stage | None:
        """How far the pod's binding is; None when it is not being bound, or given up."""
        binding = self.get(uid)
        return None if binding is None or binding.is_given_up else binding.stage
