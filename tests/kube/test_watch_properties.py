"""Whatever the server sends: the decoder never raises, and after a list the machine knows exactly what exists."""

from __future__ import annotations

import asyncio

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.ground.inputs import Deleted
from scheduler.kube.codec import Codec
from scheduler.kube.watch import Reflector
from scheduler.kube.watched_kind import Replacement
from tests.kube.misbehaving import Reports, Told, bookmark, event, pod
from tests.observed import is_of

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
# Objects that have the right fields with the wrong values in them.
field_names = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "name",
        "uid",
        "resourceVersion",
        "devices",
        "allocation",
        "containers",
        "pool",
        "driver",
    ]
)
near_objects = st.dictionaries(
    field_names, st.dictionaries(field_names, json_values, max_size=3) | json_values, max_size=4
)
event_types = st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "OTHER"])


@settings(deadline=None)
@given(event_types, near_objects | json_values)
def test_no_object_makes_a_decoder_raise(kind, obj):
    line = orjson.dumps({"type": kind, "object": obj})
    for one in Codec().kinds:
        one.decode_event(line)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_make_a_decoder_raise(line):
    for one in Codec().kinds:
        one.decode_event(line)


# What happens to a pod: it is set (a new uid for a new life), removed, or removed and made anew.
changes = st.lists(st.tuples(st.sampled_from(["set", "remove", "replace"]), st.sampled_from("abc")), max_size=4)
# A round: changes that the watch tells, changes while it is lost, then a list.
rounds = st.lists(st.tuples(changes, changes), min_size=1, max_size=5)


@settings(deadline=None)
@given(rounds)
def test_after_a_list_the_machine_knows_what_exists(history):
    asyncio.run(_live_through(history))


async def _live_through(history) -> None:
    told, codec = Told(), Codec()
    reflector = Reflector(None, codec.pods, told, Reports())  # nothing is sent
    exists = {name: pod(name, 1) for name in "ab"}
    version = 1

    def feed(line: str, initial=None):
        inputs: list = []
        left = reflector._take(codec.pods.decode_event(line.rstrip("\n").encode()), initial, inputs)
        if inputs:
            told(inputs)
        return left

    def relist() -> None:
        initial = Replacement()
        for one in exists.values():
            initial = feed(event("ADDED", one), initial)
        assert feed(bookmark(version, ends_initial=True), initial) is None
        assert _known(told) == {name: (one["metadata"]["uid"], version_of(one)) for name, one in exists.items()}
        assert reflector.stats.objects == len(exists)

    def change(step: str, name: str) -> list[str]:
        """Make it so; the events a watch tells."""
        old = exists.get(name)
        if step == "set":
            exists[name] = pod(name, version, uid=old["metadata"]["uid"] if old else f"{name}-{version}")
            return [event("MODIFIED" if old else "ADDED", exists[name])]
        if old is None:
            return []
        events = [event("DELETED", exists.pop(name))]
        if step == "replace":
            exists[name] = pod(name, version, uid=f"{name}-{version}")
            events.append(event("ADDED", exists[name]))
        return events

    relist()
    for seen, missed in history:
        for step, name in seen:
            version += 1
            for line in change(step, name):
                feed(line)
        for step, name in missed:
            version += 1
            change(step, name)
        relist()


def version_of(obj: dict) -> str:
    return obj["metadata"]["resourceVersion"]


def _known(told: Told) -> dict[str, tuple[str, str]]:
    """What somebody knows who believed every input; a deletion must name the life it ends."""
    known: dict[str, tuple[str, str]] = {}
    for given_input in told.inputs:
        if is_of(given_input, "Pod"):
            meta = given_input.object.metadata
            assert meta.name not in known or known[meta.name][0] == meta.uid, "a new life before the old one ended"
            known[meta.name] = (meta.uid, meta.resource_version)
        elif isinstance(given_input, Deleted):
            uid, version = known.pop(given_input.key.name)
            assert uid == given_input.uid
            assert given_input.revision >= int(version), "a deletion older than what it ends would be ignored"
    return known
