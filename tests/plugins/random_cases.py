"""Random clusters, pods and configurations in the vocabulary of all plugins.

The words are those of the recorded cases: labels, taints, amounts, requirements, volumes, arguments. A case puts them
together anew: each part of a node and of the pod is drawn by itself, volumes come with the objects behind them.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from tests.plugins.recorded_cases import Case, recorded

Obj = dict[str, Any]
NODES_MAX: Final = 6
PODS_MAX: Final = 9
_HOSTNAME: Final = "kubernetes.io/hostname"
_NODE_PARTS: Final = (
    ("status", "allocatable"),
    ("status", "images"),
    ("status", "declaredFeatures"),
    ("spec", "taints"),
)
_STORAGE: Final = (
    *("persistentVolumes", "persistentVolumeClaims", "storageClasses", "csiNodes", "csiDrivers"),
    *("csiStorageCapacities", "volumeAttachments"),
)
_OWNERS: Final = ("services", "replicationControllers", "replicaSets", "statefulSets")
_CONTAINERS: Final = ("containers", "initContainers", "resources", "overhead", "restartPolicy")
_SEPARATE: Final = (
    *("nodeSelector", "tolerations", "topologySpreadConstraints", "priority", "preemptionPolicy"),
    *("hostNetwork", "hostUsers"),
)
_AFFINITIES: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")


class Vocabulary:
    """The recorded cases, taken apart."""

    def __init__(self) -> None:
        cases: list[Case] = [case for rows in recorded().values() for case in rows]
        self.cases: Final = cases
        # By family, so that what a small one is about is drawn as often as what a large one is.
        self.nodes: Final = _by_family(lambda case: case["cluster"].get("nodes", ()))
        self.asked: Final = _by_family(lambda case: (case["pod"],))
        self.running: Final = _by_family(
            lambda case: (pod for pod in case["cluster"].get("pods", ()) if not pod["spec"].get("volumes"))
        )
        self.with_volumes: Final = [case for case in cases if case["pod"]["spec"].get("volumes")]
        self.with_owners: Final = [case for case in cases if any(case["cluster"].get(key) for key in _OWNERS)]
        self.with_namespaces: Final = [case for case in cases if case["cluster"].get("namespaces")]
        self.configs: Final = [case["config"] for case in cases if case["config"]]
        asked = [case["pod"] for case in cases]
        pods = [*asked, *(pod for case in cases for pod in case["cluster"].get("pods", ()))]
        self.having: Final = {part: [one for one in asked if part in one["spec"]] for part in _SEPARATE}
        self.ports: Final = [
            one["ports"]
            for pod in asked
            for one in pod["spec"]["containers"]
            if any("hostPort" in p for p in one.get("ports", ()))
        ]
        self.affine: Final = {
            part: [one for one in pods if part in (one["spec"].get("affinity") or {})] for part in _AFFINITIES
        }


def _by_family(of_case: Callable[[Case], Iterable[Obj]]) -> list[list[Obj]]:
    families = ([obj for case in rows for obj in of_case(case)] for rows in recorded().values())
    return [family for family in families if family]


def _one(draw: random.Random, families: Sequence[Sequence[Obj]]) -> Obj:
    return draw.choice(draw.choice(families))


class Generator:
    """Cases by number: the same number gives the same case."""

    def __init__(self) -> None:
        self._words: Final = Vocabulary()

    def case(self, number: int) -> Obj:
        """A case in the form of the recorded ones, without an answer."""
        draw = random.Random(number)
        words = self._words
        cluster: Obj = {"nodes": [_node(draw, words, f"node-{index}") for index in _some_numbers(draw)]}
        names = [node["metadata"]["name"] for node in cluster["nodes"]]
        pod = copy.deepcopy(_one(draw, words.asked))
        pod["spec"].pop("volumes", None)
        running = [_running(draw, words, index, names) for index in range(draw.randint(0, PODS_MAX))]
        _mix(draw, words, pod)
        if draw.random() < 0.03:
            pod["spec"]["nodeName"] = draw.choice(names)
        if draw.random() < 0.1:
            for one in (pod, *running):
                one["spec"]["containers"][0]["ports"] = draw.choice(words.ports)
        if draw.random() < 0.3:
            self._add_volumes(draw, cluster, pod, running)
        if draw.random() < 0.15:
            self._add_owners(draw, cluster, pod)
        if draw.random() < 0.5:
            cluster["namespaces"] = draw.choice(words.with_namespaces)["cluster"]["namespaces"]
        if draw.random() < 0.08:
            pod["status"]["nominatedNodeName"] = draw.choice(names)
        cluster["pods"] = running
        if draw.random() < 0.4:
            _crowd(draw, cluster, pod)
        config = draw.choice(words.configs) if draw.random() < 0.3 else None
        return {"name": f"random-{number}", "cluster": cluster, "pod": pod, "config": config}

    def _add_volumes(self, draw: random.Random, cluster: Obj, pod: Obj, running: list[Obj]) -> None:
        """The volumes of a recorded pod, the objects behind them, and the pods that use some of them."""
        source = draw.choice(self._words.with_volumes)
        pod["spec"]["volumes"] = source["pod"]["spec"]["volumes"]
        pod["metadata"]["uid"] = source["pod"]["metadata"]["uid"]
        for key in _STORAGE:
            cluster[key] = source["cluster"].get(key, [])
        places = [node["metadata"]["name"] for node in cluster["nodes"]]
        for user in source["cluster"].get("pods", ()):
            if user["spec"].get("volumes") and draw.random() < 0.8:
                other = copy.deepcopy(user)
                if "nodeName" in other["spec"] and draw.random() < 0.5:
                    other["spec"]["nodeName"] = draw.choice(places)
                running.append(other)

    def _add_owners(self, draw: random.Random, cluster: Obj, pod: Obj) -> None:
        source = draw.choice(self._words.with_owners)
        for key in _OWNERS:
            cluster[key] = source["cluster"].get(key, [])
        for key in ("labels", "ownerReferences"):
            if key in source["pod"]["metadata"]:
                pod["metadata"][key] = source["pod"]["metadata"][key]


def _some_numbers(draw: random.Random) -> Sequence[int]:
    return draw.sample(range(1, 10), draw.randint(1, NODES_MAX))


def _node(draw: random.Random, words: Vocabulary, name: str) -> Obj:
    """A node whose labels, taints, amounts and images are drawn from different ones."""
    labels = dict(_one(draw, words.nodes)["metadata"].get("labels") or {})
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = name
    node: Obj = {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}, "spec": {}, "status": {}}
    for section, key in _NODE_PARTS:
        found = _one(draw, words.nodes).get(section, {}).get(key)
        if found is not None and (key != "taints" or draw.random() < 0.5):
            node[section][key] = found
    if draw.random() < 0.05:
        node["spec"]["unschedulable"] = True
    return node


def _running(draw: random.Random, words: Vocabulary, index: int, places: Sequence[str]) -> Obj:
    """A pod of the cluster on one of its nodes; a pending one stays pending and may be nominated."""
    pod = copy.deepcopy(_one(draw, words.running))
    pod["metadata"]["name"], pod["metadata"]["uid"] = f"other-{index}", f"uid-other-{index}"
    if "nodeName" in pod["spec"]:
        pod["spec"]["nodeName"] = draw.choice(places)
    elif "nominatedNodeName" in pod["status"]:
        pod["status"]["nominatedNodeName"] = draw.choice(places)
    return pod


def _crowd(draw: random.Random, cluster: Obj, pod: Obj) -> None:
    """Fill the nodes with pods of which some are less important, and protect some of these; often all look alike."""
    priorities, minutes = ((0,), (0,)) if draw.random() < 0.5 else ((-10, 0, 0, 10, 50, 100), (0, 0, 1, 2))
    allowed = draw.choice((0, 0, 1, 2))
    pod["spec"]["priority"] = draw.choice((50, 100, 1000))
    if draw.random() < 0.9:
        pod["spec"].pop("preemptionPolicy", None)
    for node in cluster["nodes"]:
        node["status"]["allocatable"] = {**node["status"].get("allocatable", {}), "pods": str(draw.randint(1, 3))}
        # Go sorts more than twelve by an unstable algorithm: who comes first of those that look alike is chance.
        there = sum(one["spec"].get("nodeName") == node["metadata"]["name"] for one in cluster["pods"])
        for index in range(min(draw.randint(1, 3), 12 - there)):
            name = f"crowd-{node['metadata']['name']}-{index}"
            cpu = draw.choice(("100m", "500m", "1", "2"))
            other: Obj = {
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {}},
                "spec": {
                    "nodeName": node["metadata"]["name"],
                    "priority": draw.choice(priorities),
                    "containers": [{"name": "c", "image": "img", "resources": {"requests": {"cpu": cpu}}}],
                },
                "status": {"phase": "Running", "startTime": f"2026-01-01T00:0{draw.choice(minutes)}:00Z"},
            }
            other["metadata"]["labels"] = {"app": draw.choice(("a", "b", "c"))}
            if draw.random() < 0.1:
                other["metadata"] |= {"deletionTimestamp": "2026-01-01T01:00:00Z", "finalizers": ["example.com/wait"]}
            cluster["pods"].append(other)
    cluster["podDisruptionBudgets"] = [
        {
            "metadata": {"name": f"budget-{app}", "namespace": "default", "uid": f"uid-budget-{app}"},
            "spec": {"selector": draw.choice(({"matchLabels": {"app": app}}, {"matchLabels": {"app": app}}, {}))},
            "status": {"disruptionsAllowed": allowed},
        }
        for app in draw.sample(("a", "b", "c"), draw.choice((0, 1, 3)))
    ]


def _mix(draw: random.Random, words: Vocabulary, pod: Obj) -> None:
    """Draw parts of the pod anew, each by itself."""
    spec = pod["spec"]
    if draw.random() < 0.4:
        other = _one(draw, words.asked)
        for key in _CONTAINERS:
            spec.pop(key, None)
            if key in other["spec"]:
                spec[key] = copy.deepcopy(other["spec"][key])
    for key in _SEPARATE:
        if draw.random() < 0.15:
            spec[key] = draw.choice(words.having[key])["spec"][key]
    affinity = dict(spec.get("affinity") or {})
    for key in _AFFINITIES:
        if draw.random() < 0.2:
            affinity[key] = copy.deepcopy(draw.choice(words.affine[key])["spec"]["affinity"][key])
            _mutate(draw, affinity[key])
    if affinity:
        spec["affinity"] = affinity
    if "topologySpreadConstraints" in spec:
        spec["topologySpreadConstraints"] = copy.deepcopy(spec["topologySpreadConstraints"])
        _mutate(draw, spec["topologySpreadConstraints"])
    if draw.random() < 0.3:
        labels = _one(draw, words.asked)["metadata"].get("labels")
        if labels:
            pod["metadata"]["labels"] = labels
    if "schedulingGates" in spec and draw.random() < 0.8:
        del spec["schedulingGates"]
    spec.pop("nodeName", None)


_CHANGES: Final[Mapping[str, Callable[[random.Random], Any]]] = {
    "weight": lambda draw: draw.choice((1, 7, 50, 100)),
    "maxSkew": lambda draw: draw.randint(1, 4),
    "topologyKey": lambda draw: draw.choice((_HOSTNAME, "topology.kubernetes.io/zone", "rack", "disk")),
    "operator": lambda draw: draw.choice(("In", "NotIn")),
    "whenUnsatisfiable": lambda draw: draw.choice(("DoNotSchedule", "ScheduleAnyway")),
}


def _mutate(draw: random.Random, value: Any) -> None:
    """Change some values in place to others that are valid there."""
    if isinstance(value, list):
        for one in value:
            _mutate(draw, one)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key == "operator" and inner not in ("In", "NotIn"):
                continue
            if key == "whenUnsatisfiable" and "minDomains" in value:
                continue
            if key in _CHANGES:
                if draw.random() < 0.3:
                    value[key] = _CHANGES[key](draw)
            else:
                _mutate(draw, inner)
