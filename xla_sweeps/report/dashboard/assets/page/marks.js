/** Marks, scales and words that several charts share: names of rows, markers of verdicts, doubt, panels, colours. */

import { countedOf, digits, extent, images, NONE, plural, present, range, rate, seconds, short, times, trimmed } from "./numbers.js";
import { VERDICTS } from "./state.js";
import { dotted, el, ownOf, phrase } from "./dom.js";
import { modeOf } from "./data.js";

/** "XLA over graph". @param {View} view */
export const versus = ({ state }) => `${shortMode(state.candidate)} over ${shortMode(state.baseline)}`;

/** "XLA against graph". @param {Sides} pair */
export const pairWords = ({ candidate, baseline }) => `${shortMode(candidate)} against ${shortMode(baseline)}`;

/** What over what, where, when and how many: what a picture of these rows must still say. @param {View} view @param {any} [rows] */
export function subjectOf(view, what = `Speedup of ${versus(view)}`, rows = view.counted) {
  const [devices, models, dates] = /** @type {const} */ (["device", "model", "measured_at"]).map((name) => view.rows.textsOf(name, rows));
  const n = new Set(Array.from(rows, (row) => view.rows.numbered.question[row])).size;
  const shared = nameParts(view).shared.filter((part) => !devices.includes(part));
  return dotted(what, someOf(devices, 3), ...shared, countedOf({ n, models: models.length }), daysOf(dates));
}

/** "2026-11-01 to 2026-11-05": the days between which something was measured, of dates as text; "" without any. */
export function daysOf(texts) {
  const days = texts.filter(Boolean).map((text) => text.slice(0, 10)).sort();
  return [...new Set([...days.slice(0, 1), ...days.slice(-1)])].join(" to ");
}

/** Who measured with what. @param {View} view */
export function sourceOf(view) {
  return view.once("source", () => {
    const published = view.distinct("origin").every((origin) => origin === "imported");
    return dotted(
      `${published ? "Published by others; collected" : "Measured"} with xla_sweeps ${view.rows.meta.version}`,
      someOf(view.distinct("software").filter(Boolean), 2, "; "),
      someOf(view.distinct("driver").filter(Boolean).map((driver) => `driver ${driver}`), 2),
    );
  });
}

/** A device's name without its maker. @param {View} view */
export const shortDevice = ({ rows }, device) => ownOf(rows.meta.short, device) ?? device;

/** "A, B and 3 more". */
export const someOf = (names, most, between = ", ") =>
  names.slice(0, most).join(between) + (names.length > most ? ` and ${names.length - most} more` : "");

/** "float32 · TF32". @param {Row} row */
export const precisionOf = ({ precision, tf32 }) => dotted(precision, tf32 && "TF32");

/** The settings in a row's name: column, and how its value is written. @type {[TextColumn | NumberColumn, (value: string) => string][]} */
const SETTINGS = [
  ["resolution_px", (value) => `${value} px`],
  ["batch_size", (value) => `batch ${value}`],
  ["precision", String],
  ["tf32", (value) => (value === "1" ? "TF32" : "")],
  ["device", String],
];

/** Resolution, batch, precision and device of a row, and what else tells it apart. @param {View} view @param {number} row */
export function rowSettings(view, row, { device = true } = {}) {
  const settings = device ? SETTINGS : SETTINGS.slice(0, -1);
  return dotted(...settings.map(([column, write]) => write(view.index.facetText(column, row)))) + view.at(row).suffix;
}

/** A row's whole name, which no other has: for tooltips and tables. @param {View} view @param {number} row */
export const rowName = (view, row) => `${view.at(row).model} · ${rowSettings(view, row)}`;

/** The settings in which the pairs differ, and in words those that all share. @param {View} view */
function nameParts(view) {
  return view.once("name parts", () => {
    const alike = SETTINGS.filter(([column]) => view.distinct(column).length < 2);
    const shared = alike.map(([column, write]) => view.distinct(column)[0] && write(view.distinct(column)[0]));
    const options = view.distinct("runtime").length === 1 ? view.distinct("runtime") : [];
    const differing = SETTINGS.filter((setting) => !alike.includes(setting));
    return { shared: [...shared, ...options].filter(Boolean), differing };
  });
}

