// Where each device is in the picture: racks below each other, nodes in lines, in a node a column for each NUMA node or
// PCIe root, in a column devices, and physical devices with their partitions in them. Numbers only; nothing is drawn here.

/** @typedef {Api.Devices} Found */
/** @typedef {Api.PhysicalDevice} Frame */
/** @typedef {{devices: number[], frame: Frame | null}} Unit one device, or those of a physical device with the whole first */
/** @typedef {{name: string, rack: string, columns: Unit[][], devices: number[]}} Group */
/** @typedef {{group: Group, x: number, y: number, perRow: number[]}} Block `perRow`: cells in a row of each column */
/** @typedef {{y: number, height: number, title: string | null, blocks: Block[]}} Line `title`: of a rack that begins here */
/** @typedef {{device: number, x: number, y: number, width: number, height: number, isFrame: boolean}} Cell `device`: -1 for a frame that nobody can ask for */
/** @typedef {{lines: Line[], cell: number, height: number, blockWidth: number}} Layout */
/** @typedef {(device: number) => number} Rank what lies above: higher ranks; from `SOLID` on a whole device hides its partitions */

export const GAP = 10;
export const LABELLED_FROM = 9;
/** A rank from which on a whole device is in use. */
export const SOLID = 3;
const LABEL = 16;
const TITLE = 24;
const NAMES = 76;
/** More columns than these are counted in each node. */
const ALIGNED_MAX = 8;
const PER_ROW = 8;
const natural = new Intl.Collator("en", { numeric: true });

/** Texts as people order them, nothing last.
 * @param {string} one @param {string} other */
function order(one, other) {
  return Number(!one) - Number(!other) || natural.compare(one, other);
}

/** The groups in the order of the picture, by rack and name.
 * @param {Pick<Found, "texts" | "columns" | "frames" | "racks">} found @returns {Group[]} */
export function grouped({ texts, columns, frames, racks }) {
  /** @type {Map<number, Unit>} */
  const framed = new Map();
  for (const frame of frames) {
    const byPlace = frame.devices.map((_, index) => index).sort((one, other) => at(frame.places, one) - at(frame.places, other));
    const devices = [...(frame.whole < 0 ? [] : [frame.whole]), ...byPlace.map((index) => at(frame.devices, index))];
    const unit = { devices, frame };
    for (const device of devices) framed.set(device, unit);
  }
  const rackOf = new Map(Object.entries(racks));
  const nearOf = (/** @type {number} */ device) => texts[at(columns.near, device)] ?? "";
  const nears = [...new Set(columns.near)].map((one) => texts[one] ?? "").filter(Boolean).sort(order);
  /** @type {Map<number, Map<string, Unit[]>>} */
  const groups = new Map();
  const seen = new Set();
  columns.group.forEach((name, device) => {
    const unit = framed.get(device) ?? { devices: [device], frame: null };
    if (unit.frame && seen.has(unit)) return;
    seen.add(unit);
    const near = unit.devices.map(nearOf).find(Boolean) ?? "";
    const parts = groups.get(name) ?? new Map();
    groups.set(name, parts);
    const units = parts.get(near);
    if (units) units.push(unit);
    else parts.set(near, [unit]);
  });
  return [...groups]
    .map(([number, parts]) => {
      const name = texts[number] ?? "";
      const loose = parts.get("") ?? [];
      const names = nears.length > ALIGNED_MAX ? [...parts.keys()].filter(Boolean).sort(order) : nears;
      const aligned = names.some((near) => parts.has(near)) ? names.map((near) => parts.get(near) ?? []) : [];
      const units = loose.length ? [...aligned, loose] : aligned;
      return { name, rack: rackOf.get(name) ?? "", columns: units, devices: units.flat().flatMap((unit) => unit.devices) };
    })
    .sort((one, other) => order(one.rack, other.rack) || order(one.name, other.name));
}

