"""Counts of pods are kept from what changed, and always equal a recount of all nodes."""

from __future__ import annotations

import itertools
from collections import Counter
from unittest import mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import Features
from scheduler.core.counting import pod_counts as pod_counts_module
from scheduler.core.counting import term_counts
from scheduler.core.counting.term_counts import MatchingTerms
from scheduler.core.state.store import Store
from scheduler.framework.pod_counts_view import PodQuestion
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.label_set import likeness_of
from scheduler.model.objects import (
    Affinity,
    LabelSelector,
    Namespace,
    NodeSelectorRequirement,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from scheduler.model.pod_terms import PodTerm, Role, pod_terms
from tests import builders

WEB = compile_label_selector(LabelSelector({"app": "web"}))
EVERYTHING = compile_label_selector(LabelSelector())
LONG = compile_label_selector(
    LabelSelector(match_expressions=tuple(NodeSelectorRequirement(f"no-{i}", "DoesNotExist") for i in range(600)))
)
QUESTIONS = [
    PodQuestion((), "zone"),
    PodQuestion(((None, WEB),), "zone"),
    PodQuestion(((frozenset({"default"}), WEB),), "zone", skips_terminating=True, needed_keys=("rack",)),
    PodQuestion(((None, EVERYTHING), (frozenset({"other"}), WEB)), "rack", counts_keyless=True),
    PodQuestion(((None, EVERYTHING),), "zone", tolerations=()),
    PodQuestion(((frozenset({"default"}), LONG), (None, WEB)), "zone"),
]
TERMS = [
    None,
    Affinity(pod_anti_affinity=PodAffinity(required=(PodAffinityTerm("zone", LabelSelector({"app": "web"})),))),
    Affinity(pod_affinity=PodAffinity(required=(PodAffinityTerm("rack", LabelSelector(), namespaces=("other",)),))),
    Affinity(
        pod_affinity=PodAffinity(
            required=(PodAffinityTerm("zone", LabelSelector(), namespace_selector=LabelSelector({"team": "a"})),)
        )
    ),
]
labels = st.dictionaries(st.sampled_from(["zone", "rack"]), st.sampled_from(["a", "b", ""]), max_size=2)
nodes = st.tuples(st.just("node"), st.integers(0, 3), labels, st.booleans())
pods = st.tuples(
    st.just("pod"),
    st.integers(0, 5),
    st.integers(0, 3),
    st.sampled_from(["default", "other"]),
    st.sampled_from(["web", "db"]),
    st.booleans(),
    st.sampled_from(range(len(TERMS))),
)
gone = st.tuples(st.sampled_from(["no-node", "no-pod"]), st.integers(0, 5))
supposed = st.tuples(st.just("suppose"), st.integers(0, 3))
asked = st.tuples(st.just("ask"), st.integers(0, len(QUESTIONS) - 1))
in_part = st.tuples(st.just("part"), st.integers(0, len(QUESTIONS) - 1), st.integers(-200, 200))


def recounted(store: Store, question: PodQuestion) -> tuple[Counter[str], int, int | None]:
    pods: Counter[str] = Counter()
    values = set()
    for info in store.node_infos.values():
        value = question.value_on(info.node)
        if value is not None:
            values.add(value)
            pods[value] += sum(question.matches(likeness_of(pod)) for pod in info.pods.values())
    return pods, len(values), min((pods[value] for value in values), default=None)


def check(store: Store, question: PodQuestion) -> None:
    count = store.pod_counts.count(question)
    pods, domains, minimum = recounted(store, question)
    assert {value: count.of_value(value) for value in ("a", "b", "", "x")} == {v: pods[v] for v in ("a", "b", "", "x")}
    assert (count.total, count.domains, count.minimum) == (sum(pods.values()), domains, minimum)
    assert set(near := count.near()) == {
        name for name, info in store.node_infos.items() if pods.get(question.value_on(info.node))
    }
    assert len(near) == len(set(near))
    assert [name for name in [*store.node_infos, "gone"] if name in near] == [
        name for name in store.node_infos if name in set(near)
    ]
    for info in store.node_infos.values():
        assert count.on_node(info) == sum(question.matches(likeness_of(pod)) for pod in info.pods.values())


def check_terms(store: Store) -> None:
    having: Counter[tuple[PodTerm, str]] = Counter()
    present = set()
    for info in store.node_infos.values():
        for pod in info.pods.values():
            for term in pod_terms(pod):
                value = info.node.labels.get(term.topology_key)
                if value is not None:
                    having[term, value] += 1
                    present.add(term)
    for namespace, app in itertools.product(("default", "other"), ("web", "db")):
        known = store.namespaces.get(namespace)
        of_namespace = known.metadata.labels or {} if known is not None else {}
        meaning = store.pod_counts.terms_meaning(namespace, {"app": app})
        assert set(meaning.terms) == {t for t in present if t.matches(namespace, {"app": app}, of_namespace)}
        assert len(meaning.terms) == len(set(meaning.terms))
        assert store.pod_counts.terms_meaning(namespace, {"app": app}) is meaning
        check_sums(store, meaning, having)


def check_sums(store: Store, meaning: MatchingTerms, having: Counter[tuple[PodTerm, str]]) -> None:
    wanted: tuple[Counter, Counter, Counter] = (Counter(), Counter(), Counter())
    for (term, value), pods in having.items():
        if term in meaning and term.topology_key == "zone":
            place = (Role.REQUIRED_ANTI_AFFINITY, Role.REQUIRED_AFFINITY, Role.PREFERRED).index(term.role)
            wanted[place][value] += pods * (term.weight or 1)
    found = store.pod_counts.sums(meaning, ("zone",))
    assert [dict(of_key.get("zone", {})) for of_key in found] == [dict(one) for one in wanted]
    assert all(of_key.keys() <= {"zone"} for of_key in found)


@settings(deadline=None, max_examples=150)
@given(steps=st.lists(st.one_of(nodes, pods, gone, supposed, asked, in_part), max_size=40))
def test_counts_equal_a_recount_whatever_happened_since(steps):
    store = Store(Features())
    team = msgspec.convert({"metadata": {"name": "other", "labels": {"team": "a"}, "resourceVersion": "1"}}, Namespace)
    store.namespaces.observe("other", 1, team)
    for revision, step in enumerate(steps, start=1):
        match step:
            case ("node", number, has, is_tainted):
                taints = [{"key": "k", "effect": "NoSchedule"}] if is_tainted else []
                node = builders.node(f"n{number}", labels=has, taints=taints, revision=revision)
                store.observe_node(node)
            case ("pod", number, node, namespace, app, is_deleting, terms):
                pod = builders.pod(
                    f"p{number}", namespace=namespace, labels={"app": app}, node=f"n{node}", revision=revision
                )
                deleted = "2026-01-01T00:00:00Z" if is_deleting else None
                store.observe_pod(
                    msgspec.structs.replace(
                        pod,
                        metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp=deleted),
                        spec=msgspec.structs.replace(pod.spec, affinity=TERMS[terms]),
                    )
                )
            case ("no-node", number):
                if f"n{number}" in store.node_infos:
                    store.delete_node(NodeName(f"n{number}"), revision)
            case ("no-pod", number):
                for uid in [uid for uid, pod in store.pods.items() if pod.metadata.name == f"p{number}"]:
                    store.delete_pod(PodUid(uid), revision)
            case ("suppose", number):
                info = store.node_infos.get(NodeName(f"n{number}"))
                if info is not None:
                    check_terms(store)
                    with store.pod_counts.as_if(lambda info=info: [info.simulated(removed=list(info.pods))]):
                        store.pod_counts.terms_meaning("default", {"app": "web"})
                    check_terms(store)
            case ("part", number, steps_left):
                with mock.patch.multiple(pod_counts_module, _PART=1, _CAUGHT_UP=0):
                    store.pod_counts.prepare([QUESTIONS[number], QUESTIONS[-1]], steps_left)
                with mock.patch.multiple(pod_counts_module, _PART=0):
                    meaning = store.pod_counts.terms_meaning("default", {"app": "web"}, 0)
                    if meaning is not None:
                        store.pod_counts.prepare_sums(meaning, ("zone",), 0)
            case ("ask", number):
                check(store, QUESTIONS[number])
                check_terms(store)
    for question in QUESTIONS:
        check(store, question)
    check_terms(store)


