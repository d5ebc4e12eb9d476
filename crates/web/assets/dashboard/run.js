// @ts-check
/** A run: a federation, an experiment or a game, live and after its end. */
import { duration, factList, get, h, number, setView, settle, view, visible } from "./dom.js";
import { csvTable } from "./csv.js";
import { Game } from "./game.js";
import { Events, repeat } from "./live.js";
import { Means } from "./means.js";
import { Privacy } from "./privacy.js";
import { Schedule } from "./schedule.js";
import { Topology } from "./topology.js";
import { Trust } from "./trust.js";
import { Grid, kindOf, trustOf } from "./grid.js";

/** Minimum interval between two updates of the means. */
const MEANS_MS = 5000;
/** Maximum number of visible queries per agent. */
const QUERIES = 1000;
/** Captions of the pictures of a folder. @type {Record<string, string>} */
const CAPTIONS = {
  curves: "Curves of all arms and of each agent", graph: "The graph of agents", payoffs: "Payoffs, round by round",
  actions: "Actions, round by round", tradeoff: "Privacy against utility", "task-weights": "Weights of old tasks",
};

/** Verdicts with the marks of the final table. @type {Record<string, string>} */
const VERDICTS = { gain: "▲ gain", loss: "▼ loss", unclear: "unclear" };
/** Names of metrics. @type {Record<string, string>} */
const METRICS = { best: "final best", regret: "final regret", mean: "mean value", "mean-regret": "mean regret", "log-regret": "final log10 regret" };

/**
 * @param {HTMLElement} main
 * @param {string} id
 */
export async function run(main, id) {
  const page = new Page(main, id, await get(`api/runs/${encodeURIComponent(id)}`));
  page.listen();
}

class Page {
  /**
   * @param {HTMLElement} main
   * @param {string} id
   * @param {any} about
   */
  constructor(main, id, about) {
    this.base = `api/runs/${encodeURIComponent(id)}`;
    this.about = about;
    document.title = visible(`fedbo: ${about.name}`);
    this.arm = view().get("arm");
    this.run = view().get("run");
    this.agent = view().get("agent");
    this.facts = h("dl", { class: "facts" });
    const means = h("div");
    this.means = new Means(means);
    this.arms = h("select", { onchange: (/** @type {any} */ event) => this.turn({ arm: event.target.value }) });
    this.runs = h("select", { onchange: (/** @type {any} */ event) => this.turn({ run: event.target.value }) });
    this.grid = new Grid((agent) => this.choose(agent));
    this.agents = h("div");
    this.sources = h("div");
    this.detail = h("section", { "aria-live": "polite" });
    this.after = h("div");
    this.failures = h("div");
    /** @type {Map<string, Map<number, any>>} rows by agent and iteration */
    this.cells = new Map();
    this.first = 0;
    this.last = 0;
    this.n_rows = 0;
    this.since = Date.now();
    this.summary = "";
    this.files = h("div");
    const { ledger, topology, schedule, game } = about.parts;
    this.trust = new Trust();
    this.privacy = ledger ? new Privacy(this.base) : null;
    this.topology = topology ? new Topology(this.base) : null;
    this.schedule = schedule ? new Schedule(this.base) : null;
    this.game = game ? new Game(this.base) : null;
    main.replaceChildren(
      h("h1", {}, about.name),
      h("p", { class: "quiet" }, about.place),
      about.unprotected ? h("p", { class: "note" }, "The releases of this run have noise from the file's seed, or none: they have no privacy guarantee, and nothing was charged. They protect nobody.") : "",
      this.facts,
      this.game?.element ?? "",
      ...(game ? [this.after] : [
        h("h2", {}, "Arms, with bands of one standard error"),
        means,
        this.after,
        this.privacy?.element ?? "",
        h("h2", {}, "Agents by rounds"),
        h("div", { class: "tools" }, h("label", {}, "Arm", this.arms), h("label", {}, "Repetition", this.runs)),
        this.grid.element,
        this.detail,
        this.failures,
        h("h2", {}, "Agents"),
        this.agents,
        h("h2", {}, "Sources of queries"),
        this.sources,
        this.trust.element,
        this.schedule?.element ?? "",
        this.topology?.element ?? "",
      ]),
      this.files);
    this.clear();
    this.drawSummary();
    this.privacy?.refresh();
    this.game?.refresh();
    this.topology?.load().then(() => this.drawUse());
    this.update = repeat(() => this.refresh(), MEANS_MS);
    setInterval(() => this.drawFacts(), 1000);
  }

