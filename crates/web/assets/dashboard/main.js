// @ts-check
/** Selects the page by the URL. */
import { h, view } from "./dom.js";
import { list } from "./list.js";
import { federation, federations } from "./operator.js";
import { run } from "./run.js";
import { study } from "./study.js";

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const [id, folder, name] = ["study", "folder", "federation"].map((each) => view().get(each));

/** Starts the page given by the URL. */
function page() {
  if (document.body.dataset.of === "coordinator") return name === null ? federations(main) : federation(main, name);
  if (id !== null) return study(main, id);
  return folder !== null ? run(main, folder) : list(main);
}

// Charts are drawn only once, so their fonts must be loaded first.
const fonts = ["16px", "bold 16px"].map((each) => document.fonts.load(`${each} "Noto Sans"`));
await Promise.allSettled(fonts);

try {
  await page();
} catch (error) {
  const text = error instanceof Error ? error.message : String(error);
  main.replaceChildren(h("h1", {}, "This page cannot be shown"), h("p", { class: "note", role: "alert" }, text), h("p", {}, h("a", { href: "./" }, "All studies and runs")));
}

/** Minimum number of sections for a list of them. */
const SECTIONS = 4;
const sections = /** @type {HTMLElement} */ (document.getElementById("sections"));

/** Lists the visible sections of the page. */
function listSections() {
  const heads = [...main.querySelectorAll("h2")].filter((head) => head.offsetParent !== null);
  heads.forEach((head, index) => { head.id = `section-${index}`; });
  const links = heads.map((head) => h("a", { href: `#${head.id}` }, head.firstChild?.textContent));
  const isSame = links.length === sections.childElementCount && links.every((link, index) => link.isEqualNode(sections.children[index]));
  if (!isSame) sections.replaceChildren(...links);
  sections.hidden = links.length < SECTIONS;
}
listSections();
setInterval(listSections, 1000);
