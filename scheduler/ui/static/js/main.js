// The page's frame: which view is shown, where it comes from, how old it is, light or dark.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { link as connection, problems, start } from "./answers.js";
import { Devices } from "./devices.js";
import { PastView } from "./past.js";
import { Pending } from "./pending.js";
import { PodPage } from "./pod.js";
import { html, link, Notes, place } from "./view.js";
import { WhatIf } from "./whatif.js";

const VIEWS = Object.freeze({ devices: Devices, pending: Pending, pod: PodPage, whatif: WhatIf, past: PastView });
const TITLES = Object.freeze({ devices: "Devices", pending: "Pending", whatif: "What if", past: "Last hour" });

function Frame() {
  const { view, query } = place.value;
  const [about, setAbout] = useState({ source: "", live: false, problems: /** @type {string[]} */ ([]) });
  useEffect(() => {
    fetch("/api/about")
      .then((reply) => reply.json())
      .then(setAbout, () => {});
  }, []);
  const theme = query.get("theme") ?? "";
  useEffect(() => {
    globalThis.document.documentElement.dataset.theme = theme;
  }, [theme]);
  const View = VIEWS[/** @type {keyof typeof VIEWS} */ (view)] ?? Devices;
  useEffect(() => {
    globalThis.document.title = `${query.get("pod") ?? TITLES[/** @type {keyof typeof TITLES} */ (view)] ?? ""} – dra-scheduler`;
  });
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header>
      <h1>dra-scheduler</h1>
      <nav aria-label="Views">
        ${Object.entries(TITLES).map(
          ([name, title]) =>
            html`<a key=${name} href=${link(name)} aria-current=${view === name ? "page" : null}>${title}</a>`,
        )}
      </nav>
      <p class="source" title=${about.source}>${about.live ? "" : "from "}${about.source}</p>
      <p role="status" class=${about.live || connection.value === "lost" ? `link ${connection.value}` : "link"}>${said(about.live)}</p>
      <label>Theme${" "}
        <select value=${theme} onChange=${(/** @type {any} */ event) => {
          globalThis.location.hash = link(view, { theme: event.target.value }, true);
        }}>
          <option value="">as the system</option>
          <option value="light">light</option>
          <option value="dark">dark</option>
        </select>
      </label>
    </header>
    <main id="main" tabindex="-1">
      <${Notes} title="Not seen, or not as it is" texts=${[...new Set([...about.problems, ...problems.value])]} />
      <${View} key=${view} />
    </main>
  `;
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
