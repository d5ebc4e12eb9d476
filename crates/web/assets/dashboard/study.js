// @ts-check
/** One study: its results, running trials and failures. */
import { Actions, answer } from "./actions.js";
import { csvTable } from "./csv.js";
import { duration, factList, get, h, number, setView, settle, table, view, visible, words } from "./dom.js";
import { History } from "./history.js";
import { Events, repeat } from "./live.js";
import { Parallel } from "./parallel.js";
import { Surface, modelled } from "./surface.js";
import { Table, reason, shown, state } from "./table.js";

/** Captions of the pictures drawn by the server. @type {Record<string, string>} */
const CAPTIONS = {
  slices: "Values against each parameter",
  importance: "How much each parameter matters, by a model of the trials",
  "learning-curves": "Values that trainings reported, epoch by epoch",
  transfer: "Weights of old studies, query by query",
  pareto: "The objectives against each other, and the front",
};
/** Formats a share as a percentage. @param {number | null | undefined} share */
function percent(share) {
  if (share === null || share === undefined) return "–";
  return share > 0 && share < 0.001 ? "less than 0.1 %" : `${Math.round(1000 * share) / 10} %`;
}

/**
 * Tables of the data behind the pictures.
 * @type {Record<string, (found: any) => { heads: string[], rows: any[][], text: string }>}
 */
const TABLES = {
  importance: (found) => ({
    heads: ["parameter", "share of the variance", "relevance"],
    rows: found.importance.toSorted((/** @type {any} */ a, /** @type {any} */ b) => b.variance_share - a.variance_share)
      .map((/** @type {any} */ each) => [each.name, percent(each.variance_share), percent(each.relevance)]),
    text: `By a model of ${modelled(found)}: the share of its variance that involves each parameter, and its relevance by length scales. Interactions count for each of their parameters, so shares may add up to more than 100 %.`,
  }),
  transfer: (found) => ({
    heads: ["old study", "weight now", "dropped", "its trials", "its best", "distance"],
    rows: found.old_studies.studies.map((/** @type {any} */ each) => [each.name, percent(each.weight),
      each.dropped === null ? "–" : each.dropped ? "dropped" : "no", each.trials, number(each.best), number(each.distance)]),
    text: `After ${found.n_told} trials, old studies together${found.old_studies.share < 0 ? ", negated," : ""} have ${percent(Math.abs(found.old_studies.share))} of the weight in the next query.`,
  }),
};
/** True if a number of a finished trial was not measured. @param {any} trial */
function lacksNumber(trial) {
  return Object.values(trial.outcomes ?? {}).includes(null);
}

/** Minimum interval between two updates of the pictures. */
const PICTURES_MS = 15000;

/**
 * @param {HTMLElement} main
 * @param {string} id
 */
export async function study(main, id) {
  const about = await get(`api/studies/${encodeURIComponent(id)}`);
  document.title = visible(`fedbo: ${about.name}`);
  const page = new Page(main, about);
  page.listen();
}

