"""`--nodes` and `--slices`: what a scheduler was given, and what it says about pods that fit only elsewhere."""

from __future__ import annotations

import pytest
from msgspec import structs

from scheduler.kube.codec import Codec
from scheduler.model.keys import ClaimKey
from scheduler.model.label_selectors import SelectorTextError, parse_label_selector, parse_slice_selector
from scheduler.plugins import default_plugins
from tests import builders
from tests.core.rig import Rig
from tests.kube.misbehaving import event
from tests.observed import deleted, is_of

LABELS = {"cores": "8", "pool": "gpu", "zone": "a", "spot": ""}


@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ("pool=gpu", True),
        ("pool==gpu", True),
        ("pool = cpu", False),
        ("pool!=cpu", True),
        ("absent!=x", True),
        ("zone in (a, b)", True),
        ("zone notin (a,b)", False),
        ("absent notin (a)", True),
        ("spot", True),
        ("!spot", False),
        ("!absent", True),
        ("spot=", True),
        ("pool=gpu, zone in (b, c)", False),
        (" pool=gpu ,!absent,zone in (a)", True),
        ("example.com/kind=x", False),
        ("cores>4", True),
        ("cores>8", False),
        ("cores<9", True),
        ("pool>4", False),
    ],
)
def test_selectors_read_as_kubectl_reads_them(text, is_match):
    assert parse_label_selector(text).matches(LABELS) is is_match


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("pool=gpu,", "cannot read 'the end' at character 10"),
        ("pool=gpu zone=a", "cannot read 'pool=gpu zone=a' at character 1"),
        ("pool=gpu,=a", "cannot read '=a' at character 10"),
        ("pool in a", "cannot read"),
        ("cores>four", "takes a whole number"),
        ("a b", "cannot read"),
        ("-pool=gpu", '"-pool": not a label key'),
        ("pool=g/pu", '"g/pu": not a label value'),
    ],
)
def test_what_is_no_selector_is_refused_with_its_place(text, complaint):
    with pytest.raises(SelectorTextError) as refused:
        parse_label_selector(text)
    assert complaint in str(refused.value)


def test_slices_are_selected_by_driver_and_pool_only():
    assert parse_slice_selector("driver=gpu.example.com,pool in (rack-1/a, rack-1/b)")
    with pytest.raises(SelectorTextError, match="unknown key 'node': slices are selected by driver and pool"):
        parse_slice_selector("node=a")


def test_a_slice_that_is_not_selected_is_told_as_gone():
    kind = Codec(parse_slice_selector("driver=gpu.example.com")).slices
    ours = kind.decode_event(event("ADDED", builders.slice_object("s", revision=5)).encode())
    theirs = kind.decode_event(
        event("MODIFIED", builders.slice_object("s", revision=6, driver="nic.example.com")).encode()
    )
    assert is_of(ours.input, "ResourceSlice")
    assert theirs.input == structs.replace(deleted("ResourceSlice", "s", 6), uid="uid-s")


def world(**selectors) -> Rig:
    """Node `ours` has no device, node `theirs` has one."""
    rig = Rig(*default_plugins(**selectors))
    rig.add_nodes("ours", labels={"pool": "gpu"})
    rig.add_nodes("theirs")
    rig.server.put_class(builders.device_class())
    rig.server.put_slice(builders.resource_slice("s", node="theirs", devices=1))
    rig.server.put_claim(builders.claim("claim"))
    rig.add_pod("p", claims=("claim",))
    return rig


def test_a_pod_that_fits_only_outside_is_told_of_the_option():
    rig = world(nodes=parse_label_selector("pool=gpu"))
    rig.settle()
    assert rig.condition_of("p") == (
        "Unschedulable",
        "0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) outside --nodes 'pool=gpu' of this "
        "scheduler. preemption: 0/2 nodes are available: 2 Preemption is not helpful for "
        "scheduling.",
    )


def test_a_node_that_becomes_ours_wakes_the_pod():
    rig = world(nodes=parse_label_selector("pool=gpu"))
    rig.settle()
    rig.server.put_node(builders.node("theirs", labels={"pool": "cpu"}))
    rig.wait(2_000)
    assert rig.node_of("p") is None
    rig.server.put_node(builders.node("theirs", labels={"pool": "gpu"}))
    rig.wait(2_000)
    assert rig.node_of("p") == "theirs"
    assert rig.server.claims[ClaimKey("default", "claim")].allocation is not None


def test_no_solution_in_the_selected_slices_names_the_option():
    rig = world(slices=parse_slice_selector("driver=nic.example.com"))
    rig.server.delete_slice("s")  # as the codec tells it
    rig.settle()
    assert rig.condition_of("p") == (
        "Unschedulable",
        "0/2 nodes are available: 2 cannot allocate all claims from slices of --slices 'driver=nic.example.com'. "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    )
