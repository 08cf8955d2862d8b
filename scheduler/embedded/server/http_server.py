"""The API over HTTP: aiohttp's requests for `routes` and `watches`, and their replies for aiohttp.

Rules of this module
  1. A request is applied between two awaits, after its body has been read: it cannot interleave with another.
  2. A defect of this server is a 500 with the exception's text.

Not here: paths and verbs (`routes`), the process around it (`cluster`).
"""

from __future__ import annotations

import logging
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

from scheduler.embedded.server.guard import Guard
from scheduler.embedded.server.incoming import Incoming
from scheduler.embedded.server.rest import Api
from scheduler.embedded.server.routes import Routes, refusal
from scheduler.embedded.server.statuses import ApiError
from scheduler.embedded.server.watches import Watch

REQUEST_SIZE_MAX: Final = 3 * 1024 * 1024
"""Bytes of a request body, as in kube-apiserver."""

_LOG: Final = logging.getLogger(__name__)


class HttpServer:
    """Answers requests; `handle` is what an aiohttp low-level server calls.

    Args:
        bookmark_interval_s: Seconds between the bookmarks of an idle watch.
        guard: Decides which clients are answered, before anything else.
    """

    def __init__(self, api: Api, *, bookmark_interval_s: float, guard: Guard) -> None:
        self._api = api
        self._bookmark_interval_s = bookmark_interval_s
        self._guard = guard
        self.routes: Final = Routes(api)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        incoming = Incoming(
            method=request.method,
            path=request.path,
            query=dict(parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True)),
            accept=request.headers.get("Accept", ""),
            content_type=request.headers.get("Content-Type", "").split(";")[0].strip(),
            user_agent=request.headers.get("User-Agent", ""),
            body=b"",
        )
        try:
            self._guard.check(request)
            if request.body_exists:
                incoming.body = await request.read()
            if (watched := self.routes.watched(incoming)) is not None:
                watch = Watch(self._api, *watched, bookmark_interval_s=self._bookmark_interval_s)
                return await watch.serve(request)
            reply = self.routes.reply_to(incoming)
        except ApiError as error:
            reply = refusal(error, incoming)
        except web.HTTPRequestEntityTooLarge:
            reply = refusal(ApiError(413, "RequestEntityTooLarge", f"limit is {REQUEST_SIZE_MAX} bytes"), incoming)
        except Exception as error:  # one broken request must not take the server down
            _LOG.exception("%s %s failed", incoming.method, incoming.path)
            reply = refusal(ApiError(500, "InternalError", f"Internal error occurred: {error!r}"), incoming)
        return web.Response(
            body=reply.body, status=reply.code, headers={"Content-Type": reply.content_type, **reply.headers}
        )
