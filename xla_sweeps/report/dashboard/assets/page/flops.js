/**
 * "Is it just FLOPs?": throughput over multiply-accumulates on logarithmic axes, a panel per device, a shape per mode.
 */

const FLOPS_POINTS = 700;

function flopsSection(state) {
  const click = () => state.set({ model: state.model === "mobilenet" ? "" : "mobilenet" });
  const preset = button({ class: "small", id: "mobilenet" }, click, "The MobileNet case");
  const question = "Few operations in many kernels: how far below the trend are the MobileNets?";
  const tools = el("p", { class: "tools" }, preset, el("span", { class: "note", text: question }));
  const worth = differInOperations;
  byId("flops-charts").append(tools, chart({ name: "flops", build: flopsScatter, table: flopsTable, worth }));
  const draw = (view) => preset.setAttribute("aria-pressed", String(view.state.model === "mobilenet"));
  addPanel(tools, draw, { worth });
}

/** Whether modes with a throughput differ in their operations: fewer than three numbers of them show no trend. */
function differInOperations({ pairs, rows }) {
  const [macs, throughput, baseline] = rows.numbers("macs", "throughput_samples_per_s", "baseline_throughput_samples_per_s");
  const found = new Set();
  for (const row of pairs) {
    if (macs[row] > 0 && (throughput[row] > 0 || baseline[row] > 0)) found.add(macs[row]);
    if (found.size > 2) return true;
  }
  return false;
}

/** Each mode of each trial in the selection, once, whose operations are known; and how many others there are. */
function flopsPoints(view) {
  return view.once("flops", () => {
    const { index, rows } = view;
    const inside = new Uint8Array(index.trials);
    for (const row of view.pairs) inside[index.trial[row]] = 1;
    const sides = ["candidate", "baseline"].map((side) => ({
      ...rows.column(side),
      throughput: rows.number(`${side === "baseline" ? "baseline_" : ""}throughput_samples_per_s`),
    }));
    const labels = [...new Set(sides.flatMap(({ values }) => values))];
    const [macs, seen, known] = [rows.number("macs"), new Uint8Array(index.trials * labels.length), []];
    let unknown = 0;
    for (const row of view.base) {
      if (!inside[index.trial[row]]) continue;
      for (const { data, values, throughput } of sides) {
        const mode = values[data[row]];
        const place = index.trial[row] * labels.length + labels.indexOf(mode);
        if (!mode || modeOf(mode) !== mode || !(throughput[row] > 0) || seen[place]) continue;
        seen[place] = 1;
        if (macs[row] > 0) known.push({ row, mode, throughput: throughput[row], device: rows.text("device", row) });
        else unknown += 1;
      }
    }
    const of = (name) => known.filter(({ device }) => device === name);
    const byDevice = new Map(view.distinct("device").map((name) => [name, of(name)]).filter(([, own]) => own.length));
    return { unknown, known, byDevice };
  });
}

/** Operations of one image, 1e9. */
const operationsOf = (view, { row }) => (2 * view.rows.number("macs")[row]) / 1e9;

function flopsScatter(view, theme, width) {
  const { unknown, known, byDevice } = flopsPoints(view);
  const panels = devicePanels([...byDevice.keys()], width);
  const params = view.rows.number("params");
  const most = known.reduce((high, { row }) => Math.max(high, params[row] || 0), 1);
  const trends = panels.shown.flatMap((device) => trendOf(view, device, byDevice.get(device)));
  const points = panels.shown
    .flatMap((device) => sampled(byDevice.get(device), FLOPS_POINTS))
    .map((point) => ({
      ...point,
      flops: operationsOf(view, point),
      doubt: view.doubt(point.row),
      size: 2.5 + 5 * Math.sqrt((params[point.row] || 0) / most),
    }));
  const found = new Set(points.map(({ mode }) => mode));
  const modes = [...new Set(["eager", "graph", "xla", ...found])].filter((mode) => found.has(mode));
  const all = panels.shown.reduce((n, device) => n + byDevice.get(device).length, 0);
  return {
    finding: flopsFinding(trends, points),
    subject: subjectOf(view, `Throughput of ${modes.map(shortMode).join(", ")}`),
    how: `Shape: mode; size: parameters; one multiply-accumulate counts as two FLOPs. If only FLOPs mattered, all points of a mode would lie on one falling line. Dashed: the trend of ${shortMode(view.state.candidate)}; named: what is furthest from it.`,
    note: [
      unknown && `${plural(unknown, "mode")} without a count of operations left out.`,
      sampleNote(points.length, all),
      panels.note,
    ],
    legend: [
      ...modes.map((mode) => ({ mark: modeShape(mode)[1], colour: theme.quiet, text: mode })),
      ...doubtLegend(points),
    ],
    plot: {
      ...panels.plot,
      r: { type: "identity" },
      x: { ...logScale("GFLOPs per image", points.map(({ flops }) => flops), { wanted: 5 }), grid: true },
      y: { ...logScale("images per second", points.map(({ throughput }) => throughput)), grid: true },
      marks: flopsMarks(points, trends, panels, theme),
    },
    tip: (point) => flopsTip(view, point),
  };
}

