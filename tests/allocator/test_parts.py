"""The allocator's parts one by one: ledgers, matching, node selection, capacity, explanations, prefilter."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from allocator import (
    Allocation,
    AllocationError,
    Claim,
    DecodeError,
    DeviceId,
    DeviceResult,
    Features,
    InUse,
    Inventory,
    NodeSelectorError,
    NodeView,
    PoolId,
    candidate_nodes,
    check_node_selector,
    decode_allocation,
    decode_claim_spec,
    decode_class,
    decode_node_selector,
    decode_slice,
    encode_allocation,
    encode_node_selector,
    match_node_selector,
)
from allocator.requests.capacity import CapacityError, consume
from allocator.requests.device_taints import prevent_allocation, tolerates
from allocator.search.matching import can_match
from allocator.search.problem import Problem
from allocator.search.search import Search
from allocator.search.search_state import ExhaustedError
from allocator.values.features import ALL_SHORTCUTS, Shortcuts
from allocator.values.model import DeviceCapacity, DeviceTaint, DeviceToleration, RequestPolicy, ValidRange
from cel.quantity import Quantity
from tests.allocator.build import NODE, answer, asks, case, claim, device, device_class, first_of, picked, pool, request
from tests.allocator.cases import ask, claims_of, in_use_of, inventory_of, node_of
from tests.allocator.generator import Generator

ROOT = Path(__file__).parents[2]


# --- the search takes everything back --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("shortcuts", [ALL_SHORTCUTS, Shortcuts.none()], ids=["shortcuts-on", "shortcuts-off"])
def test_a_search_without_solution_restores_everything(shortcuts: Any) -> None:
    generator = Generator(21)
    checked = 0
    for _ in range(300):
        question = generator.case()
        inventory, claims = inventory_of(question), claims_of(question)
        try:
            problem = Problem(
                claims,
                inventory.plan([claim.spec for claim in claims], Features()),
                inventory.node_pools(node_of(question), Features()),
                in_use_of(question),
            )
            search = Search(problem, budget_steps=20_000, shortcuts=shortcuts)
            fresh = Search(problem, budget_steps=1, shortcuts=shortcuts)
            if search.run():
                continue
        except (AllocationError, ExhaustedError):
            continue
        checked += search.steps > 3
        picked, untouched = search.picked, fresh.picked
        assert picked._journal.mark() == 0
        assert (picked.devices, picked.devices_of_claim) == (0, untouched.devices_of_claim)
        assert picked.results == untouched.results
        assert not picked.shares.counts
        assert not picked.shares.used
        assert picked.shares.shared == 0
        assert not any(itertools.chain.from_iterable(picked.counters.used.values()))
        assert [[state.state() for state in states] for states in picked.states] == [
            [state.state() for state in states] for states in untouched.states
        ]
    assert checked > 15


# --- matching --------------------------------------------------------------------------------------------


def test_matching_agrees_with_enumeration() -> None:
    rnd = random.Random(5)
    seen = set()
    for _ in range(2000):
        units = [(rnd.getrandbits(6), rnd.randrange(3)) for _ in range(rnd.randrange(1, 5))]
        slots = [mask for mask, need in units for _ in range(need)]
        expected = (
            any(
                all(mask >> bit & 1 for mask, bit in zip(slots, bits, strict=True))
                for bits in itertools.permutations(range(6), len(slots))
            )
            if len(slots) <= 6
            else False
        )
        assert can_match(units) == expected, units
        seen.add(expected)
    assert seen == {True, False}


# --- the ledger ------------------------------------------------------------------------------------------


def result(name: str = "d", **more: Any) -> DeviceResult:
    return DeviceResult("r", "driver-a", "p", name, **more)


def test_the_ledger_reports_a_device_that_is_taken_twice() -> None:
    in_use = InUse()
    assert in_use.add(Allocation((result(),))) == ()
    assert in_use.add(Allocation((result(), result("e")))) == (DeviceId("driver-a", "p", "d"),)
    in_use.remove(Allocation((result(),)))
    assert in_use.is_dedicated(DeviceId("driver-a", "p", "d"))
    assert list(in_use.devices()) == [DeviceId("driver-a", "p", "d"), DeviceId("driver-a", "p", "e")]


def test_admin_access_holds_nothing() -> None:
    in_use = InUse()
    in_use.add(Allocation((result(admin_access=True), result("s", admin_access=True, share_id="x"))))
    assert in_use == InUse()


def test_shares_hold_capacity_and_zero_is_nothing() -> None:
    in_use = InUse()
    one = Allocation((result(share_id="x", consumed_capacity=(("memory", Quantity.parse("1Gi")),)),))
    two = Allocation((result(share_id="y", consumed_capacity=(("cores", Quantity.parse("0")),)),))
    before = InUse([one])
    in_use.add(one)
    in_use.add(two)
    in_use.remove(two)
    assert in_use == before
    assert in_use.copy() == in_use
    assert in_use.pools[PoolId("driver-a", "p")].consumed == {"d": {"memory": 2**30 * 10**9}}


def test_with_consumable_capacity_off_a_share_holds_the_whole_device() -> None:
    in_use = InUse([Allocation((result(share_id="x"),))], consumable_capacity=False)
    assert in_use.is_dedicated(DeviceId("driver-a", "p", "d"))


@pytest.mark.parametrize("what", [result(), result(share_id="x")], ids=["device", "share"])
def test_what_is_not_held_cannot_be_released(what: DeviceResult) -> None:
    in_use = InUse()
    with pytest.raises(ValueError, match="is not held"):
        in_use.remove(Allocation((what,)))
    assert in_use == InUse()


# --- node selection --------------------------------------------------------------------------------------

LABELS = NodeView("node-1", {"zone": "a", "gpus": "8", "text": "x"})


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "In", ["b"], False),
        ("none", "In", ["a"], False),
        ("zone", "NotIn", ["b"], True),
        ("none", "NotIn", ["b"], True),
        ("zone", "NotIn", ["a"], False),
        ("zone", "Exists", [], True),
        ("none", "Exists", [], False),
        ("none", "DoesNotExist", [], True),
        ("zone", "DoesNotExist", [], False),
        ("gpus", "Gt", ["7"], True),
        ("gpus", "Gt", ["8"], False),
        ("gpus", "Lt", ["9"], True),
        ("text", "Gt", ["1"], False),
        ("none", "Lt", ["1"], False),
    ],
)
def test_label_requirements(key: str, operator: str, values: list[str], expected: bool) -> None:
    requirement = {"key": key, "operator": operator, "values": values}
    selector = decode_node_selector({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]})
    check_node_selector(selector)
    assert match_node_selector(selector, LABELS) is expected


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([], False),
        ([{}], False),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}]}], False),
        ([{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["y"]}]}], False),
        ([{"matchFields": [{"key": "spec.x", "operator": "NotIn", "values": ["y"]}]}], True),
        ([{}, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}], True),
    ],
)
def test_terms(terms: list[dict[str, Any]], expected: bool) -> None:
    selector = decode_node_selector({"nodeSelectorTerms": terms})
    assert match_node_selector(selector, LABELS) is expected
    assert decode_node_selector(encode_node_selector(selector)) == selector


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        ({"key": "a", "operator": "Sometimes", "values": ["x"]}, 'operator: Unsupported value: "Sometimes"'),
        ({"key": "a", "operator": "In", "values": []}, "values set can't be empty"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "values set must be empty for exists"),
        ({"key": "a", "operator": "Gt", "values": ["1", "2"]}, "exactly one value is required"),
        ({"key": "a", "operator": "Lt", "values": ["x"]}, "the value must be an integer"),
        ({"key": "-a", "operator": "Exists"}, 'key: Invalid value: "-a"'),
        ({"key": "a", "operator": "In", "values": ["-x"]}, 'values[0][a]: Invalid value: "-x"'),
    ],
)
def test_selectors_that_cannot_be_parsed(requirement: dict[str, Any], text: str) -> None:
    selector = decode_node_selector({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]})
    with pytest.raises(NodeSelectorError) as caught:
        check_node_selector(selector)
    assert text in str(caught.value)
    assert not match_node_selector(selector, LABELS)


# --- taints ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (DeviceToleration("", "Exists", "", "", None), True),
        (DeviceToleration("k", "Exists", "", "", None), True),
        (DeviceToleration("k", "Equal", "v", "", None), True),
        (DeviceToleration("k", "", "v", "NoSchedule", 5), True),
        (DeviceToleration("k", "Equal", "w", "", None), False),
        (DeviceToleration("l", "Exists", "", "", None), False),
        (DeviceToleration("k", "Exists", "", "NoExecute", None), False),
        (DeviceToleration("k", "Newer", "v", "", None), False),
    ],
)
def test_tolerations(toleration: DeviceToleration, expected: bool) -> None:
    taint = DeviceTaint("k", "v", "NoSchedule", None)
    assert tolerates(toleration, taint) is expected
    assert prevent_allocation([taint], [toleration]) is not expected


@pytest.mark.parametrize("effect", ["None", "NewEffect", ""])
def test_other_effects_prevent_nothing(effect: str) -> None:
    assert not prevent_allocation([DeviceTaint("k", "v", effect, None)], [])


# --- consumable capacity: upstream's unit tests, our numbers ---------------------------------------------


def quantity(text: str | None) -> Quantity | None:
    return None if text is None else Quantity.parse(text)


@pytest.mark.parametrize(
    ("asked", "value", "policy", "expected"),
    [
        pytest.param(None, "8", None, "8", id="empty"),
        pytest.param("3", "8", None, "3", id="no-policy"),
        pytest.param("9", "8", None, None, id="more-than-there-is"),
        pytest.param(None, "8", {"default": "2"}, "2", id="default"),
        pytest.param("3", "8", {"default": "2"}, "3", id="default-only-policy"),
        pytest.param("1", "8", {"default": "2", "range": ("2", None, None)}, "2", id="min-in-range"),
        pytest.param("5", "8", {"default": "2", "range": ("2", None, None)}, "5", id="more-than-min"),
        pytest.param("4", "8", {"default": "1", "range": ("1", None, "2")}, "5", id="step-round-up"),
        pytest.param("5", "8", {"default": "1", "range": ("1", None, "2")}, "5", id="step-no-remainder"),
        pytest.param("5", "8", {"default": "1", "range": ("1", "4", None)}, None, id="more-than-maximum"),
        pytest.param("8", "8", {"default": "1", "range": ("1", None, "2")}, None, id="rounded-beyond-the-value"),
        pytest.param("2", "8", {"default": "1", "values": ("1", "2", "4")}, "2", id="valid-value"),
        pytest.param("3", "8", {"default": "1", "values": ("1", "2", "4")}, "4", id="set-round-up"),
        pytest.param("5", "8", {"default": "1", "values": ("1", "2", "4")}, None, id="larger-than-set"),
        pytest.param("0", "8", {"default": "0", "values": ("0",)}, "0", id="zero"),
        pytest.param("1", "8", {"default": "0", "values": ("0",)}, None, id="violates-zero"),
        pytest.param("300m", "8", {"default": "1", "range": ("0", None, "2")}, "2", id="fraction-counts-as-one"),
        pytest.param("3", "8", {"default": "1", "range": ("1", None, "0")}, None, id="no-division-by-a-zero-step"),
    ],
)
def test_consumed_capacity(asked: str | None, value: str, policy: dict[str, Any] | None, expected: str | None) -> None:
    rules = None
    if policy is not None:
        valid = policy.get("range")
        rules = RequestPolicy(
            quantity(policy.get("default")),
            tuple(Quantity.parse(text) for text in policy.get("values", ())),
            None if valid is None else ValidRange(*map(quantity, valid)),
        )
    capacity = {"memory": DeviceCapacity(Quantity.parse(value), rules)}
    requests = {} if asked is None else {"memory": Quantity.parse(asked)}

    consumption = consume(requests, capacity, Features(kubernetes="1.36"), "d")

    assert (None if consumption is None else str(consumption.amounts[0][1])) == expected


def test_a_capacity_that_is_not_defined_cannot_be_requested() -> None:
    assert consume({"cores": Quantity.parse("1")}, {}, Features(kubernetes="1.36"), "d") is None


def test_1_37_refuses_amounts_it_cannot_compute_with() -> None:
    valid = ValidRange(Quantity.parse("1"), None, Quantity.parse("1"))
    policy = RequestPolicy(Quantity.parse("1"), (), valid)
    capacity = {"memory": DeviceCapacity(Quantity.parse("10"), policy)}
    with pytest.raises(CapacityError, match="cannot be represented"):
        consume({"memory": Quantity.parse("10E")}, capacity, Features(), "d")
    assert consume({"memory": Quantity.parse("10E")}, capacity, Features(kubernetes="1.36"), "d") is None


# --- reading ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"driver": 3}, "ResourceSlice s: spec.driver: expected a string, got an integer (3)"),
        ({"pool": []}, "ResourceSlice s: spec.pool: expected an object, got a list"),
        ({"devices": {}}, "ResourceSlice s: spec.devices: expected a list, got an object"),
        ({"devices": ["x"]}, "ResourceSlice s: spec.devices[0]: expected an object, got a string ('x')"),
        ({"allNodes": "yes"}, "ResourceSlice s: spec.allNodes: expected true or false, got a string ('yes')"),
        (
            {"devices": [{"name": "d"}, {"name": "e", "attributes": {"model": {"string": 5}}}]},
            "ResourceSlice s: spec.devices[1].attributes[model].string: expected a string, got an integer (5)",
        ),
        (
            {"devices": [{"name": "e", "attributes": {"model": {"string": []}}}]},
            "ResourceSlice s: spec.devices[0].attributes[model].string: expected a string, got a list",
        ),
        (
            {"devices": [{"name": "e", "capacity": {"memory": {"value": "8Gx"}}}]},
            "ResourceSlice s: spec.devices[0].capacity[memory].value: '8Gx' is not a quantity: quantities must match "
            "the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"devices": [{"name": "e", "capacity": {"memory": {"value": "9" * 2000}}}]},
            f"ResourceSlice s: spec.devices[0].capacity[memory].value: '{'9' * 64}' is not a quantity: unable to parse "
            "numeric part of quantity",
        ),
        (
            {"devices": [{"name": "e", "basic": {}}]},
            "ResourceSlice s: spec.devices[0].basic: resource.k8s.io/v1 has no such field; convert the object from "
            "v1beta1",
        ),
        (
            {"pool": {"generation": "1"}},
            "ResourceSlice s: spec.pool.generation: expected an integer, got a string ('1')",
        ),
        (
            {
                "devices": [
                    {"name": "e", "capacity": {"m": {"value": "8", "requestPolicy": {"validRange": {"min": []}}}}}
                ]
            },
            "ResourceSlice s: spec.devices[0].capacity[m].requestPolicy.validRange.min: expected a quantity like 10Gi, "
            "got a list",
        ),
        (
            {"sharedCounters": [{"name": "x", "counters": {"m": {}}}]},
            "ResourceSlice s: spec.sharedCounters[0].counters[m].value: missing",
        ),
    ],
)
def test_a_slice_that_cannot_be_read_says_where(change: dict[str, Any], text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_slice({"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": {"name": "p"}, **change}})
    assert str(caught.value) == text


def test_a_claim_of_an_old_api_version_says_so() -> None:
    with pytest.raises(DecodeError, match=r"spec\.devices\.requests\[0\]\.deviceClassName: .*below `exactly`"):
        decode_claim_spec({"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}})


def test_objects_without_a_body_are_refused() -> None:
    for decode, what in ((decode_slice, "ResourceSlice"), (decode_class, "DeviceClass")):
        with pytest.raises(DecodeError, match=what):
            decode({"metadata": {"name": "x"}})
        with pytest.raises(DecodeError, match="expected an object"):
            decode([])
    with pytest.raises(DecodeError, match=r"status\.allocation"):
        decode_allocation("x")


def test_equal_claim_specs_are_one_object_and_null_means_absent() -> None:
    spec = claim(request())["spec"]
    assert decode_claim_spec(spec) is decode_claim_spec(claim(request())["spec"])
    assert decode_claim_spec(spec) is not decode_claim_spec(claim(request(count=2))["spec"])
    read = decode_slice(
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "d",
                "pool": {"name": "p"},
                "nodeName": None,
                "devices": [
                    {"name": "x", "attributes": None, "capacity": None, "taints": None, "consumesCounters": None}
                ],
            },
        }
    )
    assert read.node_name is None
    assert read.devices[0].attributes == {}


def test_allocations_survive_the_way_through_json() -> None:
    reply = answer(
        [
            pool(
                device(
                    "a",
                    memory="8Gi",
                    allowMultipleAllocations=True,
                    bindingConditions=["x"],
                    bindingFailureConditions=["y"],
                    taints=[{"key": "k", "effect": "NoSchedule"}],
                )
            )
        ],
        [
            claim(
                request(tolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": 3}]),
                config=[{"opaque": {"driver": "driver-a", "parameters": {"a": [1, None]}}}],
            )
        ],
    )
    (encoded,) = reply["allocations"]
    assert encode_allocation(decode_allocation(encoded)) == encoded
    assert encoded["devices"]["results"][0]["tolerations"] == [
        {"key": "k", "operator": "Exists", "tolerationSeconds": 3}
    ]


# --- the inventory's answers about change ----------------------------------------------------------------


def test_a_nodes_own_slice_affects_the_nodes_of_its_pool_only() -> None:
    inventory = Inventory([decode_slice(pool(device("a"), nodeName="n1", slice_name="s1", size=2))])
    assert inventory.put_slice(decode_slice(pool(device("b"), nodeName="n2", slice_name="s2", size=2))) == {"n1", "n2"}
    assert inventory.put_slice(decode_slice(pool(device("c"), nodeName="n3", name="other"))) == {"n3"}
    assert inventory.put_slice(decode_slice(pool(device("d"), slice_name="s3", allNodes=True))) is None
    assert inventory.remove_slice("s3") is None
    assert inventory.remove_slice("s2") == {"n1", "n2"}
    assert inventory.remove_slice("s2") == frozenset()


def test_revisions_grow_with_every_change() -> None:
    inventory = Inventory()
    seen = [inventory.revision]
    for change in (
        lambda: inventory.put_slice(decode_slice(pool(device("a")))),
        lambda: inventory.put_class(decode_class(device_class())),
        lambda: inventory.remove_class("class-a"),
        lambda: inventory.remove_slice("pool-1-driver-a"),
    ):
        change()
        seen.append(inventory.revision)
    assert seen == sorted(set(seen))
    assert inventory.classes_revision == 2


def test_new_labels_of_a_node_are_seen() -> None:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    inventory = Inventory([decode_slice(pool(device("a"), nodeSelector=selector))])
    sizes = [inventory.node_pools(NodeView("n", {"zone": zone}), Features()).size for zone in ("a", "b", "a")]
    assert sizes == [1, 0, 1]


# --- which nodes at all ----------------------------------------------------------------------------------


def test_nodes_that_cannot_serve_the_claims_are_left_out() -> None:
    slices = [
        pool(*(device(f"d{n}", model=model) for n in range(count)), name=node, nodeName=node)
        for node, count, model in (("n1", 1, "x"), ("n2", 2, "x"), ("n3", 2, "y"), ("n4", 3, "x"))
    ]
    question = case(slices, [claim(request(count=2, cel='device.attributes["driver-a"].model == "x"'))])
    inventory, claims = inventory_of(question), claims_of(question)

    assert candidate_nodes(claims, inventory, Features()) == {"n2", "n4"}
    inventory.put_slice(
        decode_slice(
            pool(device("d0", model="x"), device("d1", model="x"), name="n1", nodeName="n1", slice_name="n1-driver-a")
        )
    )
    assert candidate_nodes(claims, inventory, Features()) == {"n1", "n2", "n4"}
    inventory.remove_slice("n4-driver-a")
    assert candidate_nodes(claims, inventory, Features()) == {"n1", "n2"}
    inventory.put_slice(decode_slice(pool(device("s0", model="x"), name="net", allNodes=True)))
    assert candidate_nodes(claims, inventory, Features()) == {"n1", "n2"}
    inventory.put_slice(decode_slice(pool(*(device(f"s{n}", model="x") for n in range(2)), name="net2", allNodes=True)))
    assert candidate_nodes(claims, inventory, Features()) is None


def test_the_prefilter_answers_once_for_classes_that_select_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from allocator.answers import prefilter

    asked = []
    answer_afresh = prefilter._candidate_nodes
    monkeypatch.setattr(
        prefilter, "_candidate_nodes", lambda plan, inventory: asked.append(plan) or answer_afresh(plan, inventory)
    )
    slices = [pool(device("d"), name="a", nodeName="node-a"), pool(name="b", nodeName="node-b")]
    same, other = device_class("class-1"), device_class("class-2", "driver-b")
    inventory = Inventory(map(decode_slice, slices), map(decode_class, [device_class(), same, other]))
    found = [
        candidate_nodes(
            [Claim("ns", "c", decode_claim_spec(claim(request(count=count, cls=cls))["spec"]))], inventory, Features()
        )
        for cls, count in (("class-a", 1), ("class-1", 1), ("class-2", 1), ("class-a", 2), ("class-1", 1))
    ]
    assert found == [{"node-a"}, {"node-a"}, set(), set(), {"node-a"}]
    assert len(asked) == 3
    inventory.remove_slice("a-driver-a")
    again = decode_claim_spec(claim(request(cls="class-1"))["spec"])
    assert candidate_nodes([Claim("ns", "c", again)], inventory, Features()) == set()


@pytest.mark.slow
def test_the_prefilter_leaves_out_unsatisfiable_nodes_only() -> None:
    generator = Generator(77)
    left_out = 0
    for _ in range(600):
        question = generator.case()
        if question.get("features"):
            continue
        nodes = candidate_nodes(claims_of(question), inventory_of(question), Features())
        if nodes is not None and NODE["metadata"]["name"] not in nodes and "node-a" not in nodes:
            left_out += 1
            reply = ask(question)
            assert reply["outcome"] == "none" or "invalid resource pools" in reply["error"], question["name"]
    assert left_out > 20


# --- why not ---------------------------------------------------------------------------------------------


def test_the_package_imported_as_cel_is_ours() -> None:
    import cel

    assert cel.__file__ is not None
    assert Path(cel.__file__).is_relative_to(ROOT)


# --- limits ----------------------------------------------------------------------------------------------


def test_a_first_choice_with_too_many_devices_gives_way() -> None:
    devices = [device(f"d{number}") for number in range(40)]
    wanted = claim(first_of("a", asks(32), asks(16)), first_of("b", asks(32), asks(16)))
    reply = answer([pool(*devices)], [wanted])

    assert [entry.partition("=")[0] for entry in picked(reply)] == ["a/sub-1"] * 16 + ["b/sub-1"] * 16


@pytest.mark.slow
def test_many_claims_need_no_deep_recursion() -> None:
    devices = [device(f"d{number}", memory="1Ti", allowMultipleAllocations=True) for number in range(32)]
    claims = [claim(request(count=32, memory="1Gi"), name=f"c{number}") for number in range(60)]

    assert len(picked(answer([pool(*devices)], claims))) == 60 * 32


# --- what is remembered per node ---------------------------------------------------------------------------


def test_a_ledger_that_changes_between_questions_is_followed_change_by_change() -> None:
    """One node of many pools, thousands of changes: what is kept per node equals what a new inventory says."""
    slices = [
        decode_slice(
            pool(
                *(device(f"d{n}", memory="8", allowMultipleAllocations=n % 2 == 0) for n in range(3)),
                name=f"pool-{number:02}",
                allNodes=True,
            )
        )
        for number in range(20)
    ]
    inventory, node, rnd = Inventory(slices), NodeView("n", {}), random.Random(9)
    in_use, held = InUse(), []
    pools = inventory.node_pools(node, Features())
    for round_ in range(600):
        if held and rnd.random() < 0.45:
            in_use.remove(held.pop(rnd.randrange(len(held))))
        else:
            name = rnd.randrange(3)
            share = {"share_id": "s", "consumed_capacity": (("memory", Quantity.parse("1")),)} if name % 2 == 0 else {}
            held.append(
                Allocation((DeviceResult("r", "driver-a", f"pool-{rnd.randrange(22):02}", f"d{name}", **share),))
            )
            in_use.add(held[-1])
        if rnd.random() < 0.2 or round_ == 599:
            kept = pools.use_of(in_use)
            fresh = Inventory(slices).node_pools(node, Features()).use_of(in_use)
            assert (kept.dedicated, kept.sharing) == (fresh.dedicated, fresh.sharing)
            assert kept.used == fresh.used
    other = InUse(held[:1])
    assert pools.use_of(other).used.keys() <= pools.use_of(in_use).used.keys()


@pytest.mark.slow
def test_a_match_over_a_large_inventory_looks_at_values_once() -> None:
    """2,000 pools whose devices all have an attribute of their own: no two match, and that is seen quickly."""
    slices = [
        pool(
            device("a", uuid=f"{number}-a", rack=number // 4),
            device("b", uuid=f"{number}-b", rack=number // 4),
            name=f"pool-{number:04}",
            allNodes=True,
        )
        for number in range(2000)
    ]
    unique = claim(request(count=2), constraints=[{"matchAttribute": "driver-a/uuid"}])
    rack = claim(request(count=8), constraints=[{"matchAttribute": "driver-a/rack"}])

    assert picked(answer(slices, [unique])) == ["none"]
    reply = answer(slices, [rack], held=["driver-a/pool-0000/a"])
    assert [result["pool"] for result in reply["allocations"][0]["devices"]["results"]][::2] == [
        "pool-0004",
        "pool-0005",
        "pool-0006",
        "pool-0007",
    ]
    assert reply["steps"] == 11


def test_a_selector_that_fails_is_evaluated_once_and_not_on_every_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation that reaches the cost limit takes long, and the pod fails at the first anyway."""
    from allocator.requests.selectors import Matcher

    calls = []
    evaluate = Matcher._evaluate
    monkeypatch.setattr(
        Matcher, "_evaluate", lambda self, device, *read: calls.append(device) or evaluate(self, device, *read)
    )
    slices = [pool(device("a", uuid=f"{number}"), name=f"pool-{number:02}", allNodes=True) for number in range(50)]
    wanted = claim(request(cel='device.attributes["driver-a"].uuid == "x" || device.attributes["driver-a"].missing'))
    question = case(slices, [wanted])

    (text,) = picked(ask(question))

    assert text.endswith("no such key: missing")
    assert len(calls) <= 2
    calls.clear()
    own = case(
        [
            {**slice_, "spec": {**slice_["spec"], "allNodes": False, "nodeName": f"n{number}"}}
            for number, slice_ in enumerate(slices)
        ],
        [wanted],
    )
    assert candidate_nodes(claims_of(own), inventory_of(own), Features()) is None
    assert len(calls) <= 10


def test_what_is_behind_a_failure_is_decided_when_it_is_reached() -> None:
    """The device whose selector fails is in use, so nobody asks it; those behind it must still be found."""
    slices = [pool(device("a"), device("b", size=1)), pool(device("c", size=2), name="pool-2")]
    wanted = claim(request(count=2, cel='device.attributes["driver-a"].size > 0'))

    assert picked(answer(slices, [wanted], held=["driver-a/pool-1/a"])) == ["req-0=b", "req-0=c"]
    assert picked(answer(slices, [wanted])) == [
        "claim default/claim-0: selector #0: CEL runtime error: no such key: size"
    ]


def test_giving_up_early_never_hides_a_failure_that_a_request_itself_would_meet() -> None:
    """r1 cannot be served whatever r0 gets; r0 still tries its next device, on which its selector fails."""
    slices = [pool(device("a", size=1), device("bad"))]
    wanted = claim(request("r0", cel='device.attributes["driver-a"].size > 0'), request("r1", cls="class-b"))

    for shortcuts in (ALL_SHORTCUTS, Shortcuts.none()):
        assert picked(answer(slices, [wanted], shortcuts=shortcuts)) == [
            "claim default/claim-0: selector #0: CEL runtime error: no such key: size"
        ]
