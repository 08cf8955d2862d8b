// The devices: what is free in a sentence, all of them as a picture and as a table, one of them in words.
import { useMemo, useState } from "preact/hooks";
import { useAnswer } from "./answers.js";
import { Grid } from "./grid.js";
import { grouped } from "./layout.js";
import { Ago, Choice, Command, counted, go, html, link, Notes, paged, param, quoted, STATES, Tools, Unanswered } from "./view.js";

/** @typedef {Api.Devices} Found */
/** @typedef {{name: string, state: string, share?: number, to: string}} Listed `to`: driver, pool and device with spaces between */

const SIZES = Object.freeze({ small: 6, medium: 14, large: 28 });
const NEARS = Object.freeze({ numa: "NUMA node", pcie: "PCIe root" });
const SEARCHED = Object.freeze(/** @type {const} */ (["device", "pool", "node", "driver"]));
/** So many devices of a row are shown without being asked for. */
const UNFOLDED = 16;
const NARROW_ROWS = 20;

export function Devices() {
  const { value, error, isBusy } = useAnswer("devices", () => ({ by: param("by"), near: param("near"), rack: param("rack") }));
  if (!value) return html`<${Unanswered} error=${error} asking="Asking which devices there are…" />`;
  return html`<${Shown} found=${value} error=${error} isBusy=${isBusy} />`;
}

/** @param {{found: Found, error: string, isBusy: boolean}} props */
function Shown({ found, error, isBusy }) {
  const { texts, columns } = found;
  const text = (/** @type {keyof typeof columns} */ column, /** @type {number} */ device) => texts[columns[column][device] ?? -1] ?? "";
  const groups = useMemo(() => grouped(found), [found]);
  const search = param("q").toLowerCase();
  const wanted = param("state");
  const shown = useMemo(() => {
    const has = texts.map((one) => one.toLowerCase().includes(search));
    return columns.state.map((state, device) =>
      (!wanted || texts[state] === wanted) && SEARCHED.some((column) => has[columns[column][device] ?? -1]));
  }, [found, search, wanted]);
  const shares = useMemo(() => new Map(found.shares), [found]);
  const key = (/** @type {number} */ device) => `${text("driver", device)} ${text("pool", device)} ${text("device", device)}`;
  const chosen = param("device");
  const selected = useMemo(() => (chosen ? columns.device.findIndex((_, device) => key(device) === chosen) : -1), [found, chosen]);
  const wish = param("size");
  const cell = SIZES[/** @type {keyof typeof SIZES} */ (wish)] ?? (found.count > 8000 ? 4 : found.count > 2000 ? 9 : found.count > 200 ? 14 : 28);
  const by = found.by ? `value of ${found.by}` : "node";
  const frame = found.frames.find((one) => selected >= 0 && (one.whole === selected || one.devices.includes(selected)));
  const beside = frame ? [...(frame.whole < 0 ? [] : [frame.whole]), ...frame.devices] : [];
  const listed = (/** @type {number} */ device) => ({ name: text("device", device), state: text("state", device), share: shares.get(device), to: key(device) });
  const look = {
    state: (/** @type {number} */ device) => text("state", device),
    isShown: (/** @type {number} */ device) => shown[device] ?? false,
    share: (/** @type {number} */ device) => (shares.get(device) ?? 50) / 100,
    mark: (/** @type {string} */ group) => (!found.by && found.nominated[group] ? "◂ " : ""),
    told: (/** @type {number} */ device) => [text("device", device), text("state", device), text("group", device), text("near", device)].filter(Boolean).join(", "),
  };
  const escape = (/** @type {any} */ event) => {
    if (event.key !== "Escape" || !chosen) return;
    if (event.target.closest("aside")) event.currentTarget.querySelector(".grid").focus();
    go("devices", { device: "" });
  };
  return html`
    <${Sentence} found=${found} />
    <${Tools} searched="device, pool, node, driver" isBusy=${isBusy} asOf=${found.asOf}>
      <${Choice} title="Group by" name="by" value=${found.by} first="node" options=${found.attributes} />
      ${found.labels.length > 0 && html`<${Choice} title="Nodes by" name="rack" value=${found.rack} first="name" options=${found.labels} />`}
      ${found.nears.length > 0 && html`<${Choice} title="Columns" name="near" value=${found.near || "none"} options=${[...found.nears, "none"]} words=${NEARS} />`}
      <${Choice} title="Size" name="size" value=${wish in SIZES ? wish : ""} first="automatic" options=${Object.keys(SIZES)} />
    <//>
    <${Legend} found=${found} wanted=${wanted} />
    ${error && html`<p class="error" role="alert">${error}</p>`}
    <div class="beside" onKeyDown=${escape}>
      <${Grid} groups=${groups} cell=${cell} isTitled=${Boolean(found.rack)} look=${look} selected=${selected}
        select=${(/** @type {number} */ device) => go("devices", { device: key(device) })}
        label=${`${counted(found.count, "device")} by ${by}; arrow keys choose one, the table below has all of them`} />
      ${chosen && html`<${Device} name=${chosen} beside=${beside.map(listed)} />`}
      <div class="rest">
        ${Object.entries(found.nominated).length > 0 && html`<p>Room is being made on ${Object.entries(found.nominated).map(([node, pods]) => html`<span key=${node}><a class="chip"
          href=${link("devices", { q: node })}>${node}</a> for ${pods.map((pod) => html`<a key=${pod} class="chip" href=${link("pod", { pod })}>${pod}</a>`)}</span>`)}</p>`}
        <${Table} groups=${groups} listed=${listed} isShown=${look.isShown} by=${by} />
        <${Notes} title="Notes" texts=${[...found.left_out, ...found.notes]} />
        <${Command} text="dra-scheduler devices -o wide" />
      </div>
    </div>
  `;
}