def test_a_label_is_unique_while_no_two_nodes_share_a_value():
    store = Store(Features())
    for name in "ab":
        store.observe_node(builders.node(name, labels={"host": name, "zone": "z"}))
    assert store.pod_counts.is_unique("host")
    assert not store.pod_counts.is_unique("zone")
    assert store.pod_counts.is_unique("nobody-has-it")
    store.observe_node(builders.node("c", labels={"host": "a"}))
    assert not store.pod_counts.is_unique("host")


def test_a_known_question_recounts_only_nodes_that_changed():
    store = Store(Features())
    for number in range(100):
        store.observe_node(builders.node(f"n{number}", labels={"zone": str(number % 3)}))
    question = QUESTIONS[1]
    store.pod_counts.count(question)
    before = store.pod_counts.steps
    store.observe_pod(builders.pod("p", labels={"app": "web"}, node="n7"))
    assert store.pod_counts.count(question).total == 1
    assert store.pod_counts.steps - before == 1
    store.pod_counts.count(question)
    assert store.pod_counts.steps - before == 1


@pytest.mark.parametrize("pods_per_node", [1, 50])
def test_counting_pods_by_long_selectors_is_done_in_parts(pods_per_node):
    """One question about pods that are all different, 40 terms of 100 expressions: it took 2 s for 5,000 of them."""
    store = Store(Features())
    for number in range(20):
        store.observe_node(builders.node(f"n{number}", labels={"zone": "z"}))
        for other in range(pods_per_node):
            pod = builders.pod(f"p{number}-{other}", labels={"app": f"{number}-{other}"}, node=f"n{number}")
            store.observe_pod(pod)
    question = PodQuestion(((None, LONG),) * 7, "zone")
    taken, has_all = [], False
    while not has_all:
        before = store.pod_counts.steps
        has_all = store.pod_counts.prepare([question], 10)
        taken.append(store.pod_counts.steps - before)
    # 4,200 requirements of one pod are 1,400 nodes' time.
    assert max(taken) <= pod_counts_module._PART + 1_400 + 1
    assert sum(taken) == 20 * (1 + pods_per_node * 1_400)
    assert store.pod_counts.count(question).total == 20 * pods_per_node


