/** Every pair: a line for each model on each device, with a mark for each batch size and precision; if there are many,
 * those that gain and lose most. */

import { count, extent, getOrMake, plural, present, range, times } from "./numbers.js";
import { VERDICTS } from "./state.js";
import { dotted, plainTable, verdictMark } from "./dom.js";
import { naturally } from "./data.js";
import { chartText, cutMiddle, figured, floorOf, hollowIf, margins, markOf, named, pairTip, shortDevice, shortMode, speedupOf, speedupScale, subjectOf, unityMarks, verdictColour, verdictDots, verdictLegend, WORDS } from "./marks.js";
import { asPublished, sumsOf } from "./view.js";
import { chart } from "./panels.js";
import { verdictChips } from "./filters.js";

const LINES_MOST = 120;
const LETTER = 6.3; // pixels, about
const SHEET_LINES = 40; // at most, of a part on paper

/** The chart of all pairs, whose legend filters. @param {State} state */
export function sortedChart(state) {
  const chips = verdictChips(state);
  const build = (view, theme, width) => {
    chips.update(view);
    return pairsDrawing(view, theme, width);
  };
  return chart("pairs", { build, table: pairsTable, chips: chips.element, worth: (view) => view.counted.length > 0 });
}

/** The pairs as lines: by device, family and model; of one model, a resolution each. @param {View} view */
function linesOf(view) {
  return view.once("lines", () => {
    const isSized = view.distinct("model").length === 1 && view.distinct("resolution_px").length > 1;
    const lines = new Map();
    for (const row of view.sorted()) {
      const { model, family, device, resolution_px: px, suffix_asked: suffix } = view.at(row);
      const name = `${dotted(model, isSized && `${px} px`)}${suffix}`;
      const line = getOrMake(lines, `${device}\n${name}`, () => ({ device, family, name, points: [] }));
      line.points.push({ ...markOf(view, row), shape: view.at(row).setting });
    }
    const order = (/** @type {any} */ { device, family, name }) => [device, family, name];
    const before = (a, b) => order(a).reduce((found, text, place) => found || naturally(text, order(b)[place]), 0);
    return [...lines.values()].sort(before);
  });
}

/** All lines, or of very many those with the highest and the lowest speedups. */
function endmost(lines) {
  if (lines.length <= LINES_MOST) return lines;
  const sorted = lines.toSorted((a, b) => Math.max(...a.points.map(({ value }) => value)) - Math.max(...b.points.map(({ value }) => value)));
  const ends = new Set([...sorted.slice(0, LINES_MOST / 2), ...sorted.slice(-LINES_MOST / 2)]);
  return lines.filter((line) => ends.has(line));
}

function pairsDrawing(/** @type {View} */ view, /** @type {Theme} */ theme, /** @type {number} */ width) {
  const rows = view.sorted().toReversed();
  const [candidate, baseline] = [view.state.candidate, view.state.baseline].map(shortMode);
  const failed = view.shown.filter(view.rows.is("verdict", "failed")).length;
  const models = view.distinct("model");
  const isPublished = view.rows.is("origin", "imported");
  const won = [false, true].flatMap((published) => {
    const own = view.counted.filter((row) => isPublished(row) === published);
    const { faster, pairs } = asPublished(view, sumsOf(view.rows, own), own);
    return own.length ? `${count(faster)} of ${plural(pairs, published ? "published figure" : "configuration")}` : [];
  });
  const said = (row) => `${models.length > 1 ? `${view.at(row).model} ` : ""}${speedupOf(view, row)}`;
  const forModel = models.length > 1 ? "" : ` for ${models[0]}`;
  const all = linesOf(view);
  const several = new Set(all.map(({ device }) => device)).size > 1;
  const lines = endmost(all).map((line) => ({ ...line, group: several ? shortDevice(view, line.device) : "" }));
  const shown = `${count(rows.length)} of ${plural(view.counted.length, "configuration")} shown`;
  const counts = view.state.verdict.size
    ? `${candidate} over ${baseline}${forModel}, ${shown}`
    : `${candidate} is faster than ${baseline}${forModel} in ${won.join(" and ")}`;
  const finding = {
    0: "No configuration of this selection has a speedup",
    1: `${candidate} over ${baseline}${forModel}: ${rows.length && said(rows[0])}`,
  }[rows.length];
  return {
    ...linesDrawing(lines, { theme, width, floor: floorOf(view), axis: `speedup of ${candidate} over ${baseline}` }),
    subject: subjectOf(view, undefined, rows),
    finding: finding ?? `${counts}: from ${said(rows[0])} to ${said(rows.at(-1))}`,
    note: [
      failed && `${plural(failed, "configuration")} failed and ${failed === 1 ? "has" : "have"} no mark.`,
      lines.length < all.length && `Of ${plural(all.length, "line")} those with the ${LINES_MOST / 2} highest and the ${LINES_MOST / 2} lowest speedups; the table and the CSV have all.`,
    ],
    tip: ({ row }) => pairTip(view, row),
    click: ({ row }) => view.state.set({ model: view.at(row).model }),
  };
}