/** A row's name without what all pairs share. @param {View} view @param {number} row */
export function rowLabel(view, row) {
  const written = nameParts(view).differing.map(([column, write]) => {
    const value = view.index.facetText(column, row);
    return column === "device" ? shortDevice(view, value) : write(value);
  });
  return dotted(view.at(row).model, ...written) + view.at(row).suffix_asked;
}

/** What marks need of a row: its speedup with interval, verdict, doubt and device. @param {View} view @param {number} row */
export function markOf(view, row) {
  const { speedup: value, speedup_low: low, speedup_high: high, verdict, device } = view.at(row);
  return { row, value, low, high, verdict, device, doubt: view.doubt(row) };
}

/** "1.32×~ h": a row's speedup with its marks. @param {View} view @param {number} row */
export const speedupOf = (view, row) => `${times(view.at(row).speedup)}${view.at(row).marks}`;

/** "1.30–1.34": the interval of a row's speedup. @param {View} view @param {number} row */
export const intervalOf = (view, row) => range(view.at(row).speedup_low, view.at(row).speedup_high);

/** Columns of tables whose items are rows. @param {View} view @returns {TableColumn<number>} */
export const named = (view) => ["Measurement", (row) => rowName(view, row)];

/** Speedup and interval. @param {View} view @returns {TableColumn<number>[]} */
export const figured = (view, title = "Speedup") => [
  [title, (row) => speedupOf(view, row)],
  ["95 % interval", (row) => intervalOf(view, row)],
];

/** The widest band of no difference among rows. @param {View} view */
export const floorOf = (view) =>
  view.once("floor", () => {
    const floor = view.rows.number("floor");
    return view.counted.reduce((most, row) => (floor[row] > most ? floor[row] : most), 0) || 0.01;
  });

/** The 1× line and the band of no difference, of speedups along `x` or `y`. @param {Theme} theme @param {number} floor */
export function unityMarks(theme, floor, along) {
  const ends = { [`${along}1`]: 1 / (1 + floor), [`${along}2`]: 1 + floor };
  const rule = along === "x" ? Plot.ruleX : Plot.ruleY;
  return [floor ? Plot.rect([0], { ...ends, fill: theme.band }) : null, rule([1], { stroke: theme.quiet })];
}

const PANELS_MOST = 6;

/** A panel for each device, side by side where they have room: marks' channel, options of the plot, heads, note. @param {number} width */
export function devicePanels(devices, width) {
  const shown = devices.slice(0, PANELS_MOST);
  const across = shown.length * 270 <= width;
  const channel = across ? "fx" : "fy";
  const name = { [channel]: (device) => device, text: (device) => chartText(cutMiddle(device, 40)) };
  return {
    shown,
    facet: { [channel]: "device" },
    plot: {
      height: across ? 340 : 60 + (width < 600 ? 120 : 240) * shown.length,
      ...margins(30, 16, 40, 52),
      [channel]: { domain: shown, axis: null, padding: across ? 0.08 : 0.2 },
    },
    heads: Plot.text(shown, { ...name, frameAnchor: "top-left", dy: -14, fontWeight: "bold", fontSize: 12 }),
    note: devices.length > shown.length && `The first ${shown.length} of ${devices.length} devices.`,
  };
}

/** Full, or hollow if there is doubt: the colours of a mark, for items with a `doubt`. @param {Theme} theme */
export const hollowIf = (theme, colour) => ({
  fill: (item) => (item.doubt ? theme.panel : colour(item)),
  stroke: colour,
  strokeWidth: 1.3,
});

/** The colour of an item's verdict. @param {Theme} theme */
export const verdictColour = (theme) => ({ verdict }) => theme[verdict] ?? theme.quiet;

const VERDICT_SHAPES = { __proto__: null, faster: "triangle", slower: "triangle", equivalent: "square", ambiguous: "diamond" };

