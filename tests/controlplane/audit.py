"""What the API server says that it was asked to change: by whom, when, and whether it did.

    with ControlPlane(audits=True) as cluster:
        log = AuditLog(cluster.audit_log)
        for write in log.read(): ...

Whom a request came from is told by the id of its token: each process under test has one of its own. The server writes a
line before it answers, so who has an answer finds its request here.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

# Reads are not looked at; leases with what was written, for the holder.
POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "None", "nonResourceURLs": ["*"]},
        {"level": "None", "resources": [{"group": "authorization.k8s.io"}, {"group": "authentication.k8s.io"}]},
        {"level": "Metadata"},
    ],
}
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True, slots=True)
class Write:
    """One request that could change something.

    Attributes:
        token: Id of the token it came with; "" without one.
        came_s, done_s: Unix time when the server received it, and when it answered.
        what: Resource and subresource, as "pods/binding".
        revision: Of the object that the server answered with; 0 where the policy does not have answers written down.
    """

    token: str
    came_s: float
    done_s: float
    verb: str
    what: str
    namespace: str
    name: str
    code: int
    revision: int = 0

    @property
    def is_accepted(self) -> bool:
        return 200 <= self.code < 300


class AuditLog:
    """Reads on where it stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.writes: list[Write] = []

    def read(self) -> list[Write]:
        """All writes so far, in the order of their answers."""
        with self._path.open("rb") as lines:
            lines.seek(self._read)
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # being written
                self._read += len(line)
                self.writes.append(_write(json.loads(line)))
        return self.writes


def _write(event: dict[str, Any]) -> Write:
    of = event.get("objectRef") or {}
    credential = (event["user"].get("extra") or {}).get(_CREDENTIAL) or [""]
    return Write(
        token=credential[0].removeprefix("JTI="),
        came_s=_seconds(event["requestReceivedTimestamp"]),
        done_s=_seconds(event["stageTimestamp"]),
        verb=event["verb"],
        what="/".join(part for part in (of.get("resource", ""), of.get("subresource", "")) if part),
        namespace=of.get("namespace", ""),
        name=of.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        revision=int(((event.get("responseObject") or {}).get("metadata") or {}).get("resourceVersion") or 0),
    )


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def token_id(token: str) -> str:
    """Of a ServiceAccount's token."""
    body = token.split(".")[1]
    claims: dict[str, str] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims["jti"]
