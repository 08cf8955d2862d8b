"""NodePorts: which host ports exclude each other, what a node counts, and what wakes a pod."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.status import Code
from scheduler.model.host_ports import HostPort, host_ports
from scheduler.model.keys import PodKey
from scheduler.plugins import default_plugins
from scheduler.plugins.node_ports import REASON, NodePorts
from tests.core.rig import Rig
from tests.plugins.asking import VIEW, filter_verdict
from tests.plugins.cluster import cycle_of
from tests.plugins.objects import node, node_info, pod

PLUGIN = NodePorts()


def listening(*ports, name="pod", kind="containers", **container):
    """A pod with one container; a port is a number, or what the API says of it."""
    listed = [one if isinstance(one, dict) else {"hostPort": one} for one in ports]
    ports_ = [{"containerPort": 80, **one} for one in listed]
    return pod(name, **{kind: [{"name": "c", "ports": ports_, **container}]})


def at(address, port=80, protocol="TCP"):
    return {"hostPort": port, "hostIP": address, "protocol": protocol}


@pytest.mark.parametrize(
    ("wanted", "used", "is_free"),
    [
        pytest.param([80], [], True, id="nobody-listens"),
        pytest.param([80], [80], False, id="one-port-twice"),
        pytest.param([80], [81], True, id="two-ports"),
        pytest.param([81, 80], [80], False, id="any-of-its-ports"),
        pytest.param([80], [{"hostPort": 80, "protocol": "UDP"}], True, id="two-protocols"),
        pytest.param([80], [{"hostPort": 80, "protocol": "TCP"}], False, id="no-protocol-is-tcp"),
        pytest.param([at("10.0.0.1")], [at("10.0.0.2")], True, id="two-addresses"),
        pytest.param([at("10.0.0.1")], [at("10.0.0.1")], False, id="one-address-twice"),
        pytest.param([at("10.0.0.1")], [80], False, id="no-address-is-all-that-are-used"),
        pytest.param([80], [at("10.0.0.1")], False, id="no-address-wants-all"),
        pytest.param([at("0.0.0.0")], [at("10.0.0.1")], False, id="all-zeros-wants-all"),
        pytest.param([at("10.0.0.1")], [at("0.0.0.0")], False, id="all-zeros-has-all"),
        pytest.param([at("::")], [at("10.0.0.1")], True, id="two-colons-are-one-address"),
        pytest.param([at("::")], [at("::")], False, id="two-colons-twice"),
        pytest.param([at("0.0.0.0", protocol="SCTP")], [at("10.0.0.1")], True, id="all-addresses-of-one-protocol"),
    ],
)
def test_a_port_is_free(wanted, used, is_free) -> None:
    running = [listening(*used, name="other")] if used else []
    verdict = filter_verdict(PLUGIN, listening(*wanted), node_info(pods=running))

    assert verdict.code is (Code.SUCCESS if is_free else Code.UNSCHEDULABLE)
    assert verdict.message == ("" if is_free else REASON)


@pytest.mark.parametrize(
    ("one", "want"),
    [
        pytest.param(pod(), (), id="none"),
        pytest.param(listening({}), (), id="a-port-of-its-own-address"),
        pytest.param(listening(81, 80, 81), (80, 81), id="sorted-and-once"),
        pytest.param(listening(80, kind="initContainers"), (), id="an-init-container-ends"),
        pytest.param(listening(80, kind="initContainers", restartPolicy="Always"), (80,), id="a-sidecar-stays"),
    ],
)
def test_the_ports_of_a_pod(one, want) -> None:
    assert host_ports(one) == tuple(HostPort("TCP", port, "0.0.0.0") for port in want)
    assert (PLUGIN.pre_filter(cycle_of(one), VIEW).status.code is Code.SKIP) is (want == ())


def test_a_port_that_two_pods_have_is_free_when_both_are_gone() -> None:
    info = node_info(pods=[listening(80, name="a"), listening(80, 81, name="b"), listening(at("10.0.0.1"), name="c")])

    for name, is_free in (("a", False), ("c", False), ("b", True)):
        info.remove_pod(f"uid-of-{name}")
        assert filter_verdict(PLUGIN, listening(80), info).is_success is is_free
    assert info.used_ports == {}


PODS = st.lists(st.tuples(st.integers(0, 4), st.lists(st.sampled_from([80, 81, at("10.0.0.1"), at("::")]), max_size=3)))


@given(PODS)
def test_what_came_and_went_leaves_no_trace(changes) -> None:
    info, last = node_info(), {}
    for number, ports in changes:
        name = f"pod-{number}"
        if ports:
            last[name] = listening(*ports, name=name)
            info.add_pod(last[name])
        elif last.pop(name, None):
            info.remove_pod(f"uid-of-{name}")

    assert info.used_ports == node_info(pods=last.values()).used_ports


def test_shapes_are_equal_for_equal_ports() -> None:
    def signature(*ports):
        cycle = cycle_of(listening(*ports))
        PLUGIN.pre_filter(cycle, VIEW)
        return PLUGIN.signature(cycle, VIEW)

    assert signature(80, 81) == signature(at("0.0.0.0", 81), at("", 80), 80)
    assert signature(80) != signature(81)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param((Resource.NODE, Action.ADD, None, node()), Hint.QUEUE, id="a-node-came"),
        pytest.param((Resource.ASSIGNED_POD, Action.DELETE, listening(80), None), Hint.QUEUE, id="its-port-was-left"),
        pytest.param(
            (Resource.ASSIGNED_POD, Action.DELETE, listening(at("10.0.0.1")), None), Hint.QUEUE, id="an-address-of-it"
        ),
        pytest.param((Resource.ASSIGNED_POD, Action.DELETE, listening(81), None), Hint.SKIP, id="another-was-left"),
        pytest.param((Resource.ASSIGNED_POD, Action.DELETE, pod(), None), Hint.SKIP, id="a-pod-without-ports-left"),
    ],
)
def test_hint(change, want) -> None:
    resource, action = change[:2]
    assert any(resource is one and action & mask for one, mask in PLUGIN.wakes_on)
    assert PLUGIN.hint(listening(80), ClusterEvent(*change), VIEW) is want


def test_a_pod_waits_for_its_port_and_gets_it() -> None:
    rig = Rig(*default_plugins())
    rig.add_nodes("n1")
    for name in ("first", "second"):
        rig.add_pod(name, containers=[{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}])
    rig.settle()
    told, before = rig.condition_of("second"), (rig.node_of("first"), rig.node_of("second"))
    rig.server.delete_pod(PodKey("default", "first"))
    rig.wait(10_000)

    assert before == ("n1", None)
    assert told is not None
    assert told[1].startswith(f"0/1 nodes are available: 1 {REASON}.")
    assert rig.node_of("second") == "n1"
