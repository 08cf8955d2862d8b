"""A device with a field that nobody here knows: its pod waits, and whatever is asked names that field."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.framework.diagnosis import LENGTH_MAX, cause_of
from tests.integration.api import Object
from tests.integration.test_causes import of_model
from tests.integration.test_dump import kubeconfig_of, run
from tests.integration.world import UNDER_TEST, World, condition_of, gpu

pytestmark = [
    pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler does not see what it does not know"),
    pytest.mark.parametrize("world", ["embedded"], indirect=True),  # a real API server drops what it does not know
]
FIELD = "rationing"


async def test_the_pod_waits_and_all_answers_name_the_field(world: World, tmp_path: Path) -> None:
    odd, other = world.node_name(0), world.node_name(1)
    await world.add_nodes(2)
    await world.publish(odd, [{**gpu(0, model={"string": "ODD"}), FIELD: {"perPod": "1"}}, gpu(1)])
    await world.add_class()
    await world.add_template()
    await world.add_template("odd", of_model(world, "ODD"))
    await world.start_scheduler()
    await world.add_pod("runs", template="one-gpu")
    await world.wait_bound("runs")  # the slice's other device
    await world.add_pod("waits", template="odd")
    await world.wait_unschedulable("waits")

    notes: list[str] = []

    def told(events: dict[str, Object]) -> bool:
        ours = [one for one in events.values() if one["regarding"]["name"] == "waits"]
        notes[:] = [one["note"] for one in ours if one["reason"] == "FailedScheduling" and cause_of(one["note"])]
        return bool(notes)

    await world.wait_for("events", told, what="the cause in an event")
    pods = await world.wait_for(
        "pods", lambda pods: bool(cause_of((condition_of(pods["waits"]) or {}).get("message", ""))), what="the cause"
    )
    message = (condition_of(pods["waits"]) or {})["message"]
    assert message in notes
    assert f"device {odd}/gpu-0 has the field {FIELD}, which this scheduler does not know" in message
    assert len(message.encode()) <= LENGTH_MAX

    asked = ("--kubeconfig", kubeconfig_of(world))
    dumped = tmp_path / "cluster.yaml"
    dumped.write_text((await run("dump", *asked))[1])
    for command, code in (
        (("explain", "pod/waits", "-n", world.namespace), 1),
        (("devices", "-o", "wide"), 0),
        (("explain", "-A"), 1),
        (("simulate",), 2),  # as for any object of which a part is left out
    ):
        for source in (asked, ("-f", str(dumped))):
            got, out = await run(*command, *source)
            assert (got, FIELD in out) == (code, True), (command, source, out)
            assert out.startswith("not all is considered: "), (command, source, out)
    assert f"there is no field {FIELD} here" in (await run("lint", str(dumped)))[1]

    await world.publish(other, [gpu(0, model={"string": "ODD"})])
    await world.wait_bound("waits")
    assert await world.violations() == []


async def test_the_same_field_published_again_makes_no_other_event(world: World) -> None:
    (name,) = await world.add_nodes(1)
    first = await world.publish(name, [{**gpu(0), FIELD: 1, "x" * 253: 1, "a\nb": {"c": [1]}}])
    await world.add_class()
    await world.add_template()
    await world.start_scheduler()
    await world.add_pod("waits", template="one-gpu")
    await world.wait_unschedulable("waits")
    for number in range(5):
        await world.api.merge_patch("resourceslices", first, {"metadata": {"annotations": {"n": str(number)}}})
        await world.add_pod(f"other-{number}")
        await world.wait_bound(f"other-{number}")  # what was published is seen
    events = await world.wait_for(
        "events",
        lambda events: any(FIELD in str(one.get("note")) for one in events.values()),
        what="an event that names the field",
    )
    notes = [one["note"] for one in events.values() if one["regarding"]["name"] == "waits" and FIELD in one["note"]]
    assert len(notes) == len(set(notes)) == 1
    assert "\n" not in notes[0]