/** Symbols of Plot, and as text. */
const SHAPES = Object.entries({ circle: "●", square: "■", diamond: "◆", star: "★", triangle: "▲", cross: "✚", wye: "Y" });

/** Lines `{device, group, name, points: [{value, low, high, verdict, doubt, shape}]}` below one another, with a head for each device that has a group; `sheets` are its parts for paper. */
export function linesDrawing(lines, { theme, width, floor, axis }) {
  const shapes = [...new Set(lines.flatMap(({ points }) => points.map(({ shape }) => shape)))].sort(naturally);
  const shapeOf = (shape) => SHAPES[shapes.indexOf(shape) % SHAPES.length];
  const isFirst = (line, i) => line.group && line.device !== lines[i - 1]?.device;
  const places = lines.flatMap((line, i) => (isFirst(line, i) ? [{ head: line.group }, line] : [line]));
  const points = places.flatMap(({ points: own = [] }, at) => own.map((point) => ({ ...point, at })));
  const sheets = Math.ceil(places.length / SHEET_LINES);
  const sheet = (n) => [...places.keys()].slice(Math.round((n * places.length) / sheets), Math.round(((n + 1) * places.length) / sheets));
  const ends = places.flatMap(({ points: own }, at) => (own ? [{ at, own, values: extent(endsOf(own)) }] : []));
  const longest = Math.max(8, ...lines.map(({ name }) => name.length));
  const left = Math.min(14 + longest * LETTER, 420, width * 0.42);
  const label = (at) => (places[at].head ? "" : chartText(cutMiddle(places[at].name, Math.floor((left - 10) / LETTER))));
  const dots = shapes.length > 1
    ? { symbol: ({ shape }) => shapeOf(shape)[0], ...hollowIf(theme, verdictColour(theme)) }
    : verdictDots(theme);
  const figures = ({ own }) => {
    const [low, high] = extent(own.map(({ value }) => value)) ?? [null, null];
    const symbol = own.length === 1 ? `${VERDICTS[own[0].verdict]?.symbol ?? ""} ` : "";
    return `${symbol}${own.length > 1 ? `${range(low, high)}×` : times(low)}${own.every(({ doubt }) => doubt) ? "~" : ""}`;
  };
  const scale = speedupScale(axis, endsOf(points), { wanted: width / 120 });
  const plotOf = (/** @type {number[]} */ domain) => {
    const isOn = ({ at }) => domain[0] <= at && at <= domain.at(-1);
    const heads = places.flatMap(({ head }, at) => (head ? [{ head, at }] : []));
    return {
      height: 64 + domain.length * 18,
      ...margins(34, 84, 30, left),
      x: { ...scale, axis: domain.length > 12 ? "both" : "bottom" },
      y: { type: "point", domain, ...WORDS, tickFormat: label, padding: 0.25 },
      marks: [
        ...unityMarks(theme, floor, "x"),
        Plot.text(heads.filter(isOn), {
          y: "at", text: ({ head }) => chartText(head), frameAnchor: "left", textAnchor: "start", dx: 8 - left, fontWeight: "bold", fontSize: 12,
        }),
        Plot.ruleY(points.filter((point) => isOn(point) && isBounded(point)), { x1: "low", x2: "high", y: "at", stroke: verdictColour(theme), strokeOpacity: 0.6 }),
        Plot.dot(points.filter(isOn), { x: "value", y: "at", r: 4.5, ...dots }),
        Plot.text(ends.filter(isOn), { x: ({ values }) => values?.[1] ?? 1, y: "at", text: figures, textAnchor: "start", dx: 9 }),
        Plot.dot(points.filter(isOn), Plot.pointer({ x: "value", y: "at", r: 8, stroke: theme.text })),
      ],
    };
  };
  return {
    how: "A line per model, a mark per batch size and precision; whiskers are 95 % intervals; differences within the shaded band do not count.",
    legend: [
      ...(shapes.length > 1 ? shapes.map((shape) => ({ mark: shapeOf(shape)[1], colour: theme.quiet, text: shape || "usual" })) : []),
      ...verdictLegend(theme, points),
    ],
    plot: plotOf([...places.keys()]),
    sheets: () => Array.from({ length: sheets }, (_, n) => plotOf(sheet(n))),
  };
}

export const isBounded = ({ low, high }) => present(low) && present(high);

export const endsOf = (items) => items.flatMap(({ value, low, high }) => [value, low, high]);

const pairsTable = (/** @type {View} */ view) =>
  plainTable("Configurations by speedup", view.sorted().toReversed(), [
    named(view),
    ...figured(view),
    ["Verdict", (row) => verdictMark(view.at(row).verdict)],
  ]);
