"""Certificates for tests, made by the openssl command: an authority, and what it signs."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


@dataclass
class Signed:
    """A certificate and its key, PEM files."""

    certificate: Path
    key: Path

    def server_context(self, clients: Path | None = None) -> ssl.SSLContext:
        """For a server; with `clients`, clients must have a certificate of that authority."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(clients) if clients else None)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as API servers: Go does not ask for all of it
        context.load_cert_chain(self.certificate, self.key)
        if clients:
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@dataclass
class Authority:
    """A certificate authority in a folder of its own."""

    folder: Path

    @cached_property
    def certificate(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "ca.crt"
        openssl("req", "-x509", *_KEY, "-subj", f"/CN={self.folder.name}", "-keyout", self._key, "-out", path)
        return path

    @property
    def _key(self) -> Path:
        return self.folder / "ca.key"

    def server(self, name: str = "server") -> Signed:
        return self._sign(name, "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost")

    def client(self, name: str = "client") -> Signed:
        return self._sign(name, "extendedKeyUsage=clientAuth")

    def _sign(self, name: str, extension: str) -> Signed:
        signed = Signed(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        authority = ("-CA", self.certificate, "-CAkey", self._key)
        openssl(
            *("req", "-x509", *_KEY, "-subj", f"/CN={name}", *authority, "-addext", extension),
            *("-addext", "basicConstraints=critical,CA:FALSE", "-keyout", signed.key, "-out", signed.certificate),
        )
        return signed


def openssl(*arguments: str | Path) -> None:
    """Run it."""
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
