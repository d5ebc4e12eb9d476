// @ts-check
/** Parallel coordinates: a line per trial through all parameters and the value. Better trials are lighter and drawn later. */
import { colour, h, number, settle, visible } from "./dom.js";
import { SvgContext, pictureButtons } from "./picture.js";
import { choicesOf, endsOf, placeOf, shade } from "./scale.js";

const HEIGHT = 320;
/** Maximum number of lines: those of the best and of the newest trials. */
const LINES = 2000;

export class Parallel {
  /**
   * @param {any[]} parameters
   * @param {boolean} minimize
   */
  constructor(parameters, minimize) {
    this.parameters = parameters;
    this.minimize = minimize;
    /** @type {any[]} */
    this.trials = [];
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" }));
    this.note = h("p", { class: "quiet" });
    this.element = h("div", {}, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "parallel coordinates" }, this.canvas), this.note,
      pictureButtons("parallel coordinates", () => this.svg()));
    new ResizeObserver(() => this.draw()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** @param {any[]} told */
  show(told) {
    this.trials = told.filter((trial) => trial.state === "complete" && trial.value !== null);
    this.draw();
  }

  draw() {
    const context = this.canvas.getContext("2d");
    if (context === null || this.element.clientWidth === 0) return;
    const width = this.width();
    const ratio = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * ratio, height: HEIGHT * ratio });
    this.canvas.setAttribute("height", String(HEIGHT * ratio));
    this.canvas.style.setProperty("width", `${width}px`);
    context.scale(ratio, ratio);
    const { n_ranked, n_shown } = this.paint(context, width);
    this.canvas.setAttribute("aria-label", `${n_shown} trials over ${this.parameters.length} parameters; the table of trials has the same numbers`);
    const left = n_ranked - n_shown;
    settle(this.note, n_shown === 0 ? "No trial has a value yet." : `The lighter a line, the better its trial; the axis of values has the best at the top.${left > 0 ? ` ${left} trials between the best and the last are left out.` : ""}`);
  }

  width() {
    return Math.max(this.element.clientWidth - 4, (this.parameters.length + 1) * 90);
  }

  /** The lines as SVG. */
  svg() {
    const picture = new SvgContext(this.width(), HEIGHT, "trials over all parameters");
    this.paint(picture, this.width());
    return picture.text();
  }

  /**
   * @param {CanvasRenderingContext2D | SvgContext} context
   * @param {number} width
   */
  paint(context, width) {
    const better = (/** @type {any} */ a, /** @type {any} */ b) => (this.minimize ? a.value - b.value : b.value - a.value);
    const ranked = [...this.trials].sort(better);
    const shown = ranked.length <= LINES ? ranked : [...new Set([...ranked.slice(0, LINES / 2), ...this.trials.slice(-LINES / 2)])].sort(better);
    const n = this.parameters.length + 1;
    // Lines of trials without a parameter pass below its axis.
    const lane = this.parameters.some((each) => each.when !== undefined) ? 24 : 0;
    const [top, bottom] = [34, HEIGHT - 24 - lane];
    const x = (/** @type {number} */ index) => 45 + (index * (width - 90)) / Math.max(1, n - 1);
    const y = (/** @type {number} */ share) => bottom - share * (bottom - top);
    const [worst, best] = shown.length === 0 ? [0, 1] : [shown[shown.length - 1].value, shown[0].value];
    const share = (/** @type {number} */ value) => (best === worst ? 1 : (value - worst) / (best - worst));
    context.lineWidth = 1.2;
    for (let index = shown.length - 1; index >= 0; index -= 1) {
      const trial = shown[index];
      const rank = shown.length === 1 ? 1 : 1 - index / (shown.length - 1);
      context.strokeStyle = shade(rank);
      context.globalAlpha = 0.25 + 0.75 * rank ** 4;
      context.beginPath();
      this.parameters.forEach((parameter, column) => {
        const value = trial.parameters[parameter.name];
        context.lineTo(x(column), !Object.hasOwn(trial.parameters, parameter.name) ? HEIGHT - 12 : y(placeOf(parameter, value)));
      });
      context.lineTo(x(n - 1), y(share(trial.value)));
      context.stroke();
    }
    context.globalAlpha = 1;
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    const [ground, ink, line] = ["--ground", "--ink", "--quiet"].map(colour);
    const say = (/** @type {string} */ text, /** @type {number} */ left, /** @type {number} */ at) => {
      const whole = visible(text);
      const short = whole.length > 14 ? `${whole.slice(0, 13)}…` : whole;
      const wide = context.measureText(short).width + 6;
      context.fillStyle = ground;
      context.fillRect(left - wide / 2, at - 12, wide, 16);
      context.fillStyle = ink;
      context.fillText(short, left, at);
    };
    for (let column = 0; column < n; column += 1) {
      context.strokeStyle = line;
      context.beginPath();
      context.moveTo(x(column), top);
      context.lineTo(x(column), bottom);
      context.stroke();
      const parameter = this.parameters[column];
      const choices = parameter === undefined ? null : choicesOf(parameter);
      say(parameter === undefined ? "value" : parameter.name, x(column), 12);
      if (parameter?.when !== undefined) say("absent", x(column), HEIGHT - 8);
      if (choices !== null && choices.length <= 8) {
        for (const choice of choices) say(String(choice), x(column), y(placeOf(parameter, choice)) + 4);
        continue;
      }
      const [low, high] = parameter === undefined ? [worst, best] : choices !== null ? [choices[0], choices[choices.length - 1]] : endsOf(parameter);
      say(typeof low === "number" ? number(low) : String(low), x(column), bottom + 16);
      say(typeof high === "number" ? number(high) : String(high), x(column), top - 6);
    }
    return { n_ranked: ranked.length, n_shown: shown.length };
  }
}
