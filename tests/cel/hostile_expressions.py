"""Expressions that only somebody hostile writes: as long as an API server takes them, or loops of expensive calls.

`FAMILIES` holds them by name. `test_effort.py` counts what they do; `python -m benchmarks.cel --hostile` measures
each, compiled and evaluated once.
"""

from __future__ import annotations

from typing import Final

import cel
from cel.checker import environments
from tests.cel import hostile_patterns

D: Final = "gpu.example.com"
A: Final = f'device.attributes["{D}"]'
LENGTH_MAX: Final = 10_240
"""Bytes of an expression that an API server takes."""

ENVIRONMENT: Final = environments.get("1.37", list_type_attributes=True)
DEVICE: Final = cel.device_view(
    D,
    {
        "model": "a" * 64,
        "index": 2,
        "healthy": True,
        "version": cel.Semver.parse("1.2.3"),
        "texts": ("a", "b") * 24,
        "ints": tuple(range(48)),
    },
    {"memory": cel.Quantity.parse("80Gi")},
    False,
)
_DIGITS: Final = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"


def _long(separator: str, term: str, head: str = "", tail: str = "", limit: int = LENGTH_MAX) -> str:
    """As many different terms as fit; `#` in a term is its number."""
    terms: list[str] = []
    left = limit - len(head) - len(tail) + len(separator)
    while (length := len(part := term.replace("#", str(len(terms)))) + len(separator)) <= left:
        terms.append(part)
        left -= length
    return head + separator.join(terms) + tail


def _loop(body: str, count: int = 20_000) -> str:
    """`body`, a condition on x, for as many x as the cost limit allows; errors and answers do not end it."""
    return f"!lists.range({count}).exists(x, ({body}) && false)"


def _inner_loop(body: str) -> str:
    """The same with less than a tenth of the cost for the loop, and only a hundred values of x."""
    return f"!lists.range(9999).exists(z, lists.range(z % 2 + 99).exists(x, ({body}) && false))"


def _nested(body: str, depth: int = 6) -> str:
    """The same without `lists.range`: x0 ... are digits."""
    for level in range(depth):
        body = f"{_DIGITS}.all(x{level}, ({body}) || true)"
    return body


def _doubled(start: str, times: int, body: str, step: str = "# + #") -> str:
    """`body` with names v1 ... that each hold two of the one before; `#` in a step is that one."""
    text = body
    for i in range(times, 0, -1):
        text = f"cel.bind(v{i}, {step.replace('#', f'v{i - 1}' if i > 1 else start)}, {text})"
    return text


def _with(value: str, body: str) -> str:
    """A loop over `body` that reads a value as `a`."""
    return f"cel.bind(a, {value}, {_loop(body)})"


def _grown(start: str, old: str, new: str, times: int) -> str:
    return f'"{start}"' + f'.replace("{old}", "{new}")' * times


