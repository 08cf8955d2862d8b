"""What is not said yet, by row: on which channel, and what of it (`judging.faults`). Only ever shorter."""

from typing import Final

KNOWN_MISSES: Final[dict[str, str]] = {
    "each-alternative-fails-otherwise@fleet": ("event kind"),
}
