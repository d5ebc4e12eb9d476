// @ts-check
/** The table of trials, with filters, sorting and pages. */
import { duration, h, number, setView, settle, view } from "./dom.js";

/** Maximum number of characters of a reason in the table. */
const REASON = 160;
const ROWS = 50;

export class Table {
  /**
   * @param {string[]} parameters
   * @param {string[]} numbers names of a trial's numbers
   * @param {(trial: any) => void} chosen
   */
  constructor(parameters, numbers, chosen) {
    this.parameters = parameters;
    this.numbers = numbers;
    this.chosen = chosen;
    /** @type {any[]} */
    this.trials = [];
    const query = view();
    this.state = query.get("state") ?? "";
    this.text = query.get("find") ?? "";
    this.order = query.get("sort") ?? "-number";
    this.page = 0;
    this.body = h("tbody");
    this.count = h("p", { class: "quiet", role: "status" });
    this.heads = this.columns().map(([name]) => h("th", { scope: "col" }, h("button", { type: "button", onclick: () => this.sort(name) }, name)));
    const states = ["", "complete", "failed", "stopped", "discarded", "running", "waiting"];
    const select = h("select", { onchange: (/** @type {any} */ event) => this.filter({ state: event.target.value }) },
      ...states.map((state) => h("option", { value: state, selected: state === this.state }, state || "all")));
    const input = h("input", { type: "search", value: this.text, oninput: (/** @type {any} */ event) => this.filter({ find: event.target.value }) });
    this.back = h("button", { type: "button", onclick: () => this.turn(-1) }, "Earlier page");
    this.on = h("button", { type: "button", onclick: () => this.turn(1) }, "Next page");
    this.element = h("div", { class: "trials" },
      h("div", { class: "tools" }, h("label", {}, "State", select), h("label", {}, "Find in reasons and values", input), this.back, this.on),
      this.count,
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "trials" }, h("table", {}, h("thead", {}, h("tr", {}, ...this.heads)), this.body)));
  }

  /** @returns {[string, (trial: any) => any][]} */
  columns() {
    return [
      ["number", (trial) => trial.number],
      ["state", (trial) => state(trial)],
      ...this.numbers.map((name) => /** @type {[string, (trial: any) => any]} */ ([name, (trial) => numberOf(trial, name)])),
      ...this.parameters.map((name) => /** @type {[string, (trial: any) => any]} */ ([name, (trial) => (Object.hasOwn(trial.parameters, name) ? trial.parameters[name] : undefined)])),
      ["seconds", (trial) => trial.evaluate_seconds],
      ["source", (trial) => trial.source],
      ["reason", (trial) => reason(trial)],
    ];
  }

  /** @param {string} name */
  sort(name) {
    this.order = this.order === name ? `-${name}` : name;
    setView({ sort: this.order === "-number" ? null : this.order });
    this.page = 0;
    this.draw();
  }

  /** @param {{ state?: string, find?: string }} changes */
  filter({ state = this.state, find = this.text }) {
    this.state = state;
    this.text = find;
    this.page = 0;
    setView({ state, find });
    this.draw();
  }

  /** @param {number} by */
  turn(by) {
    this.page += by;
    this.draw();
  }

  /** @param {any[]} trials */
  show(trials) {
    this.trials = trials;
    this.draw();
  }

  draw() {
    const columns = this.columns();
    const [name, sign] = this.order.startsWith("-") ? [this.order.slice(1), -1] : [this.order, 1];
    const key = (columns.find(([column]) => column === name) ?? columns[0])[1];
    const wanted = this.text.toLowerCase();
    const found = this.trials.filter((trial) =>
      (this.state === "" || trial.state === this.state) &&
      (wanted === "" || `${reason(trial)} ${trial.source} ${Object.values(trial.parameters).join(" ")}`.toLowerCase().includes(wanted)));
    found.sort((a, b) => compare(key(a), key(b), sign));
    const pages = Math.max(1, Math.ceil(found.length / ROWS));
    this.page = Math.min(Math.max(0, this.page), pages - 1);
    const first = this.page * ROWS;
    settle(this.count, found.length === 0 ? "No trial matches." : `${found.length} trials; page ${this.page + 1} of ${pages}`);
    /** @type {any} */ (this.back).disabled = this.page === 0;
    /** @type {any} */ (this.on).disabled = this.page === pages - 1;
    this.heads.forEach((head, index) => head.setAttribute("aria-sort", columns[index][0] !== name ? "none" : sign > 0 ? "ascending" : "descending"));
    settle(this.body, ...found.slice(first, first + ROWS).map((trial) =>
      h("tr", {},
        h("th", { scope: "row" }, h("a", { href: `?${withTrial(trial.number)}`, onclick: (/** @type {Event} */ event) => { event.preventDefault(); this.chosen(trial); } }, trial.number)),
        h("td", {}, state(trial)),
        ...this.numbers.map((name) => h("td", {}, number(numberOf(trial, name)))),
        ...this.parameters.map((parameter) => h("td", {}, shown(trial.parameters[parameter]))),
        h("td", {}, duration(trial.evaluate_seconds)),
        h("td", {}, trial.source),
        h("td", { class: "long" }, short(reason(trial))))));
  }
}

/** A number of a trial by its name. A stopped trial also has a `value`. @param {any} trial @param {string} name */
function numberOf(trial, name) {
  return name === "value" ? trial.value : trial.outcomes?.[name] ?? null;
}

/** Returns the state of a trial, or `infeasible` if it violates a constraint. @param {any} trial */
export function state(trial) {
  return trial.feasible === false ? "infeasible" : trial.state;
}

/** @param {number} trial */
function withTrial(trial) {
  const query = view();
  query.set("trial", String(trial));
  return query;
}

/** Compares numbers by size and texts by letters. Absent values are last in either order. @param {any} a @param {any} b @param {number} sign */
function compare(a, b, sign) {
  const absent = (/** @type {any} */ value) => value === null || value === undefined || value === "";
  if (absent(a) || absent(b)) return Number(absent(a)) - Number(absent(b));
  const by = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  return sign * by;
}

/** @param {any} value */
export function shown(value) {
  return typeof value === "number" ? number(value) : String(value ?? "–");
}

/** Returns the start of a long text. The trial's page shows all of it. @param {string} text */
function short(text) {
  const line = text.split("\n", 1)[0];
  return line.length > REASON ? `${line.slice(0, REASON)}…` : line;
}

/** The reason why a trial failed or was stopped. @param {any} trial */
export function reason(trial) {
  return trial.failure ? `${trial.failure.kind}: ${trial.failure.message}` : trial.stopped_because ?? "";
}
