"""`dra-scheduler simulate --what-node`: how many nodes of each shape the pods that wait need, as text or a document.

Which of them would run where is named, and which would wait all the same.

Not here: counting (`scheduler.offline.node_shapes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.manifests import ManifestError, read_manifests
from scheduler.cli.tables import print_document, print_table
from scheduler.cli.terminal import caution, echo, print_left_out
from scheduler.model.nearest import some

if TYPE_CHECKING:
    from scheduler.offline.node_shapes import ShapeAnswer
    from scheduler.offline.offline_cluster import SourceObject
    from scheduler.offline.simulation import Played, Simulated

_NAMES_MAX: Final = 10
"""Nodes, and pods on a node or for a reason, that are named where nobody asks for all (-o wide)."""


def answer_shapes(
    files: Sequence[str],
    given: Sequence[SourceObject],
    play: Callable[[Sequence[SourceObject]], Simulated],
    output: str,
) -> int:
    """Print the answer for each file; the exit code: 0 where with one of the shapes every pod runs.

    Raises:
        WrongInputError: A file cannot be read, or is no shape.
    """
    from scheduler.offline.node_shapes import WrongShapeError, try_shape
    from scheduler.offline.offline_cluster import SourceObject

    answers = []
    for file in files:
        try:
            shape = [SourceObject(str(document.place()), document.obj) for document in read_manifests([file])]
            answers.append(try_shape(given, shape, play))
        except (WrongShapeError, ManifestError) as error:
            raise WrongInputError(f"--what-node {file}: {error}") from error
    problems = [*dict.fromkeys(problem for one in answers for problem in one.problems)]
    if output in ("json", "yaml"):
        print_document({"shapes": [_document(one) for one in answers]}, output)
    else:
        print_left_out(problems)
        _print(answers, names_max=None if output == "wide" else _NAMES_MAX)
    for problem in problems:
        caution(f"warning: {problem}", is_error=True)
    return 0 if any(not one.pending for one in answers) else 1


def _print(answers: Sequence[ShapeAnswer], *, names_max: int | None) -> None:
    for one in answers:
        many = "1 node lets" if one.nodes == 1 else f"{one.nodes} nodes let"
        rest = f", and {len(one.pending)} would still wait" if one.pending else ""
        if one.nodes:
            count = len(one.running)
            echo(f"{one.name}: {many} {count} more {'pod' if count == 1 else 'pods'} run{rest}")
        elif one.pending:
            echo(f"{one.name}: no number of such nodes lets a pod run that waits; {_waiting(one.pending)}")
        else:
            echo(f"{one.name}: no pod waits")
    rows = [(one.name, str(one.nodes), str(len(one.running)), str(len(one.pending))) for one in answers]
    if len(rows) > 1:
        print_table(("SHAPE", "NODES", "MORE PODS RUN", "STILL WAIT"), rows)
    for one in answers:
        _print_pods(one, names_max)


def _print_pods(one: ShapeAnswer, names_max: int | None) -> None:
    """Which pods would run on which node, and which wait for which reason."""
    on_node: dict[str, list[Played]] = {}
    for pod in one.placed:
        on_node.setdefault(pod.node, []).append(pod)
    if on_node:
        shown = list(on_node.items())[:names_max]
        print_table(("NODE", "PODS"), [(node, _names(pods, names_max)) for node, pods in shown])
        if len(shown) < len(on_node):
            echo(f"and {len(on_node) - len(shown)} more nodes (-o wide names all)")
    for_reason: dict[str, list[Played]] = {}
    for pod in one.pending:
        for_reason.setdefault(pod.reason or str(pod.outcome), []).append(pod)
    for reason, pods in sorted(for_reason.items(), key=lambda pair: -len(pair[1])):
        echo(f"with {one.name}, {_waiting(pods)} ({_names(pods, names_max)}): {reason}")


def _waiting(pods: Sequence[Played]) -> str:
    return "1 waits" if len(pods) == 1 else f"{len(pods)} wait"


def _names(pods: Sequence[Played], names_max: int | None) -> str:
    return some([f"{pod.namespace}/{pod.name}" for pod in pods], names_max)


def _document(one: ShapeAnswer) -> dict[str, Any]:
    return {
        "node": one.name,
        "count": one.nodes,
        "run": [{"namespace": pod.namespace, "name": pod.name, "node": pod.node} for pod in one.running],
        "wait": [{"namespace": pod.namespace, "name": pod.name, "reason": pod.reason} for pod in one.pending],
    }
