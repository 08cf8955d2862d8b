"""What is said before the first watch; and that the rights asked for are the rights used and granted."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from scheduler.config import Config
from scheduler.framework.decisions import (
    AddClaimFinalizer,
    BindPersistentVolume,
    BindPod,
    CreateClaim,
    DeleteClaim,
    DeletePod,
    PatchExtendedResources,
    PatchNodeAllocatable,
    PatchPodDisruption,
    PatchPodGroupStatus,
    PatchPodStatus,
    ReadClaim,
    ReadPod,
    RemoveClaimFinalizer,
    SelectNode,
    WriteClaimStatus,
)
from scheduler.kube.api_requests import ApiClient, Timeouts
from scheduler.kube.codec import Codec
from scheduler.kube.credentials import Connection
from scheduler.kube.decision_requests import encode_decision
from scheduler.kube.feature_gates import METRICS_PATH, dropped_by, read_gates
from scheduler.kube.permissions import LEASES, PERMISSIONS, permissions_for
from scheduler.kube.plugin_kinds import PLUGIN_KINDS
from scheduler.kube.preflight import PreflightError, check
from scheduler.kube.readers import ACCESS_REVIEWS, TOKEN_REVIEWS
from scheduler.model.keys import ClaimKey, PodGroupKey, PodKey, VolumeClaimKey
from tests.kube.misbehaving import drop, misbehaving, reply, status

ROOT = Path(__file__).resolve().parents[2]
VERBS = sum(len(permission.verbs) for permission in PERMISSIONS)


def version(minor: str, major: str = "1"):
    return reply({"major": major, "minor": minor, "gitVersion": f"v{major}.{minor}.3"})


def reviewing(*refused: tuple[str, str]):
    """Answers a SelfSubjectAccessReview; refuses the given (resource[/subresource], verb)."""

    async def answer(request):
        asked = (await request.json())["spec"]["resourceAttributes"]
        name = f"{asked['resource']}/{asked['subresource']}" if asked["subresource"] else asked["resource"]
        return await reply({"status": {"allowed": (name, asked["verb"]) not in refused}}, 201)(request)

    return answer


def after_the_server(review, lease_api, count):
    """What is asked side by side once the server is known: rights, and with one GET whether it serves leases."""

    async def answer(request):
        return await (review if request.method == "POST" else lease_api)(request)

    return [answer] * (count + 1)


@asynccontextmanager
async def client_of(server):
    """It gives up on a silent server after 3 s, where the program waits for 15."""
    async with ApiClient(await Connection(url=server.url).open(), timeouts=Timeouts(total_s=3.0)) as client:
        yield client


@pytest.mark.parametrize("minor", ["34", "36", "36+", "40"])
async def test_server_that_has_everything(minor):
    async with misbehaving(version(minor), reply({}), *[reviewing()] * VERBS) as server, client_of(server) as client:
        found = await check(client)

        assert found.version == f"v1.{minor}.3"
        assert found.warnings == ()
        assert len(server.asked) == VERBS + 2


async def test_rights_are_asked_about_over_few_connections():
    """Each of sixty questions at once would open one of its own: most of the CPU of a start's requests."""
    connections = set()

    async def counted(request):
        connections.add(request.transport.get_extra_info("peername"))
        return await reviewing()(request)

    async with misbehaving(version("36"), reply({}), *[counted] * VERBS) as server, client_of(server) as client:
        await check(client)

    assert 2 <= len(connections) <= 8


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        pytest.param(
            [version("33")],
            "the API server is Kubernetes v1.33.3; 1.34 or newer is needed (resource.k8s.io/v1)",
            id="too-old",
        ),
        pytest.param(
            [version("36"), status(404, "NotFound", "the server could not find the requested resource")],
            "the API server (v1.36.3) does not serve resource.k8s.io/v1: the server could not find",
            id="group-not-served",
        ),
        pytest.param(
            [status(401, "Unauthorized", "Unauthorized")],
            "the API server does not accept the credentials of http://127.0.0.1:",
            id="token-refused",
        ),
        pytest.param(
            [reply(b"<html>")], "GET /version: this does not look like a Kubernetes API server", id="a-web-page"
        ),
        pytest.param([reply({"gitVersion": "dev"})], "GET /version: no Kubernetes version in 'dev'", id="no-version"),
    ],
)
async def test_server_that_will_not_do(answers, complaint):
    async with misbehaving(*answers) as server, client_of(server) as client:
        with pytest.raises(PreflightError) as raised:
            await check(client)

        assert str(raised.value).startswith(complaint)


