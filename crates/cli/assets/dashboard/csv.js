// @ts-check
/** Tables that can be kept as a file of comma-separated values. */
import { h, table } from "./dom.js";
import { keep } from "./picture.js";

/** @typedef {Node | string | number | null | undefined} Cell */

/** A cell as text: the whole value where only a part of it is shown. @param {Cell} cell */
function text(cell) {
  if (cell instanceof HTMLElement) return cell.dataset.value ?? cell.textContent ?? "";
  const shown = cell instanceof Node ? cell.textContent ?? "" : String(cell ?? "");
  return shown === "–" ? "" : shown;
}

/**
 * A value by the rules of the program's own tables: on one line, and after a `'` where a spreadsheet would take it for a formula.
 * @param {string} value
 */
function escaped(value) {
  const isEscape = /[\n\r]|\\[nr\\]/.test(value);
  const line = isEscape ? value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\r", "\\r") : value;
  return /^'*([=@\t]|[+-].*[(|])/s.test(line) ? `'${line}` : line;
}

/** @param {Cell} cell */
function quoted(cell) {
  const value = escaped(text(cell));
  return /[",]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}

/**
 * A button that keeps rows as a file.
 * @param {string} name the file's, without its ending
 * @param {string[]} heads
 * @param {Cell[][]} rows
 */
export function csvButton(name, heads, rows) {
  return h("button", {
    type: "button", class: "link", "aria-label": `${name} as CSV`, onclick: () => {
      const lines = [heads, ...rows].map((row) => `${row.map(quoted).join(",")}\n`);
      keep(`${name}.csv`, new Blob(lines, { type: "text/csv;charset=utf-8" }));
    },
  }, "CSV");
}

/**
 * A table with such a button below it, which keeps all rows where only the first are shown, or the last ones.
 * @param {string} label
 * @param {string[]} heads
 * @param {Cell[][]} rows
 * @param {number} shown
 * @param {"first" | "last"} which
 */
export function csvTable(label, heads, rows, shown = 200, which = "first") {
  const isCut = rows.length > shown;
  const part = which === "first" ? rows.slice(0, shown) : rows.slice(-shown);
  return h("div", {}, table(label, heads, part),
    h("p", { class: "quiet" }, isCut ? `The ${which} ${shown} of ${rows.length}; all as ` : null, csvButton(label, heads, rows)));
}
