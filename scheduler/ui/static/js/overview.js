// The cluster in short, and what is wrong with it: each number leads to the view that has the rest.
import { useAnswer } from "./answers.js";
import { Ago, Bar, Command, counted, Fresh, html, link, Notes, Unanswered } from "./view.js";
import { together } from "./waiting.js";

/**
 * @typedef {Api.Overview} Found
 * @typedef {Api.Finding} Finding
 * @typedef {import("./answers.js").Answer<Api.Pending>} Waits
 * @typedef {import("@preact/signals").Signal<import("./answers.js").Answer<Found>>} Asked
 */

const WARNINGS = 5;
const OWNERS = 3;

/** @param {{overview: Asked}} props */
export function Overview({ overview }) {
  // Why pods wait takes longer than all else, so it comes when it is there.
  const waiting = useAnswer("pending");
  const { value, error, isBusy } = overview.value;
  if (!value) return html`<h2 class="unseen">Overview</h2><${Unanswered} error=${error} asking="Asking which devices there are…" />`;
  return html`
    <h2 class="unseen">Overview</h2>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    <div class="cards">
      <${Waiting} found=${value} asked=${waiting} />
      <${Free} found=${value} />
      <${Held} found=${value} />
      <section class="card" aria-labelledby="wrong">
        <h3 id="wrong"><a href=${link("warnings")}>Warnings</a></h3>
        <p class="number">${value.warnings_count.toLocaleString("en")}</p>
        ${value.warnings_count ? html`<${Findings} all=${value.warnings.slice(0, WARNINGS)} now=${value.asOf} />` : html`<p>Nothing wrong is seen.</p>`}
        ${value.warnings_count > WARNINGS && html`<p><a href=${link("warnings")}>All ${counted(value.warnings_count, "warning")}</a></p>`}
      </section>
    </div>
    <p><${Fresh} isBusy=${isBusy} asOf=${value.asOf} /></p>
    <${Command} text="dra-scheduler devices" />
  `;
}

/** What is wrong, what is of note, and what the list of devices says beside.
 * @param {{overview: Asked}} props */
export function Warnings({ overview }) {
  const { value, error, isBusy } = overview.value;
  if (!value) return html`<h2>Warnings</h2><${Unanswered} error=${error} asking="Asking which devices there are…" />`;
  const left = value.warnings_count - value.warnings.length;
  return html`
    <h2>${value.warnings_count ? counted(value.warnings_count, "warning") : "Nothing wrong is seen"}</h2>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    <${Findings} all=${value.warnings} now=${value.asOf} />
    ${left > 0 && html`<p>and ${left.toLocaleString("en")} more</p>`}
    ${value.remarks.length > 0 && html`<h3>Of note</h3><${Findings} all=${value.remarks} now=${value.asOf} />`}
    <${Notes} title="Notes" texts=${value.notes} />
    <p><${Fresh} isBusy=${isBusy} asOf=${value.asOf} /></p>
    <${Command} text="dra-scheduler devices -o wide" />
  `;
}

/** @param {{all: Finding[], now: number}} props */
function Findings({ all, now }) {
  return html`<ul class="findings">${all.map(
    (one) => html`<li key=${`${one.kind} ${one.text}`}><p>${one.text}${one.since && html` <span class="age">for <${Ago} then=${one.since} now=${now} /></span>`}</p>
      <p><span class="kind">${one.kind}</span>${one.devices.map((device) => html` <a key=${device} class="chip" href=${link("devices", { device })}>${device.split(" ").slice(1).join("/")}</a>`)}
        ${one.devices.length < one.count && one.devices.length > 0 && ` and ${one.count - one.devices.length} more`}</p></li>`,
  )}</ul>`;
}

/** How many pods wait, how long, and for what.
 * @param {{found: Found, asked: Waits}} props */
