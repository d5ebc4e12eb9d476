// @ts-check
/** Trust in other agents over time, if the queries contain it. */
import { h, number, settle } from "./dom.js";
import { csvTable } from "./csv.js";
import { trustOf } from "./grid.js";
import { Lines } from "./lines.js";

export class Trust {
  constructor() {
    this.element = h("section", { "aria-label": "trust" });
    this.chart = new Lines("iteration", "trust in the others, %");
  }

  /**
   * @param {Map<string, Map<number, any>>} cells rows by agent and iteration
   * @param {number} last the last iteration
   */
  show(cells, last) {
    const x = Array.from({ length: Math.max(0, last) }, (_, index) => index + 1);
    const found = x.map((iteration) => [...cells.values()].map((rows) => trustOf(rows.get(iteration)?.source ?? "")).filter((trust) => trust !== null).map(Number));
    if (found.every((each) => each.length === 0)) {
      settle(this.element);
      return;
    }
    const of = (/** @type {(all: number[]) => number} */ what) => found.map((each) => (each.length === 0 ? null : what(each)));
    const mean = of((all) => all.reduce((sum, each) => sum + each, 0) / all.length);
    const [low, high] = [of((all) => Math.min(...all)), of((all) => Math.max(...all))];
    const rows = x.map((iteration, index) => [iteration, number(mean[index]), number(low[index]), number(high[index]), found[index].length]);
    settle(this.element, h("h2", {}, "Trust over time"),
      h("p", { class: "quiet" }, "The weight that an agent's query gives to the knowledge of others, based on its own values. Between −10 % and 10 % the others have no part in a query. Below 0 it is the weight of their negated functions: good points for them are bad here. A mean near 0 may hide agents of either sign."),
      this.chart.element,
      h("details", {}, h("summary", {}, "As a table"), csvTable("trust by iteration", ["iteration", "mean", "lowest", "highest", "agents"], rows)));
    this.chart.show(x, [
      { label: "mean over agents", values: mean, colour: "--accent" },
      { label: "highest", values: high, colour: "--quiet", dash: [4, 4] },
      { label: "lowest", values: low, colour: "--quiet", dash: [2, 4] },
    ]);
  }
}
