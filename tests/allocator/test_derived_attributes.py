"""derivedAttributes (KEP-6080): a request's expressions stand for attributes, and constraints alone see them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from allocator import Allocated, Features, Shortcuts, allocate, explain
from allocator.requests.slot_records import ENTRY_BYTES
from tests.allocator.build import answer, asks, case, claim, device, first_of, picked, pool, request
from tests.allocator.cases import answer_of, ask, claims_of, in_use_of, inventory_of, question_of
from tests.allocator.derived import BROKEN
from tests.controlplane.build import built_or_skip
from tests.oracle.client import Oracle

FEATURES: Final = Features(kubernetes="1.37")
LISTS: Final = replace(FEATURES, list_type_attributes=True)
OWN: Final = 'device.attributes["driver-a"]'
HALF: Final = f"{OWN}.slot / 2"


def derives(**by_name: str) -> Any:
    """`key=expression`; the attribute is derived/key, or another name with `__` for the slash."""
    return [
        {"name": name.replace("__", "/") if "__" in name else f"derived/{name}", "expression": expression}
        for name, expression in by_name.items()
    ]


def gpus(*slots: int, **more: Any) -> Any:
    return pool(*[device(f"gpu-{slot}", slot=slot, **more) for slot in slots])


SAME: Final = {"constraints": [{"matchAttribute": "derived/key"}]}
DIFFERENT: Final = {"constraints": [{"distinctAttribute": "derived/key"}]}


@pytest.mark.parametrize(
    ("slices", "asked", "expected"),
    [
        ([gpus(1, 2, 3)], claim(request(count=2, derivedAttributes=derives(key=HALF)), **SAME), ["gpu-2", "gpu-3"]),
        (
            [gpus(1, 2, 3)],
            claim(request(count=2, derivedAttributes=derives(key=HALF)), **DIFFERENT),
            ["gpu-1", "gpu-2"],
        ),
        ([gpus(2, 3)], claim(request(count=2, derivedAttributes=derives(key=HALF)), **DIFFERENT), []),
        # The expression stands before what the driver publishes.
        (
            [gpus(1, 2, 3)],
            claim(
                request(count=2, derivedAttributes=derives(**{"driver-a__slot": HALF})),
                constraints=[{"matchAttribute": "driver-a/slot"}],
            ),
            ["gpu-2", "gpu-3"],
        ),
        # One request derives what the devices of another publish.
        (
            [gpus(1, 4), pool(device("nic", driver="x", numa=2), name="nics", driver="driver-b")],
            claim(
                request("gpu", derivedAttributes=derives(**{"driver-b__numa": HALF})),
                request("nic", cls="class-b"),
                constraints=[{"matchAttribute": "driver-b/numa"}],
            ),
            ["gpu-4", "nic"],
        ),
        # Two requests derive the same name in different ways.
        (
            [gpus(1, 4, 8)],
            claim(
                request("one", derivedAttributes=derives(key=f"{OWN}.slot")),
                request("two", derivedAttributes=derives(key=HALF)),
                **SAME,
            ),
            ["gpu-4", "gpu-8"],
        ),
        (
            [gpus(4, 8)],
            claim(
                request("one", derivedAttributes=derives(key=f"{OWN}.slot")),
                request("two", derivedAttributes=derives(key=HALF)),
                **DIFFERENT,
            ),
            ["gpu-8", "gpu-4"],
        ),
        # Of alternatives each has its own.
        (
            [gpus(1, 2, 3)],
            claim(
                first_of(
                    "any",
                    asks(3, derivedAttributes=derives(key=HALF)),
                    asks(2, derivedAttributes=derives(key=f"{OWN}.slot % 2")),
                ),
                **SAME,
            ),
            ["gpu-1", "gpu-3"],
        ),
        # Nobody asks for it, so it is not evaluated.
        ([gpus(1)], claim(request(derivedAttributes=derives(key=f"{OWN}.nothing"))), ["gpu-1"]),
        # All of them.
        ([gpus(2, 3)], claim(request(count=None, derivedAttributes=derives(key=HALF)), **SAME), ["gpu-2", "gpu-3"]),
        # The selector of a request does not see it.
        (
            [gpus(2)],
            claim(request(cel='"derived" in device.attributes', derivedAttributes=derives(key=HALF)), **SAME),
            [],
        ),
    ],
)
@pytest.mark.parametrize("shortcuts", [None, Shortcuts.none()])
def test_what_is_given(slices: Any, asked: Any, expected: list[str], shortcuts: Shortcuts | None) -> None:
    given = picked(answer(slices, [asked], features=FEATURES, shortcuts=shortcuts))
    assert [one.partition("=")[2] or one for one in given] == (expected or ["none"])


FAILS: Final = f"{OWN}.slot < 2 ? dyn({OWN}.slot) : dyn({OWN}.nothing)"


@pytest.mark.parametrize(
    ("slices", "asked", "held", "text"),
    [
        (
            [gpus(1, 2)],
            claim(request(count=2, derivedAttributes=derives(key=FAILS)), **SAME),
            [],
            "evaluate derived attribute derived/key on device driver-a/pool-1/gpu-2 failed: no such key: nothing",
        ),
        (
            [gpus(1, 2)],
            claim(request(derivedAttributes=derives(key="nothing(device)")), **SAME),
            [],
            "compile derived attribute derived/key failed: compilation failed: ERROR: <input>:1:8: "
            "undeclared reference to 'nothing' (in container '')\n | nothing(device)\n | .......^",
        ),
        (
            [gpus(1, 2)],
            claim(request(count=None, derivedAttributes=derives(key=FAILS)), **SAME),
            [],
            "evaluate derived attribute derived/key on device driver-a/pool-1/gpu-2 failed: no such key: nothing",
        ),
        # The first device does; nobody looks at the next.
        ([gpus(1, 2)], claim(request(derivedAttributes=derives(key=FAILS)), **SAME), [], "req-0=gpu-1"),
        # A device that is in use is not asked.
        (
            [gpus(2, 1)],
            claim(request(derivedAttributes=derives(key=FAILS)), **SAME),
            ["driver-a/pool-1/gpu-2"],
            "req-0=gpu-1",
        ),
        # A constraint before it has refused the device.
        (
            [pool(device("gpu-1", slot=1, model="a"), device("gpu-2", slot=2), device("gpu-0", slot=0, model="a"))],
            claim(
                request(count=2, derivedAttributes=derives(key=FAILS)),
                constraints=[{"matchAttribute": "driver-a/model"}, {"distinctAttribute": "derived/key"}],
            ),
            [],
            "req-0=gpu-1",
        ),
    ],
)
@pytest.mark.parametrize("shortcuts", [None, Shortcuts.none()])
def test_an_expression_that_fails_ends_the_search_where_it_is_reached(
    slices: Any, asked: Any, held: Any, text: str, shortcuts: Shortcuts | None
) -> None:
    assert picked(answer(slices, [asked], features=FEATURES, held=held, shortcuts=shortcuts))[0] == text


def test_the_explanation_names_a_device_on_which_an_expression_fails() -> None:
    asked = case([gpus(1, 2, 4)], [claim(request(count=3, derivedAttributes=derives(key=FAILS)), **SAME)])
    explanation = explain(
        question_of(asked, claims_of(asked), inventory_of(asked), in_use_of(asked), budget_steps=99, features=FEATURES)
    )
    (funnel,) = explanation.requests
    assert {str(stage): count for stage, count in funnel.removed.items()} == {"not decided, as a selector fails": 2}
    assert explanation.failure == (
        "evaluate derived attribute derived/key on device driver-a/pool-1/gpu-2 failed: no such key: nothing"
    )


def test_counters_are_asked_before_the_expression() -> None:
    """A partition that does not fit any more is no device on which an expression fails."""
    slices = [
        pool(size=2, slice_name="s", counters={"memory": 2}),
        pool(
            device("gpu-1", slot=1, counters={"memory": 2}),
            device("gpu-2", slot=2, counters={"memory": 2}),
            size=2,
        ),
    ]
    asked = claim(request(derivedAttributes=derives(key=FAILS)), **SAME)
    assert picked(answer(slices, [asked], features=FEATURES, held=["driver-a/pool-1/gpu-1"])) == ["none"]


@pytest.mark.parametrize(
    ("features", "text"),
    [
        (
            replace(FEATURES, derived_attributes=False),
            "claim default/claim-0, request req-0: cannot handle request with derived attributes, the feature is "
            "disabled",
        ),
        (Features(kubernetes="1.36"), "none"),  # it has no such field
    ],
)
def test_without_the_feature(features: Features, text: str) -> None:
    asked = claim(request(derivedAttributes=derives(key=HALF)), **SAME)
    assert picked(answer([gpus(1)], [asked], features=features)) == [text]


def test_lists_are_compared_where_their_gate_is_on() -> None:
    asked = claim(request(count=2, derivedAttributes=derives(key=f"[{OWN}.slot / 2, {OWN}.slot / 3]")), **SAME)
    assert picked(answer([gpus(1, 3, 5)], [asked], features=LISTS)) == ["req-0=gpu-3", "req-0=gpu-5"]
    assert picked(answer([gpus(1, 3, 5)], [asked], features=FEATURES)) == ["none"]


def test_a_selector_that_fails_on_another_device_hides_no_value() -> None:
    """What is behind a selector's failure has its derived values, too: the failing device may be in use."""
    slices = [pool(device("bad"), *[device(f"gpu-{slot}", slot=slot) for slot in (2, 3)])]
    asked = claim(request(count=2, cel=f"{OWN}.slot > 0", derivedAttributes=derives(key=HALF)), **SAME)
    given = answer(slices, [asked], features=FEATURES, held=["driver-a/pool-1/bad"])
    assert picked(given) == ["req-0=gpu-2", "req-0=gpu-3"]