/** What is free of each class, and the largest request that still fits.
 * @param {{found: Found}} props */
function Sentence({ found }) {
  if (!found.count) return html`<p class="sentence">No device is published: a DRA driver makes ResourceSlices.</p>`;
  if (!found.classes.length) {
    return html`<p class="sentence">${counted(found.count, "device")} on ${counted(found.nodes, "node")}, and no DeviceClass: no claim can ask for one.</p>`;
  }
  return html`<ul class="sentence">${found.classes.map((one) => {
    const [first, ...near] = one.largest;
    const more = near.map((each) => `${each.count} with one ${each.within.split("/").at(-1)}`);
    const fits = first?.count
      ? `one request can get ${first.exact ? "" : "at least "}${first.count} on one node${more.length ? `, ${more.join(", ")}` : ""}`
      : "no request fits";
    return html`<li key=${one.name}><strong>${one.name}</strong>: <b>${one.free.toLocaleString("en")}</b> of ${counted(one.devices, "device")} free; ${fits}</li>`;
  })}</ul>`;
}

/** All states with their counts; together they are all devices.
 * @param {{found: Found, wanted: string}} props */
function Legend({ found, wanted }) {
  return html`<ul class="legend" aria-label="States">${Object.entries(STATES).map(
    ([name, meaning]) => html`<li key=${name}><a href=${link("devices", { state: wanted === name ? "" : name, page: "" }, true)}
      aria-current=${wanted === name ? "true" : null} title=${meaning}><span class=${`swatch ${name}`}></span>${name} ${found.states[/** @type {keyof STATES} */ (name)].toLocaleString("en")}</a></li>`,
  )}<li class="sum">= ${counted(found.count, "device")}</li></ul>`;
}

/** The groups as a table, which the picture is beside; a page of them at a time, folded where they are long or the screen is narrow.
 * @param {{groups: import("./layout.js").Group[], listed: (device: number) => Listed, isShown: (device: number) => boolean, by: string}} props */
function Table({ groups, listed, isShown, by }) {
  const rows = groups.filter((group) => group.devices.some(isShown));
  const isNarrow = globalThis.matchMedia("(max-width: 600px)").matches;
  const { seen, links } = paged(rows, isNarrow ? NARROW_ROWS : undefined);
  return html`<table>
      <caption>${counted(rows.length, "group")} of devices by ${by}</caption>
      <thead><tr><th scope="col">${by}</th><th scope="col">states</th><th scope="col">devices</th></tr></thead>
      <tbody>${seen.map((group) => {
        const devices = group.devices.filter(isShown).map(listed);
        return html`<${Row} key=${group.name} name=${group.name} rack=${group.rack} said=${JSON.stringify(devices)} isUnfolded=${!isNarrow && devices.length <= UNFOLDED} />`;
      })}</tbody></table>
    ${links}`;
}

/** A group's row. With signals, Preact renders a component again only when a property changes. This one's properties are
 * texts, so a row whose devices did not change is left alone.
 * @param {{name: string, rack: string, said: string, isUnfolded: boolean}} props `said`: the devices, in JSON */
