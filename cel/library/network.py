"""IP addresses and CIDR blocks: `ip(...)`, `cidr(...)`.

No zones, no IPv4-mapped IPv6, no leading zeros; a block keeps its host bits.

Source: Go 1.26, net/netip (parsing, printing, texts of errors); k8s.io/apiserver v0.36.3 pkg/cel/library/ip.go and
cidr.go.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from msgspec import Struct

from cel.errors import EvaluationError
from cel.gotext import quote
from cel.library.values import no_such_overload, spend, succeeds

_HEX: Final = frozenset("0123456789abcdefABCDEF")
_DIGITS: Final = frozenset("0123456789")
_V4_BROADCAST: Final = 0xFFFFFFFF


class _AddressError(ValueError):
    """What Go's parser says; `at` is the rest it stopped at."""

    def __init__(self, text: str, message: str, at: str = "") -> None:
        place = f" (at {quote(at)})" if at else ""
        super().__init__(f"ParseAddr({quote(text)}): {message}{place}")


class IP(Struct, frozen=True):
    """An address: `family` 4 or 6, `value` as a number."""

    CEL_TYPE: ClassVar[str] = "net.IP"
    GO_TYPE: ClassVar[str] = "cel.IP"
    family: int
    value: int

    @property
    def length(self) -> int:
        """Bits of an address of this family."""
        return 32 if self.family == 4 else 128

    def cel_equal(self, other: object) -> bool:
        if not isinstance(other, IP):
            no_such_overload()
        return self == other

    def __str__(self) -> str:
        if self.family == 4:
            return ".".join(str(self.value >> shift & 0xFF) for shift in (24, 16, 8, 0))
        from ipaddress import IPv6Address  # noqa: PLC0415 - few selectors print addresses

        return str(IPv6Address(self.value))

    def is_unspecified(self) -> bool:
        return self.value == 0

    def is_loopback(self) -> bool:
        return self.value >> 24 == 127 if self.family == 4 else self.value == 1

    def is_multicast(self) -> bool:
        return self.value >> 28 == 0xE if self.family == 4 else self.value >> 120 == 0xFF

    def is_link_local_multicast(self) -> bool:
        if self.family == 4:
            return self.value >> 8 == 0xE00000
        return self.value >> 112 & 0xFF0F == 0xFF02

    def is_link_local_unicast(self) -> bool:
        return self.value >> 16 == 0xA9FE if self.family == 4 else self.value >> 118 == 0x3FA

    def is_global_unicast(self) -> bool:
        if self.family == 4 and self.value == _V4_BROADCAST:
            return False
        return not (self.is_unspecified() or self.is_loopback() or self.is_multicast() or self.is_link_local_unicast())


class CIDR(Struct, frozen=True):
    """An address with a prefix length, host bits included."""

    CEL_TYPE: ClassVar[str] = "net.CIDR"
    GO_TYPE: ClassVar[str] = "cel.CIDR"
    ip: IP
    bits: int

    def cel_equal(self, other: object) -> bool:
        if not isinstance(other, CIDR):
            no_such_overload()
        return self == other

    def __str__(self) -> str:
        return f"{self.ip}/{self.bits}"

    def masked(self) -> CIDR:
        """The block without host bits."""
        shift = self.ip.length - self.bits
        return CIDR(IP(self.ip.family, self.ip.value >> shift << shift), self.bits)

    def contains_ip(self, ip: IP) -> bool:
        shift = self.ip.length - self.bits
        return ip.family == self.ip.family and ip.value >> shift == self.ip.value >> shift

    def contains_cidr(self, other: CIDR) -> bool:
        return self.bits <= other.bits and self.contains_ip(other.ip)


# --- parsing


def _parse_address(text: str) -> IP:
    """Go's `netip.ParseAddr`; a zone is reported by `_parse_ip`."""
    for character in text:
        if character == ".":
            return IP(4, _parse_v4(text, text))
        if character == ":":
            return _parse_v6(text)
        if character == "%":
            raise _AddressError(text, "missing IPv6 address")
    raise _AddressError(text, "unable to parse IP")


def _parse_v4(text: str, fields: str) -> int:
    """The number of dotted `fields`, the end of `text`."""
    value = octet = digits = dots = 0
    for position, character in enumerate(fields):
        if character in _DIGITS:
            if digits == 1 and octet == 0:
                raise _AddressError(text, "IPv4 field has octet with leading zero")
            octet = octet * 10 + int(character)
            digits += 1
            if octet > 255:
                raise _AddressError(text, "IPv4 field has value >255")
        elif character == ".":
            if position == 0 or position == len(fields) - 1 or fields[position - 1] == ".":
                raise _AddressError(text, "IPv4 field must have at least one digit", fields[position:])
            if dots == 3:
                raise _AddressError(text, "IPv4 address too long")
            value = value << 8 | octet
            dots += 1
            octet = digits = 0
        else:
            raise _AddressError(text, "unexpected character", fields[position:])
    if dots < 3:
        raise _AddressError(text, "IPv4 address too short")
    return value << 8 | octet


