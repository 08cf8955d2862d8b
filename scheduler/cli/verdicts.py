"""`dra-scheduler verdicts`: what every plugin says about a pod on every node.

Not here: the answers (`scheduler.offline`), reading files (`manifests`), tables of the answer (`verdict_tables`).
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.input_errors import WrongInputError, exit_code
from scheduler.cli.input_size import size_option
from scheduler.cli.options import check_input, cluster_options, looks_inside, objects_option, output_option
from scheduler.cli.tables import print_document, print_names
from scheduler.cli.terminal import caution, working

if TYPE_CHECKING:
    from scheduler.config import Config
    from scheduler.offline import Given

_ENDINGS: Final = frozenset({".yaml", ".yml", ".json"})


@click.command()
@click.option("--jsonl", is_flag=True, help="Read cases from standard input, one a line; answer each with a line.")
@objects_option
@click.option("--pod", help="The pod to ask about, NAME or NAMESPACE/NAME.")
@cluster_options("Read this cluster's objects too.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The scheduler's configuration file; without it everything is as by default.",
)
@output_option("table", "json", "yaml", "name")
@size_option
@click.pass_context
def verdicts(
    ctx: click.Context,
    *,
    jsonl: bool,
    files: tuple[str, ...],
    pod: str | None,
    kubeconfig: str | None,
    context: str | None,
    config_path: Path | None,
    output: str,
) -> None:
    """Print what each plugin says about a pod on each node, and the scores of the nodes that fit.

    The files should hold all that the scheduler looks at: Nodes, pods that run, volumes and claims, and the pod.
    Nothing is decided or written: a pod that runs is asked about as if it waited. Where no node fits, it is said for
    each which pods of a lower priority would have to go, or why that does not help.

    \b
    dra-scheduler verdicts -f manifests/ --pod team/web-0
    dra-scheduler verdicts --kubeconfig ~/.kube/config --pod team/web-0

    With --jsonl, a case is {"name", "cluster": {"nodes": […], "pods": […], …}, "pod", "config"}; the answer has the
    verdicts of PreEnqueue and PreFilter, each node's verdict and weighted scores, the nodes the pod may go to, and the
    message that a person would read. A case that cannot be answered gets an "error".

    Exit codes: 0 a node fits, 1 none does, 2 wrong use or input, as an object that is broken.
    """
    if jsonl:
        if files or pod or kubeconfig or config_path:
            raise click.UsageError("--jsonl reads standard input; leave the other options out")
        _answer_lines()
        return
    if pod is None:
        raise click.UsageError("say which pod: --pod NAME or NAMESPACE/NAME")
    check_input(files, kubeconfig, context)
    ctx.exit(_ask(read_given(files, kubeconfig, context), pod, _configured(config_path), output))


def _answer_lines() -> None:
    import orjson

    from scheduler.offline.cases import CaseError, Cases

    cases = Cases()
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        name = ""
        try:
            case: Any = orjson.loads(line)
            name = str(case.get("name", "")) if isinstance(case, dict) else ""
            reply = cases.answer(case)
        except orjson.JSONDecodeError as error:
            reply = {"name": name, "error": f"not a JSON object: {error}"}
        except CaseError as error:
            reply = {"name": name, "error": str(error)}
        except Exception as error:  # a defect of ours harms this case only
            reply = {"name": name, "error": f"{type(error).__name__}: {error}"}
        sys.stdout.buffer.write(orjson.dumps(reply) + b"\n")
        sys.stdout.buffer.flush()


def read_given(files: Sequence[str], kubeconfig: str | None, context: str | None) -> list[Given]:
    """The cluster's objects, then those of the files."""
    from scheduler.garbage_collector import settle
    from scheduler.offline import Given

    gc.disable()  # all of it stays
    try:
        with working("reading"):
            given = [one for path in _in_folders(files) for one in _of_file(path)]
            if kubeconfig is not None:
                from scheduler.cli.cluster_objects import read_cluster

                objects = read_cluster(kubeconfig, context, is_whole=True).objects
                given = [*(Given(kubeconfig, obj) for obj in objects), *given]
            return given
    finally:
        settle(collects=False)


def _of_file(path: str) -> Iterator[Given]:
    from scheduler.cli.json_dumps import dumped_objects
    from scheduler.cli.manifests import ManifestError, parse_documents, read_text
    from scheduler.offline import Given

    try:
        name, text = read_text(path)
        dumped = dumped_objects(text)
        if dumped is None:
            yield from [Given(str(one.place()), one.obj) for one in parse_documents(text, name)]
        else:
            yield from (Given(f"{name}: items[{number}]", obj) for number, obj in enumerate(dumped))
    except ManifestError as error:
        raise WrongInputError(str(error)) from error


def _configured(path: Path | None) -> Config:
    from scheduler.config import Config, ConfigError, read_config

    if path is None:
        return Config()
    try:
        found = read_config(path)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    for line in found.words:
        click.echo(caution(f"note: {line}"), err=True)
    return found.config


def _in_folders(paths: Sequence[str]) -> Iterator[str]:
    """Files, and those of folders in the order of their names; folders inside with -R only, as kubectl does."""
    for path in paths:
        if path == "-" or not Path(path).is_dir():
            yield path
            continue
        inside = Path(path).rglob("*") if looks_inside() else Path(path).iterdir()
        found = sorted(str(one) for one in inside if one.suffix in _ENDINGS and one.is_file())
        if not found:
            raise WrongInputError(f"{path}: no file in it ends in .yaml, .yml or .json")
        yield from found


def _ask(given: Sequence[Given], pod: str, config: Config, output: str) -> int:
    """Print the answer; the exit code."""
    from scheduler.cli.verdict_tables import print_answer
    from scheduler.offline import OfflineCluster
    from scheduler.offline.cases import as_json
    from scheduler.offline.one_pod import UnknownProfileError, ask_every_node

    cluster = OfflineCluster(time.time_ns() // 1_000_000)
    loaded = cluster.load(given)
    obj = _find(cluster.pods(), pod)
    if obj is None:
        refused = [f"; {problem}" for problem in loaded.problems if problem.pod and pod in _names(*problem.pod)]
        known = sorted(f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in cluster.pods())
        raise WrongInputError(f"no pod is named {pod}{''.join(refused)}; known: {', '.join(known) or 'none'}")
    try:
        asked = ask_every_node(cluster, obj, config)
    except UnknownProfileError as error:
        raise WrongInputError(str(error)) from error
    for problem in (*map(str, loaded.problems), *asked.broken):
        click.echo(caution(f"warning: {problem}"), err=True)
    for note in loaded.notes:
        click.echo(caution(f"note: {note}"), err=True)
    if obj["spec"].get("nodeName"):
        click.echo(caution(f"note: the pod has a node, {obj['spec']['nodeName']}: answered as if it waited"), err=True)
    answer = asked.answer
    if answer is None:
        return 1
    if output == "table":
        print_answer(answer)
    elif output == "name":
        print_names("node", (("", name) for name in answer.choices))
    else:
        print_document({"name": pod, **as_json(answer)}, output)
    return exit_code(fits=bool(answer.choices), is_broken=bool(loaded.problems or asked.broken))


def _names(namespace: str, name: str) -> tuple[str, str]:
    return name, f"{namespace}/{name}"


def _find(pods: Sequence[Mapping[str, Any]], wanted: str) -> Mapping[str, Any] | None:
    found = [one for one in pods if wanted in _names(one["metadata"]["namespace"], one["metadata"]["name"])]
    if len(found) > 1:
        raise WrongInputError(f"several pods are named {wanted}; say NAMESPACE/{wanted}")
    return found[0] if found else None
