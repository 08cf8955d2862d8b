"""`dra-scheduler allocate`: what the scheduler would do with pods, offline, from files or a cluster's objects.

Not here: reading files (`manifests`), deciding (`scheduler.offline`), claims without a pod (`allocate_claims`), cases
in JSON lines (`allocate_cases`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.gates import gates_option
from scheduler.cli.input_errors import WrongInputError, exit_code
from scheduler.cli.input_size import size_option
from scheduler.cli.options import cluster_options, output_option
from scheduler.cli.tables import device_text, print_document, print_names, print_table
from scheduler.cli.terminal import caution, verdict, working

if TYPE_CHECKING:
    from allocator import Features
    from scheduler.offline import Answers, Given, Loaded, Reasons, Verdict

_BUDGET_STEPS: Final = 200_000
_NAMES_MAX: Final = 3
_NODES_MAX: Final = 100
"""Names beside each refusal, for people and for programs; all nodes are counted."""
_OURS: Final = "dra-scheduler"


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=str), metavar="FILE…")
@click.option("--jsonl", is_flag=True, help="Read cases from standard input, one a line; answer each with a line.")
@cluster_options("Read this cluster's objects too.")
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
    "--kubernetes",
    type=click.Choice(["1.36", "1.37"]),
    default="1.36",
    show_default=True,
    help="Whose verdicts to give where releases differ.",
)
@gates_option
@click.option(
    "--budget-steps",
    default=_BUDGET_STEPS,
    show_default=True,
    type=click.IntRange(1),
    help="Give up a node's search after so many steps.",
)
@size_option
@click.pass_context
def allocate(
    ctx: click.Context,
    files: tuple[str, ...],
    *,
    jsonl: bool,
    kubeconfig: str | None,
    context: str | None,
    nodes: tuple[str, ...],
    pods: tuple[str, ...],
    claims: tuple[str, ...],
    output: str,
    kubernetes: str,
    feature_gates: dict[str, bool],
    budget_steps: int,
) -> None:
    """Print where each pod would run and with which devices, or why not.

    FILEs are manifests or dumps, YAML or JSON ("-" reads standard input). They should hold all that the scheduler looks
    at: Nodes, ResourceSlices, DeviceClasses, claims and templates, DeviceTaintRules, Namespaces, and pods, also those
    that run. The scheduler itself decides. Pods are tried one after the other, each with claims of its own from its
    templates; workloads make their pods.

    With --claim, or when no pod waits, each claim and template is tried alone on each node. Then only devices count.

    \b
    kubectl get nodes,namespaces,resourceslices,deviceclasses,resourceclaims,pods -A -o yaml > dump.yaml
    dra-scheduler allocate dump.yaml my-pods.yaml
    dra-scheduler allocate --kubeconfig ~/.kube/config my-pods.yaml

    Exit codes: 0 every pod fits (with claims alone: a node serves one of them), 1 a pod does not fit, 2 wrong
    use or input, as an object that is broken.
    """
    if jsonl:
        if files:
            raise click.UsageError("--jsonl reads standard input; leave the files out")
        _answer_lines(budget_steps, kubernetes)
        return
    if not files and kubeconfig is None:
        raise click.UsageError('name at least one file, or "-" for standard input, or a --kubeconfig')
    if context and kubeconfig is None:
        raise click.UsageError("--context needs --kubeconfig")
    if pods and claims:
        raise click.UsageError("--pod and --claim are two questions; ask one")
    given, server_gates = _read(files, kubeconfig, context)
    features = _features(feature_gates, kubernetes, server_gates)
    if claims or not (pods or any(_waits(one.obj) for one in given)):
        from scheduler.cli.allocate_claims import ask_about_claims

        ctx.exit(
            ask_about_claims(
                given, nodes=nodes, claims=claims, features=features, budget_steps=budget_steps, output=output
            )
        )
    with working("asking the scheduler"):
        answers, loaded = _ask(given, features=features, budget_steps=budget_steps, nodes=nodes, pods=pods)
        rows = _rows(answers, budget_steps)
    if not rows:
        raise WrongInputError("no pod waits for a node or for devices; --claim asks about claims alone")
    if output in ("table", "wide"):
        _print_table(rows, named_max=_NAMES_MAX if output == "table" else _NODES_MAX)
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


def _read(files: Sequence[str], kubeconfig: str | None, context: str | None) -> tuple[list[Given], Mapping[str, bool]]:
    """The cluster's objects, then those of the files; and the cluster's feature gates."""
    from scheduler.cli.manifests import open_manifests
    from scheduler.offline import Given, is_waiting

    given: list[Given] = []
    gates: Mapping[str, bool] = {}
    written = [Given(str(document.place()), document.obj) for document in open_manifests(files)]
    if kubeconfig is not None:
        from scheduler.cli.cluster_objects import read_cluster

        listed, gates, _ = read_cluster(kubeconfig, context, is_whole=True)
        if any(_waits(one.obj) for one in written):
            # Asked are the pods of the files; those that wait in the cluster would take their devices first.
            listed = [obj for obj in listed if not (obj["kind"] == "Pod" and is_waiting(obj))]
        given = [Given(f"{kubeconfig}", obj) for obj in listed]
    return [*given, *written], gates


def _features(gates: Mapping[str, bool], kubernetes: str, server_gates: Mapping[str, bool]) -> Features:
    from allocator import Features
    from scheduler.kube.feature_gates import features_left
    from scheduler.model.api_rules import FIELD_BY_GATE

    flags: dict[str, Any] = {FIELD_BY_GATE[gate]: is_on for gate, is_on in gates.items()}
    return features_left(Features(**flags, kubernetes=kubernetes), server_gates)


def _waits(obj: Mapping[str, Any]) -> bool:
    """Whether an object is a pod that waits for its node or its devices, or makes such pods."""
    from scheduler.offline import is_waiting, makes_pods

    if obj.get("kind") != "Pod" or not isinstance(obj.get("spec"), Mapping):
        return makes_pods(obj)
    status = obj.get("status")
    has_not_started = not isinstance(status, Mapping) or status.get("phase", "Pending") == "Pending"
    return is_waiting(obj) or (has_not_started and bool(obj["spec"].get("resourceClaims")))


def _ask(
    given: Sequence[Given], *, features: Features, budget_steps: int, nodes: Sequence[str], pods: Sequence[str]
) -> tuple[Answers, Loaded]:
    from scheduler.offline import OfflineCluster, decide, name_of

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
    cluster = OfflineCluster(time.time_ns() // 1_000_000)
    loaded = cluster.load(given)
    asked = None
    if pods:
        keys = [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in cluster.pods()]
        keys += [problem.pod for problem in loaded.problems if problem.pod is not None]
        asked = {key for key in keys if {key[1], "/".join(key)} & set(pods)}
        if not asked:
            raise WrongInputError(f"no pod is named {' or '.join(pods)}")
    _tell_of_strangers(cluster.pods())
    answers = decide(cluster, features=features, budget_steps=budget_steps, asked=asked)
    return answers, loaded


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
        row["refusals"] = [
            {
                "plugin": one.plugin,
                "reason": one.reason,
                "devices": list(one.devices),
                "count": len(one.nodes),
                "nodes": list(one.nodes[:_NODES_MAX]),
            }
            for one in reasons.of(verdict)
        ]
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
