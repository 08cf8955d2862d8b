"""A real control plane for tests and benchmarks: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

    with ControlPlane() as cluster:
        cluster.kubeconfig("admin")            # a file
        cluster.service_account_kubeconfig("dra-system", "dra-scheduler")
        cluster.start_kube_scheduler(scheduler_name="dra-scheduler")
        cluster.kill_apiserver(); cluster.restart_apiserver()

Everything listens on loopback, on free ports, and keeps its state in a folder that is removed at the end.
Every process holds one end of a pipe whose other end is ours (`go/controlplane/main.go`), so none survives
this process, however it ends.

There is no kubelet: nodes are objects, bound pods stay Pending. Not here: requests about pods or claims
(`tests.integration.api`), faults on the wire (`fault_proxy`).

Synchronous, so that a fixture of any scope can hold it. Cost: about 3 s and 0.4 GB with the controllers.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from tests.controlplane.audit import POLICY
from tests.controlplane.build import MINOR, build

# Below Linux' ephemeral range, so that no outgoing connection takes a port between the check and its use.
_PORTS: Final = range(20000, 32000)

# What the DRA path needs. The garbage collector removes generated claims of deleted pods, as in every cluster.
CONTROLLERS: Final = (
    "device-taint-eviction-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "resourceclaim-controller",
    "serviceaccount-controller",
)

_RUNTIME_CONFIG: Final = ("resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3")

_USERS: Final = {
    # name: (user, groups)
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", "system:masters"),
    "kube-scheduler": ("system:kube-scheduler", ""),
}

_START_SECONDS: Final = 60.0
_PREFIX: Final = "dra-controlplane-"
_TRIES: Final = 3


class ControlPlaneError(Exception):
    """A component did not start, or a request to the API server failed; the text has its last log lines."""


@dataclass(slots=True)
class Component:
    """One running program of the control plane."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def log_tail(self, lines: int = 12) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def cpu_seconds(self) -> float:
        """User and system time it has used so far."""
        return cpu_seconds(self.process.pid)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@dataclass(slots=True)
