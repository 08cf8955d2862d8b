"""What the demo's cluster holds, and what is applied to it: built-in nodes, examples, files.

Rules of this module
  1. Everything of files is checked for unknown fields before anything is applied, as kubectl does.
  2. A refusal names file, line and object, and the others are applied.
  3. Pods come into the scheduler's queue in the order of the files: a pod whose claims are made from templates has
     them before the next object is applied. The controller that makes them works on several pods at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scheduler.cli.pod_devices import OURS

if TYPE_CHECKING:
    from scheduler.cli.manifests import Document
    from scheduler.embedded.cluster import EmbeddedCluster


_NOT_RUN: Final = ("CronJob", "ReplicationController")
_CLAIMS_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.005


class DemoError(Exception):
    """Something the user can act on: a dump that cannot be restored."""


@dataclass(slots=True)
class DemoObjects:
    """What to build the cluster from, and what to apply when the scheduler runs.

    Attributes:
        description: What the cluster holds, for the first line.
        built_in: The built-in nodes and slices.
        infrastructure: What `--cluster` names.
        applied: The examples, and what `--apply` names; without what was refused, once that is known.
        refused: What the API server refuses, and why.
    """

    description: str
    built_in: list[dict[str, Any]] = field(default_factory=list)
    infrastructure: list[Document] = field(default_factory=list)
    applied: list[Document] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @staticmethod
    def read(cluster_files: Sequence[str], extra: Sequence[str], *, nodes: int, is_empty: bool) -> DemoObjects:
        """What the options ask for."""
        from scheduler.cli.manifests import open_manifests

        if cluster_files:
            objects = DemoObjects(f"what {' and '.join(cluster_files)} holds")
        elif is_empty:
            objects = DemoObjects("nothing but its namespaces")
        else:
            from scheduler.cli.demo_cluster import fleet

            objects = DemoObjects(f"{nodes} nodes with 8 large GPUs, 1 with 8 small ones")
            objects.built_in = fleet(large_nodes=nodes, small_nodes=1)
        objects.infrastructure = open_manifests(cluster_files)
        examples = [] if cluster_files or is_empty else [str(path) for path in _example_files()]
        objects.applied = open_manifests([*examples, *extra])
        return objects

    @property
    def counted(self) -> str:
        """For the progress: how many objects from where."""
        files = dict.fromkeys(document.file for document in self.applied)
        folders = {"docs/examples" if _is_example(file) else file for file in files}
        return f"{len(self.applied)} objects from {', '.join(sorted(folders))}" if files else "nothing"

    @property
    def pods_before(self) -> int:
        """How many pods of ours the manifests of the cluster lead to, at least; those of a dump are there already."""
        from scheduler.embedded.loading import is_from_a_server

        return sum(_pods_of(document.obj) for document in self.infrastructure if not is_from_a_server(document.obj))

    @property
    def pods_expected(self) -> int:
        """How many pods of ours the applied objects lead to, at least."""
        return sum(_pods_of(document.obj) for document in self.applied)

    async def build(self, cluster: EmbeddedCluster) -> list[str]:
        """Everything that is there before the scheduler starts; returns notes for the user. Raises DemoError."""
        from scheduler.embedded.loading import is_from_a_server, is_restored
        from scheduler.embedded.server.statuses import ApiError

        await cluster.apply(self.built_in)
        restored = [each for each in self.infrastructure if is_from_a_server(each.obj)]
        written = [each for each in self.infrastructure if not is_from_a_server(each.obj)]
        try:
            cluster.restore([each.obj for each in restored if is_restored(each.obj)])
        except ApiError as error:
            raise DemoError(f"{restored[0].file}: {error}") from error
        self.infrastructure, notes = await self._apply(cluster, written)
        return notes

    async def apply(self, cluster: EmbeddedCluster) -> list[str]:
        """Apply the rest; returns notes for the user."""
        self.applied, notes = await self._apply(cluster, self.applied)
        return notes

    async def _apply(self, cluster: EmbeddedCluster, documents: Sequence[Document]) -> tuple[list[Document], list[str]]:
        """What is there now, and notes; the API server's refusals are among both the notes and `refused`."""
        from scheduler.embedded.loading import is_from_a_server
        from scheduler.embedded.server.statuses import ApiError

        before = len(self.refused)
        served, notes = _check(cluster, documents, self.refused)
        notes += _make_namespaces(cluster, served)
        applied: list[Document] = []
        claims_come = True
        for document in sorted(served, key=lambda one: one.kind != "Namespace"):
            obj = document.obj
            if is_from_a_server(obj):
                obj = _as_written(obj)
                notes.append(f"{document.place()}: {document.name} is from a cluster: applied as a new object")
            try:
                made = cluster.apply_one(obj)
            except ApiError as error:
                self.refused.append(f"{document.place()}: {document.name}: {error}")
                continue
            applied.append(document)
            claims_come = claims_come and await _has_claims(cluster, made)
        await asyncio.sleep(0)  # watchers and controllers get a turn
        return applied, notes + [f"refused: {text}" for text in self.refused[before:]]


