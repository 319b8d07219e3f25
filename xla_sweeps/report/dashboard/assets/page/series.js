/** "What changed over time?": configurations that were measured more than once, by when and with what. */

import { date, extent, getOrMake, plural } from "./numbers.js";
import { byId, plainTable } from "./dom.js";
import { chartText, cutMiddle, daysOf, figured, floorOf, margins, markOf, pairTip, rowLabel, speedupOf, speedupScale, subjectOf, unityMarks, verdictDots, verdictLegend } from "./marks.js";
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
    const speedup = view.rows.number("speedup");
    const all = new Map();
    for (const row of view.pairs) if (speedup[row] > 0 && view.at(row).measured_at) getOrMake(all, view.rows.numbered.question[row], () => []).push(row);
    const timeOf = (row) => view.at(row).measured_at;
    const sorted = [...all.values()].map((rows) => rows.toSorted((a, b) => (timeOf(a) < timeOf(b) ? -1 : 1)));
    const own = sorted.filter((rows) => timeOf(rows[0]) !== timeOf(rows.at(-1)));
    const moved = (rows) => Math.abs(Math.log(speedup[rows.at(-1)] / speedup[rows[0]]));
    return own.sort((a, b) => moved(b) - moved(a));
  });
}

const versionsOf = ({ software, driver, commit }) =>
  [...software.split(", "), driver && `driver ${driver}`, commit && `commit ${commit}`].filter(Boolean);

function seriesDrawing(/** @type {View} */ view, /** @type {Theme} */ theme, /** @type {number} */ width) {
  const all = seriesOf(view);
  const points = all.slice(0, SERIES_DRAWN).flatMap((rows, line) =>
    rows.map((row, place) => {
      const before = versionsOf(view.at(rows[place - 1] ?? row));
      const news = versionsOf(view.at(row)).filter((version) => !before.includes(version));
      return { ...markOf(view, row), line, at: new Date(view.at(row).measured_at), isLast: row === rows.at(-1), news: news.join(", ") };
    }),
  );
  const ends = [all[0][0], all[0].at(-1)];
  const isOneDay = !daysOf(ends.map((row) => view.at(row).measured_at)).includes(" to ");
  const said = ends.map((row) => `${speedupOf(view, row)} (${date(view.at(row).measured_at).slice(0, isOneDay ? 16 : 10)})`);
  const [first, last] = extent(points.map(({ at }) => at.getTime()));
  const told = new Set();
  const isToBeSaid = (news) => width > 600 && news && !told.has(news) && told.add(news);
  const room = Math.min(230, width * 0.35);
  return {
    finding: `${rowLabel(view, all[0][0])}: from ${said.join(" to ")}`,
    subject: subjectOf(view, undefined, points.map(({ row }) => row)),
    how: "A line per configuration that was measured again, over the time of measurement; above a mark what is new of the versions, which the table has.",
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
        ...["start", "end"].map((textAnchor) =>
          Plot.text(points.filter(({ at, news }) => at < (3 * first + last) / 4 === (textAnchor === "start") && isToBeSaid(news)), {
            x: "at", y: "value", dx: textAnchor === "start" ? -6 : 6, dy: -14, textAnchor, fill: theme.quiet, text: ({ news }) => chartText(cutMiddle(news, 46)),
          }),
        ),
        Plot.dot(points, Plot.pointer({ x: "at", y: "value", r: 8, stroke: theme.text })),
      ],
    },
    tip: ({ row }) => [...pairTip(view, row), date(view.at(row).measured_at), versionsOf(view.at(row)).join(", ")],
  };
}

const seriesTable = (/** @type {View} */ view) =>
  plainTable("Configurations that were measured again", seriesOf(view).flat(), [
    ["Configuration", (row) => rowLabel(view, row)],
    ["Measured", (row) => date(view.at(row).measured_at)],
    ["Versions", (row) => versionsOf(view.at(row)).join(", ")],
    ...figured(view),
  ]);