class ControlPlane:
    """Context manager; see the module's text.

    Attributes:
        controllers: kube-controller-manager's `--controllers`; empty starts none.
        feature_gates: more gates for every component, beside DRADeviceTaintRules.
        runtime_config: more API versions to serve, beside those of resource.k8s.io.
        audits: whether the API server writes down who changes what (`audit`), and when; or by which audit policy.
        minor: the release of Kubernetes, one of `build.VERSIONS`.
        url: of the API server, from `start` on.
    """

    controllers: Sequence[str] = CONTROLLERS
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Sequence[str] = ()
    audits: bool | Mapping[str, Any] = False
    minor: str = MINOR
    url: str = ""
    admin_token: str = ""
    folder: Path = Path()
    _components: dict[str, Component] = field(default_factory=dict)
    _tokens: dict[str, str] = field(default_factory=dict)
    _lifeline: tuple[int, int] = (-1, -1)
    etcd_url: str = ""
    _etcd_flags: Sequence[str] = ()
    _apiserver_port: int = 0

    def __enter__(self) -> ControlPlane:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # -- life cycle -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start etcd, the API server and the controllers; returns when all of them are ready."""
        build(f"controlplane-{self.minor}")
        _remove_abandoned_folders()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        (self.folder / "owner.pid").write_text(str(os.getpid()))
        self._lifeline = os.pipe()
        try:
            self._write_credentials()
            self._start_etcd()
            self._start_apiserver()
            if self.controllers:
                self._start_controller_manager()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill everything and remove the folder. Nothing here is worth a graceful end."""
        for component in reversed(self._components.values()):
            component.kill()
        self._components.clear()
        for end in self._lifeline:
            if end >= 0:
                os.close(end)
        self._lifeline = (-1, -1)
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)

    def component(self, name: str) -> Component:
        return self._components[name]

    def kill_apiserver(self) -> None:
        """Every connection is cut and new ones are refused, until `restart_apiserver`."""
        self._components.pop("kube-apiserver").kill()

    def restart_apiserver(self) -> None:
        """Kill it if it runs, start it again on the same port; returns when it is ready."""
        if "kube-apiserver" in self._components:
            self.kill_apiserver()
        self._start_apiserver()

    def kill_etcd(self) -> None:
        """The API server has no store until `restart_etcd`; what was written stays."""
        self._components.pop("etcd").kill()

    def restart_etcd(self) -> None:
        """Kill it if it runs, start it again with the same data at the same address; returns when it is ready."""
        if "etcd" in self._components:
            self.kill_etcd()
        component = self._spawn("etcd", self._etcd_flags)
        self._wait_ready(component, f"{self.etcd_url}/health", retry_port_taken=False)

    def start_kube_scheduler(
        self,
        scheduler_name: str = "default-scheduler",
        *,
        qps: int = 5000,
        server: str | None = None,
        percentage_of_nodes_to_score: int | None = None,
        election: Mapping[str, object] | None = None,
        plugin_config: Sequence[Mapping[str, object]] = (),
        feature_gates: Mapping[str, bool] | None = None,
    ) -> Component:
        """kube-scheduler with one profile of that name; its default of 50 requests/s would measure only itself.

        `election`: its leaderElection; None: without. `plugin_config`: of the profile. `feature_gates`: its own.
        """
        config: dict[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": str(self.kubeconfig("kube-scheduler", server=server)),
                "qps": qps,
                "burst": qps,
            },
            "leaderElection": dict(election or {"leaderElect": False}),
            "profiles": [{"schedulerName": scheduler_name, "pluginConfig": list(plugin_config)}],
        }
        if percentage_of_nodes_to_score is not None:
            config["percentageOfNodesToScore"] = percentage_of_nodes_to_score
        path = self.folder / "kube-scheduler.yaml"
        path.write_text(yaml.safe_dump(config))
        # No serving port: it would make a certificate first, and nobody asks it anything.
        return self._spawn("kube-scheduler", [f"--config={path}", "--secure-port=0", *self._gates(feature_gates)])

    def stop_kube_scheduler(self) -> None:
        self._components.pop("kube-scheduler").kill()

    # -- credentials ------------------------------------------------------------------------------------------

    @property
    def ca_file(self) -> Path:
        return self.folder / "server.crt"

    @property
    def key_file(self) -> Path:
        """The server's key: a proxy in front can be the same server to its clients."""
        return self.folder / "server.key"

    def ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca_file))

    def kubeconfig(self, user: str = "admin", *, server: str | None = None) -> Path:
        """A kubeconfig file for admin, kube-scheduler or kube-controller-manager."""
        return self.write_kubeconfig(user, self._tokens[user], server=server)

    def service_account_token(self, namespace: str, name: str) -> str:
        """A token of an existing ServiceAccount, by TokenRequest: what a pod of it would get."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        token: str = self.request("POST", path, body)["status"]["token"]
        return token

    def service_account_kubeconfig(self, namespace: str, name: str, *, server: str | None = None) -> Path:
        return self.write_kubeconfig(
            f"{namespace}-{name}", self.service_account_token(namespace, name), server=server, namespace=namespace
        )

    def write_kubeconfig(self, name: str, token: str, *, server: str | None = None, namespace: str = "default") -> Path:
        """A kubeconfig file with that bearer token; `server` replaces the API server's own address."""
        authority = base64.b64encode(self.ca_file.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": server or self.url, "certificate-authority-data": authority},
                }
            ],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name, "namespace": namespace}}],
            "current-context": "test",
        }
        # One for each server: a scheduler reads its kubeconfig again when it changes.
        path = self.folder / f"{name}{f'-proxied-{urlsplit(server).port}' if server else ''}.kubeconfig"
        new = path.with_suffix(".new")
        new.write_text(yaml.safe_dump(config))
        new.replace(path)  # whole: one that starts just now may be reading it
        return path

    def request(self, method: str, path: str, body: object = None, *, seconds: float = 10) -> dict[str, Any]:
        """One request as admin, decoded.

        Raises:
            ControlPlaneError: the API server refused, or did not answer.
        """
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.admin_token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=seconds, context=self.ssl_context()) as answer:
                decoded: dict[str, Any] = json.loads(answer.read())
                return decoded
        except urllib.error.HTTPError as error:
            raise ControlPlaneError(f"{method} {path}: {error.code} {error.read()[:500]!r}") from error
        except OSError as error:
            raise ControlPlaneError(f"{method} {path}: {error}") from error

    # -- the programs -----------------------------------------------------------------------------------------

    def _write_credentials(self) -> None:
        # Elliptic curve keys: an RSA key alone takes up to a second.
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-subj", "/CN=dra-scheduler-test", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
            *("-keyout", str(self.key_file), "-out", str(self.ca_file)),
        )
        _openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", str(self._service_account_key))
        self._tokens = {name: os.urandom(16).hex() for name in _USERS}
        self.admin_token = self._tokens["admin"]
        rows = [f'{self._tokens[name]},{user},{name},"{groups}"' for name, (user, groups) in _USERS.items()]
        (self.folder / "tokens.csv").write_text("\n".join(rows) + "\n")

    @property
    def _service_account_key(self) -> Path:
        return self.folder / "service-account.key"

    def _start_etcd(self) -> None:
        for attempt in range(_TRIES):
            client, peer = (f"http://127.0.0.1:{port}" for port in _free_ports(2))
            self.etcd_url = client
            self._etcd_flags = (
                f"--data-dir={self.folder / f'etcd-{attempt}'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",  # the data need not outlive this machine
                "--log-level=warn",
            )
            component = self._spawn("etcd", self._etcd_flags)
            if self._wait_ready(component, f"{client}/health", retry_port_taken=attempt < _TRIES - 1):
                return

    def _start_apiserver(self) -> None:
        for attempt in range(_TRIES):
            again = self._apiserver_port != 0  # a restart keeps the address
            if not again:
                (self._apiserver_port,) = _free_ports(1)
            self.url = f"https://127.0.0.1:{self._apiserver_port}"
            component = self._spawn("kube-apiserver", self._apiserver_flags())
            if self._wait_ready(component, f"{self.url}/readyz", retry_port_taken=not again and attempt < _TRIES - 1):
                return
            self._apiserver_port = 0

    def _apiserver_flags(self) -> list[str]:
        return [
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._apiserver_port}",
            f"--cert-dir={self.folder}",
            f"--tls-cert-file={self.ca_file}",
            f"--tls-private-key-file={self.key_file}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={self._service_account_key}",
            f"--service-account-key-file={self._service_account_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # ServiceAccount would want a token volume in every pod; TaintNodesByCondition taints new nodes
            # not-ready, and no kubelet ever says otherwise.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--runtime-config=" + ",".join(f"{one}=true" for one in (*_RUNTIME_CONFIG, *self.runtime_config)),
            # The default of 1 min makes a killed server's endpoint linger; nothing here looks at it.
            "--endpoint-reconciler-type=none",
            *(
                (f"--audit-policy-file={self._audit_policy()}", f"--audit-log-path={self.audit_log}")
                if self.audits
                else ()
            ),
            *self._gates(),
        ]

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    def _audit_policy(self) -> Path:
        path = self.folder / "audit-policy.json"
        path.write_text(json.dumps(POLICY if self.audits is True else self.audits))
        return path

    def _start_controller_manager(self) -> None:
        for attempt in range(_TRIES):
            (port,) = _free_ports(1)
            component = self._spawn(
                "kube-controller-manager",
                [
                    f"--kubeconfig={self.kubeconfig('kube-controller-manager')}",
                    f"--controllers={','.join(self.controllers)}",
                    f"--service-account-private-key-file={self._service_account_key}",
                    f"--root-ca-file={self.ca_file}",
                    "--bind-address=127.0.0.1",
                    f"--secure-port={port}",
                    f"--tls-cert-file={self.ca_file}",
                    f"--tls-private-key-file={self.key_file}",
                    "--leader-elect=false",
                    "--kube-api-qps=2000",
                    "--kube-api-burst=4000",
                    *self._gates(),
                ],
            )
            if self._wait_ready(component, f"https://127.0.0.1:{port}/healthz", retry_port_taken=attempt < _TRIES - 1):
                return

    def _gates(self, more: Mapping[str, bool] | None = None) -> list[str]:
        gates = {"DRADeviceTaintRules": True, **self.feature_gates, **(more or {})}
        return ["--feature-gates=" + ",".join(f"{name}={str(value).lower()}" for name, value in gates.items())]

    def _spawn(self, name: str, arguments: Sequence[str]) -> Component:
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [build(f"controlplane-{self.minor}"), name, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                pass_fds=(self._lifeline[0],),
                env={**os.environ, "CONTROLPLANE_LIFELINE_FD": str(self._lifeline[0])},
                # Ctrl-C goes to the terminal's group; ending these is our work, in our order.
                start_new_session=True,
            )
        component = Component(name, process, log)
        self._components[name] = component
        return component

    def _wait_ready(self, component: Component, url: str, *, retry_port_taken: bool) -> bool:
        """False: its port was taken in the meantime, try another."""
        context = self.ssl_context() if url.startswith("https") else None
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.admin_token}"})
        deadline = time.monotonic() + _START_SECONDS
        problem = "no answer"
        while time.monotonic() < deadline:
            status = component.process.poll()
            if status is not None:
                del self._components[component.name]
                tail = component.log_tail()
                if retry_port_taken and "address already in use" in tail:
                    return False
                raise ControlPlaneError(f"{component.name} ended with {_exit_text(status)}; its log ends:\n{tail}")
            try:
                with urllib.request.urlopen(request, timeout=2, context=context):
                    return True
            except OSError as error:
                problem = str(error)
            time.sleep(0.03)  # a program that starts offers nothing to wait for but its port
        raise ControlPlaneError(
            f"{component.name} was not ready after {_START_SECONDS:.0f} s ({problem}); its log ends:\n"
            f"{component.log_tail()}"
        )


def cpu_seconds(pid: int) -> float:
    """User and system time a process has used so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Memory a process holds now (Linux)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None)


def die_with_parent() -> None:
    """For `preexec_fn` of programs that know no lifeline: the kernel kills the child when its parent's thread ends.

    So the thread that starts it must live as long as it shall: the main thread.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _remove_abandoned_folders() -> None:
    """Folders of processes that were killed before they could clean up."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder / "owner.pid"
        try:
            abandoned = not Path(f"/proc/{int(owner.read_text())}").exists()
        except (OSError, ValueError):
            continue  # not ours to judge, or being made right now
        if abandoned:
            shutil.rmtree(folder, ignore_errors=True)


def _exit_text(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"


def _openssl(*arguments: str) -> None:
    if shutil.which("openssl") is None:
        raise ControlPlaneError("the openssl command is needed for the test cluster's certificates; install openssl")
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ControlPlaneError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found
