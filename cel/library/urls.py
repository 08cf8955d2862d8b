"""URLs: `url(...)` and its accessors.

Texts are handled as their UTF-8 bytes, one character per byte, because percent escapes mean bytes.

Source: Go's net/url (1.26); k8s.io/apiserver pkg/cel/library/urls.go.
"""

from __future__ import annotations

from typing import ClassVar, Final

from cel.errors import EvaluationError
from cel.gotext import quote
from cel.library.network import parse_address
from cel.library.values import no_such_overload, spend

_ALNUM: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_UNRESERVED: Final = _ALNUM | frozenset("-_.~")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_DIGITS: Final = frozenset("0123456789")

# Characters that stand for themselves, by part of the URL.
_PATH: Final = _UNRESERVED | frozenset("$&+,/:;=@")
_USER: Final = _UNRESERVED | frozenset("$&+,;=")
_HOST: Final = _UNRESERVED | frozenset("!$&'()*+,;=:[]<>\"")
_FRAGMENT: Final = _UNRESERVED | frozenset("$&+,/:;=?@!()*")
_VALID_PATH: Final = _PATH | frozenset("!$&'()*+,;=:@[]%")
_VALID_FRAGMENT: Final = _FRAGMENT | frozenset("!$&'()*+,;=:@[]%")
_VALID_USER: Final = _ALNUM | frozenset("-._:~!$&'()*+,;=%@")

_PARAMETERS_MAX: Final = 10_000


class URL:
    """A parsed absolute URI or absolute path; fields as in Go, `None` for no user."""

    __slots__ = (
        "_force_query",
        "_fragment",
        "_omit_host",
        "_opaque",
        "_path",
        "_raw_fragment",
        "_raw_path",
        "_raw_query",
        "_user",
        "host_bytes",
        "length",
        "scheme",
    )

    CEL_TYPE: ClassVar[str] = "kubernetes.URL"
    GO_TYPE: ClassVar[str] = "cel.URL"

    def __init__(self, text: str, *, via_request: bool) -> None:
        """Read `text` (bytes as characters), without fragment.

        Raises:
            ValueError: with Go's text, without what was read.
        """
        if any(character < " " or character == "\x7f" for character in text):
            raise ValueError("net/url: invalid control character in URL")
        if not text and via_request:
            raise ValueError("empty url")
        self.length: Final = len(text)
        self._user: str | None = None
        self.host_bytes = self._opaque = self._raw_query = self._fragment = self._raw_fragment = ""
        self._force_query = self._omit_host = False
        if text == "*":
            self.scheme, self._path, self._raw_path = "", "*", ""
            return
        scheme, rest = _split_scheme(text)
        self.scheme = scheme.lower()
        if rest.endswith("?") and rest.count("?") == 1:
            self._force_query = True
            rest = rest[:-1]
        else:
            rest, _, self._raw_query = rest.partition("?")
        self._path = self._raw_path = ""
        if not rest.startswith("/"):
            if self.scheme:
                self._opaque = rest
                return
            if via_request:
                raise ValueError("invalid URI for request")
            if ":" in rest.partition("/")[0]:
                raise ValueError("first path segment in URL cannot contain colon")
        if (self.scheme or (not via_request and not rest.startswith("///"))) and rest.startswith("//"):
            authority, slash, path = rest[2:].partition("/")
            rest = slash + path
            self._read_authority(authority)
        elif self.scheme and rest.startswith("/"):
            self._omit_host = True
        self._path = _unescape(rest)
        self._raw_path = "" if _escape(self._path, _PATH) == rest else rest

    def _read_authority(self, authority: str) -> None:
        userinfo, at, host = authority.rpartition("@")
        self.host_bytes = _parse_host(self.scheme, host)
        if not at:
            return
        if not _VALID_USER.issuperset(userinfo):
            raise ValueError("net/url: invalid userinfo")
        name, colon, password = userinfo.partition(":")
        self._user = _escape(_unescape(name), _USER) + (":" + _escape(_unescape(password), _USER) if colon else "")

    def set_fragment(self, fragment: str) -> None:
        self._fragment = _unescape(fragment)
        self._raw_fragment = "" if _escape(self._fragment, _FRAGMENT) == fragment else fragment

    def cel_equal(self, other: object) -> bool:
        if not isinstance(other, URL):
            no_such_overload()
        spend(200 + self.length + other.length)
        return str(self) == str(other)

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, URL) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def host(self) -> str:
        return _text(self.host_bytes)

    def hostname(self) -> str:
        return _text(self._split_host()[0])

    def port(self) -> str:
        return self._split_host()[1]

    def _split_host(self) -> tuple[str, str]:
        host, port = self.host_bytes, ""
        colon = host.rfind(":")
        if colon >= 0 and _is_optional_port(host[colon:]):
            host, port = host[:colon], host[colon + 1 :]
        return (host[1:-1], port) if host[:1] == "[" and host[-1:] == "]" else (host, port)

    def escaped_path(self) -> str:
        if self._raw_path and _VALID_PATH.issuperset(self._raw_path):
            return self._raw_path
        return "*" if self._path == "*" else _escape(self._path, _PATH)

    def query(self) -> dict[str, list[str]]:
        """Values by key; what cannot be unescaped is left out."""
        values: dict[str, list[str]] = {}
        if self._raw_query.count("&") >= _PARAMETERS_MAX:
            return values
        for part in self._raw_query.split("&"):
            if not part or ";" in part:
                continue
            key, _, value = part.partition("=")
            try:
                pair = _unescape(key.replace("+", " ")), _unescape(value.replace("+", " "))
            except ValueError:
                continue
            values.setdefault(_text(pair[0]), []).append(_text(pair[1]))
        return values

    def __str__(self) -> str:
        text = f"{self.scheme}:" if self.scheme else ""
        if self._opaque:
            text += self._opaque
        else:
            has_authority = bool(self.host_bytes) or self._user is not None
            if (self.scheme and not self._omit_host) or has_authority:
                if has_authority or self._path:
                    text += "//"
                if self._user is not None:
                    text += self._user + "@"
                text += _escape(self.host_bytes, _HOST)
            path = self.escaped_path()
            if path and path[0] != "/" and self.host_bytes:
                text += "/"
            if not text and ":" in path.partition("/")[0]:
                text += "./"
            text += path
        if self._force_query or self._raw_query:
            text += "?" + self._raw_query
        if self._fragment:
            text += "#" + self._escaped_fragment()
        return _text(text)

    def _escaped_fragment(self) -> str:
        if self._raw_fragment and _VALID_FRAGMENT.issuperset(self._raw_fragment):
            return self._raw_fragment
        return _escape(self._fragment, _FRAGMENT)

    def __repr__(self) -> str:
        return f"URL({str(self)!r})"


