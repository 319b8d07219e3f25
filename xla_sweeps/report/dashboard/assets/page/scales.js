/** Scales: colours of the theme, and logarithmic scales with round ticks, as options for Plot. */

import { digits, extent, short } from "./numbers.js";
import { VERDICTS } from "./state.js";

const THEME = ["text", "quiet", "line", "panel", "band", "middle"];

/** The theme's colours, from the style sheet; those of the verdicts under their names. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const named = (name) => [name, style.getPropertyValue(`--${name}`).trim()];
  return { __proto__: null, ...Object.fromEntries([...THEME, ...Object.keys(VERDICTS)].map(named)) };
}

/** Colours of speedups: slower – middle – faster, full at twice. */
export function speedupColours({ slower, middle, faster }) {
  const color = { type: "diverging-log", pivot: 1, domain: [0.5, 2], range: [slower, middle, faster], clamp: true };
  return Plot.plot({ color }).scale("color").apply;
}

/** The more readable of black and white on a colour `rgb(r, g, b)`. */
export function inkOn(colour) {
  const [r, g, b] = colour.match(/\d+/g).map((value) => (value / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#101418" : "#ffffff";
}

/** About `wanted` round numbers between two positive ones, evenly on a logarithmic scale. */
export function logTicks(low, high, wanted) {
  const decades = Math.log10(high / low);
  const fine = decades > wanted / 2.2 ? [1, 3] : decades > wanted / 3.5 ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7];
  const [steps, every] = decades > wanted ? [[1], Math.ceil(decades / wanted)] : [fine, 1];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    if (power % every === 0) ticks.push(...steps.map((step) => Number(`${step}e${power}`)));
  const inside = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  return inside.length > wanted / 2 ? inside : linearTicks(low, high, wanted);
}

/** Round numbers between two. */
function linearTicks(low, high, wanted) {
  if (!(high > low)) return [low];
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw);
  const first = Math.ceil(low / step);
  const places = Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => first + i);
  return places.map((place) => Number((place * step).toPrecision(12)));
}

/** A logarithmic scale of positive values, with a grid and about `wanted` ticks. @param {string} label */
export function logScale(label, values, { write = short, wanted = 6 } = {}) {
  const [low, high] = extent(values) ?? [1, 10];
  const [from, to] = low === high ? [low / 1.5, high * 1.5] : [low, high];
  const margin = (to / from) ** 0.04;
  const domain = [from / margin, to * margin];
  const ticks = logTicks(...domain, wanted);
  return { type: "log", base: Math.E, domain, label, grid: true, ticks, tickFormat: write }; // base 10 drops words
}

/** A logarithmic scale of speedups, with 1× inside. @param {string} label */
export function speedupScale(label, values, options = {}) {
  const [low, high] = extent(values) ?? [0.5, 2];
  const ends = [Math.min(low, 1 / 1.03), Math.max(high, 1.03)];
  return logScale(label, ends, { write: (tick) => `${digits(tick, 3)}×`, ...options });
}

/** Margins of a plot, in the order of CSS; and an axis of words alone. */
export const margins = (top, right, bottom, left) =>
  ({ marginTop: top, marginRight: right, marginBottom: bottom, marginLeft: left });
export const WORDS = { label: null, tickSize: 0 };

/** Untrusted text for a chart: on one line, and well formed, since a picture of it is XML. @param {string} text */
export function chartText(text) {
  const line = String(text ?? "").replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\ufffe\uffff]+/g, " ");
  return line.toWellFormed ? line.toWellFormed() : line.replace(/[\ud800-\udfff]/g, "\ufffd");
}

/** Text cut to a length, at the end. @param {string} text */
export const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** Text cut to a length in its middle, since both ends of a name tell it apart. @param {string} text */
export function cutMiddle(text, length) {
  if (text.length <= length) return text;
  const head = Math.ceil((length - 1) * 0.6);
  return `${text.slice(0, head)}…${text.slice(head + 1 - length)}`;
}
