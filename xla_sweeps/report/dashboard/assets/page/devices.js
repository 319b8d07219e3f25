/** The figures behind the answer: a row for each device; or, of one model on one device, each configuration with its
 * modes, costs and command. */

import { allOf, capitalized, count, extent, getOrMake, images, NONE, plural, present, range, rate, say, seconds, short, shortCount, signed, times } from "./numbers.js";
import { FACETS, VERDICTS } from "./state.js";
import { copyButton, el, linkButton, linksOf, ownOf, plainTable, strip, symbolOf, verdictMark } from "./dom.js";
import { executionOf, modeOf, naturally } from "./data.js";
import { ANY_OUTCOME, asPublished, sumsOf } from "./view.js";
import { cut, gibibytes, measuredOr, rowName, rowSettings, shortDevice, shortMode, someOf, speedupOf } from "./marks.js";
import { isBounded } from "./pairs.js";
import { statusWords } from "./broke.js";

const CARDS_SHOWN = 4;

/** Whether the intervals of most pairs give a verdict; published ones have none, and are taken as they are. */
const isClear = ({ faster, slower, equivalent, ambiguous }) => faster + slower + equivalent > ambiguous;

const rangeOf = ({ low, high }) => (low === high ? times(low) : `${range(low, high)}×`);

/** The answer as a row for each device: word and counts, speedups, cost, the ends. @param {View} view */
export function deviceTable(view) {
  if (!view.overview.compared && !view.overview.failed) return null;
  const sorted = view.sorted(ANY_OUTCOME);
  const devices = deviceSums(view).map((sums) => {
    const own = sorted.filter(view.rows.is("device", sums.name));
    return { sums: asPublished(view, sums, own), own, mark: view.doubtOfAll(sums.rows) };
  });
  const extreme = (row) => (row === undefined ? NONE : extremeOf(view, row));
  return plainTable("", devices, [
    ["Device", ({ sums }) => el("span", { title: sums.name, text: shortDevice(view, sums.name) })],
    ["Answer", ({ sums, own, mark }) => el("b", sums.failed || own.length ? `${overallWord(sums)}${mark}` : "Not measured.")],
    ["Verdicts", ({ sums }) => verdictCounts(sums)],
    ["Speedup", ({ sums, mark }) => speedupWords(view, sums).map((text) => el("div", `${text}${mark}`))],
    ["Cost", ({ sums }) => costWords(sums, view.state.scenario).trim() || NONE],
    ["Best", ({ own }) => extreme(own.at(-1))],
    ["Worst", ({ own }) => extreme(own[0])],
  ], { class: "devices" });
}

/** "1.63× float32": of each precision the mean of like settings, else the range; of what is mixed by families. @param {View} view */
function speedupWords(view, sums) {
  if (overallWord(sums) === PACKAGE.otherwise && sums.models > 1) return familyWords(view, sums);
  const kinds = new Map();
  for (const row of sums.rows) getOrMake(kinds, view.at(row).tf32 ? "TF32" : view.at(row).precision, () => []).push(row);
  return [...kinds].sort(([kind, a], [other, b]) => b.length - a.length || naturally(kind, other)).map(([kind, rows]) => {
    const own = asPublished(view, sumsOf(view.rows, rows), rows);
    if (!isClear(own)) return `not known yet ${kind}`;
    const between = own.low === own.high ? "" : ` (${rangeOf(own)})`;
    return `${present(own.geomean) ? `${times(own.geomean)}${between}` : rangeOf(own)} ${kind}`;
  });
}

/** "1.10–1.48× RegNetX, ResNetV1; …": families that are faster throughout, slower throughout, and the others. @param {View} view */
function familyWords(view, { rows }) {
  const families = new Map();
  for (const row of rows) getOrMake(families, view.at(row).family, () => []).push(row);
  const sides = new Map(["faster", "slower", "both"].map((side) => [side, []]));
  for (const [name, own] of families) {
    const sums = sumsOf(view.rows, own);
    sides.get(sums.low > 1 ? "faster" : sums.high < 1 ? "slower" : "both").push({ name, own });
  }
  return [...sides.values()].filter((some) => some.length).map((some) => {
    const names = someOf(some.map(({ name }) => name).sort(naturally), 3);
    return `${rangeOf(sumsOf(view.rows, some.flatMap(({ own }) => own)))} ${names}`;
  });
}

