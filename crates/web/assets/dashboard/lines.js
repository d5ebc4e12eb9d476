// @ts-check
/** Charts of curves over an axis of integers. */
/* global uPlot */
import { axis, colour, h, number, visible, wholeAxis } from "./dom.js";
import { chartSvg, pictureButtons } from "./picture.js";

/** @typedef {{ label: string, values: (number | null)[], colour: string, step?: boolean, dash?: number[], dots?: boolean }} Line */

const HEIGHT = 260;

export class Lines {
  /**
   * @param {string} x the name of the axis
   * @param {string} y
   * @param {string} title the heading
   */
  constructor(x, y, title = "") {
    this.names = [x, y];
    this.title = title === "" ? y : title;
    this.place = h("div");
    this.element = h("div", { class: "lines" }, title === "" ? null : h("h3", {}, title), this.place, pictureButtons(this.title, () => this.svg()));
    /** @type {number[]} */
    this.x = [];
    /** @type {Line[]} */
    this.lines = [];
    /** @type {any} */
    this.plot = null;
    new ResizeObserver(() => (this.plot === null ? this.create() : this.plot.setSize(this.size()))).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.create());
  }

  size() {
    return { width: Math.max(240, this.element.clientWidth), height: HEIGHT };
  }

  /**
   * @param {number[]} x
   * @param {Line[]} lines
   */
  show(x, lines) {
    [this.x, this.lines] = [x, lines];
    this.create();
  }

  create() {
    this.plot?.destroy();
    this.plot = null;
    // A chart outside the page has no width yet.
    if (this.lines.length === 0 || this.element.clientWidth === 0) return;
    const series = this.lines.map((line) => ({
      label: visible(line.label), stroke: colour(line.colour), width: 2, dash: line.dash ?? [], spanGaps: true,
      value: (/** @type {any} */ _, /** @type {number | null} */ value) => number(value),
      ...(line.step ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
      ...(line.dots ? { paths: () => null } : {}),
      points: { show: line.dots === true || this.x.length < 3, size: 5, fill: colour(line.colour) },
    }));
    this.plot = new uPlot({
      ...this.size(),
      scales: { x: { time: false } },
      axes: [wholeAxis(visible(this.names[0])), { ...axis(), label: visible(this.names[1]), size: 70 }],
      series: [{ label: this.names[0] }, ...series],
    }, [this.x, ...this.lines.map((line) => line.values)], this.place);
  }

  /** The chart as SVG. */
  svg() {
    if (this.lines.length === 0) return null;
    const lines = this.lines.map((line) => ({ ...line, colour: colour(line.colour) }));
    return chartSvg({ title: this.title, names: [this.names[0], this.names[1]], x: this.x, lines });
  }
}
