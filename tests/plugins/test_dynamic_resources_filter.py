"""DynamicResources from PreFilter to Score: which nodes do, and why not."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from allocator import Features
from scheduler.framework.cycle import Cycle
from scheduler.framework.decisions import WriteClaimStatus
from scheduler.framework.status import SKIP, SUCCESS, Code, Status
from scheduler.model.claim import Consumer
from scheduler.model.held import Held
from scheduler.model.keys import ClaimKey, ClaimUid
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.plugins.dynamic_resources.device_equivalence import DeviceLikeness
from scheduler.plugins.dynamic_resources.node_search import NodeSearch, preference
from tests.plugins.cluster import (
    DRIVER,
    NOW_MS,
    Cluster,
    NoDryRun,
    allocation,
    cel,
    claim,
    condition,
    cycle_of,
    exactly,
    first_available,
    gpu,
    info_of,
    node_slice,
    pod_with,
    rfc3339,
    templated_pod,
)
from tests.plugins.objects import node_info, pod

UAU = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
NO_SOLUTION = "cannot allocate all claims"
UNAVAILABLE = "resourceclaim not available on the node"
TIMEOUT_MS = 600_000


@dataclass
class Attempt:
    """What one attempt came to, up to PostFilter."""

    cycle: Cycle
    pre_filter: Status
    verdicts: dict[str, Status] = field(default_factory=dict)

    def texts(self) -> dict[str, str]:
        return {name: status.message if not status.is_success else "ok" for name, status in self.verdicts.items()}


def attempt(view: Cluster, one, plugin=None) -> Attempt:
    plugin = plugin or DynamicResources(binding_timeout_ms=TIMEOUT_MS)
    cycle = cycle_of(one)
    made = Attempt(cycle, plugin.pre_filter(cycle, view).status)
    if made.pre_filter.is_success:
        made.verdicts = {
            name: plugin.filter(cycle, info, view).by(plugin.name) for name, info in view.node_infos.items()
        }
    return made


def post_filter(view: Cluster, made: Attempt, plugin=None):
    plugin = plugin or DynamicResources(binding_timeout_ms=TIMEOUT_MS)
    refused = {name: status for name, status in made.verdicts.items() if not status.is_success}
    return plugin.post_filter(made.cycle, refused, view, NoDryRun())


def one_node(*devices, claims=(), **fields) -> Cluster:
    return Cluster(node_info(), slices=[node_slice("node", *devices)] if devices else [], claims=claims, **fields)


def two_nodes(*, claims=(), first=None, second=None, **fields) -> Cluster:
    """Nodes a and b with one device each, unless told otherwise."""
    slices = [node_slice("a", *(first or [gpu()])), node_slice("b", *(second or [gpu()]))]
    return Cluster(node_info("a"), node_info("b"), slices=slices, claims=claims, **fields)


# --- PreFilter --------------------------------------------------------------------------------------------------------


def test_pre_filter_skips_a_pod_without_claims_and_post_filter_has_nothing_to_free() -> None:
    made = attempt(one_node(), pod())
    assert made.pre_filter == SKIP
    assert post_filter(one_node(), made).status == Status.unschedulable()


def test_pre_filter_skips_a_pod_whose_entries_need_no_claims() -> None:
    assert attempt(one_node(), templated_pod(None)).pre_filter == SKIP


@pytest.mark.parametrize(
    ("request_", "features", "want"),
    [
        pytest.param(
            exactly(device_class="tpu"),
            Features(),
            Status.unresolvable("request req: device class tpu does not exist"),
            id="unknown-class",
        ),
        pytest.param(
            exactly(device_class=""),
            Features(),
            Status.error("request req: unsupported request type"),
            id="request-without-class",
        ),
        pytest.param(
            {"name": "req"},
            Features(),
            Status.unresolvable("resource claim default/claim, request req: unknown request type"),
            id="request-of-a-newer-type",
        ),
        pytest.param(
            first_available("req", ("big", {}), ("small", {"deviceClassName": "tpu"})),
            Features(),
            Status.unresolvable("request req/small: device class tpu does not exist"),
            id="every-alternative-needs-its-class",
        ),
        pytest.param(
            first_available("req", ("big", {})),
            Features(prioritized_list=False),
            Status.unresolvable(
                "resource claim default/claim, request req: has subrequests, but the DRAPrioritizedList feature is "
                "disabled"
            ),
            id="alternatives-with-the-feature-off",
        ),
    ],
)
def test_pre_filter_refuses_requests_nobody_can_serve(request_, features, want) -> None:
    view = one_node(gpu(), claims=[claim("claim", request_)], features=features)
    assert attempt(view, pod_with("claim")).pre_filter == want


def test_pre_filter_waits_for_a_claim_held_for_another_pod() -> None:
    view = one_node(gpu(), claims=[claim()])
    view.hold(Held(ClaimKey("default", "claim"), ClaimUid("uid-of-claim"), allocation("node", "gpu-0")))
    want = Status.unresolvable("resource claim default/claim is in the process of being allocated")
    assert attempt(view, pod_with("claim")).pre_filter == want


def test_pre_filter_refuses_a_claim_that_can_take_no_more_consumers() -> None:
    many = tuple(Consumer("pods", f"p{index}", f"u{index}") for index in range(256))
    full = claim(allocation=allocation("node", "gpu-0"))
    view = one_node(gpu(), claims=[full])
    view.change(full.key, reserved_for=many)
    assert attempt(view, pod_with("claim")).pre_filter == Status.unresolvable(
        "resourceclaim in use: default/claim has 256 consumers already"
    )
    view.change(full.key, reserved_for=(*many[1:], Consumer("pods", "pod", "uid-of-pod")))
    assert attempt(view, pod_with("claim")).texts() == {"node": "ok"}


# --- Filter -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "claims", "features", "want"),
    [
        pytest.param([], [claim()], None, NO_SOLUTION, id="no-devices"),
        pytest.param([gpu()], [claim()], None, "ok", id="a-free-device"),
        pytest.param(
            [gpu()], [claim(), claim("x", allocation=allocation("node", "gpu-0"))], None, NO_SOLUTION, id="it-is-taken"
        ),
        pytest.param(
            [gpu(), gpu("gpu-1")],
            [claim(), claim("x", allocation=allocation("node", "gpu-0"))],
            None,
            "ok",
            id="another-is-free",
        ),
        pytest.param(
            [gpu()],
            [claim(), claim("x", allocation=allocation("node", "gpu-0", adminAccess=True))],
            None,
            "ok",
            id="admin-access-takes-nothing",
        ),
        pytest.param(
            [gpu()],
            [claim("claim", exactly(adminAccess=True)), claim("x", allocation=allocation("node", "gpu-0"))],
            None,
            "ok",
            id="admin-access-shares-what-is-taken",
        ),
        pytest.param(
            [gpu()],
            [claim("claim", exactly(adminAccess=True))],
            Features(admin_access=False),
            "claim default/claim, request req: admin access is requested, but the feature is disabled",
            id="admin-access-with-the-feature-off",
        ),
        pytest.param(
            [gpu(taints=[{"key": "sick", "effect": "NoSchedule"}])], [claim()], None, NO_SOLUTION, id="a-tainted-device"
        ),
        pytest.param(
            [gpu(taints=[{"key": "sick", "effect": "NoSchedule"}])],
            [claim()],
            Features(device_taints=False),
            "ok",
            id="a-tainted-device-with-the-feature-off",
        ),
        pytest.param(
            [gpu()],
            [claim("claim", exactly(**cel('device.attributes["gpu.example.com"].model == "a100"')))],
            None,
            None,
            id="a-selector-that-fails-is-an-error",
        ),
        pytest.param(
            [gpu(), gpu()],
            [claim()],
            None,
            "invalid resource pools were encountered",
            id="a-pool-that-contradicts-itself",
        ),
    ],
)
def test_filter_on_one_node(devices, claims, features, want) -> None:
    made = attempt(one_node(*devices, claims=claims, features=features), pod_with("claim"))
    verdict = made.verdicts["node"]
    if want == "ok":
        assert verdict == SUCCESS.by("DynamicResources")
    elif want in (NO_SOLUTION, "invalid resource pools were encountered"):
        assert (verdict.code, verdict.message) == (UAU, want)
    else:
        assert verdict.code is Code.ERROR
        assert want is None or verdict.message == want
        assert want is not None or "no such key: model" in verdict.message


def test_filter_error_of_one_node_leaves_the_other_verdict_alone() -> None:
    model = {"model": {"string": "a100"}}
    wants_a100 = claim("claim", exactly(**cel('device.attributes["gpu.example.com"].model == "a100"')))
    view = two_nodes(claims=[wants_a100], second=[gpu(attributes=model)])
    verdicts = attempt(view, pod_with("claim")).verdicts
    assert (verdicts["a"].code, verdicts["b"].code) == (Code.ERROR, Code.SUCCESS)


@pytest.mark.parametrize(
    ("budget_steps", "want"), [(1, "timed out trying to allocate devices (search budget of 1 steps)"), (500, "ok")]
)
def test_filter_passes_over_a_node_whose_search_budget_ran_out(budget_steps, want) -> None:
    together = {"constraints": [{"matchAttribute": "gpu.example.com/numa"}]}
    devices = [gpu(f"gpu-{index}", attributes={"numa": {"int": index % 3}}) for index in range(8)]
    view = one_node(*devices, claims=[claim("claim", exactly("x", count=2), exactly("y"), spec=together)])
    made = attempt(view, pod_with("claim"), DynamicResources(budget_steps=budget_steps))
    assert made.texts() == {"node": want}
    assert made.verdicts["node"].code in (UAU, Code.SUCCESS)


@pytest.mark.parametrize(
    ("stored", "want", "frees"),
    [
        pytest.param(allocation("a", "gpu-0"), {"a": "ok", "b": UNAVAILABLE}, None, id="allocated-on-one-node"),
        pytest.param(allocation("", "gpu-0"), {"a": "ok", "b": "ok"}, None, id="allocated-for-every-node"),
        pytest.param(
            allocation("gone", "gpu-0"), {"a": UNAVAILABLE, "b": UNAVAILABLE}, "claim", id="allocated-elsewhere"
        ),
    ],
)
def test_filter_of_an_allocated_claim(stored, want, frees) -> None:
    view = two_nodes(claims=[claim(allocation=stored)])
    made = attempt(view, pod_with("claim"))
    assert made.texts() == want
    if "ok" not in want.values():
        result = post_filter(view, made)
        assert [decision.claim.name for decision in result.decisions] == [frees]
        assert result.status == Status.unresolvable("deallocation of ResourceClaim completed")


@pytest.mark.parametrize(
    ("declared", "skipped", "want"),
    [
        (["DRAOptionalNodeOperations"], ("*",), "ok"),
        (["Other"], ("*",), UNAVAILABLE),
        (None, ("NodeUnprepareResources",), UNAVAILABLE),
        (None, (), "ok"),
    ],
)
def test_filter_of_an_allocation_that_skips_node_operations(declared, skipped, want) -> None:
    stored = allocation("", "gpu-0")
    stored = structs.replace(
        stored, results=tuple(structs.replace(one, skip_node_operations=skipped) for one in stored.results)
    )
    view = Cluster(node_info("a", declaredFeatures=declared), claims=[claim(allocation=stored)])
    made = attempt(view, pod_with("claim"))
    assert made.texts() == {"a": want}
    if want == UNAVAILABLE:
        assert [decision.claim.name for decision in post_filter(view, made).decisions] == ["claim"]


def test_nodes_of_equal_devices_are_not_alike_where_one_cannot_skip_operations() -> None:
    slices = [node_slice(name, gpu()) for name in "abc"]
    for one in slices:
        one["spec"]["skipNodeOperations"] = ["*"]
    can = {"declaredFeatures": ["DRAOptionalNodeOperations"]}
    infos = [node_info("a", **can), node_info("b"), node_info("c", **can)]
    view, likeness = Cluster(*infos, slices=slices), DeviceLikeness()
    first, other, third = [likeness.of(info.host, view) for info in infos]
    assert first == third != other


def test_results_of_claims_allocated_before_and_now_are_not_mixed_up() -> None:
    before = claim("before", exactly("old"), allocation=allocation("a", "gpu-0", request="old"))
    view = two_nodes(claims=[claim("first", exactly("one")), before, claim("last", exactly("two"))])
    view.inventory.put_slice(_slice_of("a", 4))
    one = pod_with("first", "before", "last")
    plugin = DynamicResources()
    made = attempt(view, one, plugin)
    assert made.texts() == {"a": "ok", "b": NO_SOLUTION}
    result = plugin.reserve(made.cycle, info_of(view, "a"), view)
    assert [(held.claim.name, [r.request for r in held.allocation.results]) for held in result.held] == [
        ("first", ["one"]),
        ("last", ["two"]),
    ]


def _slice_of(name: str, count: int):
    from allocator import decode_slice

    return decode_slice(node_slice(name, *(gpu(f"gpu-{index}") for index in range(count))))


def test_an_unallocatable_claim_hides_that_another_is_elsewhere() -> None:
    # Freeing the one that is elsewhere would not help while the other cannot be allocated: PostFilter must not do it.
    view = Cluster(
        node_info("a"),
        node_info("b"),
        slices=[],
        claims=[claim("x"), claim("y", allocation=allocation("gone", "gpu-0"))],
    )
    made = attempt(view, pod_with("x", "y"))
    assert made.texts() == {"a": NO_SOLUTION, "b": NO_SOLUTION}
    result = post_filter(view, made)
    assert (result.status, result.decisions) == (Status.unschedulable(), ())


# --- PostFilter -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reserved_for", "frees"),
    [
        pytest.param([], True, id="nobody-uses-it"),
        pytest.param([pod()], True, id="only-this-pod-uses-it"),
        pytest.param([pod("other")], False, id="another-pod-uses-it"),
        pytest.param([pod(), pod("other")], False, id="another-pod-uses-it-too"),
    ],
)
def test_post_filter_frees_only_what_no_one_else_uses(reserved_for, frees) -> None:
    stuck = claim(allocation=allocation("gone", "gpu-0"), reserved_for=reserved_for, revision=7)
    view = two_nodes(claims=[stuck])
    result = post_filter(view, attempt(view, pod_with("claim")))
    want = (WriteClaimStatus(stuck.key, stuck.uid, 7, clear_allocation=True),) if frees else ()
    assert result.decisions == want
    assert result.status.message == ("deallocation of ResourceClaim completed" if frees else "")


@pytest.mark.parametrize("is_placed", [True, False])
def test_post_filter_leaves_alone_what_a_pod_on_a_node_is_about_to_reserve(is_placed) -> None:
    view = two_nodes(claims=[claim(allocation=allocation("gone", "gpu-0"))])
    other = pod_with("claim", name="other")
    view.put_pods(other)
    if is_placed:
        info_of(view, "a").add_pod(other)
    assert len(post_filter(view, attempt(view, pod_with("claim"))).decisions) == (0 if is_placed else 1)


def test_post_filter_frees_one_claim_at_a_time() -> None:
    stuck = [claim(name, allocation=allocation("gone", name)) for name in ("x", "y")]
    view = two_nodes(claims=stuck)
    result = post_filter(view, attempt(view, pod_with("y", "x")))
    assert [decision.claim.name for decision in result.decisions] == ["y"]


def test_post_filter_works_on_remembered_verdicts() -> None:
    # Filter is not called in this cycle at all: the framework remembers the verdicts of another pod of the same shape.
    view = two_nodes(claims=[claim(allocation=allocation("gone", "gpu-0"))])
    earlier = attempt(view, pod_with("claim"))
    plugin = DynamicResources()
    cycle = cycle_of(pod_with("claim", name="second"))
    assert plugin.pre_filter(cycle, view).status.is_success
    assert len(plugin.post_filter(cycle, earlier.verdicts, view, NoDryRun()).decisions) == 1


def test_post_filter_leaves_a_claim_alone_when_other_plugins_refused_the_nodes() -> None:
    view = two_nodes(claims=[claim(allocation=allocation("gone", "gpu-0"))])
    plugin = DynamicResources()
    cycle = cycle_of(pod_with("claim"))
    plugin.pre_filter(cycle, view)
    refused = {name: Status.unschedulable("Insufficient cpu").by("NodeResourcesFit") for name in view.node_infos}
    assert plugin.post_filter(cycle, refused, view, NoDryRun()).decisions == ()


# --- binding conditions in Filter -------------------------------------------------------------------------------------

BINDING = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}


@pytest.mark.parametrize(
    ("conditions", "allocated_ago_ms", "features", "want"),
    [
        pytest.param([], 0, None, "ok", id="still-waiting"),
        pytest.param([condition("attached")], TIMEOUT_MS * 2, None, "ok", id="ready-however-long-ago"),
        pytest.param([condition("broken")], 0, None, UNAVAILABLE, id="failed"),
        pytest.param([condition("broken", "False")], 0, None, "ok", id="a-failure-condition-that-is-false"),
        pytest.param([], TIMEOUT_MS, None, UNAVAILABLE, id="timed-out"),
        pytest.param([], TIMEOUT_MS - 1000, None, "ok", id="not-timed-out-yet"),
        pytest.param(
            [condition("broken")],
            TIMEOUT_MS,
            Features(device_binding_and_status=False),
            "ok",
            id="with-the-feature-off",
        ),
    ],
)
def test_filter_gives_up_on_a_claim_by_its_binding_conditions(conditions, allocated_ago_ms, features, want) -> None:
    waiting = claim(
        allocation=allocation("node", "gpu-0", **BINDING),
        allocation_timestamp=rfc3339(NOW_MS - allocated_ago_ms),
        device_conditions=tuple(conditions),
    )
    view = one_node(gpu(), claims=[waiting], features=features)
    made = attempt(view, pod_with("claim"))
    assert made.texts() == {"node": want}
    assert len(post_filter(view, made).decisions) == (0 if want == "ok" else 1)


# --- Score ------------------------------------------------------------------------------------------------------------

BIG = cel("device.driver == 'big.example.com'")
SMALL = cel("device.driver == 'gpu.example.com'")
CHOICE = first_available("req", ("big", BIG), ("small", SMALL))


def scores(view: Cluster, one) -> tuple[list[int], list[int]]:
    plugin = DynamicResources()
    made = attempt(view, one, plugin)
    assert set(made.texts().values()) == {"ok"}
    nodes = list(view.node_infos.values())
    assert plugin.pre_score(made.cycle, nodes, view) == SUCCESS
    raw = {info.name: plugin.score(made.cycle, info, view) for info in nodes}
    fresh = dict(raw)
    plugin.normalize_score(made.cycle, fresh)
    remembered = cycle_of(one)  # a cycle in which Filter was not called: the same scores
    plugin.pre_filter(remembered, view)
    assert {info.name: plugin.score(remembered, info, view) for info in nodes} == raw
    return list(raw.values()), list(fresh.values())


@pytest.mark.parametrize(
    ("claims", "raw", "normalized"),
    [
        pytest.param([claim("c0", CHOICE)], [8, 7], [100, 87], id="one-claim"),
        pytest.param(
            [claim("c0", CHOICE), claim("c1", first_available("req", ("big", BIG), ("small", SMALL)))],
            [15, 14],
            [100, 93],
            id="two-claims-add-up",
        ),
        pytest.param(
            [claim("c0", CHOICE, first_available("r2", ("small", SMALL)))],
            [16, 15],
            [100, 93],
            id="two-requests-add-up",
        ),
        pytest.param([claim("c0", CHOICE, exactly("e", **SMALL))], [8, 7], [100, 87], id="exact-requests-add-nothing"),
        pytest.param(
            [claim("c0", CHOICE), claim("c1", CHOICE, allocation=allocation("", "x", request="req/small"))],
            [15, 14],
            [100, 93],
            id="an-allocation-made-before-counts-on-every-node",
        ),
    ],
)
def test_score_prefers_nodes_that_give_earlier_alternatives(claims, raw, normalized) -> None:
    small = [gpu(f"gpu-{index}") for index in range(3)]
    view = two_nodes(claims=claims, first=small, second=small)
    from allocator import decode_slice

    view.inventory.put_slice(decode_slice(node_slice("a", gpu("big-0"), pool="a-big", driver="big.example.com")))
    assert scores(view, pod_with(*(one.key.name for one in claims))) == (raw, normalized)


@pytest.mark.parametrize(
    ("request_", "features"),
    [(exactly(), Features()), (exactly(), Features(prioritized_list=False))],
)
def test_score_is_skipped_where_nobody_has_a_choice(request_, features) -> None:
    view = one_node(gpu(), claims=[claim("claim", request_)], features=features)
    made = attempt(view, pod_with("claim"))
    assert DynamicResources().pre_score(made.cycle, [info_of(view)], view) == SKIP


@pytest.mark.parametrize(("chosen", "want"), [("req/s0", 8), ("req/s7", 1), ("req", 0), ("other/s0", 0)])
def test_preference_counts_down_from_eight(chosen, want) -> None:
    spec = claim("c", first_available("req", *((f"s{index}", {}) for index in range(8)))).spec
    assert preference(spec, allocation("a", "gpu-0", request=chosen)) == want


# --- shape ------------------------------------------------------------------------------------------------------------


def shape_of(view: Cluster, one):
    plugin = DynamicResources()
    cycle = cycle_of(one)
    assert plugin.pre_filter(cycle, view).status.is_success
    signature = plugin.signature(cycle, view)
    hash(signature)
    return signature


def test_pods_of_one_template_share_their_shape_and_others_do_not() -> None:
    owners = {name: templated_pod(f"{name}-claim", name=name) for name in ("a", "b")}
    view = one_node(gpu(), claims=[claim(f"{name}-claim", owner=owner) for name, owner in owners.items()])
    view.put(claim("two", exactly(count=2)))
    view.put(claim("taken", allocation=allocation("node", "gpu-0")))
    view.put(claim("taken-too", allocation=allocation("node", "gpu-1")))
    same = {shape_of(view, owner) for owner in owners.values()}
    others = {shape_of(view, pod_with(name)) for name in ("two", "taken", "taken-too")}
    assert (len(same), len(others), same & others) == (1, 3, set())


def test_pods_that_share_an_allocated_claim_share_their_shape() -> None:
    view = one_node(gpu(), claims=[claim(allocation=allocation("node", "gpu-0"))])
    assert shape_of(view, pod_with("claim", name="a")) == shape_of(view, pod_with("claim", name="b"))


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["free", "two", "here", "elsewhere", "anywhere"]), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(["gpu-0", "gpu-1", "gpu-2"]), unique=True),
)
def test_equal_shapes_get_equal_verdicts(kinds, taken) -> None:
    """Two pods of the same make, each with claims of its own where those are unallocated."""

    def build(kind, owner):
        match kind:
            case "free":
                return claim(f"{owner}-free")
            case "two":
                return claim(f"{owner}-two", exactly(count=2))
            case "here":
                return claim("here", allocation=allocation("node", "gpu-x"))
            case "elsewhere":
                return claim("elsewhere", allocation=allocation("gone", "gpu-x"))
            case _:
                return claim("anywhere", allocation=allocation("", "gpu-x"))

    claims = {found.key: found for owner in "ab" for kind in kinds for found in [build(kind, owner)]}
    busy = [claim("busy", allocation=allocation("node", *taken))] if taken else []
    view = one_node(*(gpu(f"gpu-{index}") for index in range(3)), claims=[*claims.values(), *busy])
    pods = [pod_with(*(build(kind, owner).key.name for kind in kinds), name=owner) for owner in "ab"]
    assert shape_of(view, pods[0]) == shape_of(view, pods[1])
    assert attempt(view, pods[0]).verdicts == attempt(view, pods[1]).verdicts


models = st.sampled_from(["a", "b", None])
wanted_models = st.sampled_from(["'a'", "'b'", "'c'", None])


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.lists(models, max_size=3), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(1, 3), wanted_models), min_size=1, max_size=2),
    st.booleans(),
)
def test_ruling_nodes_out_by_their_slices_changes_no_verdict(published, wanted, has_broken_pool) -> None:
    """The shortcut for new shapes says what the allocator would have said, errors of selectors included."""

    def device(index, model):
        return gpu(f"gpu-{index}", **({"attributes": {"model": {"string": model}}} if model else {}))

    slices = [
        node_slice(f"n{number}", *(device(index, model) for index, model in enumerate(devices)))
        for number, devices in enumerate(published)
    ]
    if has_broken_pool:
        slices.append(node_slice("n0", gpu("twice"), gpu("twice"), pool="broken"))
    requests = [
        exactly(f"r{index}", count=count, **(cel(f'device.attributes["{DRIVER}"].model == {model}') if model else {}))
        for index, (count, model) in enumerate(wanted)
    ]
    verdicts = []
    for many in (1, 10**9):
        view = Cluster(*(node_info(f"n{number}") for number in range(len(published))), slices=slices)
        view.put(claim("claim", *requests))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("scheduler.plugins.dynamic_resources.node_search._MANY_NODES", many)
            verdicts.append(attempt(view, pod_with("claim")).verdicts)
    assert verdicts[0] == verdicts[1]


def test_filter_keeps_what_it_found_per_claim_for_score_and_changes_nothing_else() -> None:
    view = one_node(gpu(), claims=[claim()])
    made = attempt(view, pod_with("claim"))
    search = made.cycle.get(NodeSearch)
    assert [[str(d) for d in found.device_ids()] for found in search.found["node"]] == [["gpu.example.com/node/gpu-0"]]
    assert (view.new_uid(), list(view.overlay.in_use.devices())) == ("uid-1", [])


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The pools of each search that the allocator makes."""
    module, made = importlib.import_module("allocator.answers.allocate"), []
    search = module.Search

    def spy(problem, **more):
        made.append([view.id.pool for view in problem.pools.pools])
        return search(problem, **more)

    monkeypatch.setattr(module, "Search", spy)
    return made


