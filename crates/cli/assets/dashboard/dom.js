// @ts-check
/** Building blocks of the pages. Text goes into a page as text, never as HTML. */

/**
 * An element with attributes and children. An attribute whose name begins with "on" is a listener.
 * @param {string} tag
 * @param {Record<string, any>} attributes
 * @param {...(Node | string | number | null | undefined)} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined) element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/**
 * A number for people: six digits, and all digits of a whole number.
 * @param {number | null | undefined} value
 */
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-4 || size >= 1e7) ? value.toExponential(4) : String(Number(value.toPrecision(6)));
}

/**
 * A time as a duration for people.
 * @param {number | null | undefined} seconds
 */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${Math.round(seconds / 86400)} days`;
}

/**
 * The JSON at an address; an error in the server's words otherwise.
 * @param {string} address
 */
export async function get(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

/**
 * The view that the address holds.
 * @returns {URLSearchParams}
 */
export function view() {
  return new URLSearchParams(location.search);
}

/**
 * Changes the view in the address, so that a link holds it.
 * @param {Record<string, string | null>} changes
 */
export function setView(changes) {
  const query = view();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  history.replaceState(null, "", `?${query}`);
}

/**
 * Says whether what is shown is live.
 * @param {string} text
 * @param {boolean} lost
 */
export function connection(text, lost = false) {
  const line = document.getElementById("connection");
  if (!line || line.textContent === text) return;
  line.textContent = text;
  line.classList.toggle("lost", lost);
}

/**
 * A table that scrolls by itself where it is wider than the page.
 * @param {string} label
 * @param {string[]} heads
 * @param {(Node | string | number | null | undefined)[][]} rows the first cell of each is its head
 */
export function table(label, heads, rows) {
  const cells = (/** @type {any[]} */ row) => row.map((cell, index) =>
    index === 0 ? h("th", { scope: "row" }, cell) : cell instanceof HTMLTableCellElement ? cell : h("td", {}, cell ?? "–"));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...cells(row))))));
}

/**
 * A list of facts with their names.
 * @param {[string, any][]} facts
 */
export function factList(facts) {
  return facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));
}

/** The colour that a name of the style sheet has now. @param {string} name */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** What the axes of all charts share. */
export function axis() {
  return { font: '12px "Noto Sans", sans-serif', labelFont: 'bold 12px "Noto Sans", sans-serif', stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
}

/**
 * Events of an address, and a line at the top that says whether they come, or why not.
 * @param {string} address
 * @param {Record<string, (data: any) => void>} listeners
 */
export function events(address, listeners) {
  const source = new EventSource(address);
  for (const [name, listener] of Object.entries(listeners)) {
    source.addEventListener(name, (event) => {
      connection("live");
      listener(JSON.parse(event.data));
    });
  }
  let why = "";
  source.addEventListener("problem", (event) => { why = JSON.parse(event.data); });
  source.addEventListener("error", () => {
    connection(why === "" ? "no answer; trying again" : `cannot be read: ${why}`, true);
    why = "";
  });
  return source;
}
