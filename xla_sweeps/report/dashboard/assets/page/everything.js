/** "Everything": the table of all selected pairs, with only the visible rows in the document, and the CSV file; and
 * parallel coordinates, all settings and figures at once, where a range on an axis filters the whole page. */

import { allOf, count, date, digits, extent, NONE, plural, present, seconds, short, times } from "./numbers.js";
import { button, copyButton, copyLink, download, el, fill, folded, linksOf, phrase, plainTable, scrollBox, selectOf, verdictMark } from "./dom.js";
import { AXES, parallelAxis } from "./view.js";
import { chartText, cutMiddle, logTicks, margins, markOf, measuredOr, pairTip, precisionOf, speedupOf, verdictColour, verdictLegend, WORDS } from "./marks.js";
import { addPanel, chart, currentView, sampled } from "./panels.js";

const ROW_HEIGHT = 30; // pixels, as in the style sheet
const SPARE_ROWS = 8;

const whole = (value) => (present(value) ? String(Math.round(value)) : NONE);
const orNever = (value) => (value === Infinity ? "never" : short(value));
const chance = (value) => (value < 0.001 ? "<0.001" : digits(value, 2));
export const twoDigits = (value) => digits(value, 2);

/** Column, title, width in pixels, and how its figure is written, or what makes the cell of a view and a row. */
const GRID = /** @type {any[][]} */ ([
  ["model", "Model", 190],
  ["verdict", "Verdict", 112, { cell: (view, row) => verdictMark(view.at(row).verdict) }],
  ["speedup", "Speedup", 86, { right: true, cell: speedupOf }],
  ["speedup_low", "95 % low", 82, times],
  ["speedup_high", "95 % high", 86, times],
  ["device", "Device", 150],
  ["resolution_px", "px", 60, whole],
  ["batch_size", "Batch", 70, whole],
  ["precision", "Precision", 110, { cell: (view, row) => precisionOf(view.at(row)) }],
  ["throughput_samples_per_s", "img/s", 84, short],
  ["baseline_throughput_samples_per_s", "Baseline img/s", 118, short],
  ["latency_p50_ms", "p50 (ms)", 82, short],
  ["latency_p90_ms", "p90 (ms)", 82, short],
  ["compile_s_extra", "Extra compile", 112, seconds],
  ["break_even_images", "Break-even (images)", 150, orNever],
  ["peak_memory_ratio", "Peak memory", 108, times],
  ["joules_per_sample", "J/img", 104, measuredOr],
  ["baseline_joules_per_sample", "Baseline J/img", 118, measuredOr],
  ["cost_per_million", "Price of a million", 136, short],
  ["cost_per_million_low", "Price low", 90, short],
  ["cost_per_million_high", "Price high", 94, short],
  ["cv_percent", "CV (%)", 76, twoDigits],
  ["p_value", "p", 80, chance],
  ["replicates", "Replicates", 96, whole],
  ["family", "Family", 120],
  ["source", "Source", 110],
  ["runtime", "Options", 150],
  ["flags", "Flags", 150],
  ["status", "Status", 120],
  ["measured_at", "Measured", 140, { cell: (view, row) => date(view.at(row).measured_at) }],
  ["log", "Log, W&B run", 120, { cell: linksOf }],
  ["command", "Command", 128, { cell: copyButton }],
]).map(([column, title, width, write]) => ({
  column,
  title,
  width,
  right: typeof write === "function",
  cell: (view, row) => (write ? write(view.at(row)[column]) : view.at(row)[column] || NONE),
  ...(typeof write === "object" ? write : {}),
}));

/** The head of a column: a button that sorts by it, and the other way round. @param {State} state */
function gridHead(state, { column, title, right }) {
  const by = () => {
    const falls = state.sort === column || (right && state.sort !== `-${column}`);
    state.set({ sort: falls ? `-${column}` : column }, { replace: true });
  };
  const sorter = button({ class: "sort" }, by, title, el("span.arrow", { "aria-hidden": "true" }));
  return el("th", { scope: "col", class: kindOf(column, right), data: { column } }, sorter);
}

/** Says in the heads by which column and in which direction the rows are sorted. */
function showOrder(heads, sort) {
  for (const head of heads) {
    const { column } = head.dataset;
    const direction = sort === column ? "ascending" : sort === `-${column}` ? "descending" : null;
    if (direction) head.setAttribute("aria-sort", direction);
    else head.removeAttribute("aria-sort");
  }
}

/** Whether a column is there only where a price is given. */
const isPrice = (column) => PACKAGE.costs.includes(column);
const kindOf = (column, right) => phrase([right && "number", isPrice(column) && "price"]) || null;

