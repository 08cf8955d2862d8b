"""The lease alone, against a server in memory, in time that passes at once: who may write when, whatever is lost.

What every test asks besides its own question: never may two write at the same moment (`Processes.watch`).
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import random
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

import pytest

from scheduler.kube.clock import most_elapsed_s, read_clocks
from scheduler.kube.lease import Election, Lease, LeaseLostError, LeaseTimes
from scheduler.kube.outcomes import Accepted, Conflicted, Rejected, Unknown
from tests.kube.misbehaving import Reports

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
TIMES = LeaseTimes()
START_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Server:
    """Stores Leases as the API server does: conditional updates, a revision for each change."""

    def __init__(self) -> None:
        self.leases: dict[str, dict] = {}
        self.revision = 0
        self.writes: list[tuple[float, str, dict]] = []

    def spec(self, name: str = "dra-scheduler") -> dict:
        return self.leases[name]["spec"]

    def answer(self, method: str, path: str, body: bytes | None):
        name = path.removeprefix(PATH).strip("/")
        given = json.loads(body) if body else None
        if method == "POST":
            name = given["metadata"]["name"]
            if name in self.leases:
                return Conflicted(f'leases.coordination.k8s.io "{name}" already exists')
            return self.store(method, name, given | {"metadata": given["metadata"] | {"uid": f"uid-{self.revision}"}})
        if name not in self.leases:
            return Rejected(404, "NotFound", f'leases.coordination.k8s.io "{name}" not found')
        if method == "GET":
            return Accepted(200, json.dumps(self.leases[name]).encode())
        assert method == "PUT"
        if given["metadata"]["resourceVersion"] != self.leases[name]["metadata"]["resourceVersion"]:
            return Conflicted("the object has been modified")
        return self.store(method, name, given)

    def store(self, method: str, name: str, obj: dict):
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        self.leases[name] = obj
        self.writes.append((now_s(), method, copy.deepcopy(obj["spec"])))
        return Accepted(200, json.dumps(obj).encode())

    def edit(self, name: str = "dra-scheduler", **spec) -> None:
        """Somebody else writes."""
        obj = copy.deepcopy(self.leases[name])
        obj["spec"] |= spec
        self.store("edit", name, obj)


@dataclass
class Link:
    """A client's way to the server. Requests take `latency_s`, half of it each way."""

    server: Server
    latency_s: float = 0.01
    is_cut: bool = False
    lose_replies: int = 0
    hang: int = 0
    arrive_late_s: float = 0.0
    refuse: object = None
    draw: object = None
    late: list = field(default_factory=list)

    async def send(self, method, path, body=None):
        latency_s = self.draw() if callable(self.draw) else self.latency_s
        if self.refuse is not None:
            return self.refuse
        if self.hang:
            self.hang -= 1
            await asyncio.Event().wait()
        await asyncio.sleep(latency_s / 2)
        if self.is_cut:
            await asyncio.Event().wait()
        if self.arrive_late_s:
            wait_s, self.arrive_late_s = self.arrive_late_s, 0.0
            asyncio.get_running_loop().call_later(
                wait_s, lambda: self.late.append(self.server.answer(method, path, body))
            )
            await asyncio.Event().wait()
        outcome = self.server.answer(method, path, body)
        if self.lose_replies and method != "GET":
            self.lose_replies -= 1
            return Unknown("connection reset")
        await asyncio.sleep(latency_s / 2)
        if self.is_cut:
            await asyncio.Event().wait()
        return outcome


class Process:
    """One scheduler with its clocks."""

    def __init__(
        self, server: Server, identity: str, names=("dra-scheduler",), times=TIMES, jitter=None, wall_off_s=0.0
    ) -> None:
        self.identity = identity
        self.link = Link(server)
        self.reports = Reports()
        self.losses: list[LeaseLostError] = []
        self.asleep_s, self.wall_off_s = 0.0, wall_off_s
        self.is_settled = True
        self.leases = [
            Lease(
                self.link,
                self.reports,
                namespace="kube-system",
                name=name,
                identity=identity,
                times=times,
                clocks=self.clocks,
                wall_s=lambda: START_S + now_s() + self.wall_off_s,
                jitter=jitter or (lambda: 1.0),
            )
            for name in names
        ]
        self.lease = self.leases[0]
        self.election = Election(self.leases, on_lost=self.losses.append, may_release=lambda: self.is_settled)

    def clocks(self):
        return (now_s() + self.wall_off_s, now_s(), now_s() + self.asleep_s)


