import assert from "node:assert/strict";
import { test } from "node:test";
import { byCause } from "../../scheduler/ui/static/js/overview.js";
import { Bar } from "../../scheduler/ui/static/js/view.js";

const row = (kind, label, count) => ({ kind, label, namespace: "ml", name: label, names: Array(count).fill(label) });

test("causes come with their pods counted, those of most pods and their largest owners first", () => {
  const found = byCause([row("selector-unmet", "eval", 2), row("devices-in-use", "one", 1), row("devices-in-use", "train", 8)]);
  assert.deepEqual(
    found.map(({ kind, pods, rows }) => [kind, pods, rows.map((one) => one.label)]),
    [
      ["devices-in-use", 9, ["train", "one"]],
      ["selector-unmet", 2, ["eval"]],
    ],
  );
  assert.deepEqual(byCause([]), []);
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
