"""`\\pL`, `\\p{Greek}`: Unicode general categories, and the scripts people do use.

Categories are those of Python's Unicode version, which may be one ahead of or behind Go's.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Final

_CATEGORIES: Final = frozenset(
    (
        "Cc", "Cf", "Cn", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No",
        "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs",
    )
)  # fmt: skip
_MAJOR: Final = frozenset("CLMNPSZ")
_ALIASES: Final = {
    "Letter": "L",
    "Lowercaseletter": "Ll",
    "Uppercaseletter": "Lu",
    "Titlecaseletter": "Lt",
    "Modifierletter": "Lm",
    "Otherletter": "Lo",
    "Mark": "M",
    "Number": "N",
    "Decimalnumber": "Nd",
    "Digit": "Nd",
    "Letternumber": "Nl",
    "Othernumber": "No",
    "Punctuation": "P",
    "Punct": "P",
    "Symbol": "S",
    "Separator": "Z",
    "Spaceseparator": "Zs",
    "Other": "C",
    "Control": "Cc",
    "Cntrl": "Cc",
}
_SCRIPTS: Final = {
    "Arabic": ("ARABIC ",),
    "Armenian": ("ARMENIAN ",),
    "Bengali": ("BENGALI ",),
    "Cyrillic": ("CYRILLIC ", "COMBINING CYRILLIC "),
    "Devanagari": ("DEVANAGARI ",),
    "Georgian": ("GEORGIAN ",),
    "Greek": ("GREEK ",),
    "Han": ("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "CJK RADICAL ", "KANGXI RADICAL "),
    "Hangul": ("HANGUL ",),
    "Hebrew": ("HEBREW ",),
    "Hiragana": ("HIRAGANA ",),
    "Katakana": ("KATAKANA ",),
    "Latin": ("LATIN ",),
    "Tamil": ("TAMIL ",),
    "Thai": ("THAI ",),
}
"""By script: how the names of its characters begin; punctuation that scripts share is in none."""


def unicode_test(name: str) -> Callable[[str], bool] | None:
    """The membership test of a class by the name in `\\p{...}`, or None for a name we do not know."""
    canonical = "".join(part for part in name if part not in "_- ").capitalize()
    canonical = _ALIASES.get(canonical, canonical)
    if canonical == "Any":
        return lambda character: True
    if canonical == "Ascii":
        return str.isascii
    if canonical == "Assigned":
        return lambda character: unicodedata.category(character) != "Cn"
    if canonical == "Lc":
        return lambda character: unicodedata.category(character) in ("Lu", "Ll", "Lt")
    if canonical in _CATEGORIES:
        return lambda character: unicodedata.category(character) == canonical
    if canonical in _MAJOR:
        # Go's C leaves out the unassigned.
        return lambda character: (category := unicodedata.category(character))[0] == canonical and category != "Cn"
    prefixes = _SCRIPTS.get(canonical)
    if prefixes is None:
        return None
    return lambda character: unicodedata.name(character, "").startswith(prefixes)
