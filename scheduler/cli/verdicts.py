"""`dra-scheduler verdicts`: what every plugin says about a pod on every node.

Not here: the answers (`scheduler.offline`), reading files and clusters (`cluster_question`), tables (`verdict_tables`).
"""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from scheduler.cli.cluster_question import Asked, ClusterQuestion, cluster_question
from scheduler.cli.input_errors import WrongInputError, exit_code
from scheduler.cli.options import output_option
from scheduler.cli.tables import print_document, print_names
from scheduler.cli.terminal import caution


@click.command()
@click.option("--jsonl", is_flag=True, help="Read cases from standard input, one a line; answer each with a line.")
@click.option("--pod", help="The pod to ask about, NAME or NAMESPACE/NAME.")
@cluster_question
@output_option("table", "json", "yaml", "name")
@click.pass_context
def verdicts(
    ctx: click.Context,
    *,
    jsonl: bool,
    pod: str | None,
    question: ClusterQuestion,
    output: str,
) -> None:
    """Print what each plugin says about a pod on each node, and the scores of the nodes that fit.

    The files should hold all that the scheduler looks at: Nodes, pods that run, volumes and claims, and the pod.
    Nothing is decided or written: a pod that runs is asked about as if it waited. Where no node fits, it is said for
    each which pods of a lower priority would have to go, or why that does not help.

    \b
    dra-scheduler verdicts --pod web-0 -n team
    dra-scheduler verdicts -f manifests/ --pod team/web-0

    With --jsonl, a case is {"name", "cluster": {"nodes": […], "pods": […], …}, "pod", "config"}; the answer has the
    verdicts of PreEnqueue and PreFilter, each node's verdict and weighted scores, the nodes the pod may go to, and the
    message that a person would read. A case that cannot be answered gets an "error".

    Exit codes: 0 a node fits, 1 none does, 2 wrong use or input, as an object that is broken.
    """
    if jsonl:
        if pod or question.is_given or question.feature_gates:
            raise click.UsageError("--jsonl reads standard input; leave the other options out")
        _answer_lines()
        return
    if pod is None:
        raise click.UsageError("say which pod: --pod NAME or NAMESPACE/NAME")
    ctx.exit(_ask(question.read(), pod, output))


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


def _ask(asked: Asked, pod: str, output: str) -> int:
    """Print the answer; the exit code."""
    from scheduler.cli.verdict_tables import print_answer
    from scheduler.config import Config
    from scheduler.offline import OfflineCluster
    from scheduler.offline.cases import as_json
    from scheduler.offline.one_pod import UnknownProfileError, ask_every_node

    cluster = OfflineCluster(time.time_ns() // 1_000_000)
    loaded = cluster.load(asked.given)
    pods = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in cluster.pods()}
    refused = {problem.pod: problem for problem in loaded.problems if problem.pod}
    key = asked.find("pod", pod, {*pods, *refused})
    if key not in pods:
        raise WrongInputError(f"the API server refuses pod {'/'.join(key)}: {refused[key]}")
    obj = pods[key]
    try:
        told = ask_every_node(cluster, obj, asked.config or Config(), asked.features)
    except UnknownProfileError as error:
        raise WrongInputError(str(error)) from error
    for problem in (*map(str, loaded.problems), *told.broken):
        click.echo(caution(f"warning: {problem}"), err=True)
    for note in loaded.notes:
        click.echo(caution(f"note: {note}"), err=True)
    if obj["spec"].get("nodeName"):
        click.echo(caution(f"note: the pod has a node, {obj['spec']['nodeName']}: answered as if it waited"), err=True)
    answer = told.answer
    if answer is None:
        return 1
    if output == "table":
        print_answer(answer)
    elif output == "name":
        print_names("node", (("", name) for name in answer.choices))
    else:
        print_document({"name": pod, **as_json(answer)}, output)
    return exit_code(fits=bool(answer.choices), is_broken=bool(loaded.problems or told.broken))
