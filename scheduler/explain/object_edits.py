"""Edits of objects that no plugin can propose, because the scheduler does not see what they are about.

It sees no other namespace's claim as the pod's, no templates, no priority classes, and no object that the API server
refuses. Each is tried only where no smaller change of the plugins helps (`fix_search`).

Rules of this module
  1. A cause states what the objects say; whether it is what keeps the pod from fitting is found out by asking.

Not here: what plugins know (`framework.diagnosis`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from scheduler.explain.asked_objects import Objects
from scheduler.explain.world import Obj
from scheduler.framework.diagnosis import admin_access_unlabelled
from scheduler.model.api_rules import ADMIN_ACCESS_LABEL
from scheduler.model.keys import PodKey
from scheduler.model.nearest import listed, near
from scheduler.validation.claim_refusals import results_of
from scheduler.why.reasons import Diagnosis, Fix, Reason, removing
from scheduler.why.say import Fields, names


def object_edits(objects: Objects) -> list[Fix]:
    """All that are worth asking about, the smallest first, those that harm others last."""
    return sorted((edit for rule in _RULES for edit in rule(objects)), key=lambda one: (one.whom, one.size))


def _names(objects: Objects) -> Iterator[Fix]:
    """Claims and templates that the pod names, and that are elsewhere or have another name."""
    key_of_pod = PodKey(*objects.world.pod)
    namespace = key_of_pod.namespace
    for place, entry in enumerate(objects.claim_entries()):
        for key, kind in (("resourceClaimName", "ResourceClaim"), ("resourceClaimTemplateName", _TEMPLATE)):
            name = entry.get(key)
            if not name or objects.find(kind, name, namespace) or objects.pod_index is None:
                continue
            if key != "resourceClaimName" and any(source.path == ("spec",) for source in objects.sources):
                continue  # its claim is there already
            why = "claim-missing" if kind == "ResourceClaim" else "claim-not-made"
            fields = {"kind": kind, "name": name, "namespace": namespace, "pod": key_of_pod, "key": key}
            if elsewhere := objects.find(kind, name):
                other = elsewhere[1]["metadata"].get("namespace", "default")
                yield Fix(
                    "claim-here",
                    fields,
                    (),
                    reason=Reason(why, {**fields, "other": other}, "elsewhere"),
                    edits=((elsewhere[0], lambda obj, name=name: _moved(obj, name, namespace)),),  # type: ignore[misc]
                    objects=(f"{kind.lower()}/{other}/{name}",),
                )
            there = objects.names(kind, namespace)
            if kind == _TEMPLATE and (meant := near(name, there) or (there[0] if len(there) == 1 else "")):

                def edit(obj: Obj, place: int = place, meant: str = meant) -> None:
                    obj["spec"]["resourceClaims"][place]["resourceClaimTemplateName"] = meant

                written = _written("resourceClaimTemplateName", meant, name, objects.edited)
                reason, about = Reason(why, {**fields, "known": names(there)}, "template"), (f"pod/{key_of_pod}",)
                yield Fix("written", written, reason=reason, edits=((objects.pod_index, edit),), objects=about)


def _written(key: str, meant: str, wrong: str, edited: str) -> Fields:
    return {"written": f"{key}: {meant}", "wrong": wrong, "edited": edited}


_TEMPLATE: Final = "ResourceClaimTemplate"


def _moved(obj: Obj, name: str, namespace: str) -> None:
    obj["metadata"] = {"name": name, "namespace": namespace}
    obj.pop("status", None)


def _of_the_pod(objects: Objects) -> Iterator[Fix]:
    """A priority class that is not there."""
    index, pod = objects.pod_index, PodKey(*objects.world.pod)
    if index is None:
        return
    spec, about = objects.pod.get("spec") or {}, (f"pod/{pod}",)
    name, known = spec.get("priorityClassName"), objects.names("PriorityClass")
    if not name or name in known or name.startswith("system-"):
        return
    meant = near(name, known)

    def edit(obj: Obj) -> None:
        obj["spec"]["priorityClassName"] = meant

    written = {**_written("priorityClassName", meant, name, objects.edited), "dropped": f"priorityClassName: {name}"}
    reason = Reason("priority-class-missing", {"pod": pod, "priority_class": name, "there": listed(known)})
    yield Fix("written" if meant else "dropped", written, reason=reason, edits=((index, edit),), objects=about)


def _admin_access(objects: Objects) -> Iterator[Fix]:
    namespace = objects.world.pod[0]
    found = objects.find("Namespace", namespace)
    if found is None or not any(request.body.get("adminAccess") for request in objects.requests):
        return

    def edit(obj: Obj) -> None:
        obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), ADMIN_ACCESS_LABEL: "true"}

    reason, about = admin_access_unlabelled(namespace), (f"namespace/{namespace}",)
    for fix in reason.fixes:
        yield structs.replace(removing(fix, reason), edits=((found[0], edit),), objects=about)


def given_up(objects: Objects) -> Diagnosis | None:
    """What a driver says of a device of the claims that it could not make ready; its claim gets another one."""
    for _, claim in objects.claims():
        status = claim.get("status") or {}
        results = results_of(status)
        kinds = {kind for one in results for kind in one.get("bindingFailureConditions") or ()}
        awaited = names(dict.fromkeys(kind for one in results for kind in one.get("bindingConditions") or ()))
        for device in status.get("devices") or ():
            for one in device.get("conditions") or ():
                if one.get("type") in kinds and one.get("status") == "True":
                    why = ": ".join(filter(None, (one.get("reason"), one.get("message"))))
                    fields = {"driver": device.get("driver"), "condition": awaited, "failed": one["type"], "why": why}
                    reason = Reason("binding-condition-unset", fields, "failed")
                    return Diagnosis((reason,), (Fix("condition-set", fields, (), reason=reason),))
    return None


_RULES: Final = (_names, _of_the_pod, _admin_access)
