"""Rows of the list that were only looked at briefly are corrected while somebody sees it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allocator import Features
from scheduler.explain import explain_pod, waiting
from scheduler.offline import SourceObject
from scheduler.ui import data_source, first_looks
from scheduler.ui.data_source import Objects, Source
from tests.offline.causes import Obj, device_class, gpu, node, pod, slice_
from tests.ui.worlds import workload

NOW_MS = 1_800_000_000_000


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods that were asked about by themselves; lists have a budget for one pod."""
    monkeypatch.setattr(waiting, "_STEPS", 1_019_000)
    monkeypatch.setattr(first_looks, "_REST", 0)
    names: list[str] = []
    real = waiting.ask_all

    def noted(*given: Any, only: Any = None, **options: Any) -> Any:
        names.extend(f"{one[0]}/{one[1]}" for one in only or ())
        return real(*given, only=only, **options)

    monkeypatch.setattr(data_source, "ask_all", noted)
    return names


def of(*pods: Obj) -> Source:
    there = [node(), slice_(gpu()), device_class(), *pods]
    given = [SourceObject(f"object {number}", one) for number, one in enumerate(there)]
    return Source.of_files("world", Objects(given, Features()), None)


def wants(cpu: int, name: str = "", namespace: str = "default", owner: str = "") -> Obj:
    """A pod for which no node has room."""
    made = pod(name=name or f"p{cpu}", requests={"cpu": str(cpu)})
    made["metadata"]["namespace"] = namespace
    if owner:
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-{owner}", "controller": True}
        ]
    return made


def brief(document: dict[str, Any]) -> list[str]:
    return [row["names"][0] for row in document["pods"] if row.get("firstLook")]


async def corrected(source: Source) -> dict[str, Any]:
    """The list, when nothing goes on any more."""
    while (document := await source.pending())["again"]:
        task = source._first_looks._task
        assert task is not None
        await task
    return document


async def test_a_row_gets_the_answer_that_its_pod_has_by_itself(asked: list[str]) -> None:
    source = of(wants(98), wants(99))
    first = await source.pending()
    assert (brief(first), first["again"]) == (["p99"], True)

    document = await corrected(source)
    assert brief(document) == []
    (row,) = [row for row in document["pods"] if row["names"][0] == "p99"]
    told = explain_pod((await source.objects()).given, ("default", "p99"), now_ms=NOW_MS, features=Features())
    assert (row["kind"], row["cause"]) == (told.kind, told.cause)
    assert told.advice == f"to make it fit: {row['change']}"
    assert asked == ["default/p99"]
    assert (await source.pending())["again"] is False
    assert asked == ["default/p99"]


async def test_replicas_are_asked_about_once_and_each_has_its_own_name(asked: list[str]) -> None:
    replicas = [wants(99, f"web-{number}", owner="web") for number in range(134)]
    source = of(wants(98, "a"), *replicas)
    assert brief(await source.pending()) == ["web-0"]

    document = await corrected(source)
    assert asked == ["default/web-0"]
    (row,) = [row for row in document["pods"] if row["owner"] == "ReplicaSet/default/web"]
    assert len(row["names"]) == 134
    assert not row.get("firstLook")


async def test_a_corrected_row_keeps_the_age_of_its_oldest_pod() -> None:
    source = of(wants(98, "a"), *workload(3))
    assert brief(await source.pending()) == ["web-abc-0"]
    document = await corrected(source)
    (row,) = [row for row in document["pods"] if row["owner"] == "Deployment/team-a/web"]
    assert (row["created"], row["firstLook"]) == ("2026-01-01T00:00:48Z", False)


async def test_namespaces_take_turns_and_what_was_not_come_to_is_first_in_the_next_list(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_looks, "_ROWS_MAX", 2)
    names = [("a", "x"), ("b", "p"), ("b", "q"), ("b", "r"), ("c", "s")]
    source = of(*(wants(90 + number, name, namespace) for number, (namespace, name) in enumerate(names)))
    document = await corrected(source)
    assert asked == ["b/p", "c/s"]
    assert brief(document) == ["q", "r"]

    source._answers.clear()
    await corrected(source)
    assert asked[2:] == ["b/q", "b/r"]


async def test_it_ends_when_nobody_looks_and_goes_on_when_somebody_does(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_looks, "_LEFT_S", -1.0)
    source = of(*(wants(cpu) for cpu in range(95, 99)))
    await source.pending()
    task = source._first_looks._task
    assert task is not None
    await task
    assert asked == []

    monkeypatch.setattr(first_looks, "_LEFT_S", 30.0)
    await corrected(source)
    assert asked == ["default/p96", "default/p97", "default/p98"]


async def test_a_newer_list_ends_the_corrections_of_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_looks, "_REST", 1_000_000)
    source = of(wants(98), wants(99))
    await source.pending()
    old = source._first_looks._task
    assert old is not None
    monkeypatch.setattr(first_looks, "_REST", 0)
    source._answers.clear()
    await source.pending()
    await asyncio.wait([old])
    assert brief(await corrected(source)) == []


async def test_who_would_fit_alone_and_waits_for_what_others_take_keeps_the_cause_of_the_list() -> None:
    source = of(wants(97, "a"), wants(6, "b"), wants(5, "c"))
    listed = {row["names"][0]: (row["outcome"], row["cause"]) for row in (await source.pending())["pods"]}
    assert listed["c"][0] == "unschedulable"
    document = await corrected(source)
    assert {row["names"][0]: (row["outcome"], row["cause"]) for row in document["pods"]} == listed
    assert brief(document) == []


async def test_a_namespace_of_thousands_of_pods_keeps_those_of_others_not_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PODS_MAX", 4)
    found = await of(
        *(wants(98, f"p{number}", "a-greedy-team") for number in range(9)), wants(99, "one", "team")
    ).pending()
    assert {row["namespace"] for row in found["pods"]} == {"a-greedy-team", "team"}
    assert (found["waiting"], found["notAsked"]) == (10, 6)
