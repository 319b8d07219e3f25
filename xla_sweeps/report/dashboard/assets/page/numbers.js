/** Numbers: how figures are written, and the few aggregates that the page computes. Intervals of single comparisons,
 * p-values and verdicts come with the rows. */

export const NONE = "–";
const COUNT = new Intl.NumberFormat("en");
const LIST = new Intl.ListFormat("en-GB");
/** Of numbers; null and undefined are not. */
export const present = Number.isFinite;

/** A whole number with separators. */
export const count = (value) => (present(value) ? COUNT.format(value) : NONE);

/** "1 pair", "2,000 pairs". */
export const plural = (value, noun, many = `${noun}s`) => `${count(value)} ${value === 1 ? noun : many}`;

export const capitalized = (/** @type {string} */ text) => text[0].toUpperCase() + text.slice(1);

/** "a, b and c". */
export const allOf = (words) => LIST.format(words);

const SCALES = /** @type {[number, string][]} */ ([[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]);

/** Three significant digits, with k, M, G for large numbers: 9.00, 89.9, 3.42 k. */
export function short(value) {
  if (!present(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 1e15) return value.toExponential(1);
  const [scale, mark] = SCALES.find(([least]) => size >= least * 0.9995) ?? [1, ""];
  return digits(value / scale) + mark;
}

/** A p-value: three significant digits, or "<0.001". */
export const chance = (/** @type {number} */ value) => (value < 0.001 ? "<0.001" : short(value));

/** A number with three significant digits, without an exponent. */
export function digits(value, significant = 3) {
  if (!present(value)) return NONE;
  if (value === 0) return "0";
  const power = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(significant)))) + 1e-9);
  return value.toFixed(Math.max(0, Math.min(8, significant - 1 - power)));
}

/** Text of a round number without the zeros that end its decimals: "5 %", "1.5×". @param {string} text */
export const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+(?=[ ×]|$)/, "") : text);

/** A speedup: 1.32×. */
export const times = (value) => (present(value) ? `${digits(value)}×` : NONE);

/** "1.30–1.34". @param {number} low @param {number} high @param {(value: number) => string} write */
export const range = (low, high, write = digits) => (present(low) && present(high) ? `${write(low)}–${write(high)}` : NONE);

/** Seconds as 0.400 s, 19.2 s, 3.00 min, 2.10 h. */
export function seconds(value, significant = 3) {
  if (!present(value)) return NONE;
  const size = Math.abs(value);
  const [unit, word] = size >= 5400 ? [3600, "h"] : size >= 180 ? [60, "min"] : size >= 0.1 ? [1, "s"] : [0.001, "ms"];
  return `${digits(value / unit, significant)} ${word}`;
}

/** A number of things that need not be whole: 48, 3.42 k. */
export const shortCount = (value) => (value < 999.5 ? count(Math.round(value)) : short(value));
export const images = (value) => (present(value) ? (value < 1 ? "no images" : `${shortCount(value)} images`) : "never");
export const rate = (value) => (present(value) ? `${short(value)} img/s` : NONE);
export const percent = (value) => trimmed(digits(value));
/** "7 of 9", from 100 on with percent. */
export const share = (part, whole) => `${count(part)} of ${count(whole)}${whole < 100 ? "" : ` (${percent((100 * part) / whole)} %)`}`;
export const signed = (value, write = short) =>
  present(value) ? `${value > 0 ? "+" : value < 0 ? "−" : "±"}${write(Math.abs(value))}` : NONE;

/** A sentence of the package, with figures and names in its places. */
export const fillIn = (sentence, values) => sentence.replace(/\{(\w+)\}/g, (_, name) => values[name]);
export const say = (/** @type {keyof typeof PACKAGE.sentences} */ name, values = {}) => fillIn(PACKAGE.sentences[name], values);

export const date = (/** @type {string} */ text) => (text ? text.slice(0, 16).replace("T", " ") : NONE);

/** The middle value; infinite ones count, NaN must be left out by the caller. */
export function median(values) {
  const sorted = Float64Array.from(values).sort();
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return low === high ? low : (low + high) / 2;
}

/** A geometric mean in which each model counts once, with its own; null of no values. @param {number[]} values @param {any[]} models of each value. */
export function geometricMean(values, models) {
  const logsOf = new Map();
  values.forEach((value, place) => getOrMake(logsOf, models[place], () => []).push(Math.log(value)));
  const mean = (/** @type {number[]} */ logs) => logs.reduce((sum, log) => sum + log, 0) / logs.length;
  return values.length ? Math.exp(mean(Array.from(logsOf.values(), mean))) : null;
}

/** "12 configurations of 4 models". */
export const countedOf = ({ n, models }) => `${plural(n, "configuration")} of ${plural(models, "model")}`;

/** The value of a key in a map, made if it is not there yet. @template K, V @param {Map<K, V>} map @param {K} key @param {() => V} make @returns {V} */
export function getOrMake(map, key, make) {
  let value = map.get(key);
  if (value === undefined) map.set(key, (value = make()));
  return value;
}

/** Lowest and highest finite value, or null. */
export function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) if (present(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return low <= high ? [low, high] : null;
}
