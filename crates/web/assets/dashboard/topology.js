// @ts-check
/** The graph of a run's neighbours: its picture, its figures, and the traffic along its edges. */
import { get, h, number, settle, table, words } from "./dom.js";
import { csvTable } from "./csv.js";

/** Arms in which agents work alone on any graph. */
const ALONE = ["ts", "log-ei"];

export class Topology {
  /** @param {string} base the address of the run */
  constructor(base) {
    this.base = base;
    this.use = h("div");
    this.element = h("section", { "aria-label": "topology" });
    /** @type {any} */
    this.about = null;
  }

  async load() {
    const head = h("h2", {}, "Graph of neighbours");
    try {
      this.about = await get(`${this.base}/topology`);
    } catch (error) {
      this.element.replaceChildren(head, h("p", { class: "note" }, words(error)));
      return;
    }
    const { graph, too_large } = this.about;
    const link = (/** @type {string} */ ending) => h("a", { href: `${this.base}/topology/graph.${ending}`, download: `topology.${ending}` }, `topology.${ending}`);
    const picture = too_large !== null ? h("p", { class: "quiet" }, `There is no picture: ${too_large}.`)
      : h("figure", { class: "half" }, h("img", { src: `${this.base}/topology/graph.svg`, alt: `The graph: ${graph.graph}, ${graph.agents} agents, ${graph.edges} edges; the table below has its edges` }),
        h("figcaption", {}, "The graph before all changes: ", link("svg"), " ", link("png")));
    this.element.replaceChildren(head, picture, figures(graph), this.use);
  }

  /**
   * Counts the values that crossed each edge in the selected arm.
   * @param {string | null} arm
   * @param {Map<string, Map<number, any>>} cells rows by agent and iteration
   */
  show(arm, cells) {
    if (this.about === null) return;
    const { edges, n_edges, agents, share_initial } = this.about;
    if (arm !== null && ALONE.includes(arm)) {
      settle(this.use, h("p", { class: "quiet" }, `In the arm ${arm} each agent works alone: no edge carries anything.`));
      return;
    }
    const told = new Map(agents.map((/** @type {[string, number]} */ [agent]) => [agent, iterationsWithValue(cells.get(agent))]));
    const rows = edges.map((/** @type {any} */ edge) => {
      const [a, b] = edge.between;
      const [of_a, of_b] = [a, b].map((agent) => reported(told.get(agent) ?? [], share_initial, edge.until));
      return [a, b, edge.from ?? "start", edge.until ?? "–", of_a, of_b];
    });
    const degrees = agents.map((/** @type {[string, number]} */ [agent, degree]) => [agent, degree, (told.get(agent) ?? []).length]);
    settle(this.use,
      h("h3", {}, "Edges"),
      h("p", { class: "quiet" }, "A query depends on an agent's own values and on all reports of its neighbours, so no query names a neighbour. The counts are values in the results that the first agent reported to the second, and back; a failed trial has none."),
      csvTable("edges", ["agent", "neighbour", "from round", "until round", "values reported", "and back"], rows),
      n_edges > edges.length ? h("p", { class: "quiet" }, `The first ${edges.length} of ${n_edges} edges.`) : "",
      h("details", {}, h("summary", {}, "Neighbours of each agent"), csvTable("neighbours of each agent", ["agent", "neighbours at the start", "values"], degrees)));
  }
}

/** @param {Map<number, any> | undefined} cells */
function iterationsWithValue(cells) {
  return [...(cells ?? [])].filter(([, cell]) => cell.failure === null).map(([iteration]) => iteration);
}

/**
 * Counts the values that cross an edge before the round of its removal. Reports of a round are sent before the next round.
 * @param {number[]} iterations
 * @param {string} initial the initial points that are reported
 * @param {number | null} until
 */
function reported(iterations, initial, until) {
  const queries = iterations.filter((iteration) => iteration > 0 && (until === null || iteration < until - 1)).length;
  const first = iterations.filter((iteration) => iteration <= 0).length;
  return queries + (initial === "all" ? first : initial === "best" ? Math.min(1, first) : 0);
}

/** The figures of `fedbo topology show`. @param {any} graph */
function figures(graph) {
  const clique = graph.largest_clique;
  const size = clique.exact ? String(clique.size) : `at least ${clique.size}, at most ${clique.upper_bound}`;
  const range = graph.degree_min === graph.degree_max ? String(graph.degree_min) : `${graph.degree_min} to ${graph.degree_max}`;
  const members = clique.members.slice(0, 12).join(", ") + (clique.members.length > 12 ? ` and ${clique.members.length - 12} more` : "");
  return table("figures of the graph", ["topology", graph.name], [
    ["graph", graph.graph], ["agents", graph.agents], ["edges", graph.edges], ["neighbours of an agent", range], ["components", graph.components],
    ["diameter", graph.diameter ?? (graph.components > 1 ? "none: the graph is not connected" : "not computed for so large a graph")],
    ["algebraic connectivity", graph.algebraic_connectivity === null ? "not computed" : number(graph.algebraic_connectivity)],
    ["largest clique", size], ["its agents", h("td", { class: "long" }, members)],
  ]);
}
