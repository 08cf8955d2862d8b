"""What each run asks of a fifth of the cases only, and NIGHTLY=1 of all: variants of what all are asked anyway."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

IS_NIGHT: Final = os.environ.get("NIGHTLY") == "1"
_Case = TypeVar("_Case")


def fifth(cases: Sequence[_Case]) -> Sequence[_Case]:
    """Every fifth case, the first of them; all at night."""
    return cases if IS_NIGHT else cases[::5]
