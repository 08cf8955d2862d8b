// The devices: what is free in a sentence, all of them as a picture and as a table, one of them in words.
import { useEffect, useMemo, useState } from "preact/hooks";
import { follow } from "./answers.js";
import { Grid } from "./grid.js";
import { Command, counted, go, html, link, Notes, paged, place, quoted, STATES } from "./view.js";

/** @typedef {{name: string, state: string, share?: number, isShown: boolean, to: string}} Listed `to`: driver, pool and device with spaces between */

const SIZES = Object.freeze([4, 6, 9, 14, 22]);

/** An answer, kept up to date. Whoever asks says of which type: `Answer<import("./answer_types.js").Overview>`.
 * @template [T=any] @param {() => string} question @returns {import("./answers.js").Answer<T>} */
export function useAnswer(question) {
  const [following] = useState(() => follow(question));
  useEffect(() => following.end, []);
  return following.answer.value;
}

export function Devices() {
  const { value, error, isBusy } = useAnswer(() => {
    const { view, query } = place.value;
    return view === "devices" ? `devices?by=${encodeURIComponent(query.get("by") ?? "")}` : "";
  });
  if (!value) return html`<p class=${error ? "error" : "wait"} role="status">${error || "Asking which devices there are…"}</p>`;
  return html`<${Shown} found=${value} error=${error} isBusy=${isBusy} />`;
}

/** @param {{found: any, error: string, isBusy: boolean}} props */
function Shown({ found, error, isBusy }) {
  const { query } = place.value;
  const { texts, columns } = found;
  const text = (/** @type {string} */ column, /** @type {number} */ device) => texts[columns[column]?.[device]] ?? "";
  const groups = useMemo(() => grouped(found), [found]);
  const search = (query.get("q") ?? "").toLowerCase();
  const wanted = query.get("state") ?? "";
  const isShown = (/** @type {number} */ device) =>
    (!wanted || text("state", device) === wanted) &&
    (!search ||
      ["device", "pool", "node", "driver"].some((column) => text(column, device).toLowerCase().includes(search)));
  const shares = useMemo(() => new Map(found.shares), [found]);
  const key = (/** @type {number} */ device) => ["driver", "pool", "device"].map((column) => text(column, device)).join(" ");
  const chosen = query.get("device") ?? "";
  const selected = useMemo(() => {
    for (let device = 0; chosen && device < found.count; device++) if (key(device) === chosen) return device;
    return -1;
  }, [found, chosen]);
  const size = Number(query.get("size")) || (found.count > 8000 ? 4 : found.count > 2000 ? 9 : 14);
  const by = found.by ? `value of ${found.by}` : "node";
  return html`
    <${Sentence} found=${found} />
    <form class="tools" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label>Search <input type="search" value=${query.get("q") ?? ""} placeholder="device, pool, node, driver"
        onInput=${(/** @type {any} */ event) => go("devices", { q: event.target.value })} /></label>
      <label>Group by <select value=${found.by} onChange=${(/** @type {any} */ event) => go("devices", { by: event.target.value })}>
        <option value="">node</option>
        ${found.attributes.map((/** @type {string} */ name) => html`<option key=${name}>${name}</option>`)}
      </select></label>
      <label>Size <select value=${String(size)} onChange=${(/** @type {any} */ event) => go("devices", { size: event.target.value })}>
        ${SIZES.map((one) => html`<option key=${one} value=${String(one)}>${one} pixels</option>`)}
      </select></label>
      <span role="status" class="age">${isBusy ? "asking anew…" : `as of ${new Date(found.asOf).toLocaleTimeString("en-GB")}`}</span>
    </form>
    <${Legend} found=${found} wanted=${wanted} />
    ${error && html`<p class="error" role="alert">${error}</p>`}
    <div class="beside">
      <${Grid} groups=${groups} cell=${size} selected=${selected} isShown=${isShown}
        state=${(/** @type {number} */ device) => text("state", device)}
        within=${(/** @type {number} */ device) => (text("within", device) ? columns.within[device] + 1 : 0)}
        share=${(/** @type {number} */ device) => (shares.get(device) ?? 50) / 100}
        mark=${(/** @type {string} */ group) => (!found.by && found.nominated[group] ? "◂ " : "")}
        select=${(/** @type {number} */ device) => go("devices", { device: key(device) })}
        label=${`${counted(found.count, "device")} by ${by}; arrow keys choose one, the table below has all of them`} />
      ${chosen && html`<${Device} name=${chosen} />`}
    </div>
    ${Object.entries(found.nominated).length > 0 && html`<p>Room is being made on ${Object.entries(found.nominated).map(([node, pods]) => html`<span key=${node}><a class="chip"
      href=${link("devices", { q: node })}>${node}</a> for ${/** @type {string[]} */ (pods).map((pod) => html`<a key=${pod} class="chip" href=${link("pod", { pod })}>${pod}</a>`)}</span>`)}</p>`}
    <${Table} groups=${groups} text=${text} nameOf=${key} isShown=${isShown} by=${by} shares=${shares} />
    <${Notes} title="Notes" texts=${found.notes} />
    <${Command} text="dra-scheduler devices -o wide" />
  `;
}

