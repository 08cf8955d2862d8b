"""`dra-scheduler simulate --what-node`: how many nodes of each shape the pods that wait need, as a table or a document.

Not here: counting (`scheduler.offline.node_shapes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from scheduler.cli.manifests import ManifestError, read_manifests
from scheduler.cli.tables import print_document, print_table

if TYPE_CHECKING:
    from scheduler.offline.cluster import Given
    from scheduler.offline.node_shapes import ShapeAnswer
    from scheduler.offline.simulation import Simulated


def answer_shapes(
    files: Sequence[str], given: Sequence[Given], play: Callable[[Sequence[Given]], Simulated], output: str
) -> int:
    """Print the answer for each file; the exit code: 0 where with one of the shapes every pod runs.

    Raises:
        ValueError: A file cannot be read, or is no shape.
    """
    from scheduler.offline.cluster import Given
    from scheduler.offline.node_shapes import NoNodeError, try_shape

    answers = []
    for file in files:
        try:
            shape = [Given(str(document.place()), document.obj) for document in read_manifests([file])]
            answers.append(try_shape(given, shape, play))
        except (NoNodeError, ManifestError) as error:
            raise ValueError(f"--what-node {file}: {error}") from error
    if output in ("json", "yaml"):
        print_document({"shapes": [_document(one) for one in answers]}, output)
    else:
        _print(answers)
    return 0 if any(not one.pending for one in answers) else 1


def _print(answers: Sequence[ShapeAnswer]) -> None:
    for one in answers:
        many = "1 node" if one.nodes == 1 else f"{one.nodes} nodes"
        rest = f", and {len(one.pending)} would still wait" if one.pending else ""
        if one.nodes:
            count = len(one.running)
            click.echo(f"{one.name}: {many} let {count} more {'pod' if count == 1 else 'pods'} run{rest}")
        elif one.pending:
            click.echo(f"{one.name}: no number of such nodes lets a pod run that waits; {len(one.pending)} wait")
        else:
            click.echo(f"{one.name}: no pod waits")
    rows = [(one.name, str(one.nodes), str(len(one.running)), str(len(one.pending))) for one in answers]
    if len(rows) > 1:
        print_table(("SHAPE", "NODES", "MORE PODS RUN", "STILL WAIT"), rows)
    for one in answers:
        for reason, count in sorted(Counter(pod.reason for pod in one.pending).items(), key=lambda pair: -pair[1]):
            click.echo(f"with {one.name}, {count} {'waits' if count == 1 else 'wait'}: {reason}")


def _document(one: ShapeAnswer) -> dict[str, Any]:
    return {
        "node": one.name,
        "count": one.nodes,
        "run": [{"namespace": pod.namespace, "name": pod.name, "node": pod.node} for pod in one.running],
        "wait": [{"namespace": pod.namespace, "name": pod.name, "reason": pod.reason} for pod in one.pending],
    }
