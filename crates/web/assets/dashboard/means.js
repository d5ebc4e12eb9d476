// @ts-check
/** Chart of the means of arms, with bands of one standard error. */
import { axis, colour, h, number, visible, wholeAxis } from "./dom.js";
import { chartSvg, pictureButtons } from "./picture.js";
/* global uPlot */

/** Names of the compared quantities. @type {Record<string, string>} */
const LABELS = { best: "best value so far", regret: "simple regret", mean: "mean value", "mean-regret": "mean regret", "log-regret": "log10 of simple regret" };
const N_COLOURS = 6;

export class Means {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.chart = h("div", { class: "chart" });
    this.select = /** @type {HTMLSelectElement} */ (h("select", { onchange: () => this.create() }));
    this.log = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", onchange: () => this.create() }));
    this.why = h("p", { class: "note", hidden: true });
    place.replaceChildren(this.why, h("div", { class: "tools" }, h("label", {}, "Shown", this.select), h("label", { class: "check" }, this.log, " logarithmic values")), this.chart,
      pictureButtons("means of arms", () => (this.drawn === null ? null : chartSvg(this.drawn))));
    /** The current chart. @type {Parameters<typeof chartSvg>[0] | null} */
    this.drawn = null;
    /** @type {any[]} */
    this.metrics = [];
    /** True until means have been shown. */
    this.isNew = true;
    /** @type {any} */
    this.plot = null;
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(this.chart);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.create());
  }

  size() {
    return { width: Math.max(240, this.chart.clientWidth), height: 320 };
  }

  /** @param {{ metrics: any[], too_large: string | null }} means */
  show({ metrics, too_large }) {
    this.isNew = false;
    this.why.hidden = too_large === null;
    this.why.textContent = too_large;
    const names = metrics.map((each) => each.metric);
    if (names.join() !== this.metrics.map((each) => each.metric).join()) {
      this.select.replaceChildren(...names.map((name) => h("option", { value: name }, LABELS[name] ?? name)));
    }
    this.metrics = metrics;
    this.create();
  }

  create() {
    const shown = this.metrics.find((each) => each.metric === this.select.value) ?? this.metrics[0];
    this.plot?.destroy();
    [this.plot, this.drawn] = [null, null];
    if (shown === undefined) return;
    const x = [...new Set(shown.arms.flatMap((/** @type {any} */ arm) => arm.iterations))].sort((a, b) => a - b);
    const place = new Map(x.map((iteration, index) => [iteration, index]));
    const isAbove = shown.arms.every((/** @type {any} */ arm) => arm.means.every((/** @type {number} */ mean) => mean > 0));
    this.log.disabled = !isAbove;
    const isLog = this.log.checked && isAbove;
    /** @type {any[]} */
    const [data, series, bands] = [[x], [{ label: "iteration" }], []];
    const label = shown.label ?? LABELS[shown.metric] ?? shown.metric;
    const drawn = { title: `${label} of arms`, names: /** @type {[string, string]} */ (["iterations of each agent", label]), x, isLog,
      lines: /** @type {import("./picture.js").SvgLine[]} */ ([]), bands: /** @type {import("./picture.js").SvgBand[]} */ ([]) };
    shown.arms.forEach((/** @type {any} */ arm, /** @type {number} */ index) => {
      const stroke = colour(`--arm-${index % N_COLOURS}`);
      const column = () => new Array(x.length).fill(null);
      const [mean, low, high] = [column(), column(), column()];
      arm.iterations.forEach((/** @type {number} */ iteration, /** @type {number} */ point) => {
        const at = /** @type {number} */ (place.get(iteration));
        const [value, error] = [arm.means[point], arm.standard_errors[point] ?? 0];
        mean[at] = value;
        low[at] = isLog && value - error <= 0 ? value : value - error;
        high[at] = value + error;
      });
      const first = data.length;
      data.push(mean, high, low);
      const dash = [[], [8, 4], [2, 3], [8, 3, 2, 3]][Math.floor(index / N_COLOURS) % 4];
      series.push({ label: visible(arm.label), stroke, width: 2, dash, points: { show: x.length < 3 }, value: (/** @type {any} */ _, /** @type {number | null} */ each) => number(each) });
      for (const edge of ["+", "−"]) series.push({ label: `${visible(arm.label)} ${edge} 1 s.e.`, stroke: "transparent", points: { show: false }, class: "hidden" });
      drawn.lines.push({ label: arm.label, values: mean, colour: stroke, dash });
      drawn.bands.push({ low, high, colour: stroke });
      bands.push({ series: [first + 1, first + 2], fill: `${stroke}33` });
    });
    const options = {
      ...this.size(),
      scales: { x: { time: false }, y: { distr: isLog ? 3 : 1 } },
      axes: [wholeAxis("iterations of each agent"), { ...axis(), label, size: 70 }],
      series,
      bands,
    };
    this.plot = new uPlot(options, data, this.chart);
    this.drawn = drawn;
  }
}
