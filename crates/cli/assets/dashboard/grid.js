// @ts-check
/** Agents by rounds: where each query came from, and whether it helped. */
import { colour, h } from "./dom.js";

/** The kinds of queries, with their colours. @type {[string, string, string][]} */
export const KINDS = [
  ["start", "initial or random", "--kind-start"],
  ["own", "own model", "--kind-own"],
  ["others", "from others", "--kind-others"],
  ["failed", "failed", "--kind-failed"],
];

/**
 * The kind of a query by its source. Below a trust of 10 % the others have no part in it.
 * @param {string} source
 * @param {string | null} failure
 */
export function kindOf(source, failure) {
  if (failure !== null) return "failed";
  if (source === "initial" || source === "random" || source === "sobol") return "start";
  const shared = trustOf(source);
  if (shared !== null) return shared >= 10 ? "others" : "own";
  return /^(message|best|region|others?|task|neighbour)\b/.test(source) ? "others" : "own";
}

/** The trust in per cent that a query's source names. @param {string} source */
export function trustOf(source) {
  const found = /^shared:(\d+)%/.exec(source);
  return found === null ? null : Number(found[1]);
}

export class Grid {
  /** @param {(agent: string, iteration: number) => void} chosen */
  constructor(chosen) {
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { class: "grid", role: "img" }));
    this.says = h("p", { class: "quiet", role: "status" }, "Point at a square to read it; the table below has the same by agent.");
    const legend = h("p", { class: "legend" }, ...KINDS.map(([kind, label]) => h("span", {}, h("i", { class: `kind ${kind}` }), label)),
      h("span", {}, h("i", { class: "kind helped" }), "best so far improved"));
    this.element = h("div", {}, legend, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "agents by rounds" }, this.canvas), this.says);
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

  /** Sides of a square: as large as fits, and what can still be seen. */
  sides() {
    const columns = Math.max(1, this.last - this.first + 1);
    const wide = Math.max(300, (this.element.clientWidth || 900) - 20);
    return { columns, x: Math.max(4, Math.min(22, Math.floor(wide / columns))), y: this.agents.length > 200 ? 3 : this.agents.length > 50 ? 8 : 16 };
  }

  draw() {
    const { columns, x, y } = this.sides();
    Object.assign(this.canvas, { width: columns * x, height: Math.max(1, this.agents.length) * y });
    const counts = `${this.agents.length} agents, iterations ${this.first} to ${this.last}`;
    this.canvas.setAttribute("aria-label", `${counts}; the table below has the same by agent`);
    const context = this.canvas.getContext("2d");
    if (context === null) return;
    const colours = Object.fromEntries(KINDS.map(([kind, , name]) => [kind, colour(name)]));
    const mark = colour("--ink");
    const gap = y > 4 ? 1 : 0;
    this.agents.forEach((agent, row) => {
      for (const [iteration, cell] of this.cells.get(agent) ?? []) {
        const left = (iteration - this.first) * x;
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
    const { x, y } = this.sides();
    const box = this.canvas.getBoundingClientRect();
    const agent = this.agents[Math.floor((event.clientY - box.top) / y)];
    const iteration = this.first + Math.floor((event.clientX - box.left) / x);
    const cell = agent === undefined ? undefined : this.cells.get(agent)?.get(iteration);
    return cell === undefined ? null : { agent, iteration, cell };
  }

  /** @param {MouseEvent} event */
  say(event) {
    const at = this.at(event);
    if (at === null) return;
    const { agent, iteration, cell } = at;
    this.says.textContent = `${agent}, iteration ${iteration}: ${cell.source}${cell.helped ? ", best so far improved" : ""}${cell.failure ? `, ${cell.failure}` : ""}`;
  }
}