def test_nor_does_one_in_another_pool() -> None:
    slices = [pool(device("bad")), pool(*[device(f"gpu-{slot}", slot=slot) for slot in (2, 3)], name="pool-2")]
    asked = claim(request(count=2, cel=f"{OWN}.slot > 0", derivedAttributes=derives(key=HALF)), **SAME)
    given = answer(slices, [asked], features=FEATURES, held=["driver-a/pool-1/bad"])
    assert picked(given) == ["req-0=gpu-2", "req-0=gpu-3"]


@pytest.mark.parametrize("shortcuts", [None, Shortcuts.none(), replace(Shortcuts.none(), memo=True)])
def test_a_search_that_goes_back_remembers_what_was_derived(shortcuts: Shortcuts | None) -> None:
    """The first and second gpu leave the nics no value of their own; the third does."""
    nics = pool(device("nic-1", slot=1), device("nic-3", slot=3), name="nics", driver="driver-b")
    of_nics = {"cls": "class-b", "derivedAttributes": derives(key='device.attributes["driver-b"].slot')}
    asked = claim(
        request("gpu", derivedAttributes=derives(key=f"{OWN}.slot")),
        request("one", **of_nics),
        request("other", **of_nics),
        **DIFFERENT,
    )
    given = picked(answer([gpus(1, 3, 2), nics], [asked], features=FEATURES, shortcuts=shortcuts))
    assert given == ["gpu=gpu-2", "one=nic-1", "other=nic-3"]