/** How many cells a unit is wide. @param {Unit} unit */
function span({ frame }) {
  return frame ? Math.min(8, Math.max(3, Math.ceil(frame.units / 3))) : 1;
}

/**
 * Nodes of many devices have lines of their own, as wide as the picture; all others are blocks of one width.
 * @param {Group[]} groups
 * @param {number} cell edge of a device in pixels
 * @param {number} width of the picture
 * @param {boolean} [isTitled] whether racks have titles
 * @returns {Layout}
 */
export function layout(groups, cell, width, isTitled = false) {
  const room = Math.max(1, Math.floor((width - 2 * GAP) / cell));
  /** @type {number[]} */
  const shared = [1];
  const perRows = groups.map(({ columns }) => {
    const wanted = columns.map((units) => units.reduce((sum, unit) => sum + span(unit), 0));
    const widest = columns.flat().reduce((most, unit) => Math.max(most, span(unit)), 1);
    const limit = Math.min(room, PER_ROW * widest);
    if (wanted.some((one) => one > PER_ROW * limit)) return [room];
    wanted.forEach((one, column) => (shared[column] = Math.max(shared[column] ?? 1, Math.min(one, limit))));
    return shared;
  });
  const wide = shared.reduce((sum, one) => sum + one * cell + gapOf(cell), -gapOf(cell));
  if (shared.length > 1 && wide > width - 2 * GAP) return layout(groups.map(merged), cell, width, isTitled);
  const label = labelOf(cell);
  const blockWidth = Math.max(wide, label ? NAMES : 0) + GAP;
  const inLine = Math.max(1, Math.floor((width - GAP) / blockWidth));
  /** @type {Line[]} */
  const lines = [];
  groups.forEach((given, index) => {
    const perRow = perRows[index] ?? shared;
    const group = perRow === shared ? given : merged(given);
    let line = lines.at(-1);
    const isNew = isTitled && given.rack !== groups[index - 1]?.rack;
    if (!line || isNew || line.blocks.length === inLine || perRow !== shared || line.blocks[0]?.perRow !== shared) {
      line = { y: line ? line.y + line.height : GAP, height: 0, title: isNew ? group.rack || "no value" : null, blocks: [] };
      lines.push(line);
    }
    const rows = Math.max(...group.columns.map((units, column) => flow(units, at(perRow, column), () => {})));
    const top = line.title === null ? 0 : TITLE;
    line.blocks.push({ group, x: GAP + line.blocks.length * blockWidth, y: line.y + top, perRow });
    line.height = Math.max(line.height, top + label + rows * cell + GAP);
  });
  const last = lines.at(-1);
  return { lines, cell, blockWidth, height: last ? last.y + last.height : 2 * GAP };
}

/** A group where there is no room for columns. @param {Group} group */
function merged(group) {
  return { ...group, columns: [group.columns.flat()] };
}

/** The units of a column in rows; how many rows.
 * @param {Unit[]} units @param {number} perRow @param {(unit: Unit, across: number, down: number) => void} put */
function flow(units, perRow, put) {
  let across = 0;
  let down = 0;
  for (const unit of units) {
    const wide = span(unit);
    if (across > 0 && across + wide > perRow) {
      across = 0;
      down += 1;
    }
    put(unit, across, down);
    across += wide;
  }
  return down + (across > 0 ? 1 : 0);
}

/** The cells of a block, in the order in which they are drawn: what lies above is later.
 * @param {Layout} all @param {Block} block @param {Rank} rank */
