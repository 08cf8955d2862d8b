"""Recorded cases, answered by the installed project; it needs no package of tests.

    python -m tests.answers allocate < cases.jsonl    # what the allocator says
    python -m tests.answers verdicts < cases.jsonl    # what each plugin says of a pod on each node
    python -m tests.answers cel < questions.jsonl     # what an expression is

Standard input has a JSON object a line, standard output an answer a line. The modules of these names say what is in
both. A line that cannot be answered gets an error, and the next line is read. Exit code: 0; of `cel` 1 where a
question could not be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from allocator import NEWEST_RELEASE, RELEASES, Features
from scheduler.offline.verdicts import BUDGET_STEPS
from tests.answers.allocate import answer as allocated
from tests.answers.cel import answer_line
from tests.answers.verdicts import Cases

Answer = Mapping[str, Any]
_NOT_READ = {"outcome": "error", "steps": 0}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.answers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("form", choices=("allocate", "verdicts", "cel"))
    parser.add_argument("--kubernetes", choices=RELEASES, default=NEWEST_RELEASE, help="Default: %(default)s.")
    parser.add_argument("--budget-steps", type=int, default=BUDGET_STEPS, help="Of `allocate`. Default: %(default)s.")
    given = parser.parse_args()
    if given.form == "cel":
        sys.exit(_print_answers(lambda line: answer_line(line, given.kubernetes), json.dumps))
    if given.form == "verdicts":
        sys.exit(_print_answers(_of_json(Cases(Features(kubernetes=given.kubernetes)).answer_anyhow, {})))
    settings = {"budget_steps": given.budget_steps, "kubernetes": given.kubernetes}
    sys.exit(_print_answers(_of_json(lambda case: allocated(case, **settings), _NOT_READ)))


def _compact(reply: Answer) -> str:
    return orjson.dumps(reply).decode()


def _print_answers(answer: Callable[[bytes], Answer], write: Callable[[Answer], str] = _compact) -> int:
    is_all_read = True
    for line in filter(bytes.strip, sys.stdin.buffer):
        reply = answer(line)
        is_all_read = is_all_read and "input_error" not in reply
        print(write(reply), flush=True)
    return 0 if is_all_read else 1


def _of_json(answer: Callable[[Any], Answer], broken: Answer) -> Callable[[bytes], Answer]:
    def answer_read(line: bytes) -> Answer:
        try:
            return answer(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            return {"name": "", **broken, "error": f"not a JSON object: {error}"}

    return answer_read


if __name__ == "__main__":
    main()
