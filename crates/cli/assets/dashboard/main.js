// @ts-check
/** Chooses the page by the address. */
import { h, view } from "./dom.js";
import { list } from "./list.js";
import { run } from "./run.js";
import { study } from "./study.js";

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const [id, folder] = [view().get("study"), view().get("folder")];
try {
  await (id !== null ? study(main, id) : folder !== null ? run(main, folder) : list(main));
} catch (error) {
  const text = error instanceof Error ? error.message : String(error);
  main.replaceChildren(h("h1", {}, "This cannot be shown"), h("p", { class: "note", role: "alert" }, text), h("p", {}, h("a", { href: "./" }, "All studies and runs")));
}