class Processes:
    """Starts elections, and looks each 50 ms that at most one of each name may write."""

    def __init__(self) -> None:
        self.server = Server()
        self.running: dict[str, tuple[Process, AsyncExitStack]] = {}
        self.stack = AsyncExitStack()
        self.watching: asyncio.Task | None = None

    async def __aenter__(self):
        self.watching = asyncio.create_task(self.watch())
        return self

    async def __aexit__(self, *exc_info):
        assert self.watching is not None
        self.watching.cancel()
        for identity in list(self.running):
            await self.stop(identity)
        with suppress(asyncio.CancelledError):
            await self.watching

    async def start(self, identity: str, **more) -> Process:
        process = Process(self.server, identity, **more)
        stack = AsyncExitStack()
        await stack.enter_async_context(process.election)
        self.running[identity] = (process, stack)
        return process

    async def stop(self, identity: str) -> None:
        process, stack = self.running.pop(identity)
        await stack.aclose()
        assert not process.election.may_write() or not process.is_settled

    def kill(self, identity: str) -> None:
        """Nothing of it goes on."""
        process, _ = self.running.pop(identity)
        assert process.election._task is not None
        process.election._task.cancel()

    async def watch(self) -> None:
        while True:
            writing = [one.identity for one, _ in self.running.values() if one.election.may_write()]
            assert len(writing) <= 1, f"{writing} may write at {now_s():.2f}"
            await asyncio.sleep(0.05)

    async def passes(self, seconds: float) -> None:
        """Time, while the watch has not failed."""
        assert self.watching is not None
        done, _ = await asyncio.wait([self.watching], timeout=seconds)
        for task in done:
            task.result()


async def test_the_first_one_makes_the_lease_in_client_gos_shape():
    async with Processes() as processes:
        one = await processes.start("one")
        await asyncio.wait_for(one.election.acquired(), 1)

        assert processes.server.leases["dra-scheduler"]["metadata"]["namespace"] == "kube-system"
        assert processes.server.spec() == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.010000Z",
            "renewTime": "2026-01-01T00:00:00.010000Z",
            "leaseTransitions": 0,
        }
        assert one.election.may_write()
        assert one.election.problems() == []


async def test_it_is_renewed_each_retry_period_and_nothing_else_of_it_changes():
    async with Processes() as processes:
        one = await processes.start("one")
        await processes.passes(9)
        processes.server.leases["dra-scheduler"]["metadata"]["labels"] = {"kept": "yes"}
        processes.server.edit()
        await processes.passes(20)

        renewals = [at for at, method, _ in processes.server.writes if method == "PUT"]
        assert [round(later - earlier) for earlier, later in itertools.pairwise(renewals)] == [2] * 13
        assert processes.server.spec() | {"renewTime": ""} == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.010000Z",
            "renewTime": "",
            "leaseTransitions": 0,
        }
        assert processes.server.leases["dra-scheduler"]["metadata"]["labels"] == {"kept": "yes"}
        assert one.losses == []


async def test_a_second_waits_and_says_for_whom_and_takes_over_when_the_lease_runs_out(caplog):
    caplog.set_level("INFO")
    async with Processes() as processes:
        await processes.start("one")
        await processes.passes(1)
        two = await processes.start("two")
        await processes.passes(30)
        assert not two.election.may_write()
        assert two.election.problems() == []
        assert two.election.waiting() == ["waiting for the lease kube-system/dra-scheduler, held by one"]
        assert "waiting for the lease kube-system/dra-scheduler, held by one" in caplog.messages

        processes.kill("one")
        killed_s, renewed_s = now_s(), processes.server.writes[-1][0]
        await asyncio.wait_for(two.election.acquired(), 60)
        assert renewed_s + 15 < now_s() < renewed_s + 15 + 1 + 0.1  # it had looked at most half a retry period later
        assert now_s() < killed_s + 15 + 1.1
        assert processes.server.spec()["holderIdentity"] == "two"
        assert processes.server.spec()["leaseTransitions"] == 1
        assert processes.server.spec()["acquireTime"] == processes.server.spec()["renewTime"]


@pytest.mark.parametrize("hours", [-24, 24])
async def test_clocks_that_differ_do_not_matter(hours):
    """Whether the record changes counts, not what is written in it."""
    async with Processes() as processes:
        await processes.start("one", wall_off_s=hours * 3600)
        await processes.passes(1)
        two = await processes.start("two")
        await processes.passes(60)
        assert not two.election.may_write()

        processes.kill("one")
        renewed_s = processes.server.writes[-1][0]
        await asyncio.wait_for(two.election.acquired(), 60)
        assert renewed_s + 15 < now_s() < renewed_s + 17.1


