/** Parallel coordinates: all settings and figures at once; a range on an axis filters the whole page. */

import { allOf, count, extent, plural, present } from "./numbers.js";
import { el, folded, plainTable, selectOf } from "./dom.js";
import { AXES, parallelAxis } from "./axes.js";
import { chartText, cutMiddle, logTicks, margins, WORDS } from "./scales.js";
import { markOf, pairTip, verdictColour, verdictLegend } from "./marks.js";
import { addPanel, chart, sampled } from "./panels.js";

const PARALLEL_LINES = 400;

/** All axes; those of the price only where there is one. @param {Index} index */
const axesOf = (index) => AXES.flatMap(({ name }) => parallelAxis(index, name) ?? []);

/** Whether the rows differ on two axes or more; stops at the first two rows of an axis that do. @param {View} view */
function differOnAxes({ index, pairs }) {
  const differing = axesOf(index).filter(({ place }) => {
    const first = pairs.find((row) => present(place(row)));
    return pairs.some((row) => present(place(row)) && place(row) !== place(first));
  });
  return differing.length > 1;
}

/** The axes on which the rows differ, with the range of each. @param {View} view */
function usefulAxes(view) {
  return view.once("axes", () =>
    axesOf(view.index).map((axis) => {
      const [low, high] = extent(Array.from(view.pairs, axis.place)) ?? [0, 0];
      return { ...axis, low, high };
    }).filter(({ low, high }) => low < high),
  );
}

/** The folded chart; drawn on opening. @param {State} state */
export function parallelPanel(state) {
  const figure = chart("settings", { build: parallelChart, table: rangesTable });
  figure.append(rangeForm(state));
  const summary = el("summary", "All settings at once");
  const box = el("details.chart.wide.fold-chart", summary, figure);
  addPanel(box, () => {}, { worth: differOnAxes });
  return box;
}

const rangesTable = (/** @type {View} */ view) =>
  plainTable("Range of each axis", usefulAxes(view), [
    ["Axis", ({ title }) => title],
    ["Lowest", ({ word, low }) => word(low)],
    ["Highest", ({ word, high }) => word(high)],
    ["Filtered to", ({ name, between }) => (view.state.brush.has(name) ? between(...view.state.brush.get(name)) : "all")],
  ]);

function parallelChart(/** @type {View} */ view, /** @type {Theme} */ theme, /** @type {number} */ width) {
  const axes = usefulAxes(view);
  const drawn = sampled(view.pairs, PARALLEL_LINES);
  const wide = Math.max(width, axes.length * 92);
  const letters = Math.floor((wide - 130) / axes.length / 7);
  const partOf = ({ facet, low, high }, place) =>
    facet ? (place + 0.5 - low) / (high - low + 1) : (place - low) / (high - low);
  const lines = drawn.map((row) => markOf(view, row));
  const points = axes
    .flatMap((axis, at) => lines.map((line) => ({ ...line, at, part: partOf(axis, axis.place(line.row)) })))
    .filter(({ part }) => present(part));
  const ticks = axes.flatMap((axis, at) =>
    placesOf(axis).map((place) => {
      const text = chartText(cutMiddle(axis.word(place), letters));
      return { at, part: partOf(axis, place), text };
    }),
  );
  const place = { x: "at", y: "part" };
  const paths = (dashed) =>
    Plot.line(points.filter(({ doubt }) => Boolean(doubt) === dashed), {
      ...place,
      z: "row",
      stroke: verdictColour(theme),
      strokeWidth: 1.1,
      strokeOpacity: drawn.length > 200 ? 0.3 : 0.6,
      strokeDasharray: dashed ? "4 3" : undefined,
    });
  const words = { dx: 5, textAnchor: "start", stroke: theme.panel, fill: theme.text };
  return {
    finding: rangesFinding(view, axes),
    how: "A line per configuration, coloured by verdict, dashed where others are hollow; axes with a single value are left out.",
    note:
      drawn.length < view.pairs.length &&
      `${count(drawn.length)} of ${count(view.pairs.length)} are drawn, evenly sampled; filters apply to all.`,
    legend: verdictLegend(theme, lines),
    plot: {
      width: wide,
      height: 380,
      ...margins(30, 80, 20, 50),
      x: { ...WORDS, type: "point", domain: [...axes.keys()], axis: "top", tickFormat: (at) => axes[at].title },
      y: { domain: [0, 1], axis: null },
      marks: [
        paths(false),
        paths(true),
        Plot.ruleX(axes, { x: (_, at) => at, stroke: theme.quiet }),
        Plot.text(ticks, { ...place, text: "text", ...words }),
        Plot.dot(points, Plot.pointer({ ...place, r: 4, stroke: theme.text })),
      ],
    },
    tip: ({ row }) => pairTip(view, row),
  };
}

/** "Speedup from 0.62× to 3.10× over 4 devices and 3 batch sizes". @param {View} view */
function rangesFinding(view, axes) {
  const facets = axes.filter(({ facet }) => facet);
  const kinds = facets.map(({ name, title, many }) => plural(view.distinct(name).length, title, many));
  const speedup = axes.find(({ name }) => name === "speedup");
  const said = speedup
    ? `Speedup from ${speedup.word(speedup.low)} to ${speedup.word(speedup.high)}`
    : "No two speedups";
  return kinds.length ? `${said} over ${allOf(kinds)}` : said;
}

/** Where an axis has its words: at most twelve places of a facet, round numbers of the rest. */
function placesOf({ facet, low, high }) {
  if (!facet) return logTicks(10 ** low, 10 ** high, 5).map(Math.log10);
  const step = Math.ceil((high - low + 1) / 12);
  return Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, i) => low + i * step);
}

/** Filters the page by a range: an axis and two numbers. @param {State} state */
function rangeForm(state) {
  const titles = new Map(AXES.filter(({ write }) => write).map(({ name, title }) => /** @type {const} */ ([name, title])));
  const axis = selectOf({ "aria-label": "Axis" }, [...titles.keys()], (name) => titles.get(name), () => {});
  const number = { type: "number", step: "any", min: "0" };
  const [low, high] = ["from", "to"].map((word) => el("input", { ...number, placeholder: word, "aria-label": word }));
  const submit = (event) => {
    event.preventDefault();
    const scale = axis.value === "macs" ? 1e9 : 1;
    const end = ({ value }, open) => (value > 0 ? Math.log10(value * scale) : open);
    state.set({ brush: new Map([...state.brush, [axis.value, [end(low, -99), end(high, 99)]]]) });
  };
  const filter = el("button", { type: "submit" }, "Filter");
  return folded("Set a range by numbers", el("form.tools", { on: { submit } }, axis, low, high, filter));
}