def _repeated(text: str, call: str, length: int = LENGTH_MAX - 200) -> str:
    return text + call * (length // len(call))


_LARGE: Final = {
    "large: || of comparisons": _long(" || ", f"{A}.a# == #"),
    "large: && of comparisons": _long(" && ", f"{A}.index != #1"),
    "large: || of short comparisons": _long(" || ", "#==1"),
    "large: || of quantities": _long(" || ", f'device.capacity["{D}"].m#.isGreaterThan(quantity("#Gi"))'),
    "large: || of versions": _long(" || ", f'{A}.version == semver("#.0.0")'),
    "large: || of patterns": _long(" || ", f'{A}.model.matches("^b#.*c$")'),
    "large: || of startsWith": _long(" || ", f'{A}.model.startsWith("b#")'),
    "large: || of matches on constants": _long("||", '"a".matches("b#")'),
    "large: || of exists": _long(" || ", "[#,2].exists(x,x==#1)"),
    "large: || of has": _long(" || ", f"has({A}.a#)"),
    "large: || of optionals": _long(" || ", f"{A}.?a#.orValue(1) == 2"),
    "large: || of binds": _long(" || ", "cel.bind(x,#,x==1)"),
    "large: || of negations": _long("||", "!(#==#)"),
    "large: || of ||": _long(" || ", "(1==# && 2==3)"),
    "large: sum of ints": _long("+", "#", tail=" == -1"),
    "large: sum of texts": _long("+", '"#"', tail=' == ""'),
    "large: sum of lists": _long("+", "[#]", tail=" == []"),
    "large: sum in parentheses": "(" * 200 + "1" + "+1)" * 200 + " == 1 || " + _long(" || ", "(#*#)==1", limit=9000),
    "large: list of ints": _long(",", "#", f"{A}.index in [", "]"),
    "large: list of small ints": _long(",", "1", f"{A}.index in [", "]"),
    "large: list of doubles": _long(",", "#.5", f"{A}.index in [", "]"),
    "large: list of texts": _long(",", '"#"', f"{A}.model in [", "]"),
    "large: list of lists": _long(",", "[#]", "[5000] in [", "]"),
    "large: list of computed ints": _long(",", "1-#", f"{A}.index in [", "]"),
    "large: list of conversions": _long(",", 'int("#")', "-1 in [", "]"),
    "large: map of ints": _long(",", "#:1", "-1 in {", "}"),
    "large: map of texts": _long(",", '"#":1', '"x" in {', "}"),
    "large: map of maps": _long(",", '"#":{"#":1}', '"x" in {', "}"),
    "large: calls": _long(" || ", 'isQuantity("#x")'),
    "large: conversions": _long(" || ", 'int("#")==-1'),
    "large: conditionals": _long(" || ", "(#==1?2:3)==1"),
    "large: chain of calls": _repeated('"a"', ".trim()") + ' == "b"',
    "large: chain of replacing": _repeated('"a"', '.replace("a","b")') + ' == "c"',
    "large: chain of fields": f"{A}.a" + ".a" * 200 + " == 1 || " + _long(" || ", f"{A}.b#.c#==1", limit=9000),
    "large: chain of optionals": f"{A}.?a"
    + ".?b" * 200
    + ".hasValue() || "
    + _long(" || ", f"{A}.?b#.?c#.hasValue()", limit=9000),
    "large: format of many": '"' + "%s" * 1600 + '".format([' + ",".join(["1"] * 1600) + ']) == ""',
    "large: one text": f'{A}.model == "{"x" * 10_100}"',
    "large: one text of escapes": f'{A}.model == "{chr(92) + "n"}{(chr(92) + "x41") * 2500}"',
    "large: one name": "a" * LENGTH_MAX,
    "large: one number": "9" * 10_000 + " == 1",
    "large: one bytes": f'b"{"x" * 10_000}" == b""',
    "large: one comment": "true //" + "x" * 10_000,
    "large: one quantity": f'quantity("{"9" * 10_000}").isGreaterThan(quantity("1"))',
    "large: one quantity with a fraction": f'quantity("0.{"1" * 10_000}").isGreaterThan(quantity("1"))',
    "large: one version": f'semver("1.0.0-{"a.1." * 2400}a").major() == 1',
    "large: one url": f'url("https://a/{"%41" * 3000}?{"a=b&" * 200}").getQuery().size() == 0',
    "large: one address": f'isIP("{"1:" * 5000}")',
    "large: one duration": f'duration("{"1h" * 4900}") > duration("0s")',
    "large: one pattern": f'{A}.model.matches("{"(a|b)*c?" * 1200}")',
    "large: one pattern of counts": f'{A}.model.matches("{"a{1,9}b?" * 280}z")',
    "large: one pattern of classes": f'{A}.model.matches("{"[^a-f" + chr(92) * 2 + "d]?" + "x"}")'
    + "".join(f' || {A}.model.matches("{"[^a-f0-9]{1,30}[x-z]" * 8}{i}")' for i in range(40)),
    "medium: || of comparisons": " || ".join(f"{A}.a{i} == {i}" for i in range(98)),
    "medium: || of short comparisons": " || ".join(f"{i} == 1" for i in range(166)),
    "medium: || of orders": " || ".join(f"{A}.index < -{i}1" for i in range(80)),
    "medium: || of exists": " || ".join(f"[{i},2].exists(x,x=={A}.index+{i})" for i in range(40)),
    "medium: || of exists of many": " || ".join(
        f"[{','.join(map(str, range(30)))}].exists(x,x=={A}.a{i})" for i in range(5)
    ),
    "medium: || of patterns": " || ".join(f'{A}.model.matches("^b{i}[xyz]+$")' for i in range(99)),
    "medium: || of optionals": " || ".join(f'{A}.?x{i}.orValue("") == {A}.?y{i}.orValue("z")' for i in range(49)),
    "medium: && of folds": " && ".join(f"{A}.ints.all(x, x != -{i}1)" for i in range(90)),
    "medium: && of maps": " && ".join(f"{A}.ints.map(x, x + {i}) != [{i}]" for i in range(70)),
    "large: undeclared names": _long(" || ", "a# == 1"),
    "large: syntax errors": _long(" || ", "1 = #"),
    "large: wrong types": _long(" || ", '# == "a"'),
    "large: wrong calls": _long(" || ", '"#".nope()'),
    "large: unknown characters": "@ # $ " * 1700,
    "large: unary": "!" * 10_000 + "true",
    "large: nested calls": "size([" * 110 + "1" + "])" * 110 + " == 1 || " + _long(" || ", 'size("#")==9', limit=9000),
    "large: nested macros": "[1].all(x, " * 60
    + "true"
    + ")" * 60
    + " && "
    + _long(" && ", "[1].all(x, x==#)", limit=8500),
    "large: nested maps of macros": "[1].map(a, " * 100 + "1" + ")" * 100 + " != []",
    "large: optMap": "optional.of(1)" + ".optMap(x, x + 1)" * 12 + ".hasValue()",
    "large: bodies of a loop": f"lists.range(300).all(x, {_long(' && ', 'x!=-#', limit=9900)})",
    "large: bodies of a failing loop": f"lists.range(300).all(x, {_long(' || ', '1/(x-x)==#', limit=9900)} || true)",
    "large: bodies of nested loops": "lists.range(50).all(x, lists.range(50).all(y, "
    + _long(" || ", "1/(x-x)==y-#", limit=9900)
    + " || true))",
    "large: bodies of loops of calls": f"lists.range(300).all(x, {_long(' && ', 'string(x)!=string(-#)', limit=9900)})",
    "large: many loops": _long(" && ", "lists.range(99).all(x,x!=-#1)"),
    "large: many loops of calls": _long(" && ", "lists.range(99).all(x,string(x)!='-#1')"),
}

_CALLS: Final = {
    "calls: quantity": 'quantity(string(x)+"Gi").isGreaterThan(quantity("-1"))',
    "calls: quantity, constant": 'quantity("1500m").isInteger()',
    "calls: quantity, short": 'isQuantity("1")',
    "calls: quantity, wrong": 'isQuantity("1x" + string(x))',
    "calls: quantity, large exponent": 'quantity("1e999").add(quantity("1e-9")).isInteger()',
    "calls: quantity, compared": 'quantity("1e1000").compareTo(quantity("1e999")) == 0',
    "calls: quantity, float": 'quantity("1e900").asApproximateFloat() > 1.0',
    "calls: semver": 'semver("1.2."+string(x)).major() == 1',
    "calls: semver, constant": 'semver("1.2.3-a.b.c.d+e").isGreaterThan(semver("1.2.3"))',
    "calls: semver, normalized": 'semver("v01.2", true).major() == 1',
    "calls: semver, identifiers": 'semver("1.2.3-' + "a." * 40 + 'a").isLessThan(semver("1.0.0"))',
    "calls: isSemver, wrong": "isSemver(string(x))",
    "calls: timestamp": 'timestamp("2024-02-29T13:30:45.123456789+01:00").getHours() == 1',
    "calls: timestamp of int": "timestamp(x).getFullYear() == 1",
    "calls: timestamp, printed": 'string(timestamp(x)) == ""',
    "calls: timestamp, zone": 'timestamp(x).getHours("America/New_York") == 1',
    "calls: timestamp, offset": 'timestamp(x).getHours("+01:30") == 1',
    "calls: timestamp, wrong zone": 'timestamp(x).getHours("Nowhere/Town") == 1',
    "calls: duration": 'duration("1h2m3s4ms5us6ns") > duration("1s")',
    "calls: duration, printed": 'string(duration("1.5s")) == ""',
    "calls: duration, added": 'timestamp(x) + duration("1h") > timestamp(0)',
    "calls: format": '"%s %d %f %x".format(["a", x, 1.5, x]) == ""',
    "calls: format, short": '"%s".format([x]) == ""',
    "calls: format, list": '"%s".format([[x, 1, 2.5, "a", true]]) == ""',
    "calls: format, map": '"%s".format([{"a": x, "b": [1, 2]}]) == ""',
    "calls: format, precision": '"%.900f".format([1.5]) == ""',
    "calls: format, wide": f'"{"%s" * 60}".format([{",".join(["x"] * 60)}]) == ""',
    "calls: format, wrong": '("%" + "z").format([x]) == ""',
    "calls: ip": 'ip("10.0.0."+string(x%256)).isLoopback()',
    "calls: ip, constant": 'ip("255.255.255.255").isLoopback()',
    "calls: ip, v6": 'ip("2001:db8:1:2:3:4:5:6").isLoopback()',
    "calls: ip, printed": 'string(ip("2001:db8::6")) == ""',
    "calls: isIP, wrong": 'isIP("1:2:3:4:5:6:7:x")',
    "calls: ip, canonical": 'ip.isCanonical("2001:db8::68")',
    "calls: cidr": 'cidr("10.0.0.0/8").containsIP("10.1.2.3")',
    "calls: cidr of cidr": 'cidr("10.0.0.0/8").containsCIDR("10.1.2.0/24")',
    "calls: cidr, masked": 'string(cidr("2001:db8:1:2:3:4:5:6/64").masked()) == ""',
    "calls: isCIDR, wrong": 'isCIDR("10.0.0.0/99")',
    "calls: url": 'url("https://user:pw@example.com:80/a/b?c=d&e=f").getHost() == ""',
    "calls: url, query": 'url("https://a?' + "a=%41&" * 20 + '").getQuery().size() == 0',
    "calls: url, long": f'url("https://a/{"%41" * 90}").getEscapedPath() == ""',
    "calls: url, fragment": 'url("https://a/b#c%41").getScheme() == ""',
    "calls: isURL, wrong": 'isURL("://x")',
    "calls: url, compared": 'url("https://a/b") == url("https://a/c")',
    "calls: format.uri": 'format.uri().validate("https://example.com/a").hasValue()',
    "calls: format.dns": 'format.dns1123Subdomain().validate("a.b.c.example.com").hasValue()',
    "calls: format.qualifiedName": 'format.qualifiedName().validate("example.com/name_x.y").hasValue()',
    "calls: format.uuid": 'format.uuid().validate("01234567-89ab-cdef-0123-456789abcdef").hasValue()',
    "calls: format.datetime": 'format.datetime().validate("2024-02-29T13:30:45.5Z").hasValue()',
    "calls: format.byte": 'format.byte().validate("aGVsbG8gd29ybGQ=").hasValue()',
    "calls: format.named": 'format.named("date").value().validate("2024-02-29").hasValue()',
    "calls: format.labelValue, wrong": 'format.labelValue().validate("a b").hasValue()',
    "calls: matches, made": f'"a".matches(string(x) + "{"[ab]" * 20}")',
    "calls: matches, long made": f'{A}.model.matches("{"(a|b|cd)*" * 40}" + string(x))',
    "calls: matches": f'{A}.model.matches("(a+)+$")',
    "calls: find": f'{A}.model.find("(a|aa)+b") == ""',
    "calls: findAll": f'{A}.model.findAll("a").size() == 0',
    "calls: findAll, empty": f'{A}.model.findAll("b*").size() == 0',
    "calls: findAll, backtracking": f'{A}.model.findAll("(a|aa)+?").size() == 0',
    "calls: matches, long text": f'"{"a" * 5000}".matches("(a?){{30}}b")',
    "calls: string of int": 'string(x) == ""',
    "calls: string of double": 'string(double(x) / 3.0) == ""',
    "calls: int of text": 'int("12345678901234") == x',
    "calls: int of text, wrong": 'int("y" + string(x)) == x',
    "calls: double of text": 'double("1.2345678901e300") == 1.0',
    "calls: double of text, wrong": 'double("1_" + string(x)) == 1.0',
    "calls: bytes": 'bytes(string(x)) == b""',
    "calls: bytes to text": 'string(b"abc") == "x"',
    "calls: type": "type(x) == string",
    "calls: trim": '" a ".trim() == ""',
    "calls: trim, empty": '"".trim().trim().trim().trim().trim().trim().trim().trim() == "x"',
    "calls: trim of made": 'string(x).trim().trim().trim().trim() == "x"',
    "calls: find chain": '"abc".find("b").find("b").find("b").find("b") == ""',
    "calls: split": '"a,b,c,d".split(",").size() == 0',
    "calls: split, empty": f'"{"a" * 60}".split("").size() == 0',
    "calls: split and join": f'"{"a" * 200}".split("").join(",") == ""',
    "calls: join": '["a", "b", "c"].join(",") == ""',
    "calls: join of attribute": f'{A}.texts.join(",") == ""',
    "calls: replace": '"abcabc".replace("b", "xyz") == ""',
    "calls: substring": '"abcdef".substring(1, 3) == ""',
    "calls: charAt": '"abcdef".charAt(1) == ""',
    "calls: indexOf": '"abcdef".indexOf("e") == 9',
    "calls: lowerAscii": f'{A}.model.lowerAscii().upperAscii() == ""',
    "calls: quote": f'strings.quote({A}.model) == ""',
    "calls: contains": f'{A}.model.contains("ab")',
    "calls: text added": f'{A}.model + string(x) == ""',
    "calls: list literal": "[x, 1, 2, 3, 4, 5, 6, 7] == []",
    "calls: list in list": "[x] in [[1], [2], [3]]",
    "calls: long list literal": f"[{','.join(['x'] * 300)}] == []",
    "calls: map literal": '{"a": x, "b": 1}["a"] == -1',
    "calls: map literal, ints": "{x: 1, x + 1: 2}[x] == -1",
    "calls: long map literal": "{" + ",".join(f'"{i}": x' for i in range(300)) + '}["a"] == -1',
    "calls: map compared": '{"a": x} == {"a": 1}',
    "calls: long map compared": " == ".join(["{" + ",".join(f"{i}: 1" for i in range(200)) + "}"] * 2),
    "calls: struct": "google.protobuf.Int64Value{value: x} == -1",
    "calls: optional": "optional.of(x).hasValue() && optional.of(x).value() == -1",
    "calls: optional, none": f"{A}.?a.?b.?c.?d.?e.hasValue()",
    "calls: optional, or": "optional.none().or(optional.of(x)).orValue(1) == -1",
    "calls: optional, non zero": "optional.ofNonZeroValue([x]).hasValue() == false",
    "calls: optMap": "optional.of(x).optMap(y, y + 1).hasValue() == false",
    "calls: optional list": "[?optional.of(x), ?optional.none()] == []",
    "calls: optional map": '{?"a": optional.of(x)} == {}',
    "calls: optionals compared": "optional.of([x]) == optional.of([1])",
    "calls: unwrap": "optional.unwrap([optional.of(x)]) == []",
    "calls: list joined": "[x] + [x] == []",
    "calls: long list joined": "[].size() == 1 || (lists.range(50) + lists.range(50)).size() == 0",
    "calls: list sorted": "[3, 1, x].sort() == []",
    "calls: texts sorted": '["b", "a", string(x)].sort() == []',
    "calls: sortBy": "[3, 1, x].sortBy(y, -y) == []",
    "calls: distinct": "[3, 1, x].distinct() == []",
    "calls: distinct, mixed": "[dyn(3), dyn(1.5), dyn(x)].distinct() == []",
    "calls: reverse": "[3, 1, x].reverse() == []",
    "calls: slice": "[3, 1, x].slice(1, 2) == []",
    "calls: flatten": "[[3], [1], [x]].flatten() == []",
    "calls: flatten, deep": "[[[[[[3]]]]], [[[[[1]]]]]].flatten(9).size() == 0",
    "calls: sum": "[3, 1, x].sum() == -1",
    "calls: min": "[3, 1, x].min() == -1",
    "calls: isSorted": "[3, 1, x].isSorted()",
    "calls: indexOf in list": "[3, 1, x].indexOf(9) == 1",
    "calls: includes": "[3, 1, x].includes(9)",
    "calls: first": "[3, 1, x].first().value() == -1",
    "calls: range": "lists.range(3).size() == 0",
    "calls: sets": "sets.contains([1, 2, x], [-1])",
    "calls: sets, mixed": "sets.equivalent([dyn(1), dyn(2.5), dyn(x)], [dyn(1), dyn(2.5), dyn('a')])",
    "calls: sets, texts": f'sets.intersects({A}.texts, ["c", "d"])',
    "calls: attribute": f"{A}.index == -1",
    "calls: attribute, missing": f"{A}.nope == -1",
    "calls: has": f"has({A}.nope)",
    "calls: comparison of types": f"dyn({A}.model) < x",
    "calls: arithmetic": "x * 3 + 7 % 5 - x / 2 == -1",
    "calls: doubles": "double(x) * 1.5 + 2.0 == -1.0",
    "calls: unsigned": "uint(x) * 3u + 7u == 1u",
    "calls: overflow": "x * 9223372036854775807 == 0",
    "calls: division by zero": "1 / (x - x) == 0",
    "calls: no overload": "dyn('a') + x == 0",
    "calls: conditional": "(x > 5 ? dyn(1) : dyn('a')) == 0",
    "calls: bind": "cel.bind(y, x + 1, y * y + y) == -1",
    "calls: inner exists": "[1, 2, 3].exists(y, y == -x)",
    "calls: inner all": "[1, 2, 3].all(y, y == -x)",
    "calls: inner exists_one": "[1, 2, 3].exists_one(y, y == -x)",
    "calls: inner map": "[1, 2, 3].map(y, y + x) == []",
    "calls: inner filter": "[1, 2, 3].filter(y, y > x) == [1]",
    "calls: inner map of three": "[1, 2, 3].map(y, y > 1, y + x) == []",
    "calls: inner transformList": "[1, 2, 3].transformList(i, y, y + i + x) == []",
    "calls: inner transformMap": "{'a': 1, 'b': 2}.transformMap(k, v, v + x) == {}",
    "calls: inner transformMapEntry": "{'a': 1}.transformMapEntry(k, v, {v + x: k}) == {}",
    "calls: inner existsOne of two": "[1, 2].existsOne(i, y, i == y + x)",
}  # fmt: skip

_GROWTH: Final = {
    "growth: text added": _with('"' + "x" * 5000 + '"', "a + string(x) == ''"),
    "growth: long texts compared": _with('"' + "x" * 4000 + '" + string(1)', "a == a + ''"),
    "growth: doubled text": _doubled('"ab"', 29, "v29.size() > 0"),
    "growth: doubled text in a loop": _doubled('"ab"', 19, _loop("v19.contains('x')")),
    "growth: doubled text trimmed in a loop": _doubled('" ab "', 17, _loop("v17.trim() == ''")),
    "growth: doubled text, starts": _doubled('"ab"', 19, _loop("v19.endsWith(v18)")),
    "growth: doubled text, size": _doubled('"ab"', 19, _loop("v19.substring(x).size() == 0")),
    "growth: doubled list": _doubled("[1]", 29, "v29.size() > 0"),
    "growth: doubled list in a loop": _doubled("[1]", 13, _loop("(v13 + [x]).size() == 0")),
    "growth: doubled list compared in a loop": _doubled("[1]", 11, _loop("v11 == v10 + v10")),
    "growth: doubled list of mixed compared": _doubled("[dyn(1), dyn('a')]", 11, _loop("v11 == v10 + v10")),
    "growth: doubled list searched": _doubled("[dyn(1), dyn('a')]", 11, _loop("x in v11")),
    "growth: doubled list, indexOf": _doubled("[dyn(1), dyn('a')]", 11, _loop("v11.indexOf(3.5) == 0")),
    "growth: doubled list, min": _doubled("[1, 2]", 11, _loop("v11.min() == 0")),
    "growth: doubled list, sliced": _doubled("[1, 2]", 13, _loop("v13.slice(1, 8000).size() == 0")),
    "growth: doubled list, optionals": _doubled("[optional.of(1)]", 11, _loop("v11.unwrapOpt().size() == 0")),
    "growth: doubled list in list": _doubled("[1]", 24, "v24 == v24 || v24.flatten(30).size() == 0", "[#, #]"),
    "growth: doubled list in list, printed": _doubled("[1]", 24, "'%s'.format([v24]) == ''", "[#, #]"),
    "growth: doubled list in map, compared": _doubled("{'a': 1}", 24, "v24 == v24", "{'a': #, 'b': #}"),
    "growth: doubled optionals, compared": _doubled("optional.of(1)", 24, "v24 == v24", "optional.of([#, #])"),
    "growth: doubled list in list, distinct": _doubled("[1]", 24, "[v24, v24].distinct().size() == 0", "[#, #]"),
    "growth: doubled list in list, error": _doubled("[1]", 24, "[1].map(x, dyn({})[dyn(v24)]) == [] || true", "[#, #]"),
    "growth: doubled list in list, joined": _doubled("[1]", 24, "[dyn('a'), dyn(v24)].join() == '' || true", "[#, #]"),
    "growth: replace": '"a"' + '.replace("a", "aaaaaaaaaa")' * 7 + ".size() > 0",
    "growth: replace, counted": '"a"' + '.replace("a", "aaaaaaaaaa")' * 5 + '.replace("a", "b", 99999).size() > 0',
    "growth: replace, in a loop": _with(_grown("a", "a", "a" * 10, 4), "a.replace('a', 'b').size() == 0"),
    "growth: split in a loop": _with(_grown("a,", "a,", "a," * 10, 3), "a.split(',').size() == 0"),
    "growth: join in a loop": _with(_grown("a,", "a,", "a," * 10, 3) + ".split(',')", "a.join().size() == 0"),
    "growth: join": f'lists.range(40000).map(x, "{"x" * 100}").join("{"y" * 20}").size() > 0',
    "growth: map appended": "lists.range(90000).map(x, [x, x]).size() > 0",
    "growth: map of maps": "lists.range(20000).map(x, {'a': x}).size() > 0",
    "growth: filter": "lists.range(200000).filter(x, x > 5).size() > 0",
    "growth: transformMap": "lists.range(90000).transformMap(i, x, x).size() > 0",
    "growth: range": "lists.range(1000000).size() > 0",
    "growth: ranges": _loop("lists.range(1000).size() == 0", 10000),
    "growth: sort": "lists.range(700).map(x, -x).sort().size() > 0",
    "growth: sort of texts": "lists.range(700).map(x, string(-x)).sort().size() > 0",
    "growth: sort of durations": "lists.range(700).map(x, duration('1s')).sort().size() > 0",
    "growth: sortBy": "lists.range(700).sortBy(x, -x).size() > 0",
    "growth: distinct": "lists.range(700).distinct().size() > 0",
    "growth: distinct of doubles": "lists.range(700).map(x, double(x)).distinct().size() > 0",
    "growth: distinct of lists": "lists.range(700).map(x, [x, 1, 2, 3, 4, 5]).distinct().size() > 0",
    "growth: distinct of quantities": "lists.range(400).map(x, quantity(string(x))).distinct().size() > 0",
    "growth: distinct of maps": "lists.range(500).map(x, {'a': x}).distinct().size() > 0",
    "growth: reverse": "lists.range(100000).reverse().reverse().size() > 0",
    "growth: slice": "lists.range(100000).slice(1, 99999).slice(1, 90000).size() > 0",
    "growth: flatten": "lists.range(10000).map(x, [x]).flatten().size() > 0",
    "growth: sets of doubles": "cel.bind(a, lists.range(900).map(x, double(x)), sets.contains(a, a))",
    "growth: sets of mixed": "cel.bind(a, lists.range(600).map(x, [x]), sets.equivalent(a, a.reverse()))",
    "growth: sets of ints": "cel.bind(a, lists.range(900), sets.contains(a, a))",
    "growth: in list of doubles": "cel.bind(a, lists.range(900).map(x, double(x)), a.all(x, x in a))",
    "growth: indexOf of doubles": "cel.bind(a, lists.range(900).map(x, double(x)), a.all(x, a.indexOf(x) >= 0))",
    "growth: includes of quantities":
    "cel.bind(a, lists.range(300).map(x, quantity(string(x))), a.all(x, a.includes(x)))",
    "growth: lists compared": _with("lists.range(900)", "a == a + []"),
    "growth: sums": _with("lists.range(900)", "a.sum() == 0"),
    "growth: sorted": _with("lists.range(900)", "a.isSorted() == false"),
    "growth: bytes": _with(f"bytes({_grown('a', 'a', 'a' * 10, 4)})", "string(a) == ''"),
    "growth: long quantities": _with(f'"{"9" * 4000}"', "isQuantity(a + string(x))"),
    "growth: long versions": _with(f'"1.0.0-{"a." * 2000}"', "isSemver(a + string(x))"),
    "growth: long versions compared": _with(f'semver("1.0.0-{"a." * 2000}a")', "a.compareTo(a) == 1"),
    "growth: long urls": _with(f'"https://a/{"%41" * 1500}"', "isURL(a + string(x))"),
    "growth: long addresses": _with(f'"{"1:" * 2000}"', "isIP(a + string(x))"),
    "growth: long patterns": _with(f'"{"(a|b)*" * 200}"', f"{A}.model.matches(a + string(x))"),
    "growth: long templates": _with(f'"{"%%" * 2000}"', "a.format([x]) == ''"),
    "growth: long durations": _with(f'"{"1h" * 2000}"', "duration(a) == duration('1s')"),
    "growth: long texts to int": _with(f'"{"0" * 5000}"', "int(a + '1') == 2"),
    "growth: long texts to double": _with(f'"{"0" * 5000}"', "double(a + '1.5') == 2.0"),
    "growth: quantities added": _with('quantity("1e1000")', 'a.add(quantity("1e-9")).sub(quantity("1n")).isInteger()'),
    "growth: big quantities added": _with(f'quantity("{"9" * 4000}")', "a.add(a).add(a).sub(a).isInteger()"),
    "growth: quantities scaled": _with('quantity("1e1000")', "a.isInteger()"),
    "growth: quantities to float": _with(f'quantity("{"9" * 4000}")', "a.asApproximateFloat() == 1.0"),
}  # fmt: skip

_LOOPS: Final = {
    "loops: without end": _nested("x0 == 1"),
    "loops: of errors": _nested("1 / (x0 - x0) == 1"),
    "loops: of comparisons": _nested("x0 < x5 || x1 == x2 || x3 > 9"),
    "loops: of bindings": _loop(_doubled("x", 30, "v30 == 0", "#")),
    "loops: of bindings without names": _loop("||".join(["cel.bind(v, 1, false)"] * 300)),
    "loops: of bindings of errors": _loop(_doubled("1 / 0", 30, "v30 == 0 || v29 == 0", "#")),
    "loops: of constants": _loop("||".join(["false"] * 1400)),
    "loops: of empty texts": _loop("||".join(["''!=''"] * 1000)),
    "loops: of empty loops": _loop("&&".join(["[].all(y,y)"] * 500)),
    "loops: of conditionals": _loop("||".join(["(" + "false?true:" * 100 + "false)"] * 8)),
    "loops: of many errors": _loop("||".join(["1/0==x"] * 1000)),
    "loops: of deep errors": _loop("[" * 100 + "1/0" + "]" * 100 + "==[]"),
    "loops: of missing keys": _loop("||".join(["dyn(x).a==1"] * 600)),
    "loops: of sums": _loop("||".join(["+".join(["x"] * 200) + "==0"] * 20)),
    "loops: of negations": _loop("!" * 200 + "(x==0)"),
    "loops: of lists of constants": _loop(f"[{','.join(['0'] * 3000)}]==[x]"),
    "loops: of lists of lists": _loop("||".join(["[[[[x]]]]!=[[[[x]]]]"] * 300)),
    "loops: in loops of one": _loop("[1].all(a,[1].all(b,[1].all(c,[1].all(d,[1].all(e,a+b+c+d+e==x)))))"),
    "loops: a table": f"{_DIGITS}.map(a, {_DIGITS}.map(b, {_DIGITS}.map(c, {_DIGITS}.map(d, a * b * c * d)))) == []",
}  # fmt: skip

FAMILIES: Final[dict[str, str]] = {
    **_LARGE,
    **{name: _loop(body) for name, body in _CALLS.items()},
    **{name.replace("calls:", "more calls:"): _inner_loop(body) for name, body in _CALLS.items()},
    **{f"nested {name}": _nested(_CALLS[name].replace("x", "x0")) for name in ("calls: quantity", "calls: ip")},
    **_GROWTH,
    **_LOOPS,
    **hostile_patterns.FAMILIES,
}  # fmt: skip
"""Hostile expressions by name; none is longer than `LENGTH_MAX`."""
