"""Lexer, parser and macros: what parses to what, and what is refused in which words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cel.checker import environments
from cel.errors import CompileError, Issue, render
from cel.integers import UInt
from cel.parser.frontend import SIZE_LIMIT, parse
from cel.parser.lexer import bytes_value, string_value, tokenize
from cel.parser.syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Node, Select, StructExpr


def show(node: Expr) -> str:
    """A tree as text that shows its shape."""
    match node:
        case Literal(value=value):
            return f"{value}u" if isinstance(value, UInt) else repr(value)
        case Ident(name=name):
            return name
        case Select(operand=operand, field=field, test_only=test_only):
            return f"{show(operand)}.{field}" + ("?" if test_only else "")
        case Call(function=function, target=target, args=args):
            receiver = "" if target is None else f"{show(target)}."
            return f"{receiver}{function}({', '.join(map(show, args))})"
        case ListExpr(elements=elements, optional_indices=optional):
            return f"[{', '.join(('?' if i in optional else '') + show(e) for i, e in enumerate(elements))}]"
        case MapExpr(entries=entries):
            return "{" + ", ".join(f"{'?' * e.optional}{show(e.key)}: {show(e.value)}" for e in entries) + "}"
        case StructExpr(type_name=name, fields=fields):
            return f"{name}{{{', '.join(f'{f.name}: {show(f.value)}' for f in fields)}}}"
        case Comprehension():
            names = node.iter_var if node.iter_var2 is None else f"{node.iter_var},{node.iter_var2}"
            parts = (node.accu_init, node.loop_condition, node.loop_step, node.result)
            return f"fold({show(node.iter_range)}, {names}, {node.accu_var}, {', '.join(map(show, parts))})"


def refusal(source: str) -> str:
    with pytest.raises(CompileError) as caught:
        parse(source)
    return str(caught.value).removeprefix("compilation failed: ")


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("1 + 2 * 3 - 4", "_-_(_+_(1, _*_(2, 3)), 4)"),
        ("a == b + 1 && c", "_&&_(_==_(a, _+_(b, 1)), c)"),
        ("a < b == c", "_==_(_<_(a, b), c)"),
        ("a || b && c", "_||_(a, _&&_(b, c))"),
        ("a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))"),
        ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("!!!a", "!_(a)"),
        ("--a", "a"),
        ("---1", "-_(1)"),
        ("-1", "-1"),
        ("- 1", "-1"),
        ("2-1", "_-_(2, 1)"),
        ("2- -1", "_-_(2, -1)"),
        ("!-1", "!_(-1)"),
        ("-1.abs()", "-1.abs()"),
        ("-x.y", "-_(x.y)"),
        ("a.b.c(d)[e]", "_[_](a.b.c(d), e)"),
        ("a.?b[?c].d", "_[?_](_?._(a, 'b'), c).d"),
        ("a.`b-c/d`", "a.b-c/d"),
        ("[a, ?b,]", "[a, ?b]"),
        ("[,]", "[]"),
        ("{a: 1, ?b: 2,}", "{a: 1, ?b: 2}"),
        ("{,}", "{}"),
        ("pkg.T{a: 1, ?b: 2,}", "pkg.T{a: 1, b: 2}"),
        (".pkg.T{}", ".pkg.T{}"),
        (".a.b", ".a.b"),
        ("a in b", "@in(a, b)"),
        ("a.namespace", "a.namespace"),
        ("f()", "f()"),
        ("0x1F == 31u", "_==_(31, 31u)"),
        (".5 + 1e3", "_+_(0.5, 1000.0)"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("a // comment\n+ b", "_+_(a, b)"),
    ],
)
def test_parse_builds(source: str, want: str) -> None:
    assert show(parse(source).expr) == want


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("has(a.b)", "a.b?"),
        ("x.all(i, p)", "fold(x, i, @result, True, @not_strictly_false(@result), _&&_(@result, p), @result)"),
        (
            "x.exists(i, v, p)",
            "fold(x, i,v, @result, False, @not_strictly_false(!_(@result)), _||_(@result, p), @result)",
        ),
        (
            "x.exists_one(i, p)",
            "fold(x, i, @result, 0, True, _?_:_(p, _+_(@result, 1), @result), _==_(@result, 1))",
        ),
        ("x.map(i, t)", "fold(x, i, @result, [], True, _+_(@result, [t]), @result)"),
        ("x.map(i, p, t)", "fold(x, i, @result, [], True, _?_:_(p, _+_(@result, [t]), @result), @result)"),
        ("x.filter(i, p)", "fold(x, i, @result, [], True, _?_:_(p, _+_(@result, [i]), @result), @result)"),
        ("x.transformMap(k, v, t)", "fold(x, k,v, @result, {}, True, cel.@mapInsert(@result, k, t), @result)"),
        ("cel.bind(a, b, c)", "fold([], #unused, a, b, False, a, c)"),
        ("x.bind(a, b, c)", "x.bind(a, b, c)"),
        (
            "a.optMap(v, b)",
            "_?_:_(a.hasValue(), optional.of(fold([], #unused, v, a.value(), False, v, b)), optional.none())",
        ),
        (
            "x.sortBy(e, k)",
            "fold([], #unused, @__sortBy_input__, x, False, @__sortBy_input__, @__sortBy_input__.@sortByAssociatedKeys("
            "fold(@__sortBy_input__, e, @result, [], True, _+_(@result, [k]), @result)))",
        ),
    ],
)
def test_macros_expand_as_in_cel_go(source: str, want: str) -> None:
    assert show(parse(source).expr) == want


def test_macro_calls_keep_what_was_written() -> None:
    parsed = parse("has(a.b)")
    assert show(parsed.macro_calls[parsed.expr.id]) == "has(a.b)"


def test_a_copied_macro_knows_what_was_written() -> None:
    parsed = parse("[has(a.b)].first().optMap(v, v)")
    written = [show(call) for call in parsed.macro_calls.values()]
    assert written.count("has(a.b)") == 2


def test_every_node_has_an_id_of_its_own() -> None:
    parsed = parse("[1].first().optMap(v, v).optMap(w, [w].map(x, x)) == optional.none()")
    pending: list[Node] = [parsed.expr]
    seen: list[int] = []
    while pending:
        node = pending.pop()
        seen.append(node.id)
        for name in node.__struct_fields__:
            value = getattr(node, name)
            pending += [part for part in (value if isinstance(value, tuple) else (value,)) if isinstance(part, Node)]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize(
    ("token", "want"),
    [
        (r'"\a\b\f\n\r\t\v\"\'\\\?\`"', "\a\b\f\n\r\t\v\"'\\?`"),
        (r'"\x41\X42\u00e9\U0001F600\101"', "ABé😀A"),
        ('r"\\n"', "\\n"),
        ('"""a\r\nb\rc"""', "a\nb\nc"),
        ("''''''", ""),
    ],
)
def test_string_escapes(token: str, want: str) -> None:
    assert string_value(token) == want


@pytest.mark.parametrize(
    ("token", "want"),
    [(r'b"\xff\377\x00é\n"', b"\xff\xff\x00\xc3\xa9\n"), ('br"\\xff"', b"\\xff")],
)
def test_bytes_escapes(token: str, want: bytes) -> None:
    assert bytes_value(token) == want


@pytest.mark.parametrize(
    ("source", "first_line"),
    [
        ("", "ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {'[', "),
        ("1 +", "ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', "),
        ("a ? b ? 1 : 2 : 3", "ERROR: <input>:1:7: Syntax error: mismatched input '?' expecting ':'"),
        ("-!x", "ERROR: <input>:1:2: Syntax error: no viable alternative at input '-!'"),
        ("5.", "ERROR: <input>:1:3: Syntax error: no viable alternative at input '.'"),
        ("f(a,)", "ERROR: <input>:1:5: Syntax error: mismatched input ')' expecting {'[', "),
        ("a.true", "ERROR: <input>:1:3: Syntax error: mismatched input 'true' expecting IDENTIFIER"),
        ('"a', "ERROR: <input>:1:1: Syntax error: token recognition error at: '\"a'"),
        ("a = b", "ERROR: <input>:1:3: Syntax error: token recognition error at: '= '"),
        ("(a", "ERROR: <input>:1:3: Syntax error: missing ')' at '<EOF>'"),
        ("a b", "ERROR: <input>:1:3: Syntax error: extraneous input 'b' expecting <EOF>"),
        ("[1,,]", "ERROR: <input>:1:4: Syntax error: extraneous input ',' expecting ']'"),
        ("{1:2,,}", "ERROR: <input>:1:6: Syntax error: extraneous input ',' expecting '}'"),
        ("f(a b)", "ERROR: <input>:1:5: Syntax error: extraneous input 'b' expecting ')'"),
        ("f(a b c)", "ERROR: <input>:1:5: Syntax error: mismatched input 'b' expecting ')'"),
        ("[1 2 3]", "ERROR: <input>:1:4: Syntax error: mismatched input '2' expecting {']', ','}"),
        ("[1,", "ERROR: <input>:1:4: Syntax error: missing ']' at '<EOF>'"),
        ("[(1]", "ERROR: <input>:1:4: Syntax error: missing ')' at ']'"),
        ("a ? b c", "ERROR: <input>:1:7: Syntax error: missing ':' at 'c'"),
        ("{)", "ERROR: <input>:1:2: Syntax error: mismatched input ')' expecting {'[', '{', '}', '(', '.', ',', "),
        ("A{1}", "ERROR: <input>:1:3: Syntax error: extraneous input '1' expecting {'}', ',', '?', IDENTIFIER, "),
        ("a - ", "ERROR: <input>:1:5: Syntax error: mismatched input '<EOF>' expecting {'[', "),
        ("-)", "ERROR: <input>:1:2: Syntax error: no viable alternative at input '-)'"),
        ("!)", "ERROR: <input>:1:2: Syntax error: extraneous input ')' expecting {'[', "),
        ("var", "ERROR: <input>:1:1: reserved identifier: var"),
        ("as(1)", "ERROR: <input>:1:1: reserved identifier: as"),
        ("9223372036854775808", "ERROR: <input>:1:1: invalid int literal"),
        ("18446744073709551616u", "ERROR: <input>:1:1: invalid uint literal"),
        ("1e999", "ERROR: <input>:1:1: invalid double literal"),
        (r'"\ud83d"', "ERROR: <input>:1:1: invalid unicode code point"),
        (r'b"\u0041"', "ERROR: <input>:1:1: unable to unescape string"),
        ("has(a)", "ERROR: <input>:1:5: invalid argument to has() macro"),
        ("x.all(1, p)", "ERROR: <input>:1:7: argument must be a simple name"),
        ("x.map(a.b, p)", "ERROR: <input>:1:8: argument is not an identifier"),
        ("x.all(i, i, p)", "ERROR: <input>:1:10: duplicate variable name: i"),
        ("cel.bind(a.b, 1, 2)", "ERROR: <input>:1:11: cel.bind() variable names must be simple identifiers"),
        ("x.optMap(1, 2)", "ERROR: <input>:1:10: optMap() variable name must be a simple identifier"),
        ("x.all(__result__, true)", "ERROR: <input>:1:7: iteration variable overwrites accumulator variable"),
    ],
)
def test_refusals(source: str, first_line: str) -> None:
    assert refusal(source).startswith(first_line)


def test_back_quotes_need_1_37() -> None:
    old = environments.get("1.36").parse_options
    with pytest.raises(CompileError, match="unsupported syntax: '`'"):
        parse("a.`b`", options=old)
    assert show(parse("a.`b`", options=environments.get("1.37").parse_options).expr) == "a.b"


def test_parsing_ends_with_the_first_error_and_all_characters_that_are_no_token_are_reported() -> None:
    (line,) = (line for line in refusal("in").splitlines() if line.startswith("ERROR"))
    assert line.startswith("ERROR: <input>:1:1: Syntax error: mismatched input 'in' expecting {'[', '{', '(', ")
    assert [line for line in refusal("a # b @ c").splitlines() if line.startswith("ERROR")] == [
        "ERROR: <input>:1:3: Syntax error: token recognition error at: '#'",
        "ERROR: <input>:1:5: Syntax error: mismatched input 'b' expecting <EOF>",
        "ERROR: <input>:1:7: Syntax error: token recognition error at: '@'",
    ]


def test_caret_stands_under_wide_characters() -> None:
    assert render("'é' + x", Issue(6, "m")) == "ERROR: <input>:1:7: m\n | 'é' + x\n | .．....^"
    assert render("a\n\tb", Issue(3, "m")) == "ERROR: <input>:2:2: m\n |  b\n | .^"


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("[", "]"), ("f(", ")"), ("!(", ")"), ("{1:", "}")])
def test_249_levels_pass_and_250_do_not(opening: str, closing: str) -> None:
    parse(opening * 249 + "true" + closing * 249)
    assert "expression recursion limit exceeded: 250" in refusal(opening * 250 + "true" + closing * 250)


@pytest.mark.parametrize("operator", [" + ", " == ", " * "])
def test_chains_of_operators_count_as_nesting(operator: str) -> None:
    parse(operator.join(["a"] * 249))
    assert "expression recursion limit exceeded: 250" in refusal(operator.join(["a"] * 251))


def test_chains_of_and_and_or_do_not_count() -> None:
    parse(" && ".join(["a"] * 1000))


def test_sources_have_a_limit() -> None:
    assert f"expression code point size exceeds limit: size: {SIZE_LIMIT + 1}" in refusal(" " * (SIZE_LIMIT + 1))


@pytest.mark.parametrize(
    "source",
    [
        "optional.of(1)" + ".optMap(x, x)" * 60,
        "(" * 10_000,
        "#" * 10_000,
        "a." * 5_000,
        "-" * 10_000,
        '"' * 9_999,
        "a b " * 2_500,
        "\ud800",
        "a\x00b",
        "'''" + "a'" * 3_000,
    ],
    ids=str.__len__,
)
def test_hostile_sources_get_a_clean_error(source: str) -> None:
    assert refusal(source).startswith("ERROR: <input>:")


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(source: str) -> None:
    text = ""
    try:
        parse(source)
    except CompileError as error:
        text = str(error)
    assert not text or text.startswith("compilation failed: ERROR: <input>:")


@given(st.text(alphabet="ab1.\"'\\/`()[]{}?:,+-*%!=<>&| \n", max_size=40))
def test_tokens_cover_the_source(source: str) -> None:
    tokens = tokenize(source)
    for kind, text, offset in zip(tokens.kinds[:-1], tokens.texts, tokens.offsets, strict=False):
        assert source[offset : offset + len(text)] == text, kind
    assert tokens.offsets == sorted(tokens.offsets)
