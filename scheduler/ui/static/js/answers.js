// The server's answers, kept up to date: an event says that there is a newer version, and what is shown is asked anew.
import { effect, signal } from "@preact/signals";

/** @typedef {{value: any, error: string, isBusy: boolean}} Answer */

/** The newest version that the server has told of; 0 before the first. */
export const version = signal(0);
/** "live", "lost" (it is tried again), or "" before the first word. */
export const link = signal("");
/** What the server cannot see, and why. */
export const problems = signal(/** @type {string[]} */ ([]));

/** @type {EventSource | null} */
let events = null;

function listen() {
  events = new EventSource("/api/events");
  events.addEventListener("version", (event) => {
    const said = JSON.parse(event.data);
    link.value = "live";
    version.value = said.version;
    problems.value = said.problems;
  });
  events.addEventListener("error", () => {
    link.value = "lost";
    if (events?.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  });
}

/** Listen while the page is seen: a hidden tab rests, and has all anew when it is seen again. */
export function start() {
  const turn = () => {
    if (globalThis.document.hidden) {
      events?.close();
      events = null;
    } else if (!events) listen();
  };
  globalThis.document.addEventListener("visibilitychange", turn);
  turn();
}

/**
 * An answer that follows a question and the version. The first may be an older one, that the server has at hand; the
 * last one stays while a newer is asked for.
 * @param {() => string} question its path below /api/; empty: nothing is asked
 * @returns {{answer: import("@preact/signals").Signal<Answer>, end: () => void}}
 */
export function follow(question) {
  const answer = signal(/** @type {Answer} */ ({ value: null, error: "", isBusy: true }));
  let asked = "";
  /** @type {AbortController | null} */
  let running = null;

  async function ask(/** @type {string} */ path) {
    if (running) {
      if (path === asked) return; // one question at a time; then the newest version
      running.abort();
    }
    const mine = (running = new AbortController());
    const had = path === asked ? answer.peek().value : null;
    asked = path;
    answer.value = { ...answer.peek(), value: had, isBusy: true };
    try {
      const after = had ? `${path.includes("?") ? "&" : "?"}after=${had.version}` : "";
      const reply = await fetch(`/api/${path}${after}`, { signal: mine.signal });
      if (!reply.ok) throw new Error(await reply.text());
      const value = await reply.json();
      if (mine === running) answer.value = { value, error: "", isBusy: false };
    } catch (error) {
      if (mine === running) answer.value = { value: answer.peek().value, error: String(error), isBusy: false };
      return;
    } finally {
      if (mine === running) running = null;
    }
    if (path === asked && answer.peek().value.version < version.peek()) ask(path);
  }

  const stop = effect(() => {
    const path = question();
    if (path && version.value >= 0) ask(path);
  });
  return {
    answer,
    end() {
      stop();
      running?.abort();
    },
  };
}