  /** An arm with its description. @param {string} arm */
  label(arm) {
    const words = this.about.arm_labels[arm];
    return words === undefined ? arm : `${words} (${arm})`;
  }

  clear() {
    this.cells = new Map();
    /** @type {any} */
    this.news = { arms: [], runs: [], n_all: 0 };
    this.n_rows = 0;
    this.stale = true;
    this.since = Date.now() - 1000 * (this.about.seconds_since ?? 0);
  }

  /** Selects another arm or repetition. @param {{ arm?: string, run?: string }} to */
  turn(to) {
    setView({ ...to, agent: null });
    [this.arm, this.run, this.agent] = [to.arm ?? this.arm, to.run ?? this.run, null];
    this.clear();
    this.detail.replaceChildren();
    this.listen();
  }

  listen() {
    this.events?.close();
    const part = new URLSearchParams();
    if (this.arm !== null) part.set("arm", this.arm);
    if (this.run !== null && /^\d+$/.test(this.run)) part.set("run", this.run);
    this.events = new Events(`${this.base}/events?${part}`, {
      replaced: () => location.reload(),
      rows: (news) => {
        if (this.news.n_all > 0 && news.n_all > this.news.n_all) this.since = Date.now();
        this.news = news;
        for (const row of news.rows) this.add(row);
        this.stale = true;
        if (news.is_all) this.draw();
      },
    });
  }

  /** @param {[string, number, string, number | null, number | null, number | null, string | null]} row */
  add([agent, iteration, source, value, best, regret, failure]) {
    let cells = this.cells.get(agent);
    if (cells === undefined) this.cells.set(agent, (cells = new Map()));
    if (!cells.has(iteration)) this.n_rows += 1;
    const before = cells.get(iteration - 1)?.best ?? null;
    const helped = iteration > 0 && best !== null && before !== null && best !== before;
    const why = failure?.replace(/^failed: /, "") ?? null;
    cells.set(iteration, { source, value, best, regret, failure: why, helped, kind: kindOf(source, failure) });
  }

  draw() {
    if (this.game !== null) {
      this.drawFacts();
      return;
    }
    const { news } = this;
    const options = (/** @type {any[]} */ all, /** @type {any} */ chosen, /** @type {(each: any) => string} */ label) =>
      all.map((each) => h("option", { value: each, selected: each === chosen }, label(each)));
    if (this.arms.childElementCount !== news.arms.length) this.arms.replaceChildren(...options(news.arms, news.arm, (arm) => this.label(arm)));
    if (this.runs.childElementCount !== news.runs.length) this.runs.replaceChildren(...options(news.runs, news.run, String));
    let [first, last] = [Infinity, -Infinity];
    for (const cells of this.cells.values()) for (const iteration of cells.keys()) [first, last] = [Math.min(first, iteration), Math.max(last, iteration)];
    [this.first, this.last] = this.n_rows === 0 ? [0, 0] : [first, last];
    this.grid.show([...this.cells.keys()], this.cells, this.first, this.last);
    this.drawFacts();
    this.drawAgents();
    this.drawSources();
    this.drawUse();
    if (this.agent !== null) this.showAgent(this.agent);
    if (this.means.isNew) this.update();
  }

  drawFacts() {
    const { news } = this;
    /** @type {[string, any][]} */
    const rows = [["rows", news.n_all], ["last row", `${duration((Date.now() - this.since) / 1000)} ago`]];
    if (this.game !== null) {
      settle(this.facts, ...factList([["state", this.about.state], ["players", this.game.n_players], ["rounds", this.game.n_rounds], ...rows]));
      return;
    }
    const stragglers = [...this.cells].filter(([, cells]) => !cells.has(this.last));
    const behind = stragglers.slice(0, 5).map(([agent]) => agent).join(", ") + (stragglers.length > 5 ? ", …" : "");
    settle(this.facts, ...factList([
      ["state", this.about.state], ["arms", news.arms.length], ["repetitions", news.runs.length], ["agents", this.cells.size],
      ["iteration", this.last], ["behind", stragglers.length === 0 ? "nobody" : `${stragglers.length}: ${behind}`],
      ...rows,
    ]));
  }

