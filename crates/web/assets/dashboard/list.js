// @ts-check
/** List of the studies and runs. */
import { connection, duration, get, h, number, settle, table } from "./dom.js";
import { repeat } from "./live.js";

const EVERY_MS = 3000;

/** @param {HTMLElement} main */
export async function list(main) {
  document.title = "fedbo: studies and runs";
  let shown = "";
  const refresh = async () => {
    const [found, folders] = await Promise.all([get("api/studies"), get("api/runs")]);
    connection("live");
    const text = JSON.stringify([found, folders.runs.map((/** @type {any} */ each) => [each.id, each.state, each.problem, since(each)])]);
    if (text !== shown) {
      shown = text;
      draw(main, found, folders);
    }
  };
  await refresh();
  repeat(refresh, EVERY_MS);
}

/**
 * @param {HTMLElement} main
 * @param {any} found
 * @param {any} folders
 */
function draw(main, found, folders) {
  const names = found.studies.map((/** @type {any} */ each) => each.name);
  const isOne = (/** @type {string} */ name) => names.indexOf(name) === names.lastIndexOf(name);
  const studies = found.studies.map((/** @type {any} */ each) => [
    h("div", {}, h("a", { href: `?study=${encodeURIComponent(each.id)}` }, each.name), isOne(each.name) ? null : h("div", { class: "where" }, each.place)), number(each.best),
    each.n_trials === null ? each.n_told : `${each.n_told} of ${each.n_trials}`, each.n_running, each.n_failed,
    each.last_told_at === null ? "–" : new Date(each.last_told_at).toLocaleString(), each.place]);
  const runs = folders.runs.map((/** @type {any} */ each) => [
    h("a", { href: `?folder=${encodeURIComponent(each.id)}` }, each.name), each.problem === null ? each.state : h("td", { class: "long" }, `${each.state}: ${each.problem}`), since(each), each.place]);
  const nothing = h("p", {}, "There is no study yet: it appears here with its first trial.");
  settle(main,
    h("h1", {}, "Studies and runs"),
    ...found.unreadable.map((/** @type {any} */ each) => h("p", { class: "note" }, `${each.place}: ${each.why}`)),
    ...(studies.length > 0 ? [table("studies", ["study", "best", "trials", "running", "failed", "last told", "place"], studies)] : []),
    ...(runs.length > 0 ? [table("runs", ["run", "state", "last row", "place"], runs)] : []),
    ...(studies.length + runs.length === 0 ? [nothing] : []));
}

/** @param {any} each */
function since(each) {
  if (each.seconds_since !== null && each.seconds_since < 10) return "now";
  return each.seconds_since === null ? "–" : `${duration(Math.round(each.seconds_since / 10) * 10)} ago`;
}
