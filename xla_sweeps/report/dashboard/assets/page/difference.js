/** "What changed?": two results folders side by side, on a page that compares them. */

import { chance, count, plural, present, range, times } from "./numbers.js";
import { VERDICTS } from "./state.js";
import { byId, dotted, el, emptyState, fill, folded, plainTable, verdictMark } from "./dom.js";
import { chartText, someOf } from "./marks.js";
import { addPanel, chart } from "./panels.js";
import { linesDrawing } from "./pairs.js";

const CHANGES_DRAWN = 120;

export function differenceSection(comparison) {
  byId("difference").hidden = !comparison;
  if (!comparison) return;
  const { title_a: a, title_b: b, environment = [], only_a: onlyA = [], only_b: onlyB = [] } = comparison;
  const caveats = (comparison.notes ?? []).map((text) => el("p.note", text));
  byId("difference-sub").textContent = `${b} against ${a}: above 1×, ${b} is faster.`;
  const notes = el("div");
  const note = (rows) => {
    const n = rows.filter(({ contaminated }) => contaminated).length;
    const what = "are contaminated by other load on the machine: ambiguous";
    return n > 0 && el("p.note", `${count(n)} of ${plural(rows.length, "comparison")} ${what}.`);
  };
  addPanel(notes, (view) => fill(notes, note(comparedIn(view, comparison)), caveats));
  const cell = (side) => (entry) => (entry.a === entry.b ? entry[side] : el("b", entry[side]));
  const machines = "Machines and versions";
  byId("difference-charts").append(
    chart("difference", {
      build: (view, theme, width) => differenceChart(view, comparison, theme, width),
      table: (view) => differenceTable(view, comparison),
      worth: (view) => bySize(comparedIn(view, comparison)).length > 0,
    }),
    el(
      "div.chart.wide",
      notes,
      el("h3", machines),
      environment.length
        ? plainTable(machines, environment, [["Property", ({ what }) => what], [a, cell("a")], [b, cell("b")]])
        : emptyState("Machines and versions are not recorded."),
      onlyList(`Only in ${a}`, onlyA),
      onlyList(`Only in ${b}`, onlyB),
    ),
  );
}

function onlyList(title, items) {
  const lines = items.slice(0, 500).map((text) => el("li", text));
  return items.length > 0 && folded(`${title}: ${count(items.length)}`, el("ul", lines));
}

/** What was compared in the chosen scenario. @param {View} view @param {View} view */
const comparedIn = (view, { rows }) => rows.filter(({ scenario }) => !scenario || scenario === view.state.scenario);

const bySize = (rows) => rows.filter((row) => present(row.ratio)).toSorted((a, b) => b.ratio - a.ratio);

function differenceChart(/** @type {View} */ view, comparison, /** @type {Theme} */ theme, /** @type {number} */ width) {
  const rows = bySize(comparedIn(view, comparison));
  const [a, b] = [comparison.title_a, comparison.title_b].map(chartText);
  const lines = rows.slice(0, CHANGES_DRAWN).map((row) => {
    const point = { row, value: row.ratio, low: row.low ?? NaN, high: row.high ?? NaN, verdict: row.verdict, doubt: doubtOf(row), shape: "" };
    return { group: "", name: `${row.name} · ${row.quantity}`, points: [point] };
  });
  const devices = someOf([...new Set(rows.map(({ device }) => device))], 3);
  const [won, lost] = ["faster", "slower"].map((verdict) => count(rows.filter((row) => row.verdict === verdict).length));
  return {
    ...linesDrawing(lines, { theme, width, floor: 0, axis: `${b} over ${a}` }),
    how: "A line per comparison, the largest ratio first; whiskers are 95 % intervals.",
    note: lines.length < rows.length && `The first ${count(lines.length)} of ${count(rows.length)}; the table has all.`,
    finding: `${b} is faster than ${a} in ${won} of ${plural(rows.length, "comparison")}, slower in ${lost}`,
    subject: dotted(`${b} over ${a}`, devices, plural(rows.length, "comparison"), view.rows.meta.when),
    tip: ({ row }) => differenceTip(row),
  };
}

const doubtOf = ({ contaminated }) => (contaminated ? "~" : "");

const ratioOf = (row) => `${times(row.ratio)}${doubtOf(row)}`;

const differenceTip = (row) => [
  `${row.name} · ${row.device}`,
  row.quantity,
  `${VERDICTS[row.verdict]?.symbol ?? ""} ${ratioOf(row)} (95 % ${range(row.low, row.high)})`,
  present(row.p_value) && `p ${chance(row.p_value)}, q ${chance(row.q_value)}`,
  row.contaminated && "contaminated",
];

function differenceTable(/** @type {View} */ view, comparison) {
  const changes = comparedIn(view, comparison);
  const rows = [...bySize(changes), ...changes.filter((row) => !present(row.ratio))];
  return plainTable(`${comparison.title_b} over ${comparison.title_a}`, rows, [
    ["Trial", ({ name }) => name],
    ["Device", ({ device }) => device],
    ["Quantity", ({ quantity }) => quantity],
    ["Ratio", ratioOf],
    ["95 % interval", ({ low, high }) => range(low, high)],
    ["p", (row) => chance(row.p_value)],
    ["q", (row) => chance(row.q_value)],
    ["Verdict", ({ verdict }) => verdictMark(verdict)],
  ]);
}
