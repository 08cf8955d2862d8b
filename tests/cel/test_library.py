"""Functions beyond the recorded rows: borders, versions, and properties against Python's own libraries."""

import base64
import ipaddress
import urllib.parse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cel
from cel.checker import environments
from cel.library import network, strings, urls
from cel.library.formats import FORMATS
from cel.library.values import Optional


def outcome(expression: str, version: str = "1.37") -> object:
    """The value, or the text of the error."""
    try:
        return cel.evaluate(expression, environments.get(version, list_type_attributes=True))
    except (cel.CompileError, cel.EvaluationError) as error:
        return str(error)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ('"tacocat".charAt(7)', ""),
        ('"tacocat".charAt(8)', "index out of range: 8"),
        ('"tacocat".indexOf("c", 3)', 4),
        ('"日本語".indexOf("語")', 2),
        ('"abc".indexOf("", 20)', 3),
        ('"tacocat".lastIndexOf("c", 3)', 2),
        ('"tacocat".lastIndexOf("at", 6)', 5),
        ('"abc".lastIndexOf("")', 3),
        ('"ÄÖ aB".lowerAscii() + "ß z".upperAscii()', "ÄÖ abß Z"),
        (r'"\u2000\u0085 x\u3000".trim()', "x"),
        (r'"\u001cx".trim()', "\x1cx"),
        ('"aXbXc".replace("X", "-", 1)', "a-bXc"),
        ('"abc".replace("", "-")', "-a-b-c-"),
        ('"a,b,c".split(",", 2)', ["a", "b,c"]),
        ('"abc".split("", 2)', ["a", "bc"]),
        ('"abc".split("")', ["a", "b", "c"]),
        ('"abc".substring(1, 3)', "bc"),
        ('"abc".substring(4)', "index out of range: 4"),
        ('["a", "b"].join("-") + ["x"].join()', "a-bx"),
        ('[dyn("a"), dyn(1)].join()', "join: invalid input: 1"),
        (r'strings.quote("a\"\n\\é")', r'"a\"\n\\é"'),
        ("[3, 1, 2].sort()", [1, 2, 3]),
        ('["b", "a"].sortBy(x, size(x))', ["b", "a"]),
        ("[1, 1, 2].distinct()", [1, 2]),
        ("[[1, [2]], [3]].map(x, x).flatten() == [1, [2], 3]", "compilation failed"),
        ("[[1], [2, 3]].flatten()", [1, 2, 3]),
        ('dyn("a").sort()', "no such overload"),
        ("dyn(1).sort()", "no such overload: sort"),
        # Keys after a conditional go on in its branches, where an optional found on the way is not looked into.
        ('(true ? [optional.of({"x": 1})][0] : optional.none()).x.hasValue()', "no such key: x"),
        ('(true ? optional.of({"x": 1}) : optional.none()).x.value()', 1),
        ("(true ? (false ? {} : dyn([optional.none()])[0]) : {}).x.hasValue()", "no such key: x"),
        ('dyn({"a": 1}).flatten()', "no such overload: map(dyn, dyn).flatten()"),
        ('dyn("a").flatten(2)', "no such overload: string.flatten(int)"),
        ("{format.uuid(): 1}.size()", "internal error: runtime error: hash of unhashable type cel.Format"),
        ("[1, 2, 3].slice(1, 2)", [2]),
        ("[1, 2, 3].reverse()", [3, 2, 1]),
        ("lists.range(3)", [0, 1, 2]),
        ("[1, 2].sum() + [].sum()", 3),
        ("[2, 3, 1].max() - [2, 3, 1].min()", 2),
        ("[1, 2, 1].indexOf(1) + [1, 2, 1].lastIndexOf(1)", 2),
        ("[1, 2, 2].isSorted() && ![2, 1].isSorted()", True),
        ("sets.equivalent([1, 2, 2], [2, 1]) && sets.intersects([1], [1, 2]) && !sets.contains([1], [2])", True),
        ("[].first().hasValue() || [1].last().value() != 1", False),
        ("optional.unwrap([optional.of(1), optional.none()])", [1]),
        ('string(timestamp("2024-01-01T00:00:00+01:00"))', "2024-01-01T00:00:00+01:00"),
        ('int(duration("1.5s"))', 1_500_000_000),
        ("string(1e21) + string(-0.0) + string(123456.0) + string(1234567.0)", "1e+21-01234561.234567e+06"),
        ('double("0x1p-2")', 0.25),
        ('double("1_0")', "program instantiation failed"),
        ('bytes("é")', b"\xc3\xa9"),
        ('quantity("1.5Gi").add(1).asApproximateFloat()', 1610612737.0),
        ('sign(quantity("-1")) + sign(quantity("0"))', -1),
        ('semver("v01.2", true).minor()', 2),
        ('cidr("10.0.0.1/8").masked() == cidr("10.0.0.0/8")', True),
        ('cidr("10.0.0.1/8").ip() == ip("10.0.0.1")', True),
        ('url("https://a@b.example:8443/p%20q?x=1&x=2#f").getPort()', "8443"),
        ('url("https://[::1]:80/").getHostname()', "::1"),
        ('url("/a/b?c").getEscapedPath()', "/a/b"),
        ('format.named("nope").hasValue()', False),
        ('"%d %s %.1f %x %b %o %%".format([1, true, 2.55, "é", 5, 8])', "1 true 2.5 c3a9 101 10 %"),
        ('"%s".format([{"b": [1.5], "a": timestamp(0)}])', '{"a":timestamp("1970-01-01T00:00:00Z"), "b":[1.500000]}'),
        ("{1: 2}.transformMapEntry(k, v, {v: k}) == {2: 1}", True),
        ("{'a': 1, 'b': 1}.transformMapEntry(k, v, {v: k})", "insert failed: key 1 already exists"),
    ],
)  # fmt: skip
def test_function(expression: str, result: Any) -> None:
    answer = outcome(expression)
    if isinstance(result, str) and result.startswith(("compilation", "program")):
        assert str(answer).startswith(result)
    else:
        assert answer == result
        assert answer.__class__ is result.__class__


