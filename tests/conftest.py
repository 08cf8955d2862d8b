"""For all tests: no event loop is left over between a synchronous test and an asynchronous one."""

from __future__ import annotations

import asyncio

# looptime and pytest-asyncio ask the policy for "the current loop"; without this line it makes one that nobody closes,
# which -W error turns into a failure of whatever test runs next.
asyncio.set_event_loop(None)