async def test_server_that_is_not_there():
    async with misbehaving() as server:
        url = server.url
    async with ApiClient(await Connection(url=url).open()) as client:
        with pytest.raises(
            PreflightError, match=r"does not answer: cannot connect to 127.0.0.1:\d+: Connection refused$"
        ):
            await check(client)


async def test_each_missing_permission_is_named():
    refused = reviewing(("resourceclaims/binding", "patch"), ("pods/binding", "create"), ("nodes", "watch"))
    async with misbehaving(version("36"), reply({}), *[refused] * VERBS) as server, client_of(server) as client:
        with pytest.raises(PreflightError) as raised:
            await check(client)

    assert str(raised.value).splitlines() == [
        "not permitted: watch nodes (in all namespaces)",
        "not permitted: create pods/binding (in all namespaces)",
        "not permitted: patch resourceclaims/binding.resource.k8s.io (in all namespaces)",
        "manifests/base/rbac.yaml holds the role that grants all of them",
    ]


async def test_rights_to_the_lease_are_asked_for_where_it_lives():
    asked = []

    async def review(request):
        attributes = (await request.json())["spec"]["resourceAttributes"]
        asked.append((attributes["resource"], attributes["verb"], attributes.get("namespace")))
        is_refused = attributes["resource"] == "leases" and attributes["verb"] != "create"
        return await reply({"status": {"allowed": not is_refused}}, 201)(request)

    answers = [version("36"), reply({}), *after_the_server(review, reply({}), VERBS + 3)]
    async with misbehaving(*answers) as server, client_of(server) as client:
        with pytest.raises(PreflightError) as raised:
            await check(client, lease_namespace="team")

    assert str(raised.value).splitlines() == [
        "not permitted: get leases.coordination.k8s.io (in namespace team)",
        "not permitted: update leases.coordination.k8s.io (in namespace team)",
        "manifests/base/rbac.yaml holds the role that grants all of them",
    ]
    assert {one for one in asked if one[2]} == {("leases", verb, "team") for verb in ("get", "create", "update")}


async def test_rights_to_leases_are_asked_for_by_name():
    """The shipped Role names them; without a name the answer would be no."""
    asked = []

    async def review(request):
        attributes = (await request.json())["spec"]["resourceAttributes"]
        if attributes["resource"] == "leases":
            asked.append((attributes["verb"], attributes.get("name")))
        return await reply({"status": {"allowed": attributes.get("name") != "b"}}, 201)(request)

    answers = [version("36"), reply({}), *after_the_server(review, reply({}), VERBS + 5)]
    async with misbehaving(*answers) as server, client_of(server) as client:
        with pytest.raises(PreflightError) as raised:
            await check(client, lease_namespace="team", leases=("a", "b"))

    assert sorted(asked, key=str) == [("create", None), *((verb, name) for verb in ("get", "update") for name in "ab")]
    assert str(raised.value).splitlines()[:-1] == [
        f"not permitted: {verb} leases.coordination.k8s.io (in namespace team): the Role's resourceNames must have b"
        for verb in ("get", "update")
    ]


async def test_server_without_leases_is_named():
    missing = status(404, "NotFound", "the server could not find the requested resource")
    answers = [version("36"), reply({}), *after_the_server(reviewing(), missing, VERBS + 3)]
    async with misbehaving(*answers) as server, client_of(server) as client:
        with pytest.raises(PreflightError) as raised:
            await check(client, lease_namespace="team")

    assert str(raised.value) == (
        "the API server (v1.36.3) does not serve leases.coordination.k8s.io: the server could not find the requested "
        "resource (HTTP 404); without leader election, --leader-elect=false, see to it that no second scheduler has "
        "this name"
    )


async def test_right_that_only_newer_servers_ask_for_is_not_missed_on_older_ones():
    refused = reviewing(("resourceclaims/binding", "patch"))
    async with misbehaving(version("35"), reply({}), *[refused] * VERBS) as server, client_of(server) as client:
        assert (await check(client)).warnings == ()


async def test_missing_right_to_record_events_is_a_warning():
    refused = reviewing(("events", "create"))
    async with misbehaving(version("36"), reply({}), *[refused] * VERBS) as server, client_of(server) as client:
        assert (await check(client)).warnings == (
            "not permitted: create events.events.k8s.io; events will be missing from kubectl describe",
        )


