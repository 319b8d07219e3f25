/** "Should I turn XLA on?": the answer in a sentence, and the figures behind it. */

import { allOf, capitalized, count, fillIn, percent, plural, present, range, rate, say, seconds, times, trimmed } from "./numbers.js";
import { byId, el, fill, folded, linkButton, ownOf, phrase, plainTable } from "./dom.js";
import { modeOf, pairFor, pairsOf, scenariosOf } from "./data.js";
import { cut, floorOf, pairWords, shortMode } from "./marks.js";
import { addPanel } from "./panels.js";
import { sortedChart } from "./pairs.js";
import { asPublished } from "./view.js";
import { configurationCards, countCalls, deviceSums, deviceTable, overallWord, roughly } from "./devices.js";
import { statusWords } from "./broke.js";

/** The whole section. */
export function answerSection(/** @type {State} */ state) {
  const [sentence, sub, behind, terms] = ["sentence", "sub", "rows", "words"].map((name) => byId(`answer-${name}`));
  addPanel(byId("answer-head"), (view) => {
    const { yes, text, more, command } = answerTo(view);
    fill(sentence, el("b", `${yes} `), text);
    fill(sub, more && el("p", more), command && el("p", "Run: ", el("code", command)));
    fill(behind, isOneModel(view) ? configurationCards(view) : deviceTable(view));
    fill(terms, otherScenarios(view), view.overview.pairs > 0 && folded("What the words mean", el("p.note", termsOf(view))));
  });
  byId("answer-charts").append(sortedChart(state));
  addPanel(byId("published"), published, { worth: (view) => view.alone.length > 0 });
}

const PAIRS_LINKED = 5;

/** Links to the scenarios and pairs of modes that the file has too: no figure is of several. @param {View} view */
function otherScenarios({ rows, state }) {
  const others = scenariosOf(rows).filter(({ name }) => name !== state.scenario);
  const choose = (name) => () => state.set({ scenario: name, ...pairFor(rows, name, state.origin) });
  const apart = pairsOf(rows, state.scenario, state.origin).filter(({ baseline, candidate }) => baseline !== state.baseline && candidate !== state.candidate && candidate !== state.baseline);
  const links = [
    ...others.map(({ name }) => linkButton(name, choose(name))),
    ...apart.slice(0, PAIRS_LINKED).map((pair) => linkButton(pairWords(pair), () => state.set(pair))),
  ];
  return links.length ? el("p.note", "Also measured, each by itself:", links.flatMap((link) => [" ", link])) : null;
}

/** Whether all that is shown is of one model on one device. @param {View} view */
const isOneModel = (view) =>
  view.counted.length > 0 && view.distinct("model").length === 1 && view.distinct("device").length === 1;

/** The answer: a word, a sentence, caveats, and what to run. @param {View} view */
function answerTo(view) {
  const { overview: o, state } = view;
  const [candidate, baseline] = [state.candidate, state.baseline].map(shortMode);
  if (!o.pairs) return nothingMeasured(view, candidate, baseline);
  if (o.pairs === 1) return answerToOne(view, view.counted[0], candidate, baseline);
  const counts = countsIn(view);
  if (counts.published === o.pairs) return answerAsPublished(view, candidate, baseline);
  const every = o.compared > 0 && counts.contaminated === o.compared;
  const words = new Set(deviceSums(view).flatMap((sums) => (sums.compared || sums.failed ? overallWord(asPublished(view, sums, sums.rows)) : [])));
  const alike = PACKAGE.agreeing.find((group) => [...words].every((each) => group.includes(each)));
  const word = words.size > 1 ? alike?.[1] ?? say("by device") : [...words][0] ?? overallWord(o);
  const yes = every ? `${word.slice(0, -1)}, but every figure is contaminated.` : word;
  return { yes, text: "", more: caveatsOfMany(view, counts, every) };
}

/** How many of the configurations are contaminated, published, or of a saved graph. @param {View} view */
function countsIn({ counted, rows }) {
  const those = (name, value) => counted.filter(rows.is(name, value)).length;
  return {
    contaminated: those("status", "contaminated"),
    published: those("origin", "imported"),
    saved: those("eager_is_graph", 1),
  };
}

/** What limits an answer over several configurations. @param {View} view */
function caveatsOfMany(view, { contaminated, published: others, saved }, every) {
  const { pairs, failed } = view.overview;
  const tested = ownOf(view.rows.meta.trust, view.state.scenario);
  const hidden = view.counted.length - view.shown.length;
  const folders = view.distinct("results");
  const from = (results) => say("of folder", { count: count(view.counted.filter(view.rows.is("results", results)).length), results });
  return phrase([
    hidden && `The answer counts all ${count(view.counted.length)}; of single ones, the ${count(view.shown.length)} of your filter are shown.`,
    folders.length > 1 && `${say("folders", { folders: allOf(folders.map(from)) })}.`,
    tested?.untrusted && capitalized(tested.text),
    contaminated && `~ ${say("busy", { count: count(contaminated), all: count(pairs) })}.${every ? " Measure again." : ""}`,
    missingWords(view.unmeasured.length),
    others && `${count(others)} are published single measurements without an interval, hence “ambiguous”.`,
    view.state.baseline === "eager" && saved && `In ${count(saved)} the model is a saved graph, whose eager calls run that graph.`,
    failed === pairs
      ? "See “What broke” below for the reasons and what to do."
      : !isOneModel(view) && "Choose your model and device above for your own answer.",
  ]);
}

