// What if: one question about the cluster altered, played by the scheduler; nothing is written.
import { useEffect, useState } from "preact/hooks";
import { ask } from "./answers.js";
import { useAnswer } from "./devices.js";
import { Command, counted, go, html, link, Notes, percent, place, quoted } from "./view.js";

const EXAMPLE = `apiVersion: v1
kind: Pod
…`;

const NOTHING = Object.freeze({ pod: "", copies: "", without: "", room: "" });

/**
 * @typedef {Api.Played} Played
 * @typedef {Api.RoomPlan} RoomPlan
 * @typedef {import("./answers.js").Answer<Played | RoomPlan>} Asked
 */

export function WhatIf() {
  const [asked, setAsked] = useState(/** @type {Asked} */ ({ value: null, error: "", isBusy: false }));
  const [manifest, setManifest] = useState("");
  const { query } = place.value;
  const inAddress = ["pod", "copies", "without", "room"].map((name) => [name, query.get(name) ?? ""]).filter(([, said]) => said);
  const question = new URLSearchParams(inAddress).toString();
  async function play(/** @type {string} */ path, /** @type {RequestInit} */ how = {}) {
    setAsked((before) => ({ ...before, error: "", isBusy: true }));
    try {
      const value = await (await ask(`whatif${path}`, how)).json();
      setAsked({ value, error: "", isBusy: false });
    } catch (error) {
      setAsked({ value: null, error: error instanceof Error ? error.message : String(error), isBusy: false });
    }
  }
  useEffect(() => {
    if (question) play(`?${question}`);
  }, [question]);
  const drop = async (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    const texts = await Promise.all([...(event.dataTransfer?.files ?? [])].map((file) => file.text()));
    if (texts.length) setManifest(texts.join("\n---\n"));
  };
  const submit = (/** @type {(form: FormData) => void} */ act) => (/** @type {Event & {target: HTMLFormElement}} */ event) => {
    event.preventDefault();
    act(new FormData(event.target));
  };
  const to = (/** @type {Record<string, string>} */ changes) => {
    const next = { ...NOTHING, ...changes };
    if (new URLSearchParams(Object.entries(next).filter(([, said]) => said)).toString() === question) play(`?${question}`);
    else go("whatif", next);
  };
  return html`
    <h2>What if</h2>
    <p>The scheduler plays it on a copy of what it sees. Nothing is written anywhere.</p>
    <div class="questions">
      <form onSubmit=${submit((form) => to({ pod: String(form.get("pod")), copies: String(form.get("copies")) }))}>
        <h3>More of a pod</h3>
        <label>Pod <input name="pod" list="pods" required placeholder="namespace/name" defaultValue=${query.get("pod") ?? ""} /></label>
        <label>Copies <input name="copies" type="number" min="1" max="500" required defaultValue=${query.get("copies") || "1"} /></label>
        <button>Play</button>
      </form>
      <form onSubmit=${submit((form) => to({ without: String(form.get("without")) }))}>
        <h3>Without a node</h3>
        <label>Node <input name="without" list="nodes" required defaultValue=${query.get("without") ?? ""} /></label>
        <button>Play</button>
      </form>
      <form onSubmit=${submit((form) => to({ room: String(form.get("room")) }))}>
        <h3>Make room for a pod that waits</h3>
        <label>Pod <input name="room" list="pods" required placeholder="namespace/name" defaultValue=${query.get("room") ?? ""} /></label>
        <button>Look for a plan</button>
      </form>
      <form onDragOver=${(/** @type {Event} */ event) => event.preventDefault()} onDrop=${drop}
        onSubmit=${submit(() => {
          go("whatif", NOTHING); // the address has no room for a manifest
          play("", { method: "POST", body: manifest, headers: { "Content-Type": "application/yaml" } });
        })}>
        <h3>These objects more</h3>
        <label>Manifest (write it, or drop files here)
          <textarea rows="6" spellcheck=${false} placeholder=${EXAMPLE} value=${manifest}
            onInput=${(/** @type {{target: HTMLTextAreaElement}} */ event) => setManifest(event.target.value)}></textarea></label>
        <button>Play</button>
      </form>
    </div>
    <${Known} />
    <div role="status">${asked.isBusy && html`<p class="wait">The scheduler is playing it…</p>`}</div>
    ${asked.error && html`<p class="error" role="alert">${asked.error}</p>`}
    ${asked.value && !asked.isBusy && ("moves" in asked.value ? html`<${Room} plan=${asked.value} />` : html`<${Result} found=${asked.value} />`)}
  `;
}

