// @ts-check
/** Chart of the value of each trial and the best value so far. */
/* global uPlot */

import { axis, colour, wholeAxis } from "./dom.js";

export class History {
  /**
   * @param {HTMLElement} place
   * @param {boolean} minimize
   * @param {(trial: number) => void} chosen
   */
  constructor(place, minimize, chosen) {
    this.place = place;
    this.minimize = minimize;
    this.chosen = chosen;
    /** @type {[number[], (number | null)[], (number | null)[]]} */
    this.data = [[], [], []];
    /** @type {any} */
    this.plot = null;
    this.log = false;
    this.best = NaN;
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.create());
  }

  size() {
    return { width: Math.max(240, this.place.clientWidth), height: 300 };
  }

  /**
   * Adds trials in completion order.
   * @param {any[]} told
   */
  add(told) {
    const [order, values, bests] = this.data;
    for (const trial of told) {
      const known = Object.values(trial.outcomes ?? {}).every((number) => number !== null);
      const value = trial.state === "complete" && known ? trial.value : null;
      if (value !== null && trial.feasible !== false && !(this.minimize ? this.best <= value : this.best >= value)) this.best = value;
      order.push(trial.told_order);
      values.push(value);
      bests.push(Number.isNaN(this.best) ? null : this.best);
    }
  }

  /** Redraws the chart. */
  draw() {
    if (this.plot === null) this.create();
    else this.plot.setData(this.data);
  }

  /** True if all values are positive, so that the axis can be logarithmic. */
  canBeLog() {
    return this.data[1].every((value) => value === null || value > 0);
  }

  /** @param {boolean} log */
  setLog(log) {
    this.log = log && this.canBeLog();
    this.create();
  }

  create() {
    this.plot?.destroy();
    const options = {
      ...this.size(),
      scales: { x: { time: false }, y: { distr: this.log ? 3 : 1 } },
      axes: [wholeAxis("trials told"), { ...axis(), label: "value", size: 70 }],
      series: [
        { label: "told" },
        { label: "value", stroke: colour("--accent"), paths: () => null, points: { show: true, size: 5, fill: colour("--accent") } },
        { label: "best so far", stroke: colour("--best"), width: 2, spanGaps: true, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } },
      ],
      hooks: {
        ready: [(/** @type {any} */ plot) => plot.over.addEventListener("click", () => {
          if (plot.cursor.idx !== null && plot.cursor.idx !== undefined) this.chosen(plot.cursor.idx);
        })],
      },
    };
    this.plot = new uPlot(options, this.data, this.place);
  }
}