class Page {
  /**
   * @param {HTMLElement} main
   * @param {any} about
   */
  constructor(main, about) {
    this.about = about;
    this.base = `api/studies/${encodeURIComponent(about.id)}`;
    /** @type {any[]} finished trials, in completion order */
    this.told = [];
    /** @type {any[]} */
    this.open = [];
    this.minimize = about.direction === "minimize";
    /** @type {{ name: string, direction: string }[]} empty for a single objective */
    this.objectives = about.objectives ?? [];
    /** Null if the page is read-only. */
    this.actions = about.actions ? new Actions(this.base) : null;
    this.facts = h("dl", { class: "facts" });
    this.running = h("div");
    this.stopped = h("p", { class: "quiet" });
    this.failures = h("div");
    /** The groups of failures in the current view. */
    this.failuresDrawn = "";
    this.retried = answer();
    this.detail = h("section", { "aria-live": "polite" });
    const chart = h("div", { class: "chart" });
    this.history = new History(chart, this.minimize, (index) => this.choose(this.told[index]));
    const names = about.parameters.map((/** @type {any} */ each) => each.name);
    this.table = new Table(names, [...(this.objectives.length > 0 ? [] : ["value"]), ...(about.outcomes ?? [])], (trial) => this.choose(trial));
    const log = h("input", { type: "checkbox", onchange: (/** @type {any} */ event) => {
      this.history.setLog(event.target.checked);
      event.target.checked = this.history.log;
    } });
    this.parallel = new Parallel(about.parameters, this.minimize);
    this.surface = new Surface(this.base, about.parameters, this.minimize);
    this.pictures = h("div", { class: "pictures" });
    const kinds = about.pictures.filter((/** @type {string} */ name) => name !== "history");
    this.images = kinds.map((/** @type {string} */ name) => this.picture(name));
    const several = this.objectives.length > 0;
    const aim = several ? this.objectives.map((each) => `${each.name}: ${each.direction}`).join(", ") : this.minimize ? "smaller is better" : "larger is better";
    const first = several ? "pareto" : "history";
    main.replaceChildren(
      h("h1", {}, about.name),
      h("p", { class: "quiet" }, `${about.place} · ${aim} · strategy ${about.strategy.name ?? "of its own"}`),
      this.stopped,
      this.facts,
      ...this.controls(),
      this.running,
      h("h2", {}, several ? `History of ${this.objectives[0].name}, the first objective` : "History"),
      h("label", { class: "check" }, log, " logarithmic values"),
      chart,
      h("p", {}, "Downloads: ", ...[`${first}.svg`, `${first}.png`].flatMap((file) => [h("a", { href: `${this.base}/pictures/${file}`, download: file }, file), " "]),
        h("a", { href: `${this.base}/trials.csv` }, "trials.csv"), " ", h("a", { href: `${this.base}/trials.json` }, "trials.json")),
      this.detail,
      this.failures,
      this.retried,
      h("h2", {}, "All parameters at once"),
      this.parallel.element,
      ...(about.parameters.length > 1 ? [h("h2", {}, "The model over two parameters"), this.surface.element] : []),
      h("h2", {}, "Pictures"),
      this.pictures,
      h("h2", {}, "Trials"),
      this.table.element);
    this.pictures.append(...this.images.map((/** @type {any} */ each) => each.figure));
    this.stale = true;
    this.drawStop();
    setInterval(() => this.refreshPictures(), PICTURES_MS);
    repeat(() => this.refresh(), PICTURES_MS);
    setInterval(() => this.drawRunning(), 1000);
  }

  /** Controls that change the study; empty if the page is read-only. */
  controls() {
    if (this.actions === null) return [];
    const running = () => this.open.filter((trial) => trial.state === "running").length;
    return [
      this.actions.stop(this.about.name, running, () => this.refresh()),
      h("details", {}, h("summary", {}, "Add a point of your own"), this.actions.form(this.about.parameters, () => this.best())),
    ];
  }

  /** Reads the data that other programs may have changed. */
  async refresh() {
    this.about = await get(this.base);
    this.drawStop();
    this.drawFacts();
  }

  drawStop() {
    const stop = this.about.last_stop;
    this.stopped.hidden = stop === null;
    settle(this.stopped, stop === null ? "" : `last stopped ${new Date(stop.stopped_at).toLocaleString()} by ${stop.by}`);
  }

  /** @param {string} name */
  picture(name) {
    const figures = h("div");
    const image = /** @type {HTMLImageElement} */ (h("img", { alt: CAPTIONS[name] ?? name, loading: "lazy" }));
    const links = h("figcaption", {}, `${CAPTIONS[name] ?? name}: `,
      ...["svg", "png"].flatMap((ending) => [h("a", { href: `${this.base}/pictures/${name}.${ending}`, download: `${name}.${ending}` }, ending), " "]));
    const figure = h("figure", { hidden: true }, image, links, figures);
    image.addEventListener("load", () => {
      figure.hidden = false;
      if (name in TABLES) this.tabulate(name, image, figures);
    });
    image.addEventListener("error", () => { figure.hidden = true; });
    return { figure, image, name };
  }

  /**
   * Adds the data of a picture to a table beside it and to its text alternative.
   * @param {string} name
   * @param {HTMLImageElement} image
   * @param {HTMLElement} place
   */
  async tabulate(name, image, place) {
    try {
      const { heads, rows, text } = TABLES[name](await get(`${this.base}/${name}`));
      settle(place, h("p", {}, text), ...(rows.length > 0 ? [csvTable(CAPTIONS[name], heads, rows)] : []));
      image.alt = `${CAPTIONS[name]}. ${text} ${rows.map((row) => `${row[0]}: ${row[1]}`).join(", ")}`;
    } catch (error) {
      settle(place, h("p", { class: "note" }, words(error)));
    }
  }

