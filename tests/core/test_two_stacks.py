"""A device plugin and a DRA driver on one node: no device is given by both, in any order of pods and claims."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import Features, decode_class
from scheduler.config.settings import Config
from scheduler.framework import two_stacks
from scheduler.kube.metrics import OBSERVED
from scheduler.model.keys import ClaimKey, PodKey
from scheduler.model.stacks import Stacks
from scheduler.offline import SourceObject
from scheduler.offline.playing import play, profiles_with
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from tests import builders
from tests.core.rig import Rig

GPU = "example.com/gpu"
ROOM = {"cpu": "64", "memory": "256Gi", "pods": "110"}
LEAVE = Stacks("leave")
BY_SETTING = Stacks("refuse", {GPU: builders.CLASS})


def cluster(*, served: str | None = "2", devices: int = 2, resource: str = GPU, stacks: Stacks = LEAVE, **more) -> Rig:
    """A node whose plugin serves so many of the devices that its driver publishes."""
    rig = Rig(NodeResourcesFit(), DynamicResources(), stacks=stacks, **more)
    rig.server.put_class(builders.device_class(extended_resource=resource))
    put_node(rig, served)
    rig.server.put_slice(builders.resource_slice("slice-a", node="a", devices=devices))
    return rig


def put_node(rig: Rig, served: str | None) -> None:
    rig.server.put_node(builders.node("a", allocatable=ROOM if served is None else ROOM | {GPU: served}))


def ask(rig: Rig, name: str, count: int = 1) -> None:
    """A pod with a claim."""
    spec = builders.claim_spec_object(builders.request_object(count=count))
    rig.server.put_claim(builders.claim("of-" + name, spec=spec))
    rig.add_pod(name, claims=("of-" + name,))
    rig.settle()


def ask_plugin(rig: Rig, name: str, amount: str = "1", **fields) -> None:
    rig.add_pod(name, requests={GPU: amount}, **fields)
    rig.settle()


def end(rig: Rig, name: str) -> None:
    """The pod goes, and its claim."""
    rig.server.delete_pod(PodKey("default", name))
    rig.server.collect_garbage()
    rig.server.delete_claim(ClaimKey("default", "of-" + name))
    rig.settle()


def test_claims_get_none_of_the_devices_that_a_plugin_serves_unless_a_setting_says_so():
    rig = cluster(stacks=Stacks())
    ask(rig, "p")
    assert rig.node_of("p") is None
    put_node(rig, "0")
    rig.wait(2_000)
    assert rig.node_of("p") == "a"


@pytest.mark.parametrize(
    ("stacks", "resource", "node"),
    [
        (Stacks("ignore"), GPU, "a"),
        (Stacks(), "", "a"),
        (BY_SETTING, "", None),
        (BY_SETTING, GPU, None),
        (Stacks("refuse", {GPU: "no-such-class"}), "", "a"),
        (Stacks("refuse", {"example.com/other": builders.CLASS}), "", "a"),
        (Stacks("leave"), GPU, "a"),
    ],
)
def test_what_stands_for_the_devices_is_named_by_the_class_or_by_the_setting(stacks, resource, node):
    rig = cluster(stacks=stacks, resource=resource)
    ask(rig, "p")
    assert rig.node_of("p") == node


def test_as_many_devices_as_pods_of_the_plugin_hold_are_left_alone():
    rig = cluster(served="3", devices=3)
    ask_plugin(rig, "plugins")
    ask(rig, "too-many", count=3)
    ask(rig, "fits", count=2)
    assert [rig.node_of(name) for name in ("plugins", "too-many", "fits")] == ["a", None, "a"]


def test_pods_of_the_plugin_get_what_claims_leave_and_wake_when_a_claim_goes():
    rig = cluster()
    ask(rig, "p")
    ask_plugin(rig, "first")
    ask_plugin(rig, "second")
    assert [rig.node_of(name) for name in ("first", "second")] == ["a", None]
    end(rig, "p")
    rig.wait(2_000)
    assert rig.node_of("second") == "a"
    assert "1 Insufficient example.com/gpu" in "".join(rig.events)


def test_a_pod_with_a_claim_wakes_when_the_plugins_pod_goes():
    rig = cluster(served="1", devices=1)
    ask_plugin(rig, "plugins")
    ask(rig, "p")
    assert rig.node_of("p") is None
    end(rig, "plugins")
    rig.wait(2_000)
    assert rig.node_of("p") == "a"


@pytest.mark.parametrize("stacks", [Stacks(), BY_SETTING])
def test_pods_of_other_classes_wake_when_the_class_no_longer_stands_for_the_plugins_devices(stacks):
    rig = cluster(stacks=stacks, resource="" if stacks is BY_SETTING else GPU)
    rig.server.put_class(builders.device_class("other"))
    spec = builders.claim_spec_object(builders.request_object(device_class="other"))
    rig.server.put_claim(builders.claim("of-p", spec=spec))
    rig.add_pod("p", claims=("of-p",))
    rig.settle()
    assert rig.node_of("p") is None
    rig.server.put_class(builders.device_class(driver="none.example.com", extended_resource=GPU))
    rig.wait(2_000)
    assert rig.node_of("p") == "a"


def test_a_pod_that_another_scheduler_placed_counts():
    rig = cluster(served="1", devices=1)
    ask_plugin(rig, "theirs", scheduler="other", node="a", phase="Running")
    ask(rig, "p")
    assert rig.node_of("p") is None


def test_pods_keep_what_a_plugin_gave_them_while_it_serves_nothing():
    rig = cluster()
    ask_plugin(rig, "plugins", node="a", phase="Running", scheduler="other")
    put_node(rig, "0")
    ask(rig, "two", count=2)
    ask(rig, "one")
    assert [rig.node_of(name) for name in ("two", "one")] == [None, "a"]


def test_pods_whose_extended_resources_devices_serve_are_not_the_plugins():
    rig = cluster(served=None)
    ask_plugin(rig, "served")
    ask(rig, "p")
    ask(rig, "q")
    assert [rig.node_of(name) for name in ("served", "p", "q")] == ["a", "a", None]


def test_what_claims_are_given_beside_a_plugin_is_each_a_device_of_its_own():
    rig = cluster(served="3", devices=3)
    ask_plugin(rig, "plugins")
    ask(rig, "p")
    ask(rig, "q")
    given = [one.device for claim in rig.server.claims.values() for one in claim.allocation.results]
    assert sorted(given) == ["gpu-0", "gpu-1"]


def test_devices_of_claims_count_while_their_driver_publishes_nothing():
    rig = cluster(stacks=LEAVE)
    ask(rig, "p", count=2)
    rig.server.delete_slice("slice-a")
    ask_plugin(rig, "plugins")
    assert rig.node_of("plugins") is None
    end(rig, "p")
    rig.wait(2_000)
    assert rig.node_of("plugins") == "a"


def test_a_device_that_a_claim_without_a_pod_has_counts_while_its_driver_publishes_nothing():
    rig = cluster(served="1", devices=1)
    rig.server.put_claim(builders.claim("kept", allocation=builders.allocation("gpu-0", pool="a")))
    rig.server.delete_slice("slice-a")
    ask_plugin(rig, "plugins")
    assert rig.node_of("plugins") is None
    rig.server.delete_claim(ClaimKey("default", "kept"))
    rig.wait(2_000)
    assert rig.node_of("plugins") == "a"


def test_thousands_of_resources_on_a_node_and_of_classes_take_no_pods_turn():
    """Each is looked at once for the node, and counted; invariants are not what is tested."""
    rig = cluster(served="1", devices=1, checks_invariants=False, is_paranoid=False)
    many = {f"example.com/r{number}": "1" for number in range(3_000)}
    for name in many:
        rig.server.put_class(
            builders.device_class(f"of-{name[13:]}", driver="none.example.com", extended_resource=name)
        )
    rig.server.put_node(builders.node("a", allocatable=ROOM | many))
    ask(rig, "p")
    assert rig.node_of("p") == "a"


@pytest.mark.parametrize("first", [ask, ask_plugin])
def test_what_is_in_flight_counts(first):
    """Whoever came first is assumed on the node, and nothing of it is stored yet."""
    rig = cluster(served="1", devices=1)
    rig.server.put_claim(builders.claim("of-first"))
    rig.server.put_claim(builders.claim("of-second"))
    asking = {ask: {"claims": ("of-first",)}, ask_plugin: {"requests": {GPU: "1"}}}[first]
    other = {ask: {"requests": {GPU: "1"}}, ask_plugin: {"claims": ("of-second",)}}[first]
    rig.add_pod("first", **asking)
    rig.watch()
    rig.tick()
    rig.add_pod("second", **other)
    rig.watch()
    rig.tick()
    rig.settle()
    assert [rig.node_of(name) for name in ("first", "second")] == ["a", None]


SIZES = tuple(
    builders.device_object(f"gpu-{index}") | {"capacity": {"memory": {"value": f"{16 << index}Gi"}}} for index in (0, 1)
)
SHARED = tuple(builders.device_object(f"gpu-{index}") | {"allowMultipleAllocations": True} for index in (0, 1))


@pytest.mark.parametrize("devices", [SIZES, SHARED], ids=["of-two-sizes", "shared"])
def test_all_devices_are_left_alone_while_pods_hold_any_where_a_count_does_not_say_which(devices):
    rig = cluster(devices=devices)
    ask_plugin(rig, "plugins")
    ask(rig, "p")
    assert rig.node_of("p") is None
    end(rig, "plugins")
    rig.wait(2_000)
    assert rig.node_of("p") == "a"


def partitioned() -> Rig:
    """A device that a plugin serves, and a half of it, which is of another class."""
    rig = cluster(served="1", resource="")
    rig.server.delete_slice("slice-a")
    counters = {"sharedCounters": [{"name": "gpu-0", "counters": {"slots": {"value": "2"}}}]}
    takes = ("whole", "2"), ("half", "1")
    devices = tuple(
        builders.device_object(name, kind=name)
        | {"consumesCounters": [{"counterSet": "gpu-0", "counters": {"slots": {"value": slots}}}]}
        for name, slots in takes
    )
    rig.server.put_slice(builders.resource_slice("counters", node="a", devices=0, slices=2, **counters))
    rig.server.put_slice(builders.resource_slice("devices", node="a", devices=devices, slices=2))
    for name, _ in takes:
        made = builders.class_object(name, extended_resource=GPU if name == "whole" else "")
        expression = f"device.attributes['{builders.DRIVER}'].kind == '{name}'"
        made["spec"]["selectors"].append({"cel": {"expression": expression}})
        rig.server.put_class(decode_class(made))
    return rig


def ask_half(rig: Rig) -> None:
    spec = builders.claim_spec_object(builders.request_object(device_class="half"))
    rig.server.put_claim(builders.claim("of-half", spec=spec))
    rig.add_pod("half", claims=("of-half",))
    rig.settle()


@pytest.mark.parametrize("is_claim_first", [True, False])
def test_a_partition_of_a_plugins_device_is_that_device(is_claim_first):
    rig = partitioned()
    if is_claim_first:
        ask_half(rig)
    ask_plugin(rig, "plugins")
    if not is_claim_first:
        ask_half(rig)
    assert (rig.node_of("half"), rig.node_of("plugins")) == (("a", None) if is_claim_first else (None, "a"))


@pytest.mark.parametrize("served", [4, 8, 9999999999999999999])
def test_a_plugin_that_serves_each_device_several_times_loses_as_much_by_a_claim(served):
    """Of 4 devices one is a claim's: a quarter of what is served, rounded up."""
    rig, left = cluster(served=str(served), devices=4), served - -(-served // 4)
    ask(rig, "p")
    ask_plugin(rig, "much", str(left + 1))
    ask_plugin(rig, "less", str(left))
    assert [rig.node_of(name) for name in ("p", "much", "less")] == ["a", None, "a"]


def held(rig: Rig) -> tuple[int, int]:
    """What bound pods have of the plugin, and how many devices claims have."""
    bound = [one for one in rig.server.pods.values() if one.node_name is not None]
    return (
        sum(
            GPU in (one.spec.containers[0].resources.requests or {})
            for one in bound
            if one.status.extended_resource_claim_status is None
        ),
        sum(len(one.allocation.results) for one in rig.server.claims.values() if one.allocation is not None),
    )


KINDS = ("claim", "claim", "plugin", "plugin", "theirs", "end", "end", "flap")
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 5)), max_size=14)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.sampled_from([Stacks(), LEAVE]), STEPS)
def test_no_history_has_more_pods_than_devices(devices, stacks, steps):
    """Law: of one node's devices, what pods have of the plugin and of claims is never more than there are."""
    rig = cluster(served=str(devices), devices=devices, stacks=stacks)
    for number, (step, which) in enumerate(steps):
        of_plugin, of_claims = held(rig)
        match step:
            case "claim":
                ask(rig, f"c{number}", count=1 + which % 2)
            case "plugin":
                ask_plugin(rig, f"p{number}")
            case "theirs" if of_plugin + of_claims < devices:
                ask_plugin(rig, f"t{number}", scheduler="other", node="a", phase="Running")
            case "end" if rig.server.pods:
                end(rig, sorted(rig.server.pods)[which % len(rig.server.pods)].name)
            case "flap":
                put_node(rig, "0" if which % 2 else str(devices))
                rig.settle()
        rig.wait(1_000 * which)
        assert sum(held(rig)) <= devices, held(rig)


