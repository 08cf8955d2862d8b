"""Pods by hand for what kube-scheduler 1.38 says otherwise than 1.37 and no recorded case has; asked of every release.

A node that cannot run the pod is refused whatever the release: it cannot declare what its kubelet does not have.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from allocator import RELEASES, Features
from tests.answers.verdicts import Cases
from tests.oracle.client import Oracle
from tests.oracle.fixture import each_oracle  # noqa: F401 - a fixture
from tests.plugins.recorded_cases import Case, ours
from tests.plugins.test_releases import case, node, pod

Obj = dict[str, Any]
REFUSED: Final = "UnschedulableAndUnresolvable"


def certificate(key: str) -> Obj:
    """A pod with a volume for which the kubelet makes a key."""
    source = {"podCertificate": {"signerName": "example.com/s", "keyType": key, "credentialBundlePath": "b.pem"}}
    return pod("p", volumes=[{"name": "v", "projected": {"sources": [source]}}])


def profile_of_an_image(of_pod: bool) -> Obj:
    profile = {"seccompProfile": {"type": "OCI", "oci": {"ref": "registry.example.com/profile"}}}
    asked = pod("p", **({"securityContext": profile} if of_pod else {}))
    if not of_pod:
        asked["spec"]["containers"][0]["securityContext"] = profile
    return asked


def on(asked: Obj, *declared: str) -> Case:
    only = node("a")
    only["status"]["declaredFeatures"] = list(declared)
    return case("by-hand", [only], [], asked)


CASES: Final[dict[str, tuple[Case, str]]] = {
    "2.9 MLDSA44": (on(certificate("MLDSA44")), REFUSED),
    "2.9 MLDSA65": (on(certificate("MLDSA65")), REFUSED),
    "2.9 MLDSA87": (on(certificate("MLDSA87")), REFUSED),
    "2.9 a node that declares it": (on(certificate("MLDSA65"), "PodCertificateMLDSA"), "Success"),
    "2.9 a key of before": (on(certificate("ED25519")), "Success"),
    "2.9 a profile for the pod": (on(profile_of_an_image(True)), REFUSED),
    "2.9 a profile for a container": (on(profile_of_an_image(False)), REFUSED),
    "2.9 a node that declares profiles": (on(profile_of_an_image(True), "SecurityProfileOCI"), "Success"),
}
"""What 1.38 says of the node; those before look at no such field."""


@pytest.mark.oracle
def test_theirs(each_oracle: Oracle) -> None:  # noqa: F811
    asked = [asked for asked, _ in CASES.values()]
    answers = each_oracle.ask({"kind": "scheduler-verdicts", "cases": asked})["answers"]
    said = {name: answer["nodes"]["a"]["code"] for name, answer in zip(CASES, answers, strict=True)}

    is_before = each_oracle.minor in ("1.36", "1.37")
    assert said == {name: "Success" if is_before else code for name, (_, code) in CASES.items()}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", CASES)
def test_ours(name: str, release: str) -> None:
    asked, code = CASES[name]

    assert ours(Cases(Features(kubernetes=release)), asked)["nodes"]["a"]["code"] == code
