// @ts-check
/** The studies that there are. */
import { connection, get, h, number } from "./dom.js";

const EVERY_MS = 3000;

/** @param {HTMLElement} main */
export async function list(main) {
  document.title = "fedbo: studies";
  let shown = "";
  const refresh = async () => {
    const found = await get("api/studies");
    connection("live");
    const text = JSON.stringify(found);
    if (text !== shown) {
      shown = text;
      draw(main, found);
    }
  };
  await refresh();
  setInterval(() => {
    if (!document.hidden) refresh().catch(() => connection("no answer: is fedbo dashboard still running?", true));
  }, EVERY_MS);
}

/**
 * @param {HTMLElement} main
 * @param {any} found
 */
function draw(main, found) {
  const several = new Set(found.studies.map((/** @type {any} */ each) => each.place)).size > 1;
  const heads = ["study", "best", "trials", "running", "failed", "last told"].concat(several ? ["place"] : []);
  const rows = found.studies.map((/** @type {any} */ each) =>
    h("tr", {},
      h("th", { scope: "row" }, h("a", { href: `?study=${encodeURIComponent(each.id)}` }, each.name)),
      h("td", {}, number(each.best)),
      h("td", {}, each.n_trials === null ? each.n_told : `${each.n_told} of ${each.n_trials}`),
      h("td", {}, each.n_running),
      h("td", {}, each.n_failed),
      h("td", {}, each.last_told_at === null ? "–" : new Date(each.last_told_at).toLocaleString()),
      several ? h("td", { class: "long" }, each.place) : null));
  const table = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "studies" },
    h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, ...rows)));
  const nothing = h("p", {}, "There is no study yet: it appears here with its first trial.");
  main.replaceChildren(
    h("h1", {}, "Studies"),
    ...found.unreadable.map((/** @type {any} */ each) => h("p", { class: "note" }, `${each.place}: ${each.why}`)),
    rows.length === 0 ? nothing : table);
}
