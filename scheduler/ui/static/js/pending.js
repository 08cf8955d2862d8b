// The pods that wait: whose they are, since when, each cause once with what would help; kinds as tabs with their counts.
import { useAnswer } from "./answers.js";
import { Ago, Choice, Command, counted, html, link, Notes, paged, param, Tools, Unanswered } from "./view.js";
import { BY, filtered, ORDERS, podsIn, titled, together } from "./waiting.js";

/** Of one group; the others are folded. */
const CAUSES = 5;

export function Pending() {
  const { value, error, isBusy } = useAnswer("pending");
  if (!value) return html`<${Unanswered} error=${error} asking="Asking the scheduler about the pods that wait…" />`;
  const [kind, namespace] = [param("kind"), param("namespace")];
  const rows = filtered(value.pods, { kind, namespace, search: param("q") });
  const groups = together(rows, param("by"), param("sort"));
  const { seen, links } = paged(groups);
  const count = rows.length === value.pods.length ? value.waiting : podsIn(rows);
  const oldest = groups.reduce((first, one) => (one.created && (!first || one.created < first) ? one.created : first), "");
  return html`
    <h2>${value.waiting ? counted(count, "pod waits", "pods wait") : "No pod waits"}${oldest && html` · oldest <${Ago} then=${oldest} now=${value.asOf} />`}</h2>
    ${!value.waiting && html`<p><a href=${link("whatif")}>What if</a> says whether one more would fit.</p>`}
    ${value.notAsked > 0 && html`<p>${counted(value.notAsked, "pod was", "pods were")} not asked about.</p>`}
    <nav class="tabs" aria-label="Kinds of causes">
      <a href=${link("pending", { kind: "", page: "" }, true)} aria-current=${kind ? null : "page"}>all ${podsIn(value.pods).toLocaleString("en")}</a>
      ${Object.entries(value.kinds).map(([name, count]) => html`<a key=${name} href=${link("pending", { kind: name, page: "" }, true)}
        aria-current=${kind === name ? "page" : null}>${name} ${count.toLocaleString("en")}</a>`)}
    </nav>
    <${Tools} searched="pod, owner, cause, change" isBusy=${isBusy} asOf=${value.asOf}>
      <${Choice} title="Namespace" name="namespace" first="all" options=${[...new Set(value.pods.map((row) => row.namespace))].sort()} />
      <${Choice} title="Group by" name="by" first="owner" options=${[...BY.keys()]} />
      <${Choice} title="Sort" name="sort" first="oldest" options=${[...ORDERS.keys()]} />
    <//>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${value.waiting > 0 && !rows.length && html`<p>None of them. <a href=${link("pending")}>All that wait</a></p>`}
    <ul class="pending" onKeyDown=${walk}>${seen.map((group) => html`<${Waiting} key=${group.key} group=${group} running=${value.running[group.key] ?? 0} now=${value.asOf} />`)}</ul>
    ${links}
    <${Notes} title="Left out" texts=${[...value.notes, ...value.problems, ...value.unlisted]} />
    <${Command} text=${namespace ? `dra-scheduler explain -n ${namespace}` : "dra-scheduler explain -A"} />
  `;
}

/** Of an owner the first pod's page is a click away, all others two; of a cause or a namespace its owners.
 * @param {{group: import("./waiting.js").Group, running: number, now: number}} props `running`: of an owner's other pods */
function Waiting({ group, running, now }) {
  const causes = [...group.causes.values()];
  const [first] = causes;
  const kinds = [...new Set(causes.map((cause) => cause.row.kind))];
  const inside = { [param("by") === "cause" ? "kind" : "namespace"]: group.key, by: "", page: "" };
  const to = group.of ? link("pod", { pod: first?.pods[0] ?? "" }) : link("pending", inside, true);
  return html`<li>
    <h3><a href=${to}>${group.name}</a></h3>
    <span class="of">${group.of}</span>
    <span class="count">${group.fit && group.fit < group.pods ? `${group.fit} of ${counted(group.pods, "pod")} fit` : counted(group.pods, "pod")}${running > 0 && `, ${counted(running, "other runs", "others run")}`}</span>
    <span class="since">${group.created && html`<${Ago} then=${group.created} now=${now} />`}</span>
    <span class="kinds">${kinds.filter((kind) => kind !== group.key).map((kind) => html`<span key=${kind} class="kind">${kind}</span>${" "}`)}</span>
    <div class="causes">
      ${causes.slice(0, CAUSES).map((cause) => html`<${Told} key=${cause.pods[0]} cause=${cause} group=${group} />`)}
      ${causes.length > CAUSES && html`<details><summary>${causes.length - CAUSES} more</summary>
        ${causes.slice(CAUSES).map((cause) => html`<${Told} key=${cause.pods[0]} cause=${cause} group=${group} />`)}</details>`}
    </div>
  </li>`;
}

/** One cause, with whose it is where the group does not say that, and its pods.
 * @param {{cause: import("./waiting.js").Cause, group: import("./waiting.js").Group}} props */
function Told({ cause, group }) {
  const { row, pods, isFirstLook } = cause;
  const name = row.owner === group.key ? "" : titled(row.owner).name;
  return html`
    <p>${name && html`<a href=${link("pod", { pod: pods[0] ?? "" })}>${name}</a>: `}${row.cause || (row.node ? `It would fit on node ${row.node}.` : "")}${isFirstLook && html` <i>first look</i>`}</p>
    ${row.change && html`<p class="change">${row.change}</p>`}
    ${pods.length > 1 && html`<details class="names"><summary>${pods.length === group.pods ? "its pods" : counted(pods.length, "pod")}</summary>
      ${pods.map((pod) => html`<a key=${pod} class="chip" href=${link("pod", { pod })}>${pod.split("/")[1]}</a>`)}</details>`}`;
}

/** Arrow keys go from row to row.
 * @param {KeyboardEvent} event */
function walk(event) {
  const row = event.target instanceof globalThis.Element ? event.target.closest("li") : null;
  const next = event.key === "ArrowDown" ? row?.nextElementSibling : event.key === "ArrowUp" ? row?.previousElementSibling : null;
  if (!next) return;
  event.preventDefault();
  /** @type {HTMLElement | null} */ (next.querySelector("h3 a"))?.focus();
}
