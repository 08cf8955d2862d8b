"""Changes to the pod itself, to nodes, and to pods that take room on them.

Not here: claims (`claim_changes`), devices (`device_changes`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from scheduler.explain.device_changes import toleration_text
from scheduler.explain.objects import Objects
from scheduler.explain.quantities import exact, written
from scheduler.explain.world import Change, Obj
from scheduler.lint.nearest import listed
from scheduler.model.selector_mistakes import near

_AMOUNTS_MAX: Final = 8
_ENDED: Final = ("Succeeded", "Failed")


def pod_changes(objects: Objects) -> Iterator[Change]:
    """All candidates of this module."""
    index = objects.pod_index
    if index is not None:
        pod = f"pod {'/'.join(objects.world.pod)}"
        yield from _gates(objects, index, pod)
        yield from _priority_class(objects, index, pod)
        yield from _tolerations(objects, index, pod)
        yield from _node_rules(objects, index, pod)
        yield from _requests(objects, index, pod)
    yield from _cordons(objects)
    yield from _room(objects)


def _gates(objects: Objects, index: int, pod: str) -> Iterator[Change]:
    gates = objects.pod["spec"].get("schedulingGates") or ()
    if gates:
        names = ", ".join(str(one.get("name")) for one in gates)
        cause = f"{pod} has the scheduling gate{'s' if len(gates) > 1 else ''} {names}"
        text = f"whoever set {names} must remove it from {pod}"
        yield Change("gate", 2, cause, text, ((index, lambda obj: _drop(obj, "schedulingGates")),))


def _drop(obj: Obj, field: str) -> None:
    obj["spec"].pop(field, None)


def _priority_class(objects: Objects, index: int, pod: str) -> Iterator[Change]:
    name, known = objects.pod["spec"].get("priorityClassName"), objects.names("PriorityClass")
    if not name or name in known or name.startswith("system-"):
        return
    meant = near(name, known)

    def edit(obj: Obj) -> None:
        if meant:
            obj["spec"]["priorityClassName"] = meant
        else:
            _drop(obj, "priorityClassName")

    text = f"write priorityClassName: {meant} instead of {name}" if meant else f"drop priorityClassName: {name}"
    cause = f"{pod} names PriorityClass {name}, which does not exist; {listed(known)}"
    yield Change("priority-class", 1, cause, f"{text} in {pod}", ((index, edit),))


def _tolerations(objects: Objects, index: int, pod: str) -> Iterator[Change]:
    taints: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for _, node in objects.of("Node"):
        for taint in (node.get("spec") or {}).get("taints") or ():
            which = str(taint.get("key")), str(taint.get("value") or ""), str(taint.get("effect"))
            taints[which].append(str(node["metadata"]["name"]))
    for (key, value, effect), names in sorted(taints.items()):
        toleration = {"key": key, "operator": "Equal" if value else "Exists", "effect": effect}
        if value:
            toleration["value"] = value

        def edit(obj: Obj, toleration: Mapping[str, Any] = toleration) -> None:
            obj["spec"]["tolerations"] = [*(obj["spec"].get("tolerations") or ()), toleration]

        shown = f"{key}{'=' + value if value else ''}:{effect}"
        cause = f"{_nodes(names)} the taint {shown}, which {pod} does not tolerate"
        text = f"add the toleration {toleration_text(toleration)} to {pod}, or remove the taint"
        yield Change("toleration", 2, cause, text, ((index, edit),))


def _nodes(names: list[str]) -> str:
    if len(names) == 1:
        return f"node {names[0]} has"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"nodes {', '.join(names[:3])}{more} have"


def _node_rules(objects: Objects, index: int, pod: str) -> Iterator[Change]:
    """Node selector, affinities and spread constraints."""
    spec = objects.pod["spec"]
    for key, value in (spec.get("nodeSelector") or {}).items():
        cause = f"no node with the label {key}={value} would do, which the nodeSelector of {pod} asks for"

        def edit(obj: Obj, key: str = key) -> None:
            obj["spec"]["nodeSelector"].pop(key, None)

        text = f"drop {key}: {value} from the nodeSelector of {pod}, or label a node"
        yield Change("node-selector", 4, cause, text, ((index, edit),))
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        if ((spec.get("affinity") or {}).get(kind) or {}).get(required):

            def relax(obj: Obj, kind: str = kind) -> None:
                obj["spec"]["affinity"][kind].pop(required)

            cause = f"no node that would do satisfies the required {kind} of {pod}"
            yield Change("affinity", 5, cause, f"relax the required {kind} of {pod}", ((index, relax),))
    if any(one.get("whenUnsatisfiable") == "DoNotSchedule" for one in spec.get("topologySpreadConstraints") or ()):
        cause = f"no node that would do satisfies the topologySpreadConstraints of {pod}"
        edits = ((index, lambda obj: _drop(obj, "topologySpreadConstraints")),)
        yield Change("spread", 5, cause, f"relax the topologySpreadConstraints of {pod}", edits)


def _requests(objects: Objects, index: int, pod: str) -> Iterator[Change]:
    """Smaller requests of a container: what nodes have free, the most first."""
    free = _free(objects)
    freed = _freed(objects, free)
    containers = objects.pod["spec"].get("containers") or ()
    for place, container in enumerate(containers):
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        others = _requested({**objects.pod["spec"], "containers": [one for one in containers if one is not container]})
        for name, amount in asked.items():
            wanted = exact(amount)
            lefts, more = (
                sorted({one[name] - others.get(name, 0) for one in ones if name in one}, reverse=True)
                for ones in (free.values(), freed)
            )
            if wanted is None:
                continue
            if "/" in name:
                yield from _fewer(index, place, container, name, int(wanted), pod)
                continue
            smaller = [[one for one in ones if 0 < one < wanted][:_AMOUNTS_MAX] for ones in (lefts, more)]
            for left in dict.fromkeys([*smaller[0], *smaller[1]]):

                def edit(obj: Obj, place: int = place, name: str = name, left: Fraction = left) -> None:
                    of = obj["spec"]["containers"][place]["resources"]
                    of["requests"] = {**(of.get("requests") or {}), name: written(left)}

                cause = f"{pod} asks for {name} {amount}; no node that would do has more than {written(left)} free"
                text = (
                    f"ask for {name} {written(left)} instead of {amount} in container {container.get('name')} of {pod}"
                )
                yield Change("resources", 3, cause, text, ((index, edit),), f"{name} {place}")


def _fewer(  # noqa: PLR0917
    index: int, place: int, container: Mapping[str, Any], name: str, wanted: int, pod: str
) -> Iterator[Change]:
    """Fewer of an extended resource, the most first."""
    for count in range(wanted - 1, max(0, wanted - 1 - _AMOUNTS_MAX), -1):

        def edit(obj: Obj, count: int = count) -> None:
            of = obj["spec"]["containers"][place]["resources"]
            for kind in ("requests", "limits"):
                of[kind] = {**(of.get(kind) or {}), name: str(count)}

        cause = f"{pod} asks for {wanted} of {name}; no node that would do has more than {count} free"
        text = f"ask for {count} of {name} instead of {wanted} in container {container.get('name')} of {pod}"
        yield Change("resources", 3, cause, text, ((index, edit),), f"{name} {place}")


def _free(objects: Objects) -> dict[str, dict[str, Fraction]]:
    """What the running pods leave of each node's allocatable resources."""
    free: dict[str, dict[str, Fraction]] = {}
    for _, node in objects.of("Node"):
        resources = ((node.get("status") or {}).get("allocatable") or {}).items()
        amounts = {name: exact(amount) for name, amount in resources}
        free[str(node["metadata"]["name"])] = {name: one for name, one in amounts.items() if one is not None}
    for _, pod in _running(objects):
        left = free.get(str(pod["spec"]["nodeName"]), {})
        for name, amount in _requested(pod["spec"]).items():
            if name in left:
                left[name] -= amount
    return free


