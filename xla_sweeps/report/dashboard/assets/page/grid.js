/**
 * The table of all selected pairs, sorted by any column, with only the visible rows in the document; and the CSV file.
 */

const ROW_HEIGHT = 30; // pixels, as in the style sheet
const SPARE_ROWS = 8;

const text_ = (name) => (view, row) => view.rows.text(name, row) || NONE;
const number_ = (name, write) => (view, row) => write(view.rows.number(name)[row]);
const GRID = [
  { column: "model", title: "Model", width: 190, cell: text_("model") },
  { column: "verdict", title: "Verdict", width: 112, cell: (view, row) => verdictMark(view.rows.text("verdict", row)) },
  {
    column: "speedup",
    title: "Speedup",
    width: 86,
    right: true,
    cell: (view, row) => `${times(view.rows.number("speedup")[row])}${view.doubt(row)}`,
  },
  { column: "speedup_low", title: "95 % low", width: 82, right: true, cell: number_("speedup_low", times) },
  { column: "speedup_high", title: "95 % high", width: 86, right: true, cell: number_("speedup_high", times) },
  { column: "device", title: "Device", width: 150, cell: text_("device") },
  { column: "resolution_px", title: "px", width: 60, right: true, cell: number_("resolution_px", digitsAll) },
  { column: "batch_size", title: "Batch", width: 70, right: true, cell: number_("batch_size", digitsAll) },
  { column: "precision", title: "Precision", width: 110, cell: text_("precision") },
  {
    column: "throughput_samples_per_s",
    title: "img/s",
    width: 84,
    right: true,
    cell: number_("throughput_samples_per_s", short),
  },
  {
    column: "baseline_throughput_samples_per_s",
    title: "Baseline img/s",
    width: 118,
    right: true,
    cell: number_("baseline_throughput_samples_per_s", short),
  },
  { column: "latency_p50_ms", title: "p50 (ms)", width: 82, right: true, cell: number_("latency_p50_ms", short) },
  { column: "latency_p90_ms", title: "p90 (ms)", width: 82, right: true, cell: number_("latency_p90_ms", short) },
  {
    column: "compile_s_extra",
    title: "Extra compile",
    width: 112,
    right: true,
    cell: number_("compile_s_extra", seconds),
  },
  {
    column: "break_even_images",
    title: "Break-even (images)",
    width: 150,
    right: true,
    cell: (view, row) => {
      const n = view.breakEven(row);
      return Number.isNaN(n) ? NONE : n === Infinity ? "never" : short(n);
    },
  },
  {
    column: "peak_memory_ratio",
    title: "Peak memory",
    width: 108,
    right: true,
    cell: number_("peak_memory_ratio", times),
  },
  {
    column: "cv_percent",
    title: "CV (%)",
    width: 76,
    right: true,
    cell: number_("cv_percent", (value) => digits(value, 2)),
  },
  {
    column: "p_value",
    title: "p",
    width: 80,
    right: true,
    cell: number_("p_value", (value) => (present(value) && value < 0.001 ? "<0.001" : digits(value, 2))),
  },
  { column: "replicates", title: "Replicates", width: 96, right: true, cell: number_("replicates", digitsAll) },
  { column: "family", title: "Family", width: 120, cell: text_("family") },
  { column: "source", title: "Source", width: 110, cell: text_("source") },
  { column: "runtime", title: "Options", width: 150, cell: text_("runtime") },
  { column: "flags", title: "Flags", width: 150, cell: text_("flags") },
  { column: "status", title: "Status", width: 120, cell: text_("status") },
  {
    column: "measured_at",
    title: "Measured",
    width: 140,
    cell: (view, row) => date(view.rows.text("measured_at", row)),
  },
  { column: "log", title: "Log", width: 90, cell: logLink },
  {
    column: "command",
    title: "Command",
    width: 128,
    cell: (view, row) => copyButton(view.rows.text("command", row), view.rows.text("model", row)),
  },
];

function digitsAll(value) {
  return present(value) ? String(Math.round(value)) : NONE;
}