def _parse_v6(text: str) -> IP:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _AddressError(text, "zone must be a non-empty string")
    groups: list[int] = []
    ellipsis = -1
    if rest.startswith("::"):
        ellipsis = 0
        rest = rest[2:]
    ended = ellipsis == 0 and not rest
    while not ended and len(groups) < 8:
        length = _hex_group(text, rest)
        if rest[length : length + 1] == ".":
            if ellipsis < 0 and len(groups) != 6:
                raise _AddressError(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
            if len(groups) > 6:
                raise _AddressError(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
            embedded = _parse_v4(text, rest)
            groups += [embedded >> 16, embedded & 0xFFFF]
            rest = ""
            break
        groups.append(int(rest[:length], 16))
        rest = rest[length:]
        if not rest:
            break
        if rest[0] != ":":
            raise _AddressError(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _AddressError(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if ellipsis >= 0:
                raise _AddressError(text, "multiple :: in address", rest)
            ellipsis = len(groups)
            rest = rest[1:]
            ended = not rest
    if rest:
        raise _AddressError(text, "trailing garbage after address", rest)
    return IP(6, _expanded(text, groups, ellipsis))


def _hex_group(text: str, rest: str) -> int:
    """Length of the hexadecimal number `rest` starts with, 1..4."""
    length = 0
    while length < len(rest) and rest[length] in _HEX:
        length += 1
        if length > 4:
            raise _AddressError(text, "each group must have 4 or less digits", rest)
    if length == 0:
        raise _AddressError(text, "each colon-separated field must have at least one digit", rest)
    return length


def _expanded(text: str, groups: list[int], ellipsis: int) -> int:
    missing = 8 - len(groups)
    if missing:
        if ellipsis < 0:
            raise _AddressError(text, "address string too short")
        groups = [*groups[:ellipsis], *[0] * missing, *groups[ellipsis:]]
    elif ellipsis >= 0:
        raise _AddressError(text, "the :: must expand to at least one field of zeros")
    value = 0
    for group in groups:
        value = value << 16 | group
    return value


def parse_address(text: str) -> IP:
    """Go's `netip.ParseAddr`, zones included (and forgotten).

    Raises:
        ValueError: with Go's text.
    """
    return _parse_address(text)


def _is_mapped(ip: IP) -> bool:
    return ip.family == 6 and ip.value >> 32 == 0xFFFF


def ip(text: str) -> IP:
    spend(140 + len(text))
    try:
        address = _parse_address(text)
    except ValueError as error:
        raise EvaluationError(f"IP Address {quote(text)} parse error during conversion from string: {error}") from None
    if "%" in text:
        raise EvaluationError(f"IP address {quote(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return address


is_ip: Final = succeeds(ip)


def ip_is_canonical(text: str) -> bool:
    return address_text(ip(text)) == text


def address_text(address: IP | CIDR) -> str:
    """`string(address)`."""
    spend(140)
    return str(address)


def _parse_prefix(text: str) -> CIDR:
    address_text, slash, bits_text = text.rpartition("/")
    head = f"netip.ParsePrefix({quote(text)}): "
    if not slash:
        raise ValueError(head + "no '/'")
    try:
        address = _parse_address(address_text)
    except ValueError as error:
        raise ValueError(f"{head}{error}") from None
    if "%" in address_text:
        raise ValueError(head + "IPv6 zones cannot be present in a prefix")
    digits = bits_text[1:] if bits_text[:1] in ("+", "-") and len(bits_text) == 1 else bits_text
    if not digits or not _DIGITS.issuperset(digits) or (len(digits) > 1 and digits[0] == "0") or len(digits) > 18:
        raise ValueError(f"{head}bad bits after slash: {quote(bits_text)}")
    if int(digits) > address.length:
        raise ValueError(head + "prefix length out of range")
    return CIDR(address, int(digits))


_CIDR_ERROR: Final = "network address parse error during conversion from string: "


def cidr(text: str) -> CIDR:
    spend(190 + len(text))
    try:
        block = _parse_prefix(text)
    except ValueError as error:
        raise EvaluationError(f"{_CIDR_ERROR}{_CIDR_ERROR}{error}") from None
    if _is_mapped(block.ip):
        raise EvaluationError(f"{_CIDR_ERROR}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return block


is_cidr: Final = succeeds(cidr)


def cidr_contains_ip_text(block: CIDR, text: Any) -> bool:
    # Upstream forgets why the text is no address.
    if not is_ip(text):
        no_such_overload()
    return block.contains_ip(ip(text))


def cidr_contains_cidr_text(block: CIDR, text: Any) -> bool:
    return block.contains_cidr(cidr(text))