/** Channels of a dot for items with a `verdict` and a `doubt`. @param {Theme} theme */
export const verdictDots = (theme) => ({
  symbol: ({ verdict }) => VERDICT_SHAPES[verdict] ?? "circle",
  rotate: ({ verdict }) => (verdict === "slower" ? 180 : 0),
  ...hollowIf(theme, verdictColour(theme)),
});

/** Legend entries: a marker in its colour and a word each. */
export const legendOf = (entries) =>
  entries.map(({ mark = "", colour = "", text }) => {
    const symbol = mark && el("span", { "aria-hidden": "true", data: { colour }, style: { color: colour }, text: mark });
    return el("span", { class: mark ? "entry" : "entry wrap" }, symbol, ` ${text}`);
  });

/** The verdicts among the items, and what hollow means if any is. @param {Theme} theme */
export function verdictLegend(theme, items) {
  const verdicts = new Set(items.map(({ verdict }) => verdict));
  const shownVerdicts = Object.entries(VERDICTS).filter(([verdict]) => verdicts.has(verdict) && verdict !== "failed");
  const entries = shownVerdicts.map(([verdict, { symbol, word }]) => ({ mark: symbol, colour: theme[verdict], text: word, isVerdict: true }));
  return [...entries, ...doubtLegend(items)];
}

/** What hollow means, if any item is. */
export const doubtLegend = (items) => (items.some(({ doubt }) => doubt) ? [{ text: `hollow: ${PACKAGE.contaminated}` }] : []);

/** What a mouse over a pair says. @param {View} view @param {number} place */
export function pairTip(view, place) {
  const row = view.at(place);
  const { symbol = "", word = "" } = VERDICTS[row.verdict] ?? {};
  const paid = row.break_even_images;
  const after = paid === Infinity ? "never pays back" : `pays back after ${images(paid)}`;
  const back = Number.isNaN(paid) ? "unknown whether it pays back" : after;
  return [
    rowName(view, place),
    `${symbol} ${word} · ${speedupOf(view, place)} (95 % ${intervalOf(view, place)})`,
    `${row.candidate} ${rate(row.throughput_samples_per_s)}, ${row.baseline} ${rate(row.baseline_throughput_samples_per_s)}`,
    present(row.compile_s_extra) && `extra compile time ${seconds(row.compile_s_extra)}, ${back}`,
    phrase([plural(row.replicates, "replicate"), row.status === "contaminated" && "contaminated"], ", "),
  ];
}

/** What people call a mode; a second copy is named as such. @param {string} label */
export function shortMode(label) {
  const called = ownOf(PACKAGE.names, modeOf(label)) ?? modeOf(label);
  return modeOf(label) === label ? called : `a second copy of ${called}`;
}

/** "1.6 GiB". @param {number} bytes */
export const gibibytes = (bytes) => (present(bytes) ? `${digits(bytes / 2 ** 30)} GiB` : NONE);

/** A figure that not every trial measures. @param {number} value */
export const measuredOr = (value) => (present(value) ? short(value) : "not available");

const THEME = ["text", "quiet", "line", "panel", "band"];

/** The theme's colours, from the style sheet; those of the verdicts under their names. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const colourOf = (name) => [name, style.getPropertyValue(`--${name}`).trim()];
  return { __proto__: null, ...Object.fromEntries([...THEME, ...Object.keys(VERDICTS)].map(colourOf)) };
}

/** About `wanted` round numbers between two positive ones, evenly on a logarithmic scale. */
function logTicks(low, high, wanted) {
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
  return { type: "log", base: Math.E, domain, label, grid: true, ticks, tickFormat: (tick) => trimmed(write(tick)) }; // base 10 drops words
}

/** A logarithmic scale of speedups, with 1× inside. @param {string} label */
export function speedupScale(label, values, options = {}) {
  const [low, high] = extent(values) ?? [0.5, 2];
  const ends = [Math.min(low, 1 / 1.03), Math.max(high, 1.03)];
  return logScale(label, ends, { write: times, ...options });
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