function Waiting({ found, asked: { value, error } }) {
  const count = value?.waiting ?? found.waiting;
  const rows = value?.pods ?? [];
  const oldest = rows.map((row) => row.created).filter(Boolean).sort()[0];
  const inUse = found.states.used + found.states.shared;
  return html`<section class="card" aria-labelledby="waiting">
    <h3 id="waiting"><a href=${link("pending")}>Pending</a></h3>
    <p class="number">${count.toLocaleString("en")}</p>
    <p>${count ? `${count === 1 ? "pod waits" : "pods wait"}` : `No pod waits. ${inUse} of ${counted(found.count, "device")} are in use.`}
      ${oldest && html`, the oldest for <${Ago} then=${oldest} now=${value?.asOf} />`}</p>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${count > 0 && !value && !error && html`<p class="age" role="status">Asking the scheduler why…</p>`}
    <ul class="rows why">${together(rows, "cause", "most pods").map(({ key, pods }) => {
      const owners = together(rows.filter((row) => row.kind === key), "owner", "most pods");
      return html`<li key=${key}><b>${pods}</b> <a href=${link("pending", { kind: key })}><span class="kind">${key}</span></a>
        <span class="owners">${owners.slice(0, OWNERS).map((one) => html`<a key=${one.key} class="chip" href=${link("pod", { pod: [...one.causes.values()][0]?.pods[0] ?? "" })}>${one.name}${one.pods > 1 && ` ×${one.pods}`}</a>`)}
          ${owners.length > OWNERS && `and ${owners.length - OWNERS} more`}</span></li>`;
    })}</ul>
  </section>`;
}

/** What is free of each class and of each size of partition.
 * @param {{found: Found}} props */
function Free({ found }) {
  const free = found.states.free + found.states.shared;
  return html`<section class="card" aria-labelledby="free">
    <h3 id="free"><a href=${link("devices")}>Devices</a></h3>
    <p class="number">${free.toLocaleString("en")}</p>
    <p>${found.count ? `free of ${counted(found.count, "device")} on ${counted(found.nodes, "node")}` : "No device is published: a DRA driver makes ResourceSlices."}</p>
    ${found.count > 0 && !found.classes.length && html`<p>No DeviceClass is there, so no claim can ask for a device.</p>`}
    <ul class="rows">${found.classes.map((one) => html`<li key=${one.name}><b>${one.name}</b> <${Bar} parts=${one.states} all=${one.devices} />
        <span>${one.free.toLocaleString("en")} of ${one.devices.toLocaleString("en")} free</span> <span class="age">${fits(one.largest[0])}</span></li>`)}
      ${found.profiles.map((one) => html`<li key=${`${one.driver} ${sizeOf(one)}`}><b>${sizeOf(one)}</b> <${Bar} parts=${one.states} all=${one.devices} />
        <span>${one.free.toLocaleString("en")} of ${one.devices.toLocaleString("en")} free</span>
        <span class="age">${one.is_exact ? "" : "at most "}${one.together} together</span></li>`)}</ul>
    <${Left} count=${found.classes_count + found.profiles_count - found.classes.length - found.profiles.length} one="class or profile" many="classes or profiles" />
  </section>`;
}

/** A partition's profile, or what it takes where it has none.
 * @param {{profile: string, counters: Record<string, string>}} one */
function sizeOf({ profile, counters }) {
  const [first, ...more] = Object.entries(counters).map(([name, amount]) => `${name}=${amount}`);
  return profile || `${first}${more.length ? ` and ${more.length} more` : ""}`;
}

/** @param {Api.Largest | undefined} one */
function fits(one) {
  if (!one?.count) return "no request fits";
  return `largest request that fits: ${one.count}${one.exact ? "" : " or more"}${one.node ? ` (${one.node})` : ""}`;
}

/** Who has devices.
 * @param {{found: Found}} props */
function Held({ found }) {
  return html`<section class="card" aria-labelledby="held">
    <h3 id="held">Who has them</h3>
    <p class="number">${found.held.toLocaleString("en")}</p>
    <p>${found.held ? `${found.held === 1 ? "device or share is" : "devices or shares are"} held by claims` : "No claim has a device."}</p>
    <ul class="rows">${found.holders.map((one) => html`<li key=${one.namespace}><b>${one.namespace}</b> <${Bar} parts=${{ used: one.devices }} all=${found.held} />
      <span>${one.devices.toLocaleString("en")}</span>
      <span class="owners">${one.owners.map(({ owner, devices, pod }) => {
        const name = owner.replace(` ${one.namespace}/`, " ");
        return html`<span key=${owner} class="chip">${pod ? html`<a href=${link("pod", { pod })}>${name}</a>` : name} ${devices}</span>`;
      })}</span></li>`)}</ul>
    <${Left} count=${found.holders_count - found.holders.length} one="namespace" />
  </section>`;
}

/** @param {{count: number, one: string, many?: string}} props */
function Left({ count, one, many }) {
  return count > 0 && html`<p class="age">and ${counted(count, `more ${one}`, many && `more ${many}`)}</p>`;
}
