"""Tables: whole names always, wrapping only at blanks and only on a terminal, tabs elsewhere."""

from __future__ import annotations

from scheduler.cli.tables import table_lines

TITLES = ("POD", "NODE", "WHY")
LONG = "training/a-pod-with-a-name-that-is-as-long-as-names-may-be-in-some-clusters-of-some-people"
ROWS = [(LONG, "node-0", "0/3 nodes are available: 3 cannot allocate all claims"), ("a/b", "<none>", "")]


def test_piped_output_has_a_line_for_each_row_and_tabs_between() -> None:
    assert table_lines(TITLES, ROWS, None) == ["POD\tNODE\tWHY", "\t".join(ROWS[0]), "a/b\t<none>\t"]


def test_on_a_terminal_only_the_last_column_wraps_and_only_at_blanks() -> None:
    lines = table_lines(TITLES, ROWS, len(LONG) + 34)

    assert lines[0].split() == ["POD", "NODE", "WHY"]
    assert lines[1].startswith(f"{LONG}  node-0  0/3 nodes are")
    assert len(lines) >= 4
    assert " ".join(line[len(LONG) + 10 :] for line in lines[1:4]).split() == ROWS[0][2].split()
    assert max(map(len, lines)) <= len(LONG) + 34


def test_names_are_whole_on_a_narrow_terminal() -> None:
    lines = table_lines(TITLES, ROWS, 40)

    assert any(LONG in line for line in lines)
    assert len(lines) == 3


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert table_lines(("A",), [("x\x1b[31m\ty",)], None) == ["A", "x\\u001b[31m y"]
