"""The resource claim controller: claims from templates, reservations taken back, unused claims removed.

What kube-controller-manager's resourceclaim controller does in a real cluster, as a client of the API. kopf
watches and keeps the indexes; the work is done by a few workers on a queue of keys, so that one object is
never worked on twice at the same time and a failure is retried with back-off.

Rules of this module
  1. Level-triggered: a key is worked on from the indexes (and live reads where staleness would hurt).
  2. Every write carries the resourceVersion it was decided on, or is a create; a 409 means look again.
  3. kopf is used through `on.event`, `index`, `on.startup` and `on.cleanup` only: anything else would write
     annotations or finalizers on users' objects.

Differs on purpose from upstream: the applied `resourceClaimStatuses` name all of a pod's generated claims, not
only the claims made in this run. Applying fewer names would remove the rest, and the next run would apply them
again, for ever. A claim whose creation was not answered is looked for in the API before another is made;
upstream looks in its cache only, and may make two.

Source: k8s.io/kubernetes v1.36.3 pkg/controller/resourceclaim/controller.go (syncPod, handleClaim, syncClaim).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import aiohttp
import kopf
import orjson

from scheduler.embedded.controllers.client_controller import (
    CLAIMS,
    PODS,
    TEMPLATES,
    ClientController,
    Obj,
    RequestError,
    WaitError,
    WorkKey,
)
from scheduler.model.api_rules import FINALIZER, POD_CLAIM_NAME_ANNOTATION, RESERVED_FOR_MAX
from scheduler.model.pod_claims import (
    claim_names,
    generate_name,
    is_owned_by,
    is_pod_done,
    owning_pod,
    uses_claims,
)

_LOG: Final = logging.getLogger("scheduler.embedded.controllers.claim_controllers")

FIELD_MANAGER: Final = "ResourceClaimController"

_CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"
_PODS: Final = "/api/v1/namespaces/{}/pods"
_OWNER: Final = "owner of"
"""First half of the keys under which the claim index has a pod's claims; no namespace has this name."""
_USER: Final = "user of"
"""The same for the pods that use a claim, in the pod index."""
_WORKERS: Final = 4
_DELETED_UIDS_MAX: Final = 500