@pytest.mark.parametrize(
    ("expression", "before", "since"),
    [
        ('"".indexOf("", 20)', 20, 0),
        ('"".lastIndexOf("", 20)', 20, 0),
        ("lists.range(-1)", [], "lists.range: size must be non-negative, got -1"),
        ("[1].includes(1)", True, True),
    ],
)  # fmt: skip
def test_functions_that_changed_in_1_37(expression: str, before: object, since: object) -> None:
    assert outcome(expression, "1.36") == before
    assert outcome(expression, "1.37") == since


def test_includes_had_a_limit_in_1_36() -> None:
    many = f"[{', '.join(map(str, range(49)))}]"
    assert outcome(f"{many}.includes(48)", "1.36") == (
        "'includes' function cannot be applied to lists longer than 48 values"
    )
    assert outcome(f"{many}.includes(48)") is True


# --- addresses against Python's own

_addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).filter(
    lambda address: getattr(address, "ipv4_mapped", None) is None
)


@given(_addresses)
def test_addresses_print_and_classify_as_in_python(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    ours = network.ip(str(address))
    assert (str(ours), ours.family, ours.value) == (str(address), address.version, int(address))
    assert ours.is_loopback() is address.is_loopback
    assert ours.is_unspecified() is address.is_unspecified
    assert ours.is_multicast() is address.is_multicast
    assert ours.is_link_local_unicast() is address.is_link_local
    assert network.ip_is_canonical(address.compressed)
    assert network.ip(address.exploded) == ours


@given(_addresses, st.integers(0, 128), _addresses)
def test_blocks_contain_what_python_says(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
    bits: int,
    other: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    bits = min(bits, address.max_prefixlen)
    block = network.cidr(f"{address}/{bits}")
    python = ipaddress.ip_network(f"{address}/{bits}", strict=False)
    assert str(block.masked()) == str(python)
    assert block.contains_ip(network.ip(str(other))) is (other in python)
    assert block.contains_cidr(block.masked())


@given(st.text(alphabet="0123456789abcdef.:/%[]", max_size=20))
def test_what_python_takes_for_an_address_is_one(text: str) -> None:
    try:
        python: object = ipaddress.ip_address(text)
    except ValueError:
        python = None
    if "%" not in text and getattr(python, "ipv4_mapped", None) is None:
        assert network.is_ip(text) is (python is not None)


# --- URLs and formats


@given(
    st.sampled_from(("http", "https", "ftp")),
    st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True),
    st.integers(0, 65535),
    st.text(alphabet="abc/%20é ", max_size=10),
    st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=5), max_size=3),
)
def test_urls_come_apart_as_they_were_put_together(
    scheme: str, host: str, port: int, path: str, query: dict[str, str]
) -> None:
    escaped = urllib.parse.quote("/" + path, safe="/")
    text = f"{scheme}://{host}:{port}{escaped}"
    encoded = urllib.parse.urlencode(query)
    url = urls.url(f"{text}?{encoded}" if query else text)
    assert (url.scheme, url.host, url.hostname(), url.port()) == (scheme, f"{host}:{port}", host, str(port))
    assert url.escaped_path() == escaped
    assert url.query() == {key: [value] for key, value in query.items()}
    assert urls.url(str(url)) == url


