// The devices as a picture: a block for each group, a cell for each device; drawn on a canvas, only what is seen.
import { useEffect, useRef } from "preact/hooks";
import { html } from "./view.js";

/**
 * @typedef {{name: string, cells: number[]}} Group `cells`: indices of devices
 * @typedef {{x: number, y: number, group: Group}} Block
 * @typedef {{blocks: Block[], width: number, height: number, perRow: number, rowHeight: number, inRow: number}} Layout `inRow`: devices in a row of a block
 */

const GAP = 10;
const LABEL = 16;
const LABELLED_FROM = 9;

/**
 * Where each block is; all have one size, so what is seen is found by division.
 * @param {Group[]} groups
 * @param {number} cell edge of a device in pixels
 * @param {number} width of the picture
 * @returns {Layout}
 */
export function layout(groups, cell, width) {
  const most = Math.max(1, ...groups.map((group) => group.cells.length));
  const columns = Math.min(most, 8, Math.max(1, Math.floor((width - GAP) / cell)));
  const label = cell >= LABELLED_FROM ? LABEL : 0;
  const blockWidth = Math.max(columns * cell, label ? 76 : 0) + GAP;
  const blockHeight = Math.ceil(most / columns) * cell + label + GAP;
  const perRow = Math.max(1, Math.floor((width - GAP) / blockWidth));
  const blocks = groups.map((group, index) => ({
    group,
    x: GAP + (index % perRow) * blockWidth,
    y: GAP + Math.floor(index / perRow) * blockHeight,
  }));
  const height = GAP + Math.ceil(groups.length / perRow) * blockHeight;
  return { blocks, width: blockWidth, height, perRow, rowHeight: blockHeight, inRow: columns };
}

/** Which device is at a place of the picture; -1 for none.
 * @param {Layout} all @param {number} cell @param {number} x @param {number} y */
export function deviceAt(all, cell, x, y) {
  const column = Math.floor((x - GAP) / all.width);
  const block = all.blocks[Math.floor((y - GAP) / all.rowHeight) * all.perRow + column];
  if (!block || column < 0 || column >= all.perRow) return -1;
  const label = cell >= LABELLED_FROM ? LABEL : 0;
  const { inRow } = all;
  const across = Math.floor((x - block.x) / cell);
  const down = Math.floor((y - block.y - label) / cell);
  if (across < 0 || across >= inRow || down < 0) return -1;
  return block.group.cells[down * inRow + across] ?? -1;
}

/**
 * @param {{groups: Group[], cell: number, state: (device: number) => string,
 *   isShown: (device: number) => boolean, within: (device: number) => number, share: (device: number) => number, mark: (group: string) => string, selected: number,
 *   select: (device: number) => void, label: string}} props
 */