def shared_and_own() -> Cluster:
    """Four nodes see one pool; one of them has a pool of its own, too."""
    pool = {
        "metadata": {"name": "everywhere"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": "everywhere", "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [gpu("gpu-0")],
        },
    }
    nodes = [node_info(name) for name in "abcd"]
    return Cluster(*nodes, slices=[node_slice("b", gpu("own")), pool], claims=[claim(), claim("two", exactly(count=2))])


def test_nodes_that_see_the_very_same_pools_are_answered_by_one_search(searches: list[list[str]]) -> None:
    view = shared_and_own()

    made = attempt(view, pod_with("claim"))
    assert made.texts() == dict.fromkeys("abcd", "ok")
    assert searches == [["everywhere"], ["b", "everywhere"]]
    found = made.cycle.get(NodeSearch).found
    assert {name: [str(d) for one in found[name] for d in one.device_ids()] for name in found} == {
        "a": [f"{DRIVER}/everywhere/gpu-0"],
        "b": [f"{DRIVER}/b/own"],
        "c": [f"{DRIVER}/everywhere/gpu-0"],
        "d": [f"{DRIVER}/everywhere/gpu-0"],
    }

    searches.clear()
    assert attempt(view, pod_with("two")).texts() == {"a": NO_SOLUTION, "b": "ok", "c": NO_SOLUTION, "d": NO_SOLUTION}
    assert searches == [["everywhere"], ["b", "everywhere"]]


