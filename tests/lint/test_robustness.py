"""Whatever a file holds: findings or a refusal, never a traceback; and nothing is written that lint would refuse."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import cel
from allocator import Features
from cel.checker import environments
from cel.cost.estimate import LIMIT, estimate
from cel.program import check_expression
from scheduler.explain.linted import check_fit
from scheduler.lint.context import NOTHING_KNOWN, Settings
from scheduler.lint.documents import parse_documents
from scheduler.lint.emit import yaml_text
from scheduler.lint.engine import Source, convert, lint
from scheduler.lint.findings import Finding, Severity
from scheduler.lint.mistakes import find_mistakes
from scheduler.lint.published import read_published
from scheduler.model.selector_mistakes import PublishedNames
from scheduler.model.selector_reading import parsed
from scheduler.offline import SourceObject
from tests.lint.test_against import cluster, deployment, template
from tests.lint.test_convert import CASES, PARAMETERS, WITH_PARAMETERS
from tests.lint.test_rows import rows
from tests.lint.texts import find, selecting
from tests.model.test_selector_reading import published

TEXTS = sorted({row.values[0] for row in [*rows(), *CASES]} | {PARAMETERS, WITH_PARAMETERS, template(), deployment(2)})
PUBLISHED = cluster({"a": 2, "b": 1})


def _objects() -> list[dict[str, Any]]:
    found = []
    for text in TEXTS:
        try:
            found += [obj for obj in yaml.safe_load_all(text) if isinstance(obj, dict)]
        except yaml.YAMLError:
            continue
    return found


OBJECTS = _objects()
PIECES = [
    "device",
    ".attributes",
    ".driver",
    '["a"]',
    '["a.b/c"]',
    ".x",
    ".string()",
    ".quantity()",
    ">=",
    "==",
    "!=",
    '"7.0"',
    'quantity("1")',
    "semver(",
    "(",
    ")",
    "&&",
    "in",
    "[",
    "]",
    ".exists(x,",
    "has(",
    "1",
    "?",
    ":",
]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from([[], {}, [None], {"": None}, [[]], "a/b", 'device.attributes["x"].string()', "((((", "v1beta1"]),
)


@st.composite
def mangled(draw: st.DrawFn) -> dict[str, Any]:
    """A manifest in which a few values became something else, vanished, or moved."""
    obj = copy.deepcopy(draw(st.sampled_from(OBJECTS)))
    for _ in range(draw(st.integers(1, 4))):
        node: Any = obj
        while True:
            keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(node[key], dict | list) and draw(st.integers(0, 3)):
                node = node[key]
                continue
            if draw(st.booleans()):
                node[key] = copy.deepcopy(draw(ODD))
            elif isinstance(node, dict):
                value = node.pop(key)
                node[draw(st.sampled_from(["source", "exactly", "constraints", "basic", "attributes", "cel", key]))] = (
                    value
                )
            else:
                node.append(copy.deepcopy(node[key]))
            break
    return obj


def check(sources: list[Source]) -> None:
    report = lint(sources, Settings(), PUBLISHED)
    assert all(isinstance(finding, Finding) and finding.as_text() and finding.as_json() for finding in report.findings)
    for converted in convert(sources, Settings(), PUBLISHED):
        again = lint([Source("again.yaml", converted.text)], Settings(), PUBLISHED)
        if len(sources) == 1:
            assert [error.as_text() for error in again.errors] == []
            (twice,) = convert([Source("again.yaml", converted.text)], Settings(), PUBLISHED)
            assert not twice.is_changed


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(mangled(), min_size=1, max_size=3))
def test_mangled_manifests_never_raise_and_convert_to_what_lints(objects: list[dict[str, Any]]) -> None:
    check([Source("f.yaml", yaml.safe_dump_all(objects, allow_unicode=True))])


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text())
    | st.sampled_from(
        ["y", "1e3", ".5e3", "0o7", "12:30", "2020-01-01", "=", "<<", "~", "a: b", "- x", "# c", "a\nb ", "\t"]
    ),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=4), children, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@example({"\x85": "a\x85\n"})
@given(JSON)
def test_what_is_written_reads_as_it_was(value: Any) -> None:
    obj = {"apiVersion": "v1", "kind": "K", "value": value}
    # YAML has no unprintable characters but as escapes, and PyYAML writes those.
    (document,) = parse_documents(yaml_text(obj), "f.yaml")

    assert document.obj == obj


@pytest.mark.parametrize(
    ("written", "want"),
    [("1e3", 1000.0), ("12:30:45", "12:30:45"), ("2020-01-01", "2020-01-01"), ("017", 15), ("10", 10)],
)
def test_values_are_read_as_the_api_reads_them(written: str, want: object) -> None:
    (document,) = parse_documents(f"apiVersion: v1\nkind: K\nvalue: {written}\n", "f.yaml")

    assert (document.obj["value"], type(document.obj["value"])) == (want, type(want))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.sampled_from(TEXTS), st.data())
def test_cut_and_spliced_texts_never_raise(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    inserted = data.draw(st.text(alphabet="\t\n :-{}[]\"'#&*!|>%@`：，“aé\x00\x85", max_size=6))
    check([Source("f.yaml", text[:start] + inserted + text[end:])])


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_answered(text: str) -> None:
    check([Source("f.yaml", text)])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(PIECES),
        max_size=14,
    )
)
def test_any_expression_is_answered(pieces: list[str]) -> None:
    expression = " ".join(pieces)
    for mistake in find_mistakes(expression, NOTHING_KNOWN, ("gpu.example.com",)):
        assert mistake.message
    for meant in PublishedNames(published({"model": {"string": "A100"}})).mistakes(expression):
        assert parsed(meant.expression) is not None


ENVIRONMENT = environments.get("1.37", kind="new", list_type_attributes=True)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(
        ('device.attributes["a"]', 'device.capacity["a"]', "device.attributes", 'device.capacity["a.b/c"]')
    ),
    st.sampled_from(("", ".x", '["x"]', '["x-y"]', ".x.y", ".?x", ".x.compareTo")),
    st.sampled_from(("==", "!=", "<", "in", ">=")),
    st.sampled_from(
        ('quantity("1")', 'semver("1.0.0")', '"7.0"', "1", "true", '["a"]', 'device.capacity["a"].x',
         'device.attributes["b"]', 'device.attributes["b"].y', "{}", "optional.of(1)")
    ),
    st.booleans(),
    st.sampled_from(("{}", "!({})", "[1].exists(i, {})", "device.driver == 'd' && {}")),
)  # fmt: skip
def test_lint_refuses_nothing_that_the_checker_takes(
    start: str, more: str, operator: str, other: str, is_turned: bool, around: str
) -> None:
    sides = [start + more, other]
    expression = around.format(f" {operator} ".join(sides[::-1] if is_turned else sides))
    try:
        cel.compile_selector(expression, ENVIRONMENT)
        is_valid = estimate(check_expression(expression, ENVIRONMENT)).max <= LIMIT
    except cel.CompileError:
        is_valid = False
    found = find(selecting(expression, before=""), kubernetes="1.37")
    refused = [str(one) for one in found if one.severity is Severity.ERROR or one.served]
    assert bool(refused) is not is_valid


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 5000, id="nesting"),
        pytest.param("a: " + "{b: " * 2000 + "}" * 2000, id="nested-mappings"),
        pytest.param("apiVersion: v1\nkind: Pod\nmetadata: &a {x: *a}\n", id="an-alias-of-itself"),
        pytest.param(
            "apiVersion: v1\nkind: Pod\na: &a [1,1,1,1,1,1,1,1,1,1]\n"
            + "".join(
                f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n"
                for old, new in zip("abcdefgh", "bcdefghi", strict=True)
            ),
            id="aliases-without-end",
        ),
        pytest.param("apiVersion: v1\nkind: Pod\n!!python/object:os.system x: 1\n", id="a-tag"),
        pytest.param("apiVersion: v1\nkind: Pod\n? [a]\n: 1\n", id="a-key-that-is-a-list"),
        pytest.param("apiVersion: v1\nkind: Pod\nmetadata: {name: 1, labels: 3}\nspec: 5\n", id="numbers-everywhere"),
        pytest.param("{{ if .Values.gpu }}\nkind: Pod\n{{ end }}\n", id="a-template"),
    ],
)
def test_hostile_texts_are_answered(text: str) -> None:
    report = lint([Source("f.yaml", text)])

    assert report.views or report.errors


@pytest.mark.slow
def test_any_dump_is_answered() -> None:
    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(mangled(), max_size=3))
    def check_dump(objects: list[dict[str, Any]]) -> None:
        text, there = template() + "---\n" + deployment(2), cluster({"n": 1}).objects
        assert [one for one in find(text, published=read_published([*there, *objects])) if one.is_error] == []
        views = lint([Source("f.yaml", yaml.safe_dump_all(objects, allow_unicode=True))]).views
        check_fit(views, [SourceObject("", one) for one in there], now_ms=0, features=Features())

    check_dump()
