"""Events that say why pods wait, for pods of schedulers that do not say it: one for each pod and cause.

Rules of this module
  1. At most `A_MINUTE` are created in a minute, of namespaces by turns. What is left is new the next time, too.
     A namespace for which the server takes none (a role, a limit of events) is asked about once a round, and last in
     the next one, so it keeps no other waiting.
  2. A cause is said once; with other numbers it is the same. Those that the server has from before are not said again.
  3. An event names no pod or claim of another namespace. The cause of a first look is not said.

Not here: the causes (`explain.waiting`), when they are looked for (`cli.observe`).
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

import msgspec

from scheduler.core.reports.pod_conditions import without_numbers
from scheduler.explain.waiting import Key, Waiting, by_turns
from scheduler.framework.decisions import RecordEvent
from scheduler.kube.api_requests import ApiClient
from scheduler.kube.event_records import EventSeries
from scheduler.kube.outcomes import Accepted, Rejected, text_of
from scheduler.model.api_rules import cut_note

REASON: Final = "WhyPending"
REPORTER: Final = "dra-scheduler-observe"
A_MINUTE: Final = 30
_READ_MAX: Final = 500
_KEPT_MAX: Final = 20_000
_OUTCOMES: Final = frozenset({"unschedulable", "error", "unserved"})
"""Of pods that wait for somebody to do something; a gate says itself what it waits for."""

_Said: TypeAlias = tuple[str, str]
"""A pod's uid, and what was said without its numbers."""


class CauseEvents:
    """Those of one cluster.

    Args:
        client: It may create events.
        now_ms: Unix time in milliseconds.
    """

    def __init__(self, client: ApiClient, now_ms: Callable[[], int]) -> None:
        self._client: Final = client
        self._now_ms: Final = now_ms
        # Each event is forgotten as it is sent: none is counted, which would take the right to patch.
        self._series: Final = EventSeries(
            (REPORTER,),
            os.uname().nodename,
            # Together no more than so many in any minute.
            per_second=A_MINUTE / 120,
            burst=A_MINUTE // 2,
        )
        self._said: Final[OrderedDict[_Said, None]] = OrderedDict()
        self._refused: dict[str, str] = {}  # of the last round: why, by namespace

    async def read_said(self) -> None:
        """Learn what the server has of an earlier process; without the right to list events that is nothing."""
        outcome = await self._client.send("GET", f"/api/v1/events?limit={_READ_MAX}&fieldSelector=reason%3D{REASON}")
        if isinstance(outcome, Accepted):
            for one in msgspec.json.decode(outcome.body).get("items") or ():
                self._keep((str(one["involvedObject"].get("uid")), without_numbers(str(one.get("message")))))

    async def tell(self, pods: Iterable[Waiting], uids: Mapping[Key, str]) -> str:
        """Create an event for each cause that is new, as many as may be.

        Returns:
            Why the server takes none, or none of a namespace; "" where it takes all.
        """
        told = (one for one in pods if one.outcome in _OUTCOMES and not one.is_first_look)
        rows = sorted(by_turns(told, lambda one: one.key[0]), key=lambda one: one.key[0] in self._refused)
        refused = self._refused = {}
        for one in rows:
            uid, note = uids.get(one.key, ""), cut_note(f"[{one.kind}] {one.told}")
            said = uid, without_numbers(note)
            if not uid or said in self._said or one.key[0] in refused:
                continue
            now_ms = self._now_ms()
            if self._series.wait_s(now_ms) > 0:
                break
            self._series.add(RecordEvent("Pod", *one.key, uid, "Warning", REASON, "Scheduling", note), now_ms)
            request = self._series.next_request(now_ms)
            assert request is not None  # there is a token, and nothing else waits
            outcome = await self._client.send(request.method, request.path, request.body, request.content_type)
            self._series.forget(request.event)
            if isinstance(outcome, Rejected) and (outcome.is_configuration or outcome.is_retriable):
                refused[one.key[0]] = text_of(outcome)
                if outcome.code in (0, HTTPStatus.UNAUTHORIZED):  # nobody's event would be taken
                    break
                continue
            self._keep(said)
        return next(iter(refused.values()), "")

    def _keep(self, said: _Said) -> None:
        self._said[said] = None
        if len(self._said) > _KEPT_MAX:
            self._said.popitem(last=False)