/** The counts of the verdicts as a bar, and in words below it. */
function verdictCounts(sums) {
  const verdicts = Object.keys(VERDICTS).filter((verdict) => sums[verdict]);
  let end = 0;
  const parts = verdicts.map((verdict) => [verdict, end, (end += (100 * sums[verdict]) / sums.pairs)]);
  const said = (verdict) => ` ${count(sums[verdict])} ${VERDICTS[verdict].word}`;
  const entries = verdicts.map((verdict) => el("span.entry", symbolOf(verdict), said(verdict)));
  return el("div.shares", strip("parts", parts), el("div.legend", entries));
}

/** A model at an end of the order, and its speedup; a click shows only this model. @param {View} view @param {number} row */
function extremeOf(view, row) {
  const model = view.at(row).model;
  const link = linkButton(cut(model, 40), () => view.state.set({ model }), { title: rowName(view, row) });
  return el("span", link, ` ${speedupOf(view, row)}`);
}

/** Each configuration of one model on one device. @param {View} view */
export function configurationCards(view) {
  const [px, batch] = view.rows.numbers("resolution_px", "batch_size");
  const rows = Array.from(view.counted).sort((a, b) => px[a] - px[b] || batch[a] - batch[b]);
  const more = rows.length - CARDS_SHOWN;
  const asked = PACKAGE.question.map(({ column }) => column);
  const differing = FACETS.filter(({ column }) => asked.includes(column) && view.distinct(column).length > 1);
  const choose = allOf(differing.map(({ title }) => title.toLowerCase()));
  const shown = rows.slice(0, CARDS_SHOWN);
  const most = mostOf(shown.flatMap((row) => modesOf(view, row)));
  return [
    ...shown.map((row) => configurationCard(view, row, rows.length > 1, most)),
    more > 0 && el("p.note", `${plural(more, "more configuration")}: choose ${choose} above.`),
  ];
}

/** One configuration: bars of its modes, what it costs, the command, the log and the run in W&B. @param {View} view @param {number} place */
function configurationCard(view, place, titled, most) {
  const row = view.at(place);
  const title = ` ${speedupOf(view, place)} at ${rowSettings(view, place, { device: false })}`;
  const cost = (/** @type {any[]} */ [name, value, about]) =>
    el("div", el("dt", name), el("dd", el("b", value), el("span", about)));
  const links = linksOf(view, place);
  const again = ["Measure again: ", el("code", row.command), " ", copyButton(view, place)];
  return el(
    "div.configuration",
    titled && el("h3", verdictMark(row.verdict), title),
    titled && row.caveats && el("p.note", row.caveats),
    modeBars(view, place, most),
    el("p", fastestWay(view, place)),
    el("dl.keys", costsOf(row).map(cost)),
    [row.command && again, links].filter((line) => line.length).map((line) => el("p.run", line)),
  );
}

/** The columns of a mode's figures, and whether XLA compiled it. */
const MODE_FIGURES = Object.entries({
  ...{ value: "throughput_samples_per_s", low: "throughput_low", high: "throughput_high" },
  ...{ p50: "latency_p50_ms", compile: "compile_s", memory: "memory_bytes", jit: "jit_compile" },
});
const NO_FIGURES = { value: NaN, low: NaN, high: NaN, p50: NaN };