def cause(rig: Rig, name: str) -> str:
    rig.wait(3_000)
    condition = rig.condition_of(name)
    assert condition is not None
    return condition[1].partition(" Cause: ")[2]


def test_the_cause_says_that_a_plugin_serves_the_devices():
    rig = cluster(stacks=Stacks(), reports_causes=True)
    ask(rig, "p")
    assert cause(rig, "p") == (
        f"[two-stacks] a device plugin and a driver both serve 2 {GPU} of node a: claims get none of devices a/gpu-0, "
        "a/gpu-1; to make it fit: take the device plugin of example.com/gpu from node a"
    )


def test_the_cause_says_what_pods_hold_of_the_plugin_and_that_they_would_have_to_end():
    rig = cluster(reports_causes=True)
    ask_plugin(rig, "plugins")
    ask(rig, "p", count=2)
    assert cause(rig, "p") == (
        f"[two-stacks] pods have 1 {GPU} of the device plugin of node a: claims leave device a/gpu-1 to it; request "
        "gpu asks for 2, and 1 is left; to make it fit: ask for 1 device instead of 2 in request gpu of ResourceClaim "
        "default/of-p"
    )


def test_the_cause_says_what_claims_have_of_what_a_plugin_serves():
    rig = cluster(reports_causes=True)
    ask(rig, "p")
    ask_plugin(rig, "plugins", "2")
    assert cause(rig, "plugins") == (
        f"[two-stacks] claims have 1 of the devices that the device plugin of node a serves as {GPU} and leave "
        "1 of 2; pod default/plugins asks for 2"
    )


