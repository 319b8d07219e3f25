/** The figures behind the answer: a row for each device; or, of one model on one device, each configuration with its
 * modes, costs and command. */

import { allOf, capitalized, count, images, NONE, plural, present, range, rate, say, seconds, share, short, signed, times } from "./numbers.js";
import { FACETS, VERDICTS } from "./state.js";
import { copyButton, el, linkButton, linksOf, ownOf, plainTable, strip, symbolOf, verdictMark } from "./dom.js";
import { executionOf, modeOf, naturally } from "./data.js";
import { ANY_OUTCOME, QUESTION, asPublished, pricesOf, sumsOf } from "./view.js";
import { cut, measuredOr, rowName, rowSettings, shortMode, speedupOf } from "./marks.js";
import { isBounded } from "./pairs.js";

const SPREAD_BINS = 28;
const CARDS_SHOWN = 4;

/** A row for each device: typical, shares of the verdicts, best, worst, spread. @param {View} view */
export function deviceTable(view) {
  if (!view.overview.compared && !view.overview.failed) return null;
  const speedup = view.rows.number("speedup");
  const bestRows = view.sorted(ANY_OUTCOME);
  const ends = bestRows.length ? [bestRows[0], bestRows.at(-1)].map((row) => Math.log2(speedup[row])) : [0, 0];
  const devices = deviceSums(view).map((sums) => ({ sums, sorted: bestRows.filter(view.rows.is("device", sums.name)) }));
  const extreme = (row) => (row === undefined ? NONE : extremeOf(view, row));
  const between = ends.map((end) => times(2 ** end)).join(" to ");
  const logs = (rows) => Array.from(rows, (row) => Math.log2(speedup[row]));
  const spread = ({ sorted }) => (sorted.length ? spreadOf(logs(sorted), ends) : NONE);
  /** @type {[string, (item: { sums: any }) => any]} */
  const cost = ["Cost", ({ sums }) => costWords(pricesOf(view.rows, sums.rows), view.state.scenario) || NONE];
  return plainTable("", devices, [
    ["Answer", ({ sums, sorted }) => el("b", sums.failed || sorted.length ? overallWord(asPublished(view, sums, sorted)) : "Not measured.")],
    ["Device", ({ sums }) => sums.name],
    ["Typical", ({ sums }) => el("b", times(sums.geomean))],
    ["Verdicts", ({ sums }) => verdictShares(sums)],
    ["Best", ({ sorted }) => extreme(sorted.at(-1))],
    ["Worst", ({ sorted }) => extreme(sorted[0])],
    [`Spread, ${between}`, spread],
    ...(devices.length > 1 ? [cost] : []),
  ]);
}

/** The share of each verdict as a bar, and in words below it. */
function verdictShares(sums) {
  const verdicts = Object.keys(VERDICTS).filter((verdict) => sums[verdict]);
  let end = 0;
  const parts = verdicts.map((verdict) => [verdict, end, (end += (100 * sums[verdict]) / sums.pairs)]);
  const said = (verdict) => ` ${share(sums[verdict], sums.pairs)} ${VERDICTS[verdict].word}`;
  const entries = verdicts.map((verdict) => el("span.entry", symbolOf(verdict), said(verdict)));
  return el("div.shares", strip("parts", parts), el("div.legend", entries));
}

/** A model at an end of the order, and its speedup; a click shows only this model. @param {View} view @param {number} row */
function extremeOf(view, row) {
  const model = view.at(row).model;
  const link = linkButton(cut(model, 40), () => view.state.set({ model }), { title: rowName(view, row) });
  return el("span", link, ` ${speedupOf(view, row)}`);
}

/** How many logarithms of speedups lie where between two ends, and where 1× is. */
function spreadOf(logs, /** @type {number[]} */ [low, high]) {
  const width = (high - low) / SPREAD_BINS || 1;
  const place = (log) => Math.min(SPREAD_BINS - 1, Math.max(0, Math.floor((log - low) / width)));
  const bins = new Uint32Array(SPREAD_BINS);
  for (const log of logs) bins[place(log)] += 1;
  const most = Math.max(...bins);
  const step = 100 / SPREAD_BINS;
  const columns = Array.from(bins, (n, bin) => ["column", bin * step, (bin + 1) * step, 100 - (n && Math.max(8, (100 * n) / most))]);
  const unity = ["unity", step * place(0), step * place(0)];
  return strip("spread", low < 0 && high > 0 ? [...columns, unity] : columns);
}