async def test_another_duration_than_ours_is_honoured():
    async with Processes() as processes:
        await processes.start("one", times=LeaseTimes(duration_s=60, renew_deadline_s=40))
        await processes.passes(1)
        two = await processes.start("two")
        await processes.passes(1)
        processes.kill("one")
        killed_s = now_s()
        await asyncio.wait_for(two.election.acquired(), 100)

        assert now_s() > killed_s + 55


async def test_who_waits_looks_again_when_the_lease_runs_out():
    async with Processes() as processes:
        await processes.start("one")
        await processes.passes(1)
        two = await processes.start("two", times=LeaseTimes(retry_period_s=8))
        await processes.passes(1)
        processes.kill("one")
        seen_s = two.lease._changed_s
        await asyncio.wait_for(two.election.acquired(), 60)

        assert now_s() == pytest.approx(seen_s + 15, abs=0.1)


async def test_what_is_released_is_taken_within_a_retry_period():
    async with Processes() as processes:
        await processes.start("one")
        await processes.passes(5)
        two = await processes.start("two")
        await processes.passes(5)
        await processes.stop("one")
        released_s = now_s()
        assert processes.server.spec() | {"acquireTime": "", "renewTime": ""} == {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": "",
            "renewTime": "",
            "leaseTransitions": 0,
        }
        await asyncio.wait_for(two.election.acquired(), 60)

        assert now_s() <= released_s + 2.1
        assert processes.server.spec()["leaseTransitions"] == 1


async def test_what_may_still_be_written_keeps_the_lease_from_being_released():
    async with Processes() as processes:
        one = await processes.start("one")
        await processes.passes(5)
        one.is_settled = False
        await processes.stop("one")

        assert processes.server.spec()["holderIdentity"] == "one"


async def test_somebody_elses_lease_is_not_released():
    async with Processes() as processes:
        await processes.start("one")
        await processes.passes(1)
        processes.server.edit(holderIdentity="other")
        await processes.stop("one")

        assert processes.server.spec()["holderIdentity"] == "other"


def troubles_of(caplog) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        pytest.param({"hang": 1}, "no answer within 3.3 s", id="the-read-hangs"),
        pytest.param({"refuse": Unknown("connection reset")}, "connection reset", id="the-read-is-lost"),
        pytest.param({"refuse": Accepted(200, b"<html>")}, "the answer is no Lease: b'<html>'", id="no-lease"),
        pytest.param({"lose_replies": 1}, "connection reset", id="the-write-is-lost"),
        pytest.param({"latency_s": 60.0}, "no answer within 3.3 s", id="nothing-comes"),
    ],
)
async def test_a_lease_that_could_not_be_released_is_told(trouble, told, caplog):
    """Whoever waits for it waits its whole duration then, and nobody knew why."""
    async with Processes() as processes:
        one = await processes.start("one")
        await processes.passes(5)
        for name, value in trouble.items():
            setattr(one.link, name, value)
        await processes.stop("one")

    assert troubles_of(caplog) == [f"the lease kube-system/dra-scheduler could not be released: {told}"]


async def test_a_lease_that_is_kept_for_what_may_still_be_written_is_told(caplog):
    async with Processes() as processes:
        one = await processes.start("one")
        await processes.passes(5)
        one.is_settled = False
        await processes.stop("one")

    text = "not released, since what became of a write is not known: the lease kube-system/dra-scheduler"
    assert troubles_of(caplog) == [text]


async def test_a_lease_that_somebody_else_holds_by_now_is_told(caplog):
    async with Processes() as processes:
        await processes.start("one")
        await processes.passes(1)
        processes.server.edit(holderIdentity="other")
        await processes.stop("one")

    text = "the lease kube-system/dra-scheduler could not be released: held by other"
    assert troubles_of(caplog) == [text]


async def test_a_renewal_that_is_under_way_does_not_undo_the_release():
    async with Processes() as processes:
        one = await processes.start("one")
        await processes.passes(1.9)
        one.link.arrive_late_s = 1.0
        await processes.passes(0.5)
        await processes.stop("one")
        await processes.passes(2)

        assert isinstance(one.link.late[0], Conflicted)
        assert processes.server.spec()["holderIdentity"] == ""


