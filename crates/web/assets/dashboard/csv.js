// @ts-check
/** Tables that can be downloaded as CSV files. */
import { h, table } from "./dom.js";
import { keep } from "./picture.js";

/** @typedef {Node | string | number | null | undefined} Cell */

/** The text of a cell, in full even if only a part is shown. @param {Cell} cell */
function text(cell) {
  if (cell instanceof HTMLElement) return cell.dataset.value ?? cell.textContent ?? "";
  const shown = cell instanceof Node ? cell.textContent ?? "" : String(cell ?? "");
  return shown === "–" ? "" : shown;
}

/**
 * Escapes a value as the program's own tables do: on one line, and with a leading `'` if a spreadsheet would read it as a formula.
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
 * Creates a button that downloads rows as a file.
 * @param {string} name the file name without its extension
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
 * Creates a table with a download button. The file has all rows, even if the table shows only the first or last ones.
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
