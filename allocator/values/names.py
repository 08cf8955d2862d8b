"""Names as the Kubernetes API checks them: yes or no.

The rules themselves are those of CEL's named formats (`cel.library.formats`), which say what is wrong with a name in
the API server's words; nobody writes them down again. Here: the answers as booleans, remembered, for the hot paths.

Cost: O(length) for a name not asked about lately; a text longer than any name can be is refused without a look.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from cel.library.formats import FORMATS

LABEL_LENGTH_MAX: Final = 63  # of a DNS label, a label's value, the last part of a label's key
SUBDOMAIN_LENGTH_MAX: Final = 253
LABEL_KEY_LENGTH_MAX: Final = SUBDOMAIN_LENGTH_MAX + 1 + LABEL_LENGTH_MAX  # the longest name there is

NameCheck: TypeAlias = Callable[[str], bool]


def _check(format_name: str) -> NameCheck:
    problems = FORMATS[format_name].problems
    return lambda text: len(text) <= LABEL_KEY_LENGTH_MAX and not problems(text)


is_dns_subdomain: Final = _check("dns1123Subdomain")
is_label_key: Final = _check("qualifiedName")
is_label_value: Final = _check("labelValue")

_C_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_c_identifier(text: str) -> bool:
    """Letters, digits and underscores of ASCII, no digit first; of any length."""
    return _C_IDENTIFIER.fullmatch(text) is not None