def _freed(objects: Objects, free: Mapping[str, Mapping[str, Fraction]]) -> list[dict[str, Fraction]]:
    """What a node would have free if one of its pods ended: a smaller request may be what is missing then."""
    found = []
    for _, pod in _running(objects):
        left, given = free.get(str(pod["spec"]["nodeName"]), {}), _requested(pod["spec"])
        found.append({name: left[name] + amount for name, amount in given.items() if name in left and amount})
    return found


def _requested(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = defaultdict(Fraction)
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        for name, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            total[name] += exact(amount) or 0
    return total


def _running(objects: Objects) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for index, pod in objects.of("Pod"):
        phase = (pod.get("status") or {}).get("phase")
        if index != objects.pod_index and (pod.get("spec") or {}).get("nodeName") and phase not in _ENDED:
            yield index, pod


def _cordons(objects: Objects) -> Iterator[Change]:
    for index, node in objects.of("Node"):
        if (node.get("spec") or {}).get("unschedulable"):
            name = node["metadata"]["name"]

            def edit(obj: Obj) -> None:
                obj["spec"].pop("unschedulable")
                # The node controller's own taint goes with it.
                taints = obj["spec"].get("taints") or ()
                obj["spec"]["taints"] = [one for one in taints if one.get("key") != "node.kubernetes.io/unschedulable"]

            yield Change("cordon", 2, f"node {name} is cordoned", f"kubectl uncordon {name}", ((index, edit),))


def _room(objects: Objects) -> Iterator[Change]:
    """Running pods that take what the nodes have, the least important first."""
    found = sorted(_running(objects), key=lambda one: int(one[1]["spec"].get("priority") or 0))
    for index, pod in found:
        name = f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
        priority, node = int(pod["spec"].get("priority") or 0), pod["spec"]["nodeName"]

        def edit(obj: Obj) -> None:
            obj["status"] = {**(obj.get("status") or {}), "phase": "Succeeded"}

        cause = f"pod {name} (priority {priority}) is in its way on node {node}"
        yield Change("room", 6, cause, f"end pod {name} (priority {priority}) on node {node}", ((index, edit),))
