// The devices as a picture, drawn on a canvas: only what is seen. Where each is says `layout`.
import { useEffect, useRef } from "preact/hooks";
import { cellAt, cellsOf, deviceAt, GAP, gapOf, LABELLED_FROM, layout, seenLines, SOLID, stepped } from "./layout.js";
import { html } from "./view.js";

/** @typedef {import("./layout.js").Cell} Cell */
/** @typedef {import("./layout.js").Layout} Layout */
/**
 * @typedef {{state: (device: number) => string, isShown: (device: number) => boolean, share: (device: number) => number,
 *   mark: (group: string) => string, told: (device: number) => string}} Look `share` from 0 to 1; `told` when one points at it
 */

/** What lies above where partitions overlap: those in use, then those that could be given. */
const RANKS = Object.freeze(/** @type {Record<string, number>} */ ({ blocked: 0, free: 2, shared: SOLID, used: SOLID }));

/**
 * @param {{groups: import("./layout.js").Group[], cell: number, isTitled: boolean, look: Look, selected: number,
 *   select: (device: number) => void, label: string}} props
 */
export function Grid({ groups, cell, isTitled, look, selected, select, label }) {
  const scrolled = useRef(/** @type {HTMLDivElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const drawn = useRef(/** @type {{all: Layout, of: unknown[]} | null} */ (null));
  const seen = useRef(-1);
  const chosen = useRef(selected); // before it is drawn, too: keys come faster than that
  chosen.current = selected;
  const rank = (/** @type {number} */ device) => (RANKS[look.state(device)] ?? 1) + (look.isShown(device) ? 10 : 0);

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
      const of = [groups, cell, width, isTitled];
      if (!drawn.current?.of.every((one, index) => one === of[index])) drawn.current = { all: layout(groups, cell, width, isTitled), of };
      const { all } = drawn.current;
      box.style.height = `${all.height + 2}px`; // as far as the style sheet allows
      const height = box.clientHeight;
      const spacer = /** @type {HTMLDivElement} */ (box.querySelector(".spacer"));
      spacer.style.height = `${all.height}px`;
      if (selected !== seen.current) reveal(box, cellAt(all, selected));
      seen.current = selected;
      if (picture.width !== width * scale || picture.height !== height * scale) {
        picture.width = width * scale;
        picture.height = height * scale;
        picture.style.width = `${width}px`;
        picture.style.height = `${height}px`;
      }
      const pen = /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d"));
      pen.setTransform(scale, 0, 0, scale, 0, -box.scrollTop * scale);
      pen.clearRect(0, box.scrollTop, width, height);
      for (const line of seenLines(all, box.scrollTop, box.scrollTop + height)) paint(pen, all, line);
    };
    /** @param {CanvasRenderingContext2D} pen @param {Layout} all @param {import("./layout.js").Line} line */
    const paint = (pen, all, line) => {
      pen.fillStyle = colour("text");
      if (line.title !== null) {
        pen.font = "bold 13px system-ui, sans-serif";
        pen.fillText(line.title, GAP, line.y + 14);
      }
      pen.font = "11px system-ui, sans-serif";
      for (const block of line.blocks) {
        const { name } = block.group;
        pen.fillStyle = colour("text");
        if (cell >= LABELLED_FROM) pen.fillText(`${look.mark(name)}${name || "no value"}`, block.x, block.y + 11, all.blockWidth - GAP);
        let left = block.x;
        for (const one of block.perRow.slice(0, block.group.columns.length - 1)) {
          left += one * cell + gapOf(cell);
          pen.fillStyle = colour("line");
          pen.fillRect(left - Math.ceil(gapOf(cell) / 2) - 1, block.y + (cell >= LABELLED_FROM ? 16 : 0), 1, cell - 2);
        }
        const cells = cellsOf(all, block, rank);
        for (const one of cells) {
          const state = one.device < 0 ? "" : look.state(one.device);
          pen.globalAlpha = one.device < 0 || look.isShown(one.device) ? 1 : 0.12;
          if (one.isFrame) outline(pen, one, colour(state || "soft"), 1);
          else fill(pen, one, state, colour, look.share(one.device));
        }
        pen.globalAlpha = 1;
        const one = cells.find(({ device }) => device >= 0 && device === selected);
        if (one) outline(pen, { ...one, x: one.x - 2, y: one.y - 2, width: one.width + 4, height: one.height + 4 }, colour("text"), 2);
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

  /** @param {any} event */
  const pointed = (event) => {
    const box = /** @type {HTMLDivElement} */ (scrolled.current);
    const at = box.getBoundingClientRect();
    return drawn.current ? deviceAt(drawn.current.all, event.clientX - at.left, event.clientY - at.top + box.scrollTop, rank) : -1;
  };
  const click = (/** @type {any} */ event) => {
    const device = pointed(event);
    if (device >= 0) select(device);
  };
  const move = (/** @type {any} */ event) => {
    const device = pointed(event);
    event.currentTarget.title = device < 0 ? "" : look.told(device);
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (!event.key.startsWith("Arrow") || !drawn.current) return;
    event.preventDefault();
    chosen.current = stepped(drawn.current.all, chosen.current, event.key);
    if (chosen.current >= 0) select(chosen.current);
  };
  return html`<div class="grid" ref=${scrolled} tabindex="0" role="application" aria-label=${label}
      onClick=${click} onMouseMove=${move} onKeyDown=${press}>
    <canvas ref=${canvas} aria-hidden="true"></canvas><div class="spacer"></div>
  </div>`;
}

/** Scroll so far that a cell is seen. @param {HTMLElement} box @param {Cell | undefined} cell */
function reveal(box, cell) {
  if (cell && (cell.y < box.scrollTop || cell.y + cell.height > box.scrollTop + box.clientHeight)) {
    box.scrollTop = cell.y - box.clientHeight / 2;
  }
}

/** @param {CanvasRenderingContext2D} pen @param {Cell} cell @param {string} colour @param {number} thick */
function outline(pen, { x, y, width, height }, colour, thick) {
  pen.strokeStyle = colour;
  pen.lineWidth = thick;
  pen.strokeRect(x + 0.5, y + 0.5, width - 3, height - 3);
}

/** States differ in form, too, not in colour alone.
 * @param {CanvasRenderingContext2D} pen @param {Cell} cell @param {string} state @param {(name: string) => string} colour @param {number} share */
function fill(pen, { x, y, width, height }, state, colour, share) {
  const wide = Math.max(1, width - (width < 6 ? 1 : 2));
  const high = Math.max(1, height - (height < 6 ? 1 : 2));
  pen.fillStyle = colour(state);
  pen.fillRect(x, y, wide, high);
  pen.fillStyle = colour("ground");
  if (wide < 3 || high < 4) return;
  const rim = Math.min(wide, high) > 6 ? 2 : 1;
  if (state === "shared") pen.fillRect(x + 1, y + 1, wide - 2, (1 - share) * (high - 2));
  if (state === "tainted" || state === "unusable") pen.fillRect(x + wide / 2 - 1, y, 2, high);
  if (state === "unusable") pen.fillRect(x, y + high / 2 - 1, wide, 2);
  if (state === "free" && high > 5) pen.fillRect(x + rim, y + rim, wide - 2 * rim, high - 2 * rim);
  if (state === "blocked" && high > 5) pen.fillRect(x + 1, y + high - 4, wide - 2, 2);
}
