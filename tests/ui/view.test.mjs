import assert from "node:assert/strict";
import { test } from "node:test";
import { Ago, age, Bar, link, quoted } from "../../scheduler/ui/static/js/view.js";

const NOW = Date.parse("2026-01-02T12:00:00Z");

test("ages are in the largest unit of which there are two", () => {
  for (const [seconds, said] of [
    [0, "0 s"],
    [1.9, "1 s"],
    [119, "119 s"],
    [120, "2 min"],
    [41 * 60 + 59, "41 min"],
    [7199, "119 min"],
    [7200, "2 h"],
    [47 * 3600, "47 h"],
    [48 * 3600, "2 d"],
    [400 * 86_400, "400 d"],
  ])
    assert.equal(age(NOW - seconds * 1000, NOW), said);
});

test("an age is of a time as the server writes it, never below nothing, and nothing where there is no time", () => {
  assert.equal(age("2026-01-02T11:57:00Z", NOW), "3 min");
  assert.equal(age("2026-01-02T12:00:09Z", NOW), "0 s"); // the server's clock is ahead
  assert.equal(age("no time", NOW), "");
});

test("an age has the exact time in it", () => {
  const { props } = Ago({ then: "2026-01-02T11:57:00Z", now: NOW });
  assert.equal(props.datetime, "2026-01-02T11:57:00.000Z");
  assert.match(props.title, /02\/01\/2026/);
  assert.equal(props.children, "3 min");
  assert.equal(Ago({ then: "no time", now: NOW }), null);
});

test("an address has what is not empty, and a word for a shell is quoted where it needs to be", () => {
  assert.equal(link("pending", { kind: "devices-in-use", q: "" }), "#/pending?kind=devices-in-use");
  assert.equal(quoted("gpu-1"), "gpu-1");
  assert.equal(quoted("a b'c"), "'a b'\\''c'");
});

test("the parts of a bar stand beside each other, and what is free is left blank", () => {
  const bar = Bar({ parts: { free: 5, used: 3, tainted: 2 }, all: 10 });
  const drawn = bar.props.children.filter(Boolean).map(({ props }) => [props.class, props.x, props.width]);
  assert.deepEqual(drawn, [
    ["used", 0, 30],
    ["tainted", 30, 20],
  ]);
  assert.deepEqual(Bar({ parts: {}, all: 0 }).props.children.filter(Boolean), []);
});
