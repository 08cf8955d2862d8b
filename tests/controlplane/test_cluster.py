"""The real control plane starts, restarts, and ends for certain; its ServiceAccount tokens mean what they say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import build as builder
from tests.controlplane.build import RUN, SETS_KEPT, BuildError, RegistryUnreachableError, build, built_or_skip
from tests.controlplane.cluster import ControlPlane, ControlPlaneError

pytestmark = pytest.mark.controlplane
ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    built_or_skip("controlplane")
    with ControlPlane() as running:
        yield running


def test_the_server_is_the_release_it_says(cluster: ControlPlane) -> None:
    assert cluster.request("GET", "/version")["gitVersion"] == builder.KUBERNETES_VERSION
    groups = {group["name"]: group["versions"] for group in cluster.request("GET", "/apis")["groups"]}
    assert [version["version"] for version in groups["resource.k8s.io"]] == ["v1", "v1beta2", "v1alpha3"]


def test_new_nodes_have_no_taints_and_pods_need_no_service_account(cluster: ControlPlane) -> None:
    node = cluster.request("POST", "/api/v1/nodes", {"metadata": {"name": "node"}})
    pod = {"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
    cluster.request("POST", "/api/v1/namespaces/default/pods", pod)

    assert "taints" not in node["spec"]


def test_a_claim_is_generated_for_a_pod(cluster: ControlPlane) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    template = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    cluster.request("POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", template)
    pod = {
        "metadata": {"name": "with-claim"},
        "spec": {
            "containers": [{"name": "main", "image": "i"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        },
    }
    cluster.request("POST", "/api/v1/namespaces/default/pods", pod)
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    version = cluster.request("GET", claims)
    events = version["items"] or [_first_event(cluster, claims, version["metadata"]["resourceVersion"])]

    assert events[0]["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"] == "gpu"


def _first_event(cluster: ControlPlane, path: str, version: str) -> dict:
    kubectl = ["kubectl", f"--kubeconfig={cluster.kubeconfig()}", "get", "--raw"]
    query = f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=30"
    with subprocess.Popen([*kubectl, query], stdout=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        line = watch.stdout.readline()
        watch.kill()
    import json

    found: dict = json.loads(line)["object"]
    return found


def test_a_service_account_may_do_what_rbac_says_and_no_more(cluster: ControlPlane) -> None:
    cluster.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
    kubeconfig = cluster.service_account_kubeconfig("default", "robot")

    def kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", f"--kubeconfig={kubeconfig}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    whoami = kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    assert whoami.stdout == "system:serviceaccount:default:robot"
    assert "is forbidden" in kubectl("get", "nodes").stderr


def test_the_apiserver_comes_back_at_its_address_with_its_objects(cluster: ControlPlane) -> None:
    cluster.request("POST", "/api/v1/nodes", {"metadata": {"name": "survivor"}})
    url = cluster.url
    cluster.kill_apiserver()
    with pytest.raises(ControlPlaneError):
        cluster.request("GET", "/version")
    cluster.restart_apiserver()

    assert cluster.url == url
    assert cluster.request("GET", "/api/v1/nodes/survivor")["metadata"]["name"] == "survivor"


def test_etcd_comes_back_with_its_objects(cluster: ControlPlane) -> None:
    configmap = {"metadata": {"name": "kept-by-etcd"}}
    cluster.request("POST", "/api/v1/namespaces/default/configmaps", configmap)
    before = cluster.component("etcd").process.pid

    cluster.kill_etcd()
    cluster.restart_etcd()

    found = cluster.request("GET", "/api/v1/namespaces/default/configmaps/kept-by-etcd", seconds=30)
    assert found["metadata"]["name"] == "kept-by-etcd"
    assert cluster.component("etcd").process.pid != before


def test_kube_scheduler_binds_a_pod(cluster: ControlPlane) -> None:
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kube"}})
    offer = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    node = {"metadata": {"name": "roomy"}, "status": {"allocatable": offer, "capacity": offer}}
    cluster.request("POST", "/api/v1/nodes", node)
    pod = {
        "metadata": {"name": "pod"},
        "spec": {"schedulerName": "mine", "containers": [{"name": "main", "image": "i"}]},
    }
    cluster.request("POST", "/api/v1/namespaces/kube/pods", pod)
    cluster.start_kube_scheduler("mine")
    try:
        bound = _first_event(cluster, "/api/v1/namespaces/kube/pods", "0&fieldSelector=spec.nodeName%3Droomy")
    finally:
        cluster.stop_kube_scheduler()

    assert bound["spec"]["nodeName"] == "roomy"


def test_nothing_is_left_after_stop() -> None:
    built_or_skip("controlplane")
    with ControlPlane(controllers=()) as running:
        folder = running.folder
        pids = [running.component(name).process.pid for name in ("etcd", "kube-apiserver")]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)

    assert not folder.exists()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=lambda how: how.name)
def test_nothing_outlives_a_process_that_is_killed(how: signal.Signals) -> None:
    """The parent has no chance to clean up; the programs see their lifeline end and go."""
    built_or_skip("controlplane")
    program = (
        "import sys, signal\n"
        "from tests.controlplane.cluster import ControlPlane\n"
        "plane = ControlPlane()\n"
        "plane.start()\n"
        f"print(plane.folder, *(plane.component(name).process.pid for name in {PROGRAMS}), flush=True)\n"
        "signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        folder, *pids = parent.stdout.readline().split()
        descriptors = [os.pidfd_open(int(pid)) for pid in pids]
        parent.send_signal(how)
        parent.wait()
    assert len(descriptors) == len(PROGRAMS)
    for descriptor in descriptors:
        assert _ends(descriptor), f"a program of {folder} is still running"
        os.close(descriptor)
    # What it could not remove, the next one does.
    assert Path(folder).exists()
    with ControlPlane(controllers=()):
        assert not Path(folder).exists()


def _ends(descriptor: int) -> bool:
    """A pidfd becomes readable when its process has ended."""
    import select

    readable, _, _ = select.select([descriptor], [], [], 30)
    return bool(readable)


def test_a_flag_that_is_refused_is_shown_with_the_programs_own_words() -> None:
    built_or_skip("controlplane")
    plane = ControlPlane(feature_gates={"NoSuchGate": True})
    with pytest.raises(ControlPlaneError, match=r"kube-apiserver ended with exit code 1(.|\n)*NoSuchGate"):
        plane.start()
    assert not plane.folder.exists()


# -- the build -------------------------------------------------------------------------------------------------------


def fake_go(folder: Path, stderr: str) -> Path:
    program = folder / "go"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{stderr}\nEND\nexit 1\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.delenv(RUN, raising=False)
    monkeypatch.setenv("DRA_SCHEDULER_TEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    build.cache_clear()
    yield tmp_path
    build.cache_clear()


def test_a_silent_module_registry_is_a_reason_to_skip(no_cache: Path) -> None:
    fake_go(no_cache, "go: k8s.io/api@v0.36.3: Get: dial tcp: lookup registry.example: no such host")
    with pytest.raises(RegistryUnreachableError, match="no such host"):
        build("oracle")
    with pytest.raises(pytest.skip.Exception, match="LEFT OUT"):
        built_or_skip("oracle")


@pytest.mark.parametrize(
    "stderr",
    [
        "oracle/main.go:12:2: undefined: nonsense",
        "go: k8s.io/api@v0.99.0: reading module: 404 Not Found",
        "verifying k8s.io/api@v0.36.3: checksum mismatch",
    ],
)
def test_any_other_failure_of_the_build_is_a_failure(no_cache: Path, stderr: str) -> None:
    fake_go(no_cache, stderr)
    with pytest.raises(BuildError, match=r"go build \./oracle failed"):
        built_or_skip("oracle")


def building_go(folder: Path) -> None:
    (folder / "go").write_text(
        "#!/bin/sh\n"
        'test "$1" = build || exit 0\n'
        f"echo built >> {folder}/calls\n"
        'while test "$1" != -o; do shift; done; touch "$2"\n'
    )
    (folder / "go").chmod(0o755)


def test_only_the_sets_of_programs_that_were_used_last_are_kept(no_cache: Path) -> None:
    building_go(no_cache)
    older = [no_cache / "cache" / f"{number:016x}" for number in range(SETS_KEPT + 1)]
    for number, folder in enumerate(older):
        folder.mkdir(parents=True)
        os.utime(folder, (number, number))

    built = build("oracle")

    assert {path for path in (no_cache / "cache").iterdir() if path.is_dir()} == {built.parent, *older[2:]}


def test_a_program_is_built_once_for_each_content_of_its_sources(no_cache: Path) -> None:
    building_go(no_cache)
    first = build("oracle")
    build.cache_clear()  # as another process would ask

    assert build("oracle") == first
    assert first.is_file()
    assert (no_cache / "calls").read_text() == "built\n"