/** What is free of each class, and the largest request that still fits.
 * @param {{found: any}} props */
function Sentence({ found }) {
  if (!found.classes.length) {
    return html`<p class="sentence">${counted(found.count, "device")} on ${counted(found.nodes, "node")}, and no DeviceClass: no claim can ask for one.</p>`;
  }
  return html`<ul class="sentence">${found.classes.map((/** @type {any} */ one) => {
    const [first, ...near] = one.largest;
    const more = near.map((/** @type {any} */ each) => `${each.count} with one ${each.within.split("/").at(-1)}`);
    const fits = first?.count
      ? `one request can get ${first.exact ? "" : "at least "}${first.count} on one node${more.length ? `, ${more.join(", ")}` : ""}`
      : "no request fits";
    return html`<li key=${one.name}><strong>${one.name}</strong>: <b>${one.free.toLocaleString("en")}</b> of ${counted(one.devices, "device")} free; ${fits}</li>`;
  })}</ul>`;
}

/** All states with their counts; together they are all devices.
 * @param {{found: any, wanted: string}} props */
function Legend({ found, wanted }) {
  return html`<ul class="legend" aria-label="States">${Object.entries(STATES).map(
    ([name, meaning]) => html`<li key=${name}><a href=${link("devices", { state: wanted === name ? "" : name }, true)}
      aria-current=${wanted === name ? "true" : null} title=${meaning}><span class=${`swatch ${name}`}></span>${name} ${found.states[name].toLocaleString("en")}</a></li>`,
  )}<li class="sum">= ${counted(found.count, "device")}</li></ul>`;
}

/** @param {any} found @returns {import("./grid.js").Group[]} */
function grouped(found) {
  const { texts, columns } = found;
  /** @type {Map<number, number[]>} */
  const groups = new Map();
  columns.group.forEach((/** @type {number} */ name, /** @type {number} */ device) => {
    const cells = groups.get(name);
    if (cells) cells.push(device);
    else groups.set(name, [device]);
  });
  const natural = new Intl.Collator("en", { numeric: true });
  return [...groups]
    .map(([name, cells]) => ({ name: texts[name], cells }))
    .sort((one, other) => natural.compare(one.name, other.name));
}

/** The groups as a table, which the picture is beside; a page of them at a time.
 * @param {{groups: import("./grid.js").Group[], text: (column: string, device: number) => string, nameOf: (device: number) => string,
 *   isShown: (device: number) => boolean, by: string, shares: Map<number, number>}} props */
function Table({ groups, text, nameOf, isShown, by, shares }) {
  const rows = groups.filter((group) => group.cells.some(isShown));
  const { seen, links } = paged(rows);
  return html`<table>
      <caption>${counted(rows.length, "group")} of devices by ${by}</caption>
      <thead><tr><th scope="col">${by}</th>${Object.keys(STATES).map((name) => html`<th scope="col" key=${name}>${name}</th>`)}<th scope="col">devices</th></tr></thead>
      <tbody>${seen.map((group) => {
        const devices = group.cells.map((device) => ({
          name: text("device", device),
          state: text("state", device),
          share: shares.get(device),
          isShown: isShown(device),
          to: nameOf(device),
        }));
        return html`<${Row} key=${group.name} name=${group.name} said=${JSON.stringify(devices)} />`;
      })}</tbody></table>
    ${links}`;
}

