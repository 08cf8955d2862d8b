"""Syntax errors in the words of cel-go's ANTLR parser."""

from __future__ import annotations

from cel.errors import Issue
from cel.lexer import Tokens
from cel.parser import DepthError, Parser, UnexpectedTokenError


def syntax_issues(tokens: Tokens) -> list[Issue]:
    """What is wrong with tokens that do not parse; never empty."""
    issues = list(tokens.issues)
    parser = Parser(tokens, {}, escaped_identifiers=True)
    try:
        parser.parse()
    except UnexpectedTokenError:
        position = parser.position
        issues.append(Issue(tokens.offsets[position], f"Syntax error: mismatched input '{tokens.texts[position]}'"))
    except DepthError as error:
        issues.append(Issue(-1, str(error)))
    return issues