export function cellsOf({ cell }, block, rank) {
  /** @type {Cell[]} */
  const cells = [];
  const inset = cell >= LABELLED_FROM ? 2 : 0;
  let left = block.x;
  block.group.columns.forEach((units, column) => {
    flow(units, at(block.perRow, column), (unit, across, down) => {
      const { frame } = unit;
      const x = left + across * cell;
      const y = block.y + labelOf(cell) + down * cell;
      if (!frame) {
        cells.push({ device: at(unit.devices, 0), x, y, width: cell, height: cell, isFrame: false });
        return;
      }
      const width = span(unit) * cell;
      const step = (width - 2 * inset) / frame.units;
      const parts = frame.devices.map((device, index) => ({
        device,
        x: x + inset + at(frame.places, index) * step,
        y: y + inset,
        width: at(frame.widths, index) * step,
        height: cell - 2 * inset,
        isFrame: false,
      }));
      parts.sort((one, other) => rank(one.device) - rank(other.device) || other.width - one.width);
      const isSolid = frame.whole >= 0 && rank(frame.whole) % 10 >= SOLID;
      const whole = { device: frame.whole, x, y, width, height: cell, isFrame: !isSolid };
      for (const one of isSolid ? [...parts, whole] : [whole, ...parts]) cells.push(one);
    });
    left += at(block.perRow, column) * cell + gapOf(cell);
  });
  return cells;
}

/** The lines of which something is between two heights. @param {Layout} all @param {number} top @param {number} bottom */
export function seenLines(all, top, bottom) {
  return all.lines.filter((line) => line.y + line.height > top && line.y < bottom);
}

/** Which device is at a place of the picture; -1 for none.
 * @param {Layout} all @param {number} x @param {number} y @param {Rank} rank */
export function deviceAt(all, x, y, rank) {
  const blocks = seenLines(all, y, y + 1)[0]?.blocks ?? [];
  const block = blocks[Math.min(blocks.length - 1, Math.floor((x - GAP) / all.blockWidth))];
  const found = block && cellsOf(all, block, rank).findLast((one) => one.device >= 0 && x >= one.x && x < one.x + one.width && y >= one.y && y < one.y + one.height);
  return found?.device ?? -1;
}

/** The cell of a device, and the number of its line. @param {Layout} all @param {number} device */
export function cellAt(all, device) {
  for (const [line, { blocks }] of all.lines.entries()) {
    const block = blocks.find(({ group }) => group.devices.includes(device));
    const cell = block && cellsOf(all, block, () => 0).find((one) => one.device === device);
    if (cell) return { ...cell, line };
  }
  return undefined;
}

/** Where an arrow key leads: right and left to the next device, down and up to the nearest one of the next row.
 * @param {Layout} all @param {number} device -1: none yet @param {string} key */
export function stepped(all, device, key) {
  const now = cellAt(all, device);
  const isForward = key === "ArrowRight" || key === "ArrowDown";
  if (!now || key === "ArrowRight" || key === "ArrowLeft") {
    const devices = all.lines.flatMap((line) => line.blocks.flatMap((block) => block.group.devices));
    return devices[now ? devices.indexOf(device) + (isForward ? 1 : -1) : 0] ?? device;
  }
  let nearest = { down: Infinity, aside: Infinity, device };
  for (const { blocks } of all.lines.slice(isForward ? now.line : Math.max(0, now.line - 1), now.line + (isForward ? 2 : 1))) {
    for (const one of blocks.flatMap((block) => cellsOf(all, block, () => 0))) {
      const down = (middle(one.y, one.height) - middle(now.y, now.height)) * (isForward ? 1 : -1);
      const aside = Math.abs(middle(one.x, one.width) - middle(now.x, now.width));
      const isNearer = down < nearest.down || (down === nearest.down && aside < nearest.aside);
      if (one.device >= 0 && down >= all.cell / 2 && isNearer) nearest = { down, aside, device: one.device };
    }
  }
  return nearest.device;
}

/** @param {number} begin @param {number} length */
function middle(begin, length) {
  return begin + length / 2;
}

/** Of a column to the next. @param {number} cell */
export function gapOf(cell) {
  return Math.max(3, Math.round(cell / 2));
}

/** Height of a block's name. @param {number} cell */
function labelOf(cell) {
  return cell >= LABELLED_FROM ? LABEL : 0;
}

/** @param {readonly number[]} numbers @param {number} index */
function at(numbers, index) {
  return numbers[index] ?? 0;
}