  /** Text alternative of a picture. @param {string} name */
  describe(name) {
    const best = this.best();
    const found = best === null ? "no value yet" : `best value ${number(best.value)} in trial ${best.number}`;
    const names = this.about.parameters.map((/** @type {any} */ each) => each.name).join(", ");
    return `${CAPTIONS[name] ?? name}; ${this.told.length} trials told, ${found}; parameters: ${names}`;
  }

  refreshPictures() {
    if (!this.stale || document.hidden || this.told.length === 0) return;
    this.stale = false;
    for (const { image, name } of this.images) {
      image.loading = "eager";
      image.alt = this.describe(name);
      image.src = `${this.base}/pictures/${name}.svg?told=${this.told.length}`;
    }
  }

  listen() {
    new Events(`${this.base}/events`, {
      replaced: () => location.reload(),
      trials: (news) => {
        const known = this.told.length === 0 ? 0 : this.told[this.told.length - 1].told_order;
        const told = news.told.filter((/** @type {any} */ trial) => trial.told_order > known);
        this.told.push(...told);
        this.open = news.open;
        this.history.add(told);
        this.stale ||= told.length > 0;
        if (news.is_all || this.told.length <= 1000) this.draw();
      },
    });
  }

  draw() {
    const first = this.drawn !== true;
    this.drawn = true;
    this.history.draw();
    this.parallel.show(this.told);
    this.surface.trials = this.parallel.trials;
    this.drawFacts();
    this.drawRunning();
    this.drawFailures();
    this.table.show(this.told.concat(this.open));
    if (first) {
      this.refreshPictures();
      const asked = view().get("trial");
      if (asked !== null) this.choose(this.told.concat(this.open).find((trial) => String(trial.number) === asked));
    }
  }

  /** The feasible trials that no other trial dominates, for several objectives. */
  front() {
    const covers = (/** @type {any} */ a, /** @type {any} */ b) => this.objectives.every(({ name, direction }) =>
      direction === "minimize" ? a.outcomes[name] <= b.outcomes[name] : a.outcomes[name] >= b.outcomes[name]);
    /** @type {any[]} */
    let front = [];
    for (const trial of this.told) {
      if (trial.feasible !== true || lacksNumber(trial) || front.some((other) => covers(other, trial))) continue;
      front = [...front.filter((other) => !covers(trial, other)), trial];
    }
    return front;
  }

  /** The best feasible trial; with several objectives, by the first of them. */
  best() {
    let best = null;
    for (const trial of this.told) {
      if (trial.state !== "complete" || trial.value === null || trial.feasible === false || lacksNumber(trial)) continue;
      if (best === null || (this.minimize ? trial.value < best.value : trial.value > best.value)) best = trial;
    }
    return best;
  }

  drawFacts() {
    const best = this.best();
    const count = (/** @type {string} */ state) => this.told.filter((trial) => trial.state === state).length;
    const running = this.open.filter((trial) => trial.state === "running").length;
    const n = this.about.n_trials;
    const nTold = this.told.length - count("discarded");
    /** @type {[string, any][]} */
    const facts = [
      this.objectives.length > 0 ? ["on the front", this.front().length] : ["best", best === null ? "–" : h("a", { href: "#", onclick: (/** @type {Event} */ event) => { event.preventDefault(); this.choose(best); } }, `${number(best.value)} (trial ${best.number})`)],
      ["trials told", n === null ? nTold : `${nTold} of ${n}`],
      ["running", running],
      ["waiting", this.open.length - running],
      ["failed", count("failed")],
    ];
    if (this.told.some((trial) => trial.feasible === false)) facts.push(["infeasible", this.told.filter((trial) => trial.feasible === false).length]);
    if (this.about.epochs !== null) facts.push(["stopped early", count("stopped")]);
    if (count("discarded") > 0) facts.push(["discarded", count("discarded")]);
    settle(this.facts, ...factList(facts));
  }