def test_a_budget_is_used_up_once_for_nodes_that_see_the_very_same_pools(searches: list[list[str]]) -> None:
    view = shared_and_own()
    for _ in range(2):  # the next attempt searches again: the first may have lost its steps to changes
        searches.clear()
        texts = attempt(view, pod_with("claim"), DynamicResources(budget_steps=1)).texts()
        assert texts == dict.fromkeys("abcd", "timed out trying to allocate devices (search budget of 1 steps)")
        assert searches == [["everywhere"], ["b", "everywhere"]]


@pytest.mark.parametrize(
    ("stored", "want"),
    [
        pytest.param([allocation("a", "gpu-0")], {"a"}, id="on-one-node"),
        pytest.param([allocation("a", "gpu-0"), allocation("b", "gpu-0")], set(), id="on-two-nodes-at-once"),
        pytest.param([allocation("a", "gpu-0"), allocation("", "gpu-0")], {"a"}, id="one-of-them-anywhere"),
        pytest.param([allocation("", "gpu-0")], None, id="anywhere"),
        pytest.param([None], None, id="nowhere-yet"),
        pytest.param([allocation("a", "gpu-0"), None], {"a"}, id="one-of-them-nowhere-yet"),
    ],
)
def test_pre_filter_names_the_only_nodes_on_which_allocated_claims_can_be_used(stored, want) -> None:
    view = two_nodes(claims=[claim(f"claim-{index}", allocation=one) for index, one in enumerate(stored)])
    result = DynamicResources().pre_filter(cycle_of(pod_with(*(f"claim-{i}" for i in range(len(stored))))), view)
    assert result.possible_nodes == want
    assert result.node_names is None
