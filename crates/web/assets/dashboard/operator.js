// @ts-check
/** A coordinator's studies for its operator: rosters, rounds, deliveries and ledgers. */
import { colour, connection, duration, factList, get, h, setView, settle, table, view, visible } from "./dom.js";
import { leftOut, squares } from "./grid.js";
import { Events, repeat } from "./live.js";
import { SvgContext, pictureButtons } from "./picture.js";
import { Privacy } from "./privacy.js";

const EVERY_MS = 2000;
/** Maximum number of agents in a table. The others can be found by search. */
const ROWS = 500;
/** Number of rounds kept, the same as in a coordinator. */
const ROUNDS = 200;

/** The studies of the coordinator. @param {HTMLElement} main */
export async function federations(main) {
  document.title = "fedbo: coordinator";
  let shown = "";
  const refresh = async () => {
    const found = await get("api/federations");
    connection("live");
    const text = JSON.stringify(found);
    if (text === shown) return;
    shown = text;
    const rows = found.federations.map((/** @type {any} */ each) => [
      h("a", { href: `?federation=${encodeURIComponent(each.study)}` }, each.study), each.state, `${each.round} of ${each.rounds}`,
      `${each.enrolled} of ${each.agents}`, each.delivered === null ? "–" : `${each.delivered} of ${each.agents}`,
      each.error === null ? "" : h("span", { class: "bad" }, each.error)]);
    settle(main,
      h("h1", {}, "Coordinator"),
      h("p", { class: "quiet" }, found.place),
      rows.length > 0 ? table("studies", ["study", "state", "round", "enrolled", "delivered", "blocked by"], rows)
        : h("p", {}, "There is no study yet: ", h("code", {}, "fedbo coordinator study create FILE"), " makes one."));
  };
  await refresh();
  repeat(refresh, EVERY_MS);
}

/**
 * One study of the coordinator.
 * @param {HTMLElement} main
 * @param {string} id
 */
export async function federation(main, id) {
  const page = new Page(main, id, await get(`api/federations/${encodeURIComponent(id)}`));
  new Events(`${page.base}/events`, { study: (news) => page.show(news) });
}

class Page {
  /**
   * @param {HTMLElement} main
   * @param {string} id
   * @param {any} about
   */
  constructor(main, id, about) {
    this.base = `api/federations/${encodeURIComponent(id)}`;
    this.about = about;
    document.title = visible(`fedbo: ${about.study}`);
    this.facts = h("dl", { class: "facts" });
    this.note = h("div", { "aria-live": "polite" });
    this.grid = new Deliveries();
    this.roster = h("div");
    this.privacy = about.has_ledger ? new Privacy(this.base) : null;
    this.head = "";
    this.find = h("input", { type: "search", value: view().get("find") ?? "", oninput: (/** @type {any} */ event) => {
      setView({ find: event.target.value });
      this.drawRoster();
    } });
    /** @type {Map<number, string>} digits of all slots by round */
    this.delivered = new Map();
    /** @type {any} */
    this.news = null;
    this.at = 0;
    main.replaceChildren(
      h("h1", {}, about.study),
      h("p", { class: "quiet" }, `${about.algorithm}, ${about.rounds} rounds of ${duration(about.round_s)}; ${about.place}`),
      this.note,
      this.facts,
      h("h2", {}, "Deliveries by round"),
      this.grid.element,
      h("h2", {}, "Agents"),
      h("div", { class: "tools" }, h("label", {}, "Find", this.find)),
      this.roster,
      this.privacy === null ? "" : this.privacy.element,
      h("h2", {}, "Known to every party"),
      h("details", {}, h("summary", {}, "The frozen configuration"), h("pre", { tabindex: 0 }, about.config)));
    setInterval(() => this.drawFacts(), 1000);
  }

