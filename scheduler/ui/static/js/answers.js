// The server's answers, kept up to date: an event says that there is a newer version, and what is shown is asked anew.
import { useEffect, useState } from "preact/hooks";
import { effect, signal } from "@preact/signals";
import { place } from "./view.js";

const AGAIN_MS = 3000;

/** @template [T=any] @typedef {{value: T | null, error: string, isBusy: boolean}} Answer `T`: one of `Api`, which has the forms of ui/answers.py */
/** @typedef {Record<string, string>} Query */

/** The newest version that the server has announced; 0 before the first. */
export const version = signal(0);
/** "live", "lost" (it is tried again), or "" before the first word. */
export const link = signal("");
/** What the server cannot see, and why. */
export const problems = signal(/** @type {string[]} */ ([]));

/** What is sent with each request where the server asks who somebody is; kept until the tab is closed. */
export const token = signal(globalThis.sessionStorage.getItem("token") ?? "");
/** Whether the server wants a token, or another one. */
export const isAsked = signal("");

/** @param {string} said */
export function enter(said) {
  globalThis.sessionStorage.setItem("token", said);
  token.value = said;
  isAsked.value = "";
  if (!listening) listen();
}

/** An answer of the server, or the error that it says.
 * @param {string} path below /api/ @param {RequestInit} [how] @returns {Promise<Response>} */
export async function ask(path, how = {}) {
  const headers = { ...how.headers, ...(token.peek() ? { Authorization: `Bearer ${token.peek()}` } : {}) };
  const reply = await fetch(`/api/${path}`, { ...how, headers });
  if (reply.ok) return reply;
  const text = said(await reply.text());
  if (reply.status === 401 || reply.status === 403) isAsked.value = token.peek() ? text : "Who are you?";
  throw new Error(text);
}

/** The words of an answer that the API server worded.
 * @param {string} text */
function said(text) {
  try {
    return String(JSON.parse(text).message ?? text);
  } catch {
    return text;
  }
}

/** @type {AbortController | null} */
let listening = null;

async function listen() {
  const mine = (listening = new AbortController());
  try {
    const reply = await ask("events", { signal: mine.signal });
    const reader = /** @type {ReadableStream<Uint8Array>} */ (reply.body).getReader();
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line.startsWith("data: ")) hear(JSON.parse(line.slice(6)));
    }
  } catch {
    // whatever ended it: it is tried again
  }
  if (mine !== listening) return;
  listening = null;
  if (isAsked.peek()) return;
  link.value = "lost";
  setTimeout(() => {
    if (!listening && !globalThis.document.hidden) listen();
  }, AGAIN_MS);
}

/** @param {{version: number, problems: string[]}} said */
function hear(said) {
  link.value = "live";
  version.value = said.version;
  problems.value = said.problems;
}

/** Listen while the page is seen: a hidden tab rests, and has all anew when it is seen again. */
export function start() {
  const turn = () => {
    if (globalThis.document.hidden) {
      listening?.abort();
      listening = null;
    } else if (!listening) listen();
  };
  globalThis.document.addEventListener("visibilitychange", turn);
  turn();
}

/**
 * An answer that follows a question and the version. The first may be an older one, that the server has at hand; the
 * last one stays while a newer is asked for.
 * @template {keyof Api.Answers} Name
 * @param {Name} name of what is asked for below /api/
 * @param {() => Query | null} [query] null: nothing is asked
 * @returns {{answer: import("@preact/signals").Signal<Answer<Api.Answers[Name]>>, end: () => void}}
 */
export function follow(name, query = () => ({})) {
  const answer = signal(/** @type {Answer} */ ({ value: null, error: "", isBusy: true }));
  let asked = "";
  /** @type {AbortController | null} */
  let running = null;

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let soon;

  async function follows(/** @type {string} */ path, isSame = false) {
    globalThis.clearTimeout(soon);
    if (running) {
      if (path === asked) return; // one question at a time; then the newest version
      running.abort();
    }
    const mine = (running = new AbortController());
    const had = path === asked ? answer.peek().value : null;
    asked = path;
    answer.value = { ...answer.peek(), value: had, isBusy: !isSame };
    try {
      const after = had && !isSame ? `&after=${had.version}` : "";
      const value = await (await ask(`${path}${after}`, { signal: mine.signal })).json();
      if (mine === running) answer.value = { value, error: "", isBusy: false };
    } catch (error) {
      if (mine === running) answer.value = { value: answer.peek().value, error: String(error), isBusy: false };
      return;
    } finally {
      if (mine === running) running = null;
    }
    if (path !== asked) return;
    if (answer.peek().value.version < version.peek()) follows(path);
    else if (answer.peek().value.again) soon = setTimeout(later, AGAIN_MS);
  }

  /** What the server corrects meanwhile; a hidden tab rests. */
  function later() {
    if (globalThis.document.hidden) soon = setTimeout(later, AGAIN_MS);
    else follows(asked, true);
  }

  const stop = effect(() => {
    const asks = query();
    if (asks && version.value >= 0 && token.value !== null) follows(`${name}?${new URLSearchParams(asks)}`);
  });
  return {
    answer,
    end() {
      stop();
      globalThis.clearTimeout(soon);
      running?.abort();
    },
  };
}

/** An answer, kept up to date while the view is shown that asks.
 * @template {keyof Api.Answers} Name @param {Name} name @param {() => Query | null} [query]
 * @returns {Answer<Api.Answers[Name]>} */
export function useAnswer(name, query) {
  const [following] = useState(() => {
    const { view } = place.peek();
    return follow(name, query && (() => (place.value.view === view ? query() : null)));
  });
  useEffect(() => following.end, []);
  return following.answer.value;
}
