"""The faults of a chaos run, done; `schedule` says which and when.

Rules
  1. Each is over by itself, or with `heal`.
  2. What is done to API server and etcd is done one after the other.
  3. `done` counts what has happened: for a request fault, requests that met it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.fault_proxy import Fault, FaultKind, api_failure
from tests.integration.api import Api, Object
from tests.integration.chaos.instances import Instance, wait_leader
from tests.integration.chaos.patience import patiently
from tests.integration.chaos.schedule import REQUEST_FAULTS, Planned
from tests.integration.world import WRITES

_REQUESTS: Final = {
    **WRITES,
    "lease": ("PUT", r"/leases/"),
    "volume": ("PATCH", r"/persistentvolumes/"),
    "list": ("GET", r"^[^?]*/[a-z]+(\?(?!.*watch=)|$)"),
}
_ANSWERS: Final = {429: "TooManyRequests", 500: "InternalError", 504: "Timeout"}
_WATCHED: Final = ("pods", "resourceclaims", "resourceslices", "")


@dataclass(slots=True)
class Faults:
    """Attributes:
    lease_s: The lease's duration, which what is lost must outlast.
    other_name: kube-scheduler's name.
    withdrawn: Slices that are not there for the moment, by name.
    """

    plane: ControlPlane
    api: Api
    instances: list[Instance]
    slices: list[str]
    lease_s: float
    other_name: str
    done: Counter[str] = field(default_factory=Counter)
    withdrawn: dict[str, Object] = field(default_factory=dict)
    _armed: list[tuple[str, Fault]] = field(default_factory=list)
    _server: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def happen(self, planned: Planned) -> None:
        """Returns when it is over, or armed."""
        if planned.kind in REQUEST_FAULTS:
            self._arm(planned)
            return
        acts: dict[str, Callable[[float], Awaitable[None]]] = {
            "cut-watches": self._cut_watches,
            "hold-watches": self._hold_watches,
            "truncate-watches": self._truncate_watches,
            "cut-off-leader": self._cut_off_leader,
            "kill-leader": self._kill_leader,
            "stop-leader": self._stop_leader,
            "kill-apiserver": self._kill_apiserver,
            "kill-etcd": self._kill_etcd,
            "compact-etcd": self._compact_etcd,
            "republish-slices": self._republish,
            "withdraw-slices": self._withdraw,
            "kill-other-scheduler": self._kill_other_scheduler,
        }
        await acts[planned.kind](planned.share)
        self.done[planned.kind] += 1

    @property
    def has_met_all(self) -> bool:
        """Whether each kind of request fault has met a request."""
        return all(any(fault.hits for of, fault in self._armed if of == kind) for kind in REQUEST_FAULTS)

    async def heal(self) -> None:
        """No fault is armed any more, everybody runs and can be reached; `done` is complete."""
        for kind, fault in self._armed:
            self.done[kind] += fault.hits
        self._armed.clear()
        for one in self.instances:
            one.proxy.clear()
            one.proxy.accept()
            one.proxy.let_watches_go()
            one.signal(signal.SIGCONT)

    # -- requests ---------------------------------------------------------------------------------------------

    def _arm(self, planned: Planned) -> None:
        """For the next requests of that sort, whoever sends them."""
        method, path = _REQUESTS[planned.target]
        times = 1 + int(3 * planned.share)
        kind, _, status = planned.kind.partition("-")
        if kind == "answer":
            code = int(status)
            body = api_failure(code, _ANSWERS[code], "said by the chaos run")
            headers = {"Retry-After": "1"} if code == 429 else {}
            fault = Fault("answer", method, path, times=times, status=code, body=body, headers=headers)
        else:
            named: FaultKind = planned.kind
            fault = Fault(named, method, path, times=times, seconds=0.1 + 3 * planned.share)
        self._armed.append((planned.kind, fault))
        for one in self.instances:
            one.proxy.add(fault)

    # -- watches and processes --------------------------------------------------------------------------------

    async def _leader(self) -> Instance:
        return await wait_leader(self.instances)

    async def _cut_watches(self, share: float) -> None:
        for one in self.instances:
            one.proxy.cut_watches(_WATCHED[int(share * len(_WATCHED))])

    async def _truncate_watches(self, share: float) -> None:
        for one in self.instances:
            one.proxy.truncate_watches(_WATCHED[int(share * len(_WATCHED))])

    async def _hold_watches(self, share: float) -> None:
        proxy = (await self._leader()).proxy
        proxy.hold_watches(_WATCHED[int(share * 3)])
        await asyncio.sleep(min(1 + 9 * share, 2 * self.lease_s))
        proxy.let_watches_go()

    async def _cut_off_leader(self, share: float) -> None:
        proxy = (await self._leader()).proxy
        proxy.refuse()
        await asyncio.sleep(self.lease_s * (1 + share))
        proxy.accept()

    async def _kill_leader(self, share: float) -> None:
        (await self._leader()).signal(signal.SIGKILL)

    async def _stop_leader(self, share: float) -> None:
        stopped = await self._leader()
        stopped.signal(signal.SIGSTOP)
        await asyncio.sleep(self.lease_s * (1 + share))
        stopped.signal(signal.SIGCONT)

    # -- servers ----------------------------------------------------------------------------------------------

    async def _kill_apiserver(self, share: float) -> None:
        async with self._server:
            await asyncio.to_thread(self.plane.kill_apiserver)
            await asyncio.sleep(2 * share)
            await asyncio.to_thread(self.plane.restart_apiserver)

    async def _kill_etcd(self, share: float) -> None:
        async with self._server:
            await asyncio.to_thread(self.plane.kill_etcd)
            await asyncio.sleep(3 * share)
            await asyncio.to_thread(self.plane.restart_etcd)

    async def _compact_etcd(self, share: float) -> None:
        """And the API server forgets what it remembers: who goes on with a watch is told 410."""
        async with self._server:
            await asyncio.to_thread(compact, self.plane)
            await asyncio.to_thread(self.plane.restart_apiserver)

    async def _kill_other_scheduler(self, share: float) -> None:
        await asyncio.to_thread(self.plane.stop_kube_scheduler)
        await asyncio.sleep(2 * share)
        self.plane.start_kube_scheduler(self.other_name)

    # -- slices -----------------------------------------------------------------------------------------------

    async def _republish(self, share: float) -> None:
        """A tenth of the pools, with a new generation and an attribute that has changed."""
        for name in self._some_slices(share):
            found = await patiently(self.api.get, "resourceslices", name)
            if found is None:
                continue  # withdrawn
            spec = found["spec"]
            for device in spec["devices"]:
                device["attributes"]["checked"] = {"int": int(share * 1000)}
            pool = {**spec["pool"], "generation": spec["pool"]["generation"] + 1}
            change = {"spec": {"pool": pool, "devices": spec["devices"]}}
            await patiently(self.api.merge_patch, "resourceslices", name, change)

    async def _withdraw(self, share: float) -> None:
        """A tenth of the pools are gone for some seconds, as when their drivers are restarted."""
        names = [name for name in self._some_slices(share) if name not in self.withdrawn]
        for name in names:
            found = await patiently(self.api.get, "resourceslices", name)
            if found is None:
                continue
            self.withdrawn[name] = found
            await patiently(self.api.delete, "resourceslices", name)
        await asyncio.sleep(1 + 4 * share)
        for name in names:
            spec = self.withdrawn[name]["spec"]
            spec["pool"]["generation"] += 1
            body = {"metadata": {"name": name}, "spec": spec}
            await patiently(self.api.create, "resourceslices", body)
            del self.withdrawn[name]

    def _some_slices(self, share: float) -> list[str]:
        count = max(len(self.slices) // 10, 1)
        first = int(share * len(self.slices))
        return [self.slices[(first + number) % len(self.slices)] for number in range(count)]


def compact(plane: ControlPlane) -> None:
    """Nothing before the present revision can be read of etcd any more."""
    with suppress(OSError):  # it was killed a moment ago
        key = base64.b64encode(b"/registry").decode()
        header = _ask(plane.etcd_url + "/v3/kv/range", {"key": key})["header"]
        _ask(plane.etcd_url + "/v3/kv/compaction", {"revision": header["revision"], "physical": True})


def _ask(url: str, body: Object) -> Object:
    request = urllib.request.Request(url, data=json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: Object = json.loads(answer.read())
        return found
