// The last hour: what share of each class was given out, how many pods waited, what was given out and back.
import { useAnswer } from "./devices.js";
import { counted, html, link, paged, percent, place } from "./view.js";

const WIDTH = 600;
const HEIGHT = 90;

export function PastView() {
  const { value, error } = useAnswer(() => (place.value.view === "past" ? "past" : ""));
  if (!value) return html`<p class=${error ? "error" : "wait"} role="status">${error || "Asking what was seen…"}</p>`;
  if (!value.at.length) return html`<h2>Last hour</h2><p>Nothing was seen yet. A file has no past; of a cluster the page notes a moment every ${value.everySeconds} seconds.</p>`;
  const { seen, links } = paged(value.changes);
  const since = new Date(value.at[0]).toLocaleTimeString("en-GB");
  return html`
    <h2>Last hour</h2>
    <p>Noted every ${value.everySeconds} seconds since ${since}, and kept for an hour by this page alone.</p>
    <div class="charts">
      <${Chart} title="Pods that waited" at=${value.at} lines=${{ waited: value.waiting }} text=${(/** @type {number} */ one) => String(one)} />
      ${Object.entries(value.classes).map(([name, one]) => html`<${Chart} key=${name} title=${name} at=${value.at} top=${1} text=${percent}
        lines=${{ "given out": /** @type {any} */ (one).share, "free beside used ones": /** @type {any} */ (one).scattered }} />`)}
    </div>
    ${value.longest.length > 0 && html`<h3>Who waits longest</h3><ul>${value.longest.slice(0, 10).map((/** @type {any} */ one) => html`<li key=${one.pod}>
      <a href=${link("pod", { pod: one.pod })}>${one.pod}</a>, seen since ${new Date(one.since).toLocaleTimeString("en-GB")}</li>`)}</ul>`}
    <table><caption>${counted(value.changes.length, "change")}, the newest first</caption>
      <thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Claim</th><th scope="col">Devices</th></tr></thead>
      <tbody>${seen.map((/** @type {any} */ one, /** @type {number} */ number) => html`<tr key=${`${one.at} ${one.claim} ${number}`}>
        <td><time datetime=${new Date(one.at).toISOString()}>${new Date(one.at).toLocaleTimeString("en-GB")}</time></td><td>${one.what}</td><th scope="row">${one.claim}</th>
        <td>${one.devices.join(", ")}${one.more > 0 ? ` and ${one.more} more` : ""}</td></tr>`)}</tbody></table>
    ${links}
  `;
}

/** Lines over time, and their last, least and most in words.
 * @param {{title: string, at: number[], lines: Record<string, (number | null)[]>, top?: number, text: (value: number) => string}} props */
function Chart({ title, at, lines, top, text }) {
  const all = Object.values(lines).flat().filter((one) => one !== null);
  const most = top ?? Math.max(1, ...all);
  const [first = 0, last = 1] = [at[0], at.at(-1)];
  const x = (/** @type {number} */ moment) => (last > first ? ((moment - first) / (last - first)) * WIDTH : 0);
  const points = (/** @type {(number | null)[]} */ values) =>
    values.flatMap((one, index) => (one === null ? [] : [`${x(at[index] ?? first).toFixed(1)},${(HEIGHT - (one / most) * (HEIGHT - 4) - 2).toFixed(1)}`]));
  const words = Object.entries(lines).map(([name, values]) => {
    const there = values.filter((one) => one !== null);
    return there.length ? `${name}: ${text(there.at(-1) ?? 0)} now, ${text(Math.min(...there))} to ${text(Math.max(...there))}` : `${name}: nothing`;
  });
  return html`<figure>
    <figcaption><b>${title}</b> ${words.map((one, index) => html`<span key=${one} class=${`line${index}`}>${one}</span> `)}</figcaption>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      ${Object.values(lines).map((values, index) => html`<polyline key=${index} class=${`line${index}`} points=${points(values).join(" ")} />`)}
    </svg></figure>`;
}