function Row({ name, rack, said, isUnfolded }) {
  const [wish, open] = useState(/** @type {boolean | null} */ (null));
  const isOpen = wish ?? isUnfolded;
  const devices = /** @type {Listed[]} */ (JSON.parse(said));
  const counts = new Map();
  for (const { state } of devices) counts.set(state, (counts.get(state) ?? 0) + 1);
  const toggled = (/** @type {any} */ event) => {
    if (event.target.open !== isOpen) open(event.target.open);
  };
  return html`<tr><th scope="row">${name || "no value"}${rack && html` <span class="age">${rack}</span>`}</th>
    <td>${Object.keys(STATES).filter((state) => counts.has(state)).map((state) => html`<span class="chip" key=${state}><span class=${`swatch ${state}`}></span>${counts.get(state)} ${state}</span>`)}</td>
    <td><details open=${isOpen} onToggle=${toggled}><summary>${counted(devices.length, "device")}</summary>
      ${isOpen && html`<${Chips} devices=${devices} />`}</details></td></tr>`;
}

/** @param {{devices: Listed[]}} props */
function Chips({ devices }) {
  return devices.map((one) => html`<a key=${one.to} class="chip" href=${link("devices", { device: one.to }, true)}><span class=${`swatch ${one.state}`} title=${one.state}></span>${one.name}${one.share !== undefined && ` ${one.share} %`}</a>`);
}

/** One device: its state and why, who has it since when, its attributes.
 * @param {{name: string, beside: Listed[]}} props driver, pool and device with spaces between; `beside`: all of its physical device */
function Device({ name, beside }) {
  const { value, error } = useAnswer("device", () => {
    const [driver = "", pool = "", device = ""] = param("device").split(" ");
    return driver ? { driver, pool, name: device } : null;
  });
  const close = html`<a class="close" href=${link("devices", { device: "" }, true)}>Close</a>`;
  if (!value) return html`<aside aria-label="Device">${close}<p role="status">${error || name}</p></aside>`;
  const others = value.blocked_by.filter((one) => one.kind !== "claim"); // claims stand under "Who has it"
  return html`<aside aria-label=${`Device ${value.device}`}>${close}
    <h2>${value.device}</h2>
    <p><span class=${`swatch ${value.state}`}></span><b>${value.state}</b>: ${STATES[value.state]}</p>
    ${value.users.length > 0 && html`<h3>Who has it${value.more > 0 ? `; ${value.more} claims are left out` : ""}</h3><ul class="users">${value.users.map((user) => html`<li key=${user.claim + user.request}>
      ${user.owners.length > 0 && html`<b>${user.owners.join(", ")}</b> `}${user.since && html`since <${Ago} then=${user.since} now=${value.asOf} />`}
      <p>claim ${user.claim}, request ${user.request}${user.admin ? " (admin access)" : ""}${Object.entries(user.consumed).map(([what, amount]) => `, ${what} ${amount}`)}</p>
      ${user.pods.map((pod) => html`<a key=${pod} class="chip" href=${link("pod", { pod })}>pod ${pod}</a>`)}</li>`)}</ul>
      <h3>Drain this device</h3><p class="links"><a href=${link("whatif", { drain: value.name })}>Where would its pods go?</a></p>
      <${Command} text=${`dra-scheduler drain-device ${quoted(value.name)}`} />`}
    ${others.length > 0 && html`<h3>What keeps it from a claim</h3><ul>${others.map((one) => html`<li key=${one.text}>${one.text}</li>`)}</ul>`}
    ${value.nominated.length > 0 && html`<p>Its node is where room is being made for ${value.nominated.map((pod) => html`<a key=${pod} class="chip" href=${link("pod", { pod })}>${pod}</a>`)}</p>`}
    ${value.taints.length > 0 && html`<h3>Taints</h3><ul>${value.taints.map((one) => html`<li key=${one}>${one}${value.tainted[one] && html`, since <${Ago} then=${value.tainted[one]} now=${value.asOf} />`}</li>`)}</ul>`}
    ${beside.length > 1 && html`<h3>Its physical device</h3><p><${Chips} devices=${beside} /></p>`}
    <dl>
      <dt>Driver</dt><dd>${value.driver}</dd>
      <dt>Pool</dt><dd>${value.pool}</dd>
      <dt>Node</dt><dd>${value.node ?? "several nodes may use it"}</dd>
      <dt>Classes</dt><dd>${value.classes.join(", ") || "none selects it"}</dd>
    </dl>
    <h3>Capacity and attributes</h3>
    <dl>${Object.entries(value.capacity).map(([what, one]) => html`<dt key=${what}>${what}</dt><dd>${one.left} of ${one.total} left</dd>`)}
      ${Object.entries(value.attributes).map(([what, one]) => html`<dt key=${what}>${what}</dt><dd>${String(Object.values(one)[0])}</dd>`)}</dl>
    ${value.node && html`<p class="links"><a href=${link("whatif", { without: value.node })}>What if node ${value.node} were not there?</a></p>`}
    ${value.node && html`<${Command} text=${`dra-scheduler devices --node ${quoted(value.node)} -o wide`} />`}
  </aside>`;
}