  /** @param {any} news */
  show(news) {
    for (const [round, digits] of news.delivered) this.delivered.set(round, digits);
    const old = [...this.delivered.keys()].sort((a, b) => a - b).slice(0, -ROUNDS);
    for (const round of old) this.delivered.delete(round);
    this.news = news;
    this.at = Date.now();
    this.grid.show(news.roster.map((/** @type {any} */ each) => each.agent), this.delivered);
    settle(this.note, ...(news.error === null ? [] : [h("p", { class: "note" }, `The study is blocked: ${news.error}`)]));
    this.drawFacts();
    this.drawRoster();
    // The ledger is created with the study and changes with each release.
    if (this.privacy !== null) this.privacy.element.hidden = news.state === "waiting";
    if (this.privacy !== null && news.state !== "waiting" && this.head !== news.ledger_head) {
      this.head = news.ledger_head;
      this.privacy.refresh();
    }
  }

  /** Enrolled agents that have not delivered in the current round. */
  missing() {
    const digits = this.delivered.get(this.news.round) ?? "";
    return this.news.roster.filter((/** @type {any} */ each, /** @type {number} */ slot) => each.state === "enrolled" && digits[slot] !== "1");
  }

  /** True while the coordinator accepts messages. */
  takes() {
    return this.news.state === "running" && this.news.elapsed_s !== null && this.news.collects;
  }

  drawFacts() {
    const { news, about } = this;
    if (news === null) return;
    const enrolled = news.roster.filter((/** @type {any} */ each) => each.state === "enrolled").length;
    const isPlayed = news.state === "running" && news.elapsed_s !== null;
    const elapsed = isPlayed ? news.elapsed_s + (Date.now() - this.at) / 1000 : null;
    const missing = this.missing();
    const names = missing.slice(0, 5).map((/** @type {any} */ each) => each.agent).join(", ") + (missing.length > 5 ? ", …" : "");
    const takes = this.takes();
    settle(this.facts, ...factList([
      ["state", news.state],
      ["round", news.state === "finished" ? `all ${about.rounds}` : `${news.round} of ${about.rounds}`],
      ["in this round", elapsed === null ? "–" : `${duration(Math.round(elapsed))} of ${duration(news.round === 0 ? about.first_round_s : about.round_s)}`],
      ["enrolled", `${enrolled} of ${news.roster.length}`],
      ["delivered", takes ? `${enrolled - missing.length} of ${enrolled}` : "–"],
      ["waiting for", !takes ? "–" : missing.length === 0 ? "nobody" : `${missing.length}: ${names}`],
      ["releases", about.has_ledger || news.releases > 0 ? news.releases : "none: messages are relayed"],
      ["head", news.ledger_head === null ? "–" : h("span", { title: news.ledger_head }, shortHead(news.ledger_head))],
    ]));
  }

  drawRoster() {
    if (this.news === null) return;
    const wanted = /** @type {HTMLInputElement} */ (this.find).value.toLowerCase();
    const { round, roster } = this.news;
    const rounds = [...this.delivered].sort(([a], [b]) => a - b);
    const found = roster
      .map((/** @type {any} */ each, /** @type {number} */ slot) => ({ ...each, slot, n: rounds.filter(([, digits]) => digits[slot] === "1").length }))
      .filter((/** @type {any} */ each) => `${each.agent} ${each.state}`.toLowerCase().includes(wanted))
      .sort((/** @type {any} */ a, /** @type {any} */ b) => a.n - b.n || a.slot - b.slot);
    const takes = this.takes();
    const says = (/** @type {any} */ each) => !takes || each.state !== "enrolled" ? "–" : this.delivered.get(round)?.[each.slot] === "1" ? "yes" : "not yet";
    const silence = (/** @type {any} */ each) => each.silent_s === null ? "not since this coordinator started" : `${duration(each.silent_s)} ago`;
    const rows = found.slice(0, ROWS).map((/** @type {any} */ each) => [each.agent, each.slot, each.state, says(each), `${each.n} of ${rounds.length}`, silence(each)]);
    settle(this.roster,
      h("p", { class: "quiet", role: "status" }, found.length > ROWS ? `${found.length} agents, the first ${ROWS} are shown` : `${found.length} agents`),
      table("agents", ["agent", "slot", "state", "in this round", "delivered in", "last heard of"], rows));
  }
}

/** Shortens a head to its first digits. @param {string} head */
function shortHead(head) {
  const [seq, hash] = head.split(":");
  return hash === undefined ? head : `${seq}:${hash.slice(0, 8)}…`;
}

