"""Sections that kube-scheduler's configuration has besides profiles: leader election, connection, extenders, serving.

Source: k8s.io/kube-scheduler v0.36.3 config/v1/types.go; k8s.io/component-base v0.36.3 config.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from scheduler.config.fields import SchedulerName, Seconds, Section, duration_text
from scheduler.config.plugin_args import Int32, Int64
from scheduler.validation.field_errors import FieldError, invalid, required

_JITTER_FACTOR: Final = 1.2  # client-go's


class LeaderElection(Section):
    """Who of several processes schedules; see `kube.lease`. Upstream's fields and defaults, but for the names.

    Attributes:
        leader_elect: Hold a Lease while scheduling.
        resource_lock: "leases"; there is nothing else any more.
        lease_duration: How long others wait after the last renewal that they saw.
        renew_deadline: How long after its last renewal the holder goes on.
        retry_period: Between two attempts to take or renew it.
        resource_name: The Lease's name; None: one for each scheduler name, called like it.
        resource_namespace: None: that of the pod we run in, elsewhere kube-system.
    """

    leader_elect: bool = True
    lease_duration: Seconds = 15.0
    renew_deadline: Seconds = 10.0
    retry_period: Seconds = 2.0
    resource_lock: str = "leases"
    resource_name: SchedulerName | None = None
    resource_namespace: SchedulerName | None = None

    def _errors(self) -> Iterator[FieldError]:
        if not self.leader_elect:
            return
        times = {"renewDeadline": self.renew_deadline, "retryPeriod": self.retry_period}
        for field, seconds in times.items():
            if seconds <= 0:
                yield invalid(field, duration_text(seconds), "must be greater than zero")
        lease = duration_text(self.lease_duration)
        if self.lease_duration != int(self.lease_duration) or self.lease_duration < 1:
            yield invalid("leaseDuration", lease, "must be whole seconds: that is what the Lease object holds")
        elif self.lease_duration <= self.renew_deadline:
            yield invalid("leaseDuration", lease, "must be greater than `RenewDeadline`")
        if 0 < self.renew_deadline <= self.retry_period * _JITTER_FACTOR:
            text = f"must be greater than retryPeriod * {_JITTER_FACTOR}"
            yield invalid("renewDeadline", duration_text(self.renew_deadline), text)
        if self.resource_lock != "leases":
            yield invalid("resourceLock", self.resource_lock, 'resourceLock value must be "leases"')


class ClientConnection(Section):
    """How to reach the API server.

    Attributes:
        kubeconfig: File to connect with, where no option names another.
        accept_content_types, content_type, qps, burst: Of kube-scheduler; it has no effect here.
    """

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: Annotated[float, Field(strict=False)] = 0.0
    burst: Annotated[Int32, Field(ge=0)] = 0


class Extender(Section):
    """A web hook of kube-scheduler. Read, so that files with one are accepted; never called, so only on the surface."""

    url_prefix: str = Field(default="", alias="urlPrefix")
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = Field(default=False, alias="enableHTTPS")
    tls_config: dict[str, Any] | None = Field(default=None, alias="tlsConfig")
    http_timeout: Seconds = Field(default=5.0, alias="httpTimeout")
    node_cache_capable: bool = False
    managed_resources: tuple[dict[str, Any], ...] = Field(default=(), strict=False)
    ignorable: bool = False


def extender_errors(extenders: Sequence[Extender]) -> Iterator[FieldError]:
    """What kube-scheduler refuses of them; what it refuses of their managed resources is not looked for."""
    for index, one in enumerate(extenders):
        if one.prioritize_verb and one.weight <= 0:
            yield invalid(f"extenders[{index}].weight", one.weight, "must have a positive weight applied to it")
    if (binders := sum(bool(one.bind_verb) for one in extenders)) > 1:
        yield invalid(
            "extenders", f"found {binders} extenders implementing bind", "only one extender can implement bind"
        )


class Serving(Section):
    """How health and metrics are served, under the names of kube-scheduler's options; see `kube.serving`.

    Attributes:
        security: "secure": with TLS, /metrics and /configz for those whom the API server lets read them. "plain": HTTP,
            for loopback addresses only. None: plain on loopback, secure elsewhere or where a certificate is named.
        tls_cert_file, tls_private_key_file: Without them a certificate is made.
        cert_dir: Where to keep one that was made; empty: in memory.
        authentication_kubeconfig, authorization_kubeconfig: Whom to ask; empty: the API server that is scheduled for.
        authorization_always_allow_paths: Answered to everybody; a star at the end stands for any rest.
    """

    security: Literal["secure", "plain"] | None = None
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    cert_dir: str = ""
    authentication_kubeconfig: str = ""
    authorization_kubeconfig: str = ""
    authorization_always_allow_paths: Annotated[tuple[str, ...], Field(strict=False)] = (
        *("/healthz", "/readyz", "/livez"),
    )

    @property
    def names_certificate(self) -> bool:
        return bool(self.tls_cert_file or self.tls_private_key_file or self.cert_dir)

    def _errors(self) -> Iterator[FieldError]:
        pair = {"tlsCertFile": self.tls_cert_file, "tlsPrivateKeyFile": self.tls_private_key_file}
        for (field, path), other in zip(pair.items(), reversed(pair), strict=True):
            if not path and pair[other]:
                yield required(field, f"{other} needs it")
        if self.security == "plain" and self.names_certificate:
            yield invalid("security", "plain", "a certificate is named, which is not used then")
        for index, path in enumerate(self.authorization_always_allow_paths):
            if not path.startswith("/"):
                yield invalid(f"authorizationAlwaysAllowPaths[{index}]", path, "must begin with /")