/** The head of a column: a button that sorts by it, and the other way round. */
function gridHead(state, { column, title, right }) {
  const [up, down] = [column, `-${column}`];
  const by = () => {
    const sort = state.sort === down ? up : state.sort === up || right ? down : up;
    state.set({ sort }, { replace: true });
  };
  return el(
    "th",
    { scope: "col", class: right ? "number" : null, data: { column } },
    el(
      "button",
      { type: "button", class: "sort", on: { click: by } },
      title,
      el("span", { class: "arrow", "aria-hidden": "true" }),
    ),
  );
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

/** The table with these heads and this body, its columns as wide as `GRID` says. */
function gridTable(heads, body) {
  const columns = GRID.map(({ width }) => {
    const column = el("col");
    column.style.width = `${width}px`;
    return column;
  });
  const table = el(
    "table",
    { class: "grid", "aria-label": "All pairs of this selection" },
    el("colgroup", {}, columns),
    el("thead", {}, el("tr", { "aria-rowindex": 1 }, heads)),
    body,
  );
  table.style.width = `${GRID.reduce((sum, { width }) => sum + width, 0)}px`;
  return table;
}

/** The table in its scrolling box. */
function gridPanel(state) {
  const heads = GRID.map((column) => gridHead(state, column));
  const body = el("tbody");
  const table = gridTable(heads, body);
  const box = scrollBox(table, "All pairs of this selection, a table that scrolls");
  box.classList.add("virtual");
  const panel = el("div", { class: "chart wide" }, el("h3", { text: "Every pair" }), gridTools(state), box);
  let order = new Uint32Array(0);
  let drawn = "";

  const show = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / ROW_HEIGHT) - SPARE_ROWS);
    const last = Math.min(order.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW_HEIGHT) + SPARE_ROWS);
    if (drawn === `${first} ${last}`) return;
    drawn = `${first} ${last}`;
    const lines = [];
    for (let place = first; place < last; place++) lines.push(gridRow(currentView, order[place], place));
    fill(body, spacer(first), lines, spacer(order.length - last));
  };
  let waiting = false;
  box.addEventListener(
    "scroll",
    () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        show();
      });
    },
    { passive: true },
  );
  addPanel(
    panel,
    (view) => {
      order = tableOrder(view);
      showOrder(heads, state.sort);
      table.setAttribute("aria-rowcount", String(order.length + 1));
      const most = Math.max(0, order.length * ROW_HEIGHT - 300);
      box.style.height = `${ROW_HEIGHT * Math.min(17, order.length + 2)}px`;
      if (box.scrollTop > most) box.scrollTop = most;
      drawn = "";
      show();
    },
    { follows: ["sort"], worth: (view) => view.pairs.length > 0 },
  );
  return panel;
}

/** An empty row as high as the rows that are not drawn. */
function spacer(rows) {
  const line = el("tr", { "aria-hidden": "true", class: "spacer" }, el("td", { colspan: GRID.length }));
  line.firstElementChild.style.height = `${rows * ROW_HEIGHT}px`;
  line.hidden = rows <= 0;
  return line;
}

function gridRow(view, row, place) {
  return el(
    "tr",
    { "aria-rowindex": place + 2 },
    GRID.map(({ cell, right, column }) => {
      const content = cell(view, row);
      return el(
        column === "model" ? "th" : "td",
        {
          scope: column === "model" ? "row" : null,
          class: right ? "number" : null,
          title: typeof content === "string" && content.length > 14 ? content : null,
        },
        content,
      );
    }),
  );
}

/** The pairs in the chosen order; those without a value are always last. */
function tableOrder(view) {
  return view.once(`order ${view.state.sort}`, () => {
    const down = view.state.sort.startsWith("-");
    const name = view.state.sort.replace(/^-/, "");
    const column = view.rows.columns.get(name) ?? view.rows.none;
    const chosen = new Uint8Array(view.rows.count);
    for (const row of view.pairs) chosen[row] = 1;
    const all = view.rows.order(name).filter((row) => chosen[row]);
    const absent =
      column.kind === "number"
        ? (row) => column.data[row] !== column.data[row]
        : (row) => column.values[column.data[row]] === "";
    let known = all.length;
    while (known && absent(all[known - 1])) known -= 1;
    if (down) all.subarray(0, known).reverse();
    return all;
  });
}

function gridTools(state) {
  const save = () => download("xla_sweeps.csv", csvOf(currentView, tableOrder(currentView)), "text/csv;charset=utf-8");
  return el(
    "p",
    { class: "tools" },
    el("button", { type: "button", id: "csv", on: { click: save } }, "Save as CSV"),
    el("button", { type: "button", on: { click: () => copy(location.href, "Link copied") } }, "Copy link"),
    el("button", { type: "button", on: { click: () => state.reset() } }, "Reset filters"),
    el("span", { class: "note", text: "The CSV file has all columns of the pairs shown." }),
  );
}

/** Rows as CSV. Text that a spreadsheet would read as a formula gets a leading apostrophe. */
function csvOf(view, order) {
  const columns = [...view.rows.columns].map(([name, column]) => {
    if (column.kind === "number")
      return [
        name,
        (row) =>
          Number.isNaN(column.data[row])
            ? ""
            : column.data[row] === Infinity
              ? "never"
              : Number(column.data[row].toPrecision(6)),
      ];
    const cells = column.values.map(csvCell);
    return [name, (row) => cells[column.data[row]]];
  });
  const lines = [columns.map(([name]) => csvCell(name)).join(",")];
  for (const row of order) lines.push(columns.map(([, read]) => read(row)).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

function csvCell(text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /["\r\n,;]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
