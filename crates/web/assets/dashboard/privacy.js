// @ts-check
/** A ledger of releases: its spending and budget, their meaning, and the chain of entries. */
import { factList, get, h, number, settle, words as said } from "./dom.js";
import { csvTable } from "./csv.js";
import { Lines } from "./lines.js";

/** Number of visible digits of a hash. */
const DIGITS = 12;

export class Privacy {
  /** @param {string} base the address of the ledger's owner, such as `api/runs/ID` */
  constructor(base) {
    this.base = base;
    /** The displayed head. @type {string | null} */
    this.head = null;
    this.shown = "";
    this.chart = new Lines("releases", "epsilon");
    this.says = h("div", { role: "status" });
    this.button = h("button", { type: "button", onclick: () => this.check() }, "Check the ledger");
    this.tools = h("div", { class: "tools" }, this.button);
    this.element = h("section", { "aria-label": "privacy" }, h("h2", {}, "Privacy"), h("p", { class: "quiet" }, "Reading the ledger…"));
  }

  /** Reads the ledger, and redraws it if it has changed. */
  async refresh() {
    try {
      const known = this.head === null ? "" : `?${new URLSearchParams({ head: this.head })}`;
      const ledger = await get(`${this.base}/ledger${known}`);
      const shown = JSON.stringify(ledger);
      if (ledger.unchanged || shown === this.shown) return;
      this.shown = shown;
      this.draw(ledger);
    } catch (error) {
      [this.head, this.shown] = [null, ""];
      settle(this.element, h("h2", {}, "Privacy"), note(said(error)));
    }
  }

  /** @param {any} ledger */
  draw(ledger) {
    const { problem, statement } = ledger;
    this.head = problem === null ? statement.head : null;
    const parts = [h("h2", {}, "Privacy")];
    if (problem !== null) parts.push(note(`The ledger cannot be trusted: ${problem}`));
    if (statement?.is_overdrawn) {
      parts.push(note(`More was spent than the budget allows: epsilon is ${spent(statement.epsilon)}, and ${number(statement.budget_epsilon)} may be spent. Nothing more is released.`));
    }
    if (statement === undefined) {
      settle(this.element, ...parts, this.tools, this.says);
      return;
    }
    settle(this.element, ...parts, facts(ledger), ...words(ledger.promise),
      h("h3", {}, "Epsilon after each release"), this.chart.element, courseTable(ledger),
      ...noise(ledger.scale),
      h("h3", {}, "Ledger"), h("p", { class: "quiet" }, "Each entry has a hash over itself and all before it, so that no release can be changed, left out or added unnoticed. The last one is the head: store it elsewhere and compare."),
      this.tools, this.says, chain(ledger));
    const course = (/** @type {string} */ key) => ledger.course.map((/** @type {any} */ point) => point[key]);
    this.chart.show(course("releases"), [
      { label: "spent", values: course("epsilon"), colour: "--accent", step: true },
      { label: "budget", values: ledger.course.map(() => statement.budget_epsilon), colour: "--bad", dash: [8, 4] },
    ]);
  }

  /** Requests a verification of the whole ledger. */
  async check() {
    // A disabled button would lose the focus.
    if (this.button.getAttribute("aria-disabled") === "true") return;
    this.button.setAttribute("aria-disabled", "true");
    this.says.replaceChildren(h("p", { class: "quiet" }, "Reading all of the ledger…"));
    try {
      this.says.replaceChildren(...verdict(await get(`${this.base}/ledger/check`)));
    } catch (error) {
      this.says.replaceChildren(note(said(error)));
    }
    this.button.removeAttribute("aria-disabled");
  }
}

/**
 * Formats a number with a few digits, rounded only in the safe direction.
 * @param {number | undefined} value
 * @param {number} digits
 * @param {boolean} up
 */
function safe(value, digits, up) {
  if (value === undefined || !(value > 0)) return number(value);
  const near = Number(value.toPrecision(digits));
  const unit = 10 ** (Math.floor(Math.log10(value)) - digits + 1);
  const isSafe = up ? near >= value : near <= value;
  return number(isSafe ? near : Number((near + (up ? unit : -unit)).toPrecision(digits)));
}

/** A cost, rounded up. @param {number | undefined} value */
const spent = (value) => safe(value, 6, true);
/** A remainder, rounded down. @param {number | undefined} value */
const left = (value) => safe(value, 4, false);

/** @param {string} text */
function note(text) {
  return h("p", { class: "note", role: "alert" }, text);
}

/** @param {any} ledger */
function facts({ statement, scale }) {
  const further = statement.further_releases;
  return h("dl", { class: "facts" }, ...factList([
    ["ε spent", spent(statement.epsilon)], ["ε of the budget", number(statement.budget_epsilon)], ["ε remaining", left(statement.remaining_epsilon)],
    ["further such releases", further === null ? "–" : further],
    ["releases", scale === null ? statement.releases : `${statement.releases} of ${scale.planned_releases} planned`],
    ["δ", statement.delta.toExponential()], ["accountant", statement.accountant], ["mode", statement.mode],
  ]));
}

/** @param {any} promise */
function words(promise) {
  return [
    h("p", {}, h("strong", {}, "Promised: "), `${promise.promised}.`),
    h("p", {}, h("strong", {}, "Not promised: "), `${promise.not_promised}.`),
    h("details", {}, h("summary", {}, "What these words mean"), h("ul", {},
      h("li", {}, `Neighbours are ${promise.neighbours}.`),
      h("li", {}, "Delta is the probability with which this bound may fail."),
      h("li", {}, "Epsilon is an upper bound for all releases together, computed by the accountant from the noise that was used. It does not add up over releases, so the remainder is not a price: the number of further releases counts."),
      h("li", {}, `Mode ${promise.mode}.`))),
  ];
}

