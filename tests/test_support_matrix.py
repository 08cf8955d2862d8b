"""The page says what the tables say, and they do not contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.model.group import GANG_MEMBERS_MAX, GANG_PODS_MAX
from scheduler.validation.api_fields import gates, members_of
from tests.lint.handling import handling
from tests.support_matrix import page

PAGE = Path(__file__).parents[1] / "docs" / "support-matrix.md"
OF_GATES = {
    field: gate for field in handling() if (gate := members_of(field.partition(".")[0])[field.partition(".")[2]].gate)
}


def test_the_page_is_what_the_tables_make() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.support_matrix > docs/support-matrix.md"


@pytest.mark.parametrize("field", [field for field in OF_GATES if handling()[field].how == "refused"])
def test_a_feature_with_a_field_that_is_refused_is_not_called_followed(field: str) -> None:
    ours = gates()[OF_GATES[field]].ours
    assert "refused" in ours or ours.startswith("no"), OF_GATES[field]


@pytest.mark.parametrize("name", [name for name, gate in gates().items() if "refused" in gate.ours])
def test_a_feature_that_is_called_refused_has_such_a_field(name: str) -> None:
    refused = [field for field, gate in OF_GATES.items() if gate == name and handling()[field].how == "refused"]
    of_the_allocator, below = (
        {"DRADeviceCompatibilityGroups"},
        {"TopologyAwareWorkloadScheduling"},
    )
    assert refused or name in of_the_allocator | below


def test_what_is_said_of_groups_are_the_numbers_of_the_code() -> None:
    assert f"of {GANG_PODS_MAX} needed pods and {GANG_MEMBERS_MAX} in all" in gates()["GenericWorkload"].ours
