"""Semantic versions: `550.54.15`, `1.0.0-rc.1+build.5`.

Rules of this module
  1. A `Semver` is never changed. Equality, order and hash use `key`, which leaves out build metadata.
  2. `parse` is strict: three parts, no `v`, no leading zeros, numbers below 2^64.

Source: github.com/blang/semver/v4 v4.0.0 (`Parse`, `Compare`), k8s.io/apiserver pkg/cel/library/semverlib.go
(`normalizeAndParse`) v0.36.3; texts of errors included.
"""

from __future__ import annotations

from typing import Any, Final

from cel.gotext import quote

_DIGITS: Final = frozenset("0123456789")
_ALPHANUMERIC: Final = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")
_UINT64_MAX: Final = 2**64 - 1


class Semver:
    """A version. `key` orders as semver.org says; `major`, `minor`, `patch` are 0..2^64-1."""

    __slots__ = ("_text", "key", "major", "minor", "patch")

    def __init__(self, major: int, minor: int, patch: int, prerelease: tuple[tuple[int, int | str], ...], text: str):
        """`prerelease` holds (0, number) and (1, text); `text` is the version as it prints."""
        self.major: Final = major
        self.minor: Final = minor
        self.patch: Final = patch
        self._text: Final = text
        # A release is above all its prereleases; numbers are below texts; a shorter prefix is below.
        self.key: Final[tuple[Any, ...]] = (major, minor, patch, 0 if prerelease else 1, *prerelease)

    @classmethod
    def parse(cls, text: str) -> Semver:
        """Read a version strictly.

        Raises:
            ValueError: with upstream's text.
        """
        if not text:
            raise ValueError("Version string empty")
        parts = text.split(".", 2)
        if len(parts) != 3:
            raise ValueError("No Major.Minor.Patch elements found")
        major = _number(parts[0], "major", "Major")
        minor = _number(parts[1], "minor", "Minor")
        patch_text, plus, build = parts[2].partition("+")
        patch_text, dash, pre = patch_text.partition("-")
        patch = _number(patch_text, "patch", "Patch")
        prerelease = tuple(_prerelease(identifier) for identifier in pre.split(".")) if dash else ()
        if plus:
            _check_build(build)
        return cls(major, minor, patch, prerelease, text)

    @classmethod
    def parse_normalized(cls, text: str) -> Semver:
        """Read a version after dropping one leading `v`, leading zeros, and filling in missing parts.

        Raises:
            ValueError: with upstream's text.
        """
        parts = text.removeprefix("v").split(".", 2)
        for i, part in enumerate(parts):
            if len(part.encode()) > 1:  # Go counts bytes
                stripped = part.lstrip("0")
                parts[i] = stripped if stripped and stripped[0] in _DIGITS else "0" + stripped
        if len(parts) < 3:
            if "+" in parts[-1] or "-" in parts[-1]:
                raise ValueError("short version cannot contain PreRelease/Build meta data")
            parts += ["0"] * (3 - len(parts))
        return cls.parse(".".join(parts))

    def compare_to(self, other: Semver) -> int:
        """-1, 0 or 1; build metadata is ignored."""
        return (self.key > other.key) - (self.key < other.key)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Semver.parse({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Semver) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.key < other.key if isinstance(other, Semver) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.key <= other.key if isinstance(other, Semver) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)


def _number(text: str, name: str, title: str) -> int:
    if not _DIGITS.issuperset(text):
        raise ValueError(f"Invalid character(s) found in {name} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f"{title} number must not contain leading zeroes {quote(text)}")
    return _uint64(text)


def _uint64(text: str) -> int:
    """Go's `strconv.ParseUint(text, 10, 64)` for a text of digits."""
    if not text:
        raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or (value := int(text)) > _UINT64_MAX:
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return value


def _prerelease(identifier: str) -> tuple[int, int | str]:
    if not identifier:
        raise ValueError("Prerelease is empty")
    if _DIGITS.issuperset(identifier):
        if len(identifier) > 1 and identifier[0] == "0":
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {quote(identifier)}")
        return 0, _uint64(identifier)
    if not _ALPHANUMERIC.issuperset(identifier):
        raise ValueError(f"Invalid character(s) found in prerelease {quote(identifier)}")
    return 1, identifier


def _check_build(build: str) -> None:
    for identifier in build.split("."):
        if not identifier:
            raise ValueError("Build meta data is empty")
        if not _ALPHANUMERIC.issuperset(identifier):
            raise ValueError(f"Invalid character(s) found in build meta data {quote(identifier)}")