async def test_missing_rights_to_kinds_that_a_server_may_not_have_are_warnings():
    refused = reviewing(("devicetaintrules", "watch"), ("podgroups", "list"))
    async with misbehaving(version("36"), reply({}), *[refused] * VERBS) as server, client_of(server) as client:
        assert (await check(client)).warnings == (
            "not permitted: watch devicetaintrules.resource.k8s.io; where the API server serves them, nothing is "
            "scheduled without it",
            "not permitted: list podgroups.scheduling.k8s.io; where the API server serves them, nothing is scheduled "
            "without it",
        )


async def test_missing_rights_to_make_claims_cost_extended_resources_only():
    refused = reviewing(("resourceclaims", "create"), ("resourceclaims", "delete"))
    async with misbehaving(version("36"), reply({}), *[refused] * VERBS) as server, client_of(server) as client:
        assert (await check(client)).warnings == (
            "not permitted: create resourceclaims.resource.k8s.io; pods whose extended resources are served by devices "
            "will wait",
            "not permitted: delete resourceclaims.resource.k8s.io; claims made for extended resources may stay behind "
            "for a while",
        )


async def test_server_without_authorization_is_taken_as_it_is():
    unknown = status(404, "NotFound", "no such path")
    async with misbehaving(version("36"), reply({}), *[unknown] * VERBS) as server, client_of(server) as client:
        assert (await check(client)).warnings == ()


def rules(permissions):
    return {(group, resource, verb) for group, resource, verbs in permissions for verb in verbs}


