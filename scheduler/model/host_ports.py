"""Ports that pods take of their node's own addresses, and which of them exclude each other.

Rules of this module
  1. Containers and sidecars count; ordinary init containers do not: they are gone when the pod runs.
  2. Two ports exclude each other when protocol and number are equal, and the addresses are equal or one of them is
     `ANY_ADDRESS`. `::` is an address like any other (upstream's rule).

Not here: the ports in use on a node (`model.node_info` counts them), verdicts (`plugins.node_ports`).

Source: GetHostPorts of pkg/scheduler/util/utils.go v1.36.3, HostPortInfo of k8s.io/kube-scheduler framework/types.go
v0.36.3. Differs on purpose: uses are counted, so a port that two pods have stays in use until both are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from scheduler.model.objects import Pod

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # nobody listens here


class HostPort(NamedTuple):
    """One port; address and protocol as upstream fills them in."""

    protocol: str
    port: int
    address: str


UsedPorts: TypeAlias = Mapping[tuple[str, int], Mapping[str, int]]
"""How many pods use an address, by protocol and port."""


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The host ports that `pod` asks for, each once, sorted; empty for nearly all pods."""
    spec = pod.spec
    running = [one for one in spec.containers or () if one.ports]
    if spec.init_containers:
        running += [one for one in spec.init_containers if one.ports and one.restart_policy == "Always"]
    if not running:
        return ()
    return tuple(
        sorted(
            {
                HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
                for one in running
                for port in one.ports or ()
                if port.host_port > 0
            }
        )
    )


def is_any_used(wanted: Iterable[HostPort], used: UsedPorts) -> bool:
    """Whether one of the wanted ports is taken."""
    for port in wanted:
        addresses = used.get((port.protocol, port.port))
        if addresses and (port.address == ANY_ADDRESS or port.address in addresses or ANY_ADDRESS in addresses):
            return True
    return False


def used_ports(pod: Pod) -> UsedPorts:
    """What one pod uses."""
    used: dict[tuple[str, int], dict[str, int]] = {}
    for port in host_ports(pod):
        used.setdefault((port.protocol, port.port), {})[port.address] = 1
    return used
