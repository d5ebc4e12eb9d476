// @ts-check
/** Keeps a page up to date: server-sent events and polling. */
import { ask, connection, words } from "./dom.js";

/** Initial and maximum delay before a retry. */
const [AGAIN_MS, AGAIN_MAX_MS] = [1000, 15_000];
/** Time after which the page shows that it is waiting for a response. */
const PATIENCE_MS = 10_000;

/**
 * Events of an address, and a status line at the top of the page. A hidden page closes its connection, because a browser has only a few
 * connections to a server, which visible pages need.
 */
export class Events {
  /**
   * @param {string} address
   * @param {Record<string, (data: any) => void>} listeners
   */
  constructor(address, listeners) {
    this.address = address;
    this.listeners = listeners;
    /** Id of the last event. The server resumes after it. */
    this.last = "";
    this.wait = AGAIN_MS;
    this.timer = 0;
    /** @type {AbortController | null} */
    this.asked = null;
    this.turn = () => (document.hidden ? this.rest() : this.begin());
    document.addEventListener("visibilitychange", this.turn);
    this.turn();
  }

  close() {
    document.removeEventListener("visibilitychange", this.turn);
    this.rest();
  }

  rest() {
    clearTimeout(this.timer);
    this.asked?.abort();
    this.asked = null;
  }

  async begin() {
    this.rest();
    const asked = new AbortController();
    this.asked = asked;
    const why = await this.read(asked.signal).catch((error) => (error instanceof TypeError ? "no answer" : words(error)));
    if (this.asked !== asked) return;
    connection(`${why}; trying again`, true);
    this.timer = setTimeout(() => this.begin(), this.wait);
    this.wait = Math.min(2 * this.wait, AGAIN_MAX_MS);
  }

  /** Dispatches events until the stream ends, and returns the reason why it ended. @param {AbortSignal} signal */
  async read(signal) {
    const response = await ask(this.address, { signal, headers: this.last === "" ? {} : { "last-event-id": this.last } });
    const reader = response.body?.getReader();
    const decoder = new TextDecoder();
    let [why, text] = ["no answer", ""];
    for (;;) {
      const part = await reader?.read();
      if (part === undefined || part.done) return why;
      const texts = (text + decoder.decode(part.value, { stream: true })).split("\n\n");
      text = texts.pop() ?? "";
      for (const each of texts) if (!signal.aborted) why = this.hand(each) ?? why;
    }
  }

  /** Dispatches an event. Returns the problem if it reports one. @param {string} text */
  hand(text) {
    const fields = new Map(text.split("\n").map((line) => /** @type {[string, string]} */ (line.split(/: ?(.*)/s, 2))));
    const [name, data] = [fields.get("event"), fields.get("data")];
    if (name === undefined || data === undefined) return null;
    if (name === "problem") return `cannot be read: ${JSON.parse(data)}`;
    this.last = fields.get("id") ?? this.last;
    this.wait = AGAIN_MS;
    connection("live");
    this.listeners[name]?.(JSON.parse(data));
    return null;
  }
}

/**
 * Calls an asynchronous function repeatedly while the page is visible, without overlapping calls. Returns a function that calls it immediately.
 * @param {() => Promise<void>} work
 * @param {number} every_ms
 */
export function repeat(work, every_ms) {
  let began = 0;
  /** Number of consecutive failures, and the time before which there is no retry. */
  let [failed, until] = [0, 0];
  const again = async () => {
    if (document.hidden || Date.now() < until) return;
    if (began > 0) {
      if (Date.now() - began > PATIENCE_MS) connection("no answer yet", true);
      return;
    }
    began = Date.now();
    try {
      await work();
      failed = 0;
    } catch (error) {
      connection(`${words(error)}; trying again`, true);
      failed += 1;
      until = Date.now() + Math.min(15_000, every_ms * 2 ** Math.min(failed, 4));
    }
    began = 0;
  };
  setInterval(again, every_ms);
  document.addEventListener("visibilitychange", again);
  return again;
}
