"""Asks the released Go implementation: what would upstream allocate, what does this CEL expression say.

    with Oracle() as oracle:
        oracle.ask({"kind": "cel", "expression": "device.driver == 'x'", "device": {"driver": "x"}})
        # {"value": {"bool": "true"}, "max_cost": 4, "actual_cost": 2, "output_type": "bool"}

Questions and answers: README.md in this folder. Not here: comparing an answer with ours (the tests of
`cel` and `allocator` do).
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from tests.controlplane.build import MINOR, build

Question = dict[str, Any]
Answer = dict[str, Any]


class OracleError(Exception):
    """The oracle could not read a question, or it ended; not an answer about the question itself."""


class Oracle:
    """One oracle process, of that release of Kubernetes; questions are answered in order. Not for several threads.

    `feature_gates` are those of kube-scheduler, "A=true,B=false", for its verdicts.
    """

    def __init__(self, minor: str = MINOR, feature_gates: str = "") -> None:
        self.minor = minor
        self._command = (f"--feature-gates={feature_gates}",)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Oracle:
        # It ends when its standard input ends, so it cannot outlive us.
        self._process = subprocess.Popen(
            [build(f"oracle-{self.minor}"), *self._command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def ask(self, question: Question) -> Answer:
        """One question, one answer."""
        return self.ask_all([question])[0]

    def ask_all(self, questions: Iterable[Question]) -> list[Answer]:
        """Answers in the order of the questions; one write for all, so thousands take seconds.

        Raises:
            OracleError: a question was malformed (its `protocol_error`), or the process ended.
        """
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise OracleError("the oracle is not running; use it as a context manager")
        lines = [json.dumps(question).encode() + b"\n" for question in questions]
        # Writing and reading at once: both pipes are smaller than a batch.
        writer = threading.Thread(target=_write, args=(process.stdin, lines), daemon=True)
        writer.start()
        answers: list[Answer] = []
        for line in lines:
            reply = process.stdout.readline()
            if not reply:
                raise OracleError(f"the oracle ended before it answered: {line[:500].decode()}")
            answer: Answer = json.loads(reply)
            if "protocol_error" in answer:
                raise OracleError(f"{answer['protocol_error']}: {line[:500].decode()}")
            answers.append(answer)
        writer.join()
        return answers


def _write(stream: Any, lines: Sequence[bytes]) -> None:
    try:
        for line in lines:
            stream.write(line)
        stream.flush()
    except BrokenPipeError:
        return  # the reader sees the end of the answers and says so