/** The table with these heads and this body, its columns as wide as `GRID` says. */
function gridTable(heads, body) {
  return el(
    "table.grid.unpriced",
    { "aria-label": "All measurements of this selection" },
    el("colgroup", GRID.map(({ column, width }) => el("col", { class: kindOf(column, false), style: { width: `${width}px` } }))),
    el("thead", el("tr", { "aria-rowindex": 1 }, heads)),
    body,
  );
}

/** The table in its scrolling box. @param {State} state */
export function gridPanel(state) {
  const heads = GRID.map((column) => gridHead(state, column));
  const body = el("tbody");
  const table = gridTable(heads, body);
  const box = scrollBox(table, "All measurements of this selection, a table that scrolls");
  box.classList.add("virtual");
  const panel = el("div.chart.wide", el("h3", "Every measurement"), gridTools(state), box);
  let order = new Uint32Array(0);
  let drawn = "";
  const show = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / ROW_HEIGHT) - SPARE_ROWS);
    const last = Math.min(order.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW_HEIGHT) + SPARE_ROWS);
    if (drawn === `${first} ${last}`) return;
    drawn = `${first} ${last}`;
    const lines = Array.from(order.subarray(first, last), (row, i) => gridRow(currentView, row, first + i));
    fill(body, spacer(first), lines, spacer(order.length - last));
  };
  box.addEventListener("scroll", () => requestAnimationFrame(show), { passive: true });
  const draw = (view) => {
    order = tableOrder(view);
    showOrder(heads, state.sort);
    table.classList.toggle("unpriced", !present(view.rows.price));
    const shown = GRID.filter(({ column }) => present(view.rows.price) || !isPrice(column));
    table.style.width = `${shown.reduce((sum, { width }) => sum + width, 0)}px`;
    table.setAttribute("aria-rowcount", String(order.length + 1));
    const most = Math.max(0, order.length * ROW_HEIGHT - 300);
    box.style.height = `${ROW_HEIGHT * Math.min(17, order.length + 2)}px`;
    if (box.scrollTop > most) box.scrollTop = most;
    drawn = "";
    show();
  };
  addPanel(panel, draw, { follows: ["sort"], worth: (view) => view.pairs.length > 0 });
  return panel;
}

/** An empty row as high as the rows that are not drawn. */
function spacer(rows) {
  const cell = el("td", { colspan: GRID.length, style: { height: `${rows * ROW_HEIGHT}px` } });
  return el("tr.spacer", { "aria-hidden": "true", hidden: rows <= 0 }, cell);
}

function gridRow(/** @type {View} */ view, row, place) {
  const cells = GRID.map(({ cell, right, column }) => {
    const content = cell(view, row);
    const title = typeof content === "string" && content.length > 14 ? content : null;
    const [tag, scope] = column === "model" ? ["th", "row"] : ["td", null];
    return el(tag, { scope, class: kindOf(column, right), title }, content);
  });
  return el("tr", { "aria-rowindex": place + 2 }, cells);
}

/** The pairs in the chosen order; those without a value are always last. @param {View} view */
function tableOrder(view) {
  return view.once(`order ${view.state.sort}`, () => {
    const name = view.state.sort.replace(/^-/, "");
    if (!view.rows.names.includes(name)) return view.pairs; // the address may ask for anything
    const all = view.ordered(name);
    const isKnown = (row) => !["", NaN].includes(view.at(row)[name]);
    if (view.state.sort.startsWith("-")) all.subarray(0, all.findLastIndex(isKnown) + 1).reverse();
    return all;
  });
}

function gridTools(/** @type {State} */ state) {
  const save = () => download("xla_sweeps.csv", csvOf(currentView, tableOrder(currentView)), "text/csv;charset=utf-8");
  return el(
    "p.tools",
    button({ id: "csv" }, save, "Save as CSV"),
    copyLink(),
    button({}, () => state.reset(), "Reset filters"),
    el("span.note", "The CSV file has all columns of the rows shown."),
  );
}

/** Rows as CSV. Text that a spreadsheet would read as a formula gets a leading apostrophe. @param {View} view */
function csvOf({ rows }, order) {
  const written = (value) => (Number.isNaN(value) ? "" : value === Infinity ? "never" : Number(value.toPrecision(6)));
  const columns = rows.names.filter((name) => present(rows.price) || !isPrice(name)).map((name) => {
    const { data, values } = rows.column(name);
    const cells = values?.map(csvCell);
    return { name, read: (row) => (cells ? cells[data[row]] : written(data[row])) };
  });
  const lines = [columns.map(({ name }) => csvCell(name)).join(",")];
  for (const row of order) lines.push(columns.map(({ read }) => read(row)).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

function csvCell(/** @type {string} */ text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /["\r\n,;]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

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
