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

Not here: what is written (`claim_work`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import kopf

from scheduler.embedded.controllers.claim_work import (
    claim_from,
    entries_of_templates,
    find_made,
    is_protected,
    is_unused,
    names_in_status,
    owner_of_claims,
    release,
    reserved_status,
    without_finalizer,
)
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
from scheduler.model.api_rules import POD_CLAIM_NAME_ANNOTATION
from scheduler.model.pod_claims import claim_names, is_owned_by, is_pod_done, owning_pod, uses_claims

_LOG: Final = logging.getLogger("scheduler.embedded.controllers.claim_controllers")

FIELD_MANAGER: Final = "ResourceClaimController"

_CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"
_PODS: Final = "/api/v1/namespaces/{}/pods"
_OWNER: Final = "owner of"
"""First half of the keys under which the claim index has a pod's claims; no namespace has this name."""
_USER: Final = "user of"
"""The same for the pods that use a claim, in the pod index."""
_WORKERS: Final = 4


class ClaimController(ClientController):
    """The controller's state; `register` puts it into a kopf registry."""

    def __init__(self, server: str, token: str | None = None, authority: str | None = None) -> None:
        super().__init__(server, token, authority, workers_count=_WORKERS)
        # By pod's uid and entry: claims that the index has not shown yet; None where the answer was lost.
        self._generated: dict[tuple[str, str], Obj | None] = {}
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
            self._forget_pod(metadata["uid"])
        if is_deleted or is_pod_done(pod):
            for name in claim_names(pod):
                self._queue.enqueue(("claim", metadata["namespace"], name))
        if not is_deleted:
            self._queue.enqueue(("pod", metadata["namespace"], metadata["name"]))

    def claim_changed(self, claim: Obj, *, is_deleted: bool) -> None:
        metadata = claim["metadata"]
        if not is_deleted:
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
                if any(wanted == name for _, wanted in entries_of_templates(pod)):
                    self._queue.enqueue(("pod", namespace, pod["metadata"]["name"]))

    def _forget_pod(self, uid: str) -> None:
        for key in [key for key in self._generated if key[0] == uid]:
            del self._generated[key]
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
        for entry, template in entries_of_templates(pod):
            try:
                claim_name, is_news = await self._claim_for(pod, entry, template)
            except (WaitError, RequestError) as error:
                await self._report(pod, f"PodResourceClaim {entry}: {error}")
                raise
            if claim_name:
                name_by_reference[entry] = claim_name
            has_news = has_news or is_news
        if has_news:
            await self._write_claim_names(pod, name_by_reference)
        if pod["spec"].get("nodeName"):
            await self._reserve_for_bound_pod(pod)

    async def _claim_for(self, pod: Obj, entry: str, template_name: str) -> tuple[str, bool]:
        """The pod's claim for an entry, made if need be; and whether the pod's status still lacks its name."""
        namespace, key = pod["metadata"]["namespace"], (pod["metadata"]["uid"], entry)
        known = names_in_status(pod).get(entry)
        if known is not None:
            claim = self._indexed(self._indexes["claims"], namespace, known) if known else None
            if known and claim is None:
                # The index may lag behind the pod.
                claim = await self._requests.get(f"{_CLAIMS.format(namespace)}/{known}")
            if not known or (claim is not None and is_owned_by(claim, pod)):
                return known, False
        # Its name may not have got into the pod's status, and the index may not show it yet.
        found = find_made(pod, entry, self._indexes["claims"].get((_OWNER, key[0]), ())) or self._generated.get(key)
        if found is None and key in self._generated:
            listed = await self._requests.get(_CLAIMS.format(namespace))
            found = find_made(pod, entry, (listed or {}).get("items") or ())
            del self._generated[key]
        if found is None:
            found = await self._create_claim(pod, entry, template_name)
        return found["metadata"]["name"], True

    async def _create_claim(self, pod: Obj, entry: str, template_name: str) -> Obj:
        namespace, key = pod["metadata"]["namespace"], (pod["metadata"]["uid"], entry)
        template = self._indexed(self._indexes["templates"], namespace, template_name)
        if template is None:
            raise WaitError(f'resource claim template "{template_name}": not found')
        body = claim_from(template, owner_of_claims(pod), entry)
        try:
            claim: Obj = await self._requests.send("POST", _CLAIMS.format(namespace), body)
        except (aiohttp.ClientError, TimeoutError):
            self._generated[key] = None
            raise
        self._generated[key] = claim
        _LOG.info("created claim %s/%s for pod %s", namespace, claim["metadata"]["name"], pod["metadata"]["name"])
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
        namespace = pod["metadata"]["namespace"]
        for name in claim_names(pod):
            claim = self._indexed(self._indexes["claims"], namespace, name)
            if claim is None:
                return
            if status := reserved_status(claim, pod):
                await self._requests.send(
                    "PUT", f"{_CLAIMS.format(namespace)}/{name}/status", {**claim, "status": status}
                )

    # -- claims ------------------------------------------------------------------------------------

    async def sync_claim(self, namespace: str, name: str) -> None:
        """Take back reservations of pods that are gone or done; free, unprotect and delete a claim that is unused."""
        claim = self._indexed(self._indexes["claims"], namespace, name)
        if claim is None:
            return
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
                await self._sync_claim(live, namespace, name)

    async def _sync_claim(self, claim: Obj, namespace: str, name: str) -> None:
        path = f"{_CLAIMS.format(namespace)}/{name}"
        reserved = (claim.get("status") or {}).get("reservedFor") or []
        remaining = [entry for entry in reserved if await self._is_still_valid(entry, namespace)]
        taken = release(claim, remaining, protected=is_protected(claim))
        if taken.status is not None:
            claim = await self._requests.send("PUT", f"{path}/status", {**claim, "status": taken.status})
        if taken.drops_finalizer:
            claim = await self._requests.send("PUT", path, without_finalizer(claim))
        if not remaining:
            await self._delete_unused(claim, namespace, path)

    async def _is_still_valid(self, entry: Obj, namespace: str) -> bool:
        if entry.get("apiGroup") or entry.get("resource") != "pods":
            return True  # Whether consumers of other kinds still exist is not known here.
        pod = self._indexed(self._indexes["pods"], namespace, entry["name"])
        if pod is None:
            # Perhaps the index does not have it yet: only an answer of the API server counts.
            pod = await self._requests.get(f"{_PODS.format(namespace)}/{entry['name']}")
            return pod is not None and pod["metadata"]["uid"] == entry["uid"]
        return pod["metadata"]["uid"] == entry["uid"] and not is_pod_done(pod)

    async def _delete_unused(self, claim: Obj, namespace: str, path: str) -> None:
        pod_name, _ = owning_pod(claim)
        if not pod_name or claim["metadata"].get("deletionTimestamp"):
            return
        pod = self._indexed(self._indexes["pods"], namespace, pod_name)
        # A pod that is not in the index is unknown, not necessarily gone: the garbage collector sees to that.
        if pod is not None and is_unused(claim, pod):
            await self._requests.send("DELETE", path, {"preconditions": {"uid": claim["metadata"]["uid"]}})


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
