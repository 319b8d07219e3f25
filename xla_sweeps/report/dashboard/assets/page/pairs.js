/** Every pair from the fastest to the slowest: named bars, or, if there are many, columns with names at both ends. A
 * series is `{keys, of, name}`: what is sorted, and of each its `{value, low, high, verdict, doubt}` and its name. */

import { count, plural, present, times } from "./numbers.js";
import { VERDICTS } from "./state.js";
import { plainTable, verdictMark } from "./dom.js";
import { chartText, cutMiddle, figured, floorOf, hollowIf, margins, named, pairTip, rowLabel, shortMode, speedupOf, speedupScale, subjectOf, unityMarks, verdictColour, verdictLegend, WORDS } from "./marks.js";
import { asPublished } from "./view.js";
import { chart } from "./panels.js";

const PAIRS_NAMED = 120;
const COLUMNS_MOST = 600;
export const LETTER = 6.3; // pixels, about

/** The chart of all pairs. */
export const sortedChart = () =>
  chart("pairs", { build: sortedPairs, table: pairsTable, worth: (view) => view.sorted().length > 0 });

const fastestFirst = (/** @type {View} */ view) => view.sorted().toReversed();

function sortedPairs(/** @type {View} */ view, /** @type {Theme} */ theme, /** @type {number} */ width) {
  const rows = fastestFirst(view);
  const [value, low, high] = view.rows.numbers("speedup", "speedup_low", "speedup_high");
  const { data, values } = view.rows.column("verdict");
  const of = (row) => ({
    value: value[row],
    low: low[row],
    high: high[row],
    verdict: values[data[row]],
    doubt: view.doubt(row),
  });
  const { pairs } = view.overview;
  const { faster } = asPublished(view, view.overview, view.counted);
  const failed = view.shown.filter(view.rows.is("verdict", "failed")).length;
  const [candidate, baseline] = [view.state.candidate, view.state.baseline].map(shortMode);
  const models = view.distinct("model");
  const several = models.length > 1;
  const said = (row) => `${several ? `${view.at(row).model} ` : ""}${speedupOf(view, row)}`;
  const forModel = several ? "" : ` for ${models[0]}`;
  const published = view.counted.every(view.rows.is("origin", "imported"));
  const won = published ? `${count(faster)} of ${plural(rows.length, "published figure")}` : `${count(faster)} of ${plural(pairs, "configuration")}`;
  const look = { theme, width, floor: floorOf(view), failed, axis: `speedup of ${candidate} over ${baseline}` };
  return {
    ...sortedBars({ keys: rows, of, name: (row) => rowLabel(view, row) }, look),
    subject: subjectOf(view, undefined, view.shown.length),
    finding:
      rows.length > 1
        ? `${candidate} is faster than ${baseline}${forModel} in ${won}: from ${said(rows[0])} to ${said(rows.at(-1))}`
        : `${candidate} over ${baseline}${forModel}: ${said(rows[0])}`,
    tip: (item) => tipOf(item, "configuration", (row) => pairTip(view, row)),
    click: ({ key }) => view.state.set({ model: view.at(key).model }),
  };
}

/** Bars of a series from 1×, sorted. */
export function sortedBars(series, look) {
  const { length } = series.keys;
  const many = length > PAIRS_NAMED;
  const items = buckets(series, many ? Math.min(length, COLUMNS_MOST) : length);
  return { ...(many ? columns : namedBars)(series, items, look), legend: verdictLegend(look.theme, items) };
}

export const isBounded = ({ low, high }) => present(low) && present(high);

export const endsOf = (items) => items.flatMap(({ value, low, high }) => [value, low, high]);

/** Few: a line each, with name, whisker and figure. */
function namedBars({ name }, items, { theme, width, floor, failed, axis }) {
  const longest = Math.max(...items.map(({ key }) => name(key).length));
  const left = Math.min(12 + longest * LETTER, 560, width * 0.45);
  const label = (at) => chartText(cutMiddle(name(items[at].key), Math.floor((left - 8) / LETTER)));
  return {
    how: "Bars start at 1×; whiskers are 95 % intervals; differences within the shaded band do not count.",
    note: failed && `${plural(failed, "configuration")} failed and ${failed === 1 ? "has" : "have"} no bar.`,
    plot: {
      height: 64 + items.length * 18,
      ...margins(34, 84, 30, left),
      x: { ...speedupScale(axis, endsOf(items), { wanted: width / 120 }), axis: items.length > 12 ? "both" : "bottom" },
      y: { domain: items.map(({ at }) => at), ...WORDS, tickFormat: label, padding: 0.25 },
      marks: [
        ...unityMarks(theme, floor, "x"),
        Plot.barX(items, { x1: 1, x2: "value", y: "at", ...hollowIf(theme, verdictColour(theme)) }),
        Plot.ruleY(items.filter(isBounded), { x1: "low", x2: "high", y: "at", stroke: theme.text }),
        Plot.text(items, {
          x: ({ value, high }) => Math.max(1, value, present(high) ? high : 0),
          y: "at",
          text: ({ verdict, value, doubt }) => `${VERDICTS[verdict]?.symbol ?? ""} ${times(value)}${doubt}`,
          textAnchor: "start",
          dx: 5,
        }),
        Plot.dot(items, Plot.pointerY({ x: "value", y: "at", r: 5, stroke: theme.text })),
      ],
    },
  };
}