export function Grid({ groups, cell, state, isShown, within, share, mark, selected, select, label }) {
  const scrolled = useRef(/** @type {HTMLDivElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const drawn = useRef(/** @type {Layout | null} */ (null));
  const order = groups.flatMap((group) => group.cells);

  useEffect(() => {
    const box = /** @type {HTMLDivElement} */ (scrolled.current);
    const picture = /** @type {HTMLCanvasElement} */ (canvas.current);
    let waiting = 0;
    const style = globalThis.getComputedStyle(globalThis.document.documentElement);
    const dark = globalThis.matchMedia("(prefers-color-scheme: dark)");
    /** Of the theme that is on while the picture is drawn. */
    const colours = new Map();
    const colour = (/** @type {string} */ name) => {
      if (!colours.has(name)) colours.set(name, style.getPropertyValue(`--${name}`));
      return colours.get(name);
    };
    const draw = () => {
      waiting = 0;
      colours.clear();
      const scale = globalThis.devicePixelRatio || 1;
      const width = box.clientWidth;
      const all = (drawn.current = layout(groups, cell, width));
      box.style.height = `${all.height + 2}px`; // as far as the style sheet allows
      const height = box.clientHeight;
      const spacer = /** @type {HTMLDivElement} */ (box.querySelector(".spacer"));
      spacer.style.height = `${all.height}px`;
      if (picture.width !== width * scale || picture.height !== height * scale) {
        picture.width = width * scale;
        picture.height = height * scale;
        picture.style.width = `${width}px`;
        picture.style.height = `${height}px`;
      }
      const pen = /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d"));
      pen.setTransform(scale, 0, 0, scale, 0, -box.scrollTop * scale);
      pen.clearRect(0, box.scrollTop, width, height);
      paint(pen, all, box.scrollTop, height);
    };
    /** @param {CanvasRenderingContext2D} pen @param {Layout} all @param {number} top @param {number} height */
    const paint = (pen, all, top, height) => {
      const isLabelled = cell >= LABELLED_FROM;
      const { inRow } = all;
      const first = Math.max(0, Math.floor((top - GAP) / all.rowHeight)) * all.perRow;
      const last = (Math.floor((top + height) / all.rowHeight) + 1) * all.perRow;
      const edge = Math.max(1, cell - (cell > 5 ? 2 : 1));
      pen.font = "11px system-ui, sans-serif";
      for (const block of all.blocks.slice(first, last)) {
        if (isLabelled) {
          pen.fillStyle = colour("text");
          pen.fillText(`${mark(block.group.name)}${block.group.name || "no value"}`, block.x, block.y + 11, all.width - GAP);
        }
        block.group.cells.forEach((device, index) => {
          const x = block.x + (index % inRow) * cell;
          const y = block.y + Math.floor(index / inRow) * cell + (isLabelled ? LABEL : 0);
          const name = state(device);
          pen.globalAlpha = isShown(device) ? 1 : 0.12;
          pen.fillStyle = colour(name);
          pen.fillRect(x, y, edge, edge);
          // States differ in form, too, not in colour alone.
          pen.fillStyle = colour("ground");
          if (name === "shared" && cell > 5) pen.fillRect(x + 1, y + 1, edge - 2, (1 - share(device)) * (edge - 2));
          if ((name === "tainted" || name === "unusable") && cell > 5) {
            pen.fillRect(x + edge / 2 - 1, y, 2, edge);
            if (name === "unusable") pen.fillRect(x, y + edge / 2 - 1, edge, 2);
          }
          if (name === "free" && cell > 7) pen.fillRect(x + 2, y + 2, edge - 4, edge - 4);
          if (name === "blocked" && cell > 7) pen.fillRect(x + 1, y + edge - 4, edge - 2, 2);
          if (within(device) && cell > 5 && within(device) === within(block.group.cells[index + 1] ?? -1)) {
            pen.fillStyle = colour("text");
            pen.fillRect(x + edge, y + edge / 2 - 1, cell - edge, 2); // partitions of one device hang together
          }
          pen.globalAlpha = 1;
          if (device === selected) {
            pen.strokeStyle = colour("text");
            pen.lineWidth = 2;
            pen.strokeRect(x - 1, y - 1, edge + 2, edge + 2);
          }
        });
      }
    };
    const later = () => {
      waiting ||= globalThis.requestAnimationFrame(draw);
    };
    const size = new ResizeObserver(later);
    size.observe(box);
    box.addEventListener("scroll", later, { passive: true });
    dark.addEventListener("change", later);
    later();
    return () => {
      size.disconnect();
      box.removeEventListener("scroll", later);
      dark.removeEventListener("change", later);
      if (waiting) globalThis.cancelAnimationFrame(waiting);
    };
  });

  const click = (/** @type {any} */ event) => {
    const box = /** @type {HTMLDivElement} */ (scrolled.current);
    const at = box.getBoundingClientRect();
    if (!drawn.current) return;
    const device = deviceAt(drawn.current, cell, event.clientX - at.left, event.clientY - at.top + box.scrollTop);
    if (device >= 0) select(device);
  };
  const steps = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1, ArrowDown: 8, ArrowUp: -8 });
  const press = (/** @type {KeyboardEvent} */ event) => {
    const step = steps[event.key];
    if (!step || !order.length) return;
    event.preventDefault();
    const now = order.indexOf(selected);
    select(order[Math.min(order.length - 1, Math.max(0, now < 0 ? 0 : now + step))] ?? -1);
  };
  return html`<div class="grid" ref=${scrolled} tabindex="0" role="application" aria-label=${label}
      onClick=${click} onKeyDown=${press}>
    <canvas ref=${canvas} aria-hidden="true"></canvas><div class="spacer"></div>
  </div>`;
}
