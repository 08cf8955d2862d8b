"""`dra-scheduler verdicts`: what every plugin says about a pod on every node.

Not here: the answers (`scheduler.offline`).
"""

from __future__ import annotations

import sys
from typing import Any

import click


@click.command()
@click.option("--jsonl", is_flag=True, help="Read cases from standard input, one a line; answer each with a line.")
def verdicts(*, jsonl: bool) -> None:
    """Print what each plugin says about a pod on each node, and the scores of the nodes that fit.

    With --jsonl, a case is {"name", "cluster": {"nodes": […], "pods": […], …}, "pod", "config"}. The answer has the
    verdicts of PreEnqueue and PreFilter, each node's verdict and weighted scores, the nodes the pod may go to, and the
    message that a person would read. A case that cannot be answered gets an "error".
    """
    if not jsonl:
        raise click.UsageError("say --jsonl, and give cases on standard input")
    _answer_lines()


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
