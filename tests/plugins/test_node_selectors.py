"""Node selectors, label selectors and taints: upstream's rules as tables, and laws."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.pools.node_match import parse_int64
from allocator.values.names import is_label_key
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.node_selectors import (
    compile_preferred_terms,
    required_node_affinity,
    required_node_names,
)
from scheduler.model.objects import LabelSelector, NodeSelector, PreferredSchedulingTerm, Taint, Toleration
from scheduler.model.taints import is_tolerated
from tests.plugins.objects import node, pod


def selector(*terms) -> NodeSelector:
    return msgspec.convert({"nodeSelectorTerms": list(terms)}, NodeSelector)


def expressions(*triples):
    return {"matchExpressions": [{"key": k, "operator": op, "values": list(v)} for k, op, v in triples]}


def matches(host, *terms) -> bool:
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}
    return required_node_affinity(pod(affinity=required)).matches(host)


def preferring(term):
    terms = msgspec.convert([{"weight": 1, "preference": term}], tuple[PreferredSchedulingTerm, ...])
    return compile_preferred_terms(terms)


def fields(*triples):
    return {"matchFields": [{"key": k, "operator": op, "values": list(v)} for k, op, v in triples]}


A100 = node("n1", labels={"gpu": "a100", "slots": "8"})


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([expressions(("gpu", "In", ["t4", "a100"]))], True, id="in-holds-the-value"),
        pytest.param([expressions(("gpu", "In", ["t4"]))], False, id="in-lacks-the-value"),
        pytest.param([expressions(("zone", "In", ["a"]))], False, id="in-needs-the-label"),
        pytest.param([expressions(("gpu", "NotIn", ["t4"]))], True, id="not-in-another-value"),
        pytest.param([expressions(("gpu", "NotIn", ["a100"]))], False, id="not-in-the-value"),
        pytest.param([expressions(("zone", "NotIn", ["a"]))], True, id="not-in-holds-without-the-label"),
        pytest.param([expressions(("gpu", "Exists", []))], True, id="exists"),
        pytest.param([expressions(("zone", "Exists", []))], False, id="exists-needs-the-label"),
        pytest.param([expressions(("zone", "DoesNotExist", []))], True, id="does-not-exist"),
        pytest.param([expressions(("gpu", "DoesNotExist", []))], False, id="does-not-exist-but-does"),
        pytest.param([expressions(("slots", "Gt", ["7"]))], True, id="gt"),
        pytest.param([expressions(("slots", "Gt", ["8"]))], False, id="gt-is-strict"),
        pytest.param([expressions(("slots", "Lt", ["9"]))], True, id="lt"),
        pytest.param([expressions(("slots", "Lt", ["8"]))], False, id="lt-is-strict"),
        pytest.param([expressions(("gpu", "Gt", ["0"]))], False, id="a-label-that-is-no-number-never-compares"),
        pytest.param([expressions(("zone", "Lt", ["9"]))], False, id="lt-needs-the-label"),
        pytest.param(
            [expressions(("gpu", "In", ["a100"]), ("slots", "Gt", ["10"]))],
            False,
            id="requirements-of-a-term-are-anded",
        ),
        pytest.param(
            [expressions(("gpu", "In", ["t4"])), expressions(("slots", "Gt", ["1"]))], True, id="terms-are-ored"
        ),
        pytest.param([{}], False, id="an-empty-term-matches-nothing"),
        pytest.param([], False, id="no-terms-match-nothing"),
        pytest.param([fields(("metadata.name", "In", ["n1"]))], True, id="field-names-the-node"),
        pytest.param([fields(("metadata.name", "In", ["n2"]))], False, id="field-names-another-node"),
        pytest.param([fields(("metadata.name", "NotIn", ["n2"]))], True, id="field-excludes-another-node"),
        pytest.param([fields(("spec.nodeName", "In", ["n1"]))], False, id="an-unknown-field-counts-as-empty"),
        pytest.param(
            [fields(("metadata.name", "In", ["n1"])) | expressions(("gpu", "In", ["t4"]))],
            False,
            id="fields-and-labels-are-anded",
        ),
        pytest.param(
            [expressions(("gpu", "Near", ["a100"])), expressions(("gpu", "Exists", []))],
            True,
            id="a-broken-term-leaves-the-others-in-force",
        ),
    ],
)
def test_node_selector_matches(terms, want) -> None:
    assert matches(A100, *terms) is want


@pytest.mark.parametrize(
    ("term", "problem"),
    [
        pytest.param(
            expressions(("gpu", "Near", ["a"])),
            'matchExpressions[0].operator: Unsupported value: "Near": supported values: '
            '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
            id="unknown-operator",
        ),
        pytest.param(
            expressions(("gpu", "In", [])),
            "matchExpressions[0].values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            id="in-without-values",
        ),
        pytest.param(
            expressions(("gpu", "Exists", ["a"])),
            'matchExpressions[0].values: Invalid value: ["a"]: values set must be empty for exists and does not exist',
            id="exists-with-values",
        ),
        pytest.param(
            expressions(("slots", "Gt", ["1", "2"])),
            "matchExpressions[0].values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators, "
            "exactly one value is required",
            id="gt-with-two-values",
        ),
        pytest.param(
            expressions(("slots", "Lt", ["many"])),
            "matchExpressions[0].values[0]: Invalid value: \"many\": for 'Gt', 'Lt' operators, the "
            "value must be an integer",
            id="lt-without-a-number",
        ),
        pytest.param(
            fields(("metadata.name", "In", ["a", "b"])),
            'matchFields[0].values: Invalid value: ["a","b"]: must have one element',
            id="field-with-two-values",
        ),
        pytest.param(
            fields(("metadata.name", "Exists", [])),
            'matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
            id="field-with-another-operator",
        ),
    ],
)
def test_node_selector_problem_is_reported_and_matches_nothing(term, problem) -> None:
    compiled = preferring(term)
    assert compiled.problems == (f"[0].{problem}",)
    assert not compiled.score(A100)


@pytest.mark.parametrize("value", ["a" * 64, "-a", "a-", "a b", "ä"])
def test_label_value_that_no_node_can_have_is_reported(value) -> None:
    assert preferring(expressions(("gpu", "In", [value]))).problems != ()


@pytest.mark.parametrize(
    ("key", "want"),
    [
        ("gpu", True),
        ("example.com/gpu", True),
        ("Example.com/gpu", False),
        ("/gpu", False),
        ("example.com/", False),
        ("a/b/c", False),
        ("a" * 63, True),
        ("a" * 64, False),
        ("a_b.c-d", True),
        ("", False),
        (f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 63}/x", False),
    ],
)
def test_is_label_key(key, want) -> None:
    assert is_label_key(key) is want


@pytest.mark.parametrize(
    ("text", "want"),
    [("7", 7), ("-7", -7), ("+7", 7), ("007", 7), ("9223372036854775807", 2**63 - 1)]
    + [(text, None) for text in ("", "7.0", " 7", "7_0", "٧", "0x7", "9223372036854775808", "1" * 5000)],
)
def test_parse_int64(text, want) -> None:
    assert parse_int64(text) == want


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param(
            [fields(("metadata.name", "In", ["a"])), fields(("metadata.name", "In", ["b"]))], {"a", "b"}, id="union"
        ),
        pytest.param(
            [fields(("metadata.name", "In", ["a"]), ("metadata.name", "In", ["b"]))], set(), id="conflict-within-a-term"
        ),
        pytest.param([fields(("metadata.name", "In", ["a"])), expressions(("x", "Exists", []))], None, id="open-term"),
        pytest.param([fields(("metadata.name", "NotIn", ["a"]))], None, id="not-in-names-nothing"),
        pytest.param([], None, id="no-terms"),
    ],
)
def test_required_node_names(terms, want) -> None:
    assert required_node_names(selector(*terms)) == want


def test_node_selector_map_and_affinity_must_both_hold() -> None:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = [
        expressions(("slots", "Gt", ["4"]))
    ]
    assert required_node_affinity(pod(nodeSelector={"gpu": "a100"}, affinity=affinity)).matches(A100)
    assert not required_node_affinity(pod(nodeSelector={"gpu": "t4"}, affinity=affinity)).matches(A100)
    assert required_node_affinity(pod()).matches(A100)


def test_preferred_terms_add_up_and_weightless_or_empty_ones_are_not_even_read() -> None:
    terms = msgspec.convert(
        [
            {"weight": 5, "preference": expressions(("gpu", "Exists", []))},
            {"weight": 7, "preference": expressions(("slots", "Gt", ["4"]))},
            {"weight": 9, "preference": expressions(("zone", "Exists", []))},
            {"weight": 0, "preference": expressions(("gpu", "Near", []))},
            {"weight": 3, "preference": {}},
        ],
        tuple[PreferredSchedulingTerm, ...],
    )
    compiled = compile_preferred_terms(terms)
    assert compiled.problems == ()
    assert compiled.score(A100) == 12


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        ({}, True),
        ({"matchLabels": {"gpu": "a100"}}, True),
        ({"matchLabels": {"gpu": "t4"}}, False),
        ({"matchLabels": {"gpu": "a100"}, "matchExpressions": [{"key": "zone", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["t4"]}]}, True),
        (
            {"matchExpressions": [{"key": "slots", "operator": "Gt", "values": ["1"]}]},
            False,
        ),  # label selectors: no order
        ({"matchExpressions": [{"key": "gpu", "operator": "Near"}]}, False),
    ],
)
def test_label_selector_matches(obj, want) -> None:
    assert compile_label_selector(msgspec.convert(obj, LabelSelector)).matches(A100.labels) is want


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(
            {"key": "gpu", "operator": "Equal", "value": "busy", "effect": "NoSchedule"}, True, id="all-equal"
        ),
        pytest.param({"key": "gpu", "value": "busy"}, True, id="empty-operator-means-equal-and-empty-effect-any"),
        pytest.param({"key": "gpu", "operator": "Exists"}, True, id="exists-ignores-the-value"),
        pytest.param({"operator": "Exists"}, True, id="empty-key-with-exists-tolerates-everything"),
        pytest.param({"key": "gpu", "value": "idle"}, False, id="another-value"),
        pytest.param({"key": "tpu", "operator": "Exists"}, False, id="another-key"),
        pytest.param({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False, id="another-effect"),
        pytest.param(
            {"key": "gpu", "operator": "Gt", "value": "1"}, False, id="an-operator-behind-a-gate-tolerates-nothing"
        ),
    ],
)
def test_toleration(toleration, want) -> None:
    taint = Taint(key="gpu", value="busy", effect="NoSchedule")
    assert is_tolerated(taint, [msgspec.convert(toleration, Toleration)]) is want


# --- laws -------------------------------------------------------------------------------------------------------------

keys = st.sampled_from(["a", "b", "c"])
values = st.sampled_from(["1", "2", "x"])
labels = st.dictionaries(keys, values)
requirements = st.one_of(
    st.tuples(keys, st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1, max_size=2)),
    st.tuples(keys, st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
    st.tuples(keys, st.sampled_from(["Gt", "Lt"]), st.lists(st.sampled_from(["0", "1", "2"]), min_size=1, max_size=1)),
)
OPPOSITE = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}


@settings(deadline=None)
@given(labels, st.lists(st.lists(requirements, min_size=1, max_size=3), max_size=3))
def test_selector_is_any_of_all_of_its_requirements(found, terms) -> None:
    host = node(labels=found)

    def single(requirement):
        return matches(host, expressions(requirement))

    whole = matches(host, *(expressions(*term) for term in terms))
    assert whole is any(all(single(requirement) for requirement in term) for term in terms)


@settings(deadline=None)
@given(labels, requirements.filter(lambda requirement: requirement[1] in OPPOSITE))
def test_opposite_operators_never_agree(found, requirement) -> None:
    key, operator, wanted = requirement
    host = node(labels=found)
    opposite = expressions((key, OPPOSITE[operator], wanted))
    assert matches(host, expressions(requirement)) is not matches(host, opposite)


@settings(deadline=None)
@given(st.text(max_size=8), st.text(max_size=8), st.lists(st.text(max_size=4), max_size=2), st.text(max_size=8))
def test_compiling_never_raises_and_tells_what_is_wrong_or_matches(key, operator, wanted, label) -> None:
    compiled = preferring(expressions((key, operator, wanted)))
    assert not compiled.score(node(labels={key: label})) or compiled.problems == ()
