"""Which worker of pytest-xdist runs which tests, and when: those that need Go when their programs are there.

A file is a unit of work for each set of Go programs that its tests need. The controller knows them from its workers,
who write them down when they have collected (`note_needs`). A process builds what is missing meanwhile; units that need
it come when it is there, or when nothing else is left: then their worker waits (tests/conftest.py).

A control plane takes a tenth to four tenths of a core while it waits. So two workers take the units that need one,
while there is any; what is left goes to whoever is free.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.controlplane.build import PROGRAMS, RUN
from tests.controlplane.builder import is_ready, start

_WITH_CONTROL_PLANE: Final = ("gw0", "gw1")
_NEEDS: Final = "needs"
_WAITING: Final = ("tests/integration", "tests/kube", "tests/ui")
"""Tests that wait half their time: for processes, servers, leases."""


def programs_of(item: pytest.Item) -> list[str]:
    """The Go programs that a test needs, by its markers."""
    markers = {marker.name for marker in item.iter_markers()}
    return [program for program in PROGRAMS if program.partition("-")[0] in markers]


def note_needs(items: Iterable[pytest.Item]) -> None:
    """Write down for the controller what the collected tests need; each worker writes the same."""
    needs = {item.nodeid: programs for item in items if (programs := programs_of(item))}
    own = Path(os.environ[RUN], f"{_NEEDS}-{os.getpid()}")
    own.write_text(json.dumps(needs))
    own.rename(own.with_name(_NEEDS))


class GoWhenReady(LoadScopeScheduling):
    """Files in the order of the collection, but for those that wait for a program or for a control plane."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self.builder: subprocess.Popen[bytes] | None = None
        self._needs: dict[str, list[str]] = {}
        self._needs_of_unit: dict[str, list[str]] = {}

    def schedule(self) -> None:
        if self.collection is None:
            self._needs = json.loads(Path(os.environ[RUN], _NEEDS).read_text())
            needed = {program for programs in self._needs.values() for program in programs}
            self.builder = start(program for program in PROGRAMS if program in needed)
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        programs = self._needs.get(nodeid, [])
        unit = f"{file} with {', '.join(programs)}" if programs else file
        self._needs_of_unit[unit] = programs
        return unit

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Move the unit that this worker takes to the head of the queue, and take it."""
        may_have_one = node.gateway.id in _WITH_CONTROL_PLANE or len(self.nodes) <= len(_WITH_CONTROL_PLANE)
        unit = next_unit(self.workqueue, self._needs_of_unit, may_have_one=may_have_one)
        if unit is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)


def next_unit(waiting: Iterable[str], needs: Mapping[str, Sequence[str]], *, may_have_one: bool) -> str | None:
    """The first of the units that a worker should take now, by the programs that each needs; None: there is none.

    What is ready goes before what is not; then what needs a control plane, if this worker `may_have_one`. Such workers
    begin with tests that wait, the others with tests that need a core: both kinds at once keep the machine busy.
    """
    units = [unit for unit in waiting if may_have_one or not _has_control_plane(needs[unit])]
    ready = {program: is_ready(program) for unit in units for program in needs[unit]}

    def order(unit: str) -> tuple[bool, bool, bool]:
        is_ready_now = all(ready[program] for program in needs[unit])
        return not is_ready_now, not _has_control_plane(needs[unit]), unit.startswith(_WAITING) is not may_have_one

    return min(units, key=order, default=None)


def _has_control_plane(programs: Sequence[str]) -> bool:
    return any(program.startswith("controlplane") for program in programs)
