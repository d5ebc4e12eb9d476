// @ts-check
/** Pictures of a page that can be downloaded as SVG or PNG. */
import { colour, h, number, visible } from "./dom.js";

/** Time after which the object URL of a file is revoked. Browsers read it when the download starts. */
const KEEP_MS = 10_000;
/** Pixels of a PNG per pixel of the page. */
const RATIO = 2;
const FONT = "Noto Sans, Open Sans, Helvetica, Arial, sans-serif";

/**
 * Downloads a file.
 * @param {string} name with its extension
 * @param {Blob} content
 */
export function keep(name, content) {
  const address = URL.createObjectURL(content);
  h("a", { href: address, download: name.replace(/[^\w.-]+/g, "-") }).click();
  setTimeout(() => URL.revokeObjectURL(address), KEEP_MS);
}

/**
 * Creates buttons that download the current picture.
 * @param {string} name
 * @param {() => string | null} make the picture as SVG; null if there is nothing yet
 */
export function pictureButtons(name, make) {
  const button = (/** @type {string} */ kind, /** @type {(svg: string) => Promise<Blob>} */ convert) => h("button", {
    type: "button", class: "link", "aria-label": `${name} as ${kind}`, onclick: async () => {
      const svg = make();
      if (svg !== null) keep(`${name}.${kind.toLowerCase()}`, await convert(svg));
    },
  }, kind);
  return h("p", { class: "keep" }, button("SVG", async (svg) => new Blob([svg], { type: "image/svg+xml" })), " ", button("PNG", toPng));
}

/** Converts an SVG to PNG. @param {string} svg @returns {Promise<Blob>} */
async function toPng(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas"));
  Object.assign(canvas, { width: image.naturalWidth * RATIO, height: image.naturalHeight * RATIO });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob === null ? reject(new Error("the picture is too large for a PNG")) : resolve(blob)), "image/png"));
}

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);

/** Formats a length in hundredths of a pixel. @param {number} value */
const short = (value) => String(Math.round(100 * value) / 100);

/** The subset of a canvas context that the pictures use, implemented for SVG. */
export class SvgContext {
  /**
   * @param {number} width
   * @param {number} height
   * @param {string} title
   */
  constructor(width, height, title) {
    this.width = width;
    this.height = height;
    this.title = title;
    /** @type {any} */
    this.fillStyle = colour("--ground");
    /** @type {any} */
    this.strokeStyle = "#000";
    this.font = "12px sans-serif";
    /** @type {CanvasTextAlign} */
    this.textAlign = "start";
    this.lineWidth = 1;
    this.globalAlpha = 1;
    /** @type {string[]} */
    this.parts = [];
    this.path = "";
    /** @type {string[]} */
    this.transforms = [];
    /** @type {number[]} */
    this.saved = [];
    this.dash = "";
    this.fillRect(0, 0, width, height);
  }