async def test_an_annotation_by_somebody_else_costs_one_request():
    async with Processes() as processes:
        one = await processes.start("one")
        await processes.passes(3)
        processes.server.edit()
        await processes.passes(30)

        assert one.losses == []
        assert one.election.may_write()


async def test_nobody_may_write_before_its_acquisition_is_known():
    async with Processes() as processes:
        one = Process(processes.server, "one")
        one.link.lose_replies = 1
        one.link.latency_s = 0.5
        async with one.election:
            await asyncio.sleep(0.8)
            assert processes.server.spec()["holderIdentity"] == "one"
            assert not one.election.may_write()
            await asyncio.wait_for(one.election.acquired(), 5)
        assert [method for _, method, _ in processes.server.writes][:2] == ["POST", "PUT"]


@pytest.mark.parametrize("fault", ["lose_replies", "hang"])
async def test_one_lost_request_costs_nothing(fault):
    async with Processes() as processes:
        one = await processes.start("one")
        await processes.passes(3)
        setattr(one.link, fault, 1)
        await processes.passes(30)

        assert one.losses == []
        assert one.election.may_write()


async def test_who_is_cut_off_may_write_no_longer_before_the_next_one_may():
    async with Processes() as processes:
        one = await processes.start("one")
        await processes.passes(1)
        two = await processes.start("two")
        await processes.passes(6.3)
        one.link.is_cut = True
        renewed_s = processes.server.writes[-1][0]
        while one.election.may_write():
            await processes.passes(0.05)
        assert now_s() == pytest.approx(renewed_s + 10, abs=0.06)
        await processes.passes(0.1)
        assert [str(error) for error in one.losses] == [
            "the lease kube-system/dra-scheduler was lost: not renewed for 10.0 s (no answer within 3.3 s)"
        ]
        await asyncio.wait_for(two.election.acquired(), 60)
        assert now_s() >= renewed_s + 15

        one.link.is_cut = False
        await processes.passes(60)
        assert not one.election.may_write()
        assert processes.server.spec()["holderIdentity"] == "two"


async def test_the_deadline_counts_from_when_the_renewal_was_sent():
    """An answer that takes 3 s says that the lease was renewed up to 3 s ago."""
    async with Processes() as processes:
        one = await processes.start("one")
        one.link.latency_s = 3.0
        await processes.passes(20)
        while not 1.6 < now_s() - processes.server.writes[-1][0] < 2.5:  # it has been answered
            await processes.passes(0.05)
        stored_s = processes.server.writes[-1][0]
        one.link.is_cut = True
        while one.election.may_write():
            await processes.passes(0.05)

        assert now_s() == pytest.approx(stored_s - 1.5 + 10, abs=0.06)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(lambda server: server.edit(holderIdentity="other"), "held by other", id="taken"),
        pytest.param(lambda server: server.edit(holderIdentity=""), "held by nobody", id="emptied"),
        pytest.param(lambda server: server.leases.clear(), "deleted", id="deleted"),
    ],
)
async def test_who_does_not_read_its_own_name_has_lost(change, why):
    async with Processes() as processes:
        one = await processes.start("one")
        await processes.passes(3)
        change(processes.server)
        await processes.passes(2.1)

        assert [str(error) for error in one.losses] == [f"the lease kube-system/dra-scheduler was lost: {why}"]
        assert not one.election.may_write()
        writes = len(processes.server.writes)
        await processes.passes(60)
        assert len(processes.server.writes) == writes


@pytest.mark.parametrize("clock", ["asleep_s", "wall_off_s"])
async def test_a_sleep_that_only_one_clock_has_noticed_ends_it_at_once(clock):
    async with Processes() as processes:
        one = await processes.start("one")
        await processes.passes(3)
        setattr(one, clock, 9.5)

        assert not one.election.may_write()
        assert one.election.has_lost()
        setattr(one, clock, 0.0)
        assert not one.election.may_write()  # what was lost is not taken back
        await processes.passes(2)
        assert len(one.losses) == 1


async def test_a_wall_clock_that_is_set_back_changes_nothing():
    async with Processes() as processes:
        one = await processes.start("one")
        await processes.passes(3)
        one.wall_off_s = -3600
        await processes.passes(60)

        assert one.losses == []
        assert one.election.may_write()


