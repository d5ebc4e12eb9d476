// @ts-check
/** Grid of agents and rounds: the source of each query, and whether it helped. */
import { colour, h, settle } from "./dom.js";
import { SvgContext, pictureButtons } from "./picture.js";

/** The kinds of queries with their colours. @type {[string, string, string][]} */
export const KINDS = [
  ["start", "initial or random", "--kind-start"],
  ["own", "own model", "--kind-own"],
  ["others", "from others", "--kind-others"],
  ["failed", "failed", "--kind-failed"],
];

/**
 * The kind of a query by its source. Below an absolute trust of 10 %, the query ignores the other agents.
 * @param {string} source
 * @param {string | null} failure
 */
export function kindOf(source, failure) {
  if (failure !== null) return "failed";
  if (source === "initial" || source === "random" || source === "sobol") return "start";
  const shared = trustOf(source);
  if (shared !== null) return Math.abs(shared) >= 10 ? "others" : "own";
  return /^(message|best|region|others?|task|neighbour)\b/.test(source) ? "others" : "own";
}

/** Returns the trust in the source of a query in per cent, below 0 for trust in the negated functions of others. @param {string} source */
export function trustOf(source) {
  const found = /^shared:(-?\d+)%/.exec(source);
  return found === null ? null : Number(found[1]);
}

/** Maximum side and area of a canvas in pixels. Browsers leave larger ones blank. */
const [SIDE, AREA] = [16_000, 16_000_000];

/**
 * Sides of squares that are as large as possible but still visible, and the number of rows and columns that fit into a canvas.
 * @param {number} n_rows
 * @param {number} n_columns
 * @param {HTMLElement} place
 */
export function squares(n_rows, n_columns, place) {
  const wide = Math.max(300, (place.clientWidth || 900) - 20);
  const x = Math.max(4, Math.min(22, Math.floor(wide / Math.max(1, n_columns))));
  const y = n_rows > 200 ? 3 : n_rows > 50 ? 8 : 16;
  const rows = Math.min(n_rows, Math.floor(SIDE / y));
  const columns = Math.min(n_columns, Math.floor(Math.min(SIDE, AREA / Math.max(1, rows * y)) / x));
  return { x, y, rows, columns };
}

/**
 * Describes the omitted parts of a picture; empty if it is complete.
 * @param {ReturnType<typeof squares>} shown
 * @param {number} n_rows
 * @param {number} n_columns
 * @param {string} name the name of the columns
 */
export function leftOut({ rows, columns }, n_rows, n_columns, name) {
  const parts = [];
  if (columns < n_columns) parts.push(`the last ${columns} of ${n_columns} ${name}`);
  if (rows < n_rows) parts.push(`the first ${rows} of ${n_rows} agents`);
  return parts.length === 0 ? "" : `Only ${parts.join(" and ")} are drawn here; the table below counts all.`;
}

export class Grid {
  /** @param {(agent: string, iteration: number) => void} chosen */
  constructor(chosen) {
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { class: "grid", role: "img" }));
    this.says = h("p", { class: "quiet", role: "status" }, "Point at a square to read it; the table below has the same by agent.");
    const legend = h("p", { class: "legend" }, ...KINDS.map(([kind, label]) => h("span", {}, h("i", { class: `kind ${kind}` }), label)),
      h("span", {}, h("i", { class: "kind helped" }), "best so far improved"));
    this.cut = h("p", { class: "quiet" });
    this.element = h("div", {}, legend, this.cut, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "agents by rounds" }, this.canvas), this.says,
      pictureButtons("agents by rounds", () => this.svg()));
    /** @type {string[]} */
    this.agents = [];
    /** @type {Map<string, Map<number, any>>} */
    this.cells = new Map();
    this.first = 0;
    this.last = 0;
    this.canvas.addEventListener("mousemove", (event) => this.say(event));
    this.canvas.addEventListener("click", (event) => {
      const at = this.at(event);
      if (at !== null) chosen(at.agent, at.iteration);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /**
   * @param {string[]} agents
   * @param {Map<string, Map<number, any>>} cells
   * @param {number} first
   * @param {number} last
   */
  show(agents, cells, first, last) {
    [this.agents, this.cells, this.first, this.last] = [agents, cells, first, last];
    this.draw();
  }

  /** Sides of a square, the number of visible rows and columns, and the first visible iteration. */
  area() {
    const columns = this.last - this.first + 1;
    const shown = squares(this.agents.length, columns, this.element);
    return { ...shown, n_columns: columns, from: this.last - shown.columns + 1 };
  }

  draw() {
    const area = this.area();
    Object.assign(this.canvas, { width: Math.max(1, area.columns * area.x), height: Math.max(1, area.rows * area.y) });
    const cut = leftOut(area, this.agents.length, area.n_columns, "iterations");
    settle(this.cut, cut);
    this.cut.hidden = cut === "";
    const counts = `${this.agents.length} agents, iterations ${this.first} to ${this.last}`;
    this.canvas.setAttribute("aria-label", `${counts}; the table below has the same by agent`);
    const context = this.canvas.getContext("2d");
    if (context !== null) this.paint(context, area);
  }

  /** The grid as SVG. */
  svg() {
    const area = this.area();
    const picture = new SvgContext(Math.max(1, area.columns * area.x), Math.max(1, area.rows * area.y), `${this.agents.length} agents, iterations ${area.from} to ${this.last}`);
    this.paint(picture, area);
    return picture.text();
  }

  /**
   * @param {CanvasRenderingContext2D | SvgContext} context
   * @param {ReturnType<Grid["area"]>} area
   */
  paint(context, { x, y, from, rows }) {
    const colours = Object.fromEntries(KINDS.map(([kind, , name]) => [kind, colour(name)]));
    const mark = colour("--ink");
    const gap = y > 4 ? 1 : 0;
    this.agents.slice(0, rows).forEach((agent, row) => {
      for (const [iteration, cell] of this.cells.get(agent) ?? []) {
        if (iteration < from) continue;
        const left = (iteration - from) * x;
        context.fillStyle = colours[cell.kind];
        context.fillRect(left, row * y, x - gap, y - gap);
        if (!cell.helped) continue;
        context.fillStyle = mark;
        if (gap === 0) context.fillRect(left, row * y, 2, 2);
        else context.fillRect(left + x / 2 - 2, row * y + y / 2 - 2, 4, 4);
      }
    });
  }

  /** @param {MouseEvent} event */
  at(event) {
    const { x, y, from } = this.area();
    const box = this.canvas.getBoundingClientRect();
    const agent = this.agents[Math.floor((event.clientY - box.top) / y)];
    const iteration = from + Math.floor((event.clientX - box.left) / x);
    const cell = agent === undefined ? undefined : this.cells.get(agent)?.get(iteration);
    return cell === undefined ? null : { agent, iteration, cell };
  }

  /** @param {MouseEvent} event */
  say(event) {
    const at = this.at(event);
    if (at === null) return;
    const { agent, iteration, cell } = at;
    settle(this.says, `${agent}, iteration ${iteration}: ${cell.source}${cell.helped ? ", best so far improved" : ""}${cell.failure ? `, ${cell.failure}` : ""}`);
  }
}
