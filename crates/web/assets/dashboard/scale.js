// @ts-check
/** Positions on axes, and colours for values that colour-blind readers can distinguish. */

/** Evenly spaced colours of cividis (Nuñez, Anderton & Renslow 2018), from the worst to the best. */
const STEPS = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];

/** The colour of a value between 0 and 1. @param {number} share */
export function shade(share) {
  const at = Math.min(1, Math.max(0, share)) * (STEPS.length - 1);
  const [from, part] = [Math.min(STEPS.length - 2, Math.floor(at)), at - Math.min(STEPS.length - 2, Math.floor(at))];
  const mixed = STEPS[from].map((each, index) => Math.round(each + part * (STEPS[from + 1][index] - each)));
  return `rgb(${mixed.join(" ")})`;
}

/**
 * The relative position of a parameter's value, from 0 at its minimum to 1 at its maximum. Choices are evenly spaced.
 * @param {any} parameter
 * @param {any} value
 */
export function placeOf(parameter, value) {
  const choices = choicesOf(parameter);
  if (choices !== null) return (choices.findIndex((each) => each === value) + 0.5) / choices.length;
  const ends = [...endsOf(parameter), value];
  const [low, high, at] = parameter.log ? ends.map(Math.log) : ends;
  return high > low ? (at - low) / (high - low) : 0.5;
}

/** The choices of a categorical parameter. @param {any} parameter @returns {any[] | null} */
export function choicesOf(parameter) {
  return parameter.choices ?? null;
}

/** The smallest and the largest number of a numeric parameter. @param {any} parameter @returns {[number, number]} */
export function endsOf(parameter) {
  const values = parameter.values ?? [parameter.low, parameter.high];
  return [values[0], values[values.length - 1]];
}