  drawRunning() {
    const running = this.open.filter((trial) => trial.state === "running");
    const rows = running.map((trial) => {
      const since = trial.started_at === null ? null : (Date.now() - Date.parse(trial.started_at)) / 1000;
      const last = trial.reports?.at(-1);
      return [trial.number, duration(since === null ? null : Math.max(0, since)), trial.holder ?? "–", last ? `epoch ${last.epoch}: ${number(last.value)}` : "–"];
    });
    settle(this.running, ...(rows.length === 0 ? [] : [h("h2", {}, "Running"), table("running trials", ["trial", "since", "held by", "last report"], rows)]));
  }

  drawFailures() {
    /** @type {Map<string, any[]>} */
    const groups = new Map();
    for (const trial of this.told) {
      if (trial.state !== "failed") continue;
      const why = reason(trial).split("\n", 1)[0];
      groups.set(why, [...(groups.get(why) ?? []), trial]);
    }
    if (groups.size === 0) {
      this.failures.replaceChildren();
      return;
    }
    const sorted = [...groups].sort((a, b) => b[1].length - a[1].length).slice(0, 10);
    const retried = this.numbersRetried();
    const left = sorted.map(([, trials]) => trials.map((trial) => trial.number).filter((number) => !retried.has(number)));
    // Unchanged groups are not redrawn, so that the focus is kept.
    const drawn = JSON.stringify(sorted.map(([why, trials], index) => [why, trials.length, left[index].length]));
    if (drawn === this.failuresDrawn) return;
    this.failuresDrawn = drawn;
    const had = this.failures.contains(document.activeElement);
    const head = h("h2", { tabindex: -1 }, "Failures, by reason");
    this.failures.replaceChildren(head, h("ul", {}, ...sorted.map(([why, trials], index) =>
      h("li", {}, h("strong", {}, trials.length), " × ", why, " (last: trial ",
        h("a", { href: "#", onclick: (/** @type {Event} */ event) => { event.preventDefault(); this.choose(trials[trials.length - 1]); } }, trials[trials.length - 1].number), ") ",
        this.actions === null || left[index].length === 0 ? null : this.actions.retry(left[index], left[index].length === 1 ? "Try it again" : `Try these ${left[index].length} again`, why, this.retried)))));
    if (had) head.focus();
  }

  /** Numbers of failed trials that have been retried. */
  numbersRetried() {
    const again = this.told.concat(this.open).filter((trial) => trial.state !== "discarded").map((trial) => trial.retry_of).filter((number) => number !== null);
    return new Set([...again, ...(this.actions?.retried ?? [])]);
  }

  /** The button that retries a failed trial. @param {any} trial */
  again(trial) {
    if (this.actions === null || trial.state !== "failed" || this.numbersRetried().has(trial.number)) return [];
    const line = answer();
    return [h("div", { class: "action" }, this.actions.retry([trial.number], "Try it again", `trial ${trial.number}`, line), line)];
  }

  /** Shows one trial. @param {any} trial */
  choose(trial) {
    if (!trial) return;
    setView({ trial: String(trial.number) });
    const before = document.activeElement;
    const close = h("button", { type: "button", onclick: () => {
      setView({ trial: null });
      this.detail.replaceChildren();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    } }, "Close");
    const lines = [
      ["state", state(trial)], ["value", number(trial.value)],
      ...Object.entries(trial.outcomes ?? {}).filter(([name]) => name !== "value").map(([name, value]) => [name, shown(value)]),
      ["source", trial.source], ["asked", trial.asked_at], ["told", trial.told_at ?? "–"],
      ["evaluated in", duration(trial.evaluate_seconds)], ["proposed in", duration(trial.ask_seconds)], ["attempts", trial.attempts],
      ...Object.entries(trial.parameters).map(([name, value]) => [name, shown(value)]),
    ];
    if (trial.retry_of !== null) lines.push(["retry of trial", trial.retry_of]);
    const why = reason(trial);
    const reports = trial.reports ?? [];
    this.detail.replaceChildren(h("div", {},
      h("h2", {}, `Trial ${trial.number} `, close),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `trial ${trial.number}` },
        h("table", {}, h("tbody", {}, ...lines.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value)))))),
      why === "" ? null : h("pre", {}, why),
      ...this.again(trial),
      reports.length === 0 ? null : h("p", {}, "Reports: ", reports.map((/** @type {any} */ each) => `${each.epoch}: ${number(each.value)}`).join(", "))));
  }
}