def test_values_that_requests_derive_are_told_apart() -> None:
    """Two requests that each have one value left, and not the same."""
    slot = 'device.attributes["driver-b"].slot'
    nics = pool(device("nic-1", slot=1), device("nic-3", slot=3), name="nics", driver="driver-b")
    asked = claim(
        request("gpu", derivedAttributes=derives(key=f"{OWN}.slot")),
        request("one", cls="class-b", cel=f"{slot} == 1", derivedAttributes=derives(key=slot)),
        request("other", cls="class-b", cel=f"{slot} == 3", derivedAttributes=derives(key=f"0 + {slot}")),
        **DIFFERENT,
    )
    given = picked(answer([gpus(1, 2), nics], [asked], features=FEATURES))
    assert given == ["gpu=gpu-2", "one=nic-1", "other=nic-3"]


def test_requests_that_derive_differently_share_no_answers() -> None:
    """One inventory is asked for both, in turns."""
    first, second = [
        case([gpus(1, 2, 3)], [claim(request(count=2, derivedAttributes=derives(key=one)), **SAME)])
        for one in (HALF, f"{OWN}.slot % 2")
    ]
    inventory, in_use = inventory_of(first), in_use_of(first)
    for _ in range(2):
        for asked, expected in ((first, ["gpu-2", "gpu-3"]), (second, ["gpu-1", "gpu-3"])):
            question = question_of(asked, claims_of(asked), inventory, in_use, budget_steps=10_000, features=FEATURES)
            assert [one.partition("=")[2] for one in picked(answer_of(allocate(question)))] == expected


def test_what_is_kept_of_derived_attributes_is_counted_and_forgotten() -> None:
    many = derives(**{f"n{number}": f"{OWN}.slot / {number + 1}" for number in range(9)})
    constraints = [{"matchAttribute": one["name"]} for one in many]
    asked = case([gpus(1, 2, 3)], [claim(request(derivedAttributes=many), constraints=constraints)])
    plain = case([gpus(1, 2, 3)], [claim(request())])
    kept = []
    for one in (plain, asked):
        inventory = inventory_of(one)
        question = question_of(one, claims_of(one), inventory, in_use_of(one), budget_steps=10_000, features=FEATURES)
        assert isinstance(allocate(question), Allocated)
        (plan,) = (plan for _, plan in inventory.plans._plans.items())
        kept.append(inventory._planner.size(plan) // ENTRY_BYTES)
    assert kept[1] >= kept[0] + 2 * 9 + 3 * 9  # with the mask, with the candidates, and the answers for three devices


@pytest.mark.oracle
@pytest.mark.parametrize("expression", [HALF, FAILS, *BROKEN, "[]", f"[{OWN}.slot]"])
@pytest.mark.parametrize("count", [1, 2, None])
@pytest.mark.parametrize("constraint", ["matchAttribute", "distinctAttribute"])
@pytest.mark.parametrize("lists", [False, True])
def test_as_upstream(expression: str, count: int | None, constraint: str, lists: bool) -> None:
    built_or_skip("oracle-1.37")
    claims = [
        claim(
            request(count=count, derivedAttributes=derives(key=expression)), constraints=[{constraint: "derived/key"}]
        )
    ]
    asked = case([gpus(1, 3, 2, index=4, model="a")], claims)
    features = {"DerivedAttributes": True, "ListTypeAttributes": lists}
    with Oracle("1.37") as oracle:
        theirs = oracle.ask({**asked, "kind": "allocate", "features": features})
    ours = ask(asked, features=LISTS if lists else FEATURES)
    assert picked(ours) == picked(theirs)
