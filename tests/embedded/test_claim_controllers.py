"""The claim controller: the same behaviour as kube-controller-manager's, checked against it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.pod_claims import generate_name
from tests.embedded.rest_client import Answer, RestClient, allocation, claim, consumer, pod, request

pytestmark = pytest.mark.asyncio(loop_scope="module")

FINALIZER = "resource.kubernetes.io/delete-protection"
ANNOTATION = "resource.kubernetes.io/pod-claim-name"


def _template(name: str = "t", **metadata: Any) -> dict[str, Any]:
    spec = {"devices": {"requests": [request()]}}
    return {"metadata": {"name": name}, "spec": {"metadata": metadata, "spec": spec}}


def _uses(*names: str, template: str = "t") -> list[dict[str, str]]:
    return [{"name": name, "resourceClaimTemplateName": template} for name in names]


def _statuses(answer: Answer) -> dict[str, str]:
    return {entry["name"]: entry["resourceClaimName"] for entry in answer["status"].get("resourceClaimStatuses", ())}


async def _pod_with_claims(api: RestClient, name: str, *references: str, **spec: Any) -> tuple[Any, dict[str, str]]:
    """Create a pod and wait until it knows its claims."""
    await api.created(api.pods, pod(name, resourceClaims=_uses(*references), **spec))
    known = await api.eventually(f"{api.pods}/{name}", lambda answer: len(_statuses(answer)) == len(references))
    return known.body, _statuses(known)


async def _reserve(api: RestClient, claim_name: str, *pods: Any) -> None:
    """What a scheduler writes: finalizer, allocation, reservations."""
    path = f"{api.claims}/{claim_name}"
    assert (await api.patch(path, {"metadata": {"finalizers": [FINALIZER]}})).status == 200
    reserved = [consumer(p["metadata"]["name"], p["metadata"]["uid"]) for p in pods]
    status = {"status": {"allocation": allocation("d1"), "reservedFor": reserved}}
    assert (await api.patch(f"{path}/status", status)).status == 200


def _is_free(answer: Answer) -> bool:
    return answer["status"] == {} and not answer["metadata"].get("finalizers")


def _is_gone(answer: Answer) -> bool:
    return answer.status == 404


async def test_a_claim_is_made_from_the_template(cluster_api: RestClient) -> None:
    api = cluster_api
    await api.created(api.templates, _template(labels={"a": "b"}, annotations={"c": "d"}))
    made, names = await _pod_with_claims(api, "p", "gpu")
    assert names["gpu"].startswith("p-gpu-")
    assert len(names["gpu"]) == len("p-gpu-") + 5
    found = await api.get(f"{api.claims}/{names['gpu']}")
    metadata = found["metadata"]
    assert metadata["generateName"] == "p-gpu-"
    assert metadata["labels"] == {"a": "b"}
    assert metadata["annotations"] == {"c": "d", ANNOTATION: "gpu"}
    assert metadata["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"], "controller": True}
    ]
    assert found["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert "finalizers" not in metadata


async def test_each_reference_gets_a_claim_of_its_own(cluster_api: RestClient) -> None:
    api = cluster_api
    await api.created(api.templates, _template())
    _, names = await _pod_with_claims(api, "p", "one", "two")
    assert names.keys() == {"one", "two"}
    assert names["one"] != names["two"]
    # Claims the user names are the user's: nothing is made for them.
    await api.created(api.pods, pod("q", resourceClaims=[{"name": "x", "resourceClaimName": "own"}]))
    listed = await api.get(api.claims)
    assert {item["metadata"]["name"] for item in listed["items"]} == set(names.values())


async def test_a_template_may_come_after_the_pod(cluster_api: RestClient) -> None:
    api = cluster_api
    await api.created(api.pods, pod("p", resourceClaims=_uses("gpu")))
    events = f"/api/v1/namespaces/{api.namespace}/events"
    complaint = await api.eventually(events, lambda answer: bool(answer["items"]))
    event = complaint["items"][0]
    assert (event["type"], event["reason"]) == ("Warning", "FailedResourceClaimCreation")
    assert event["message"].startswith('PodResourceClaim gpu: resource claim template "t": ')
    assert event["involvedObject"]["name"] == "p"
    await api.created(api.templates, _template())
    await api.eventually(f"{api.pods}/p", lambda answer: "gpu" in _statuses(answer))


# Ours only: kube-controller-manager 1.36.3 goes on finding a claim it made in its mutation cache, for an hour.
@pytest.mark.parametrize("cluster_api", ["embedded"], indirect=True)
async def test_a_deleted_claim_is_made_again(cluster_api: RestClient) -> None:
    api = cluster_api
    await api.created(api.templates, _template())
    _, names = await _pod_with_claims(api, "p", "gpu")
    await api.delete(f"{api.claims}/{names['gpu']}")
    known = await api.eventually(
        f"{api.pods}/p", lambda answer: _statuses(answer).get("gpu") not in (None, names["gpu"])
    )
    again = await api.get(f"{api.claims}/{_statuses(known)['gpu']}")
    assert again["metadata"]["annotations"] == {ANNOTATION: "gpu"}


async def test_the_last_pods_end_frees_a_shared_claim(cluster_api: RestClient) -> None:
    api = cluster_api
    await api.created(api.claims, claim("shared"))
    uses = [{"name": "gpu", "resourceClaimName": "shared"}]
    pods = [await api.created(api.pods, pod(name, resourceClaims=uses)) for name in ("p", "q")]
    await _reserve(api, "shared", *pods)
    await api.patch(f"{api.pods}/p/status", {"status": {"phase": "Succeeded"}})
    one_left = await api.eventually(
        f"{api.claims}/shared", lambda answer: len(answer["status"].get("reservedFor", ())) == 1
    )
    assert one_left["status"]["reservedFor"][0]["name"] == "q"
    assert one_left["status"]["allocation"]
    await api.delete(f"{api.pods}/q")
    await api.eventually(f"{api.claims}/shared", _is_free)


async def test_a_claim_that_was_never_reserved_stays_allocated(cluster_api: RestClient) -> None:
    api = cluster_api
    await api.created(api.claims, claim("idle"))
    await _reserve(api, "idle")
    # Another claim that does get freed shows that the controller has been by.
    await api.created(api.claims, claim("other"))
    gone = {"metadata": {"name": "gone", "uid": "11111111-2222-3333-4444-555555555555"}}
    await _reserve(api, "other", gone)
    await api.eventually(f"{api.claims}/other", _is_free)
    idle = await api.get(f"{api.claims}/idle")
    assert idle["status"]["allocation"]
    assert idle["metadata"]["finalizers"] == [FINALIZER]
    # Deleting it frees it.
    await api.delete(f"{api.claims}/idle")
    await api.eventually(f"{api.claims}/idle", _is_gone)


async def test_a_reservation_of_a_replaced_pod_is_taken_back(cluster_api: RestClient) -> None:
    api = cluster_api
    await api.created(api.claims, claim("c"))
    uses = [{"name": "gpu", "resourceClaimName": "c"}]
    await api.created(api.pods, pod("p", resourceClaims=uses))
    before = {"metadata": {"name": "p", "uid": "11111111-2222-3333-4444-555555555555"}}
    await _reserve(api, "c", before)
    await api.eventually(f"{api.claims}/c", _is_free)


async def test_consumers_of_unknown_kinds_are_kept(cluster_api: RestClient) -> None:
    api = cluster_api
    await api.created(api.claims, claim("c"))
    uses = [{"name": "gpu", "resourceClaimName": "c"}]
    made = await api.created(api.pods, pod("p", resourceClaims=uses))
    await _reserve(api, "c", made)
    other = {"apiGroup": "example.com", "resource": "things", "name": "thing", "uid": "u"}
    reserved = [consumer("p", made["metadata"]["uid"]), other]
    await api.patch(f"{api.claims}/c/status", {"status": {"reservedFor": reserved}})
    await api.delete(f"{api.pods}/p")
    left = await api.eventually(f"{api.claims}/c", lambda answer: answer["status"].get("reservedFor") == [other])
    assert left["status"]["allocation"]


async def test_generated_claims_go_with_a_finished_pod(cluster_api: RestClient) -> None:
    api = cluster_api
    await api.created(api.templates, _template())
    made, names = await _pod_with_claims(api, "p", "gpu")
    await _reserve(api, names["gpu"], made)
    await api.patch(f"{api.pods}/p/status", {"status": {"phase": "Failed"}})
    await api.eventually(f"{api.claims}/{names['gpu']}", _is_gone)
    assert (await api.get(f"{api.pods}/p")).status == 200


async def test_generated_claims_go_with_a_deleted_pod(cluster_api: RestClient) -> None:
    api = cluster_api
    await api.created(api.templates, _template())
    made, names = await _pod_with_claims(api, "p", "gpu")
    await _reserve(api, names["gpu"], made)
    await api.delete(f"{api.pods}/p")
    await api.eventually(f"{api.claims}/{names['gpu']}", _is_gone)


async def test_a_pod_bound_by_someone_else_gets_its_reservation(cluster_api: RestClient) -> None:
    api = cluster_api
    await api.created(api.claims, claim("c"))
    await _reserve(api, "c")
    uses = [{"name": "gpu", "resourceClaimName": "c"}]
    made = await api.created(api.pods, pod("p", resourceClaims=uses, nodeName="n1"))
    wanted = [consumer("p", made["metadata"]["uid"])]
    await api.eventually(f"{api.claims}/c", lambda answer: answer["status"].get("reservedFor") == wanted)


async def test_a_namespace_is_emptied_before_it_goes(cluster_api: RestClient) -> None:
    api = cluster_api
    await api.created("/api/v1/namespaces", {"metadata": {"name": f"{api.namespace}-x"}})
    inside = f"/apis/resource.k8s.io/v1/namespaces/{api.namespace}-x/resourceclaims"
    body = claim("c")
    body["metadata"]["finalizers"] = [FINALIZER]
    await api.created(inside, body)
    deleted = await api.delete(f"/api/v1/namespaces/{api.namespace}-x")
    assert deleted["status"]["phase"] == "Terminating"
    await api.eventually(f"{inside}/c", _is_gone)
    await api.eventually(f"/api/v1/namespaces/{api.namespace}-x", _is_gone)


@pytest.mark.slow
async def test_long_names_are_cut_alike(cluster_api: RestClient) -> None:
    api = cluster_api
    pod_name, reference = "pod-" + "p" * 56, "claim-" + "c" * 34
    await api.created(api.templates, _template())
    _, names = await _pod_with_claims(api, pod_name, reference)
    assert names[reference][:-5] == generate_name(pod_name, reference)
