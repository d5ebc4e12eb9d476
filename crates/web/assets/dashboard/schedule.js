// @ts-check
/** Schedule of a federation: how often agents should follow others, how often they did so, and which senders they followed. */
import { get, h, number, settle, words } from "./dom.js";
import { csvTable } from "./csv.js";
import { Lines } from "./lines.js";

/** Arms in which agents work alone under any schedule. */
const ALONE = ["ts", "log-ei", "warm-start"];
/** Maximum number of senders that have their own column. */
const N_COLUMNS = 20;

export class Schedule {
  /** @param {string} base the address of the run */
  constructor(base) {
    this.base = base;
    this.element = h("section", { "aria-label": "schedules" });
    this.chart = new Lines("iteration", "share of own queries");
    /** @type {any} */
    this.about = null;
  }

  /**
   * @param {string | null} arm
   * @param {Map<string, Map<number, any>>} cells rows by agent and iteration
   * @param {number} last the last iteration
   */
  async show(arm, cells, last) {
    const head = h("h2", {}, "Schedules");
    if (arm !== null && ALONE.includes(arm)) {
      settle(this.element, head, h("p", { class: "quiet" }, `In the arm ${arm} each agent works alone.`));
      return;
    }
    if (last < 1) return;
    if ((this.about?.local_prob.length ?? 0) < last) {
      try {
        this.about = await get(`${this.base}/schedule?steps=${Math.max(2 * last, 50)}`);
      } catch (error) {
        settle(this.element, head, h("p", { class: "note" }, words(error)));
        return;
      }
    }
    const { local_prob, is_by_signal } = this.about;
    const x = Array.from({ length: Math.min(last, local_prob.length) }, (_, index) => index + 1);
    const shares = x.map((iteration) => ownShare(cells, iteration));
    const planned = x.map((iteration) => local_prob[iteration - 1]);
    const rows = x.map((iteration, index) => [iteration, number(planned[index]), number(shares[index].share), shares[index].n]);
    settle(this.element, head,
      h("p", { class: "quiet" }, "p_t is the probability that an agent's query t after its initial points follows its own model. The observed share is that of such queries among those that followed a model, without the random ones that replace a repeated point.",
        is_by_signal ? " With trust = \"signal\" releases are used less often than p_t says, the more so the noisier they are; how much less is not recorded." : "",
        " Where no message is left, the own model is followed too."),
      this.chart.element,
      h("details", {}, h("summary", {}, "As a table"), csvTable("own queries by iteration", ["iteration", "p_t", "observed share", "queries"], rows)),
      ...this.whom(cells));
    this.chart.show(x, [
      { label: "p_t", values: planned, colour: "--best", dash: [8, 4] },
      { label: "observed", values: shares.map((each) => each.share), colour: "--accent", dots: true },
    ]);
  }

  /** The known and the observed P_N. @param {Map<string, Map<number, any>>} cells */
  whom(cells) {
    const { agent_sampling, agents } = this.about;
    if (agent_sampling === null) return [];
    const counts = [...cells].map(([agent, rows]) => /** @type {[string, number[]]} */ ([agent, sendersOf(rows, agents)]));
    const asked = agent_sampling === "uniform" ? "is uniform: the same for all agents with an available message"
      : agent_sampling === "learned" ? "is learned by each agent from its own observations, and is not recorded"
        : "was given as weights, relative to the agents with an available message";
    const weights = agent_sampling?.given;
    const total = (weights ?? []).reduce((/** @type {number} */ sum, /** @type {number} */ weight) => sum + weight, 0);
    const all = agents.map((/** @type {string} */ agent, /** @type {number} */ index) => {
      const taken = counts.reduce((sum, [, senders]) => sum + senders[index], 0);
      return [agent, ...(weights === undefined ? [] : [number(weights[index] / total)]), taken];
    });
    const parts = [h("h3", {}, "Senders of the followed messages"),
      h("p", { class: "quiet" }, `P_N, the distribution of the sender of the followed message, ${asked}. The counts are observed: queries with a source that names the sender.`),
      csvTable("messages followed, by sender", ["sender", ...(weights === undefined ? [] : ["P_N given"]), "queries that followed it"], all)];
    if (agents.length <= N_COLUMNS) {
      parts.push(h("details", {}, h("summary", {}, "By agent and sender"),
        csvTable("messages followed, by agent and sender", ["agent \\ sender", ...agents], counts.map(([agent, senders]) => [agent, ...senders]))));
    }
    return parts;
  }
}

/**
 * @param {Map<string, Map<number, any>>} cells
 * @param {number} iteration
 */
function ownShare(cells, iteration) {
  let [own, n] = [0, 0];
  for (const rows of cells.values()) {
    const source = rows.get(iteration)?.source;
    if (source === undefined || !/^(own$|message:|region:)/.test(source)) continue;
    n += 1;
    own += Number(source === "own");
  }
  return { share: n === 0 ? null : own / n, n };
}

/**
 * Counts the queries that followed each sender.
 * @param {Map<number, any>} rows
 * @param {string[]} agents
 */
function sendersOf(rows, agents) {
  const counts = new Map(agents.map((agent) => [`message:${agent}`, 0]));
  for (const { source } of rows.values()) {
    const count = counts.get(source);
    if (count !== undefined) counts.set(source, count + 1);
  }
  return [...counts.values()];
}
