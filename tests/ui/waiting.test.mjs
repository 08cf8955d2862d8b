// How the page puts pods that wait together.
import assert from "node:assert/strict";
import test from "node:test";
import { filtered, podsIn, titled, together, withoutCommands } from "../../scheduler/ui/static/js/waiting.js";

function row(owner, fields = {}) {
  const [, namespace, name] = owner.split("/");
  const said = { kind: "devices-in-use", cause: "gpu-0 is in use", change: "end a/b", outcome: "unschedulable" };
  return { owner, namespace, names: [name], node: "", created: "", firstLook: false, ...said, ...fields };
}

const train = row("PodGroup/a/train", { names: ["train-0", "train-1"], created: "2026-01-02T00:00:00Z" });
const rest = row("PodGroup/a/train", { names: ["other-7"], created: "2026-01-01T00:00:00Z" });
const web = row("Deployment/b/web", { names: ["web-1", "web-2", "web-3", "web-4"], created: "2026-01-01T12:00:00Z" });
const bare = row("Pod/b/bare", { kind: "selector-unmet", cause: "no device" });

test("a group has one row, its cause once, all of its pods and the age of the oldest", () => {
  const [one, ...others] = together([train, rest], "owner", "");
  assert.deepEqual(others, []);
  assert.deepEqual([one.name, one.of, one.pods, one.created], ["a/train", "PodGroup", 3, rest.created]);
  assert.deepEqual([...one.causes.values()].map((cause) => cause.pods), [["a/train-0", "a/train-1", "a/other-7"]]);
});

test("equal pods of different owners are never one row, and never one cause of a row", () => {
  const two = [row("Job/a/x"), row("Job/a/y")];
  assert.equal(together(two, "owner", "").length, 2);
  const [cause] = together(two, "cause", "");
  assert.deepEqual([cause.name, cause.of, cause.pods, cause.causes.size], ["devices-in-use", "", 2, 2]);
  assert.equal(together([row("Job/a/x"), row("Deployment/a/x")], "owner", "").length, 2);
});

test("a workload of which some fit says how many", () => {
  const [one] = together([web, row("Deployment/b/web", { outcome: "fits", kind: "fits", cause: "", change: "" })], "owner", "");
  assert.deepEqual([one.fit, one.pods, one.causes.size], [1, 5, 2]);
});

test("the cause of most pods comes first", () => {
  const [one] = together([bare, train, web].map((each) => ({ ...each, kind: "same" })), "cause", "");
  assert.deepEqual([...one.causes.values()].map((cause) => cause.row.owner), [web, train, bare].map((each) => each.owner));
});

test("the oldest come first, and those of which nobody says when they were created last", () => {
  const order = (sort) => together([bare, web, train], "owner", sort).map((group) => group.name);
  assert.deepEqual(order(""), ["b/web", "a/train", "b/bare"]);
  assert.deepEqual(order("most pods"), ["b/web", "a/train", "b/bare"]);
  assert.deepEqual(order("name"), ["a/train", "b/bare", "b/web"]);
  assert.deepEqual(order("constructor"), order("oldest"));
  const natural = [10, 9].map((number) => row(`Job/a/job-${number}`));
  assert.deepEqual(together(natural, "nothing", "name").map((group) => group.name), ["a/job-9", "a/job-10"]);
});

test("by namespace there is a row a namespace", () => {
  const found = together([train, web, bare], "namespace", "name");
  assert.deepEqual(found.map((group) => [group.name, group.pods, group.causes.size]), [["a", 2, 1], ["b", 5, 2]]);
});

test("rows of a first look say so also where another row has their cause", () => {
  const [one] = together([train, { ...rest, firstLook: true }], "owner", "");
  assert.deepEqual([...one.causes.values()].map((cause) => cause.isFirstLook), [true]);
});

test("rows are found by kind, namespace, and words of all that is shown", () => {
  const found = (said) => filtered([train, web, bare], { kind: "", namespace: "", search: "", ...said });
  assert.deepEqual(found({}), [train, web, bare]);
  assert.deepEqual(found({ kind: "selector-unmet" }), [bare]);
  assert.deepEqual(found({ namespace: "b" }), [web, bare]);
  assert.deepEqual(["PODGROUP", "train-1", "no device", "end a/b"].map((search) => found({ search }).length), [1, 1, 1, 3]);
  assert.equal(podsIn([train, web]), 6);
});

test("what a change says and what it does are said once each", () => {
  const command = "kubectl -n a delete pod b && echo $&";
  assert.equal(withoutCommands(`to make it fit: end pod a/b: ${command}; then wait`, [command]), "end pod a/b; then wait");
  assert.equal(withoutCommands("write this: x", ["", "kubectl"]), "write this: x");
  assert.equal(withoutCommands("to make it start: kubectl uncordon n", ["kubectl uncordon n"]), "");
  assert.equal(withoutCommands("uncordon n; then taint n; make the pod anew", ["uncordon n", "taint n"]), "make the pod anew");
});

test("names may have no kind", () => {
  assert.deepEqual(titled("devices-in-use"), { name: "devices-in-use", of: "" });
});