/** A group's row. With signals, Preact renders a component again only when a property changes. This one's properties are
 * texts, so a row whose devices did not change is left alone.
 * @param {{name: string, said: string}} props `said`: the devices, in JSON */
function Row({ name, said }) {
  const devices = /** @type {Listed[]} */ (JSON.parse(said));
  const counts = new Map();
  for (const { state } of devices) counts.set(state, (counts.get(state) ?? 0) + 1);
  return html`<tr><th scope="row">${name || "no value"}</th>
    ${Object.keys(STATES).map((state) => html`<td key=${state}>${counts.get(state) ?? ""}</td>`)}
    <td>${devices.filter((one) => one.isShown).map((one) => html`<a key=${one.to} class="chip"
      href=${link("devices", { device: one.to }, true)}>${one.name}</a>${one.share !== undefined && html`<span class="chip">${one.share} %</span>`}`)}</td></tr>`;
}

/** One device: its state and why, who has it, its attributes.
 * @param {{name: string}} props driver, pool and device with spaces between */
function Device({ name }) {
  const { value, error } = useAnswer(() => {
    const [driver = "", pool = "", device = ""] = (place.value.query.get("device") ?? "").split(" ");
    return driver ? `device?${new URLSearchParams({ driver, pool, name: device })}` : "";
  });
  const close = html`<a class="close" href=${link("devices", { device: "" }, true)}>Close</a>`;
  if (!value) return html`<aside aria-label="Device">${close}<p role="status">${error || name}</p></aside>`;
  return html`<aside aria-label=${`Device ${value.device}`}>${close}
    <h2>${value.device}</h2>
    <p><span class=${`swatch ${value.state}`}></span><b>${value.state}</b>: ${STATES[/** @type {keyof STATES} */ (value.state)]}</p>
    <dl>
      <dt>Driver</dt><dd>${value.driver}</dd>
      <dt>Pool</dt><dd>${value.pool}</dd>
      <dt>Node</dt><dd>${value.node ?? "several nodes may use it"}</dd>
      <dt>Classes</dt><dd>${value.classes.join(", ") || "none selects it"}</dd>
      ${value.since && html`<dt>Given out</dt><dd>${new Date(value.since).toLocaleString("en-GB")}</dd>`}
    </dl>
    ${value.users.length > 0 && html`<h3>Who has it</h3><ul>${value.users.map((/** @type {any} */ user) => html`<li key=${user.claim}>
      claim ${user.claim}, request ${user.request}${user.admin ? " (admin access)" : ""}
      ${user.pods.map((/** @type {string} */ pod) => html` <a key=${pod} href=${link("pod", { pod })}>pod ${pod}</a>`)}
      ${Object.entries(user.consumed).map(([what, amount]) => ` ${what}: ${amount}`)}</li>`)}</ul>`}
    ${value.blocked_by.length > 0 && html`<h3>What keeps it from a claim</h3><ul>${value.blocked_by.map((/** @type {any} */ one) => html`<li key=${one.text}>${one.text}</li>`)}</ul>`}
    ${value.nominated.length > 0 && html`<p>Its node is where room is being made for ${value.nominated.map((/** @type {string} */ pod) => html`<a key=${pod} class="chip" href=${link("pod", { pod })}>${pod}</a>`)}</p>`}
    ${value.taints.length > 0 && html`<h3>Taints</h3><ul>${value.taints.map((/** @type {string} */ one) => html`<li key=${one}>${one}</li>`)}</ul>`}
    <h3>Capacity and attributes</h3>
    <dl>${Object.entries(value.capacity).map(([what, one]) => html`<dt key=${what}>${what}</dt><dd>${/** @type {any} */ (one).left} of ${/** @type {any} */ (one).total} left</dd>`)}
      ${Object.entries(value.attributes).map(([what, one]) => html`<dt key=${what}>${what}</dt><dd>${String(Object.values(/** @type {any} */ (one))[0])}</dd>`)}</dl>
    ${value.node && html`<p class="links"><a href=${link("whatif", { without: value.node })}>What if node ${value.node} were not there?</a></p>`}
    ${value.node && html`<${Command} text=${`dra-scheduler devices --node ${quoted(value.node)} -o wide`} />`}
  </aside>`;
}
