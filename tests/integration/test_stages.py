"""CPU a pod by stage: which stack belongs to which stage, and the table."""

from __future__ import annotations

import re

import pytest

from benchmarks.contenders import ROOT
from benchmarks.loads import Measured
from benchmarks.stages import OTHER, STAGES, stages, table

TURN = "run (uvloop/__init__.py:92);MachineTurns._turn (scheduler/machine_turns.py:163)"
WRITE = "Executor._write (scheduler/kube/executor.py:195);Executor._execute (scheduler/kube/executor.py:216)"
SEND = "ApiClient.send (scheduler/kube/api_requests.py:145)"
READ = "SSLProtocol_buffer_updated_impl (loop.c);SSLProtocol__do_read (loop.c)"
WATCH = "Reflector.run (scheduler/kube/watch.py:182);Reflector._stream (scheduler/kube/watch.py:350)"


@pytest.mark.parametrize(
    ("stack", "want"),
    [
        (f"{TURN};Machine.handle (scheduler/core/machine.py:168)", "deciding"),
        (f"{TURN};Machine.handle (scheduler/core/machine.py:168);gc_collect_main (gcmodule.c)", "garbage collector"),
        (f"{TURN};Executor.submit (scheduler/kube/executor.py:175)", "writes: the rest"),
        (f"{TURN};Executor.submit (executor.py:175);EventSeries.add (event_records.py:99)", "events"),
        (
            f"{WRITE};encode_decision (scheduler/kube/decision_requests.py:80)",
            "writes: the rest",
        ),
        (f"{WRITE};{SEND}", "writes: HTTP"),
        (f"{WRITE};{SEND};SSLObject.write (ssl.py);SSL_write_ex (libssl.so.3)", "TLS"),
        (f"Executor._send_event (scheduler/kube/executor.py:321);{SEND}", "events"),
        (f"{WATCH};WatchedKind.decode_event (scheduler/kube/watched_kind.py:240)", "watches: reading, decoding"),
        (f"{READ};ResponseHandler.data_received (aiohttp/client_proto.py:280)", "writes: HTTP"),
        (READ, "TLS"),
        ("run_forever (loop.c);uv_run (core.c)", OTHER),
        ("Runner.run (asyncio/runners.py:118);ThreadPoolExecutor._worker (thread.py)", OTHER),
    ],
)
def test_a_stack_belongs_to_one_stage(stack: str, want: str) -> None:
    assert stages([f"{stack} 3", f"{stack} 4"]) == {want: 7}


def test_waiting_is_no_cpu() -> None:
    assert stages(["uv_run (core.c);uv__io_poll (linux.c:1400);epoll_pwait (libc.so.6) 90"]) == {}


def test_the_stages_name_classes_and_methods_that_there_are() -> None:
    """A renamed one would count as the event loop."""
    source = "\n".join(path.read_text() for path in (ROOT / "scheduler").rglob("*.py"))
    named = [found for _, frames in STAGES for found in re.findall(r"\\b([A-Z]\w+)\\\.(\w*)", frames)]
    assert len(named) >= 7
    missing = [f"{cls}.{method}" for cls, method in named if cls != "SSLObject" and f"class {cls}" not in source]
    missing += [method for _, method in named if method and not re.search(rf"def {method}\(", source)]
    assert missing == []


def run(contender: str, cpu_ms: float, **samples: int) -> Measured:
    figures = dict.fromkeys(("pods_per_s", "cpu_s", "p50_s", "p99_s", "cluster_cpu_s", "resident_mib"), 1.0)
    given = {"workload": "plain", "contender": contender, "round": 1, "pods": 1, "bound": 1}
    return Measured(**given, **figures, cpu_ms_per_pod=cpu_ms, violations=0, samples=samples)


def test_the_stages_of_a_workload_add_up_to_its_cpu() -> None:
    sampled = "dra-scheduler, sampled"  # its CPU time is not ours
    runs = [run("kube-scheduler", 4), *(run("dra-scheduler", ms) for ms in (2, 3))]
    runs += [run(sampled, 9, deciding=1, TLS=2), run(sampled, 9, deciding=5)]
    cells = dict(table(runs))

    assert cells["ms of CPU a pod"] == "plain"
    assert (cells["kube-scheduler"], cells["dra-scheduler"], cells["samples"]) == ("4.00", "2.50", "8")
    assert (cells["deciding"], cells["TLS"], cells["events"]) == ("1.88", "0.62", "0.00")
