"""Counts of pods are kept from what changed, and always equal a recount of all nodes."""

from __future__ import annotations

import itertools
from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import Features
from scheduler.core import pod_counts as pod_counts_module
from scheduler.core.store import Store
from scheduler.core.term_counts import MatchingTerms
from scheduler.framework.pod_counts_view import PodQuestion
from scheduler.model.keys import NodeName, PodUid
from scheduler.model.label_selectors import compile_label_selector
from scheduler.model.likeness import likeness_of
from scheduler.model.objects import Affinity, LabelSelector, Namespace, PodAffinity, PodAffinityTerm
from scheduler.model.pod_terms import PodTerm, Role, pod_terms
from tests import builders

WEB = compile_label_selector(LabelSelector({"app": "web"}))
EVERYTHING = compile_label_selector(LabelSelector())
QUESTIONS = [
    PodQuestion((), "zone"),
    PodQuestion(((None, WEB),), "zone"),
    PodQuestion(((frozenset({"default"}), WEB),), "zone", skips_terminating=True, needed_keys=("rack",)),
    PodQuestion(((None, EVERYTHING), (frozenset({"other"}), WEB)), "rack", counts_keyless=True),
    PodQuestion(((None, EVERYTHING),), "zone", tolerations=()),
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
@given(st.lists(st.one_of(nodes, pods, gone, supposed, asked), max_size=40))
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
                    with store.pod_counts.as_if(info.simulated(removed=list(info.pods))):
                        store.pod_counts.terms_meaning("default", {"app": "web"})
                    check_terms(store)
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


def test_questions_unused_longest_are_forgotten(monkeypatch):
    monkeypatch.setattr(pod_counts_module, "_NODES_KEPT_MAX", 20)
    monkeypatch.setattr(pod_counts_module, "_ANSWERS_KEPT", 2)
    store = Store(Features())
    for number in range(10):
        store.observe_node(builders.node(f"n{number}", labels={"zone": "a"}))
    for key in range(5):
        store.pod_counts.count(PodQuestion((), "zone", needed_keys=("zone",) * key))
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
