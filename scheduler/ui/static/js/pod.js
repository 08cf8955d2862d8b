// One pod: why it waits and what to do first; how its devices get fewer step by step; folded below, what else is known.
import { useAnswer } from "./answers.js";
import { Ago, Command, counted, Fresh, html, link, Notes, param, quoted, Unanswered } from "./view.js";
import { withoutCommands } from "./waiting.js";

/** @typedef {Api.PodAnswer} Pod */

export function PodPage() {
  const key = () => {
    const [namespace = "", name = ""] = param("pod").split("/");
    return { namespace, name };
  };
  const { value, error, isBusy } = useAnswer("pod", key);
  const pod = param("pod");
  if (!value) return html`<h2>Pod ${pod}</h2><${Unanswered} error=${error} asking="Asking the scheduler, and about changes…" />`;
  return html`
    <div class="subject"><h2>Pod ${pod}</h2>
      ${value.created && html`<p>${value.outcome === "bound" ? "created" : "waiting"} <${Ago} then=${value.created} now=${value.asOf} />${value.outcome === "bound" && " ago"}</p>`}</div>
    <p class=${`verdict ${value.fits ? "good" : "bad"}`}>${value.cause || value.verdict}
      ${value.kind && html` <span class="kind">${value.kind}</span>`}</p>
    ${value.siblings > 0 && html`<p>Others of its owner that wait: ${value.siblings}; that fit: ${value.siblings_fit}.</p>`}
    <${Todo} value=${value} />
    <p><${Fresh} isBusy=${isBusy} asOf=${value.asOf} />${error && html` <span class="error" role="alert">${error}</span>`}</p>
    <${Funnels} all=${value.funnels} />
    ${value.devices.length > 0 && html`<h3>Devices</h3><ul>${value.devices.map((one) => html`<li key=${`${one.claim} ${one.device}`}>
      <a href=${link("devices", { device: `${one.driver} ${one.pool} ${one.device}` })}>${one.driver}/${one.pool}/${one.device}</a>, request ${one.request} of claim ${one.claim}</li>`)}</ul>`}
    ${value.scores.length > 0 && html`<table><caption>Nodes that fit, the best first</caption>
      <thead><tr><th scope="col">Node</th><th scope="col">Score</th><th scope="col">By plugin</th></tr></thead>
      <tbody>${value.scores.map((one) => html`<tr key=${one.node}><td>${one.node}</td><td>${one.total}</td>
        <td>${Object.entries(one.plugins).map(([plugin, score]) => `${plugin} ${score}`).join(", ")}</td></tr>`)}</tbody></table>`}
    <${More} value=${value} />
    <p class="links"><a href=${link("whatif", { pod, copies: "1" })}>What if there were one more of it?</a>
      ${!value.fits && html`${" "}<a href=${link("whatif", { room: pod })}>What would have to move for it?</a>`}</p>
    <${Notes} title="Notes" texts=${[...value.notes, ...value.left_out, ...value.unlisted]} />
    <${Command} text=${`dra-scheduler explain ${quoted(key().name)} -n ${quoted(key().namespace)} -o wide`} />
  `;
}

/** The change with its command, and the other changes that help.
 * @param {{value: Pod}} props */
function Todo({ value }) {
  const { changes, command } = value;
  if (!changes.length) return html`<p class="change">${value.advice}</p>`;
  const words = withoutCommands(value.advice, command ? changes.map((step) => step.command) : []);
  return html`<section class="todo" aria-label="What helps">
    <h3>Do this</h3>
    ${words && html`<p class="change">${words}</p>`}
    ${command && html`<${Command} text=${command} />`}
    ${value.also.length > 0 && html`<ul>${value.also.map((step) => html`<li key=${step.change}>or: ${withoutCommands(step.change, [step.command])}
      ${step.command && html`<${Command} text=${step.command} />`}</li>`)}</ul>`}
  </section>`;
}

/** What the scheduler itself says, node by node and plugin by plugin, and what has happened.
 * @param {{value: Pod}} props */
function More({ value }) {
  return html`
    ${value.message && html`<details><summary>What the scheduler says</summary><p class="said">${value.message}</p></details>`}
    ${value.nodes.length > 0 && html`<details><summary>Nodes by reason (${value.nodes.length})</summary>
      <ul class="nodes">${value.nodes.map((group) => html`<li key=${`${group.plugin} ${group.reason} ${group.nodes[0]}`}>
        <b>${group.reason}</b> (${group.plugin})${group.devices.map((text) => html`<br key=${text} />${text}`)}
        <br />${group.nodes.slice(0, 3).map((node) => html`<a key=${node} class="chip" href=${link("devices", { q: node })}>${node}</a>`)}
        ${group.count > 3 && ` and ${group.count - 3} more`}</li>`)}</ul></details>
    <details><summary>The same by plugin</summary><table><caption>Nodes that each plugin refuses</caption>
      <thead><tr><th scope="col">Plugin</th><th scope="col">Nodes</th><th scope="col">Reasons</th></tr></thead>
      <tbody>${plugins(value).map(([plugin, one]) => html`<tr key=${plugin}><th scope="row">${plugin}</th><td>${one.count}</td><td>${one.reasons.map((text) => html`<p key=${text}>${text}</p>`)}</td></tr>`)}</tbody></table></details>`}
    ${value.history.length > 0 && html`<details><summary>Since its creation (${value.history.length})</summary>
      <ol class="history">${value.history.map((one) => html`<li key=${`${one.what} ${one.text}`}>
        <b>${one.what}</b> <span class="age"><${Ago} then=${one.at} now=${value.asOf} />${" "}ago${one.count > 1 && html`, ${one.count} times${one.first && html` in <${Ago} then=${one.first} now=${Date.parse(one.at)} />`}`}</span>
        <p>${one.text}</p></li>`)}</ol></details>`}
  `;
}

/** How many nodes each plugin refuses, and its reasons.
 * @param {Pod} value @returns {[string, {count: number, reasons: string[]}][]} */
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
 * @param {{all: Pod["funnels"]}} props */
function Funnels({ all }) {
  return all.map(
    (one) => html`<section key=${`${one.claim} ${one.request}`} class="funnel" aria-label=${`Devices for request ${one.request}`}>
      <h3>Request ${one.request} of claim ${one.claim}: ${one.wanted ? counted(one.wanted, "device") : "all devices"}</h3>
      <ol>
        <li><meter min="0" max="1" value="1">all</meter><b>${one.published.toLocaleString("en")}</b> published on ${counted(one.nodes, "node")}</li>
        ${one.steps.map((step) => html`<li key=${step.stage} class=${step.ends ? "ends" : ""}>
          <meter min="0" max=${one.published || 1} value=${step.left}>${step.left}</meter>
          <b>${step.left.toLocaleString("en")}</b> left: ${step.removed.toLocaleString("en")} ${step.text}${step.ends ? " – after this the best node has too few" : ""}</li>`)}
      </ol>
      <p>Nearest is node <a href=${link("devices", { q: one.node })}>${one.node}</a>: ${counted(one.node_published, "device")} published, ${one.node_left.toLocaleString("en")} left.</p></section>`,
  );
}