/** A point for each mode, the trends, and names at what is furthest from them. */
function flopsMarks(points, trends, { facet, heads }, theme) {
  const [ends, names] = ["ends", "outliers"].map((part) => trends.flatMap((trend) => trend[part]));
  return [
    Plot.frame({ stroke: theme.line }),
    Plot.dot(points, {
      ...facet,
      x: "flops",
      y: "throughput",
      r: "size",
      symbol: ({ mode }) => modeShape(mode)[0],
      ...hollowIf(theme, () => theme.quiet),
      fillOpacity: points.length > 400 ? 0.35 : 0.6,
      strokeWidth: 0.8,
    }),
    Plot.line(ends, { ...facet, x: "x", y: "y", z: "device", stroke: theme.text, strokeDasharray: "5 4" }),
    Plot.text(names, { ...facet, x: "x", y: "y", text: "name", dy: -10, stroke: theme.panel, fill: theme.text }),
    heads,
    Plot.dot(points, Plot.pointer({ ...facet, x: "flops", y: "throughput", r: 9, stroke: theme.text })),
  ];
}

/**
 * The candidate's throughput as a power of operations, on one device, by least squares of the logarithms: the line's
 * ends, the points furthest from it, and sums of squares; none for fewer than five models.
 */
function trendOf(view, device, points) {
  const own = points
    .filter(({ mode }) => mode === view.state.candidate)
    .map((point) => ({ name: view.rows.text("model", point.row), x: operationsOf(view, point), y: point.throughput }));
  if (new Set(own.map(({ name }) => name)).size < 5) return [];
  const mean = (of) => own.reduce((sum, point) => sum + of(point), 0) / own.length;
  const [x0, y0] = [mean(({ x }) => Math.log(x)), mean(({ y }) => Math.log(y))];
  const width = mean(({ x }) => (Math.log(x) - x0) ** 2);
  if (!width) return [];
  const slope = mean(({ x, y }) => (Math.log(x) - x0) * (Math.log(y) - y0)) / width;
  const expected = (x) => Math.exp(y0 + slope * (Math.log(x) - x0));
  const off = own
    .map(({ name, x, y }) => ({ device, name: chartText(name), x, y, by: Math.log(y / expected(x)) }))
    .sort((a, b) => a.by - b.by);
  return [
    {
      ends: extent(own.map(({ x }) => x)).map((x) => ({ device, x, y: expected(x) })),
      outliers: [off[0], off.at(-1)],
      residual: off.reduce((sum, { by }) => sum + by ** 2, 0),
      total: own.length * mean(({ y }) => (Math.log(y) - y0) ** 2),
    },
  ];
}

/** How much of the throughput the trends explain, and what is furthest from them. */
function flopsFinding(trends, points) {
  if (!trends.length) return `Throughput from ${extent(points.map(({ throughput }) => throughput)).map(rate).join(" to ")}`;
  const [residual, total] = ["residual", "total"].map((name) => trends.reduce((sum, trend) => sum + trend[name], 0));
  const below = trends.map(({ outliers }) => outliers[0]).reduce((a, b) => (b.by < a.by ? b : a));
  const explained = total ? 100 * (1 - residual / total) : 0;
  return `Operations explain ${percent(explained)} % of the throughput (R² of the logarithms); ${below.name} is furthest below the trend, at ${percent(100 * Math.exp(below.by))} % of it`;
}

/** Operations of one image, 1e9; "≥" where how often a loop runs is not known. */
const operations = (view, point) =>
  `${view.rows.number("macs_at_least")[point.row] ? "≥ " : ""}${short(operationsOf(view, point))}`;

function flopsTip(view, point) {
  const { row, mode, throughput } = point;
  const prefix = view.rows.text("candidate", row) === mode ? "" : "baseline_";
  const [low, high] = view.rows.at(row, `${prefix}throughput_low`, `${prefix}throughput_high`);
  return [
    rowName(view, row),
    `${mode}: ${rate(throughput)}${view.doubt(row)}${present(low) ? ` (95 % ${range(low, high, short)})` : ""}`,
    `${operations(view, point)} GFLOPs per image, ${short(view.rows.number("params")[row] / 1e6)} M parameters`,
  ];
}

const flopsTable = (view) =>
  itemsTable("Throughput and operations", flopsPoints(view).known, {
    Trial: ({ row }) => rowName(view, row),
    Mode: ({ mode }) => mode,
    "Images per second": ({ throughput }) => short(throughput),
    "GFLOPs per image": (point) => operations(view, point),
    "M parameters": ({ row }) => short(view.rows.number("params")[row] / 1e6),
  });