@given(st.binary(max_size=20), st.text(max_size=8))
def test_byte_format_is_padded_base64(data: bytes, text: str) -> None:
    encoded = base64.b64encode(data).decode()
    assert bool(FORMATS["byte"].problems(encoded)) is (not data)
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        assert FORMATS["byte"].problems(text)


@pytest.mark.parametrize(
    ("name", "text", "is_valid"),
    [
        ("dns1123Label", "a-1", True),
        ("dns1123Label", "a.b", False),
        ("dns1123Label", "a" * 64, False),
        ("dns1123Subdomain", "a.b-c.0", True),
        ("dns1123Subdomain", "a..b", False),
        ("dns1035Label", "0a", False),
        ("dns1035LabelPrefix", "a-", True),
        ("qualifiedName", "example.com/My.Name", True),
        ("qualifiedName", "a/b/c", False),
        ("qualifiedName", "/b", False),
        ("labelValue", "", True),
        ("labelValue", "-", False),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", True),
        ("uuid", "123e4567e89b12d3a456426614174000", True),
        ("uuid", "123e4567-e89b-12d3-a456-42661417400", False),
        ("date", "0000-02-29", True),
        ("date", "2023-02-29", False),
        ("datetime", "2024-02-29t23:59:59.5z", True),
        ("datetime", "2024-02-29T23:59:59,5+99:99", True),  # a fraction after any character, an offset of any size
        ("datetime", "2024-02-29T23:59:59\n5z", False),
        ("datetime", "2024-02-29T23:59:60Z", False),
        ("uri", "/path", True),
        ("uri", "path", False),
    ],
)
def test_formats(name: str, text: str, is_valid: bool) -> None:
    assert (not FORMATS[name].problems(text)) is is_valid


def test_validate_lists_all_that_is_wrong() -> None:
    answer = outcome(f'format.dns1123Label().validate("{"A" * 64}")')
    assert isinstance(answer, Optional)
    assert [problem.partition(" (")[0] for problem in answer.value] == [
        "must be no more than 63 characters",
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character",
    ]


# --- texts against Python's own


@given(st.text(max_size=12), st.text(max_size=3), st.text(max_size=3), st.integers(-1, 4))
def test_replace_and_split_fit_together(text: str, part: str, new: str, limit: int) -> None:
    if part:
        assert new.join(strings.split(text, part)) == strings.replace(text, part, new)
        if limit > 0:
            pieces = strings.split(text, part, limit)
            assert len(pieces) <= limit
            assert part.join(pieces) == text
    assert strings.replace(text, part, new, 0) == text


@given(st.text(max_size=12), st.text(max_size=3))
def test_index_of_finds_the_first_place(text: str, part: str) -> None:
    index = strings.index_of(text, part)
    assert text[index : index + len(part)] == part if index >= 0 else part not in text
    last = strings.last_index_of(text, part)
    assert last >= index
    assert text[last : last + len(part)] == part if last >= 0 else part not in text
