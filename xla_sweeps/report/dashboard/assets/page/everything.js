/** "Everything": the table of all selected pairs, with only the visible rows in the document, and the CSV file. */

import { chance, date, NONE, present, seconds, short, shortCount, times } from "./numbers.js";
import { button, copyButton, csvCell, download, el, fill, linksOf, scrollBox, selectOf, verdictMark } from "./dom.js";
import { gibibytes, measuredOr, precisionOf, speedupOf } from "./marks.js";
import { addPanel, currentView } from "./panels.js";

const ROW_HEIGHT = 30; // pixels, as in the style sheet
const SPARE_ROWS = 8;

const whole = (value) => (present(value) ? String(Math.round(value)) : NONE);
const orNever = (value) => (value === Infinity ? "never" : shortCount(value));

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
  ["latency_speedup", "One-call speedup", 126, times],
  ["latency_p50_ms", "p50 (ms)", 82, short],
  ["baseline_latency_p50_ms", "Baseline p50", 104, short],
  ["latency_p90_ms", "p90 (ms)", 82, short],
  ["compile_s", "Compile", 84, seconds],
  ["compile_s_extra", "Extra compile", 112, seconds],
  ["break_even_images", "Break-even (images)", 150, orNever],
  ["memory_bytes", "Memory", 90, gibibytes],
  ["peak_memory_ratio", "Peak memory", 108, times],
  ["watts_high", "Power (W)", 90, whole],
  ["joules_per_sample", "J/img", 104, measuredOr],
  ["baseline_joules_per_sample", "Baseline J/img", 118, measuredOr],
  ["cost_per_million", "Price of a million", 136, short],
  ["cost_per_million_low", "Price low", 90, short],
  ["cost_per_million_high", "Price high", 94, short],
  ["cv_percent", "CV (%)", 76, short],
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
  return el("th", { scope: "col", class: right && "number", data: { column } }, sorter);
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

const NAMES = ["model", "verdict", "speedup", "device", "resolution_px", "batch_size", "precision"];

/** Sets of columns: words, and which columns each has beside the names; null: all. @type {Record<string, [string, string[]]>} */
const SETS = {
  main: ["Speed", ["speedup_low", "speedup_high", "throughput_samples_per_s", "baseline_throughput_samples_per_s", "latency_speedup", "latency_p50_ms", "baseline_latency_p50_ms", "replicates", "command"]],
  cost: ["Cost", ["compile_s", "compile_s_extra", "break_even_images", "memory_bytes", "peak_memory_ratio", "watts_high", "joules_per_sample", "baseline_joules_per_sample", ...PACKAGE.costs, `${PACKAGE.costs[0]}_low`, `${PACKAGE.costs[0]}_high`]],
  all: ["All columns", null],
};

/** The columns of the chosen set, those of the price only where one is given. @param {View} view */
function gridColumns({ state, rows }) {
  const [, chosen] = SETS[state.columns] ?? SETS.main;
  const inSet = (column) => !chosen || NAMES.includes(column) || chosen.includes(column);
  return GRID.filter(({ column }) => inSet(column) && (rows.isPriced || !isPrice(column)));
}

/** The table in its scrolling box. @param {State} state */
export function gridPanel(state) {
  const heads = GRID.map((column) => gridHead(state, column));
  const body = el("tbody");
  const table = el(
    "table.grid",
    { "aria-label": "All measurements of this selection" },
    el("colgroup", GRID.map(({ column, width }) => el("col", { data: { column }, style: { width: `${width}px` } }))),
    el("thead", el("tr", { "aria-rowindex": 1 }, heads)),
    body,
  );
  const box = scrollBox(table, "All measurements of this selection, a table that scrolls");
  box.classList.add("virtual");
  const sets = selectOf({ "aria-label": "Columns", id: "columns" }, Object.keys(SETS), (name) => SETS[name][0], (columns) => state.set({ columns }, { replace: true }));
  const panel = el("div.chart.wide", el("h3", "Every measurement"), gridTools(sets), box);
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
    const shown = gridColumns(view);
    const names = shown.map(({ column }) => column);
    for (const part of /** @type {NodeListOf<HTMLElement>} */ (table.querySelectorAll("[data-column]"))) part.hidden = !names.includes(part.dataset.column);
    sets.value = SETS[state.columns] ? state.columns : "main";
    table.style.width = `${shown.reduce((sum, { width }) => sum + width, 0)}px`;
    table.setAttribute("aria-rowcount", String(order.length + 1));
    const most = Math.max(0, order.length * ROW_HEIGHT - 300);
    box.style.height = `${ROW_HEIGHT * Math.min(17, order.length + 2)}px`;
    if (box.scrollTop > most) box.scrollTop = most;
    drawn = "";
    show();
  };
  addPanel(panel, draw, { follows: ["sort", "columns"], worth: (view) => view.pairs.length > 0 });
  return panel;
}

/** An empty row as high as the rows that are not drawn. */
function spacer(rows) {
  const cell = el("td", { colspan: GRID.length, style: { height: `${rows * ROW_HEIGHT}px` } });
  return el("tr.spacer", { "aria-hidden": "true", hidden: rows <= 0 }, cell);
}

function gridRow(/** @type {View} */ view, row, place) {
  const cells = gridColumns(view).map(({ cell, right, column }) => {
    const content = cell(view, row);
    const title = typeof content === "string" && content.length > 14 ? content : null;
    const [tag, scope] = column === "model" ? ["th", "row"] : ["td", null];
    return el(tag, { scope, class: right && "number", title }, content);
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

function gridTools(/** @type {HTMLElement} */ sets) {
  const save = () => download("xla_sweeps.csv", csvOf(currentView, tableOrder(currentView)), "text/csv;charset=utf-8");
  const note = el("span.note", "The CSV file has all columns of the rows shown.");
  return el("p.tools", button({ id: "csv" }, save, "Save as CSV"), sets, note);
}

/** Rows as CSV. @param {View} view */
function csvOf({ rows }, order) {
  const written = (value) => (Number.isNaN(value) ? "" : value === Infinity ? "never" : Number(value.toPrecision(6)));
  const columns = rows.names.filter((name) => rows.isPriced || !isPrice(name)).map((name) => {
    const { data, values } = rows.column(name);
    const cells = values?.map(csvCell);
    return { name, read: (row) => (cells ? cells[data[row]] : written(data[row])) };
  });
  const lines = [columns.map(({ name }) => csvCell(name)).join(",")];
  for (const row of order) lines.push(columns.map(({ read }) => read(row)).join(","));
  return `${lines.join("\r\n")}\r\n`;
}