/** @param {any} ledger */
function courseTable({ course: points, statement }) {
  const rows = points.map((/** @type {any} */ point) => [point.releases, spent(point.epsilon), left(Math.max(0, statement.budget_epsilon - point.epsilon))]);
  const some = points.length > 1 && points[points.length - 1].releases > points.length - 1;
  return h("details", {}, h("summary", {}, some ? "As a table, after some of the releases" : "As a table"), csvTable("epsilon by release", ["releases", "epsilon", "left of the budget"], rows));
}

/** Comparison of noise and signal. @param {any} scale */
function noise(scale) {
  if (scale === null) return [];
  const head = h("h3", {}, "Noise and signal");
  if (scale.noise_std === null) return [head, h("p", {}, `In mode paper the noise follows the weights of each round; its multiplier is ${number(scale.noise_multiplier)}.`)];
  const share = (/** @type {number} */ value) => number(value / scale.vector_norm);
  const rows = [
    ["one agent's vector, at most", number(scale.vector_norm), "1", `S / √P, with S = ${number(scale.max_norm)} and P = ${scale.regions}: longer ones are clipped, so that no agent moves a sum by more`],
    ["noise in one number of a sum", number(scale.noise_std), share(scale.noise_std), `standard deviation; z = ${number(scale.noise_multiplier)} is the noise multiplier`],
    ["noise in a sum", number(scale.noise_norm), share(scale.noise_norm), `norm over all ${scale.features} numbers`],
    ["a sum, at most", number(scale.largest_sum), share(scale.largest_sum), scale.regions > 1 ? "if all agents of a region take part and agree" : "if all agents take part and agree: N S"],
    ...(scale.regions > 1 ? [["one sum of all regions, at most", number(scale.largest_sum_of_all), share(scale.largest_sum_of_all), "once the weights of regions are equal, there is one sum of all agents"]] : []),
  ];
  const ratio = scale.noise_to_signal;
  return [head,
    h("p", {}, `A release is ${number(Number(ratio.toPrecision(3)))} times as much noise as signal${ratio > 1 ? ", even if all agents agree" : ", if all agents agree"} (${scale.agents} agents, each taking part with probability ${number(scale.sampling_rate)}).`),
    csvTable("noise and signal", ["quantity", "size", "over the clipping bound", "meaning"], rows.map((row) => [...row.slice(0, 3), h("td", { class: "long" }, row[3])]))];
}

/** The entries with their hashes, newest first. @param {any} ledger */
function chain({ entries, statement, course: points }) {
  const after = new Map(points.map((/** @type {any} */ point) => [point.releases, point.epsilon]));
  const rows = entries.map((/** @type {any} */ entry) => [entry.seq, entry.round, price(statement.charges[entry.charge]), spent(after.get(entry.seq)), entry.bytes, hash(entry.hash)]).reverse();
  const [seq, head] = statement.head.split(":");
  const n_left = statement.releases - entries.length;
  return h("div", {},
    h("p", {}, `Head: entry ${seq}, `, hashText(head, statement.head), " · configuration ", hashText(statement.config_sha256, statement.config_sha256)),
    n_left > 0 ? h("p", { class: "quiet" }, `The last ${entries.length} entries; ${n_left} before them are left out.`) : null,
    csvTable("ledger", ["entry", "round", "price", "epsilon after it", "bytes", "hash"], rows));
}

/** The charged event of an entry. @param {any} charge */
function price(charge) {
  if (charge === undefined) return "–";
  const sample = charge.sampling === "poisson" ? `q = ${number(charge.sampling_rate)}` : `${charge.n_sampled} of ${charge.n_agents}`;
  return `${sample}, z = ${number(charge.noise_multiplier)}`;
}

/** @param {string} value */
function hash(value) {
  const cell = h("td", {}, hashText(value, value));
  cell.dataset.value = value;
  return cell;
}

/**
 * A shortened hash with a button that copies it.
 * @param {string} value
 * @param {string} whole
 */
function hashText(value, whole) {
  return h("span", {}, h("code", { title: whole }, `${value.slice(0, DIGITS)}…`), " ", h("button", {
    type: "button", class: "link", "aria-label": `copy ${whole}`, onclick: async (/** @type {any} */ { currentTarget: button }) => {
      try {
        await navigator.clipboard.writeText(whole);
        button.textContent = "copied";
      } catch {
        button.textContent = whole;
      }
    },
  }, "copy"));
}

/** The result of a verification. @param {any} found */
function verdict(found) {
  const releases = `${found.entries} ${found.entries === 1 ? "release" : "releases"}`;
  if (found.is_sound) {
    const compared = found.compared_with === null
      ? "It cannot show whether releases are missing at its end: no head was stored beside it. Compare its head with an agent's."
      : `It contains the head that was stored beside it, ${found.compared_with}. Only a head stored elsewhere reveals a folder that was rolled back as a whole.`;
    return [h("p", {}, h("strong", {}, `The ledger is sound: ${releases}.`), ` ${compared}`)];
  }
  return [note(`The ledger is not sound: ${found.problems.length} ${found.problems.length === 1 ? "problem" : "problems"} in ${releases}. Nothing may be released from it: continue from a sound copy with a head that you know, or start a new study with its own budget.`),
    h("ul", {}, ...found.problems.map((/** @type {any} */ each) => h("li", {}, each.entry === null ? each.message : `entry ${each.entry}: ${each.message}`)))];
}