def test_manifests_grant_exactly_the_listed_permissions():
    documents = list(yaml.safe_load_all((ROOT / "manifests" / "base" / "rbac.yaml").read_text()))
    granted = {
        (document["kind"], group, resource, verb)
        for document in documents
        for rule in document.get("rules", [])
        if "nonResourceURLs" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    everywhere = {("ClusterRole", *right) for right in rules(PERMISSIONS)}
    assert granted == everywhere | {("Role", *right) for right in rules([LEASES])}
    urls = [rule for document in documents for rule in document.get("rules", []) if "nonResourceURLs" in rule]
    assert urls == [{"nonResourceURLs": [METRICS_PATH], "verbs": ["get"]}]


METRICS = b"""# HELP kubernetes_feature_enabled [BETA] This metric records the data about the stage and enablement.
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="DRADeviceTaints",stage="BETA"} 0
kubernetes_feature_enabled{name="DRAConsumableCapacity",stage="BETA"} 1
kubernetes_feature_enabled{name="SomethingElse",stage=""} 0
"""


@pytest.mark.parametrize(
    ("answer", "dropped"),
    [
        pytest.param(reply(METRICS), ["DRADeviceTaints"], id="one-gate-off"),
        pytest.param(reply(b"# no such metric"), [], id="no-word-about-gates"),
        pytest.param(status(403, "Forbidden", "no"), [], id="not-permitted"),
        pytest.param(status(404, "NotFound", "no"), [], id="no-metrics"),
        pytest.param(drop(), [], id="no-answer"),
    ],
)
async def test_gates_that_are_off_are_named_with_what_is_lost(answer, dropped):
    async with misbehaving(answer) as server, client_of(server) as client:
        said = dropped_by(await read_gates(client))

    assert [text.split()[5] for text in said] == dropped
    assert all("taints of slices and tolerations of claims" in text for text in said)


def right_of(method: str, path: str) -> tuple[str, str, str]:
    """The (group, resource, verb) that the API server checks for a request."""
    found = re.fullmatch(
        r"/(?:api|apis/(?P<group>[^/]+))/v1[a-z0-9]*(?:/namespaces/[^/]+)?/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[a-z]+))?)?",
        path,
    )
    assert found is not None, path
    verb = {"GET": "get" if found["name"] else "list", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[method]
    resource = f"{found['resource']}/{found['sub']}" if found["sub"] else found["resource"]
    return found["group"] or "", resource, verb


def test_listed_permissions_are_exactly_what_is_used():
    used = set()
    for kind in Codec(reads={one.name for one in PLUGIN_KINDS}).kinds:
        versions = kind.served_as.versions if kind.served_as is not None else ()
        for path in [kind.served_as.path(version) for version in versions] or [kind.path]:
            listing = right_of("GET", path)
            used |= {listing, (*listing[:2], "watch")}
    claim, pod = ClaimKey("d", "c"), PodKey("d", "p")
    for decision in (
        AddClaimFinalizer(claim, "u", 1, ()),
        WriteClaimStatus(claim, "u", 1),
        ReadClaim(claim, "u"),
        BindPod(pod, "u", "n"),
        ReadPod(pod, "u"),
        PatchPodStatus(pod, "u", "Unschedulable", ""),
        PatchExtendedResources(pod, "u", 1, None),
        PatchNodeAllocatable(pod, "u", 1, ()),
        CreateClaim(claim, "u", pod, "u", ()),
        RemoveClaimFinalizer(claim, "u", 1, ()),
        DeleteClaim(claim, "u", 1),
        BindPersistentVolume("pv", "u", 1, VolumeClaimKey("d", "c"), "u", 1),
        SelectNode(VolumeClaimKey("d", "c"), "u", 1, "n"),
        PatchPodDisruption(pod, "u", "no"),
        PatchPodGroupStatus(
            PodGroupKey("d", "g"), "u", "Scheduled", "", is_true=True, is_transition=True, is_136=False
        ),
        DeletePod(pod, "u"),
    ):
        request = encode_decision(decision, now_ms=0)
        group, resource, verb = right_of(request.method, request.path)
        used.add((group, resource, verb))
        named = f"{verb} {resource}" + (" and resourceclaims/binding" if resource == "resourceclaims/status" else "")
        assert request.right == (f"{named}.{group}" if group else named)
    # Asked by the server besides the status right, and what events need (see event_records).
    used.add(("resource.k8s.io", "resourceclaims/binding", "patch"))
    # Where a patch would change a text that it does not name (see exact_claims).
    claims = ("resourceclaims", "resourceclaims/status", "resourceclaims/binding")
    used |= {("resource.k8s.io", resource, "update") for resource in claims}
    used |= {("events.k8s.io", "events", "create"), ("events.k8s.io", "events", "patch")}

    # Who reads metrics (see readers).
    used |= {right_of("POST", path) for path in (TOKEN_REVIEWS, ACCESS_REVIEWS)}

    assert used == rules(PERMISSIONS)


def test_only_what_plugins_read_is_asked_for():
    everything = rules(PERMISSIONS)
    few = rules(permissions_for({"PersistentVolume"}, preempts=True, reviews=True))
    assert everything - few >= {("", "services", "list"), ("storage.k8s.io", "csinodes", "watch")}
    assert ("", "persistentvolumes", "patch") in few
    assert ("", "persistentvolumeclaims", "patch") not in few
    assert ("", "pods", "get") in few
    reviews = {("authentication.k8s.io", "tokenreviews", "create")}
    reviews.add(("authorization.k8s.io", "subjectaccessreviews", "create"))
    assert few - rules(permissions_for({"PersistentVolume"}, preempts=True, reviews=False)) == reviews
    pod_deletion = {("", "pods", "delete")}
    assert few - rules(permissions_for({"PersistentVolume"}, preempts=False, reviews=True)) == pod_deletion


def test_pods_are_deleted_only_where_a_profile_preempts():
    off = {"plugins": {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}}
    assert Config().preempts
    assert not Config(profiles=[off]).preempts
    assert Config(profiles=[off | {"schedulerName": "a"}, {"schedulerName": "b"}]).preempts


def test_the_lease_role_names_its_lease_and_create_has_none():
    documents = yaml.safe_load_all((ROOT / "manifests" / "base" / "rbac.yaml").read_text())
    (role,) = [one for one in documents if one["kind"] == "Role"]
    assert {tuple(rule["verbs"]): rule.get("resourceNames") for rule in role["rules"]} == {
        ("get", "update"): list(Config().lease_names),
        ("create",): None,
    }


@pytest.mark.parametrize("kind", PLUGIN_KINDS, ids=lambda kind: kind.name)
async def test_what_is_read_for_plugins_alone_costs_a_warning(kind):
    answers = [version("36"), reply({}), *[reviewing((kind.plural, "list"))] * VERBS]
    async with misbehaving(*answers) as server, client_of(server) as client:
        warnings = (await check(client)).warnings

    group = f".{kind.group}" if kind.group else ""
    assert warnings == (f"not permitted: list {kind.plural}{group}; {kind.cost}",)
