"""The certificate that /metrics and the probes are served with: given files, or made here.

Rules of this module
  1. Given files are read again when they have changed; what cannot be used is reported once, and what was read before
     stays.
  2. Without files a certificate is made, as kube-scheduler does: in memory, or in a directory where the next process
     finds it. One in memory is replaced by a new one long before it ends.
  3. A new certificate is for new connections; those that there are stay.

Source: k8s.io/apiserver v0.36.3 pkg/server/options/serving.go (MaybeDefaultWithSelfSignedCerts).

Not here: making one (`scheduler.own_certificate`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from pathlib import Path
from typing import Final

from scheduler.kube.credentials import load_chain
from scheduler.own_certificate import PAIR_NAME, make_certificate

log = logging.getLogger(__name__)

_LOOK_S: Final = 10.0
_REPLACED_AFTER_S: Final = 300 * 24 * 3600.0


class CertificateError(ValueError):
    """It cannot be served with; the text names the files and says why."""


class ServerCertificate:
    """What new connections are served with.

    Args:
        certificate, key: PEM files; both or none.
        directory: Where to find and leave one that was made; None: in memory. Not used where files are given.

    Raises:
        CertificateError: The files cannot be used.
    """

    def __init__(
        self, certificate: Path | None = None, key: Path | None = None, *, directory: Path | None = None
    ) -> None:
        if (certificate is None) != (key is None):
            raise CertificateError("tls-cert-file and tls-private-key-file must be given together")
        if certificate is None and directory is not None:
            certificate, key = _in_directory(directory)
        self._files = (certificate, key) if certificate is not None and key is not None else None
        self._complaint = ""
        self._pem = self._read()
        self._context = _context(self._pem, self._origin)

    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        return self._context

    @property
    def _origin(self) -> str:
        return " and ".join(map(str, self._files)) if self._files is not None else "the certificate made here"

    def _read(self) -> bytes:
        if self._files is None:
            return b"\n".join(make_certificate())
        parts = []
        for path in self._files:
            try:
                parts.append(path.read_bytes())
            except OSError as error:
                raise CertificateError(f"{path}: {error.strerror or error}") from error
        return b"\n".join(parts)

    def look(self) -> None:
        """Read the files again. Never raises."""
        try:
            pem = self._read()
            if pem != self._pem:
                self._context = _context(pem, self._origin)
                self._pem = pem
                log.info("%s: the certificate was read again", self._origin)
            self._complaint = ""
        except CertificateError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("%s; the certificate that was read before is used", error)

    async def keep_current(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S if self._files is not None else _REPLACED_AFTER_S)
            self.look()


def _context(pem: bytes, origin: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        load_chain(context, pem)
    except (ssl.SSLError, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or str(error)
        raise CertificateError(f"{origin}: no certificate and its key: {str(why).replace('_', ' ').lower()}") from error
    return context


def _in_directory(directory: Path) -> tuple[Path, Path]:
    """The pair there; made where it is missing."""
    pair = directory / f"{PAIR_NAME}.crt", directory / f"{PAIR_NAME}.key"
    if all(path.is_file() for path in pair):
        return pair
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, pem, mode in zip(pair, make_certificate(), (0o644, 0o600), strict=True):
            made = path.with_suffix(f"{path.suffix}.{os.getpid()}")
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
                file.write(pem)
            made.replace(path)
    except OSError as error:
        raise CertificateError(f"cert-dir {directory}: {error.strerror or error}") from error
    return pair