def _bytes(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("latin-1")


def _text(characters: str) -> str:
    return characters if characters.isascii() else characters.encode("latin-1").decode("utf-8", "replace")


def _split_scheme(text: str) -> tuple[str, str]:
    for position, character in enumerate(text):
        if character == ":":
            if position == 0:
                raise ValueError("missing protocol scheme")
            return text[:position], text[position + 1 :]
        is_first = position == 0 and (character in _DIGITS or character in "+-.")
        if is_first or not (character in _ALNUM or character in "+-."):
            break
    return "", text


def _parse_host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise ValueError("invalid IP-literal")
    if bracket == 0:
        return _parse_literal(host)
    colon = host.find(":")
    if colon >= 0:
        if host.rfind(":") != colon and scheme not in ("http", "https"):
            colon = host.rfind(":")
        if not _is_optional_port(host[colon:]):
            raise ValueError(f"invalid port {quote(_text(host[colon:]))} after host")
    return _unescape(host, in_host=True)


def _parse_literal(host: str) -> str:
    """`[2001:db8::1]:80`."""
    end = host.rfind("]")
    if end < 0:
        raise ValueError("missing ']' in host")
    port = host[end + 1 :]
    if not _is_optional_port(port):
        raise ValueError(f"invalid port {quote(_text(port))} after host")
    name = host[1:end]
    zone = name.find("%25")
    if zone < 0:
        name = _unescape(name, in_host=True)
    else:
        name = _unescape(name[:zone], in_host=True) + _unescape(name[zone:], in_zone=True)
    try:
        address = parse_address(_text(name))
    except ValueError as error:
        raise ValueError(f"invalid host: {error}") from None
    if address.family == 4:
        raise ValueError("invalid IP-literal")
    return f"[{name}]{port}"


def _is_optional_port(text: str) -> bool:
    return not text or (text[0] == ":" and _DIGITS.issuperset(text[1:]))


def _unescape(text: str, *, in_host: bool = False, in_zone: bool = False) -> str:
    """Percent escapes as the bytes they mean.

    Raises:
        ValueError: for an escape that is none or not allowed there.
    """
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character != "%":
            if (in_host or in_zone) and character < "\x80" and character not in _HOST:
                raise ValueError(f"invalid character {quote(character)} in host name")
            parts.append(character)
            position += 1
            continue
        escape = text[position : position + 3]
        if len(escape) < 3 or escape[1] not in _HEX or escape[2] not in _HEX:
            raise ValueError(f"invalid URL escape {quote(_text(escape))}")
        byte = chr(int(escape[1:], 16))
        if in_host and byte < "\x80" and escape != "%25":
            raise ValueError(f"invalid URL escape {quote(escape)}")
        if in_zone and escape != "%25" and byte != " " and byte not in _HOST:
            raise ValueError(f"invalid URL escape {quote(escape)}")
        parts.append(byte)
        position += 3
    return "".join(parts)


def _escape(text: str, plain: frozenset[str]) -> str:
    return "".join(character if character in plain else f"%{ord(character):02X}" for character in text)


def url(text: str) -> URL:
    spend(180 + 7 * len(text))
    raw = _bytes(text)
    try:
        URL(raw, via_request=True)
    except ValueError as error:
        raise _parse_error(text, error) from None
    head, hash_, fragment = raw.partition("#")
    try:
        parsed = URL(head, via_request=False)
    except ValueError as error:
        raise _parse_error(_text(head), error) from None
    if hash_ and fragment:
        try:
            parsed.set_fragment(fragment)
        except ValueError as error:
            raise _parse_error(text, error) from None
    return parsed


def query(parsed: URL) -> dict[str, list[str]]:
    """`parsed.getQuery()`."""
    spend(10 + 4 * parsed.length)
    return parsed.query()


def escaped_path(parsed: URL) -> str:
    """`parsed.getEscapedPath()`."""
    spend(5 + parsed.length)
    return parsed.escaped_path()


def _parse_error(text: str, error: ValueError) -> EvaluationError:
    return EvaluationError(f"URL parse error during conversion from string: parse {quote(text)}: {error}")


def is_url(text: str) -> bool:
    spend(100 + 4 * len(text))
    try:
        URL(_bytes(text), via_request=True)
    except ValueError:
        return False
    return True
