/**
 * "Is it just FLOPs?": throughput over multiply-accumulates on logarithmic axes, a panel per device, a shape per mode.
 */

const FLOPS_POINTS = 700;

function flopsSection(state) {
  const click = () => state.set({ model: state.model === "mobilenet" ? "" : "mobilenet" });
  const preset = button({ class: "small", id: "mobilenet" }, click, "The MobileNet case");
  const question = "Few operations in many kernels: how far below the trend are the MobileNets?";
  const tools = el("p.tools", preset, el("span.note", question));
  const worth = differInOperations;
  byId("flops-charts").append(tools, chart("flops", { build: flopsScatter, table: flopsTable, worth }));
  const draw = (view) => preset.setAttribute("aria-pressed", String(view.state.model === "mobilenet"));
  addPanel(tools, draw, { worth });
}

/** Whether modes with a throughput differ in their operations: fewer than three numbers of them show no trend. */
function differInOperations({ pairs, rows }) {
  const [macs, throughput, baseline] = rows.numbers("macs", "throughput_samples_per_s", "baseline_throughput_samples_per_s");
  const macCounts = new Set();
  return pairs.some((row) => {
    if (macs[row] > 0 && (throughput[row] > 0 || baseline[row] > 0)) macCounts.add(macs[row]);
    return macCounts.size > 2;
  });
}

/** Each mode of each trial in the selection, once, whose operations are known; and how many others there are. */
function flopsPoints(view) {
  return view.once("flops", () => {
    const { rows } = view;
    const [trial] = view.index.trials;
    const inside = new Set(view.pairs.map((row) => trial[row]));
    const macs = rows.number("macs");
    const sides = ["candidate", "baseline"].map((side) => ({
      ...rows.column(side),
      throughput: rows.number(`${side === "baseline" ? "baseline_" : ""}throughput_samples_per_s`),
    }));
    const labels = [...new Set(sides.flatMap(({ values }) => values))];
    const [seen, known] = [new Set(), []];
    let unknown = 0;
    for (const row of view.base.filter((each) => inside.has(trial[each])))
      for (const { data, values, throughput } of sides) {
        const mode = values[data[row]];
        const key = trial[row] * labels.length + labels.indexOf(mode);
        if (!mode || modeOf(mode) !== mode || !(throughput[row] > 0) || seen.has(key)) continue;
        seen.add(key);
        if (macs[row] > 0) known.push({ row, mode, throughput: throughput[row], device: rows.at(row).device });
        else unknown += 1;
      }
    const byDevice = new Map();
    for (const point of known) getOrMake(byDevice, point.device, () => []).push(point);
    return { unknown, known, byDevice };
  });
}

/** Operations of one image, 1e9. */
const operationsOf = (view, { row }) => (2 * view.at(row).macs) / 1e9;

function flopsScatter(view, theme, width) {
  const { unknown, known, byDevice } = flopsPoints(view);
  const panels = devicePanels(view.distinct("device").filter((name) => byDevice.has(name)), width);
  const params = view.rows.number("params");
  const most = known.reduce((high, { row }) => Math.max(high, params[row] || 0), 1);
  const own = panels.shown.map((device) => byDevice.get(device));
  const trends = panels.shown.flatMap((device, i) => trendOf(view, device, own[i]));
  const points = own
    .flatMap((all) => sampled(all, FLOPS_POINTS))
    .map((point) => ({
      ...point,
      flops: operationsOf(view, point),
      doubt: view.doubt(point.row),
      size: 2.5 + 5 * Math.sqrt((params[point.row] || 0) / most),
    }));
  const modesShown = new Set(points.map(({ mode }) => mode));
  const modes = [...new Set(["eager", "graph", "xla", ...modesShown])].filter((mode) => modesShown.has(mode));
  return {
    finding: flopsFinding(trends, points),
    subject: subjectOf(view, `Throughput of ${modes.map(shortMode).join(", ")}`),
    how: `Shape: mode; size: parameters; one multiply-accumulate counts as two FLOPs. If only FLOPs mattered, all points of a mode would lie on one falling line. Dashed: the trend of ${shortMode(view.state.candidate)}; named: what is furthest from it.`,
    note: [
      unknown && `${plural(unknown, "mode")} without a count of operations left out.`,
      sampleNote(points.length, own.flat().length),
      panels.note,
    ],
    legend: [
      ...modes.map((mode) => ({ mark: modeShape(mode)[1], colour: theme.quiet, text: mode })),
      ...doubtLegend(points),
    ],
    plot: {
      ...panels.plot,
      r: { type: "identity" },
      x: logScale("GFLOPs per image", points.map(({ flops }) => flops), { wanted: 5 }),
      y: logScale("images per second", points.map(({ throughput }) => throughput)),
      marks: flopsMarks(points, trends, panels, theme),
    },
    tip: (point) => flopsTip(view, point),
  };
}