/** Many: a column each, or the geometric mean of neighbours; names of the ends above; what failed as a tail. */
function columns({ keys, of, name }, items, { theme, width, floor, failed = 0, axis }) {
  const end = items.length * (1 + failed / keys.length);
  const narrow = width < 600; // the ends are named below one another, not side by side
  const [each, wide] = narrow ? [3, width - 70] : [8, width / 2 - 40];
  const room = (narrow ? 2 * each : each) * 14;
  const lineOf = (key) => {
    const { value, doubt } = of(key);
    return `${chartText(cutMiddle(name(key), Math.floor(wide / 6.5) - 8))}  ${times(value)}${doubt}`;
  };
  const names = (some, side, more) => {
    const place = { lineAnchor: "bottom", frameAnchor: `top-${side}`, textAnchor: side === "left" ? "start" : "end" };
    return Plot.text([Array.from(some, lineOf).join("\n")], { ...place, lineHeight: 1.2, fontSize: 11, dy: -8 - more });
  };
  const colour = verdictColour(theme);
  const middle = ({ at }) => at + 0.45;
  const tail = [
    Plot.rect([0], { x1: items.length, x2: end, fill: theme.failed, fillOpacity: 0.25 }),
    Plot.text([`✕ ${count(failed)} failed`], { frameAnchor: "bottom-right", dy: 16, fill: theme.text }),
  ];
  const columnMeaning =
    items.length < keys.length
      ? "A column is the geometric mean of neighbours, grey where their verdicts differ"
      : "A column each, from 1×";
  return {
    how: `${columnMeaning}; the dark band is the 95 % interval; differences within the shaded band do not count.`,
    note: failed && `Failed: the tail of ${count(failed)} at the right.`,
    plot: {
      height: (narrow ? 220 : 330) + room,
      ...margins(16 + room, 16, 28, 46),
      x: { domain: [0, end], axis: null },
      y: speedupScale(axis, endsOf(items)),
      marks: [
        ...unityMarks(theme, floor, "y"),
        Plot.rect(items, {
          x1: "at",
          x2: ({ at }) => at + 0.9,
          y1: 1,
          y2: "value",
          fill: colour,
          fillOpacity: ({ doubt }) => (doubt ? 0.25 : 1),
          stroke: (item) => (item.doubt ? colour(item) : "none"),
          strokeWidth: 0.6,
        }),
        Plot.areaY(items.filter(isBounded), { x: middle, y1: "low", y2: "high", fill: theme.text, fillOpacity: 0.3 }),
        failed ? tail : null,
        names(keys.slice(0, each), "left", narrow ? room / 2 : 0),
        names(keys.slice(-each), "right", 0),
        Plot.ruleX(items, Plot.pointerX({ x: middle, stroke: theme.text, strokeOpacity: 0.5 })),
      ],
    },
  };
}

/** Neighbours as so many items: means on the logarithmic scale, and the verdict and doubt that all share. */
function buckets({ keys, of }, wanted) {
  return Array.from({ length: wanted }, (_, at) => {
    const [start, stop] = [at, at + 1].map((place) => Math.floor((place * keys.length) / wanted));
    const own = Array.from(keys.slice(start, stop), of);
    return {
      at,
      key: keys[start + (own.length >> 1)],
      of: own.length,
      ends: [own[0].value, own.at(-1).value],
      value: meanOf(own.map(({ value }) => value)),
      low: meanOf(own.map(({ low }) => low)),
      high: meanOf(own.map(({ high }) => high)),
      verdict: sharedWord(own.map(({ verdict }) => verdict)),
      doubt: sharedWord(own.map(({ doubt }) => doubt)),
    };
  });
}

/** The geometric mean of the figures that there are. */
function meanOf(figures) {
  if (figures.length === 1) return figures[0];
  const logs = figures.map(Math.log).filter((log) => !Number.isNaN(log));
  return Math.exp(logs.reduce((sum, log) => sum + log, 0) / logs.length);
}

/** The word that all are: "" if they differ. */
const sharedWord = (/** @type {string[]} */ [first, ...others]) => (others.every((word) => word === first) ? first : "");

/** What a mouse over an item says; over a column of several, how many, their range, and which is the middle one. */
export function tipOf({ key, of, ends }, noun, tip) {
  if (of === 1) return tip(key);
  const [name, ...rest] = tip(key);
  return [`${plural(of, noun)}, ${ends.map(times).join(" to ")}`, `In the middle: ${name}`, ...rest];
}

const pairsTable = (/** @type {View} */ view) =>
  plainTable("Configurations by speedup", fastestFirst(view), [
    named(view),
    ...figured(view),
    ["Verdict", (row) => verdictMark(view.at(row).verdict)],
  ]);
