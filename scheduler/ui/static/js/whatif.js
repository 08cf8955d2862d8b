// What if: one question about the cluster altered, played by the scheduler; nothing is written.
import { useEffect, useState } from "preact/hooks";
import { ask, useAnswer } from "./answers.js";
import { Command, Copy, counted, go, html, link, Notes, param, percent, quoted } from "./view.js";

const EXAMPLE = `apiVersion: v1
kind: Pod
…`;

const NOTHING = Object.freeze({ pod: "", copies: "", without: "", room: "", drain: "" });

/**
 * @typedef {Api.Played} Played
 * @typedef {Api.RoomPlan} RoomPlan
 * @typedef {Api.DrainPlan} DrainPlan
 * @typedef {import("./answers.js").Answer<Played | RoomPlan | DrainPlan>} Asked
 */

export function WhatIf() {
  const [asked, setAsked] = useState(/** @type {Asked} */ ({ value: null, error: "", isBusy: false }));
  const [manifest, setManifest] = useState("");
  const inAddress = Object.keys(NOTHING).map((name) => [name, param(name)]).filter(([, said]) => said);
  const question = new URLSearchParams(inAddress).toString();
  async function play(/** @type {string} */ path, /** @type {RequestInit} */ how = {}) {
    setAsked((before) => ({ ...before, error: "", isBusy: true }));
    const said = { value: null, error: "" };
    try {
      said.value = await (await ask(`whatif${path}`, how)).json();
    } catch (error) {
      said.error = error instanceof Error ? error.message : String(error);
    }
    if (!how.signal?.aborted) setAsked({ ...said, isBusy: false });
  }
  useEffect(() => {
    const left = new AbortController();
    if (question) play(`?${question}`, { signal: left.signal });
    return () => left.abort();
  }, [question]);
  useEffect(() => {
    // On a telephone the forms are above it, a screen high.
    globalThis.document.querySelector("[aria-label=Answer]")?.scrollIntoView({ block: "nearest" });
  }, [asked.value]);
  const drop = async (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    const texts = await Promise.all([...(event.dataTransfer?.files ?? [])].map((file) => file.text()));
    if (texts.length) setManifest(texts.join("\n---\n"));
  };
  const asks = (/** @type {Event & {target: HTMLFormElement}} */ event) => {
    event.preventDefault();
    const next = { ...NOTHING, .../** @type {Record<string, string>} */ (Object.fromEntries(new FormData(event.target))) };
    if (new URLSearchParams(Object.entries(next).filter(([, said]) => said)).toString() === question) play(`?${question}`);
    else go("whatif", next);
  };
  return html`
    <h2>What if</h2>
    <p>The scheduler plays it on a copy of what it sees. Nothing is written anywhere.</p>
    <div class="questions">
      <form onSubmit=${asks}>
        <h3>More of a pod</h3>
        <label>Pod <input name="pod" list="pods" required placeholder="namespace/name" defaultValue=${param("pod")} /></label>
        <label>Copies <input name="copies" type="number" min="1" max="500" required defaultValue=${param("copies") || "1"} /></label>
        <button>Play</button>
      </form>
      <form onSubmit=${asks}>
        <h3>Without a node</h3>
        <label>Node <input name="without" list="nodes" required defaultValue=${param("without")} /></label>
        <button>Play</button>
      </form>
      <form onSubmit=${asks}>
        <h3>Make room for a pod that waits</h3>
        <label>Pod <input name="room" list="pods" required placeholder="namespace/name" defaultValue=${param("room")} /></label>
        <button>Look for a plan</button>
      </form>
      <form onSubmit=${asks}>
        <h3>Drain a device</h3>
        <label>Device <input name="drain" required placeholder="pool/device" defaultValue=${param("drain")} /></label>
        <button>Look for a plan</button>
      </form>
      <form onDragOver=${(/** @type {Event} */ event) => event.preventDefault()} onDrop=${drop}
        onSubmit=${(/** @type {Event} */ event) => {
          event.preventDefault();
          go("whatif", NOTHING); // the address has no room for a manifest
          play("", { method: "POST", body: manifest, headers: { "Content-Type": "application/yaml" } });
        }}>
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
    ${asked.value && !asked.isBusy && ("pods" in asked.value ? html`<${Result} found=${asked.value} />` : html`<${Plan} plan=${asked.value} />`)}
  `;
}

