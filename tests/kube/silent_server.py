"""A server that takes connections and requests, and never says a word."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType


class SilentServer:
    """A context manager; listens on loopback."""

    def __enter__(self) -> SilentServer:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(60)
        self._taken: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in (self._listening, *self._taken):
            one.close()

    def asked(self) -> bytes:
        """Wait for a request; its beginning."""
        taken, _ = self._listening.accept()
        self._taken.append(taken)
        return taken.recv(4096)

    def kubeconfig(self, folder: Path) -> str:
        path = folder / "kubeconfig"
        config = {
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(config))
        return str(path)
