// @ts-check
/** Building blocks of the pages. Text is always inserted as text, never as HTML. */

/** Characters that change the text direction, which could disguise one name as another. */
const TURNS = /[\u202a-\u202e\u2066-\u2069]/g;

/** Makes characters that change the text direction visible. @param {string} text */
export function visible(text) {
  return text.replace(TURNS, (turn) => `‹U+${turn.charCodeAt(0).toString(16).toUpperCase()}›`);
}

/** Event listeners of elements, by the type of event. @type {WeakMap<Element, Record<string, (event: Event) => void>>} */
const listeners = new WeakMap();

/** Passes an event to the current listener of its element. @param {Event} event */
function hear(event) {
  if (event.currentTarget instanceof Element) listeners.get(event.currentTarget)?.[event.type]?.(event);
}

/** @param {Element} element @param {Record<string, (event: Event) => void>} heard */
function listen(element, heard) {
  listeners.set(element, heard);
  for (const type of Object.keys(heard)) element.addEventListener(type, hear);
}

/**
 * Creates an element with attributes and children. Attributes with names that start with "on" are listeners.
 * @param {string} tag
 * @param {Record<string, any>} attributes
 * @param {...(Node | string | number | null | undefined)} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  /** @type {Record<string, (event: Event) => void>} */
  const heard = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) heard[name.slice(2)] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  listen(element, heard);
  element.append(...nodes(children));
  return element;
}

/** @param {(Node | string | number | null | undefined)[]} children */
function nodes(children) {
  return children.filter((child) => child !== null && child !== undefined && child !== "")
    .map((child) => (child instanceof Node ? child : new Text(visible(String(child)))));
}

/** Attributes that a page sets after it has created an element. */
const GIVEN_LATER = ["id", "open"];

/**
 * Updates the children of an element. Matching elements are kept, and with them the focus, scroll positions and open details. A child
 * that the caller keeps between two calls must be a direct child of the element.
 * @param {Element} place
 * @param {...(Node | string | number | null | undefined)} children
 */
export function settle(place, ...children) {
  /** @type {Element[]} */
  const focused = [];
  if (place.contains(document.activeElement)) {
    for (let element = document.activeElement; element !== null; element = element.parentElement) focused.push(element);
  }
  arrange(place, nodes(children));
  if (focused.length === 0 || document.activeElement === focused[0]) return;
  const next = focused.find((element, index) => element.isConnected && (index === 0 || element.hasAttribute("tabindex")));
  if (next instanceof HTMLElement) next.focus({ preventScroll: true });
}

/** @param {Element} place @param {Node[]} children */
function arrange(place, children) {
  const same = new Set(children.filter((child) => child.parentNode === place));
  /** @type {Map<string, Node[]>} */
  const there = new Map();
  for (const child of place.childNodes) {
    if (same.has(child)) continue;
    const found = there.get(key(child));
    if (found === undefined) there.set(key(child), [child]);
    else found.push(child);
  }
  const kept = children.map((child) => {
    const old = same.has(child) ? undefined : there.get(key(child))?.shift();
    if (old === undefined) return child;
    become(old, child);
    return old;
  });
  const stays = new Set(kept);
  for (const child of [...place.childNodes]) if (!stays.has(child)) place.removeChild(child);
  let at = place.firstChild;
  for (const child of kept) {
    if (child === at) at = at.nextSibling;
    else place.insertBefore(child, at);
  }
}

/** Identifies a node among its siblings. A row is identified by its head. @param {Node} node */
function key(node) {
  if (node instanceof HTMLTableRowElement) return `row ${node.cells[0]?.textContent}`;
  return node instanceof Element ? `${node.nodeName} ${node.className}` : node.nodeName;
}

/** @param {Node} old @param {Node} fresh */
function become(old, fresh) {
  if (!(old instanceof Element && fresh instanceof Element)) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const name of old.getAttributeNames()) if (!fresh.hasAttribute(name) && !GIVEN_LATER.includes(name)) old.removeAttribute(name);
  listen(old, listeners.get(fresh) ?? {});
  arrange(old, [...fresh.childNodes]);
}

/** The message of an error. @param {unknown} error */
export function words(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Formats a number with six digits, or an integer with all its digits.
 * @param {number | null | undefined} value
 */
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-4 || size >= 1e7) ? value.toExponential(4) : String(Number(value.toPrecision(6)));
}

/**
 * Formats a time in seconds as a duration.
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
 * Fetches an address. Throws an error with the server's message if it fails.
 * @param {string} address
 * @param {RequestInit} options
 */
export async function ask(address, options = {}) {
  const response = await fetch(address, options).catch(() => { throw new Error("no answer"); });
  if (response.ok) return response;
  // A proxy can respond with its own page.
  const isText = response.headers.get("content-type")?.startsWith("text/plain") ?? false;
  throw new Error(isText ? await response.text() : `the answer was ${response.status} ${response.statusText}`);
}

/**
 * Fetches JSON. Throws an error with the server's message if it fails.
 * @param {string} address
 */
export async function get(address) {
  return (await ask(address)).json();
}

/**
 * Returns the view specified in the URL.
 * @returns {URLSearchParams}
 */
export function view() {
  return new URLSearchParams(location.search);
}

/**
 * Changes the view in the URL, so that links include it.
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
 * Shows the state of the connection.
 * @param {string} text
 * @param {boolean} lost
 */
export function connection(text, lost = false) {
  const line = document.getElementById("connection");
  if (!line) return;
  settle(line, text);
  line.classList.toggle("lost", lost);
}

/**
 * Creates a table that scrolls if it is wider than the page.
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
 * Creates a list of named facts.
 * @param {[string, any][]} facts
 */
export function factList(facts) {
  return facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));
}

/** The current value of a colour in the style sheet. @param {string} name */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Steps of an axis of integers. */
const WHOLE = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

/** An axis of integers. @param {string} label */
export function wholeAxis(label) {
  return { ...axis(), label, incrs: WHOLE };
}

/** Common options of the axes of all charts. */
export function axis() {
  return { font: '12px "Noto Sans", sans-serif', labelFont: 'bold 12px "Noto Sans", sans-serif', stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
}
