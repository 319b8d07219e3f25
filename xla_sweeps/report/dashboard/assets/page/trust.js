/** "Can I trust it?": A/A pairs, flags, noise, clocks. */

import { count, NONE, percent, plural, present, share } from "./numbers.js";
import { byId, dotted, el, fill, flagMeaning, ownOf, plainTable } from "./dom.js";
import { daysOf, doubtLegend, figured, hollowIf, intervalOf, margins, markOf, named, rowName, someOf, speedupOf, speedupScale, unityMarks } from "./marks.js";
import { addPanel, chart, sampled, sampleNote } from "./panels.js";
import { endsOf, isBounded } from "./pairs.js";

const TWINS_DRAWN = 400;

export function trustSection() {
  const worth = (view) => view.base.some(isTwinOf(view));
  byId("trust-charts").append(chart("twins", { build: twinPlot, table: twinTable, worth }), trustFacts());
}

/** Whether a row is an A/A pair with a ratio. @param {View} view */
function isTwinOf({ rows }) {
  const speedup = rows.number("speedup");
  return (row) => rows.numbered.twin[row] && !Number.isNaN(speedup[row]);
}

/** A/A rows of the selection, by ascending ratio. @param {View} view */
function twins(view) {
  return view.once("twins", () => {
    const speedup = view.rows.number("speedup");
    return Array.from(view.base.filter(isTwinOf(view))).sort((a, b) => speedup[a] - speedup[b]);
  });
}

/** "graph_2 over graph". @param {View} view @param {number} row */
const sidesOf = (view, row) => `${view.at(row).candidate} over ${view.at(row).baseline}`;

function twinPlot(/** @type {View} */ view, /** @type {Theme} */ theme, /** @type {number} */ width) {
  const twinRows = twins(view);
  const floor = view.rows.number("floor");
  const pairs = twinRows.map((row) => markOf(view, row));
  const bounded = pairs.filter(isBounded);
  const isOff = ({ low, high }) => low > 1 || high < 1;
  const containing = bounded.filter((pair) => !isOff(pair)).length;
  const band = Math.max(...twinRows.map((row) => floor[row]).filter(present), 0.001);
  const items = sampled(pairs, TWINS_DRAWN).map((pair, at) => ({ ...pair, at }));
  const colour = (pair) => (isOff(pair) ? theme.text : theme.quiet);
  const some = (textOf) => someOf([...new Set(twinRows.map(textOf))], 3);
  const dots = { symbol: (pair) => (isOff(pair) ? "diamond" : "circle"), ...hollowIf(theme, colour) };
  return {
    finding: `The same mode against itself: ${share(containing, bounded.length)} interval${bounded.length === 1 ? " contains" : "s contain"} 1×`,
    subject: dotted(
      some((row) => sidesOf(view, row)),
      some((row) => view.at(row).device),
      plural(twinRows.length, "A/A pair"),
      daysOf(twinRows.map((row) => view.at(row).measured_at)),
    ),
    how: "A/A pairs: a mode against a second copy of it in the same replicate. Their true ratio is 1×, so about 95 % of the intervals should contain it.",
    note: [ownOf(view.rows.meta.trust, view.state.scenario)?.text, sampleNote(items.length, twinRows.length)],
    legend: [
      { mark: "●", colour: theme.quiet, text: "contains 1×" },
      { mark: "◆", colour: theme.text, text: "does not" },
      ...doubtLegend(items),
    ],
    plot: {
      height: width < 600 ? 200 : 280,
      ...margins(20, 16, 20, 50),
      x: { domain: [-1, items.length], axis: null },
      y: speedupScale("ratio", endsOf(items)),
      marks: [
        ...unityMarks(theme, band, "y"),
        Plot.ruleX(items.filter(isBounded), { x: "at", y1: "low", y2: "high", stroke: colour }),
        Plot.dot(items, { x: "at", y: "value", r: 3, ...dots }),
        Plot.dot(items, Plot.pointer({ x: "at", y: "value", r: 6, stroke: theme.text })),
      ],
    },
    tip: ({ row }) => [
      rowName(view, row),
      `${sidesOf(view, row)}: ${speedupOf(view, row)} (95 % ${intervalOf(view, row)})`,
    ],
  };
}

const twinTable = (/** @type {View} */ view) =>
  plainTable("A/A pairs", twins(view), [named(view), ["Modes", (row) => sidesOf(view, row)], ...figured(view, "Ratio")]);

/** Flags of the selection and how many pairs have each, the most frequent first. @param {View} view */
function flagCounts({ rows, pairs }) {
  const counts = new Map();
  for (const row of pairs)
    for (const flag of rows.at(row).flags.split(" ").filter(Boolean)) counts.set(flag, (counts.get(flag) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]);
}

const FACTS_OF_DEVICES = [
  ["Contaminated", "contaminated"],
  ["Host-bound (h)", "waiting"],
  ["Blocks vary by (median CV)", "noise"],
  ["Replicates differ more than rounds", "between"],
  ["Clocks", "clocks"],
  ["Hottest", "heat"],
];

/** Flags of the selection, and each device's no-difference band. */
function trustFacts() {
  const box = el("div.chart.wide");
  const draw = (view) => {
    const { pairs } = view;
    const flags = flagCounts(view);
    const devices = view.rows.meta.bands.filter(({ scenario }) => scenario === view.state.scenario);
    fill(
      box,
      el("h3", "Flags, and how quiet each device was"),
      flags.length > 0 &&
        plainTable("Flags in this selection", flags, [
          ["Flag", ([flag]) => flag],
          ["Meaning", ([flag]) => flagMeaning(flag)],
          ["Measurements", ([, n]) => share(n, pairs.length)],
        ]),
      devices.length > 0 &&
        plainTable("Devices, over all measurements of the file in this scenario; the no-difference band comes from the A/A pairs", devices, [
          ["Device", ({ device }) => device],
          ["Trials", ({ trials }) => count(trials)],
          ["No-difference band", ({ floor }) => (present(floor) ? `±${percent(100 * floor)} %` : NONE)],
          ["A/A pairs", (band) => count(band.twins)],
          ...FACTS_OF_DEVICES.map(([title, key]) => /** @type {TableColumn<any>} */ ([title, (band) => band[key] ?? NONE])),
        ]),
    );
  };
  addPanel(box, draw, { worth: (view) => view.pairs.length > 0 });
  return box;
}
