"""Which report about an object is believed."""

from __future__ import annotations

import itertools

import pytest

from scheduler.core.ground.versions import Versions


@pytest.mark.parametrize(
    ("reports", "want"),
    [
        pytest.param(["add 5", "add 5"], [True, False], id="a-duplicate-says-nothing"),
        pytest.param(["add 5", "add 4"], [True, False], id="a-late-one-says-nothing"),
        pytest.param(["add 5", "add 6"], [True, True], id="a-newer-one-counts"),
        pytest.param(["add 5", "delete 6", "add 5"], [True, True, False], id="a-late-one-does-not-bring-it-back"),
        pytest.param(["delete 6", "add 5"], [False, False], id="a-deletion-may-come-first"),
        pytest.param(["add 5", "delete 4", "add 6"], [True, False, True], id="an-old-list-deletes-nothing"),
        pytest.param(["add 5", "delete 6", "add 7"], [True, True, True], id="made-again"),
        pytest.param(["add 5", "delete 0", "add 5", "add 6"], [True, True, False, True], id="unknown-revision"),
    ],
)
def test_reports_by_name(reports, want):
    versions: Versions[str] = Versions()
    assert [_apply(versions, report) for report in reports] == want


def test_a_uid_deleted_at_an_unknown_revision_never_comes_back():
    versions: Versions[str] = Versions(is_final=True)
    assert [_apply(versions, report) for report in ("add 5", "delete 0", "add 99")] == [True, True, False]


def test_what_a_server_stopped_serving_may_return_as_it_was():
    versions: Versions[str] = Versions(may_return=True)
    assert [_apply(versions, report) for report in ("add 5", "delete 0", "add 5", "delete 6", "add 6")] == [
        *(True, True, True, True, False)
    ]


def test_the_end_does_not_depend_on_the_order_of_reports():
    """Whatever order reports with revisions come in: what is known at last is what the newest one says."""
    reports = ["add 1", "add 2", "delete 3", "add 4"]
    for order in itertools.permutations(reports):
        versions: Versions[str] = Versions()
        alive = None
        for report in order:
            if _apply(versions, report):
                alive = report.startswith("add")
        assert alive is True, order
        assert not versions.observe("object", 4)


def _apply(versions, report):
    kind, revision = report.split()
    return (versions.observe if kind == "add" else versions.delete)("object", int(revision))
