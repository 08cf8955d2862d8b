"""The cluster in short: what is free, who has it, what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from allocator import Features
from scheduler.offline import SourceObject
from scheduler.ui import overview, responses
from scheduler.ui.answers import Answered, Overview
from scheduler.ui.data_source import Objects, Source
from tests.offline.causes import Obj, allocated, claim, gpu, node, pod, request, slice_
from tests.ui.worlds import objects, shared, source


async def overview_of(*given: Obj, features: Features = Features()) -> Any:  # noqa: B008 - immutable
    read = [SourceObject(f"object {number}", one) for number, one in enumerate(given)]
    return await Source.of_files("world", Objects(read, features), None).overview()


def texts(findings: list[dict[str, Any]]) -> list[str]:
    return [one["text"] for one in findings]


async def test_it_has_what_is_free_what_waits_and_who_has_devices() -> None:
    found = await source().overview()
    assert (found["waiting"], found["count"], found["nodes"], found["version"]) == (1, 6, 2, 1)
    assert (found["states"]["used"], found["states"]["free"], found["states"]["tainted"]) == (1, 4, 1)
    (gpus,) = found["classes"]
    assert (gpus["free"], gpus["devices"], gpus["largest"][0]["count"]) == (4, 6, 2)
    owner = {"owner": "pod default/runs", "devices": 1, "pod": "default/runs"}
    assert found["holders"] == ({"namespace": "default", "devices": 1, "owners": (owner,)},)
    assert set(found) == {*Overview.__struct_encode_fields__, *Answered.__struct_encode_fields__}


async def test_namespaces_and_owners_with_most_devices_come_first_and_all_are_counted() -> None:
    names = [f"team-{number:02}" for number in range(25)]
    more = [node("big"), slice_(*(gpu(f"gpu-{number}") for number in range(30)), where="big")]
    for number, name in enumerate(names):
        devices = ("gpu-28", "gpu-29") if number == 7 else (f"gpu-{number}",)
        more.append(allocated(claim(name="held", namespace=name), *devices, where="big", pool="big"))
    found = await overview_of(*more)
    assert [(one["namespace"], one["devices"]) for one in found["holders"][:2]] == [("team-07", 2), ("team-00", 1)]
    assert (len(found["holders"]), found["holders_count"], found["held"]) == (20, 25, 26)


async def test_what_is_wrong_names_its_devices_and_since_when() -> None:
    found = await source(*shared()).overview()
    wrong = {one["kind"]: one for one in found["warnings"]}
    assert wrong["unreserved"]["text"] == "claim default/quarter has devices and is reserved for nobody"
    assert wrong["unreserved"]["devices"] == ("gpu.example.com node-s gpu-7",)
    taint = wrong["untolerated-taint"]
    assert taint["text"] == "1 device has the taint example.com/hot:NoSchedule, which no claim tolerates"
    assert (taint["count"], taint["devices"]) == (1, ("gpu.example.com node-2 gpu-2",))

    hot = gpu("gpu-0")
    hot["taints"] = [{"key": "xid", "value": "79", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]
    found = await overview_of(node("n"), slice_(hot, where="n"))
    assert [one["since"] for one in found["warnings"]] == ["2026-01-01T00:00:00Z"]
    assert taint["since"] is None, "the file does not say"


async def test_as_many_pods_wait_as_the_list_of_them_has_also_where_some_would_be_refused() -> None:
    refused = pod("three", name="no-image", restartPolicy="Sometimes")
    given = [SourceObject("file", one) for one in (*objects(), refused)]
    read = Source.of_files("world", Objects(given, Features()), None)
    assert (await read.pending())["waiting"] == (await read.overview())["waiting"] == 2


async def test_taints_that_are_not_looked_at_are_counted() -> None:
    devices = [gpu(f"gpu-{number}") for number in range(23)]
    for number, one in enumerate(devices):
        one["taints"] = [{"key": f"k{number:02}", "effect": "NoSchedule"}]
    found = await overview_of(node("n"), slice_(*devices, where="n"))
    assert found["warnings_count"] == 20
    (rest,) = found["remarks"]
    assert (rest["text"], rest["count"]) == ("3 more taints, each on no more devices than those, were not looked at", 3)


async def test_a_taint_that_a_claim_tolerates_is_of_note_and_one_of_an_administrators_look_is_wrong() -> None:
    def tolerant(**fields: Any) -> Obj:
        return claim(request(tolerations=[{"key": "example.com/hot", "operator": "Exists"}], **fields), name="t")

    label = {"resource.kubernetes.io/admin-access": "true"}
    allows_admin_access = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": label}}
    for one, kinds in ((tolerant(), ([], ["taint"])), (tolerant(adminAccess=True), (["untolerated-taint"], []))):
        found = await overview_of(*objects(), allows_admin_access, one)
        assert tuple([each["kind"] for each in found[part]] for part in ("warnings", "remarks")) == kinds


async def test_gates_that_are_off_and_rare_attributes_are_of_note() -> None:
    found = await overview_of(*objects(), features=Features(consumable_capacity=False))
    assert texts(found["remarks"]) == [
        "the feature gate DRAConsumableCapacity is off: fields that need it have no effect"
    ]
    nic = slice_({"name": "mlx5", "attributes": {"rdma": {"bool": True}}}, name="nic", driver="dra.net", where="n")
    gpus = [gpu(f"gpu-{number}") for number in range(10)]
    gpus[0]["attributes"]["odd"] = {"string": "x"}
    found = await overview_of(node("n"), nic, slice_(*gpus, where="n"))
    assert texts(found["remarks"]) == ["1 of 10 devices of gpu.example.com has the attribute gpu.example.com/odd"]


async def test_devices_that_were_given_twice_or_are_published_no_more_are_wrong() -> None:
    held = [allocated(claim(name=name), "gpu-0", where="n", pool="n") for name in ("one", "two")]
    lost = [allocated(claim(name=f"lost-{number}"), f"gpu-{number}", where="n", pool="n") for number in range(3, 8)]
    found = await overview_of(node("n"), slice_(gpu("gpu-0"), gpu("gpu-1"), where="n"), *held, *lost)
    wrong = {one["kind"]: one for one in found["warnings"]}
    assert wrong["given-twice"]["text"] == "device n/gpu-0 was given to several claims: default/one, default/two"
    assert wrong["given-twice"]["devices"] == ("gpu.example.com n gpu-0",)
    gone = "gpu.example.com does not publish devices that claims have: n/gpu-3, n/gpu-4, n/gpu-5 and 2 more"
    assert wrong["not-published"]["text"] == gone


async def test_claims_that_share_a_device_have_it_once_each() -> None:
    assert "given-twice" not in {one["kind"] for one in (await source(*shared()).overview())["warnings"]}


async def test_pools_that_contradict_themselves_are_wrong_and_the_list_has_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overview, "_FINDINGS_MAX", 2)
    pools = []
    for name in ("n-0", "n-1", "n-2"):
        one = slice_(gpu(), where=name)
        one["spec"]["pool"]["resourceSliceCount"] = 2
        pools += [node(name), one]
    found = await overview_of(*pools)
    assert {one["kind"] for one in found["warnings"]} == {"missing-slices"}
    assert (len(found["warnings"]), found["warnings_count"]) == (2, 3)


async def test_devices_that_a_device_plugin_serves_too_are_named() -> None:
    both = node("both")
    both["status"] = {**both.get("status", {}), "allocatable": {"cpu": "8", "pods": "110", "example.com/gpu": "2"}}
    made = objects()
    made[0]["spec"]["extendedResourceName"] = "example.com/gpu"
    user = pod(name="plugins", requests={"example.com/gpu": "1"}, nodeName="both")
    found = await overview_of(*made, both, slice_(gpu("gpu-0"), gpu("gpu-1"), where="both"), user)
    (stacks,) = [one for one in found["warnings"] if one["kind"] == "two-stacks"]
    assert "left to the device plugin of node both (2 example.com/gpu" in stacks["text"]
    assert stacks["devices"] == ("gpu.example.com both gpu-0", "gpu.example.com both gpu-1")


async def test_of_a_device_that_very_many_share_some_are_named_and_the_others_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def users() -> tuple[int, int]:
        found = await source(*shared()).device(("gpu.example.com", "node-s", "gpu-7"))
        return len(found["users"]), found["more"]

    named, more = await users()
    assert (named > 0, more) == (True, 0)
    monkeypatch.setattr(responses, "_USERS_MAX", named - 1)
    assert await users() == (named - 1, 1)
