import assert from "node:assert/strict";
import { test } from "node:test";
import { cellAt, cellsOf, deviceAt, GAP, grouped, layout, seenLines, SOLID, stepped } from "../../scheduler/ui/static/js/layout.js";

/** An answer about devices, each a node and what it is near to. */
function found(rows, frames = [], racks = {}) {
  const texts = [...new Set(rows.flat())];
  const column = (number) => rows.map((row) => texts.indexOf(row[number] ?? ""));
  return { texts: texts.includes("") ? texts : [...texts, ""], columns: { group: column(0), near: column(1) }, frames, racks };
}
const rows = (node, count, near = "") => Array.from({ length: count }, () => [node, near]);
const MIG = { units: 8, whole: 0, devices: [1, 2, 3], places: [4, 0, 0], widths: [4, 1, 4] };
const flat = () => 0;
const block = (all, line = 0, number = 0) => all.lines[line].blocks[number];

test("nodes are in the order of their numbers, by rack, and those without a rack come last", () => {
  const groups = grouped(found([...rows("n10", 1), ...rows("n9", 1), ...rows("n1", 1), ...rows("n2", 1)], [], { n10: "b", n9: "a", n1: "b" }));
  assert.deepEqual(groups.map(({ name, rack }) => [name, rack]), [["n9", "a"], ["n1", "b"], ["n10", "b"], ["n2", ""]]);
});

test("a physical device is one unit, with the whole first and partitions by place", () => {
  const [group] = grouped(found(rows("n", 5), [MIG]));
  assert.deepEqual(group.columns.map((units) => units.map((unit) => unit.devices)), [[[0, 2, 3, 1], [4]]]);
  assert.deepEqual(group.devices, [0, 2, 3, 1, 4]);
});

test("NUMA nodes are columns that stand below each other; many PCIe roots are counted within the node", () => {
  const few = grouped(found([["a", "1"], ["a", "0"], ["b", "1"], ["b", ""]]));
  assert.deepEqual(few.map(({ columns }) => columns.map((units) => units.length)), [[1, 1], [0, 1, 1]]);
  const many = grouped(found(Array.from({ length: 20 }, (_, number) => [number < 10 ? "a" : "b", `root-${number}`])));
  assert.deepEqual(many.map(({ columns }) => columns.length), [10, 10]);
});

test("a node without NUMA nodes is no column wider for it", () => {
  const groups = grouped(found([...rows("a", 1, "0"), ...rows("a", 1, "1"), ...rows("b", 1)]));
  assert.deepEqual(groups.map(({ columns }) => columns.length), [2, 1]);
});

test("a partition says where its frame is near to", () => {
  const [group] = grouped(found([["n", ""], ["n", ""], ["n", "1"], ["n", ""], ["n", "0"]], [MIG]));
  assert.deepEqual(group.columns.map((units) => units.flatMap((unit) => unit.devices)), [[4], [0, 2, 3, 1]]);
});

test("every device is found where it is drawn, and nothing beside it", () => {
  for (const width of [60, 390, 1280])
    for (const cell of [4, 6, 9, 14, 22]) {
      const groups = grouped(found([...rows("a", 5, "0"), ...rows("a", 3, "1"), ...rows("b", 200), ...rows("c", 1), ...rows("d", 2)], [MIG], { a: "r" }));
      const all = layout(groups, cell, width, true);
      const places = all.lines.flatMap((line) => line.blocks.flatMap((one) => cellsOf(all, one, flat)));
      assert.deepEqual(places.map((one) => one.device).sort((one, other) => one - other), Array.from({ length: 211 }, (_, number) => number));
      for (const one of places) {
        const top = places.findLast((each) => one.x + 0.1 >= each.x && one.x + 0.1 < each.x + each.width && one.y + 0.1 >= each.y && one.y + 0.1 < each.y + each.height);
        assert.equal(deviceAt(all, one.x + 0.1, one.y + 0.1, flat), top.device);
        assert.ok(one.y + one.height <= all.height);
      }
      assert.equal(deviceAt(all, GAP - 1, GAP + 30, flat), -1);
      assert.equal(deviceAt(all, GAP + 1, all.height + 1, flat), -1);
    }
});