def many_terms(store: Store) -> None:
    """50 pods with 39 distinct terms each, which mean everybody, on 50 nodes of five zones."""
    for number in range(50):
        store.observe_node(builders.node(f"n{number}", labels={"zone": str(number % 5)}))
        pod = builders.pod(f"p{number}", node=f"n{number}")
        terms = tuple(PodAffinityTerm("zone", without(f"no-{number}-{part}"), ("default",)) for part in range(39))
        store.observe_pod(
            msgspec.structs.replace(
                pod, spec=msgspec.structs.replace(pod.spec, affinity=Affinity(pod_anti_affinity=PodAffinity(terms)))
            )
        )


def without(label: str) -> LabelSelector:
    return LabelSelector(match_expressions=(NodeSelectorRequirement(label, "DoesNotExist"),))


def test_terms_are_counted_and_summed_up_in_parts(monkeypatch):
    """50,000 terms took 30 ms to be counted first, and 70 in one piece after that."""
    monkeypatch.setattr(pod_counts_module, "_PART", 20)
    monkeypatch.setattr(pod_counts_module, "_MANY_TERMS", 100)
    store = Store(Features())
    many_terms(store)
    counts, taken = store.pod_counts, []

    def in_parts(ask):
        found = None
        while not found:
            before = counts.steps
            found = ask()
            taken.append(counts.steps - before)
        return found

    meaning = in_parts(lambda: counts.terms_meaning("default", {"app": "web"}, 10))
    assert in_parts(lambda: counts.prepare_sums(meaning, ("zone",), 10))
    assert len(meaning.terms) == 50 * 39
    assert counts.sums(meaning, ("zone",)).refusing == {"zone": {str(zone): 390 for zone in range(5)}}
    # Reading what was found once more is 50 * 39 / 3.
    assert max(taken) <= 650 + 30
    assert sorted(taken)[-2] <= 60


def test_sums_that_were_given_to_somebody_stay_as_they_are():
    store = Store(Features())
    many_terms(store)
    counts = store.pod_counts
    meaning = counts.terms_meaning("default", {"app": "web"})
    given = counts.sums(meaning, ("zone",))
    store.delete_pod(next(uid for uid, pod in store.pods.items() if pod.metadata.name == "p0"), 10**9)
    later = counts.sums(meaning, ("zone",))
    assert (given.refusing["zone"]["0"], later.refusing["zone"]["0"]) == (390, 351)


