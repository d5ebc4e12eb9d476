// @ts-check
/** The model over two parameters: its mean or its uncertainty. */
import { colour, get, h, number, settle, visible, words } from "./dom.js";
import { SvgContext, pictureButtons } from "./picture.js";
import { choicesOf, placeOf, shade } from "./scale.js";

const HEIGHT = 340;

/** Describes the values that a model is fitted to. @param {{ n_values: number, n_all: number }} found */
export function modelled({ n_values, n_all }) {
  return n_values < n_all ? `${n_values} of ${n_all} values (the best half of these, and an even spread of the others)` : `${n_values} values`;
}

export class Surface {
  /**
   * @param {string} base
   * @param {any[]} parameters
   * @param {boolean} minimize
   */
  constructor(base, parameters, minimize) {
    this.base = base;
    this.parameters = parameters;
    this.minimize = minimize;
    /** @type {any} */
    this.shown = null;
    /** @type {any[]} */
    this.trials = [];
    const select = (/** @type {number} */ chosen) => /** @type {HTMLSelectElement} */ (h("select", {}, ...parameters.map((each, index) => h("option", { value: each.name, selected: index === chosen }, each.name))));
    this.x = select(0);
    this.y = select(Math.min(1, parameters.length - 1));
    this.what = /** @type {HTMLSelectElement} */ (h("select", { onchange: () => this.draw() }, h("option", { value: "mean" }, "expected value"), h("option", { value: "std" }, "uncertainty (one standard deviation)")));
    const button = h("button", { type: "button", onclick: () => this.load() }, "Compute");
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img", hidden: true }));
    this.says = h("p", { class: "quiet", role: "status" }, "Fits a model to the trials; other parameters are as in the trial that it expects to be best.");
    this.element = h("div", {},
      h("div", { class: "tools" }, h("label", {}, "Across", this.x), h("label", {}, "Upwards", this.y), h("label", {}, "Shown", this.what), button),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "model over two parameters" }, this.canvas), this.says,
      pictureButtons("model over two parameters", () => this.svg()));
    this.canvas.addEventListener("mousemove", (event) => this.say(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  async load() {
    if (this.x.value === this.y.value) {
      settle(this.says, "Choose two different parameters.");
      return;
    }
    settle(this.says, "Computing…");
    try {
      const [x, y] = [this.x.value, this.y.value];
      this.shown = { ...(await get(`${this.base}/surface?${new URLSearchParams({ x, y })}`)), names: [x, y] };
      this.canvas.hidden = false;
      this.draw();
    } catch (error) {
      settle(this.says, words(error));
    }
  }

  /** Layout: the area of the cells and their sides. */
  area() {
    const width = Math.max(300, Math.min(760, this.element.clientWidth - 4));
    const [left, top, right, bottom] = [92, 12, width - 16, HEIGHT - 44];
    const { x, y } = this.shown;
    return { width, left, top, right, bottom, side: (right - left) / x.length, height: (bottom - top) / y.length };
  }

  draw() {
    const context = this.canvas.getContext("2d");
    if (this.shown === null || context === null) return;
    const { width } = this.area();
    const ratio = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * ratio, height: HEIGHT * ratio });
    this.canvas.style.setProperty("width", `${width}px`);
    context.scale(ratio, ratio);
    const { isMean, low, high } = this.paint(context);
    const [px, py] = this.shown.names;
    this.canvas.setAttribute("aria-label", `${isMean ? "expected value" : "uncertainty"} over ${px} and ${py}, from ${number(low)} to ${number(high)}`);
    settle(this.says, `${isMean ? "Expected values" : "Standard deviations"} from ${number(low)} to ${number(high)}; light is ${isMean ? "better" : "better known"}. From ${modelled(this.shown)}; other parameters as in trial ${this.shown.at.number}. Dots are trials.`);
  }

  /** The model as SVG; null before it has been computed. */
  svg() {
    if (this.shown === null) return null;
    const picture = new SvgContext(this.area().width, HEIGHT, `${this.what.value === "mean" ? "expected value" : "uncertainty"} over ${this.shown.names.join(" and ")}`);
    this.paint(picture);
    return picture.text();
  }

  /** @param {CanvasRenderingContext2D | SvgContext} context */
  paint(context) {
    const { left, top, right, bottom, side, height } = this.area();
    const isMean = this.what.value === "mean";
    const cells = isMean ? this.shown.mean : this.shown.std;
    const all = cells.flat();
    const [low, high] = [Math.min(...all), Math.max(...all)];
    // Light colours are good: better values, or low uncertainty.
    const turned = isMean ? this.minimize : true;
    const share = (/** @type {number} */ value) => (high === low ? 0.5 : turned ? (high - value) / (high - low) : (value - low) / (high - low));
    cells.forEach((/** @type {number[]} */ row, /** @type {number} */ j) => row.forEach((value, i) => {
      context.fillStyle = shade(share(value));
      context.fillRect(left + i * side, bottom - (j + 1) * height, side + 0.5, height + 0.5);
    }));
    const [px, py] = this.shown.names.map((/** @type {string} */ name) => this.parameters.find((each) => each.name === name));
    // Cells are centred on their values.
    const spread = (/** @type {any} */ parameter, /** @type {any} */ value, /** @type {number} */ n) => (choicesOf(parameter) !== null ? placeOf(parameter, value) : (placeOf(parameter, value) * (n - 1) + 0.5) / n);
    for (const trial of this.trials) {
      if (!Object.hasOwn(trial.parameters, px.name) || !Object.hasOwn(trial.parameters, py.name)) continue;
      const [at, up] = [spread(px, trial.parameters[px.name], this.shown.x.length), spread(py, trial.parameters[py.name], this.shown.y.length)];
      context.beginPath();
      context.arc(left + at * (right - left), bottom - up * (bottom - top), 3, 0, 7);
      context.fillStyle = "#fff";
      context.fill();
      context.strokeStyle = "#000";
      context.stroke();
    }
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = colour("--ink");
    const text = (/** @type {any} */ value) => (typeof value === "number" ? number(value) : visible(String(value)).slice(0, 10));
    const [x, y] = [this.shown.x, this.shown.y];
    const every = (/** @type {any[]} */ values) => Math.max(1, Math.ceil(values.length / 6));
    context.textAlign = "center";
    x.forEach((/** @type {any} */ value, /** @type {number} */ i) => i % every(x) === 0 && context.fillText(text(value), left + (i + 0.5) * side, bottom + 16));
    context.fillText(visible(px.name), (left + right) / 2, bottom + 36);
    context.textAlign = "right";
    y.forEach((/** @type {any} */ value, /** @type {number} */ j) => j % every(y) === 0 && context.fillText(text(value), left - 6, bottom - (j + 0.5) * height + 4));
    context.save();
    context.translate(12, (top + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(visible(py.name), 0, 0);
    context.restore();
    return { isMean, low, high };
  }

  /** @param {MouseEvent} event */
  say(event) {
    if (this.shown === null) return;
    const { left, bottom, side, height } = this.area();
    const box = this.canvas.getBoundingClientRect();
    const [i, j] = [Math.floor((event.clientX - box.left - left) / side), Math.floor((bottom - (event.clientY - box.top)) / height)];
    const mean = this.shown.mean[j]?.[i];
    if (mean === undefined) return;
    const [px, py] = this.shown.names;
    const text = (/** @type {any} */ value) => (typeof value === "number" ? number(value) : String(value));
    settle(this.says, `${px} ${text(this.shown.x[i])}, ${py} ${text(this.shown.y[j])}: ${number(mean)} ± ${number(this.shown.std[j][i])}`);
  }
}