/** Width and height of a grid. @param {ReturnType<Deliveries["area"]>} area @returns {[number, number]} */
function size({ x, y, rows, drawn }) {
  return [Math.max(1, drawn.length * x), Math.max(1, rows * y)];
}

/** Grid of agents and rounds with their deliveries. */
class Deliveries {
  constructor() {
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { class: "grid", role: "img" }));
    this.says = h("p", { class: "quiet", role: "status" }, "");
    const legend = h("p", { class: "legend" }, h("span", {}, h("i", { class: "kind own" }), "delivered"), h("span", {}, h("i", { class: "kind start" }), "not delivered"));
    this.empty = h("p", {}, "No agent has delivered since this coordinator started.");
    this.cut = h("p", { class: "quiet" });
    this.element = h("div", {}, legend, this.cut, this.empty, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "deliveries by rounds" }, this.canvas), this.says,
      pictureButtons("deliveries by rounds", () => (this.rounds.length === 0 ? null : this.svg())));
    /** @type {string[]} */
    this.agents = [];
    /** @type {[number, string][]} */
    this.rounds = [];
    this.canvas.addEventListener("mousemove", (event) => this.say(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /**
   * @param {string[]} agents
   * @param {Map<number, string>} delivered
   */
  show(agents, delivered) {
    this.agents = agents;
    this.rounds = [...delivered].sort(([a], [b]) => a - b);
    this.empty.hidden = this.rounds.length > 0;
    const [first, last] = [this.rounds[0], this.rounds[this.rounds.length - 1]];
    if (first !== undefined && this.says.dataset.pointed !== "yes") {
      settle(this.says, `Rounds ${first[0]} to ${last[0]} from left to right, agents by slot from top to bottom. Point at a square to read it; the table has the same by agent, most missed first.`);
    }
    this.canvas.hidden = this.rounds.length === 0;
    this.draw();
  }

  /** Sides of a square, the number of visible rows and columns, and the visible rounds. */
  area() {
    const shown = squares(this.agents.length, this.rounds.length, this.element);
    return { ...shown, drawn: this.rounds.slice(this.rounds.length - shown.columns) };
  }

  draw() {
    const area = this.area();
    const [width, height] = size(area);
    Object.assign(this.canvas, { width, height });
    const cut = leftOut(area, this.agents.length, this.rounds.length, "rounds");
    settle(this.cut, cut);
    this.cut.hidden = cut === "";
    this.canvas.setAttribute("aria-label", `${this.agents.length} agents, ${this.rounds.length} rounds; the table below has the same by agent`);
    const context = this.canvas.getContext("2d");
    if (context !== null) this.paint(context, area);
  }

  /** The grid as SVG. */
  svg() {
    const area = this.area();
    const picture = new SvgContext(...size(area), `${this.agents.length} agents, rounds ${area.drawn[0][0]} to ${area.drawn[area.drawn.length - 1][0]}`);
    this.paint(picture, area);
    return picture.text();
  }

  /**
   * @param {CanvasRenderingContext2D | SvgContext} context
   * @param {ReturnType<Deliveries["area"]>} area
   */
  paint(context, { x, y, rows, drawn }) {
    const gap = y > 4 ? 1 : 0;
    const [yes, no] = [colour("--kind-own"), colour("--kind-start")];
    drawn.forEach(([, digits], column) => {
      for (let slot = 0; slot < rows; slot += 1) {
        context.fillStyle = digits[slot] === "1" ? yes : no;
        context.fillRect(column * x, slot * y, x - gap, y - gap);
      }
    });
  }

  /** @param {MouseEvent} event */
  say(event) {
    const { x, y, drawn } = this.area();
    const box = this.canvas.getBoundingClientRect();
    const slot = Math.floor((event.clientY - box.top) / y);
    const round = drawn[Math.floor((event.clientX - box.left) / x)];
    if (round === undefined || this.agents[slot] === undefined) return;
    this.says.dataset.pointed = "yes";
    settle(this.says, `${this.agents[slot]}, round ${round[0]}: ${round[1][slot] === "1" ? "delivered" : "not delivered"}`);
  }
}