  drawAgents() {
    const rows = [...this.cells].map(([agent, cells]) => {
      const all = [...cells.values()];
      const count = (/** @type {(cell: any) => boolean} */ is) => all.filter(is).length;
      const end = all[all.length - 1];
      const trust = trustOf(end.source);
      return [
        h("button", { type: "button", class: "link", "data-value": agent, onclick: () => this.choose(agent) }, agent),
        count((cell) => cell.kind === "own"), count((cell) => cell.kind === "own" && cell.helped),
        count((cell) => cell.kind === "others"), count((cell) => cell.kind === "others" && cell.helped),
        count((cell) => cell.kind === "failed"), number(end.best), number(end.regret), trust === null ? "–" : `${trust} %`];
    });
    settle(this.agents,
      csvTable("agents", ["agent", "own queries", "that helped", "from others", "that helped", "failed", "best", "regret", "trust"], rows));
    /** @type {Map<string, number>} */
    const reasons = new Map();
    for (const cells of this.cells.values()) for (const { failure } of cells.values()) if (failure !== null) reasons.set(failure, (reasons.get(failure) ?? 0) + 1);
    const sorted = [...reasons].sort((a, b) => b[1] - a[1]).slice(0, 10);
    settle(this.failures, ...(sorted.length === 0 ? [] : [h("h2", {}, "Failures, by reason"), h("ul", {}, ...sorted.map(([why, n]) => h("li", {}, h("strong", {}, n), ` × ${why}`)))]));
  }

  /** Counts the messages along edges and the followed messages by sender. */
  drawUse() {
    const arm = this.news.arm ?? this.arm;
    this.trust.show(this.cells, this.last);
    this.topology?.show(arm, this.cells);
    this.schedule?.show(arm, this.cells, this.last);
  }

  drawSources() {
    /** @type {Map<string, [number, number]>} */
    const sources = new Map();
    for (const cells of this.cells.values()) {
      for (const cell of cells.values()) {
        const trust = trustOf(cell.source);
        const negated = trust !== null && trust < 0 ? " negated" : "";
        const name = trust === null ? cell.source : Math.abs(trust) >= 10 ? `shared${negated}, trust 10 % or more` : "shared, trust below 10 %";
        const [n, helped] = sources.get(name) ?? [0, 0];
        sources.set(name, [n + 1, helped + Number(cell.helped)]);
      }
    }
    const sorted = [...sources].sort((a, b) => b[1][0] - a[1][0]);
    settle(this.sources, csvTable("sources of queries", ["source", "queries", "that improved the best so far", "share"],
      sorted.map(([name, [n, helped]]) => [name, n, helped, `${Math.round((100 * n) / this.n_rows)} %`]), 50));
  }

  /** Selects an agent and shows its queries. @param {string} agent */
  choose(agent) {
    this.agent = agent;
    setView({ agent });
    this.showAgent(agent);
  }

  /** Shows the queries of one agent. @param {string} agent */
  showAgent(agent) {
    const cells = this.cells.get(agent);
    if (cells === undefined) return;
    const close = () => {
      this.agent = null;
      setView({ agent: null });
      settle(this.detail);
    };
    const rows = [...cells].map(([iteration, cell]) => [iteration, cell.source, number(cell.value), number(cell.best), number(cell.regret), cell.helped ? "yes" : "", cell.failure ?? ""]);
    settle(this.detail, h("h2", {}, `${agent} `, h("button", { type: "button", onclick: close }, "Close")),
      h("div", { class: "tall" }, csvTable(`queries of ${agent}`, ["iteration", "source", "value", "best", "regret", "helped", "failure"], rows, QUERIES, "last")));
  }

  /** Reads slowly changing data: the means if there are new rows, and the summary until the run has ended. */
  async refresh() {
    const isOver = this.about.state !== "not finished" && this.about.problem === null;
    if (this.n_rows === 0 || (isOver && !this.stale)) return;
    const about = await get(this.base);
    // The page has a new part, for instance a ledger, so it is reloaded.
    if (JSON.stringify(about.parts) !== JSON.stringify(this.about.parts)) location.reload();
    // The summary determines the first metric.
    const isStale = this.stale || about.state !== this.about.state;
    this.about = about;
    this.drawSummary();
    if (!isStale) return;
    this.stale = false;
    try {
      if (this.game === null) this.means.show(await get(`${this.base}/means`));
      await Promise.all([this.game?.refresh(), this.privacy?.refresh()]);
    } catch (error) {
      this.stale = true;
      throw error;
    }
  }

