"""Regular expressions that only somebody hostile writes, and the texts that make them long to match.

Most are known to hold up engines that backtrack, or to make automata large: nested repetitions, alternatives that
begin alike, counts, classes that overlap. `generated` draws more from the same pieces.
"""

from __future__ import annotations

import random
from typing import Final

_LONG: Final = "a" * 256
_MIXED: Final = "".join(random.Random(1).choices("ab", k=256))
_WORDS: Final = "GPU-0f2c7b6e k9 " * 16

WITH_TEXTS: Final = {
    "found by a judge": ("a*(a{24}b|a{24}c|a{23}d|a{23}e)", _LONG),
    "repetitions one after the other": ("a{0,7}a{0,7}b", _LONG * 12),
    "nested repetitions": ("(a+)+$", _LONG + "b"),
    "nested counts": ("((a{1,30}){1,30})b", _LONG),
    "one large count": ("a{1000}b", _LONG * 12),
    "a window": ("[ab]*a[ab]{300}c", _MIXED),
    "two windows": ("([ab]*a[ab]{300}c|[ab]*b[ab]{300}d)", _MIXED),
    "every state": (".*a.{14}c", _MIXED),
    "optional ones": ("a?" * 60 + "a" * 60 + "$", _LONG),
    "starred ones": ("a*" * 200 + "b", _LONG),
    "dots": ("(.*)(.*)(.*)(.*)(.*)[^a]", _LONG),
    "alternatives alike": ("(a|a)*b", _LONG),
    "alternatives in counts": ("(a|b|ab){0,300}c", _MIXED),
    "many alternatives": (f"({'|'.join(f'[a-z]{{{n}}}{n}' for n in range(1, 40))})*!", _WORDS),
    "wide classes": (r"[^a-f\\d]{1,30}[x-z]" * 8, _WORDS),
    "without regard to case": ("(?i)([a-z]|k|s)*[0-9]{40}", _WORDS),
    "unicode": (r"(\\pL|\\pN|\\p{Greek})*\\pS{3}", "aα1日" * 64),
    "boundaries": (r"(\\b\\w*\\B\\w*\\b\\s?)*!", _WORDS),
    "lines": (r"(?m)(^a.*$\\n?)*b", "a\\n" * 120),
    "lazy ones": ("(a+?b??)+?c", _MIXED),
}
"""Patterns by name, as a text in CEL has them, each with a text."""


def generated(rnd: random.Random, depth: int = 4) -> str:
    """A pattern; not all of them are ones that are accepted."""
    if not depth or rnd.random() < 0.15:
        return rnd.choice(("a", "b", ".", "[ab]", "[^c]", "[a-z]", "ab", "a|b", "(?i:A)", "a?", "c", "^", "$"))
    inner = generated(rnd, depth - 1)
    match rnd.randrange(6):
        case 0:
            return f"({inner}){rnd.choice(('*', '+', '?', '*?', '{0,9}', '{3}', '{2,40}', '{200}', '{20,}'))}"
        case 1:
            return f"({inner}|{generated(rnd, depth - 1)})"
        case 2:
            return f"({inner}|{inner}b)*"
        case 3:
            return f"{inner}.*{generated(rnd, depth - 1)}"
        case _:
            return inner + generated(rnd, depth - 1)


def _tests(name: str, pattern: str, text: str) -> dict[str, str]:
    return {
        f"patterns: {name}": f"lists.range(300).exists(i, '{text}'.matches('{pattern}') && i < 0)",
        f"patterns: {name}, found": f"lists.range(300).exists(i, '{text}'.findAll('{pattern}', 9) == ['', string(i)])",
    }


FAMILIES: Final[dict[str, str]] = {
    **{name: text for key, pair in WITH_TEXTS.items() for name, text in _tests(key, *pair).items()},
    **{
        name: text
        for seed in range(30)
        for name, text in _tests(f"generated {seed}", generated(random.Random(seed)) + "d", _MIXED[:200]).items()
    },
    "patterns: one for each": " || ".join(
        f"'{_MIXED[n : n + 60]}'.matches('[ab]*a[ab]{{{n + 20}}}c')" for n in range(90)
    ),
    "patterns: all of them": " || ".join(
        f"'{text[:120]}'.matches('{pattern}')" for pattern, text in WITH_TEXTS.values() if len(pattern) < 100
    ),
}  # fmt: skip
"""Expressions by name."""
