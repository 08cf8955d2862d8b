"""The program as a process: descriptors that were closed before it began, Ctrl-C, and its end."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kube.silent_server import SilentServer
from tests.patience import PATIENCE_S

PROGRAM = [sys.executable, "-m", "scheduler"]
EMBEDDED = [sys.executable, "-m", "scheduler.embedded"]


def _started(arguments: list[str], stdin: int | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*PROGRAM, *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _with_closed(closed: tuple[int, ...], command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run it with these descriptors closed, as a shell does for `2>&-`; what is open is captured."""
    closing = " ".join(f"{number}>&-" for number in closed)
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {closing}', "sh", *command],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        check=False,
    )


def test_at_its_end_nobody_looks_for_garbage_in_what_was_read() -> None:
    """For a dump of 5,000 nodes that is a sixth of all that `explain` takes."""
    says = "import atexit, gc; atexit.register(lambda: print('kept:', len(gc.get_objects(generation=2)))); "
    command = [sys.executable, "-c", f"{says}from scheduler.__main__ import main; main()", "version"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)

    assert done.stdout.splitlines()[-1] == "kept: 0"


CLOSED = [
    pytest.param((0,), id="stdin"),
    pytest.param((1,), id="stdout"),
    pytest.param((2,), id="stderr"),
    pytest.param((0, 1, 2), id="all"),
]


@pytest.mark.slow
@pytest.mark.parametrize("closed", CLOSED)
def test_closed_descriptors_do_not_abort_the_scheduler(closed: tuple[int, ...], tmp_path: Path) -> None:
    """libuv aborts when a socket of its gets one of the numbers 0 to 2."""
    done = _with_closed(closed, [*PROGRAM, "run", "--no-health", "--kubeconfig", str(tmp_path / "none")])

    assert done.returncode == 1
    assert 2 in closed or "no such kubeconfig file" in done.stderr


@pytest.mark.slow
def test_the_demo_needs_no_input_and_nobody_who_hears_of_its_progress() -> None:
    done = _with_closed((0, 2), [*PROGRAM, "demo", "-o", "json"])

    assert done.returncode == 0
    assert '"pods"' in done.stdout


@pytest.mark.parametrize("closed", CLOSED)
def test_what_is_opened_later_gets_no_number_of_a_standard_descriptor(closed: tuple[int, ...]) -> None:
    code = (
        "from scheduler.descriptors import open_standard_descriptors as opened; opened();"
        "import os, sys; other = os.open('/', os.O_RDONLY); print('said'); print('told', file=sys.stderr);"
        "children = [os.get_inheritable(number) for number in (0, 1, 2)];"
        "sys.exit(0 if other > 2 and children == [True] * 3 and sys.stdin.read() == '' else 3)"
    )
    done = _with_closed(closed, [sys.executable, "-c", code])

    assert done.returncode == 0
    assert (done.stdout, done.stderr) == ("" if 1 in closed else "said\n", "" if 2 in closed else "told\n")


@pytest.mark.slow
def test_the_embedded_cluster_says_nothing_to_a_closed_descriptor_and_ends_in_order() -> None:
    process = subprocess.Popen(
        ["sh", "-c", 'exec "$@" 0>&- 2>&-', "sh", *EMBEDDED, "--no-controllers"], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("API server: https://127.0.0.1:")
        process.terminate()
        assert process.wait(timeout=PATIENCE_S) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["lint", "-"], id="lint-reading-its-input"),
        pytest.param(["simulate", "-"], id="simulate-reading-its-input"),
        pytest.param(["convert", "-"], id="convert-reading-its-input"),
    ],
)
def test_ctrl_c_is_exit_code_130_without_a_traceback(arguments: list[str]) -> None:
    its, ours = os.pipe()
    with _started(arguments, its) as process:
        try:
            os.close(its)
            _until_it_reads(ours, process.pid)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            os.close(ours)

    assert process.returncode == 130
    assert b"Traceback" not in errors


def _until_it_reads(pipe: int, reader: int) -> None:
    """Write a line, and wait until it has been read and the reader sleeps: it waits for more, which never comes.

    A signal that came between two reads would only be noticed after the next one, by Python itself.
    """
    os.write(pipe, b"# a comment\n")
    while True:
        (unread,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"))
        state = Path(f"/proc/{reader}/stat").read_text().rpartition(")")[2].split()[0]
        assert state != "Z", "it ended before it had read its input"
        if unread == 0 and state == "S":
            return
        os.sched_yield()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_scheduler_that_waits_for_a_silent_server_is_stopped_at_once(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """Such a request takes 15 s to be given up; whoever presses Ctrl-C does not wait for that."""
    with (
        SilentServer() as server,
        _started(["run", "--no-health", "--kubeconfig", server.kubeconfig(tmp_path)]) as process,
    ):
        try:
            server.asked()
            process.send_signal(number)
            _, errors = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()

    assert process.returncode == code
    assert b"Traceback" not in errors


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_scheduler_at_work_is_stopped_in_order(number: signal.Signals, code: int) -> None:
    with (
        subprocess.Popen([*EMBEDDED, "--no-controllers"], stdout=subprocess.PIPE, text=True) as cluster,
        ExitStack() as stack,
    ):
        stack.callback(cluster.terminate)
        assert cluster.stdout is not None
        cluster.stdout.readline()
        kubeconfig = cluster.stdout.readline().strip().rpartition("=")[2]
        process = stack.enter_context(_started(["run", "--no-health", "--kubeconfig", kubeconfig]))
        stack.callback(process.kill)
        assert process.stderr is not None
        errors = b""
        while b"scheduling pods of" not in errors:
            line = process.stderr.readline()
            assert line, errors
            errors += line
        process.send_signal(number)
        _, rest = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == code
    assert b"stopping" in rest
    assert b"Traceback" not in rest


@pytest.mark.slow
def test_ctrl_c_ends_a_demo_that_is_at_work_with_130() -> None:
    with _started(["demo"]) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline().startswith(b"embedded cluster: ")
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()

    assert process.returncode == 130
    assert b"Traceback" not in errors


def test_tests_in_the_background_can_stop_what_they_start() -> None:
    """There Ctrl-C is ignored, and each child would inherit that: a test that sends it would wait until its limit."""
    program = "import signal; print([signal.getsignal(number) is signal.SIG_IGN for number in (1, 2)])"
    start = f"import subprocess, sys, tests.conftest; subprocess.run([sys.executable, '-c', {program!r}], check=True)"
    done = subprocess.run(
        ["sh", "-c", 'trap "" HUP INT; exec "$@"', "sh", sys.executable, "-c", start],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout == "[False, False]\n"


@pytest.mark.slow
def test_a_binary_file_is_named_by_the_embedded_cluster(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\x02\x01\xff\xfe")
    done = subprocess.run(
        [*EMBEDDED, tmp_path / "binary"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )

    assert (done.returncode, done.stderr) == (1, f"{tmp_path}/binary: not UTF-8 text (byte 6): is this a manifest?\n")
