"""Source text to expression nodes.

`parse` is all of it: `lexer` cuts tokens, `parser` builds nodes and has `macros` expand calls, and
`syntax_errors` explains the first token that does not fit, in cel-go's words.

Not here: types (`checker`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from cel.errors import Issue, compilation_failed
from cel.parser import macros
from cel.parser.lexer import tokenize
from cel.parser.macros import Expander, MacroKey
from cel.parser.parser import DepthError, Parser, UnexpectedTokenError
from cel.parser.syntax import Parsed
from cel.recursion import with_room

SIZE_LIMIT: Final = 100_000
"""Code points cel-go parses at most; the API server takes 10,240 bytes (`DeviceSelector` validation)."""


class ParseOptions(Struct, frozen=True):
    """The syntax that an environment knows.

    escaped_identifiers: fields in back-quotes (cel-go 0.29, Kubernetes 1.37).
    """

    macros: Mapping[MacroKey, Expander]
    escaped_identifiers: bool


STANDARD_OPTIONS: Final = ParseOptions(
    {**macros.STANDARD, **macros.OPTIONAL, **macros.BINDINGS, **macros.TWO_VARIABLES, **macros.LISTS},
    escaped_identifiers=True,
)
"""Everything any supported version has."""


def parse(source: str, *, options: ParseOptions = STANDARD_OPTIONS) -> Parsed:
    """Parse one expression.

    Raises:
        CompileError: with cel-go's text: syntax errors (of the grammar the first), reserved names,
            numbers out of range, macro arguments that are none, nesting and size limits.

    Source: cel-go parser/parser.go at v0.29.2.
    """
    if len(source) > SIZE_LIMIT:
        message = f"expression code point size exceeds limit: size: {len(source)}, limit {SIZE_LIMIT}"
        raise compilation_failed(source, (Issue(-1, message),))
    if not source.isascii():
        # A lone surrogate cannot come from a YAML or JSON document that the API server took.
        source = source.encode("utf-8", "replace").decode("utf-8")
    return with_room(_parse, source, options)


def _parse(source: str, options: ParseOptions) -> Parsed:
    tokens = tokenize(source)
    issues = tokens.issues
    parser = Parser(tokens, options.macros, escaped_identifiers=options.escaped_identifiers)
    try:
        expr = parser.parse()
    except UnexpectedTokenError as error:
        from cel.parser.syntax_errors import syntax_issue  # noqa: PLC0415 - only a wrong expression needs it

        issues = [*issues, syntax_issue(tokens, parser.position, error.wanted)]
    except DepthError as error:
        issues = [*issues, Issue(-1, str(error))]
    else:
        issues = issues or parser.issues
        if not issues:
            return Parsed(expr, source, parser.macro_calls)
    raise compilation_failed(source, issues)
