"""Fields that nobody here acts on: the smallest part of what is published is left out, and named."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import (
    Allocated,
    DecodeError,
    Features,
    Stage,
    allocate,
    class_usage,
    decode_allocation,
    decode_claim_spec,
    decode_class,
    decode_slice,
    explain,
    pool_faults,
)
from allocator.values.json_fields import (
    TEXT,
    UNREAD_MAX,
    Field,
    FieldError,
    UnreadFieldError,
    fields,
    many,
    only,
    record,
    without_unread,
)
from tests.allocator.build import case, claim, device, device_class, pool, request
from tests.allocator.cases import claims_of, in_use_of, inventory_of, node_of, question_of

FEATURES = (Features(), Features(kubernetes="1.37"))
DEVICE: dict[str, Any] = {
    "name": "a",
    "attributes": {"d/model": {"string": "x"}},
    "capacity": {"memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}},
    "consumesCounters": [{"counterSet": "s", "counters": {"memory": {"value": "8Gi"}}}],
    "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]},
    "taints": [{"key": "k", "effect": "NoSchedule"}],
}
ANY_NAMES = {"attributes", "capacity", "counters"}


def published(*devices: Any, **more: Any) -> dict[str, Any]:
    spec = {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "nodeName": "n"}
    return {"metadata": {"name": "s"}, "spec": {**spec, "devices": [*devices], **more}}


def places(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the API in a value, with its path; maps of names to objects are none."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(each, f"{path}[{index}]")
    elif isinstance(value, dict):
        yield path, value
        for name, each in value.items():
            below = f"{path}.{name}" if path else name
            if name in ANY_NAMES and isinstance(each, dict):
                for key, one in each.items():
                    yield from places(one, f"{below}[{key}]")
            else:
                yield from places(each, below)


PLACES = [path for path, _ in places(DEVICE) if not path.startswith("attributes")]


@pytest.mark.parametrize("path", PLACES)
def test_a_field_anywhere_in_a_device_makes_this_device_unread_and_no_other(path: str) -> None:
    odd, plain = copy.deepcopy(DEVICE), copy.deepcopy(DEVICE) | {"name": "b"}
    dict(places(odd))[path]["newer"] = {"x": 1}

    decoded, other = decode_slice(published(odd, plain)).devices

    assert decoded.unread == (f"{path}.newer" if path else "newer",)
    assert other.unread == ()
    assert (decoded.capacity, decoded.consumes_counters, decoded.taints) == (
        (other.capacity, other.consumes_counters, other.taints)
    ), "what is known of it still counts"


@pytest.mark.parametrize("empty", [None, []])
def test_null_and_an_empty_list_are_no_fields(empty: Any) -> None:
    assert decode_slice(published({"name": "a", "newer": empty})).devices[0].unread == ()


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"newer": True}, "spec.newer"),
        ({"pool": {"name": "p", "generation": 1, "resourceSliceCount": 1, "newer": 1}}, "spec.pool.newer"),
    ],
)
def test_a_field_of_the_slice_counts_for_all_its_devices(more: dict[str, Any], path: str) -> None:
    decoded = decode_slice(published({"name": "a"}, {"name": "b", "newer": 1}, **more))

    assert decoded.unread == (path,)
    assert [one.unread for one in decoded.devices] == [(path,), (path, "newer")]


def test_a_harmless_field_is_none() -> None:
    decoded = decode_slice(published({"name": "a"}, partitionTypeAttribute="d/profile"))
    assert (decoded.unread, decoded.devices[0].unread) == ((), ())


@pytest.mark.parametrize("features", FEATURES)
def test_an_unread_device_is_given_to_nobody_and_stays_in_the_way_of_all(features: Features) -> None:
    slices = [pool({**device("a"), "newer": 1}, device("b"))]
    given = {}
    for wanted in (request(count=1), request(count=2), request(count=None)):
        asked = case(slices, [claim(wanted)])
        question = question_of(
            asked, claims_of(asked), inventory_of(asked), in_use_of(asked), budget_steps=10_000, features=features
        )
        answer = allocate(question)
        given[str(wanted)] = (
            [one.device for each in answer.allocations for one in each.results]
            if isinstance(answer, Allocated)
            else dict(explain(question).requests[0].removed)
        )
    assert list(given.values()) == [["b"], {Stage.UNREAD: 1}, {Stage.UNREAD: 1}]


def test_counters_with_a_field_that_is_not_read_keep_their_pool_from_everybody() -> None:
    sets = [{"name": "set", "counters": {"memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi"}}}}]
    slices = [
        pool(device("a", counters={"memory": "1Gi"}), size=2),
        pool(size=2, slice_name="counters", nodeName="node-1", sharedCounters=sets),
    ]
    asked = case(slices, [claim(request())])
    inventory = inventory_of(asked)
    answer = allocate(question_of(asked, claims_of(asked), inventory, in_use_of(asked), budget_steps=10_000))

    assert not isinstance(answer, Allocated)
    (fault,) = pool_faults(inventory.slices.values(), None, Features())
    assert fault.kind == "unread-counters"
    assert "spec.sharedCounters[0].counters[memory].requestPolicy" in fault.text


def test_a_fault_names_the_devices_field() -> None:
    (fault,) = pool_faults([decode_slice(published({"name": "a", "newer": 1}, {"name": "b"}))], None, Features())
    assert fault == (
        "unread-field",
        ("s",),
        "device a has the field newer, which this scheduler does not know",
    )


ODD_NAMES = {
    "n" * 253: "n" * 62 + "…",
    "a\n\x1b[31mred\u202e": "a???31mred?",
    "x; to make it fit: delete pod p": "x??to?make?it?fit??delete?pod?p",
    "gérant": "gérant",
    "": "?",
}


@pytest.mark.parametrize(("name", "told"), ODD_NAMES.items())
def test_a_name_is_told_so_that_it_cannot_be_taken_for_the_message(name: str, told: str) -> None:
    nested = {"attributes": {"d/m": {"string": "x"}}, "consumesCounters": [{"counterSet": "s", "counters": {name: {}}}]}
    nested["consumesCounters"][0]["counters"][name] = {"value": "1", name: {"x": {"y": [1]}}}
    device = decode_slice(published({"name": "a", **nested})).devices[0]
    assert device.unread == (f"consumesCounters[0].counters[{told}].{told}",)
    with pytest.raises(DecodeError) as raised:
        decode_claim_spec({"devices": {"requests": [REQUEST], name: {"x": 1}}})
    assert raised.value.field == f"spec.devices.{told}"


def test_of_ten_thousand_fields_the_first_are_named_and_all_are_taken_out() -> None:
    many_fields = {f"newer{number}": {"x": number} for number in range(10_000)}
    bad = decode_slice(published({"name": "a", **many_fields}, {"name": "b"}, **many_fields))
    assert bad.devices[0].unread == tuple(f"spec.newer{number}" for number in range(UNREAD_MAX)) + tuple(
        f"newer{number}" for number in range(UNREAD_MAX)
    )
    good = decode_slice(published({"name": "a", **many_fields}, {"name": "b"}))
    assert [len(device.unread) for device in good.devices] == [UNREAD_MAX, 0]
    known, unread = without_unread(fields(a=TEXT), {**many_fields, "a": "x"})
    assert (known, len(unread)) == ({"a": "x"}, UNREAD_MAX)


REQUEST = {"name": "r", "exactly": {"deviceClassName": "c"}}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"devices": {"requests": [REQUEST]}, "newer": 1}, "spec.newer"),
        ({"devices": {"requests": [REQUEST], "newer": 1}}, "spec.devices.newer"),
        ({"devices": {"requests": [{**REQUEST, "newer": 1}]}}, "spec.devices.requests[0].newer"),
        (
            {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "newer": 1}}]}},
            "spec.devices.requests[0].exactly.newer",
        ),
        (
            {"devices": {"requests": [REQUEST], "constraints": [{"matchAttribute": "a/b", "newer": 1}]}},
            "spec.devices.constraints[0].newer",
        ),
        (
            {"devices": {"requests": [REQUEST], "config": [{"requests": ["r"], "newer": {}}]}},
            "spec.devices.config[0].newer",
        ),
    ],
)
def test_a_claim_with_such_a_field_cannot_be_read(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as raised:
        decode_claim_spec(spec)
    assert raised.value.field == path


def test_an_allocation_with_such_a_field_cannot_be_read() -> None:
    result = {"request": "r", "driver": "d", "pool": "p", "device": "a"}
    with pytest.raises(DecodeError, match=r"results\[0\]\.newer"):
        decode_allocation({"devices": {"results": [{**result, "newer": 1}]}})


def test_no_request_of_an_unread_class_is_served() -> None:
    odd = device_class("newer-class")
    odd["spec"] = {**odd.get("spec", {}), "newer": 1}
    assert decode_class(odd).unread == ("spec.newer",)


@given(st.recursive(st.sampled_from(["known", "other"]), lambda inner: st.dictionaries(st.sampled_from("ab"), inner)))
def test_what_is_left_without_unread_fields_can_be_read(value: Any) -> None:
    read = fields(a=Field(record(lambda *parts: parts, a=TEXT, b=many(only(TEXT, "a")))), b=TEXT)
    known, unread = without_unread(read, value)
    try:
        read(known)
    except UnreadFieldError:
        pytest.fail("a field was left")
    except FieldError:
        return
    if isinstance(value, Mapping) and not unread:
        assert known == value


def test_a_class_with_such_a_field_has_no_usage() -> None:
    """It is asked for scores, where a failure would end the scheduler."""
    asked = case([pool(device("a"))], [], classes=[device_class(newer=1)])
    found = class_usage(
        "class-a",
        node_of(asked),
        inventory=inventory_of(asked),
        in_use=in_use_of(asked),
        features=Features(),
        taken={},
    )
    assert found == (0, 0, 0)