/** How a mode is turned on; undefined for one that is not known. @param {string} label */
const switchOf = (label) => ownOf(PACKAGE.switches, modeOf(label));

/** The words of the first screen, explained. @param {View} view */
function termsOf(view) {
  const { state } = view;
  const switchable = [state.candidate, state.baseline].filter(switchOf);
  const modes = switchable.map((label) => `${shortMode(label)} is ${switchOf(label)}`);
  return phrase([
    modes.length && `${modes.join(", ")}.`,
    `Faster and slower: by more than ±${percent(100 * floorOf(view))} % with 95 % confidence; equivalent: less; ambiguous: not known.`,
    "A configuration is one model at one resolution, batch size and precision on one device; measured again, it still counts once.",
    `“Usually” means at least ${percent(100 * PACKAGE.usually)} %. A speedup before a bracket is the geometric mean, each model counting once; of unlike batch sizes or precisions only the range is given.`,
    "~ contaminated, * fewer than three replicates, h the device waits for the host, n slower on new inputs.",
  ]);
}

/** The answer if all figures are published: their direction, without knowledge of their noise. @param {View} view */
function answerAsPublished(view, candidate, baseline) {
  const { pairs, compared } = view.overview;
  if (!compared) {
    const text = `${plural(pairs, "figure")} without a ratio of the two modes.`;
    const more = "Of each only one mode or only the gain was published.";
    return { yes: "Published, not compared.", text, more };
  }
  const sums = asPublished(view, view.overview, view.counted);
  const word = overallWord(sums);
  const aboveText = `${count(sums.faster)} of ${plural(compared, "published figure")}`;
  const alone = pairs - compared;
  const others = alone ? ` ${plural(alone, "more figure")} without a ratio of the two modes.` : "";
  return {
    yes: `${word.slice(0, -1)}, as published.`,
    text: `${candidate} is above ${baseline} in ${aboveText}.`,
    more: `Others measured these once, without an interval, hence “ambiguous”.${others}`,
  };
}

const YES = { __proto__: null, faster: "Yes", slower: "No", equivalent: "No difference", ambiguous: "Not known yet" };

/** The answer about a single pair, with caveats. @param {View} view @param {number} place */
function answerToOne(view, place, candidate, baseline) {
  const row = view.at(place);
  const { verdict, speedup, note } = row;
  const options = row.runtime && ` with ${row.runtime}`;
  const size = row.task === "example" ? `size ${row.resolution_px}` : `${row.resolution_px} px`;
  const where = `${row.model} ${size}, batch ${row.batch_size}, on ${row.device}${options}`;
  if (verdict === "failed") return failedAnswer(view, row, where, candidate, baseline);
  if (!present(speedup)) {
    const text = `${where}: ${unratedWords(row, candidate, baseline)}.`;
    return { yes: "Published, not compared.", text, more: note };
  }
  if (row.origin === "imported") {
    const [yes, direction] = speedup >= 1 ? ["Yes", "faster"] : ["No", "slower"];
    const figures = { candidate, baseline, speedup: times(Math.max(speedup, 1 / speedup)), direction };
    const text = `${where}: ${say("published", figures)}`;
    return { yes: `${yes}, as published.`, text, more: note };
  }
  const contaminated = row.status === "contaminated";
  const waiting = present(row.input_share) && `The input pipeline alone takes ${percent(100 * row.input_share)} % of an epoch's time.`;
  return {
    yes: `${YES[verdict] ?? ""}${contaminated && verdict !== "ambiguous" ? `, ${say("busy machine")}` : ""}.`,
    text: `${where}: ${verdictSentence(view, row, candidate, baseline)}`,
    more: phrase([row.caveats, waiting, missingWords(view.unmeasured.length)]),
  };
}

/** What is known of a pair without a speedup: its gain, or one throughput. @param {Row} row */
function unratedWords(row, candidate, baseline) {
  const { absolute_speedup_samples_per_s: gain, throughput_samples_per_s: value } = row;
  const more = `${rate(Math.abs(gain))} ${gain < 0 ? "less" : "more"}`;
  if (present(gain)) return `${candidate} runs ${more} than ${baseline}`;
  const [known, mode] = present(value)
    ? [value, candidate]
    : [row.baseline_throughput_samples_per_s, baseline];
  return `${rate(known)} with ${mode}`;
}