async def _has_claims(cluster: EmbeddedCluster, made: dict[str, Any]) -> bool:
    """Wait until the claims of a pod of ours are made; False: they did not come in time, so waiting is no use."""
    if not _pods_of(made) or made["kind"] != "Pod":
        return True
    from scheduler.embedded.controllers.claim_work import entries_of_templates, names_in_status
    from scheduler.embedded.kinds.catalog import CLAIM_TEMPLATE, POD

    store, metadata = cluster.api.store, made["metadata"]
    entries = dict(entries_of_templates(made))
    if any(store.get(CLAIM_TEMPLATE.kind_id, metadata["namespace"], name) is None for name in entries.values()):
        return True  # The pod waits for a template that another file may have.
    try:
        async with asyncio.timeout(_CLAIMS_TIMEOUT_S):
            while True:
                pod = store.get(POD.kind_id, metadata["namespace"], metadata["name"])
                if pod is None or entries.keys() <= names_in_status(pod.obj).keys():
                    return True
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        return False


def _check(
    cluster: EmbeddedCluster, documents: Sequence[Document], refused: list[str]
) -> tuple[list[Document], list[str]]:
    """What can be applied, and a note for each object that is left out; what is wrong is added to `refused`."""
    from scheduler.embedded.loading import kind_of
    from scheduler.embedded.server.field_validation import check_fields, is_known_elsewhere
    from scheduler.embedded.server.statuses import ApiError

    served, notes = [], []
    for document in documents:
        where = f"{document.place()}: {document.name}"
        if document.kind in _NOT_RUN:
            refused.append(f"{where}: the embedded cluster makes no pods for it; write a Job, a Deployment or pods")
            continue
        try:
            kind = kind_of(cluster.api, document.obj)
            check_fields(kind, document.obj, suggests=True)
        except ApiError as error:
            if is_known_elsewhere(document.api_version, document.kind) and "serves no kind" in error.message:
                notes.append(f"{where}: left out: the embedded cluster does not serve its kind")
            else:
                refused.append(f"{where}: {error}")
            continue
        served.append(document)
    return served, notes


def _make_namespaces(cluster: EmbeddedCluster, documents: Sequence[Document]) -> list[str]:
    """Make the namespaces that these objects are in and that are nowhere; returns a note for each."""
    from scheduler.embedded.loading import kind_of
    from scheduler.embedded.server.statuses import ApiError

    of_files = {_metadata(document).get("name") for document in documents if document.kind == "Namespace"}
    missing: dict[str, Document] = {}
    for document in documents:
        namespace = _metadata(document).get("namespace")
        if namespace and namespace not in of_files and kind_of(cluster.api, document.obj).is_namespaced:
            missing.setdefault(namespace, document)
    notes = []
    for name, document in missing.items():
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        if cluster.api.store.get(kind_of(cluster.api, namespace).kind_id, "", name) is None:
            try:
                cluster.apply_one(namespace)
            except ApiError:
                continue  # no legal name: the object in it is refused for that
            notes.append(f"{document.place()}: {document.name}: namespace {name} is in no file: made")
    return notes


def _metadata(document: Document) -> dict[str, Any]:
    metadata = document.obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _as_written(obj: dict[str, Any]) -> dict[str, Any]:
    """The object of a dump without what only its server could say."""
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {name: value for name, value in obj["metadata"].items() if name in kept}
    return {**obj, "metadata": metadata}


def _example_files() -> list[Path]:
    """The examples: beside this module in an installed wheel, under docs/ in a checkout. The class comes first."""
    here = Path(__file__).resolve().parent
    folder = next(folder for folder in (here / "examples", here.parents[1] / "docs" / "examples") if folder.is_dir())
    return sorted(folder.glob("*.yaml"), key=lambda path: (path.name != "gpu-class.yaml", path.name))


def _is_example(file: str) -> bool:
    return Path(file).parent == _example_files()[0].parent


def _pods_of(obj: dict[str, Any]) -> int:
    """How many pods of ours an applied object leads to, at least; its fields have been checked."""
    spec = obj.get("spec") or {}
    template = spec if obj["kind"] == "Pod" else (spec.get("template") or {}).get("spec") or {}
    if template.get("schedulerName") != OURS:
        return 0
    match obj["kind"]:
        case "Pod":
            return 1
        case "Deployment" | "ReplicaSet":
            return int(spec.get("replicas", 1))
        case "StatefulSet":
            # Its pods come one after the other, each when the one before runs.
            return min(1, int(spec.get("replicas", 1)))
        case "Job":
            parallelism = int(spec.get("parallelism", 1))
            return 0 if spec.get("suspend") else min(parallelism, int(spec.get("completions", parallelism)))
        case _:
            return 0