/** Each configuration of one model on one device. @param {View} view */
export function configurationCards(view) {
  const [px, batch] = view.rows.numbers("resolution_px", "batch_size");
  const rows = Array.from(view.counted).sort((a, b) => px[a] - px[b] || batch[a] - batch[b]);
  const more = rows.length - CARDS_SHOWN;
  const differing = FACETS.filter(({ column }) => QUESTION.includes(column) && view.distinct(column).length > 1);
  const choose = allOf(differing.map(({ title }) => title.toLowerCase()));
  return [
    ...rows.slice(0, CARDS_SHOWN).map((row) => configurationCard(view, row, rows.length > 1)),
    more > 0 && el("p.note", `${plural(more, "more configuration")}: choose ${choose} above.`),
  ];
}

/** One configuration: bars of its modes, what it costs, the command, the log and the run in W&B. @param {View} view @param {number} place */
function configurationCard(view, place, titled) {
  const row = view.at(place);
  const title = ` ${speedupOf(view, place)} at ${rowSettings(view, place, { device: false })}`;
  const costs = costsOf(row).map(([name, value, about]) =>
    el("div", el("dt", name), el("dd", el("b", value), el("span", about))),
  );
  const links = linksOf(view, place);
  const again = ["Measure again: ", el("code", row.command), " ", copyButton(view, place)];
  return el(
    "div.configuration",
    titled && el("h3", verdictMark(row.verdict), title),
    modeBars(view, place),
    el("p", fastestWay(view, place)),
    el("dl.keys", costs),
    [row.command && again, links].filter((line) => line.length).map((line) => el("p.run", line)),
  );
}

/** The throughput of each mode of a row's trial, by label: value, bounds, and whether XLA compiled it. @param {View} view @param {number} place */
function modesOf({ rows }, place) {
  const { trial } = rows.numbered;
  const modes = /** @type {Map<string, any>} */ (new Map());
  for (const other of rows.where((each) => trial[each] === trial[place])) {
    const row = rows.at(other);
    for (const [label, prefix] of [[row.candidate, ""], [row.baseline, "baseline_"]]) {
      const figure = (name) => row[prefix + name];
      const [value, low, high] = ["throughput_samples_per_s", "throughput_low", "throughput_high"].map(figure);
      if (label && (!modes.has(label) || present(value))) modes.set(label, { value, low, high, jit: figure("jit_compile") });
    }
  }
  const order = Object.keys(PACKAGE.switches);
  const rank = (label) => order.indexOf(modeOf(label));
  return [...modes].sort(([a], [b]) => rank(a) - rank(b) || naturally(a, b));
}

/** What Keras made of a mode that leaves it the choice: ", with XLA", or "". @param {string} label */
const chosenBy = (label, jit) =>
  jit && PACKAGE.chosen.includes(executionOf(label)) ? `, ${jit === "true" ? "with" : "without"} XLA` : "";

/** Whether a mode runs the model: `input` is its data alone. */
const runsModel = (/** @type {[string, any]} */ [label]) => executionOf(label) !== "none";

/** The mode to call, where neither side of the comparison is the fastest. @param {View} view @param {number} place */
function fastestWay(view, place) {
  const { baseline, candidate } = view.at(place);
  const modes = modesOf(view, place).filter(([, { value }]) => present(value));
  const [label, best] = modes.filter(runsModel).reduce((a, b) => (b[1].value > a[1].value ? b : a), [baseline, { value: 0 }]);
  const usual = modes.find(([name]) => name === baseline)?.[1].value;
  if ([baseline, candidate].includes(modeOf(label)) || !(best.value > usual)) return "";
  const speedup = `${times(best.value / usual)}${view.doubt(place)}`;
  return `${say("fastest way", { mode: shortMode(label), speedup, baseline: shortMode(baseline) })}.`;
}