/** What is known of each mode of a row's trial; of one that failed why, and no figures. @param {View} view @param {number} place */
function modesOf({ rows }, place) {
  const { trial } = rows.numbered;
  const modes = /** @type {Map<string, any>} */ (new Map());
  const failed = new Map();
  for (const other of rows.where((each) => trial[each] === trial[place])) {
    const row = rows.at(other);
    failed.set(row.failed_mode, { ...NO_FIGURES, failed: statusWords(row.status) });
    for (const [label, prefix] of [[row.candidate, ""], [row.baseline, "baseline_"]]) {
      const figure = ([name, column]) => [name, row[prefix + column]];
      const own = Object.fromEntries(MODE_FIGURES.map(figure));
      if (label && (!modes.has(label) || present(own.value))) modes.set(label, own);
    }
  }
  const order = Object.keys(PACKAGE.switches);
  const rank = (label) => order.indexOf(modeOf(label));
  for (const [label, mode] of modes) Object.assign(mode, failed.get(label));
  return [...modes].sort(([a], [b]) => rank(a) - rank(b) || naturally(a, b));
}

/** What Keras made of a mode that leaves it the choice: ", with XLA", or "". @param {string} label */
const chosenBy = (label, jit) =>
  jit && PACKAGE.chosen.includes(executionOf(label)) ? `, ${jit === "true" ? "with" : "without"} XLA` : "";

/** Whether a mode runs the model: `input` is its data alone. */
const runsModel = (/** @type {[string, any]} */ [label]) => executionOf(label) !== "none";

/** The mode to call, where it is surely faster than both sides of the comparison; "" for `fit`. @param {View} view @param {number} place */
function fastestWay(view, place) {
  const row = view.at(place);
  const { baseline, candidate, baseline_throughput_samples_per_s: usual } = row;
  const isSide = (/** @type {any[]} */ [label]) => [baseline, candidate].includes(modeOf(label));
  const others = modesOf(view, place)
    .filter((mode) => runsModel(mode) && !isSide(mode) && present(mode[1].value));
  const [[label, best] = ["", {}]] = others.sort(([, a], [, b]) => b.value - a.value);
  const sides = Math.max(row.throughput_high, row.baseline_throughput_high);
  if (row.scenario === "fit" || !(best.low > sides)) return "";
  const speedup = `${times(best.value / usual)}${view.doubt(place)}`;
  return `${say("fastest way", { mode: shortMode(label), speedup, baseline: shortMode(baseline) })}.`;
}

/** The ends of the scales of throughput and of a call, over all modes that are shown. */
const mostOf = (modes) => ({
  rate: extent(modes.flatMap(([, { value, high }]) => [value, high]))?.[1] ?? 1,
  call: extent(modes.map(([, { p50 }]) => p50))?.[1] ?? 1,
});

/** Each mode with many calls and one call side by side, compile time and memory; what runs no model stands below. @param {View} view @param {number} place */
function modeBars(view, place, most) {
  const { candidate, verdict } = view.at(place);
  const hollow = view.doubt(place) ? " hollow" : "";
  const all = modesOf(view, place);
  const apart = all.filter((mode) => !runsModel(mode)).map(([label, { value }]) => `${shortMode(label)}: ${rate(value)}`);
  const bar = (label, value, end, whisker = []) => {
    const marks = [[`bar ${label === candidate ? verdict : ""}${hollow}`, 0, present(value) ? (100 * value) / end : 0], ...whisker];
    return strip("mode-track", marks);
  };
  const columns = /** @type {TableColumn<any>[]} */ ([
    ["Mode", ([label, { jit }]) => `${shortMode(label)}${chosenBy(label, jit)}`],
    ["Many calls, queued", ([label, { value, low, high, failed = "failed" }]) => {
      const whisker = isBounded({ low, high }) ? [["whisker", (100 * low) / most.rate, (100 * high) / most.rate]] : [];
      const text = present(value) ? `${rate(value)}${whisker.length ? ` (${range(low, high, short)})` : ""}` : failed;
      return el("span", bar(label, value, most.rate, whisker), text);
    }],
    ["One call, waited for (median)", ([label, { p50 }]) => (present(p50) ? el("span", bar(label, p50, most.call), `${short(p50)} ms`) : NONE)],
    ["Compile", ([, { compile }]) => seconds(compile)],
    ["Memory", ([, { memory }]) => gibibytes(memory)],
  ]);
  const table = plainTable("", all.filter(runsModel), columns, { class: "modes" });
  return el("div", table, apart.map((text) => el("p.note", capitalized(text))));
}

