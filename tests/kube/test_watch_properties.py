"""Whatever the server sends: the decoder never raises, and after a list the machine knows exactly what exists."""

from __future__ import annotations

import asyncio

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.inputs import PodDeleted, PodObserved
from scheduler.kube.codec import Codec
from scheduler.kube.watch import Reflector, _Replacement
from tests.kube.misbehaving import Reports, Told, bookmark, event, pod

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


# A step of a cluster's life: set a pod (a new uid for a new life), remove it, or lose the watch for a while.
steps = st.lists(
    st.tuples(st.sampled_from(["set", "remove", "replace", "lose", "list"]), st.sampled_from("abc")), max_size=25
)


@settings(deadline=None)
@given(steps)
def test_after_a_list_the_machine_knows_what_exists(history):
    asyncio.run(_live_through(history))


async def _live_through(history) -> None:
    told, codec = Told(), Codec()
    reflector = Reflector(None, codec.pods, told, Reports())  # type: ignore[arg-type]  # nothing is sent
    exists: dict[str, dict] = {}
    version, is_watching = 1, False

    def feed(line: str, initial=None):
        inputs: list = []
        left = reflector._take(codec.pods.decode_event(line.rstrip("\n").encode()), initial, inputs)
        if inputs:
            told(inputs)
        return left

    def relist() -> None:
        initial = _Replacement()
        for one in exists.values():
            initial = feed(event("ADDED", one), initial)
        assert feed(bookmark(version, ends_initial=True), initial) is None

    for step, name in [*history, ("list", "")]:
        version += 1
        if step == "list":
            relist()
            is_watching = True
            assert _known(told) == {key: (one["metadata"]["uid"], version_of(one)) for key, one in exists.items()}
            assert reflector.stats.objects == len(exists)
        elif step == "lose":
            is_watching = False
        elif step == "set":
            old = exists.get(name)
            exists[name] = pod(name, version, uid=old["metadata"]["uid"] if old else f"{name}-{version}")
            if is_watching:
                feed(event("MODIFIED" if old else "ADDED", exists[name]))
        elif (old := exists.pop(name, None)) is not None:
            if is_watching:
                feed(event("DELETED", old))
            if step == "replace":
                exists[name] = pod(name, version, uid=f"{name}-{version}")
                if is_watching:
                    feed(event("ADDED", exists[name]))


def version_of(obj: dict) -> str:
    return obj["metadata"]["resourceVersion"]


def _known(told: Told) -> dict[str, tuple[str, str]]:
    """What somebody knows who believed every input; a deletion must name the life it ends."""
    known: dict[str, tuple[str, str]] = {}
    for given_input in told.inputs:
        if isinstance(given_input, PodObserved):
            meta = given_input.pod.metadata
            assert meta.name not in known or known[meta.name][0] == meta.uid, "a new life before the old one ended"
            known[meta.name] = (meta.uid, meta.resource_version)
        elif isinstance(given_input, PodDeleted):
            assert known.pop(given_input.key.name)[0] == given_input.uid
    return known
