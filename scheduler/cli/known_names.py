"""Names of pods, claims, classes and nodes for a shell that completes them: of the cluster that the command would ask.

They are looked for by another process, which is ended when it takes longer than a person waits; what fails gives no
names and no words. Of files given on the line only these are read, as by the command.

Here too: the words for kinds (`KINDS`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.options import find_connection

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from scheduler.kube.credentials import Connection

_WAIT_S: Final = 2.0
_NAMES_MAX: Final = 500
"""Of each kind: a page of a list."""
_DRA: Final = "/apis/resource.k8s.io/v1"
LISTS: Final = {
    "pod": ("Pod", "/api/v1", "pods"),
    "claim": ("ResourceClaim", _DRA, "resourceclaims"),
    "template": ("ResourceClaimTemplate", _DRA, "resourceclaimtemplates"),
    "deployment": ("Deployment", "/apis/apps/v1", "deployments"),
    "replicaset": ("ReplicaSet", "/apis/apps/v1", "replicasets"),
    "statefulset": ("StatefulSet", "/apis/apps/v1", "statefulsets"),
    "daemonset": ("DaemonSet", "/apis/apps/v1", "daemonsets"),
    "job": ("Job", "/apis/batch/v1", "jobs"),
    "cronjob": ("CronJob", "/apis/batch/v1", "cronjobs"),
    "node": ("Node", "/api/v1", "nodes"),
    "class": ("DeviceClass", _DRA, "deviceclasses"),
    "namespace": ("Namespace", "/api/v1", "namespaces"),
}
"""Kind, and where it is listed."""
_WORDS: Final = {
    **{"pod": ("pods", "po"), "claim": ("claims", "resourceclaim", "resourceclaims")},
    **{"deployment": ("deploy", "deployments"), "replicaset": ("rs", "replicasets"), "daemonset": ("ds", "daemonsets")},
    **{"statefulset": ("sts", "statefulsets"), "job": ("jobs",), "cronjob": ("cj", "cronjobs")},
}
KINDS: Final = {word: kind for kind, words in _WORDS.items() for word in (kind, *words)}
"""Words that may stand before a name, and the kind that each means."""
_OF_THE_CLUSTER: Final = ("node", "class", "namespace")
_Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def names_of(*kinds: str) -> _Completer:
    """What completes an argument or option that takes names of these kinds."""

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        return _beginning(incomplete, (name for _, name in _ask(context, kinds)))

    return complete


def complete_subject(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Completes what `explain` takes: NAME, or KIND/NAME, or KIND NAME."""
    given = tuple[str, ...](context.params.get("subject") or ())
    word = incomplete.split("/", maxsplit=1)[0]
    if len(given) == 1 and (kind := KINDS.get(given[0])):
        return _beginning(incomplete, (name for _, name in _ask(context, [kind])))
    if given:
        return []
    if "/" in incomplete and (kind := KINDS.get(word)):
        return _beginning(incomplete, (f"{word}/{name}" for _, name in _ask(context, [kind])))
    found = _ask(context, ["pod", "claim"])
    return _beginning(incomplete, (name if kind == "pod" else f"claim/{name}" for kind, name in found))


def complete_pod_or_file(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes what `make-room` takes; the shell adds its files."""
    from click.shell_completion import CompletionItem

    names = _beginning(incomplete, (f"pod/{name}" for _, name in _ask(context, ["pod"])))
    return [*map(CompletionItem, names), CompletionItem(incomplete, type="file")]


def complete_removed(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Completes what `simulate --remove` takes: KIND/NAME."""
    return _beginning(incomplete, (f"{kind}/{name}" for kind, name in _ask(context, ["node", "pod"])))


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete) and name.isprintable()})[:_NAMES_MAX]


def _ask(context: click.Context, kinds: Sequence[str]) -> list[tuple[str, str]]:
    """Kind and name of what another process finds in time."""
    given = {**context.params, "kinds": list(kinds)}
    question = {key: given.get(key) for key in ("kinds", "files", "paths", "kubeconfig", "context", "namespace")}
    question["everywhere"] = bool(given.get("is_everywhere"))
    command = [sys.executable, "-m", "scheduler.cli.known_names", json.dumps(question)]
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_WAIT_S, check=True)  # noqa: S603 ourselves
        return [(str(kind), str(name)) for kind, name in json.loads(done.stdout)]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


# -- the other process ----------------------------------------------------------------------------------------------


def find(question: dict[str, Any]) -> list[tuple[str, str]]:
    """Kind and name of all objects of the kinds that are asked for, as far as the namespace lets them be meant."""
    kinds, namespace = question["kinds"], question["namespace"]
    files = [*(question["paths"] or ()), *(question["files"] or ())]
    found: list[tuple[str, str, str]] = []
    if files:
        found += _of_files(kinds, files)
    if not files or question["kubeconfig"] or question["context"]:
        import asyncio

        connection = find_connection(question["kubeconfig"], question["context"])
        home, listed = asyncio.run(_of_cluster(connection, kinds, namespace, is_everywhere=question["everywhere"]))
        namespace, found = namespace or home or "default", found + listed
    only = None if question["everywhere"] else namespace
    return [(kind, name) for kind, within, name in found if kind in _OF_THE_CLUSTER or only in (None, within)]


def _of_files(kinds: Sequence[str], files: Sequence[str]) -> list[tuple[str, str, str]]:
    """Read without what the command needs besides, which takes longer than the files."""
    from scheduler.cli.json_dumps import dumped_objects
    from scheduler.cli.manifests import files_in, parse_documents, read_text

    wanted = {LISTS[kind][0]: kind for kind in kinds}
    found = []
    for path in files_in(files):
        name, text = read_text(path)
        for obj in dumped_objects(text) or (one.obj for one in parse_documents(text, name)):
            kind, metadata = wanted.get(str(obj.get("kind"))), obj.get("metadata")
            if kind is not None and isinstance(metadata, Mapping) and metadata.get("name"):
                found.append((kind, str(metadata.get("namespace") or "default"), str(metadata["name"])))
    return found


async def _of_cluster(
    connection: Connection, kinds: Sequence[str], namespace: str | None, *, is_everywhere: bool
) -> tuple[str, list[tuple[str, str, str]]]:
    """The context's namespace, and one page of each list that may be read."""
    from scheduler.kube.api_requests import ApiClient
    from scheduler.kube.outcomes import Accepted

    credentials = await connection.open()
    home = namespace or credentials.namespace or "default"
    found = []
    async with ApiClient(credentials) as client:
        for kind in kinds:
            _, group, plural = LISTS[kind]
            within = "" if kind in _OF_THE_CLUSTER or is_everywhere else f"/namespaces/{home}"
            outcome = await client.send("GET", f"{group}{within}/{plural}?limit={_NAMES_MAX}")
            if isinstance(outcome, Accepted):
                entries = [entry["metadata"] for entry in json.loads(outcome.body).get("items") or ()]
                found += [(kind, entry.get("namespace", ""), entry["name"]) for entry in entries]
    return home, found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(find(json.loads(sys.argv[1]))))
