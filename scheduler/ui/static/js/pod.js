// One pod: why it waits and what would help, how its devices get fewer step by step, which nodes refuse it and why.
import { useAnswer } from "./devices.js";
import { Command, counted, html, link, Notes, place, quoted } from "./view.js";

export function PodPage() {
  const { value, error, isBusy } = useAnswer(() => {
    const { view, query } = place.value;
    const [namespace = "", name = ""] = (query.get("pod") ?? "").split("/");
    return view === "pod" && name ? `pod?${new URLSearchParams({ namespace, name })}` : "";
  });
  const pod = place.value.query.get("pod") ?? "";
  if (!value) {
    return html`<h2>Pod ${pod}</h2><p class=${error ? "error" : "wait"} role="status">${error || "Asking the scheduler, and about changes…"}</p>`;
  }
  const [namespace = "", name = ""] = pod.split("/");
  return html`
    <h2>Pod ${pod}</h2>
    <p class=${`verdict ${value.fits ? "good" : "bad"}`}>${value.cause || value.verdict}
      ${value.kind && html` <span class="kind">${value.kind}</span>`}</p>
    <p class="change">${value.advice}</p>
    ${value.command && html`<${Command} text=${value.command} />`}
    ${value.also.length > 0 && html`<h3>Or</h3><ul>${value.also.map((/** @type {any} */ step) => html`<li key=${step.change}>${step.change}</li>`)}</ul>`}
    ${value.message && html`<p class="said">The scheduler says: ${value.message}</p>`}
    <p role="status" class="age">${isBusy ? "asking anew…" : `as of ${new Date(value.asOf).toLocaleTimeString("en-GB")}`}${error && ` – ${error}`}</p>
    <${Funnels} all=${value.funnels} />
    ${value.devices.length > 0 && html`<h3>Devices</h3><ul>${value.devices.map((/** @type {any} */ one) => html`<li key=${`${one.claim} ${one.device}`}>
      <a href=${link("devices", { device: `${one.driver} ${one.pool} ${one.device}` })}>${one.driver}/${one.pool}/${one.device}</a>, request ${one.request} of claim ${one.claim}</li>`)}</ul>`}
    ${value.nodes.length > 0 && html`<table><caption>Nodes by reason</caption>
      <thead><tr><th scope="col">Nodes</th><th scope="col">Plugin</th><th scope="col">Why</th></tr></thead>
      <tbody>${value.nodes.map((/** @type {any} */ group) => html`<tr key=${`${group.plugin} ${group.reason} ${group.nodes[0]}`}>
        <td>${group.nodes.slice(0, 3).map((/** @type {string} */ node) => html`<a key=${node} class="chip" href=${link("devices", { q: node })}>${node}</a>`)}
          ${group.count > 3 && ` and ${group.count - 3} more`}</td>
        <td>${group.plugin}</td><td>${group.reason}${group.devices.map((/** @type {string} */ text) => html`<br key=${text} />${text}`)}</td></tr>`)}</tbody></table>`}
    ${value.scores.length > 0 && html`<table><caption>Nodes that fit, the best first</caption>
      <thead><tr><th scope="col">Node</th><th scope="col">Score</th><th scope="col">By plugin</th></tr></thead>
      <tbody>${value.scores.map((/** @type {any} */ one) => html`<tr key=${one.node}><td>${one.node}</td><td>${one.total}</td>
        <td>${Object.entries(one.plugins).map(([plugin, score]) => `${plugin} ${score}`).join(", ")}</td></tr>`)}</tbody></table>`}
    ${plugins(value).length > 0 && html`<details><summary>The same by plugin</summary><table><caption>Nodes that each plugin refuses</caption>
      <thead><tr><th scope="col">Plugin</th><th scope="col">Nodes</th><th scope="col">Reasons</th></tr></thead>
      <tbody>${plugins(value).map(([plugin, one]) => html`<tr key=${plugin}><th scope="row">${plugin}</th><td>${one.count}</td><td>${one.reasons.map((text) => html`<p key=${text}>${text}</p>`)}</td></tr>`)}</tbody></table></details>`}
    ${value.history.length > 0 && html`<table class="history"><caption>Since its creation</caption>
      <thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">About</th></tr></thead>
      <tbody>${value.history.map((/** @type {any} */ one, /** @type {number} */ number) => html`<tr key=${number}>
        <td><time datetime=${one.at}>${new Date(one.at).toLocaleString("en-GB")}</time></td><td>${one.what}</td><td>${one.text}</td></tr>`)}</tbody></table>`}
    <p class="links"><a href=${link("whatif", { pod, copies: "1" })}>What if there were one more of it?</a>
      ${!value.fits && html`${" "}<a href=${link("whatif", { room: pod })}>What would have to move for it?</a>`}</p>
    <${Notes} title="Notes" texts=${[...value.notes, ...value.left_out, ...value.unlisted]} />
    <${Command} text=${`dra-scheduler explain ${quoted(name)} -n ${quoted(namespace)} -o wide`} />
  `;
}

/** How many nodes each plugin refuses, and its reasons.
 * @param {any} value @returns {[string, {count: number, reasons: string[]}][]} */
function plugins(value) {
  /** @type {Map<string, {count: number, reasons: string[]}>} */
  const found = new Map();
  for (const group of value.nodes) {
    const one = found.get(group.plugin) ?? { count: 0, reasons: [] };
    found.set(group.plugin, { count: one.count + group.count, reasons: [...new Set([...one.reasons, group.reason])] });
  }
  return [...found];
}

/** How many devices each step leaves of what is published, on all nodes that were asked.
 * @param {{all: any[]}} props */
function Funnels({ all }) {
  return all.map(
    (one) => html`<section key=${`${one.claim} ${one.request}`} class="funnel" aria-label=${`Devices for request ${one.request}`}>
      <h3>Request ${one.request} of claim ${one.claim}: ${one.wanted ? counted(one.wanted, "device") : "all devices"}</h3>
      <ol>
        <li><meter min="0" max="1" value="1">all</meter><b>${one.published.toLocaleString("en")}</b> published on ${counted(one.nodes, "node")}</li>
        ${one.steps.map((/** @type {any} */ step) => html`<li key=${step.stage} class=${step.ends ? "ends" : ""}>
          <meter min="0" max=${one.published || 1} value=${step.left}>${step.left}</meter>
          <b>${step.left.toLocaleString("en")}</b> left: ${step.removed.toLocaleString("en")} ${step.text}${step.ends ? " – this is where too few are left" : ""}</li>`)}
      </ol>
      <p>Nearest is node <a href=${link("devices", { q: one.node })}>${one.node}</a>: ${counted(one.node_published, "device")} published, ${one.node_left.toLocaleString("en")} left.</p></section>`,
  );
}