  /** @param {string} element @param {Record<string, string | number>} attributes @param {string} content */
  add(element, attributes, content = "") {
    const all = this.transforms.length === 0 ? attributes : { ...attributes, transform: this.transforms.join(" ") };
    const text = Object.entries(all).map(([name, value]) => `${name}="${typeof value === "number" ? short(value) : escaped(value)}"`).join(" ");
    this.parts.push(content === "" ? `<${element} ${text}/>` : `<${element} ${text}>${content}</${element}>`);
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  fillRect(x, y, width, height) {
    this.add("rect", { x, y, width, height, fill: this.fillStyle, ...this.opacity("fill") });
  }

  /** @param {"fill" | "stroke"} what @returns {Record<string, number>} */
  opacity(what) {
    return this.globalAlpha === 1 ? {} : { [`${what}-opacity`]: this.globalAlpha };
  }

  beginPath() {
    this.path = "";
  }

  /** @param {number} x @param {number} y */
  moveTo(x, y) {
    this.path += `M${short(x)} ${short(y)}`;
  }

  /** @param {number} x @param {number} y */
  lineTo(x, y) {
    this.path += `${this.path === "" ? "M" : "L"}${short(x)} ${short(y)}`;
  }

  /** A circle. @param {number} x @param {number} y @param {number} radius */
  arc(x, y, radius) {
    const r = short(radius);
    this.path += `M${short(x - radius)} ${short(y)}a${r} ${r} 0 1 0 ${short(2 * radius)} 0a${r} ${r} 0 1 0 ${short(-2 * radius)} 0`;
  }

  /** @param {number[]} dash */
  setLineDash(dash) {
    this.dash = dash.join(" ");
  }

  stroke() {
    /** @type {Record<string, string>} */
    const dash = this.dash === "" ? {} : { "stroke-dasharray": this.dash };
    this.add("path", { d: this.path, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, ...dash, ...this.opacity("stroke") });
  }

  fill() {
    this.add("path", { d: this.path, fill: this.fillStyle, ...this.opacity("fill") });
  }

  /** @param {string} text @param {number} x @param {number} y */
  fillText(text, x, y) {
    const anchor = this.textAlign === "center" ? "middle" : this.textAlign === "right" ? "end" : "start";
    const [, bold, size] = /^(bold )?(\d+)px/.exec(this.font) ?? ["", "", "12"];
    this.add("text", { x, y, fill: this.fillStyle, "font-size": size, "text-anchor": anchor, ...(bold ? { "font-weight": "bold" } : {}) }, escaped(text));
  }

  /** @param {string} text */
  measureText(text) {
    return { width: 6.8 * text.length };
  }

  save() {
    this.saved.push(this.transforms.length);
  }

  restore() {
    this.transforms.length = this.saved.pop() ?? 0;
  }

  /** @param {number} x @param {number} y */
  translate(x, y) {
    this.transforms.push(`translate(${short(x)} ${short(y)})`);
  }

  /** @param {number} angle in radians */
  rotate(angle) {
    this.transforms.push(`rotate(${short((180 * angle) / Math.PI)})`);
  }

  /** The resolution of the screen does not matter for SVG. */
  scale() {}

  /** The complete SVG. */
  text() {
    const size = `width="${short(this.width)}" height="${short(this.height)}" viewBox="0 0 ${short(this.width)} ${short(this.height)}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="${FONT}" role="img"><title>${escaped(visible(this.title))}</title>${this.parts.join("\n")}</svg>\n`;
  }
}

/**
 * @typedef {{ label: string, values: (number | null)[], colour: string, step?: boolean, dash?: number[], dots?: boolean }} SvgLine
 * @typedef {{ low: (number | null)[], high: (number | null)[], colour: string }} SvgBand
 */

/**
 * Draws a chart of curves over one axis, as shown on the page. Colours are CSS colours.
 * @param {{ title: string, names: [string, string], x: number[], lines: SvgLine[], bands?: SvgBand[], isLog?: boolean }} chart
 */
export function chartSvg({ title, names, x, lines, bands = [], isLog = false }) {
  const [width, height, left, top, right, bottom] = [900, 420, 80, 16, 880, 320];
  const picture = new SvgContext(width, height, title);
  const scaled = (/** @type {number} */ value) => (isLog ? Math.log10(value) : value);
  const all = [...lines.map((line) => line.values), ...bands.flatMap((band) => [band.low, band.high])].flat().filter((value) => value !== null).map(Number).map(scaled);
  const [across, up] = [range(x), range(all)];
  const px = (/** @type {number} */ value) => left + ((value - across[0]) / (across[1] - across[0])) * (right - left);
  const py = (/** @type {number} */ value) => bottom - ((scaled(value) - up[0]) / (up[1] - up[0])) * (bottom - top);
  const [ink, quiet, line] = ["--ink", "--quiet", "--line"].map(colour);
  picture.strokeStyle = line;
  picture.fillStyle = quiet;
  for (const tick of ticks(across).filter(Number.isInteger)) {
    stroke(picture, [[px(tick), top], [px(tick), bottom]]);
    picture.textAlign = "center";
    picture.fillText(number(tick), px(tick), bottom + 18);
  }
  for (const tick of ticks(up)) {
    const value = isLog ? 10 ** tick : tick;
    stroke(picture, [[left, py(value)], [right, py(value)]]);
    picture.textAlign = "right";
    picture.fillText(number(value), left - 8, py(value) + 4);
  }
  picture.fillStyle = ink;
  picture.font = "bold 13px";
  picture.textAlign = "center";
  picture.fillText(visible(names[0]), (left + right) / 2, bottom + 42);
  picture.save();
  picture.translate(18, (top + bottom) / 2);
  picture.rotate(-Math.PI / 2);
  picture.fillText(visible(names[1]), 0, 0);
  picture.restore();
  for (const band of bands) {
    const ends = x.map((at, index) => [at, band.low[index], band.high[index]]).filter(([, low, high]) => low !== null && high !== null).map((each) => each.map(Number));
    if (ends.length === 0) continue;
    picture.beginPath();
    for (const [at, low] of ends) picture.lineTo(px(at), py(low));
    for (const [at, , high] of [...ends].reverse()) picture.lineTo(px(at), py(high));
    [picture.fillStyle, picture.globalAlpha] = [band.colour, 0.2];
    picture.fill();
    picture.globalAlpha = 1;
  }
  picture.font = "13px";
  picture.textAlign = "left";
  let at = left;
  for (const each of lines) {
    const points = /** @type {[number, number][]} */ (x.map((value, index) => [value, each.values[index]]).filter(([, value]) => value !== null && value !== undefined));
    [picture.strokeStyle, picture.fillStyle, picture.lineWidth] = [each.colour, each.colour, 2];
    if (each.dots || points.length === 1) {
      picture.beginPath();
      for (const [value, high] of points) picture.arc(px(value), py(high), 2.5);
      picture.fill();
    } else {
      picture.setLineDash(each.dash ?? []);
      stroke(picture, points.flatMap(([value, high], index) => {
        const here = [px(value), py(high)];
        return each.step && index > 0 ? [[here[0], py(points[index - 1][1])], here] : [here];
      }));
    }
    // The legend.
    if (at + 40 + 7 * each.label.length > right) at = left;
    if (each.dots) {
      picture.beginPath();
      picture.arc(at + 12, height - 26, 3);
      picture.fill();
    } else stroke(picture, [[at, height - 26], [at + 24, height - 26]]);
    picture.setLineDash([]);
    picture.fillStyle = ink;
    picture.fillText(visible(each.label), at + 30, height - 22);
    at += 54 + 7.5 * each.label.length;
  }
  return picture.text();
}

/** @param {SvgContext} picture @param {number[][]} points */
function stroke(picture, points) {
  picture.beginPath();
  for (const [x, y] of points) picture.lineTo(x, y);
  picture.stroke();
}

/** The minimum and maximum of numbers, made distinct. @param {number[]} values @returns {[number, number]} */
function range(values) {
  const [low, high] = values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  if (low > high) return [0, 1];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

/** About six round numbers in a range. @param {[number, number]} range */
function ticks([low, high]) {
  const rough = (high - low) / 6;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * size).find((each) => each >= rough) ?? size;
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}