/** The sentence of a pair's verdict, as the terminal has it; a slowdown with the interval inverted. @param {View} view @param {Row} row */
function verdictSentence(view, row, candidate, baseline) {
  const { verdict, speedup, speedup_low: low, speedup_high: high } = row;
  const slower = verdict === "slower";
  const bounds = slower ? range(1 / high, 1 / low) : range(low, high);
  const replicates = plural(row.replicates, "replicate");
  return say(/** @type {any} */ (verdict), {
    candidate,
    baseline,
    speedup: times(slower ? 1 / speedup : speedup),
    interval: say("interval", { bounds, replicates }),
    floor: `${percent(100 * row.floor)} %`,
    switch: (switchOf(view.state.baseline) ?? baseline) + (ownOf(PACKAGE.remarks, row.scenario) ?? ""),
    advice: verdict === "faster" ? paysBackOne(row) : openOf(row),
  });
}

/** The answer without a comparison: why there is none, or how many there are not. @param {View} view */
function nothingMeasured(view, candidate, baseline) {
  const n = view.unmeasured.length;
  const command = measureCommand(view.state);
  const more = "This selection has no comparison of the two modes.";
  if (!n) return { yes: "No matching configuration was measured.", text: "", more, command };
  if (n > 1) return { yes: "Not measured.", text: missingWords(n), more: "", command };
  const row = view.at(view.unmeasured[0]);
  return { ...failedAnswer(view, row, `${row.model} on ${row.device}`, candidate, baseline), yes: "Not measured." };
}

/** "3 configurations could not be compared: see “What broke” below." */
const missingWords = (n) => n > 0 && `${plural(n, "configuration")} could not be compared: see “What broke” below.`;

/** Why a pair failed, as the terminal says it. @param {View} view @param {Row} row */
function failedAnswer({ state, overview }, row, where, candidate, baseline) {
  const failed = row.failed_side === "baseline" ? baseline : shortMode(row.failed_mode || candidate);
  const [message, status] = [row.failure_message || statusWords(row.status), row.status];
  const usual = ownOf(PACKAGE.failures, status) ?? PACKAGE.failures[""];
  const template = row.failed_side === "baseline" && !usual.includes("{failed}") ? PACKAGE.failures.baseline : usual;
  const text = fillIn(template, {
    candidate,
    failed,
    tried: `${candidate} against ${baseline}`,
    reason: cut(message, 200).replace(/\.$/, ""),
    keep: fillIn(PACKAGE.failures.keep, { switch: switchOf(state.baseline) ?? baseline }),
  });
  return { yes: overallWord(overview), text: `${where}: ${text}`, more: row.failure_hint };
}

/** When a pair's compiling pays back, as far as it is known. @param {Row} row */
function paysBackOne(row) {
  const { break_even_calls: needed, break_even_low: low, break_even_high: high, scenario } = row;
  if (!present(needed)) return say("use", { switch: switchOf(row.candidate) ?? shortMode(row.candidate) });
  if (needed <= 1) return say("pays back at once");
  const between = present(low) && present(high) ? ` (${roughly(low)}–${roughly(high)})` : "";
  return say("pays back", { seconds: seconds(row.compile_s_extra), amount: countCalls(needed, scenario) + between });
}

/** What is excluded, and how many more replicates would settle the rest. */
function openOf({ excluded_above: bound, replicates_to_settle: more, replicate_s: each, floor }) {
  const replicates =
    more > PACKAGE.most_to_settle
      ? say("many", { count: PACKAGE.most_to_settle })
      : say(more === 1 ? "one more" : "more", { replicates: plural(more, "more replicate"), count: more, time: trimmed(seconds(more * each, 2)) });
  const above = bound >= 1 ? times(1 + bound) : `${percent(100 * bound)} %`;
  const excluded = say("excluded", { bound: above });
  return say("open", { excluded, replicates, floor: `${percent(100 * floor)} %` });
}

/** The command that measures the selection. Values come from the address: only plain words go into a command. @param {State} state */
function measureCommand(state) {
  const part = (key, value) => (/^[\w.-]+$/.test(value) ? `${key}=${value}` : "");
  const one = (name, key = name) => state[name].size === 1 && part(key, [...state[name]][0]);
  const has = (name, value) => state[name].has(value);
  const settings = [one("resolution_px", "resolution"), one("batch_size"), one("precision"), one("source"), has("tf32", "1") && "tf32=true"];
  const scenario = state.scenario !== "call" && part("scenario", state.scenario);
  return phrase(["python -m xla_sweeps", part("model", state.model) || "model=NAME", scenario, ...settings]);
}

/** Lists figures of only one mode apart, without a comparison. @param {View} view */
function published(view) {
  const { rows } = view;
  const aloneRows = Array.from(view.alone, (row) => rows.at(row));
  const table = plainTable("Figures without a baseline", aloneRows, [
    ["Model", ({ model }) => model],
    ["Resolution", (row) => `${row.resolution_px} px`],
    ["Batch", (row) => row.batch_size],
    ["Device", ({ device }) => device],
    ["Mode", ({ candidate }) => candidate],
    ["Throughput", (row) => rate(row.throughput_samples_per_s)],
    ["Origin", ({ origin }) => origin],
    ["Note", ({ note }) => note],
  ]);
  const title = `Not compared: ${plural(aloneRows.length, "figure")}`;
  const note = "Only one mode of these was measured or published, so there is no speedup.";
  fill(byId("published"), el("h3", title), el("p.note", note), folded("Show as table", table));
}
