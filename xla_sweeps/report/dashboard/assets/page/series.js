/** "What changed over time?": configurations that were measured more than once, by when and with what. */

import { date, extent, getOrMake, plural } from "./numbers.js";
import { byId, plainTable } from "./dom.js";
import { chartText, cutMiddle, figured, floorOf, margins, markOf, pairTip, rowLabel, speedupOf, speedupScale, subjectOf, unityMarks, verdictDots, verdictLegend } from "./marks.js";
import { chart } from "./panels.js";
import { endsOf, isBounded } from "./pairs.js";

const SERIES_DRAWN = 12;

export function seriesSection() {
  const worth = (view) => seriesOf(view).length > 0;
  byId("series-charts").append(chart("series", { build: seriesDrawing, table: seriesTable, worth }));
}

/** The rows of each question that was measured at several times, in their order; those that moved most first. @param {View} view */
function seriesOf(view) {
  return view.once("series", () => {
    const { question } = view.rows.numbered;
    const speedup = view.rows.number("speedup");
    const all = new Map();
    for (const row of view.pairs) if (speedup[row] > 0 && view.at(row).measured_at) getOrMake(all, question[row], () => []).push(row);
    const timeOf = (row) => view.at(row).measured_at;
    const own = [...all.values()].filter((rows) => new Set(rows.map(timeOf)).size > 1);
    for (const rows of own) rows.sort((a, b) => (timeOf(a) < timeOf(b) ? -1 : 1));
    const moved = (rows) => Math.abs(Math.log(speedup[rows.at(-1)] / speedup[rows[0]]));
    return own.sort((a, b) => moved(b) - moved(a));
  });
}

function seriesDrawing(/** @type {View} */ view, /** @type {Theme} */ theme, /** @type {number} */ width) {
  const all = seriesOf(view);
  const points = all.slice(0, SERIES_DRAWN).flatMap((rows, line) =>
    rows.map((row) => ({ ...markOf(view, row), line, at: new Date(view.at(row).measured_at), isLast: row === rows.at(-1) })),
  );
  const said = [all[0][0], all[0].at(-1)].map((row) => `${speedupOf(view, row)} (${view.at(row).measured_at.slice(0, 10)})`);
  const [first, last] = extent(points.map(({ at }) => at.getTime()));
  const room = Math.min(230, width * 0.35);
  return {
    finding: `${rowLabel(view, all[0][0])}: from ${said.join(" to ")}`,
    subject: subjectOf(view, undefined, points.length),
    how: "A line per configuration that was measured again, over the time of measurement; the table has the versions.",
    note: all.length > SERIES_DRAWN && `The ${SERIES_DRAWN} of ${plural(all.length, "configuration")} that moved most.`,
    legend: verdictLegend(theme, points),
    plot: {
      height: 320,
      ...margins(16, room, 30, 52),
      x: { type: "utc", label: null, domain: [first, last], ticks: Math.max(2, width / 160) },
      y: speedupScale("speedup", endsOf(points)),
      marks: [
        ...unityMarks(theme, floorOf(view), "y"),
        Plot.line(points, { x: "at", y: "value", z: "line", stroke: theme.quiet }),
        Plot.ruleX(points.filter(isBounded), { x: "at", y1: "low", y2: "high", stroke: theme.quiet }),
        Plot.dot(points, { x: "at", y: "value", r: 4.5, ...verdictDots(theme) }),
        Plot.text(points.filter(({ isLast }) => isLast), {
          x: "at", y: "value", dx: 9, textAnchor: "start", text: ({ row }) => chartText(cutMiddle(rowLabel(view, row), Math.floor(room / 6.3) - 2)),
        }),
        Plot.dot(points, Plot.pointer({ x: "at", y: "value", r: 8, stroke: theme.text })),
      ],
    },
    tip: ({ row }) => [...pairTip(view, row), date(view.at(row).measured_at), view.at(row).software],
  };
}

const seriesTable = (/** @type {View} */ view) =>
  plainTable("Configurations that were measured again", seriesOf(view).flat(), [
    ["Configuration", (row) => rowLabel(view, row)],
    ["Measured", (row) => date(view.at(row).measured_at)],
    ["Software", (row) => view.at(row).software],
    ["Driver", (row) => view.at(row).driver],
    ...figured(view),
  ]);
