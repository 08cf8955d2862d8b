// The pods that wait: a row each, with its cause and what would help; kinds as tabs with their counts.
import { useAnswer } from "./devices.js";
import { Command, counted, go, html, link, Notes, paged, place } from "./view.js";

export function Pending() {
  const { value, error, isBusy } = useAnswer(() => (place.value.view === "pending" ? "pending" : ""));
  if (!value) return html`<p class=${error ? "error" : "wait"} role="status">${error || "Asking the scheduler about the pods that wait…"}</p>`;
  const { query } = place.value;
  const kind = query.get("kind") ?? "";
  const search = (query.get("q") ?? "").toLowerCase();
  const namespace = query.get("namespace") ?? "";
  const namespaces = [...new Set(value.pods.map((/** @type {any} */ pod) => pod.namespace))].sort();
  const rows = value.pods.filter(
    (/** @type {any} */ pod) =>
      (!kind || pod.kind === kind) &&
      (!namespace || pod.namespace === namespace) &&
      (!search || `${pod.namespace}/${pod.names.join(" ")} ${pod.label} ${pod.cause} ${pod.change}`.toLowerCase().includes(search)),
  );
  const { seen, links } = paged(rows);
  return html`
    <p class="sentence">${value.waiting ? `${counted(value.waiting, "pod waits", "pods wait")}.` : "No pod waits."}
      ${value.notAsked > 0 && ` ${counted(value.notAsked, "pod was", "pods were")} not asked about.`}</p>
    <nav class="tabs" aria-label="Kinds of causes">
      <a href=${link("pending", { kind: "", page: "" }, true)} aria-current=${kind ? null : "page"}>all ${podsIn(value.pods)}</a>
      ${Object.entries(value.kinds).map(([name, count]) => html`<a key=${name} href=${link("pending", { kind: name, page: "" }, true)}
        aria-current=${kind === name ? "page" : null}>${name} ${count}</a>`)}
    </nav>
    <form class="tools" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label>Search <input type="search" value=${query.get("q") ?? ""} placeholder="pod, cause, change"
        onInput=${(/** @type {any} */ event) => go("pending", { q: event.target.value, page: "" })} /></label>
      <label>Namespace <select value=${namespace} onChange=${(/** @type {any} */ event) => go("pending", { namespace: event.target.value, page: "" })}>
        <option value="">all</option>${namespaces.map((name) => html`<option key=${name}>${name}</option>`)}
      </select></label>
      <span role="status" class="age">${isBusy ? "asking anew…" : `as of ${new Date(value.asOf).toLocaleTimeString("en-GB")}`}</span>
    </form>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    <table class="pending">
      <caption>${counted(podsIn(rows), "pod that waits", "pods that wait")}${kind ? ` because of ${kind}` : ""}</caption>
      <thead><tr><th scope="col">Pod</th><th scope="col">Kind</th><th scope="col">Cause, and what would help</th></tr></thead>
      <tbody>${seen.map((/** @type {any} */ pod) => html`<tr key=${`${pod.namespace}/${pod.name}`}>
        <th scope="row"><a href=${link("pod", { pod: `${pod.namespace}/${pod.name}` })}>${pod.label}</a></th>
        <td><span class="kind">${pod.kind}</span>${pod.firstLook && " first look"}</td>
        <td><p>${pod.cause || (pod.node ? `It would fit on node ${pod.node}.` : "")}</p>${pod.change && html`<p class="change">${pod.change}</p>`}</td></tr>`)}
      </tbody>
    </table>
    ${links}
    <${Notes} title="Left out" texts=${[...value.notes, ...value.problems, ...value.unlisted]} />
    <${Command} text=${namespace ? `dra-scheduler explain -n ${namespace}` : "dra-scheduler explain -A"} />
  `;
}

/** How many pods rows stand for.
 * @param {any[]} rows */
function podsIn(rows) {
  return rows.reduce((sum, row) => sum + row.names.length, 0);
}