@pytest.mark.parametrize(("mode", "node"), [("refuse", ""), ("ignore", "a")])
def test_what_is_played_follows_the_configuration(mode, node):
    """`simulate` and `make-room` are given profiles alone."""
    config = Config.model_validate({"twoStacks": mode})
    objects = [
        builders.class_object(extended_resource=GPU) | {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"},
        builders.node_object("a", allocatable=ROOM | {GPU: "2"}) | {"apiVersion": "v1", "kind": "Node"},
        builders.slice_object("s", node="a") | {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"},
        builders.claim_object("of-p") | {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"},
        builders.pod_object("p", claims=("of-p",)) | {"apiVersion": "v1", "kind": "Pod"},
    ]
    profile = profiles_with(config, Features(), {}, preempts=False)
    played = play([SourceObject("f", one) for one in objects], (), features=Features(), profile=profile)
    assert [one.node or "" for one in played.pods] == [node]


@pytest.mark.parametrize(("served", "nodes"), [("2", {(GPU,): 1.0}), ("0", {}), (None, {})])
def test_the_metric_counts_nodes_by_resource(served, nodes):
    rig = cluster(served=served, stacks=Stacks())
    rig.settle()
    (metric,) = [one for one in OBSERVED if one.name == "dra_scheduler_two_stacks_nodes"]
    assert metric.read(SimpleNamespace(machine=rig.machine)) == nodes


def test_what_classes_of_other_resources_select_is_not_read(monkeypatch):
    """Of 5,000 classes each was read for every pod that waits: half a second of everybody's time."""
    read: list[str] = []
    monkeypatch.setattr(two_stacks, "named_drivers", lambda text: read.append(text) or ())
    rig = cluster(stacks=Stacks(), reports_causes=True)
    selector = [{"cel": {"expression": 'device.driver == "nobody.else"'}}]
    spec = {"extendedResourceName": "example.com/other", "selectors": selector}
    rig.server.put_class(decode_class({"metadata": {"name": "other"}, "spec": spec}))
    ask(rig, "p")
    rig.settle()
    assert 'device.driver == "nobody.else"' not in read
