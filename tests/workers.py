"""Which worker of pytest-xdist runs which tests: two of them have a real control plane, the others never start one.

A control plane takes a tenth to four tenths of a core while it waits. With one for each of four workers they took as
much time as the tests.

A file is two units of work: its tests that need a control plane, and the others. Two workers take the first kind while
there is any; what is left goes to whoever is free.
"""

from __future__ import annotations

import re
from typing import Final

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_WITH_CONTROL_PLANE: Final = ("gw0", "gw1")
_OF_BOTH_CLUSTERS: Final = re.compile(r"\[(.*-)?(real|controlplane)(-.*)?\]$")
_REAL: Final = (
    *("tests/controlplane/test_cluster.py", "tests/kube/test_real_server.py"),
    *(
        f"tests/integration/test_{name}"
        for name in (
            *(
                "alpha_fields.py",
                "closed_gates.py",
                "failover.py",
                "install.py",
                "pod_groups.py",
                "rbac.py",
                "readers.py",
            ),
            *("page.py::test_behind_reviews", "page.py::test_with_rights"),
            *("compare.py::test_a_small_", "hostile.py::test_a_small_run_", "chaos.py::test_every_fault_once"),
            *(
                "differential.py::test_equal_where",
                "differential.py::test_every_rule",
                "differential.py::test_the_fleet",
            ),
            *("differential.py::test_what_one_leaves", "gates.py::test_gates_that_are_off"),
            "node_allocatable.py::test_a_server_that_drops",
        )
    ),
    "tests/embedded/test_refusals.py::test_the_embedded_server_refuses_what_the_real_one",
)
_UNIT: Final = " on a control plane"


def needs_control_plane(nodeid: str) -> bool:
    """What the marker `controlplane` says, of a name alone; `tests/conftest.py` compares them."""
    return nodeid.startswith(_REAL) or _OF_BOTH_CLUSTERS.search(nodeid) is not None


class TwoControlPlanes(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return f"{file}{_UNIT}" if needs_control_plane(nodeid) else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Move a unit that this worker may take to the head of the queue, and take it."""
        may_have_one = node.gateway.id in _WITH_CONTROL_PLANE or len(self.nodes) <= len(_WITH_CONTROL_PLANE)
        real = next((unit for unit in self.workqueue if unit.endswith(_UNIT)), None)
        other = next((unit for unit in self.workqueue if not unit.endswith(_UNIT)), None)
        unit = (real or other) if may_have_one else other
        if unit is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)
