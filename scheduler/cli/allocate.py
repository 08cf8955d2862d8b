"""`dra-scheduler allocate`: what the scheduler would do with pods, offline, from files or a cluster's objects.

Not here: reading files and clusters (`cluster_question`), deciding (`scheduler.offline`), claims without a pod
(`allocate_claims`), cases in JSON lines (`allocate_cases`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.cluster_question import Asked, ClusterQuestion, cluster_question
from scheduler.cli.input_errors import WrongInputError, exit_code
from scheduler.cli.options import output_option
from scheduler.cli.tables import device_text, print_document, print_names, print_table
from scheduler.cli.terminal import caution, verdict, working

if TYPE_CHECKING:
    from scheduler.offline import Answers, Given, Loaded, Reasons, Verdict

_BUDGET_STEPS: Final = 200_000
_NAMES_MAX: Final = 3
"""Names beside each refusal; all nodes are counted."""
_OURS: Final = "dra-scheduler"


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, allow_dash=True), metavar="[FILE]…")
@click.option("--jsonl", is_flag=True, help="Read cases from standard input, one a line; answer each with a line.")
@cluster_question
@click.option("--node", "nodes", multiple=True, help="Pretend that only this node is there (repeatable).")
@click.option("--pod", "pods", multiple=True, help="Only this pod, NAME or NAMESPACE/NAME (repeatable).")
@click.option(
    "--claim",
    "claims",
    multiple=True,
    help="Only this claim or template, NAME or NAMESPACE/NAME, without a pod (repeatable).",
)
@output_option("table", "wide", "json", "yaml", "name")
@click.option(
    "--budget-steps",
    default=_BUDGET_STEPS,
    show_default=True,
    type=click.IntRange(1),
    help="Give up a node's search after so many steps.",
)
@click.pass_context
def allocate(
    ctx: click.Context,
    paths: tuple[str, ...],
    *,
    jsonl: bool,
    question: ClusterQuestion,
    nodes: tuple[str, ...],
    pods: tuple[str, ...],
    claims: tuple[str, ...],
    output: str,
    budget_steps: int,
) -> None:
    """Print where each pod would run and with which devices, or why not.

    FILEs (or -f) are manifests or dumps, YAML or JSON. They should hold all that the scheduler looks at: Nodes,
    ResourceSlices, DeviceClasses, claims and templates, DeviceTaintRules, Namespaces, and pods, also those that run.
    Beside a cluster, they need hold only what is to be asked about. The scheduler itself decides. Pods are tried one
    after the other, each with claims of its own from its templates; workloads make their pods.

    With --claim, or when no pod waits, each claim and template is tried alone on each node. Then only devices count.

    \b
    dra-scheduler allocate -A                              # the pods that wait
    dra-scheduler allocate --context prod my-pods.yaml     # mine, if I created them there
    dra-scheduler allocate dump.yaml my-pods.yaml          # no cluster

    Exit codes: 0 every pod fits (with claims alone: a node serves one of them), 1 a pod does not fit, 2 wrong
    use or input, as an object that is broken.
    """
    question = replace(question, files=(*paths, *question.files))
    if jsonl:
        if question.is_given:
            raise click.UsageError("--jsonl reads standard input; leave the files and the cluster out")
        _answer_lines(budget_steps, question.kubernetes or "1.36")
        return
    if pods and claims:
        raise click.UsageError("--pod and --claim are two questions; ask one")
    asked = _without_others(question.read())
    if claims or not (pods or any(_waits(one.obj) for one in asked.given)):
        from scheduler.cli.allocate_claims import ask_about_claims

        ctx.exit(ask_about_claims(asked, nodes=nodes, claims=claims, budget_steps=budget_steps, output=output))
    with working("asking the scheduler"):
        answers, loaded = _ask(asked, budget_steps=budget_steps, nodes=nodes, pods=pods)
        rows = _rows(answers, budget_steps)
    if not rows:
        where = f" in the namespace {asked.scope}: -A asks about all" if asked.scope and not pods else ""
        raise WrongInputError(f"no pod waits for a node or for devices{where}; --claim asks about claims alone")
    if output in ("table", "wide"):
        _print_table(rows, named_max=_NAMES_MAX if output == "table" else sys.maxsize)
    elif output == "name":
        print_names("pod", ((row["namespace"], row["name"]) for row in rows if row["outcome"] in ("fits", "waits")))
    else:
        print_document({"pods": rows}, output)
    for problem in (*map(str, loaded.problems), *answers.broken):
        click.echo(caution(f"warning: {problem}"), err=True)
    for note in loaded.notes:
        click.echo(caution(f"note: {note}"), err=True)
    is_good = all(row["outcome"] in ("fits", "waits") for row in rows)
    ctx.exit(exit_code(fits=is_good, is_broken=bool(loaded.problems or answers.broken)))


def _answer_lines(budget_steps: int, kubernetes: str) -> None:
    import orjson

    from scheduler.cli.allocate_cases import answer

    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        try:
            case = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            reply: dict[str, Any] = {"name": "", "outcome": "error", "error": f"not a JSON object: {error}", "steps": 0}
        else:
            reply = answer(case, budget_steps=budget_steps, kubernetes=kubernetes)
        sys.stdout.buffer.write(orjson.dumps(reply) + b"\n")
        sys.stdout.buffer.flush()


def _without_others(asked: Asked) -> Asked:
    """With pods in the files these are asked about; those that wait in the cluster would take their devices first."""
    from scheduler.offline import is_waiting

    if not any(_waits(one.obj) for one in asked.written):
        return asked
    listed = [one for one in asked.listed if not (one.obj["kind"] == "Pod" and is_waiting(one.obj))]
    return replace(asked, listed=listed)


def _waits(obj: Mapping[str, Any]) -> bool:
    """Whether an object is a pod that waits for its node or its devices, or makes such pods."""
    from scheduler.offline import is_waiting, makes_pods

    if obj.get("kind") != "Pod" or not isinstance(obj.get("spec"), Mapping):
        return makes_pods(obj)
    status = obj.get("status")
    has_not_started = not isinstance(status, Mapping) or status.get("phase", "Pending") == "Pending"
    return is_waiting(obj) or (has_not_started and bool(obj["spec"].get("resourceClaims")))


def _ask(asked: Asked, *, budget_steps: int, nodes: Sequence[str], pods: Sequence[str]) -> tuple[Answers, Loaded]:
    from scheduler.offline import OfflineCluster, decide

    cluster = OfflineCluster(time.time_ns() // 1_000_000)
    loaded = cluster.load(_on_nodes(asked.given, nodes))
    known = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in cluster.pods()}
    keys = {*known, *(problem.pod for problem in loaded.problems if problem.pod is not None)}
    wanted = {asked.find("pod", one, keys) for one in pods} or None
    scope = asked.scope if wanted is None else None
    _tell_of_strangers([pod for key, pod in known.items() if scope in (None, key[0])])
    answers = decide(
        cluster,
        features=asked.features,
        budget_steps=budget_steps,
        config=asked.config,
        asked=wanted,
        namespace=scope,
    )
    return answers, loaded


def _on_nodes(given: Sequence[Given], nodes: Sequence[str]) -> Sequence[Given]:
    """The objects with these nodes only, if any are named."""
    from scheduler.offline import name_of

    known = [name_of(one.obj) for one in given if one.obj.get("kind") == "Node"]
    if not known:
        raise click.UsageError(
            "there are pods but no Nodes, so nothing they could run on: add them (kubectl get nodes -o yaml), or ask "
            "about claims alone with --claim"
        )
    if nodes and not set(nodes) & set(known):
        raise WrongInputError(f"no node is named {' or '.join(nodes)}; known: {', '.join(sorted(known))}")
    if nodes:
        given = [one for one in given if one.obj.get("kind") != "Node" or name_of(one.obj) in nodes]
    return given


def _tell_of_strangers(pods: Sequence[Mapping[str, Any]]) -> None:
    from scheduler.offline import is_waiting

    waiting = [str(pod["spec"].get("schedulerName")) for pod in pods if is_waiting(pod)]
    for name in sorted(set(waiting) - {_OURS}):
        count = waiting.count(name)
        pods_name = "1 pod names" if count == 1 else f"{count} pods name"
        click.echo(caution(f"note: {pods_name} the scheduler {name}: answered as if that were {_OURS}"), err=True)


def _rows(answers: Answers, budget_steps: int) -> list[dict[str, Any]]:
    """The JSON form of the verdicts."""
    from scheduler.offline import Reasons

    reasons = Reasons(answers, budget_steps=budget_steps)
    return [_row(answers, verdict, reasons) for verdict in answers.verdicts]


def _row(answers: Answers, verdict: Verdict, reasons: Reasons) -> dict[str, Any]:
    from scheduler.offline import Outcome, devices_of

    namespace, name = verdict.pod
    row: dict[str, Any] = {
        "namespace": namespace,
        "name": name,
        "outcome": str(verdict.outcome),
        "node": verdict.node or None,
        "devices": devices_of(answers, verdict),
    }
    if verdict.reason:
        row["reason"] = verdict.reason
    if verdict.outcome in (Outcome.UNSCHEDULABLE, Outcome.ERROR) and not verdict.node:
        row["refusals"] = [one.document() for one in reasons.of(verdict)]
    return row


def _print_table(rows: Sequence[Mapping[str, Any]], named_max: int) -> None:
    cells = []
    for row in rows:
        if row["outcome"] not in ("fits", "waits"):
            continue
        pod = f"{row['namespace']}/{row['name']}"
        cells += [
            (
                pod,
                row["node"],
                one["claim"],
                one["request"],
                device_text(one),
            )
            for one in row["devices"]
        ] or [(pod, row["node"], "<none>", "<none>", "<none>")]
    if cells:
        print_table(("POD", "NODE", "CLAIM", "REQUEST", "DEVICE"), cells)
    for row in rows:
        if "reason" in row:
            is_good = row["outcome"] in ("fits", "waits")
            click.echo(verdict(f"{row['namespace']}/{row['name']}: {row['reason']}", is_good=is_good))
        for refusal in row.get("refusals", ()):
            text = "; ".join(refusal["devices"]) or refusal["reason"]
            click.echo(f"  {_some(refusal['nodes'], refusal['count'], named_max)}: {text}")


def _some(names: Sequence[str], count: int, named_max: int) -> str:
    shown = names[:named_max]
    return f"{', '.join(shown)} and {count - len(shown)} more" if count > len(shown) else ", ".join(shown)
