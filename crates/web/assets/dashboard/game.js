// @ts-check
/** A game: standings, payoffs and actions by round. */
import { get, h, number, settle, words } from "./dom.js";
import { csvTable } from "./csv.js";
import { Lines } from "./lines.js";

const N_COLOURS = 6;

export class Game {
  /** @param {string} base the address of the run */
  constructor(base) {
    this.base = base;
    this.element = h("section", { "aria-label": "game" });
    this.shown = "";
    this.n_players = 0;
    this.n_rounds = 0;
    /** Charts by title. They are kept when new rounds arrive. @type {Map<string, Lines>} */
    this.charts = new Map();
    this.actions = h("div", { class: "pictures" });
  }

  async refresh() {
    try {
      const game = await get(`${this.base}/game`);
      const shown = JSON.stringify(game);
      if (shown === this.shown) return;
      this.shown = shown;
      this.draw(game);
    } catch (error) {
      this.shown = "";
      settle(this.element, h("h2", {}, "Standings"), h("p", { class: "note" }, words(error)));
    }
  }

  /** @param {any} game */
  draw({ players, standings, n_initial }) {
    const n_rounds = Math.max(0, ...players.map((/** @type {any} */ player) => player.payoffs.length));
    [this.n_players, this.n_rounds] = [players.length, n_rounds];
    const rounds = Array.from({ length: n_rounds }, (_, index) => index + 1);
    const parts = [h("h2", {}, "Standings"),
      csvTable("standings", ["player", "plays", "mean payoff", "random rounds", "last tenth", "best", "lost", "stand-ins"], standings.map((/** @type {any} */ each) => [
        each.player, each.plays, number(each.mean), number(each.mean_of_initial), number(each.mean_of_last_tenth), number(each.best), each.n_lost, each.n_stand_ins])),
      h("h2", {}, "Payoffs by round"),
      h("p", { class: "quiet" }, n_initial > 0 ? `Points are payoffs; lines are means of the rounds so far, the ${n_initial} at random left out.` : "Points are payoffs; lines are means of the rounds so far.")];
    /** @type {(() => void)[]} */
    const draw = [];
    /** @param {string} label @param {import("./lines.js").Line[]} lines */
    const chart = (label, lines, title = "") => {
      const name = `${title} ${label}`;
      const curve = this.charts.get(name) ?? new Lines("round", label, title);
      this.charts.set(name, curve);
      draw.push(() => curve.show(rounds, lines));
      return curve.element;
    };
    parts.push(chart("payoff", players.flatMap((/** @type {any} */ player, /** @type {number} */ index) => [
      { label: player.name, values: player.payoffs, colour: hue(index), dots: true },
      { label: `${player.name}, mean`, values: player.means, colour: hue(index), dash: dash(index) },
    ])));
    const regrets = players.filter((/** @type {any} */ player) => player.regrets.some((/** @type {any} */ regret) => regret !== null));
    if (regrets.length > 0) {
      parts.push(h("h2", {}, "Regret by round"), chart("regret", regrets.map((/** @type {any} */ player, /** @type {number} */ index) => ({ label: player.name, values: player.regrets, colour: hue(index), dash: dash(index) }))));
    }
    /** @type {HTMLElement[]} */
    const actions = [];
    for (const [index, player] of players.entries()) {
      for (const { parameter, values } of player.actions) {
        const numbers = values.map(Number);
        if (!numbers.every(Number.isFinite)) continue;
        actions.push(chart(parameter, [{ label: player.name, values: numbers, colour: hue(index), dots: true }], `${player.name}: ${parameter}`));
      }
    }
    settle(this.actions, ...actions);
    parts.push(h("h2", {}, "Actions by round"), this.actions, h("h3", {}, "All rounds"), allRounds(players, rounds));
    settle(this.element, ...parts);
    for (const each of draw) each();
  }
}

/** The colour of a player. @param {number} index */
const hue = (index) => `--arm-${index % N_COLOURS}`;
/** Dash patterns distinguish players when colours repeat. @param {number} index */
const dash = (index) => [[], [8, 4], [2, 3]][Math.floor(index / N_COLOURS) % 3];

/**
 * @param {any[]} players
 * @param {number[]} rounds
 */
function allRounds(players, rounds) {
  const heads = ["round", ...players.flatMap((player) => [...player.actions.map((/** @type {any} */ action) => `${player.name}.${action.parameter}`), `${player.name}: payoff`, `${player.name}: source`])];
  const rows = rounds.map((round, index) => [round, ...players.flatMap((player) => [...player.actions.map((/** @type {any} */ action) => shortened(action.values[index])), number(player.payoffs[index]), player.sources[index]])]).reverse();
  return csvTable("actions and payoffs by round", heads, rows, 50);
}

/** Formats a value of an action: numbers with six digits on the page and all digits in the file. @param {string | undefined} value */
function shortened(value) {
  if (value === undefined || value === "" || !Number.isFinite(Number(value))) return value;
  const cell = h("td", {}, number(Number(value)));
  cell.dataset.value = value;
  return cell;
}