/** What a row costs, and its single calls: name, value and explanation. @param {Row} row */
function costsOf(row) {
  const needed = row.break_even_images;
  const baseline = shortMode(row.baseline);
  const [least, most] = [row.break_even_low, row.break_even_high].map((calls) => calls * row.samples);
  const between = [needed, least, most].every(present) ? `(${shortCount(least)} to ${shortCount(most)})` : "";
  const { latency_speedup: latency, latency_speedup_low: low, latency_speedup_high: high } = row;
  return [
    ["One call at a time", latency === row.speedup ? NONE : times(latency), range(low, high)],
    ["Compile time", signed(row.compile_s_extra, seconds), `over ${baseline}`],
    ["Break-even", Number.isNaN(needed) ? NONE : images(needed), between],
    ["Peak memory", times(row.peak_memory_ratio), `of ${baseline}’s`],
    ["A million samples", short(row.cost_per_million), `with ${shortMode(row.candidate)}, ${range(row.cost_per_million_low, row.cost_per_million_high, short)}`],
    ["Energy of a sample", present(row.joules_per_sample) ? `${short(row.joules_per_sample)} J` : NONE, `${baseline}: ${measuredOr(row.baseline_joules_per_sample)}`],
    ["Power", present(row.watts_high) ? `${short(row.watts_high)} W` : NONE, "at most, of all modes"],
    ["Replicates", count(row.replicates), ""],
  ].filter(([, value]) => value !== NONE);
}

/** "5,400": a count with two significant digits. */
export const roughly = (value) => count(value < 100 ? Math.round(value) : Number(value.toPrecision(2)));

/** "5,400 calls", by the scenario's name of a call. */
export const countCalls = (value, scenario) => `${roughly(value)} ${ownOf(PACKAGE.calls, scenario) ?? "call"}s`;

/** " Compiling takes 12 s longer; half pay it back within 143,000 calls, 40 never do.", of unlike settings the range. */
function costWords(sums, scenario) {
  const { median_extra_compile_s: extra, median_break_even_calls: middle, never, priced, extras } = sums;
  if (!priced || !extras) return "";
  if (!present(extra)) {
    const [low, high] = extras.map((each) => seconds(each));
    const text = extras[1] <= 0 ? say("no longer") : say("compiling", { seconds: low === high ? low : `${low} to ${high}` });
    return ` ${text}${never ? `; ${count(never)} of ${count(priced)} never pay it back` : ""}.`;
  }
  if (extra <= 0) return ` ${say("no longer")}.`;
  const text = ` ${say("compiling", { seconds: seconds(extra) })}`;
  if (middle === null) return `${text}${say(priced > 1 ? "most" : "one never")}.`;
  return `${text}${say(priced > 1 ? "half" : "one", { amount: countCalls(middle, scenario) })}${never ? say("never", { count: count(never) }) : ""}.`;
}

/** Each device with its sums, in the order of their names; also one of which nothing is known. @param {View} view */
export const deviceSums = ({ rows, counted, unmeasured }) => {
  const names = rows.textsOf("device", [...counted, ...unmeasured]).sort(naturally);
  return names.map((name) => ({ name, ...sumsOf(rows, counted.filter(rows.is("device", name))) }));
};

/** "Usually yes.", and the like: by the share of all pairs, including failures, as the package's rules say. */
export function overallWord(overview) {
  const holds = ({ verdict, share: least, sign }) =>
    overview[verdict] / overview.pairs >= least && (!sign || !present(overview.geomean) || sign * Math.log(overview.geomean) > 0);
  return PACKAGE.rules.find(holds)?.word ?? PACKAGE.otherwise;
}
