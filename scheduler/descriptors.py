"""Descriptors 0 to 2: opened where whoever started us had closed them (`2>&-`, some supervisors).

Otherwise the first three files and sockets of the program get their numbers: libuv aborts when it closes one of them,
and what somebody prints would go into a connection. To be called before anything is opened that stays open. Go's
runtime does the same.
"""

from __future__ import annotations

import os
import sys
from typing import Final

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_standard_descriptors() -> None:
    """Point those that are closed to nowhere; for child processes too."""
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is given: this one, for those below are open by now.
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == number, f"descriptor {number} was closed, yet {opened} is the first that is free"
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - as long as we run