class ClaimController(ClientController):
    """The controller's state; `register` puts it into a kopf registry."""

    def __init__(self, server: str, token: str | None = None, authority: str | None = None) -> None:
        super().__init__(server, token, authority, workers_count=_WORKERS)
        self._generated: dict[tuple[str, str], Obj] = {}
        self._unanswered: set[tuple[str, str]] = set()
        self._deleted_uids: OrderedDict[str, None] = OrderedDict()
        self._reported: set[tuple[str, str]] = set()

    # -- kopf --------------------------------------------------------------------------------------

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Put the controller's indexes and handlers into a private registry."""
        self.register_life(registry)

        def index_pod(name: str | None, namespace: str | None, body: kopf.Body, **_: Any) -> dict[Any, Obj]:
            pod = dict(body)
            return {(namespace, name): pod, **{(_USER, namespace, used): pod for used in claim_names(pod)}}

        def index(name: str | None, namespace: str | None, body: kopf.Body, **_: Any) -> dict[Any, Obj]:
            return {(namespace, name): dict(body)}

        def index_claim(name: str | None, namespace: str | None, body: kopf.Body, **_: Any) -> dict[Any, Obj]:
            claim = dict(body)
            keyed: dict[Any, Obj] = {(namespace, name): claim}
            if pod_uid := owning_pod(claim)[1]:
                keyed[_OWNER, pod_uid] = claim
            return keyed

        def needs_claims(body: kopf.Body, **_: Any) -> bool:
            return uses_claims(body)

        kopf.index(*PODS, id="pods", registry=registry, when=needs_claims)(index_pod)
        kopf.index(*CLAIMS, id="claims", registry=registry)(index_claim)
        kopf.index(*TEMPLATES, id="templates", registry=registry)(index)
        self.on_event(registry, PODS, self.pod_changed, when=needs_claims)
        self.on_event(registry, CLAIMS, self.claim_changed)
        self.on_event(registry, TEMPLATES, self.template_changed)

    # -- what makes a key due ----------------------------------------------------------------------

    def pod_changed(self, pod: Obj, *, is_deleted: bool) -> None:
        """A pod that uses claims was added, changed or deleted."""
        metadata = pod["metadata"]
        if is_deleted:
            self._remember_deleted(metadata["uid"])
            self._forget_pod(metadata["uid"])
        if is_deleted or is_pod_done(pod):
            for name in claim_names(pod):
                self._queue.enqueue(("claim", metadata["namespace"], name))
        if not is_deleted:
            self._queue.enqueue(("pod", metadata["namespace"], metadata["name"]))

    def claim_changed(self, claim: Obj, *, is_deleted: bool) -> None:
        metadata = claim["metadata"]
        if is_deleted:
            self._remember_deleted(metadata["uid"])
        else:
            self._queue.enqueue(("claim", metadata["namespace"], metadata["name"]))
        pod_name, pod_uid = owning_pod(claim)
        if pod_name:
            # The index knows it now, or knows that it is gone.
            self._generated.pop((pod_uid, (metadata.get("annotations") or {}).get(POD_CLAIM_NAME_ANNOTATION, "")), None)
            # A deleted claim is made again.
            self._queue.enqueue(("pod", metadata["namespace"], pod_name))
        # An allocated claim may lack the reservation of a pod that was bound without a scheduler.
        for pod in self._indexes["pods"].get((_USER, metadata["namespace"], metadata["name"]), ()):
            if pod["spec"].get("nodeName"):
                self._queue.enqueue(("pod", metadata["namespace"], pod["metadata"]["name"]))

    def template_changed(self, template: Obj, *, is_deleted: bool) -> None:
        """A template was added or changed: pods may have waited for it."""
        namespace, name = template["metadata"]["namespace"], template["metadata"]["name"]
        for key, pods in list(self._indexes["pods"].items()):
            if key[0] != namespace:
                continue
            for pod in pods:
                if any(
                    reference.get("resourceClaimTemplateName") == name
                    for reference in pod["spec"].get("resourceClaims") or ()
                ):
                    self._queue.enqueue(("pod", namespace, pod["metadata"]["name"]))

    def _remember_deleted(self, uid: str) -> None:
        self._deleted_uids[uid] = None
        if len(self._deleted_uids) > _DELETED_UIDS_MAX:
            self._deleted_uids.popitem(last=False)

    def _forget_pod(self, uid: str) -> None:
        for key in [key for key in self._generated if key[0] == uid]:
            del self._generated[key]
        self._unanswered = {key for key in self._unanswered if key[0] != uid}
        self._reported = {entry for entry in self._reported if entry[0] != uid}

    async def sync(self, key: WorkKey) -> None:
        kind, namespace, name = key
        await (self.sync_pod if kind == "pod" else self.sync_claim)(namespace, name)

    def _indexed(self, index: Mapping[Any, Any], namespace: str, name: str) -> Obj | None:
        for found in index.get((namespace, name), ()):
            obj: Obj = found
            return obj
        return None

    # -- pods --------------------------------------------------------------------------------------

    async def sync_pod(self, namespace: str, name: str) -> None:
        """Make the claims that a pod lacks, write their names into its status, reserve for a pod bound by others."""
        pod = self._indexed(self._indexes["pods"], namespace, name)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return
        name_by_reference: dict[str, str] = {}
        has_news = False
        for reference in pod["spec"].get("resourceClaims") or ():
            template = reference.get("resourceClaimTemplateName")
            if not template:
                continue
            try:
                claim_name, is_news = await self._claim_for(pod, reference["name"], template)
            except (WaitError, RequestError) as error:
                await self._report(pod, f"PodResourceClaim {reference['name']}: {error}")
                raise
            if claim_name:
                name_by_reference[reference["name"]] = claim_name
            has_news = has_news or is_news
        if has_news:
            await self._write_claim_names(pod, name_by_reference)
        if pod["spec"].get("nodeName"):
            await self._reserve_for_bound_pod(pod)

    async def _claim_for(self, pod: Obj, reference: str, template_name: str) -> tuple[str, bool]:
        """The pod's claim for a reference, made if need be; and whether the pod's status still lacks its name."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
            if entry["name"] != reference:
                continue
            known = entry.get("resourceClaimName")
            if not known:
                return "", False  # No claim is needed.
            claim = self._indexed(self._indexes["claims"], namespace, known) or self._own_write(uid, reference, known)
            if claim is None:
                # The index may lag behind the pod.
                claim = await self._requests.get(f"{_CLAIMS.format(namespace)}/{known}")
            if claim is not None and is_owned_by(claim, pod):
                return known, False
        found = self._find_claim(pod, reference)
        if found is None and (uid, reference) in self._unanswered:
            listed = await self._requests.get(_CLAIMS.format(namespace))
            found = _claim_made_for(pod, reference, (listed or {}).get("items") or ())
            self._unanswered.discard((uid, reference))
        if found is None:
            found = await self._create_claim(pod, reference, template_name)
        return found["metadata"]["name"], True

    def _own_write(self, uid: str, reference: str, name: str) -> Obj | None:
        """A claim we made that the index has not shown yet."""
        claim = self._generated.get((uid, reference))
        return claim if claim is not None and claim["metadata"]["name"] == name else None

    def _find_claim(self, pod: Obj, reference: str) -> Obj | None:
        """A claim made for the pod whose name did not get into the pod's status."""
        uid = pod["metadata"]["uid"]
        indexed = _claim_made_for(pod, reference, self._indexes["claims"].get((_OWNER, uid), ()))
        return indexed or self._generated.get((uid, reference))

    async def _create_claim(self, pod: Obj, reference: str, template_name: str) -> Obj:
        metadata = pod["metadata"]
        namespace = metadata["namespace"]
        template = self._indexed(self._indexes["templates"], namespace, template_name)
        if template is None:
            raise WaitError(f'resource claim template "{template_name}": not found')
        copied = template["spec"].get("metadata") or {}
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        claim_metadata: dict[str, Any] = {
            "generateName": generate_name(metadata["name"], reference),
            "annotations": {**(copied.get("annotations") or {}), POD_CLAIM_NAME_ANNOTATION: reference},
            "ownerReferences": [owner],
        }
        if copied.get("labels"):
            claim_metadata["labels"] = copied["labels"]
        body = {"metadata": claim_metadata, "spec": template["spec"]["spec"]}
        try:
            claim: Obj = await self._requests.send("POST", _CLAIMS.format(namespace), body)
        except (aiohttp.ClientError, TimeoutError):
            self._unanswered.add((metadata["uid"], reference))
            raise
        self._generated[metadata["uid"], reference] = claim
        _LOG.info("created claim %s/%s for pod %s", namespace, claim["metadata"]["name"], metadata["name"])
        return claim

    async def _write_claim_names(self, pod: Obj, name_by_reference: Mapping[str, str]) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        statuses = [{"name": key, "resourceClaimName": value} for key, value in name_by_reference.items()]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            # The UID keeps a pod of the same name that came later from getting these.
            "metadata": {"name": name, "namespace": namespace, "uid": pod["metadata"]["uid"]},
            "status": {"resourceClaimStatuses": statuses},
        }
        path = f"{_PODS.format(namespace)}/{name}/status?fieldManager={FIELD_MANAGER}&force=true"
        try:
            await self._requests.send("PATCH", path, body, media="application/apply-patch+yaml")
        except RequestError as error:
            if error.code != 404:
                raise

    async def _report(self, pod: Obj, text: str) -> None:
        metadata = pod["metadata"]
        if (metadata["uid"], text) in self._reported:
            return
        self._reported.add((metadata["uid"], text))
        await self._requests.record_event(
            pod, "Warning", "FailedResourceClaimCreation", text, component="resource_claim"
        )

    async def _reserve_for_bound_pod(self, pod: Obj) -> None:
        metadata = pod["metadata"]
        namespace, uid = metadata["namespace"], metadata["uid"]
        for name in claim_names(pod):
            claim = self._indexed(self._indexes["claims"], namespace, name)
            if claim is None:
                return
            status = claim.get("status") or {}
            reserved = status.get("reservedFor") or []
            if status.get("allocation") is None or any(entry.get("uid") == uid for entry in reserved):
                continue
            if len(reserved) >= RESERVED_FOR_MAX:
                continue
            changed = orjson.loads(orjson.dumps(claim))
            entry = {"resource": "pods", "name": metadata["name"], "uid": uid}
            changed["status"]["reservedFor"] = [*reserved, entry]
            await self._requests.send("PUT", f"{_CLAIMS.format(namespace)}/{name}/status", changed)

    # -- claims ------------------------------------------------------------------------------------

    async def sync_claim(self, namespace: str, name: str) -> None:
        """Take back reservations of pods that are gone or done; free, unprotect and delete a claim that is unused."""
        indexed = self._indexed(self._indexes["claims"], namespace, name)
        if indexed is None:
            return
        claim: dict[str, Any] = orjson.loads(orjson.dumps(indexed))
        try:
            await self._sync_claim(claim, namespace, name)
        except RequestError as error:
            if error.code == 404:
                return  # It has gone in the meantime.
            if error.code != 409:
                raise
            # The decision was made on an old version: decide again on the newest.
            live = await self._requests.get(f"{_CLAIMS.format(namespace)}/{name}")
            if live is not None:
                await self._sync_claim(dict(live), namespace, name)

    async def _sync_claim(self, claim: dict[str, Any], namespace: str, name: str) -> None:
        path = f"{_CLAIMS.format(namespace)}/{name}"
        reserved = (claim.get("status") or {}).get("reservedFor") or []
        remaining = [entry for entry in reserved if await self._is_still_valid(entry, namespace)]
        has_finalizer = FINALIZER in (claim["metadata"].get("finalizers") or ())
        if len(remaining) < len(reserved):
            claim["status"]["reservedFor"] = remaining
            if not remaining and has_finalizer:
                claim["status"].pop("allocation", None)
            claim = await self._requests.send("PUT", f"{path}/status", claim)
            if has_finalizer and (claim.get("status") or {}).get("allocation") is None:
                claim = await self._remove_finalizer(claim, path)
        elif has_finalizer and claim["metadata"].get("deletionTimestamp") and not remaining:
            if claim["status"].get("allocation") is not None:
                del claim["status"]["allocation"]
                claim = await self._requests.send("PUT", f"{path}/status", claim)
            claim = await self._remove_finalizer(claim, path)
        if not remaining:
            await self._delete_unused(claim, namespace, path)

    async def _is_still_valid(self, entry: Obj, namespace: str) -> bool:
        if entry.get("apiGroup") or entry.get("resource") != "pods":
            return True  # Whether consumers of other kinds still exist is not known here.
        if entry["uid"] in self._deleted_uids:
            return False
        pod = self._indexed(self._indexes["pods"], namespace, entry["name"])
        if pod is None:
            # Perhaps the index does not have it yet: only an answer of the API server counts.
            pod = await self._requests.get(f"{_PODS.format(namespace)}/{entry['name']}")
            return pod is not None and pod["metadata"]["uid"] == entry["uid"]
        return pod["metadata"]["uid"] == entry["uid"] and not is_pod_done(pod)

    async def _remove_finalizer(self, claim: dict[str, Any], path: str) -> dict[str, Any]:
        finalizers = claim["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers:
            return claim
        claim["metadata"]["finalizers"] = [name for name in finalizers if name != FINALIZER]
        updated: dict[str, Any] = await self._requests.send("PUT", path, claim)
        return updated

    async def _delete_unused(self, claim: Obj, namespace: str, path: str) -> None:
        pod_name, pod_uid = owning_pod(claim)
        if not pod_name or claim["metadata"].get("deletionTimestamp"):
            return
        pod = self._indexed(self._indexes["pods"], namespace, pod_name)
        if pod is None:
            return  # Unknown, not necessarily gone: the garbage collector sees to that.
        if pod["metadata"]["uid"] != pod_uid or is_pod_done(pod):
            await self._requests.send("DELETE", path, {"preconditions": {"uid": claim["metadata"]["uid"]}})


def _claim_made_for(pod: Obj, reference: str, claims: Iterable[Obj]) -> Obj | None:
    """The claim among `claims` that was made from a template for one of the pod's references."""
    for claim in claims:
        annotations = claim["metadata"].get("annotations") or {}
        if annotations.get(POD_CLAIM_NAME_ANNOTATION) == reference and is_owned_by(claim, pod):
            return claim
    return None


def settings() -> kopf.OperatorSettings:
    """kopf settings for a controller that only watches."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.scanning.disabled = True
    chosen.process.ultimate_exiting_timeout = None
    chosen.watching.server_timeout = 300
    chosen.watching.reconnect_backoff = 0.05
    chosen.networking.error_backoffs = (0.1, 0.2, 0.5, 1, 1, 2, 2, 5, 5, 10, 10)
    return chosen
