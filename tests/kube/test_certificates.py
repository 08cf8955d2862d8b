"""What the health port is served with: given files, files that change, and what is made where none are given."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading

import pytest

from scheduler.kube.certificates import CertificateError, ServerCertificate
from tests.kube.certificates import Authority


def presented(certificate: ServerCertificate, **trusting) -> tuple[bytes, str]:
    """What a client sees: the certificate and the version of TLS."""
    context = ssl.create_default_context(**trusting)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as Go
    if not trusting:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    here, there = socket.socketpair()
    here.settimeout(20)
    there.settimeout(20)

    def serve():
        with certificate.context().wrap_socket(there, server_side=True) as server:
            server.unwrap()

    serving = threading.Thread(target=serve)
    serving.start()
    try:
        with context.wrap_socket(here, server_hostname="localhost") as client:
            seen = client.getpeercert(binary_form=True), client.version()
            client.unwrap()
            return seen
    finally:
        serving.join()


def test_a_made_one_is_for_localhost_and_is_trusted_by_who_has_it(tmp_path):
    directory = tmp_path / "made" / "here"
    made = ServerCertificate(directory=directory)
    seen, version = presented(made, cafile=str(directory / "dra-scheduler.crt"))

    assert version == "TLSv1.3"
    # The next process, and whoever trusts it, finds the same.
    assert presented(ServerCertificate(directory=directory))[0] == seen
    assert os.stat(directory / "dra-scheduler.key").st_mode & 0o777 == 0o600
    assert sorted(path.name for path in directory.iterdir()) == ["dra-scheduler.crt", "dra-scheduler.key"]


def test_one_in_memory_is_each_processs_own_and_can_be_replaced():
    made = ServerCertificate()
    first = presented(made)[0]
    made.look()

    assert presented(made)[0] != first
    assert presented(ServerCertificate())[0] != first


def test_given_files_are_read_again_when_they_change_and_kept_when_they_are_wrong(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    one, two = Authority(tmp_path / "one").server(), Authority(tmp_path / "two").server()
    given = tmp_path / "tls.crt", tmp_path / "tls.key"
    for path, source in zip(given, (one.certificate, one.key), strict=True):
        path.write_bytes(source.read_bytes())
    certificate = ServerCertificate(*given)
    first = presented(certificate, cafile=str(tmp_path / "one" / "ca.crt"))[0]

    given[0].write_bytes(two.certificate.read_bytes())  # the key comes a moment later
    certificate.look()
    certificate.look()
    assert presented(certificate)[0] == first
    assert caplog.text.count("the certificate that was read before is used") == 1
    given[1].write_bytes(two.key.read_bytes())
    certificate.look()
    assert presented(certificate, cafile=str(tmp_path / "two" / "ca.crt"))[0] != first
    given[1].unlink()
    certificate.look()
    assert presented(certificate)[0] != first
    assert "PRIVATE KEY" not in caplog.text


def test_what_cannot_be_used_is_named(tmp_path):
    good, other = Authority(tmp_path / "a").server(), Authority(tmp_path / "b").server()
    (tmp_path / "text").write_text("no certificate")

    with pytest.raises(CertificateError, match=r"missing: No such file"):
        ServerCertificate(tmp_path / "missing", good.key)
    with pytest.raises(CertificateError, match=r"text and .*server\.key: no certificate and its key"):
        ServerCertificate(tmp_path / "text", good.key)
    with pytest.raises(CertificateError, match=r"no certificate and its key: key values mismatch"):
        ServerCertificate(good.certificate, other.key)
    with pytest.raises(CertificateError, match="together"):
        ServerCertificate(good.certificate)
    with pytest.raises(CertificateError, match=r"cert-dir .*text: (File exists|Not a directory)"):
        ServerCertificate(directory=tmp_path / "text")
