"""How long a test waits at most for what must happen.

Long, because a machine that tests has other work: only what hangs ends this way. How soon something happens is for
benchmarks; a test that needs a bound on time uses a clock of its own.
"""

from __future__ import annotations

from typing import Final

PATIENCE_S: Final = 180.0
