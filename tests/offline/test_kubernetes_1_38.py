"""What Kubernetes 1.38 decides otherwise, row by row, as `simulate` answers; rows are named as in the notes on it.

A row has objects, and for each release the pod's node and devices, or what is said instead.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner

import cel
from allocator import Features
from cel.checker import environments
from scheduler.cli.main import cli
from scheduler.framework.preemption import Trial
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.plugins.default_preemption.parts import Part
from scheduler.plugins.default_preemption.reprieve import Reprieve
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from tests.plugins.cluster import Cluster, cycle_of
from tests.plugins.objects import node_info
from tests.plugins.objects import pod as requested_pod

Obj = dict[str, Any]
DRIVER: Final = "gpu.example.com"
NODE: Final = "n1"


def node(name: str = NODE, labels: Mapping[str, str] | None = None, **amounts: str) -> Obj:
    allocatable = {"cpu": "8", "memory": "8Gi", "pods": "110"} | amounts
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name} | dict(labels or {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}


def devices(*each: Obj) -> Obj:
    named = [{"name": f"d{number}", **one} for number, one in enumerate(each)]
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    return {
        **{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}},
        "spec": {"driver": DRIVER, "nodeName": NODE, "pool": pool, "devices": named},
    }


def claims(expression: str = f"device.driver == '{DRIVER}'", count: int = 1, **more: Any) -> list[Obj]:
    """A class, a claim and its pod."""
    exactly = {"deviceClassName": "gpu", "count": count} | more.pop("exactly", {})
    requests = [{"name": "r", "exactly": exactly}]
    at = {"apiVersion": "resource.k8s.io/v1"}
    return [
        {
            **at,
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        },
        {
            **{**at, "kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "default"}},
            "spec": {"devices": {"requests": requests, **more}},
        },
        pod(resourceClaims=[{"name": "c", "resourceClaimName": "c"}], resources={"claims": [{"name": "c"}]}),
    ]


def pod(name: str = "p", resources: Obj | None = None, labels: Mapping[str, str] | None = None, **spec: Any) -> Obj:
    container = {"name": "c", "image": "i", "resources": resources or {}}
    metadata = {"name": name, "namespace": "default", "labels": dict(labels or {})}
    spec = {"schedulerName": "dra-scheduler", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def versions(*texts: str) -> Obj:
    return devices(*({"attributes": {"fw": {"version": text}, "model": {"string": "a"}}} for text in texts))


def match(**more: Any) -> Obj:
    return {"constraints": [{"matchAttribute": f"{DRIVER}/fw"}], **more}


DISTINCT: Final = {"constraints": [{"distinctAttribute": f"{DRIVER}/fw"}]}
LISTED: Final = devices({"attributes": {"fw": {"strings": ["a"]}}})
HUGE: Final = "1.0.99999999999999999999"
INCOMPARABLE: Final = f"device {DRIVER}/{NODE}/d0: unsupported attribute value for {DRIVER}/fw"
REFUSED: Final = "cannot allocate all claims"
SHARED: Final = devices(
    {
        "allowMultipleAllocations": True,
        "capacity": {
            "memory": {
                "value": "1",
                "requestPolicy": {"default": "500m", "validRange": {"min": "500m", "step": "500m"}},
            }
        },
    }
)
HALF: Final = {"exactly": {"capacity": {"requests": {"memory": "500m"}}}}

SPREAD: Final = [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]
ZONES: Final = [node("n1", {"zone": "z1"}), node("n2", {"zone": "z2"}, cpu="100m")]


def running(name: str, on: str = NODE, cpu: str = "100m", namespace: str = "default") -> Obj:
    """A pod that runs, of low priority."""
    found = pod(name, {"requests": {"cpu": cpu}}, nodeName=on, priority=-10)
    found["metadata"] |= {"uid": f"uid-{name}", "namespace": namespace}
    return {**found, "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}


def asks(cpu: str, **spec: Any) -> Obj:
    return pod(resources={"requests": {"cpu": cpu}}, **spec)


def certificate(key_type: str) -> Obj:
    source = {"podCertificate": {"signerName": "example.com/s", "keyType": key_type, "credentialBundlePath": "b"}}
    return pod(volumes=[{"name": "v", "projected": {"sources": [source]}}])


def seccomp(kind: str, *, of_pod: bool) -> Obj:
    context = {"seccompProfile": {"type": kind}}
    container = {"name": "c", "image": "i", "securityContext": context}
    return pod(securityContext=context) if of_pod else pod(containers=[container])


def declaring(feature: str) -> Obj:
    found = node()
    found["status"]["declaredFeatures"] = [feature]
    return found


OTHER: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
BUDGET: Final = {
    **{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"}},
    **{"spec": {"selector": {}, "maxUnavailable": 0}, "status": {"disruptionsAllowed": 0}},
}
FULL: Final = [node("n1", cpu="1"), node("n2", cpu="1")]
HIGH: Final = {
    **{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
}
PREEMPTOR: Final = {"priorityClassName": "high"}
TIED: Final = [node(cpu="1"), running("b", cpu="500m"), running("a", cpu="500m")]
ELSEWHERE: Final = running("b", "n2", "900m", namespace="other")
UNDECLARED: Final = "node(s) didn't match Pod's required features"

CASES: Final[Mapping[str, tuple[list[Obj], str, str]]] = {
    # row: objects; of 1.37; of 1.38
    "2.5-match": ([node(), versions("1.0.0+a", "1.0.0+b"), *claims(count=2, **match())], REFUSED, "d0 d1"),
    "2.5-distinct": ([node(), versions("1.0.0+a", "1.0.0+b"), *claims(count=2, **DISTINCT)], "d0 d1", REFUSED),
    "2.6-not-used": ([node(), versions(HUGE), *claims(f"device.attributes['{DRIVER}'].model == 'a'")], "d0", "d0"),
    "2.6-in-a-selector": (
        [node(), versions(HUGE), *claims(f"has(device.attributes['{DRIVER}'].fw)")],
        *("attribute fw: value is invalid or its type is not supported by this version",) * 2,
    ),
    "2.6-in-a-constraint": ([node(), versions(HUGE), *claims(**match())], "d0", INCOMPARABLE),
    "2.7-match": ([node(), LISTED, *claims(**match())], "d0", INCOMPARABLE),
    "2.7-distinct": ([node(), LISTED, *claims(**DISTINCT)], "d0", INCOMPARABLE),
    "2.7-all": (
        [node(), LISTED, *claims(**match(exactly={"allocationMode": "All", "count": None}))],
        "d0",
        INCOMPARABLE,
    ),
    "2.9-mldsa": ([node(), certificate("MLDSA65")], UNDECLARED, UNDECLARED),
    "2.9-another-key": ([node(), certificate("RSA4096")], NODE, NODE),
    "2.9-seccomp-of-the-pod": ([node(), seccomp("OCI", of_pod=True)], UNDECLARED, UNDECLARED),
    "2.9-seccomp-of-a-container": ([node(), seccomp("OCI", of_pod=False)], UNDECLARED, UNDECLARED),
    "2.9-another-profile": ([node(), seccomp("RuntimeDefault", of_pod=False)], NODE, NODE),
    "2.9-declared": ([declaring("PodCertificateMLDSA"), certificate("MLDSA44")], NODE, NODE),
    "3.1-empty-selector": (
        [*ZONES, running("a"), asks("200m", topologySpreadConstraints=SPREAD)],
        NODE,
        "1 node(s) didn't match pod topology spread constraints",
    ),
    # A budget that allows nothing to go: where it covers all pods, the other node's pod goes.
    "3.2-empty-budget": (
        [*FULL, OTHER, HIGH, BUDGET, running("a", cpu="900m"), ELSEWHERE, asks("900m", **PREEMPTOR)],
        "preempting 1 victims: default/a",
        "preempting 1 victims: 1 of other namespaces",
    ),
    "3.4-tie": (
        [HIGH, *TIED, asks("500m", **PREEMPTOR)],
        "preempting 1 victims: default/a",
        "preempting 1 victims: default/b",
    ),
    "1-fractional-ranges": ([node(), SHARED, *claims(**HALF), pod("q")], "'memory': '1'", "'memory': '500m'"),
}


@pytest.mark.parametrize("release", ["1.37", "1.38"])
@pytest.mark.parametrize("row", CASES)
def test_row(row: str, release: str, tmp_path: Any) -> None:
    objects, *expected = copy.deepcopy(CASES[row])
    want = expected[release == "1.38"]

    assert want in said(objects, release, tmp_path)


def test_2_10_whether_a_block_is_a_mask_and_how_a_name_that_is_not_there_is_told() -> None:
    view = cel.device_view(DRIVER, {}, {})
    mask = "cidr('10.0.0.0/8').isMask() && !cidr('10.0.0.1/8').isMask()"

    assert cel.compile_selector(mask, environments.get("1.38")).matches(view)
    # A new expression may not use what the release before does not know.
    for environment, suffix in (
        (environments.get("1.37"), " (in container '')"),
        (environments.get("1.38", kind="new"), ""),
    ):
        with pytest.raises(cel.CompileError) as error:
            cel.compile_selector(mask, environment)
        assert f"undeclared reference to 'isMask'{suffix}\n" in str(error.value)


@pytest.mark.parametrize(("release", "score"), [("1.37", 97), ("1.38", 73)])
def test_3_3_scores_count_what_a_pod_asks_for_as_a_whole(release: str, score: int) -> None:
    """Half of the CPU and no memory; until 1.37 what scores assume of a container."""
    cluster = Cluster(node_info(allocatable={"cpu": "8", "memory": "8Gi"}), features=Features(kubernetes=release))
    asking = requested_pod(resources={"requests": {"cpu": "4"}}, containers=[{"name": "c"}])
    cycle = cycle_of(asking)
    NodeResourcesFit().pre_filter(cycle, cluster)

    assert NodeResourcesFit().score(cycle, cluster.node_infos["node"], cluster) == score


@pytest.mark.parametrize(
    ("release", "code", "text"),
    [
        ("1.37", Code.ERROR, 'expected at least one victim pod on node "n1"'),
        ("1.38", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "No preemption victims found for incoming pod"),
    ],
)
def test_3_5_a_node_where_nobody_has_to_go(release: str, code: Code, text: str) -> None:
    class Fits:
        def without(self, *_: Any) -> Trial:
            return Trial(SUCCESS)

    victim = requested_pod("v")
    view = Cluster(features=Features(kubernetes=release))
    found = Reprieve(NODE, [Part((victim,), (victim,))], view, meets_groups=False)
    found.go_on(Fits())

    assert isinstance(found.outcome, Status)
    assert (found.outcome.code, found.outcome.reasons) == (code, (text,))


def said(objects: list[Obj], release: str, folder: Any) -> str:
    """The first pod's node, devices and amounts, or why it waits."""
    path = folder / "objects.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    result = CliRunner().invoke(cli, ["simulate", "-f", str(path), "--kubernetes", release, "-o", "json"])
    (first, *_) = yaml.safe_load(result.stdout)["pods"]
    if first["node"] is None:
        return str(first["reason"])
    return " ".join([first["node"], *(str(one["device"]) for one in first["devices"]), str(first["devices"])])