/** A bar for each mode, from zero, with its interval; what runs no model stands below, without one. @param {View} view @param {number} place */
function modeBars(view, place) {
  const { candidate, verdict } = view.at(place);
  const hollow = view.doubt(place) ? " hollow" : "";
  const all = modesOf(view, place);
  const modes = all.filter(runsModel);
  const apart = all.filter((mode) => !runsModel(mode)).map(([label, { value }]) => `${shortMode(label)}: ${rate(value)}`);
  const most = Math.max(...modes.map(([, { value, high }]) => [high, value, 0].find(present))) || 1;
  const percentOf = (value) => (100 * value) / most;
  const lines = modes.map(([label, { value, low, high, jit }]) => {
    const chosen = label === candidate ? verdict : "";
    const bounded = isBounded({ low, high });
    const marks = [[`bar ${chosen}${hollow}`, 0, percentOf(present(value) ? value : 0)]];
    if (bounded) marks.push(["whisker", percentOf(low), percentOf(high)]);
    const text = present(value) ? `${rate(value)}${bounded ? ` (${range(low, high, short)})` : ""}` : "failed";
    return el(
      "tr",
      el("th", { scope: "row", text: `${shortMode(label)}${chosenBy(label, jit)}` }),
      el("td", strip("mode-track", marks)),
      el("td.number", text),
    );
  });
  return el("div", el("table.modes", el("tbody", lines)), apart.map((text) => el("p.note", capitalized(text))));
}

/** Compile time, break-even, memory and replicates: name, value and explanation. @param {Row} row */
function costsOf(row) {
  const needed = row.break_even_images;
  const baseline = shortMode(row.baseline);
  const between = present(needed) ? breakEvenRange(row).trim() : "";
  return [
    ["Compile time", signed(row.compile_s_extra, seconds), `over ${baseline}`],
    ["Break-even", Number.isNaN(needed) ? NONE : images(needed), between],
    ["Peak memory", times(row.peak_memory_ratio), `of ${baseline}’s`],
    ["A million samples", short(row.cost_per_million), `with ${shortMode(row.candidate)}, ${range(row.cost_per_million_low, row.cost_per_million_high, short)}`],
    ["Energy of a sample", present(row.joules_per_sample) ? `${short(row.joules_per_sample)} J` : NONE, `${baseline}: ${measuredOr(row.baseline_joules_per_sample)}`],
    ["Replicates", count(row.replicates), ""],
  ].filter(([, value]) => value !== NONE);
}

/** "5,400": a count with two significant digits. */
export const roughly = (value) => count(value < 100 ? Math.round(value) : Number(value.toPrecision(2)));

/** "5,400 calls", by the scenario's name of a call. */
export const countCalls = (value, scenario) => `${roughly(value)} ${ownOf(PACKAGE.calls, scenario) ?? "call"}s`;

/** " Compiling takes 12 s longer; half pay it back within 143,000 calls, 40 never do.", as far as it is known. */
export function costWords(sums, scenario) {
  const { median_extra_compile_s: extra, median_break_even_calls: middle, never, priced } = sums;
  if (!present(extra) || !priced) return "";
  if (extra <= 0) return ` ${say("no longer")}.`;
  const text = ` ${say("compiling", { seconds: seconds(extra) })}`;
  if (middle === null) return `${text}${say("most")}.`;
  return `${text}${say("half", { amount: countCalls(middle, scenario) })}${never ? say("never", { count: count(never) }) : ""}.`;
}

/** Each device with its sums, in the order of their names. @param {View} view */
export const deviceSums = (view) =>
  view.once("devices", () =>
    view.distinct("device").map((name) => ({ name, ...sumsOf(view.rows, view.counted.filter(view.rows.is("device", name))) })),
  );

/** "Usually yes.", and the like: by the share of all pairs, including failures, as the package's rules say. */
export function overallWord(overview) {
  const holds = ({ verdict, share: least, sign }) =>
    overview[verdict] / overview.pairs >= least && (!sign || sign * Math.log(overview.geomean ?? 1) > 0);
  return PACKAGE.rules.find(holds)?.word ?? PACKAGE.otherwise;
}

/** " (140 k to 150 k)": images to break even, at the ends of its interval. @param {Row} row */
function breakEvenRange(row) {
  const [low, high] = [row.break_even_low, row.break_even_high].map((calls) => calls * row.samples);
  return present(low) && present(high) ? ` (${short(low)} to ${short(high)})` : "";
}
