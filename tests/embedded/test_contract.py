"""The protocol, on the embedded API server and on the real one: the same answers to the same requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.rest_client import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    TABLE,
    RestClient,
    allocation,
    claim,
    config_map,
    pod,
    request,
    resource_slice,
)

STALE = "the object has been modified; please apply your changes to the latest version and try again"
INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


# -- lists -----------------------------------------------------------------------------------------


async def test_list_items_carry_no_kind_and_the_list_a_version(api: RestClient) -> None:
    await api.created(api.pods, pod("a"))
    listed = await api.get(api.pods)
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    assert int(listed["metadata"]["resourceVersion"]) >= int(listed["items"][0]["metadata"]["resourceVersion"])
    assert "kind" not in listed["items"][0]
    assert "apiVersion" not in listed["items"][0]


async def test_pages_show_the_state_of_the_first_page(api: RestClient) -> None:
    for name in "abcde":
        await api.created(api.config_maps, config_map(name))
    query = "?limit=2&labelSelector=!kubernetes.io/none&fieldSelector=metadata.name!=kube-root-ca.crt"
    first = await api.get(f"{api.config_maps}{query}")
    await api.created(api.config_maps, config_map("cc"))
    second = await api.get(f"{api.config_maps}{query}&continue={first['metadata']['continue']}")
    third = await api.get(f"{api.config_maps}{query}&continue={second['metadata']['continue']}")
    names = [item["metadata"]["name"] for page in (first, second, third) for item in page["items"]]
    assert names == list("abcde")
    assert first["metadata"]["resourceVersion"] == third["metadata"]["resourceVersion"]
    assert "continue" not in third["metadata"]


async def test_pages_without_selectors_count_what_is_left(api: RestClient) -> None:
    for name in "abc":
        await api.created(api.pods, pod(name))
    page = await api.get(f"{api.pods}?limit=1")
    assert page["metadata"]["remainingItemCount"] == 2


async def test_list_of_an_unreached_version_times_out(api: RestClient) -> None:
    answer = await api.get(f"{api.pods}?resourceVersion=999999999&resourceVersionMatch=NotOlderThan")
    assert (answer.status, answer["reason"]) == (504, "Timeout")
    assert answer["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert answer["message"].startswith("Timeout: Too large resource version: 999999999, current: ")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("resourceVersionMatch=Exact", "resourceVersionMatch"),
        ("resourceVersionMatch=Nonsense&resourceVersion=1", "resourceVersionMatch"),
        ("resourceVersionMatch=Exact&resourceVersion=0", "resourceVersionMatch"),
        ("sendInitialEvents=true", "sendInitialEvents"),
        ("watch=true&sendInitialEvents=true", "resourceVersionMatch"),
        ("watch=true&resourceVersionMatch=NotOlderThan&resourceVersion=0", "resourceVersionMatch"),
    ],
)
async def test_forbidden_combinations_of_list_options(api: RestClient, query: str, field: str) -> None:
    answer = await api.get(f"{api.pods}?{query}")
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert field in {cause["field"] for cause in answer["details"]["causes"]}


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=web", "ab"),
        ("app==web,tier=front", "a"),
        ("app!=web", "cd"),
        ("app in (web, db)", "abc"),
        ("app notin (web)", "cd"),
        ("app", "abc"),
        ("!app", "d"),
        ("size>3", "b"),
        ("size<3", "a"),
    ],
)
async def test_label_selectors(api: RestClient, selector: str, names: str) -> None:
    for name, labels in {
        "a": {"app": "web", "tier": "front", "size": "1"},
        "b": {"app": "web", "size": "5"},
        "c": {"app": "db", "size": "x"},
        "d": {},
    }.items():
        await api.created(api.pods, {**pod(name), "metadata": {"name": name, "labels": labels}})
    from urllib.parse import quote

    listed = await api.get(f"{api.pods}?labelSelector={quote(selector)}")
    assert [item["metadata"]["name"] for item in listed["items"]] == list(names)


@pytest.mark.parametrize("query", ["labelSelector=a=b=c", "labelSelector=(", "fieldSelector=spec.nodeNam=x"])
async def test_unreadable_selectors_are_refused(api: RestClient, query: str) -> None:
    answer = await api.get(f"{api.pods}?{query}")
    assert (answer.status, answer["reason"]) == (400, "BadRequest")


async def test_field_selectors(api: RestClient) -> None:
    await api.created(api.pods, pod("a", nodeName="n1"))
    await api.created(api.pods, pod("b", schedulerName="other"))
    for query, name in (
        ("spec.nodeName=n1", "a"),
        ("spec.nodeName=", "b"),
        ("spec.schedulerName!=other", "a"),
        ("metadata.name=b,status.phase=Pending", "b"),
    ):
        listed = await api.get(f"{api.pods}?fieldSelector={query}")
        assert [item["metadata"]["name"] for item in listed["items"]] == [name], query


# -- create ----------------------------------------------------------------------------------------


async def test_create_fills_what_is_the_servers(api: RestClient) -> None:
    made = await api.created(
        api.pods, {**pod("a"), "metadata": {"name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}}
    )
    metadata = made["metadata"]
    assert metadata["uid"] != "mine"
    assert not metadata["creationTimestamp"].startswith("2001")
    assert metadata["generation"] == 1
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    spec = made["spec"]
    assert {
        field: spec[field]
        for field in ("restartPolicy", "dnsPolicy", "schedulerName", "terminationGracePeriodSeconds", "priority")
    } == {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "priority": 0,
    }
    assert [t["key"] for t in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert spec["containers"] == [
        {
            "name": "c",
            "image": "img",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
        }
    ]


async def test_create_twice_is_refused(api: RestClient) -> None:
    await api.created(api.pods, pod("a"))
    again = await api.post(api.pods, pod("a"))
    assert (again.status, again["reason"]) == (409, "AlreadyExists")
    assert again["message"] == 'pods "a" already exists'
    assert again["details"] == {"name": "a", "kind": "pods"}


async def test_generated_names(api: RestClient) -> None:
    made = await api.created(api.pods, {**pod(""), "metadata": {"generateName": "web-"}})
    name = made["metadata"]["name"]
    assert name.startswith("web-")
    assert len(name) == len("web-") + 5
    long = await api.created(api.pods, {**pod(""), "metadata": {"generateName": "x" * 80}})
    assert len(long["metadata"]["name"]) == 63


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"metadata": {}}, 422, "Invalid"),
        ({"metadata": {"name": "Upper"}}, 422, "Invalid"),
        ({"metadata": {"name": "a", "namespace": "elsewhere"}}, 400, "BadRequest"),
        ({"apiVersion": "v2", "kind": "Pod"}, 400, "BadRequest"),
        ({"metadata": {"name": "a", "resourceVersion": "5"}}, 500, None),
        ({"metadata": {"name": "a", "labels": {"bad key": "v"}}}, 422, "Invalid"),
        ({"metadata": {"name": "a", "labels": {"key": "bad value"}}}, 422, "Invalid"),
        ({"metadata": {"name": "a", "annotations": {"bad key": "v"}}}, 422, "Invalid"),
    ],
)
async def test_create_refuses(api: RestClient, change: dict[str, Any], status: int, reason: str | None) -> None:
    answer = await api.post(api.pods, {**pod("a"), **change})
    assert (answer.status, answer.body.get("reason")) == (status, reason), answer


async def test_create_in_a_namespace_that_is_not_there(api: RestClient) -> None:
    answer = await api.post("/api/v1/namespaces/nowhere/pods", pod("a"))
    assert (answer.status, answer["message"]) == (404, 'namespaces "nowhere" not found')
    assert answer["details"] == {"name": "nowhere", "kind": "namespaces"}


async def test_dry_run_changes_nothing(api: RestClient) -> None:
    answer = await api.post(f"{api.pods}?dryRun=All", pod("a"))
    assert answer.status == 201
    assert (await api.get(f"{api.pods}/a")).status == 404


async def test_unknown_paths(api: RestClient) -> None:
    for path in ("/api/v1/podz", "/apis/resource.k8s.io/v9/resourceclaims", f"{api.pods}/a/nothing"):
        assert (await api.get(path)).status == 404


# -- update ----------------------------------------------------------------------------------------


async def test_update_with_an_old_version_conflicts(api: RestClient) -> None:
    first = await api.created(api.config_maps, config_map("a", x="1"))
    second = await api.put(f"{api.config_maps}/a", {**first, "data": {"x": "2"}})
    assert second.status == 200
    stale = await api.put(f"{api.config_maps}/a", {**first, "data": {"x": "3"}})
    assert (stale.status, stale["reason"]) == (409, "Conflict")
    assert stale["message"] == f'Operation cannot be fulfilled on configmaps "a": {STALE}'
    assert stale["details"] == {"name": "a", "kind": "configmaps"}


async def test_update_without_a_version_is_unconditional(api: RestClient) -> None:
    await api.created(api.config_maps, config_map("a", x="1"))
    answer = await api.put(f"{api.config_maps}/a", config_map("a", x="2"))
    assert (answer.status, answer["data"]) == (200, {"x": "2"})


async def test_update_that_changes_nothing_keeps_the_version(api: RestClient) -> None:
    first = await api.created(api.config_maps, config_map("a", x="1"))
    answer = await api.put(f"{api.config_maps}/a", first)
    assert answer["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    patched = await api.patch(f"{api.config_maps}/a", {"data": {"x": "1"}})
    assert patched["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_update_of_another_uid_conflicts(api: RestClient) -> None:
    await api.created(api.pods, pod("a"))
    uid = "11111111-2222-3333-4444-555555555555"
    answer = await api.put(f"{api.pods}/a", {**pod("a"), "metadata": {"name": "a", "uid": uid}})
    assert (answer.status, answer["reason"]) == (409, "Conflict"), answer
    assert f"Precondition failed: UID in precondition: {uid}, UID in object meta: " in answer["message"]


async def test_update_under_another_name_is_refused(api: RestClient) -> None:
    await api.created(api.config_maps, config_map("a"))
    answer = await api.put(f"{api.config_maps}/a", config_map("b"))
    assert answer.status == 400
    assert answer["message"] == "the name of the object (b) does not match the name on the URL (a)"


async def test_update_of_nothing_is_not_found(api: RestClient) -> None:
    assert (await api.put(f"{api.config_maps}/a", config_map("a"))).status == 404
    assert (await api.patch(f"{api.config_maps}/a", {"data": {}})).status == 404


async def test_lease_updates_need_a_version(api: RestClient) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases"
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    await api.created(path, lease)
    answer = await api.put(f"{path}/l", {**lease, "spec": {"holderIdentity": "you"}})
    assert (answer.status, answer.causes) == (422, {("FieldValueInvalid", "metadata.resourceVersion")})


@pytest.mark.parametrize(
    ("field", "value"),
    [("uid", "11111111-2222-3333-4444-555555555555"), ("deletionTimestamp", "2030-01-01T00:00:00Z")],
)
@pytest.mark.parametrize("sub_resource", ["", "/status"])
async def test_patches_cannot_change_identity(api: RestClient, field: str, value: str, sub_resource: str) -> None:
    await api.created(api.pods, pod("a"))
    body = {"metadata": {field: value}, "status": {"nominatedNodeName": "n1"}}
    answer = await api.patch(f"{api.pods}/a{sub_resource}", body, media=STRATEGIC)
    if (field, sub_resource) == ("deletionTimestamp", "/status"):
        assert answer.status == 200
        assert "deletionTimestamp" not in answer["metadata"]
    else:
        assert (answer.status, answer.causes) == (422, {("FieldValueInvalid", f"metadata.{field}")})


async def test_generation_is_the_servers(api: RestClient) -> None:
    await api.created(api.pods, pod("a"))
    answer = await api.patch(f"{api.pods}/a", {"metadata": {"generation": 7}})
    assert (answer.status, answer["metadata"]["generation"]) == (200, 1)


async def test_spec_and_status_have_doors_of_their_own(api: RestClient) -> None:
    await api.created(api.claims, claim("a"))
    by_main = await api.patch(f"{api.claims}/a", {"status": {"allocation": allocation("d1")}})
    assert by_main["status"] == {}
    by_status = await api.patch(
        f"{api.claims}/a/status",
        {"metadata": {"labels": {"x": "y"}}, "spec": {"devices": None}, "status": {"allocation": allocation("d1")}},
    )
    assert by_status.status == 200, by_status
    assert by_status["spec"]["devices"]["requests"][0]["name"] == "gpu"
    assert "labels" not in by_status["metadata"]
    assert by_status["status"]["allocation"]["devices"]["results"][0]["device"] == "d1"


async def test_pod_status_may_carry_labels_but_no_owner(api: RestClient) -> None:
    await api.created(api.pods, pod("a"))
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    answer = await api.patch(
        f"{api.pods}/a/status",
        {"metadata": {"labels": {"x": "y"}, "ownerReferences": [owner]}, "status": {"nominatedNodeName": "n1"}},
    )
    assert answer.status == 200
    assert answer["metadata"]["labels"] == {"x": "y"}
    assert "ownerReferences" not in answer["metadata"]
    assert answer["status"]["nominatedNodeName"] == "n1"


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"nodeName": "n1"}},
        {"spec": {"schedulerName": "other"}},
        {"spec": {"nodeSelector": {"a": "b"}}},
        {"spec": {"resourceClaims": [{"name": "x", "resourceClaimName": "y"}]}},
    ],
)
async def test_pod_specs_are_immutable(api: RestClient, change: dict[str, Any]) -> None:
    await api.created(api.pods, pod("a"))
    answer = await api.patch(f"{api.pods}/a", change)
    assert (answer.status, answer.causes) == (422, {("FieldValueForbidden", "spec")}), answer


async def test_scheduling_gates_go_but_do_not_come(api: RestClient) -> None:
    made = await api.created(api.pods, pod("a", schedulingGates=[{"name": "wait"}]))
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"
    narrowed = await api.patch(f"{api.pods}/a", {"spec": {"nodeSelector": {"a": "b"}}})
    assert narrowed.status == 200
    opened = await api.patch(f"{api.pods}/a", {"spec": {"schedulingGates": None}})
    assert opened.status == 200
    assert "schedulingGates" not in opened["spec"]
    closed = await api.patch(f"{api.pods}/a", {"spec": {"schedulingGates": [{"name": "wait"}]}})
    assert closed.status == 422


async def test_spec_changes_count_generations(api: RestClient) -> None:
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    name = f"{api.namespace}-slice"
    made = await api.created(slices, resource_slice(name, {"name": "d1"}))
    assert made["metadata"]["generation"] == 1
    labelled = await api.patch(f"{slices}/{name}", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    changed = await api.patch(f"{slices}/{name}", {"spec": {"devices": [{"name": "d2"}]}})
    assert changed["metadata"]["generation"] == 2
    assert (await api.delete(f"{slices}/{name}")).status == 200


# -- patches ---------------------------------------------------------------------------------------


async def test_merge_patch(api: RestClient) -> None:
    await api.created(api.config_maps, config_map("a", {"l": "1"}, x="1", y="2"))
    answer = await api.patch(f"{api.config_maps}/a", {"data": {"x": None, "z": "3"}}, media=MERGE)
    assert (answer.status, answer["data"]) == (200, {"y": "2", "z": "3"})


async def test_json_patch(api: RestClient) -> None:
    await api.created(api.config_maps, config_map("a", x="1"))
    path = f"{api.config_maps}/a"
    good = [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "replace", "path": "/data/x", "value": "2"}]
    assert (await api.patch(path, good, media=JSON_PATCH))["data"] == {"x": "2"}
    failed = await api.patch(path, good, media=JSON_PATCH)
    assert (failed.status, failed["reason"]) == (422, "Invalid")
    missing = await api.patch(path, [{"op": "remove", "path": "/data/none"}], media=JSON_PATCH)
    assert missing.status == 422
    unreadable = await api.patch(path, {"op": "remove"}, media=JSON_PATCH)
    assert unreadable.status == 400


async def test_patch_with_an_old_version_conflicts(api: RestClient) -> None:
    made = await api.created(api.pods, pod("a"))
    version = made["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version, "labels": {"a": "1"}}}
    for media in (MERGE, STRATEGIC):
        await api.patch(f"{api.pods}/a", {"metadata": {"annotations": {"media": media}}})
        answer = await api.patch(f"{api.pods}/a", body, media=media)
        assert (answer.status, answer["message"]) == (409, f'Operation cannot be fulfilled on pods "a": {STALE}')


async def test_strategic_merge_of_conditions_by_type(api: RestClient) -> None:
    await api.created(api.pods, pod("a"))
    status = f"{api.pods}/a/status"
    for condition in (
        {"type": "A", "status": "True"},
        {"type": "B", "status": "False", "reason": "why"},
        {"type": "A", "status": "False"},
    ):
        answer = await api.patch(status, {"status": {"conditions": [condition]}}, media=STRATEGIC)
        assert answer.status == 200, answer
    shown = [(c["type"], c["status"], c.get("reason")) for c in answer["status"]["conditions"]]
    assert sorted(shown) == [("A", "False", None), ("B", "False", "why")]
    answer = await api.patch(status, {"status": {"conditions": [{"type": "B", "$patch": "delete"}]}}, media=STRATEGIC)
    assert [c["type"] for c in answer["status"]["conditions"]] == ["A"]
    answer = await api.patch(
        status, {"status": {"conditions": [{"$patch": "replace"}, {"type": "C", "status": "True"}]}}, media=STRATEGIC
    )
    assert [c["type"] for c in answer["status"]["conditions"]] == ["C"]


async def test_strategic_merge_of_claim_statuses_by_name(api: RestClient) -> None:
    references = [{"name": name, "resourceClaimTemplateName": "t"} for name in ("one", "two")]
    await api.created(api.pods, pod("a", resourceClaims=references))
    status = f"{api.pods}/a/status"
    for name in ("one", "two"):
        entry = {"name": name, "resourceClaimName": f"claim-{name}"}
        answer = await api.patch(status, {"status": {"resourceClaimStatuses": [entry]}}, media=STRATEGIC)
        assert answer.status == 200, answer
    entries = {entry["name"]: entry["resourceClaimName"] for entry in answer["status"]["resourceClaimStatuses"]}
    assert entries == {"one": "claim-one", "two": "claim-two"}


async def test_strategic_merge_of_finalizers_as_a_set(api: RestClient) -> None:
    await api.created(api.config_maps, config_map("a"))
    path = f"{api.config_maps}/a"
    for name in ("example.com/one", "example.com/two", "example.com/one"):
        answer = await api.patch(path, {"metadata": {"finalizers": [name]}}, media=STRATEGIC)
    assert sorted(answer["metadata"]["finalizers"]) == ["example.com/one", "example.com/two"]
    answer = await api.patch(
        path, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one"]}}, media=STRATEGIC
    )
    assert answer["metadata"]["finalizers"] == ["example.com/two"]
    await api.patch(path, {"metadata": {"finalizers": None}})


async def test_unknown_patch_types_are_refused(api: RestClient) -> None:
    await api.created(api.config_maps, config_map("a"))
    answer = await api.patch(f"{api.config_maps}/a", {}, media="application/json")
    assert (answer.status, answer["reason"]) == (415, "UnsupportedMediaType")


# -- server-side apply -----------------------------------------------------------------------------


async def _apply(api: RestClient, path: str, body: dict[str, Any], manager: str, *, force: bool = False) -> Any:
    query = f"?fieldManager={manager}&force={str(force).lower()}"
    return await api.patch(f"{path}{query}", body, media=APPLY)


def _applied(api: RestClient, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


async def test_apply_creates_changes_and_repeats(api: RestClient) -> None:
    """What a configuration no longer names stays in the embedded cluster, and goes in a real one: ADR 0009."""
    path = f"{api.config_maps}/a"
    made = await _apply(api, path, _applied(api, x="1", y="1"), "one")
    assert made.status == 201, made
    again = await _apply(api, path, _applied(api, x="1", y="1"), "one")
    assert (again.status, again["metadata"]["resourceVersion"]) == (200, made["metadata"]["resourceVersion"])
    changed = await _apply(api, path, _applied(api, x="2", y="1"), "one")
    assert changed["data"] == {"x": "2", "y": "1"}


async def test_an_apply_may_be_forced_on_the_fields_of_another_manager(api: RestClient) -> None:
    path = f"{api.config_maps}/a"
    await _apply(api, path, _applied(api, x="1"), "one")
    shared = await _apply(api, path, _applied(api, x="1", z="1"), "two")
    assert shared.status == 200
    forced = await _apply(api, path, _applied(api, x="2", z="1"), "two", force=True)
    assert (forced.status, forced["data"]) == (200, {"x": "2", "z": "1"})
    # The loser applies without the field: nothing is removed.
    assert (await _apply(api, path, _applied(api), "one"))["data"] == {"x": "2", "z": "1"}


async def test_apply_merges_keyed_lists_in_a_status(api: RestClient) -> None:
    references = [{"name": name, "resourceClaimTemplateName": "t"} for name in ("one", "two")]
    await api.created(api.pods, pod("a", resourceClaims=references))

    def body(name: str) -> dict[str, Any]:
        entries = [{"name": name, "resourceClaimName": f"claim-{name}"}]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a"},
            "status": {"resourceClaimStatuses": entries},
        }

    path = f"{api.pods}/a/status"
    first = await _apply(api, path, body("one"), "controller", force=True)
    assert first.status == 200, first
    second = await _apply(api, path, body("two"), "another", force=True)
    assert [entry["name"] for entry in second["status"]["resourceClaimStatuses"]] == ["one", "two"]
    assert second["status"]["phase"] == "Pending"


async def test_apply_needs_a_manager(api: RestClient) -> None:
    answer = await api.patch(f"{api.config_maps}/a", _applied(api, x="1"), media=APPLY)
    assert answer.status in (400, 422)
    assert "fieldManager: Required value" in answer["message"]


# -- delete ----------------------------------------------------------------------------------------


async def test_delete_preconditions(api: RestClient) -> None:
    made = await api.created(api.config_maps, config_map("a"))
    path = f"{api.config_maps}/a"
    wrong_uid = await api.delete(path, {"preconditions": {"uid": "other"}})
    assert (wrong_uid.status, wrong_uid["reason"]) == (409, "Conflict")
    assert "UID in the precondition (other) does not match the UID in record" in wrong_uid["message"]
    wrong_version = await api.delete(path, {"preconditions": {"resourceVersion": "1"}})
    assert (wrong_version.status, wrong_version["reason"]) == (409, "Conflict")
    good = await api.delete(path, {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert (good.status, good["status"]) == (200, "Success")
    assert good["details"]["uid"] == made["metadata"]["uid"]
    assert (await api.delete(path)).status == 404


async def test_finalizers_keep_an_object(api: RestClient) -> None:
    finalizer = "example.com/keep"
    await api.created(api.claims, {**claim("a"), "metadata": {"name": "a", "finalizers": [finalizer]}})
    path = f"{api.claims}/a"
    deleted = await api.delete(path)
    assert deleted.status == 200
    assert deleted["metadata"]["deletionTimestamp"]
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 0
    version = deleted["metadata"]["resourceVersion"]
    assert (await api.delete(path))["metadata"]["resourceVersion"] == version
    more = await api.patch(path, {"metadata": {"finalizers": [finalizer, "example.com/more"]}})
    assert (more.status, more.causes) == (422, {("FieldValueForbidden", "metadata.finalizers")})
    last = await api.patch(path, {"metadata": {"finalizers": None}})
    assert last.status == 200
    assert (await api.get(path)).status == 404


async def test_pods_go_at_once_unless_they_are_bound(api: RestClient) -> None:
    await api.created(api.pods, pod("free"))
    await api.created(api.pods, pod("bound", nodeName="n1"))
    assert (await api.delete(f"{api.pods}/free")).status == 200
    assert (await api.get(f"{api.pods}/free")).status == 404
    graceful = await api.delete(f"{api.pods}/bound")
    assert graceful["metadata"]["deletionGracePeriodSeconds"] == 30
    sooner = await api.delete(f"{api.pods}/bound", {"gracePeriodSeconds": 5})
    assert sooner["metadata"]["deletionGracePeriodSeconds"] == 5
    assert (await api.delete(f"{api.pods}/bound", {"gracePeriodSeconds": 0})).status == 200
    assert (await api.get(f"{api.pods}/bound")).status == 404


async def test_finished_pods_go_at_once(api: RestClient) -> None:
    await api.created(api.pods, pod("a", nodeName="n1"))
    await api.patch(f"{api.pods}/a/status", {"status": {"phase": "Succeeded"}})
    await api.delete(f"{api.pods}/a")
    assert (await api.get(f"{api.pods}/a")).status == 404


async def test_delete_collection_obeys_selectors(api: RestClient) -> None:
    await api.created(api.config_maps, config_map("a", {"go": "yes"}))
    await api.created(api.config_maps, config_map("b"))
    assert (await api.delete(f"{api.config_maps}?labelSelector=go=yes")).status == 200
    left = await api.get(f"{api.config_maps}?fieldSelector=metadata.name!=kube-root-ca.crt")
    assert [item["metadata"]["name"] for item in left["items"]] == ["b"]


# -- binding ---------------------------------------------------------------------------------------


def _binding(name: str, node: str = "n1", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


async def test_binding_sets_the_node_once(api: RestClient) -> None:
    await api.created(api.pods, pod("a"))
    path = f"{api.pods}/a/binding"
    answer = await api.post(path, _binding("a", annotations={"x": "y"}))
    assert (answer.status, answer["status"]) == (201, "Success")
    bound = await api.get(f"{api.pods}/a")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"x": "y"}
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert condition["lastTransitionTime"]
    again = await api.post(path, _binding("a", "n2"))
    assert (again.status, again["reason"]) == (409, "Conflict")
    assert (
        again["message"] == 'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    )


async def test_binding_takes_the_unscheduled_condition_back(api: RestClient) -> None:
    await api.created(api.pods, pod("a"))
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    status = {"conditions": [unscheduled], "nominatedNodeName": "n9"}
    await api.patch(f"{api.pods}/a/status", {"status": status}, media=STRATEGIC)
    await api.post(f"{api.pods}/a/binding", _binding("a"))
    bound = (await api.get(f"{api.pods}/a"))["status"]
    assert [(c["status"], c.get("reason")) for c in bound["conditions"]] == [("True", None)]
    assert "nominatedNodeName" not in bound


async def test_binding_refusals(api: RestClient) -> None:
    await api.created(api.pods, pod("a"))
    await api.created(api.pods, pod("gated", schedulingGates=[{"name": "g"}]))
    path = f"{api.pods}/a/binding"
    assert (await api.post(path, _binding("b"))).status == 400
    assert (await api.post(path, _binding("a", uid="11111111-2222-3333-4444-555555555555"))).status == 409
    gated = await api.post(f"{api.pods}/gated/binding", _binding("gated"))
    assert (gated.status, "non-empty .spec.schedulingGates" in gated["message"]) == (409, True)
    assert (await api.post(f"{api.pods}/none/binding", _binding("none"))).status == 404
    await api.created(api.pods, {**pod("going"), "metadata": {"name": "going", "finalizers": ["example.com/f"]}})
    await api.delete(f"{api.pods}/going")
    going = await api.post(f"{api.pods}/going/binding", _binding("going"))
    assert (going.status, "is being deleted" in going["message"]) == (409, True)
    await api.patch(f"{api.pods}/going", {"metadata": {"finalizers": None}})


# -- events, tables, discovery ---------------------------------------------------------------------


async def test_both_event_groups_show_the_same_objects(api: RestClient) -> None:
    new = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events"
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-02T03:04:05.000006Z",
        "regarding": {"kind": "Pod", "name": "a", "namespace": api.namespace, "uid": "u"},
        "reason": "FailedScheduling",
        "note": "no node fits",
        "type": "Warning",
        "action": "Scheduling",
        "reportingController": "dra-scheduler",
        "reportingInstance": "dra-scheduler-0",
    }
    await api.created(new, event)
    old = await api.get(f"/api/v1/namespaces/{api.namespace}/events?fieldSelector=involvedObject.name=a")
    (shown,) = old["items"]
    assert shown["message"] == "no node fits"
    assert shown["involvedObject"]["uid"] == "u"
    assert shown["reportingComponent"] == "dra-scheduler"
    changed = await api.patch(f"{new}/e", {"note": "still no node fits"})
    assert (changed.status, changed.causes) == (422, {("FieldValueInvalid", "message")})
    series = {"count": 2, "lastObservedTime": "2026-01-02T03:05:05.000006Z"}
    assert (await api.patch(f"{new}/e", {"series": series}))["series"] == series
    assert (await api.get(f"/api/v1/namespaces/{api.namespace}/events/e"))["series"] == series
    assert (await api.patch(f"{new}/e", {"series": {"count": 1}})).status == 422


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"eventTime": None}, "eventTime"),
        ({"reportingController": ""}, "reportingController"),
        ({"reportingInstance": ""}, "reportingInstance"),
        ({"action": ""}, "action"),
        ({"reason": "x" * 129}, "reason"),
        ({"note": "x" * 1025}, "message"),
        ({"type": "Odd"}, "type"),
        ({"regarding": {}}, "involvedObject.namespace"),
        ({"deprecatedCount": 3}, "count"),
    ],
)
async def test_new_events_are_checked(api: RestClient, change: dict[str, Any], field: str) -> None:
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-02T03:04:05.000006Z",
        "regarding": {"kind": "Pod", "name": "a", "namespace": api.namespace, "uid": "u"},
        "reason": "FailedScheduling",
        "type": "Warning",
        "action": "Scheduling",
        "reportingController": "dra-scheduler",
        "reportingInstance": "dra-scheduler-0",
        **change,
    }
    answer = await api.post(f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events", event)
    assert answer.status == 422, answer
    assert field in {cause["field"] for cause in answer["details"]["causes"]}


async def test_tables_have_the_columns_kubectl_shows(api: RestClient) -> None:
    await api.created(api.pods, pod("a"))
    await api.created(api.claims, claim("c"))
    table = await api.get(api.pods, accept=TABLE)
    assert table["kind"] == "Table"
    names = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
    assert names == ["Name", "Ready", "Status", "Restarts", "Age"]
    (row,) = table["rows"]
    assert row["cells"][:4] == ["a", "0/1", "Pending", "0"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    claims = await api.get(f"{api.claims}/c", accept=TABLE)
    assert [column["name"] for column in claims["columnDefinitions"]] == ["Name", "State", "Age"]
    assert claims["rows"][0]["cells"][:2] == ["c", "pending"]


async def test_discovery_names_the_resources(api: RestClient) -> None:
    version = await api.get("/version")
    assert version["gitVersion"].startswith("v1.37.")
    listed = await api.get("/apis/resource.k8s.io/v1")
    by_name = {resource["name"]: resource for resource in listed["resources"]}
    assert {"resourceclaims", "resourceclaims/status", "resourceslices", "deviceclasses"} <= by_name.keys()
    claims = by_name["resourceclaims"]
    assert (claims["kind"], claims["namespaced"]) == ("ResourceClaim", True)
    assert set(claims["verbs"]) == {
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    }
    groups = (await api.get("/apis"))["groups"]
    (group,) = [one for one in groups if one["name"] == "resource.k8s.io"]
    assert "resource.k8s.io/v1" in {version["groupVersion"] for version in group["versions"]}


async def test_everybody_here_may_do_everything(api: RestClient) -> None:
    attributes = {"verb": "patch", "group": "resource.k8s.io", "resource": "resourceclaims", "subresource": "binding"}
    review = await api.post(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}}
    )
    assert (review.status, review["status"]["allowed"]) == (201, True)


# -- watches ---------------------------------------------------------------------------------------


async def test_watch_from_a_version(api: RestClient) -> None:
    listed = await api.get(api.pods)
    version = listed["metadata"]["resourceVersion"]
    await api.created(api.pods, pod("a"))
    async with api.watch(api.pods, f"resourceVersion={version}") as watch:
        added = await watch.next()
        assert (added["type"], added["object"]["kind"], added["object"]["apiVersion"]) == ("ADDED", "Pod", "v1")
        changed = await api.patch(f"{api.pods}/a", {"metadata": {"labels": {"x": "y"}}})
        modified = await watch.next()
        assert (modified["type"], modified["object"]) == ("MODIFIED", changed.body)
        await api.delete(f"{api.pods}/a")
        # Pods are deleted gracefully, if only for an instant: two events, also for one that never ran.
        going, deleted = await watch.next(), await watch.next()
        assert (going["type"], deleted["type"]) == ("MODIFIED", "DELETED")
        assert going["object"]["metadata"]["deletionTimestamp"]
        assert going["object"]["metadata"]["generation"] == 2
        assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])


async def test_watch_list_sends_state_then_a_bookmark(api: RestClient) -> None:
    for name in "ba":
        await api.created(api.pods, pod(name))
    async with api.watch(api.pods, INITIAL) as watch:
        seen = await watch.until(lambda line: line["type"] == "BOOKMARK")
        assert [line["object"]["metadata"].get("name") for line in seen] == ["a", "b", None]
        bookmark = seen[-1]["object"]
        assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(bookmark["metadata"]["resourceVersion"]) > 0
        # What trips typed decoders: a bookmark has nulls where the schema asks for lists.
        assert bookmark["spec"] == {"containers": None}
        await api.created(api.pods, pod("c"))
        assert (await watch.next())["object"]["metadata"]["name"] == "c"


EMPTY_TEMPLATE = {"metadata": {}, "spec": {"containers": None}}

BOOKMARKS: dict[str, dict[str, Any]] = {
    "/api/v1/pods": {"spec": {"containers": None}, "status": {}},
    "/api/v1/configmaps": {},
    "/api/v1/events": {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    "/apis/events.k8s.io/v1/events": {
        "eventTime": None,
        "regarding": {},
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    },
    "/apis/apps/v1/deployments": {
        "spec": {"replicas": 0, "selector": None, "template": EMPTY_TEMPLATE, "strategy": {}},
        "status": {},
    },
    "/apis/batch/v1/jobs": {"spec": {"template": EMPTY_TEMPLATE}, "status": {}},
    "/apis/coordination.k8s.io/v1/leases": {"spec": {}},
    "/apis/resource.k8s.io/v1/resourceclaims": {"spec": {"devices": {"requests": None}}, "status": {}},
    "/apis/resource.k8s.io/v1/resourceclaimtemplates": {
        "spec": {"metadata": {}, "spec": {"devices": {"requests": None}}}
    },
    "/apis/resource.k8s.io/v1/resourceslices": {
        "spec": {"driver": "", "pool": {"name": "", "generation": 0, "resourceSliceCount": 0}}
    },
    "/apis/resource.k8s.io/v1/deviceclasses": {"spec": {}},
    "/apis/resource.k8s.io/v1/devicetaintrules": {"spec": {"taint": {"key": "", "effect": ""}}, "status": {}},
    "/apis/policy/v1/poddisruptionbudgets": {
        "spec": {},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    },
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"value": 0},
}


@pytest.mark.parametrize(("path", "empty"), BOOKMARKS.items(), ids=[path.rpartition("/")[2] for path in BOOKMARKS])
async def test_bookmarks_are_empty_objects_with_nulls(api: RestClient, path: str, empty: dict[str, Any]) -> None:
    async with api.watch(path, INITIAL) as watch:
        bookmark = (await watch.until(lambda line: line["type"] == "BOOKMARK"))[-1]["object"]
    assert {key: value for key, value in bookmark.items() if key not in ("kind", "apiVersion", "metadata")} == empty


async def test_node_bookmarks(api: RestClient) -> None:
    async with api.watch("/api/v1/nodes", INITIAL) as watch:
        bookmark = (await watch.until(lambda line: line["type"] == "BOOKMARK"))[-1]["object"]
    assert bookmark["spec"] == {}
    assert bookmark["status"]["nodeInfo"]["kubeletVersion"] == ""


async def test_null_members_mean_absent_ones(api: RestClient) -> None:
    made = await api.created(
        api.pods,
        {**pod("a", tolerations=None, nodeSelector=None), "metadata": {"name": "a", "labels": None, "annotations": {}}},
    )
    assert "nodeSelector" not in made["spec"]
    assert len(made["spec"]["tolerations"]) == 2
    assert made["metadata"].keys() & {"labels", "annotations"} == set()


async def test_a_terminating_namespace_takes_nothing_new(api: RestClient) -> None:
    name = f"{api.namespace}-going"
    await api.created("/api/v1/namespaces", {"metadata": {"name": name}})
    held = {"metadata": {"name": "held", "finalizers": ["example.com/keep"]}}
    await api.created(f"/api/v1/namespaces/{name}/configmaps", held)
    deleted = await api.delete(f"/api/v1/namespaces/{name}")
    assert deleted["status"]["phase"] == "Terminating"
    assert "deletionGracePeriodSeconds" not in deleted["metadata"]
    answer = await api.post(f"/api/v1/namespaces/{name}/pods", pod("a"))
    assert (answer.status, answer["reason"]) == (403, "Forbidden")
    assert answer["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    await api.patch(f"/api/v1/namespaces/{name}/configmaps/held", {"metadata": {"finalizers": None}})


async def test_watch_without_a_version_begins_with_the_state(api: RestClient) -> None:
    await api.created(api.pods, pod("a"))
    for query in ("", "resourceVersion=0"):
        async with api.watch(api.pods, query) as watch:
            line = await watch.next()
            assert (line["type"], line["object"]["metadata"]["name"]) == ("ADDED", "a")


async def test_watch_ends_after_its_time(api: RestClient) -> None:
    async with api.watch(api.pods, "timeoutSeconds=1&resourceVersion=0") as watch:
        assert await watch.rest() == []
    # With bookmarks there is one after the state, as for those who ask for initial events.
    async with api.watch(api.pods, "timeoutSeconds=1&resourceVersion=0&allowWatchBookmarks=true") as watch:
        first, *more = await watch.rest()
    assert first["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert {line["type"] for line in (first, *more)} == {"BOOKMARK"}


async def test_watch_of_a_version_to_come_waits(api: RestClient) -> None:
    async with api.watch(api.pods, "resourceVersion=999999999&timeoutSeconds=1") as watch:
        assert watch.response.status == 200
        assert await watch.rest() == []


async def test_watch_from_a_forgotten_version_is_an_error_line(api: RestClient) -> None:
    await api.created(api.pods, pod("a"))
    await api.restart_server()
    async with api.watch(api.pods, "resourceVersion=1") as watch:
        assert watch.response.status == 200
        line = await watch.next()
    assert line["type"] == "ERROR"
    assert (line["object"]["code"], line["object"]["reason"]) == (410, "Expired")
    assert line["object"]["message"].startswith("too old resource version: 1 (")


async def test_selected_watch_turns_leaving_into_deletion(api: RestClient) -> None:
    version = (await api.get(api.pods))["metadata"]["resourceVersion"]
    async with api.watch(api.pods, f"resourceVersion={version}&labelSelector=in=yes") as watch:
        await api.created(api.pods, pod("a"))
        await api.patch(f"{api.pods}/a", {"metadata": {"labels": {"in": "yes"}}})
        entered = await watch.next()
        assert (entered["type"], entered["object"]["metadata"]["name"]) == ("ADDED", "a")
        left = await api.patch(f"{api.pods}/a", {"metadata": {"labels": {"in": "no"}}})
        line = await watch.next()
        assert line["type"] == "DELETED"
        assert line["object"]["metadata"]["labels"] == {"in": "yes"}
        assert line["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_watch_of_one_field_sees_a_pod_being_bound(api: RestClient) -> None:
    version = (await api.get(api.pods))["metadata"]["resourceVersion"]
    await api.created(api.pods, pod("a"))
    async with api.watch(api.pods, f"resourceVersion={version}&fieldSelector=spec.nodeName=") as watch:
        assert (await watch.next())["type"] == "ADDED"
        await api.post(f"{api.pods}/a/binding", _binding("a"))
        assert (await watch.next())["type"] == "DELETED"


async def test_watch_as_tables(api: RestClient) -> None:
    await api.created(api.claims, claim("c", request()))
    async with api.watch(api.claims, "", accept=TABLE) as watch:
        first = await watch.next()
        assert first["object"]["kind"] == "Table"
        assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "State", "Age"]
        await api.patch(f"{api.claims}/c", {"metadata": {"labels": {"a": "b"}}})
        second = await watch.next()
        assert second["object"]["columnDefinitions"] is None
        assert second["object"]["rows"][0]["cells"][:2] == ["c", "pending"]