async def test_a_missing_right_is_reported_and_waited_for(caplog):
    refusal = Rejected(403, "Forbidden", 'User "x" cannot get resource "leases"', is_configuration=True)
    async with Processes() as processes:
        one = await processes.start("one")
        one.link.refuse = refusal
        await processes.passes(5)
        assert one.reports.refusals == {
            "get leases.coordination.k8s.io in namespace kube-system": 'User "x" cannot get resource "leases"'
        }
        assert one.election.problems() == [
            'waiting for the lease kube-system/dra-scheduler: User "x" cannot get resource "leases" (HTTP 403)'
        ]
        assert caplog.messages == one.election.problems()  # once

        one.link.refuse = None
        await asyncio.wait_for(one.election.acquired(), 5)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"kind":"Status"}', b'{"metadata":{}}', b"null"])
async def test_an_answer_that_is_no_lease_is_none(body):
    async with Processes() as processes:
        one = await processes.start("one")
        one.link.refuse = Accepted(200, body)
        await processes.passes(5)

        assert not one.election.may_write()
        assert "the answer is no Lease" in one.election.problems()[0]


async def test_a_lease_without_a_record_is_taken():
    async with Processes() as processes:
        processes.server.store("POST", "dra-scheduler", {"metadata": {}, "spec": None})
        one = await processes.start("one")
        await asyncio.wait_for(one.election.acquired(), 1)

        assert processes.server.spec()["leaseTransitions"] == 1


async def test_processes_with_a_name_in_common_exclude_each_other_and_others_do_not():
    """As many as there are names are held, in their order: neither has what the other waits for."""
    server = Server()
    both, first, last = (
        Process(server, "both", names=("b", "a")),
        Process(server, "first", names=("a",)),
        Process(server, "last", names=("c", "b")),
    )
    async with first.election:
        await asyncio.wait_for(first.election.acquired(), 1)
        async with last.election:
            await asyncio.wait_for(last.election.acquired(), 1)
            async with both.election:
                await asyncio.sleep(60)
                assert not both.election.may_write()
                assert both.election.waiting()[0] == "waiting for the lease kube-system/a, held by first"
                assert first.election.may_write()
                assert last.election.may_write()
                await first.election.__aexit__()
                await asyncio.sleep(60)
                assert server.spec("a")["holderIdentity"] == "both"
                assert both.election.waiting() == ["waiting for the lease kube-system/b, held by last"]
                assert not both.election.may_write()
                await last.election.__aexit__()
                await asyncio.wait_for(both.election.acquired(), 5)
                assert both.election.may_write()
                server.edit("a", holderIdentity="other")
                await asyncio.sleep(2.1)
                assert [str(error) for error in both.losses] == ["the lease kube-system/a was lost: held by other"]
                assert not both.election.may_write()


async def test_a_defect_of_ours_ends_it_too(caplog):
    async with Processes() as processes:
        one = await processes.start("one")
        await processes.passes(1)
        send, one.link.send = one.link.send, None
        await processes.passes(3)
        one.link.send = send

        assert len(one.losses) == 1
        assert "defect" in caplog.text


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_the_network_does_never_two_may_write(seed):
    """Three of them, cut off, slow, killed, stopped in order and started again at random; and in the end one leads."""
    dice = random.Random(seed)
    async with Processes() as processes:
        count = 0
        for _ in range(40):
            while len(processes.running) < 3:
                count += 1
                process = await processes.start(f"p{count}", jitter=dice.random)
                process.link.draw = lambda: dice.expovariate(2)
            identity = dice.choice(list(processes.running))
            process = processes.running[identity][0]
            match dice.randrange(7):
                case 0:
                    process.link.is_cut = True
                case 1:
                    process.link.is_cut = False
                case 2:
                    process.link.lose_replies = 3
                case 3:
                    process.link.arrive_late_s = dice.uniform(0.1, 30)
                case 4:
                    processes.kill(identity)
                case 5:
                    await processes.stop(identity)
                case 6:
                    process.link.hang = 2
            for one in [name for name, (process, _) in processes.running.items() if process.losses]:
                await processes.stop(one)
            await processes.passes(dice.uniform(0, 12))
        for process, _ in processes.running.values():
            process.link = Link(processes.server)
            process.lease._client = process.link
        await processes.passes(60)
        assert sum(process.election.may_write() for process, _ in processes.running.values()) <= 1
        assert processes.server.spec()["holderIdentity"]


def test_most_elapsed_is_by_the_clock_that_says_most():
    assert most_elapsed_s((100.0, 5.0, 7.0), (90.0, 6.0, 10.0)) == 3.0
    earlier = read_clocks()
    assert most_elapsed_s(earlier, read_clocks()) >= 0.0
    assert len(earlier) in (2, 3)