/** A point for each mode, the trends, and names at what is furthest from them. */
function flopsMarks(points, trends, { facet, heads }, theme) {
  const [ends, names] = ["ends", "outliers"].map((part) => trends.flatMap((trend) => trend[part]));
  const place = { ...facet, x: "flops", y: "throughput" };
  return [
    Plot.frame({ stroke: theme.line }),
    Plot.dot(points, {
      ...place,
      r: "size",
      symbol: ({ mode }) => modeShape(mode)[0],
      ...hollowIf(theme, () => theme.quiet),
      fillOpacity: points.length > 400 ? 0.35 : 0.6,
      strokeWidth: 0.8,
    }),
    Plot.line(ends, { ...facet, x: "x", y: "y", z: "device", stroke: theme.text, strokeDasharray: "5 4" }),
    Plot.text(names, { ...facet, x: "x", y: "y", text: "name", dy: -10, stroke: theme.panel, fill: theme.text }),
    heads,
    Plot.dot(points, Plot.pointer({ ...place, r: 9, stroke: theme.text })),
  ];
}

/**
 * The candidate's throughput as a power of operations, on one device, by least squares of the logarithms: the line's
 * ends, the points furthest from it, and sums of squares; none for fewer than five models.
 */
function trendOf(view, device, points) {
  const own = points
    .filter(({ mode }) => mode === view.state.candidate)
    .map((point) => ({
      name: view.at(point.row).model,
      x: Math.log(operationsOf(view, point)),
      y: Math.log(point.throughput),
    }));
  if (new Set(own.map(({ name }) => name)).size < 5) return [];
  const mean = (of) => own.reduce((sum, point) => sum + of(point), 0) / own.length;
  const [x0, y0] = [mean(({ x }) => x), mean(({ y }) => y)];
  const width = mean(({ x }) => (x - x0) ** 2);
  if (!width) return [];
  const slope = mean(({ x, y }) => (x - x0) * (y - y0)) / width;
  const expected = (x) => y0 + slope * (x - x0);
  const at = (x, y) => ({ device, x: Math.exp(x), y: Math.exp(y) });
  const off = own
    .map(({ name, x, y }) => ({ ...at(x, y), name: chartText(name), by: y - expected(x) }))
    .sort((a, b) => a.by - b.by);
  return [
    {
      ends: extent(own.map(({ x }) => x)).map((x) => at(x, expected(x))),
      outliers: [off[0], off.at(-1)],
      residual: off.reduce((sum, { by }) => sum + by ** 2, 0),
      total: own.length * mean(({ y }) => (y - y0) ** 2),
    },
  ];
}

/** How much of the throughput the trends explain, and what is furthest from them. */
function flopsFinding(trends, points) {
  if (!trends.length) return `Throughput from ${extent(points.map(({ throughput }) => throughput)).map(rate).join(" to ")}`;
  const [residual, total] = ["residual", "total"].map((name) => trends.reduce((sum, trend) => sum + trend[name], 0));
  const below = trends.map(({ outliers }) => outliers[0]).reduce((a, b) => (b.by < a.by ? b : a));
  const explained = total ? 100 * (1 - residual / total) : 0;
  const furthest = `${below.name} is furthest below the trend, at ${percent(100 * Math.exp(below.by))} % of it`;
  return `Operations explain ${percent(explained)} % of the throughput (R² of the logarithms); ${furthest}`;
}

/** Operations of one image, 1e9; "≥" where how often a loop runs is not known. */
const operations = (view, point) =>
  `${view.at(point.row).macs_at_least ? "≥ " : ""}${short(operationsOf(view, point))}`;

/** Parameters, 1e6. */
const parameters = (view, { row }) => short(view.at(row).params / 1e6);

function flopsTip(view, point) {
  const { row: place, mode, throughput } = point;
  const row = view.at(place);
  const prefix = row.candidate === mode ? "" : "baseline_";
  const [low, high] = ["low", "high"].map((end) => row[`${prefix}throughput_${end}`]);
  return [
    rowName(view, place),
    `${mode}: ${rate(throughput)}${view.doubt(place)}${present(low) ? ` (95 % ${range(low, high, short)})` : ""}`,
    `${operations(view, point)} GFLOPs per image, ${parameters(view, point)} M parameters`,
  ];
}

const flopsTable = (view) =>
  plainTable("Throughput and operations", flopsPoints(view).known, [
    ["Trial", ({ row }) => rowName(view, row)],
    ["Mode", ({ mode }) => mode],
    ["Images per second", ({ throughput }) => short(throughput)],
    ["GFLOPs per image", (point) => operations(view, point)],
    ["M parameters", (point) => parameters(view, point)],
  ]);