@pytest.mark.parametrize("changes_max", [10, 20_000])
@pytest.mark.parametrize("is_whole", [False, True])
def test_sums_are_those_of_a_fresh_look_when_terms_change_meanwhile(monkeypatch, changes_max, is_whole):
    """Whether what changed is still known, or no longer; whether all had been summed up, or a part."""
    monkeypatch.setattr(term_counts, "_CHANGES_MAX", changes_max)
    monkeypatch.setattr(pod_counts_module, "_PART", 200)
    store = Store(Features())
    many_terms(store)
    counts = store.pod_counts
    meaning = counts.terms_meaning("default", {"app": "web"})
    assert counts.prepare_sums(meaning, ("zone",), 10**6 if is_whole else 0) is is_whole
    twins = [pod for pod in store.pods.values() if pod.metadata.name in ("p0", "p1", "p49")]
    for revision, pod in enumerate(twins, start=10**6):
        other = builders.pod(f"twin-of-{pod.metadata.name}", node=pod.spec.node_name, revision=revision)
        store.observe_pod(msgspec.structs.replace(pod, metadata=other.metadata))
        counts.terms_meaning("default", {"app": "web"})
    counts.prepare_sums(meaning, ("zone",), 0)
    monkeypatch.setattr(term_counts, "_CHANGES_MAX", 20_000)  # what comes now is known again
    last = builders.pod("one-more", node="n0", revision=10**6 + 9)
    store.observe_pod(msgspec.structs.replace(twins[0], metadata=last.metadata))
    assert counts.terms_meaning("default", {"app": "web"}) is meaning
    expected = {"0": 390 + 39 + 39, "1": 390 + 39, "2": 390, "3": 390, "4": 390 + 39}
    assert counts.sums(meaning, ("zone",)).refusing == {"zone": expected}


@pytest.mark.parametrize("keys", [("zone",), ("rack",), ()])
def test_a_single_term_is_summed_up_by_what_it_does(keys):
    store = Store(Features())
    store.observe_node(builders.node("n", labels={"zone": "a"}))
    preferred = (WeightedPodAffinityTerm(5, PodAffinityTerm("zone", LabelSelector())),)
    for number in range(3):
        pod = builders.pod(f"p{number}", node="n")
        spec = msgspec.structs.replace(pod.spec, affinity=Affinity(pod_anti_affinity=PodAffinity(preferred=preferred)))
        store.observe_pod(msgspec.structs.replace(pod, spec=spec))
    meaning = store.pod_counts.terms_meaning("default", {})
    expected = {"zone": {"a": -15}} if keys == ("zone",) else {}
    assert store.pod_counts.sums(meaning, keys) == ({}, {}, expected)


def test_questions_unused_longest_are_forgotten():
    store = Store(Features(), remembered_bytes=9_000)
    for number in range(10):
        store.observe_node(builders.node(f"n{number}", labels={"zone": "a"}))
    for key in range(5):
        store.ledger.begin("default")
        store.pod_counts.count(PodQuestion((), "zone", needed_keys=("zone",) * key))
    store.ledger.begin("default")
    assert len(store.pod_counts.answers()) == 2


def test_namespaces_are_found_by_their_labels_as_they_are_now():
    store = Store(Features())

    def put(name, revision, **of):
        new = msgspec.convert({"metadata": {"name": name, "labels": of}}, Namespace)
        store.namespaces.observe(name, revision, new)

    put("x", 1, app="web")
    put("y", 1)
    assert store.pod_counts.namespaces_matching(WEB) == {"x"}
    put("y", 2, app="web")
    assert store.pod_counts.namespaces_matching(WEB) == {"x", "y"}
    store.namespaces.delete("x", 3)
    assert store.pod_counts.namespaces_matching(WEB) == {"y"}


def test_a_term_means_nobody_when_the_last_pod_that_has_it_is_gone():
    store = Store(Features())
    store.observe_node(builders.node("n", labels={"zone": "a", "rack": "r"}))
    pod, other = builders.pod("p", node="n"), builders.pod("other", node="n")
    store.observe_pod(msgspec.structs.replace(other, spec=msgspec.structs.replace(other.spec, affinity=TERMS[2])))
    pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=TERMS[1]))
    store.observe_pod(pod)
    assert len(store.pod_counts.terms_meaning("default", {"app": "web"}).terms) == 1
    store.delete_pod(pod.uid, 10**9)
    assert store.pod_counts.terms_meaning("default", {"app": "web"}).terms == ()
    store.observe_pod(msgspec.structs.replace(pod, metadata=builders.pod("q").metadata))
    assert len(store.pod_counts.terms_meaning("default", {"app": "web"}).terms) == 1
