// What all views share: markup, small pieces, and how the address says what is shown.
import { h } from "preact";
import { useState } from "preact/hooks";
import { computed, signal } from "@preact/signals";
import htm from "htm";

/**
 * htm keeps the constant parts of a template. Such a part refers to the first tree that it was rendered in, and from there
 * Preact's trees lead to all later ones, so a tab would keep every answer: 13 MiB in half a minute. 3 makes htm keep none.
 * @type {(this: number[], ...given: Parameters<typeof h>) => ReturnType<typeof h>}
 */
function made(...given) {
  this[0] = 3;
  return h(...given);
}

export const html = htm.bind(made);

/** The order in which states are named and drawn, each with what it means. */
export const STATES = Object.freeze({
  free: "could be given to a claim now",
  shared: "a share is used, and another could be given",
  used: "a claim has it",
  tainted: "a taint keeps claims off",
  blocked: "other partitions of its device use what it needs",
  closed: "its nodes take no pods now",
  unusable: "its pool is incomplete or invalid, or its node is not there",
});

const address = signal(globalThis.location.hash);
globalThis.addEventListener("hashchange", () => {
  address.value = globalThis.location.hash;
});

/** The view and its parameters, as the address has them. */
export const place = computed(() => {
  const [path, query] = address.value.replace(/^#\/?/, "").split("?");
  return { view: path || "overview", query: new URLSearchParams(query) };
});

/** What the address says of a parameter; empty for nothing.
 * @param {string} name */
export function param(name) {
  return place.value.query.get(name) ?? "";
}

/**
 * The address of a view with these parameters changed; empty ones are left out. The theme stays.
 * @param {string} view
 * @param {Record<string, string>} changes
 * @param {boolean} [isKept] whether the other parameters stay
 */
export function link(view, changes = {}, isKept = false) {
  const before = place.value.query;
  const query = new URLSearchParams(isKept ? before : undefined);
  if (before.get("theme")) query.set("theme", /** @type {string} */ (before.get("theme")));
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

/**
 * @param {string} view
 * @param {Record<string, string>} changes
 */
export function go(view, changes) {
  globalThis.location.hash = link(view, changes, true);
}

/** A button that copies a text.
 * @param {{text: string, label: string}} props */
export function Copy({ text, label }) {
  const [said, say] = useState("");
  const copy = () =>
    globalThis.navigator.clipboard.writeText(text).then(
      () => say("copied"),
      () => say("the browser does not allow it: mark the text"),
    );
  return html`<button type="button" onClick=${copy} aria-label=${label}>Copy</button> <span role="status">${said}</span>`;
}

/** A command that says the same in a terminal.
 * @param {{text: string}} props */
export function Command({ text }) {
  return html`<p class="command"><code>${text}</code> <${Copy} text=${text} label=${`Copy the command ${text}`} /></p>`;
}

/** @param {{texts: readonly string[], title: string}} props */
export function Notes({ texts, title }) {
  if (!texts.length) return null;
  return html`<details class="notes">
    <summary>${title} (${texts.length})</summary>
    <ul>${texts.map((text) => html`<li key=${text}>${text}</li>`)}</ul>
  </details>`;
}

/** Until there is an answer: what is asked, or why none came.
 * @param {{error: string, asking: string}} props */
export function Unanswered({ error, asking }) {
  return html`<p class=${error ? "error" : "wait"} role="status">${error || asking}</p>`;
}

/** A search, choices, and how old what is shown is. What somebody enters goes to the address.
 * @param {{searched: string, isBusy: boolean, asOf: number, children?: any}} props `searched`: what is looked through */
export function Tools({ searched, isBusy, asOf, children }) {
  return html`<form class="tools" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <label>Search <input type="search" value=${param("q")} placeholder=${searched}
      onInput=${(/** @type {any} */ event) => go(place.value.view, { q: event.target.value, page: "" })} /></label>
    ${children}
    <${Fresh} isBusy=${isBusy} asOf=${asOf} />
  </form>`;
}

/** What the address says of one parameter.
 * @param {{title: string, name: string, value?: string, first?: string, options: readonly string[], words?: Record<string, string>}} props
 *   `first`: what it is when the address says nothing; `words`: what values are called */
export function Choice({ title, name, value = param(name), first, options, words = {} }) {
  const known = first ? ["", ...options] : options;
  return html`<label>${title} <select value=${value} onChange=${(/** @type {any} */ event) => go(place.value.view, { [name]: event.target.value, page: "" })}>
    ${[...new Set([...known, value])].map((one) => html`<option key=${one} value=${one}>${one ? (words[one] ?? one) : first}</option>`)}</select></label>`;
}

const ROWS = 100;

/**
 * The rows of the page that the address names, and the links to the others.
 * @template T @param {T[]} rows @param {number} [count] of a page
 */
export function paged(rows, count = ROWS) {
  const last = Math.max(0, Math.ceil(rows.length / count) - 1);
  const page = Math.min(last, Math.max(0, Number(param("page")) || 0));
  const to = (/** @type {number} */ number) => link(place.value.view, { page: String(number) }, true);
  const links =
    last > 0 &&
    html`<nav class="pages" aria-label="Pages of the table">
      ${page > 0 && html`<a href=${to(page - 1)}>before</a>`}
      <span>page ${page + 1} of ${last + 1}</span>
      ${page < last && html`<a href=${to(page + 1)}>next</a>`}
    </nav>`;
  return { seen: rows.slice(page * count, (page + 1) * count), links };
}

/** A text for a shell, quoted where it needs to be.
 * @param {string} text */
export function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many) {
  return count === 1 ? `1 ${one}` : `${count.toLocaleString("en")} ${many ?? `${one}s`}`;
}

const UNITS = Object.freeze(/** @type {const} */ ([["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]]));

/** How long ago something was, as people say it: the largest unit that it has two of, so 100 minutes and not 1 hour.
 * @param {string | number} then as the server writes times, or milliseconds @param {number} [now] in milliseconds */
export function age(then, now = Date.now()) {
  const seconds = Math.max(0, (now - new Date(then).getTime()) / 1000);
  if (Number.isNaN(seconds)) return "";
  const [unit, length] = UNITS.find(([, length]) => seconds >= 2 * length) ?? UNITS[3];
  return `${Math.floor(seconds / length)} ${unit}`;
}

/** An age that has the exact time in it.
 * @param {{then: string | number, now?: number}} props `now`: when what is shown was so */
export function Ago({ then, now }) {
  const at = new Date(then);
  if (Number.isNaN(at.getTime())) return null;
  return html`<time datetime=${at.toISOString()} title=${at.toLocaleString("en-GB")}>${age(then, now)}</time>`;
}

/** How old what is shown is.
 * @param {{isBusy: boolean, asOf: number}} props */
export function Fresh({ isBusy, asOf }) {
  const at = new Date(asOf);
  return html`<span role="status" class="age">${isBusy ? "Refreshing…" : html`as of <time datetime=${at.toISOString()} title=${at.toLocaleString("en-GB")}>${at.toLocaleTimeString("en-GB")}</time>`}</span>`;
}

const TAKEN = Object.freeze(/** @type {const} */ (["used", "shared", "tainted", "blocked", "closed", "unusable"]));

/** How many of all are in each state that is not free. The words beside it say the same.
 * @param {{parts: Partial<Api.States>, all: number}} props */
export function Bar({ parts, all }) {
  let end = 0;
  return html`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">${TAKEN.map((state) => {
    const width = (100 * (parts[state] ?? 0)) / (all || 1);
    end += width;
    return width > 0 && html`<rect key=${state} class=${state} x=${end - width} width=${width} height="10" />`;
  })}</svg>`;
}

/** @param {number} share from 0 to 1 */
export function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}