/** The names that forms offer. */
function Known() {
  const pending = useAnswer(() => (place.value.view === "whatif" ? "pending" : "")).value;
  const devices = useAnswer(() => (place.value.view === "whatif" ? "devices?by=" : "")).value;
  const nodes = devices ? [...new Set(devices.columns.node)].map((name) => devices.texts[/** @type {number} */ (name)]) : [];
  return html`<datalist id="pods">${(pending?.pods ?? []).slice(0, 500).map((/** @type {any} */ pod) => html`<option key=${pod.name} value=${`${pod.namespace}/${pod.name}`}></option>`)}</datalist>
    <datalist id="nodes">${nodes.filter(Boolean).slice(0, 500).map((name) => html`<option key=${name} value=${name}></option>`)}</datalist>`;
}

/** @param {{found: Played}} props */
function Result({ found }) {
  const { query } = place.value;
  const copies = query.get("pod") && `--add ${query.get("copies") || 1}xPOD.yaml`;
  const command = copies || (query.get("without") ? `--remove ${quoted(`node/${query.get("without")}`)}` : "MANIFEST.yaml");
  return html`<section aria-label="Answer">
    <p class=${`verdict ${found.pods.some((pod) => !pod.node) ? "bad" : "good"}`}>${found.text}</p>
    <ul class="sentence">${Object.entries(found.allocated).map(([name, one]) => html`<li key=${name}><strong>${name}</strong>: now ${percent(found.now[name] ?? 0)}, then
      ${percent(one.share)} of ${counted(one.devices, "device")} given out</li>`)}</ul>
    ${found.evicted.length > 0 && html`<p class="bad">${counted(found.evicted.length, "pod")} would be evicted for it: ${found.evicted.slice(0, 20).join(", ")}</p>`}
    ${found.pods.length > 0 && html`<table><caption>What would become of ${counted(found.pods.length + found.more, "pod")}${found.more ? `, the first ${found.pods.length}` : ""}</caption>
      <thead><tr><th scope="col">Pod</th><th scope="col">Node</th><th scope="col">Devices, or why it waits</th></tr></thead>
      <tbody>${found.pods.map((pod) => html`<tr key=${`${pod.namespace}/${pod.name}`}>
        <th scope="row">${pod.namespace}/${pod.name}</th><td>${pod.node ?? pod.outcome}</td>
        <td>${pod.node ? given(pod.devices) : pod.reason}${(pod.refusals ?? []).slice(0, 3).map((one) => html`<br key=${one.reason} />${counted(one.nodes.length, "node")}: ${one.devices.join("; ") || one.reason}`)}</td></tr>`)}</tbody></table>`}
    <${Notes} title="Notes" texts=${[...found.notes, ...found.problems]} />
    <${Command} text=${`dra-scheduler simulate ${command}`} />
  </section>`;
}

/** @param {{plan: RoomPlan}} props */
function Room({ plan }) {
  return html`<section aria-label="Answer">
    <p class=${`verdict ${plan.outcome === "fits" || plan.outcome === "plan" ? "good" : "bad"}`}>${plan.text}</p>
    ${plan.moves.length > 0 && html`<table><caption>Moves, in this order</caption>
      <thead><tr><th scope="col">Pod</th><th scope="col">From, to</th><th scope="col">Devices</th></tr></thead>
      <tbody>${plan.moves.map((move) => html`<tr key=${`${move.namespace}/${move.name}`}><th scope="row">${move.namespace}/${move.name}</th>
        <td>${move.from} → ${move.to}</td><td>${given(move.devices)} → ${given(move.given)}</td></tr>`)}</tbody></table>
      <details><summary>The commands that do it</summary><pre>${plan.commands.join("\n")}</pre></details>`}
    ${Object.keys(plan.cannotMove).length > 0 && html`<h3>What cannot move</h3><ul>${Object.entries(plan.cannotMove).map(([why, count]) => html`<li key=${why}>${counted(Number(count), "pod")}: ${why}</li>`)}</ul>`}
    <${Notes} title="Notes" texts=${[...plan.warnings, ...plan.problems]} />
    <${Command} text=${`dra-scheduler make-room ${quoted(`${plan.pod.namespace}/${plan.pod.name}`)}`} />
  </section>`;
}

/** @param {Api.GivenDevice[]} devices */
function given(devices) {
  return devices.length
    ? devices.map((one, number) => html`${number > 0 && ", "}<a href=${link("devices", { device: `${one.driver} ${one.pool} ${one.device}` })}>${one.pool}/${one.device}</a>`)
    : "none";
}
