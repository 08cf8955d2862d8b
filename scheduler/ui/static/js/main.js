// The page's frame: which view is shown, where it comes from, how old it is, light or dark.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, enter, follow, isAsked, link as connection, problems, start, token } from "./answers.js";
import { Devices } from "./devices.js";
import { Overview, Warnings } from "./overview.js";
import { Pending } from "./pending.js";
import { PodPage } from "./pod.js";
import { html, link, Notes, place } from "./view.js";
import { WhatIf } from "./whatif.js";

const VIEWS = Object.freeze({ overview: Overview, pending: Pending, devices: Devices, whatif: WhatIf, warnings: Warnings, pod: PodPage });
const TITLES = Object.freeze({ overview: "Overview", pending: "Pending", devices: "Devices", whatif: "What if", warnings: "Warnings" });

/** For the overview, and for the counts that stand beside the views' names. */
const overview = follow("overview").answer;

function Frame() {
  const { view, query } = place.value;
  const [about, setAbout] = useState(/** @type {Api.About} */ ({ source: "", live: false, problems: [] }));
  useEffect(() => {
    ask("about")
      .then((reply) => reply.json())
      .then(setAbout, () => {});
  }, [token.value]);
  const theme = query.get("theme") ?? "";
  useEffect(() => {
    globalThis.document.documentElement.dataset.theme = theme;
  }, [theme]);
  const View = VIEWS[/** @type {keyof typeof VIEWS} */ (view)] ?? Overview;
  useEffect(() => {
    globalThis.document.title = `${query.get("pod") ?? TITLES[/** @type {keyof typeof TITLES} */ (view)] ?? ""} – dra-scheduler`;
  });
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header>
      <h1>dra-scheduler</h1>
      <${Views} view=${view} />
      <p class="source" title=${about.source}>${about.live ? "" : "from "}${about.source}</p>
      <p role="status" class=${about.live || connection.value === "lost" ? `link ${connection.value}` : "link"}>${said(about.live)}</p>
      <select aria-label="Theme" value=${theme} onChange=${(/** @type {{target: HTMLSelectElement}} */ event) => {
        globalThis.location.hash = link(view, { theme: event.target.value }, true);
      }}>
        <option value="">auto theme</option>
        <option value="light">light</option>
        <option value="dark">dark</option>
      </select>
    </header>
    <main id="main" tabindex="-1">
      <${Notes} title="Not seen, or not as it is" texts=${[...new Set([...about.problems, ...problems.value])]} />
      ${isAsked.value && html`<${Who} />`}
      <${View} key=${view} overview=${overview} />
    </main>
  `;
}

/** The ways to the views.
 * @param {{view: string}} props */
function Views({ view }) {
  const { value } = overview.value;
  const counts = /** @type {Record<string, number | undefined>} */ ({ pending: value?.waiting, warnings: value?.warnings_count });
  return html`<nav aria-label="Views">${Object.entries(TITLES).map(
    ([name, title]) =>
      html`<a key=${name} href=${link(name)} aria-current=${current(name, view)}>${title}${counts[name] !== undefined && html` <span class="count">${counts[name].toLocaleString("en")}</span>`}</a>`,
  )}</nav>`;
}

/** The server shows the cluster to those only whom the API server lets read /metrics. */
function Who() {
  const submit = (/** @type {Event & {target: HTMLFormElement}} */ event) => {
    event.preventDefault();
    enter(String(new FormData(event.target).get("token")).trim());
  };
  return html`<form class="who" onSubmit=${submit}>
    <p>This page is for those who may read the scheduler's metrics. Give a token, for instance of
      ${" "}<code>kubectl create token NAME</code>. It is kept until this tab is closed.</p>
    <label>Token <input name="token" type="password" autocomplete="off" required /></label> <button>Show me</button>
    <p role="alert">${isAsked.value}</p>
  </form>`;
}

/** Which entrance leads to what is shown; a pod's page is behind Pending.
 * @param {string} name @param {string} view */
function current(name, view) {
  if (view === name) return "page";
  return view === "pod" && name === "pending" ? "true" : null;
}

/** @param {boolean} isLive */
function said(isLive) {
  if (connection.value === "lost") return "connection lost, trying again";
  return isLive ? "live" : "a file: nothing changes";
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault(); // the address says which view is shown
  globalThis.document.getElementById("main")?.focus();
}

start();
const page = /** @type {HTMLElement} */ (globalThis.document.getElementById("page"));
page.replaceChildren();
render(html`<${Frame} />`, page);
