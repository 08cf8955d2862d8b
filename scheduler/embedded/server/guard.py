"""Which clients are answered: programs of this machine; with a token, only programs that know it.

The server listens on loopback, and so can be reached by browsers: a page of any site may send requests there, and one
whose name is made to point here (DNS rebinding) may read the answers too. A browser says which host it believes to talk
to, and which page a request comes from; `kubectl` and client libraries send the host only.

The token keeps out the rest: other users of the machine, and pages of browsers that send neither.

Source of the hosts: kubectl proxy's --accept-hosts.
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from scheduler.embedded.server.statuses import ApiError

_OWN_SITES: Final = frozenset({"same-origin", "none"})  # "none": typed by a person


class Guard:
    """Refuses requests before anything else looks at them.

    Args:
        token: The secret that requests must carry, as a bearer token; None: no secret is asked for.
        address: The address that the server listens on.
    """

    def __init__(self, token: str | None, address: str) -> None:
        self._token = token.encode() if token is not None else None
        self._address = address

    def check(self, request: web.BaseRequest) -> None:
        """Raises ApiError: 401 or 403, the request is not to be answered."""
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            raise _forbidden(f"this server answers for localhost only, not for {', '.join(hosts)!r}")
        site = request.headers.get("Sec-Fetch-Site", "none")
        if site not in _OWN_SITES:
            raise _forbidden(f"requests of other sites' pages are refused (Sec-Fetch-Site: {site})")
        origin = request.headers.get("Origin")
        if origin is not None and origin.lower() != f"{request.scheme}://{hosts[0]}".lower():
            raise _forbidden(f"requests of other sites' pages are refused (Origin: {origin})")
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if self._token is not None and not hmac.compare_digest(given, b"Bearer " + self._token):
            raise ApiError(401, "Unauthorized", "Unauthorized")

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if name in {"localhost", self._address}:
                return True
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return address.is_loopback or (mapped is not None and mapped.is_loopback)


def _forbidden(message: str) -> ApiError:
    return ApiError(403, "Forbidden", message)
