"""Verdicts of plugins, with the codes, meanings and reason texts of kube-scheduler.

Source: k8s.io/kube-scheduler v0.36.3 framework/interface.go. `nil` means success there; here success is a value.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Code(Enum):
    """What a verdict leads to.

    SUCCESS: go on. ERROR: the cycle fails, the pod is retried with backoff. UNSCHEDULABLE: this node does not fit now,
    preemption may help. UNSCHEDULABLE_AND_UNRESOLVABLE: nor would it with all its pods gone. WAIT: PreBind waits
    (in metrics alone). SKIP: the plugin has nothing to do for this pod. PENDING: the pod waits for something outside.
    UNFINISHED: PreFilter or Filter has used up the steps of this cycle; asked again, it goes on (not upstream's).
    """

    SUCCESS = "Success"
    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    PENDING = "Pending"
    UNFINISHED = "Unfinished"


class Status(Struct, frozen=True):
    """A verdict: a code, and for all but SUCCESS and SKIP the reasons a person reads, and who said so."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_success(self) -> bool:
        return self is SUCCESS or self.code is Code.SUCCESS

    @property
    def is_rejection(self) -> bool:
        return self.code in _REJECTIONS

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same verdict, signed by `plugin` (the runner signs; plugins need not)."""
        return self if self.plugin else Status(self.code, self.reasons, plugin)

    @staticmethod
    def unschedulable(*reasons: str) -> Status:
        return Status(Code.UNSCHEDULABLE, reasons)

    @staticmethod
    def unresolvable(*reasons: str) -> Status:
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)

    @staticmethod
    def error(*reasons: str) -> Status:
        return Status(Code.ERROR, reasons)

    @staticmethod
    def pending(*reasons: str) -> Status:
        return Status(Code.PENDING, reasons)


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)
UNFINISHED = Status(Code.UNFINISHED)
_REJECTIONS = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})