/** The names that forms offer. */
function Known() {
  const pending = useAnswer("pending").value;
  const devices = useAnswer("devices").value;
  const nodes = devices ? [...new Set(devices.columns.node)].map((name) => devices.texts[name]) : [];
  return html`<datalist id="pods">${(pending?.pods ?? []).slice(0, 500).map((pod) => html`<option key=${pod.names[0]} value=${`${pod.namespace}/${pod.names[0]}`}></option>`)}</datalist>
    <datalist id="nodes">${nodes.filter(Boolean).slice(0, 500).map((name) => html`<option key=${name} value=${name}></option>`)}</datalist>`;
}

/** @param {{found: Played}} props */
function Result({ found }) {
  const copies = param("pod") && `--add ${param("copies") || 1}xPOD.yaml`;
  const command = copies || (param("without") ? `--remove ${quoted(`node/${param("without")}`)}` : "MANIFEST.yaml");
  return html`<section aria-label="Answer">
    <p class=${`verdict ${found.pods.some((pod) => !pod.node) ? "bad" : "good"}`}>${found.text}</p>
    <ul class="sentence">${Object.entries(found.allocated).map(([name, one]) => html`<li key=${name}><strong>${name}</strong>: now ${percent(found.now[name] ?? 0)}, then${" "}
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

/** Who would have to move, so that a pod fits or a device is free.
 * @param {{plan: RoomPlan | DrainPlan}} props */
function Plan({ plan }) {
  const pods = /** @type {Api.HolderOfDevice[]} */ ("moves" in plan ? plan.moves : plan.holders);
  return html`<section aria-label="Answer">
    <p class=${`verdict ${["fits", "free", "plan"].includes(plan.outcome) ? "good" : "bad"}`}>${plan.text}</p>
    ${pods.length > 0 && html`<table><caption>Who goes, in this order${"more" in plan && plan.more > 0 ? `; ${plan.more} that stay are left out` : ""}</caption>
      <thead><tr><th scope="col">Pod</th><th scope="col">From, to</th><th scope="col">Devices, or why it stays</th></tr></thead>
      <tbody>${pods.map((pod) => html`<tr key=${`${pod.namespace}/${pod.name}`}><th scope="row">${pod.step ? `${pod.step}. ` : ""}${pod.namespace}/${pod.name}</th>
        <td>${pod.from}${pod.to ? ` → ${pod.to}` : ""}</td><td>${pod.why ?? html`${given(pod.devices)} → ${given(pod.given ?? [])}`}</td></tr>`)}</tbody></table>`}
    ${plan.budgets.map(({ text }) => html`<p key=${text}>${text}</p>`)}
    ${plan.commands.length > 0 && html`<details><summary>The commands that do it</summary><${Copy} text=${plan.commands.join("\n")} label="Copy the commands" />
      <pre>${plan.commands.join("\n")}</pre></details>`}
    ${"cannotMove" in plan && Object.keys(plan.cannotMove).length > 0 && html`<h3>What cannot move</h3><ul>${Object.entries(plan.cannotMove).map(([why, count]) => html`<li key=${why}>${counted(Number(count), "pod")}: ${why}</li>`)}</ul>`}
    <${Notes} title="Notes" texts=${[...plan.warnings, ...("notes" in plan ? plan.notes : []), ...plan.problems]} />
    <${Command} text=${`dra-scheduler ${asTyped(plan)}`} />
  </section>`;
}

/** @param {RoomPlan | DrainPlan} plan */
function asTyped(plan) {
  if ("pod" in plan) return `make-room ${quoted(`${plan.pod.namespace}/${plan.pod.name}`)}`;
  const [one] = plan.devices;
  return `drain-device ${quoted(one ? `${one.driver}/${one.pool}/${one.device}` : "")}`;
}

/** @param {Api.GivenDevice[]} devices */
function given(devices) {
  return devices.length
    ? devices.map((one, number) => html`${number > 0 && ", "}<a href=${link("devices", { device: `${one.driver} ${one.pool} ${one.device}` })}>${one.pool}/${one.device}</a>`)
    : "none";
}