test("blocks fit into the picture", () => {
  const groups = grouped(found([...rows("a", 8, "0"), ...rows("a", 8, "1"), ...rows("b", 4, "0")]));
  for (const width of [200, 390, 1280]) {
    const all = layout(groups, 14, width);
    const places = all.lines.flatMap((line) => line.blocks.flatMap((one) => cellsOf(all, one, flat)));
    assert.ok(places.every((one) => one.x + one.width <= width - GAP / 2), `${width}`);
  }
});

test("a node with many devices makes only its own line tall", () => {
  const all = layout(grouped(found([...rows("a", 8), ...rows("b", 8), ...rows("z", 900)])), 14, 240);
  const [first, ...others] = all.lines;
  assert.equal(first.blocks.length, 1);
  assert.ok(first.height < 60);
  assert.ok(others.at(-1).height > 400);
  assert.deepEqual(layout(grouped(found([...rows("a", 8), ...rows("b", 8), ...rows("z", 900)])), 14, 600).lines.map(({ blocks }) => blocks.length), [2, 1]);
  assert.deepEqual(seenLines(all, 0, first.y + 1), [first]);
});

test("a rack begins a line, and has a title", () => {
  const groups = grouped(found([...rows("a", 1), ...rows("b", 1), ...rows("c", 1)], [], { a: "r1", b: "r2" }));
  assert.deepEqual(layout(groups, 14, 1280, true).lines.map(({ title, blocks }) => [title, blocks.length]), [["r1", 1], ["r2", 1], ["no value", 1]]);
  assert.deepEqual(layout(groups, 14, 1280).lines.map(({ title, blocks }) => [title, blocks.length]), [[null, 3]]);
});

test("partitions in use lie above those that are free, narrow ones above wide ones, and a whole in use above all", () => {
  const all = layout(grouped(found(rows("n", 4), [MIG])), 14, 390);
  const drawn = (ranks) => cellsOf(all, block(all), (device) => ranks[device] ?? 0).map((one) => one.device);
  assert.deepEqual(drawn([0, 2, 2, 2]), [0, 1, 3, 2]);
  assert.deepEqual(drawn([0, 2, SOLID, 0]), [0, 3, 1, 2]);
  assert.deepEqual(drawn([SOLID, 0, 0, 0]), [1, 3, 2, 0]);
  const [frame, , three, one] = cellsOf(all, block(all), flat);
  assert.ok(frame.isFrame);
  assert.equal(one.width * 4, three.width);
  assert.equal(one.x, three.x);
});

test("arrow keys go to the next device, and to the one below by the rows of the picture", () => {
  const all = layout(grouped(found([...rows("a", 12), ...rows("b", 3)])), 14, 390);
  const [first, second] = block(all).group.devices;
  assert.equal(stepped(all, -1, "ArrowDown"), first);
  assert.equal(stepped(all, first, "ArrowRight"), second);
  assert.equal(stepped(all, first, "ArrowLeft"), first);
  assert.equal(stepped(all, 0, "ArrowDown"), 8);
  assert.equal(stepped(all, 8, "ArrowUp"), 0);
  assert.equal(stepped(all, 7, "ArrowDown"), 11, "the nearest where the row below is shorter");
  assert.equal(stepped(all, 11, "ArrowRight"), 12);
  assert.equal(stepped(all, 14, "ArrowRight"), 14);
});

test("down leads into the next line, over a title too", () => {
  const all = layout(grouped(found([...rows("a", 3), ...rows("b", 3)], [], { a: "r1", b: "r2" })), 14, 390, true);
  assert.equal(stepped(all, 1, "ArrowDown"), 4);
  assert.equal(stepped(all, 4, "ArrowUp"), 1);
  assert.equal(stepped(all, 4, "ArrowDown"), 4);
  assert.equal(cellAt(all, 4).line, 1);
});

test("nothing is drawn of nothing", () => {
  const all = layout(grouped(found([])), 14, 390);
  assert.deepEqual([all.lines, deviceAt(all, 20, 20, flat), stepped(all, -1, "ArrowRight"), cellAt(all, 0)], [[], -1, -1, undefined]);
});
