// @ts-check
/** Actions on a study, enabled by `fedbo dashboard --actions`: add a point, retry failed trials, stop the study. */
import { ask, get, h, settle, words } from "./dom.js";

/** Maximum number of trials per request, whose length is limited. */
const TRIALS = 5000;
/** Time after which the page explains a possible wait. */
const SLOW_MS = 2000;

export class Actions {
  /** @param {string} base the study's address */
  constructor(base) {
    this.base = base;
    /** Numbers of trials that this page has retried, before the events report them. @type {Set<number>} */
    this.retried = new Set();
  }

  /**
   * Requests an action. Throws an error with the server's message if it fails.
   * @param {string} name
   * @param {object} body
   */
  async ask(name, body) {
    const { token } = await get("api/actions");
    const response = await ask(`${this.base}/${name}`, {
      method: "POST", headers: { "content-type": "application/json", "x-fedbo-action": token }, body: JSON.stringify(body),
    });
    return response.json();
  }

  /**
   * Runs the action of a pressed button and shows its result below.
   * @param {HTMLButtonElement} button
   * @param {HTMLElement} line
   * @param {() => Promise<string>} work
   */
  async press(button, line, work) {
    button.setAttribute("aria-disabled", "true");
    say(line, "…");
    const slow = setTimeout(() => say(line, "Still waiting: another program may hold the storage; the request waits up to 30 s."), SLOW_MS);
    try {
      say(line, await work());
    } catch (error) {
      say(line, words(error), true);
    }
    clearTimeout(slow);
    button.removeAttribute("aria-disabled");
  }

  /**
   * Creates a button that retries failed trials.
   * @param {number[]} numbers
   * @param {string} label
   * @param {string} which the common property of the trials, for screen readers
   * @param {HTMLElement} line shows the result
   */
  retry(numbers, label, which, line) {
    /** @type {HTMLButtonElement} */
    const button = action(label, () => this.press(button, line, async () => {
      let n = 0;
      for (let from = 0; from < numbers.length; from += TRIALS) {
        const trials = numbers.slice(from, from + TRIALS);
        n += (await this.ask("retry", { trials })).trials.length;
        for (const trial of trials) this.retried.add(trial);
      }
      return n === 1 ? "1 trial waits to be tried again." : `${n} trials wait to be tried again.`;
    }), { "aria-label": `${label}: ${which}` });
    return button;
  }

  /**
   * Creates the form for a user-supplied point.
   * @param {any[]} parameters
   * @param {() => any} best the best trial so far, or null
   */
  form(parameters, best) {
    const line = answer();
    const fields = parameters.map((each, index) => {
      const id = `point-${index}`;
      const input = field(each, id);
      return { name: each.name, when: each.when ?? {}, field: input, label: h("label", { for: id }, each.name, input, h("span", { id: `${id}-hint` }, hint(each))) };
    });
    /** @type {Map<string, boolean>} */
    const known = new Map();
    /**
     * Returns true if a parameter exists with the values in the form.
     * @param {any} each
     * @returns {boolean}
     */
    const exists = (each) => {
      let present = known.get(each.name);
      if (present === undefined) known.set(each.name, (present = holds(each)));
      return present;
    };
    const holds = (/** @type {any} */ each) => Object.entries(each.when).every(([name, values]) => {
      const parent = fields.find((other) => other.name === name);
      const given = parent?.field.value.trim() ?? "";
      const isGiven = (/** @type {any} */ value) => (typeof value === "number" ? given !== "" && Number(given) === value : given === String(value));
      return parent !== undefined && exists(parent) && [values].flat().some(isGiven);
    });
    // Hides the fields of parameters that do not exist.
    const update = () => {
      known.clear();
      for (const each of fields) each.label.hidden = each.field.disabled = !exists(each);
    };
    update();
    const add = /** @type {HTMLButtonElement} */ (h("button", { type: "submit" }, "Add the point"));
    const fill = action("Take the values of the best trial", () => {
      const trial = best();
      if (trial === null) return say(line, "No trial has a value yet.");
      for (const each of fields) {
        const value = Object.hasOwn(trial.parameters, each.name) ? trial.parameters[each.name] : undefined;
        if (value !== undefined) each.field.value = String(value);
      }
      update();
      say(line, `These are the values of trial ${trial.number}; edit them before adding the point.`);
    });
    return h("form", { class: "point", oninput: update, onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      if (add.getAttribute("aria-disabled") === "true") return;
      this.press(add, line, async () => {
        const values = fields.filter(exists).map((each) => [each.name, each.field.value]);
        return `Trial ${(await this.ask("enqueue", { values })).trial} waits, and is tried next.`;
      });
    } },
      h("div", { class: "tools" }, ...fields.map((each) => each.label)),
      h("div", { class: "action" }, add, fill, line));
  }

  /**
   * Creates the button that stops the study after a confirmation.
   * @param {string} name
   * @param {() => number} running the number of running trials
   * @param {() => Promise<void>} stopped updates the page after the stop
   */
  stop(name, running, stopped) {
    const line = answer();
    const open = action("Stop the study…", () => {
      if (dialog.open) return;
      told.textContent = running() === 0 ? "No trial is running." : `Running trials that will finish: ${running()}.`;
      dialog.showModal();
    });
    const told = h("p", {});
    const yes = action("Stop it", () => {
      dialog.close();
      this.press(open, line, async () => {
        const { running: left } = await this.ask("stop", {});
        await stopped();
        return left.length === 0 ? "The study is stopped." : `The study is stopped; still to be told: trials ${left.join(", ")}.`;
      });
    });
    const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-labelledby": "stop-question", "aria-describedby": "stop-effect" },
      h("h2", { id: "stop-question" }, `Stop ${name}?`),
      h("p", { id: "stop-effect" }, "Programs that tune it now, on any machine, start no further trial. A fedbo tune started later continues the study."),
      told,
      h("div", { class: "action" }, action("Let it run", () => dialog.close(), { autofocus: true }), yes)));
    return h("div", { class: "action" }, open, line, dialog);
  }
}

/** @param {string} label @param {() => any} pressed @param {object} more */
function action(label, pressed, more = {}) {
  const button = /** @type {HTMLButtonElement} */ (h("button", { type: "button", ...more, onclick: () => {
    if (button.getAttribute("aria-disabled") !== "true") pressed();
  } }, label));
  return button;
}

/** A line for the result of an action. Screen readers announce its changes. */
export function answer() {
  return h("p", { class: "answer", role: "status" });
}

/** @param {HTMLElement} line @param {string} text */
function say(line, text, wrong = false) {
  settle(line, text);
  line.classList.toggle("bad", wrong);
}

/** @param {any} parameter @param {string} id @returns {HTMLInputElement | HTMLSelectElement} */
function field(parameter, id) {
  const about = { id, name: parameter.name, required: true, "aria-describedby": `${id}-hint` };
  const listed = parameter.choices ?? parameter.values;
  if (listed) {
    return /** @type {HTMLSelectElement} */ (h("select", about, ...listed.map((/** @type {any} */ choice) => h("option", { value: choice }, choice))));
  }
  return /** @type {HTMLInputElement} */ (h("input", { ...about, inputmode: "decimal", autocomplete: "off", spellcheck: "false" }));
}

/** The allowed values of a parameter. @param {any} parameter */
function hint(parameter) {
  if (parameter.choices ?? parameter.values) return "one of these";
  const step = parameter.step === null || parameter.step === undefined ? "" : `, by ${parameter.step}`;
  return `${parameter.type === "int" ? "whole, " : ""}${parameter.low} to ${parameter.high}${step}`;
}