  /** The arms of the summary, as in the final table. */
  drawArms() {
    const { arms, closing } = this.about;
    const parts = [];
    if (arms.length > 0) {
      // The notes follow the last empty line.
      const notes = closing.trimEnd().lastIndexOf("\n\n");
      const metric = METRICS[arms[0].metric] ?? arms[0].metric;
      const rows = arms.map((/** @type {any} */ each) => [
        this.label(each.arm), each.experiment, number(each.estimate?.n), number(each.estimate?.mean), number(each.estimate?.standard_error),
        each.interval === null ? "–" : `${number(each.interval.low)} to ${number(each.interval.high)}`, `${each.failed}/${each.trials}`, number(each.ask_seconds), number(each.wall_seconds)]);
      parts.push(h("h2", {}, "Arms at the end"),
        csvTable("arms at the end", ["arm", "experiment", "n", metric, "standard error", "95 % interval", "failed", "seconds a query", "seconds"], rows),
        h("details", {}, h("summary", {}, "The closing table of the run"), h("pre", { class: "wide", tabindex: 0 }, closing.slice(0, notes)), h("p", { class: "quiet" }, closing.slice(notes).trim())));
    }
    return parts;
  }

  /** The differences, privacy costs, pictures and files. */
  drawSummary() {
    const { summary, pictures, files, state, problem } = this.about;
    const shown = JSON.stringify([summary, pictures, files, state, problem]);
    if (shown === this.summary) return;
    this.summary = shown;
    const address = (/** @type {string} */ file) => `${this.base}/files/${encodeURIComponent(file)}`;
    const link = (/** @type {string} */ file) => h("a", { href: address(file), download: file }, file);
    const parts = [];
    const all = summary === null ? [] : [summary, ...(summary.configurations ?? [])];
    const differences = all.flatMap((each) => each.differences.map((/** @type {any} */ one) => [
      `${this.label(one.arm)} − ${this.label(one.control)}`, each.experiment, `${one.iteration ?? "end"}${one.primary ? " (primary)" : ""}`, number(one.estimate?.n), number(one.estimate?.mean), number(one.estimate?.standard_error),
      one.interval ? `${number(one.interval.low)} to ${number(one.interval.high)}` : "–", number(one.p_value), number(one.p_adjusted),
      VERDICTS[one.verdict] ?? one.verdict]));
    if (problem !== null) parts.push(h("p", { class: "note" }, `The summary cannot be read: ${problem}`));
    parts.push(...this.drawArms());
    if (differences.length > 0) {
      parts.push(h("h2", {}, "Paired differences"), h("p", { class: "quiet" }, "One repetition is one value, unless the summary says otherwise. Only p (Holm) below 0.05 is a finding."),
        csvTable("paired differences", ["difference", "experiment", "at", "n", "mean", "standard error", "95 % interval", "p", "p (Holm)", "verdict"], differences));
    }
    const spent = all.flatMap((each) => each.arms.filter((/** @type {any} */ arm) => arm.privacy).map((/** @type {any} */ arm) => [arm, each.experiment]));
    // A ledger, if there is one, shows more below.
    if (spent.length > 0 && this.privacy === null) {
      parts.push(h("h2", {}, "Privacy spent"), csvTable("privacy spent", ["arm", "experiment", "ε spent", "ε of the budget", "δ", "releases", "neighbours", "accountant", "mode", "head of the ledger"],
        spent.map(([{ arm, privacy }, experiment]) => [this.label(arm), experiment, number(privacy.epsilon), number(privacy.budget_epsilon), number(privacy.delta),
          `${privacy.releases} of ${privacy.planned_releases}`, privacy.adjacency, privacy.accountant, privacy.mode, h("td", { class: "long" }, privacy.ledger_head)])));
    }
    const folder = [];
    if (pictures.length > 0) {
      folder.push(h("h2", {}, "Pictures"), h("div", { class: "pictures" }, ...pictures.map((/** @type {string} */ name) => {
        const links = ["svg", "png"].map((ending) => `${name}.${ending}`).filter((file) => files.includes(file)).flatMap((file) => [link(file), " "]);
        return h("figure", {}, h("img", { src: address(`${name}.svg`), alt: CAPTIONS[name] ?? name, loading: "lazy" }), h("figcaption", {}, `${CAPTIONS[name] ?? name}: `, ...links));
      })));
    }
    folder.push(h("p", {}, "Files: ",...files.flatMap((/** @type {string} */ file) => [link(file), " "])));
    settle(this.after, ...parts);
    settle(this.files, ...folder);
  }
}
