/**
 * "Is it just FLOPs?": throughput over multiply-accumulates on logarithmic axes, a panel per device, a shape per mode.
 */

const FLOPS_POINTS = 700;

function flopsSection(state) {
  const preset = el(
    "button",
    {
      type: "button",
      class: "small",
      id: "mobilenet",
      on: { click: () => state.set({ model: state.model === "mobilenet" ? "" : "mobilenet" }) },
    },
    "The MobileNet case",
  );
  const question = "Few operations in many kernels: how far below the trend are the MobileNets?";
  const tools = el("p", { class: "tools" }, preset, el("span", { class: "note", text: question }));
  byId("flops-charts").append(
    tools,
    chart({ name: "flops", build: flopsScatter, table: flopsTable, worth: differInOperations }),
  );
  const draw = (view) => preset.setAttribute("aria-pressed", String(view.state.model === "mobilenet"));
  addPanel(tools, draw, { worth: differInOperations });
}

/** Whether modes with a throughput differ in their operations: fewer than three numbers of them show no trend. */
function differInOperations(view) {
  const macs = view.rows.number("macs");
  return new Set(flopsPoints(view).known.map(({ row }) => macs[row])).size > 2;
}

/** Each mode of each trial in the selection, once. */
function measuredModes(view) {
  return view.once("measured modes", () => {
    const { index, rows } = view;
    const inside = new Uint8Array(index.trials);
    for (const row of view.pairs) inside[index.trial[row]] = 1;
    const labels = [...new Set([...rows.category("candidate").values, ...rows.category("baseline").values])].filter(
      (label) => label && modeOf(label) === label,
    );
    const sides = ["candidate", "baseline"].map((name) => {
      const column = rows.category(name);
      return {
        data: column.data,
        codes: column.values.map((label) => labels.indexOf(label)),
        throughput: rows.number(
          name === "candidate" ? "throughput_samples_per_s" : "baseline_throughput_samples_per_s",
        ),
      };
    });
    const seen = new Uint8Array(index.trials * Math.max(1, labels.length));
    const found = [];
    for (const row of view.base) {
      const trial = index.trial[row];
      if (!inside[trial]) continue;
      for (const side of sides) {
        const mode = side.codes[side.data[row]];
        const value = side.throughput[row];
        if (mode < 0 || !(value > 0) || seen[trial * labels.length + mode]) continue;
        seen[trial * labels.length + mode] = 1;
        found.push({ row, mode: labels[mode], throughput: value });
      }
    }
    return found;
  });
}

function flopsPoints(view) {
  return view.once("flops", () => {
    const [macs, device] = [view.rows.number("macs"), view.rows.category("device")];
    const all = measuredModes(view);
    const known = all.filter((point) => macs[point.row] > 0);
    const byDevice = new Map();
    for (const point of known) {
      const name = device.values[device.data[point.row]];
      if (!byDevice.has(name)) byDevice.set(name, []);
      byDevice.get(name).push(point);
    }
    return { unknown: all.length - known.length, known, byDevice };
  });
}

function flopsScatter(view, theme, width) {
  const { unknown, known, byDevice } = flopsPoints(view);
  const panels = devicePanels(
    view.distinct("device").filter((device) => byDevice.has(device)),
    width,
  );
  const params = view.rows.number("params");
  const most = known.reduce((high, { row }) => Math.max(high, params[row] || 0), 1);
  const trends = panels.shown.flatMap((device) => trendOf(view, device, byDevice.get(device)));
  const points = panels.shown
    .flatMap((device) => sampled(byDevice.get(device), FLOPS_POINTS))
    .map((point) => ({
      ...point,
      flops: operationsOf(view, point),
      device: view.rows.text("device", point.row),
      doubt: view.doubt(point.row),
      size: 2.5 + 5 * Math.sqrt((params[point.row] || 0) / most),
    }));
  const modes = ["eager", "graph", "xla", ...known.map(({ mode }) => mode)];
  const drawnModes = [...new Set(modes)].filter((mode) => points.some((point) => point.mode === mode));
  return {
    finding: flopsFinding(trends, points),
    subject: subjectOf(view, `Throughput of ${drawnModes.map(shortMode).join(", ")}`),
    how: `Shape: mode; size: parameters; one multiply-accumulate counts as two FLOPs. If only FLOPs mattered, all points of a mode would lie on one falling line. Dashed: the trend of ${shortMode(view.state.candidate)}; named: what is furthest from it.`,
    note: [
      unknown ? `${plural(unknown, "mode")} without a count of operations left out.` : "",
      sampleNote(points.length, panels.shown.reduce((n, device) => n + byDevice.get(device).length, 0)),
      panels.note,
    ]
      .filter(Boolean)
      .join(" "),
    legend: [
      ...drawnModes.map((mode) => ({ mark: modeShape(mode)[1], colour: theme.quiet, text: mode })),
      ...doubtLegend(points.map(({ doubt }) => doubt)),
    ],
    plot: {
      height: panels.height,
      marginTop: 30,
      marginLeft: 52,
      marginBottom: 40,
      ...panels.facets,
      r: { type: "identity" },
      x: { ...logScale("GFLOPs per image", points.map(({ flops }) => flops), { wanted: 5 }), grid: true },
      y: { ...logScale("images per second", points.map(({ throughput }) => throughput)), grid: true },
      marks: flopsMarks(points, trends, panels, theme),
    },
    tip: (point) => flopsTip(view, point),
  };
}

/** A point for each mode, the trends, and names at what is furthest from them. */
function flopsMarks(points, trends, panels, theme) {
  const facet = { [panels.channel]: "device" };
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
    panels.heads,
    Plot.dot(points, Plot.pointer({ ...facet, x: "flops", y: "throughput", r: 9, stroke: theme.text })),
  ];
}

/** 1e9 operations of one image. */
const operationsOf = (view, { row }) => (2 * view.rows.number("macs")[row]) / 1e9;

/**
 * The candidate's throughput as a power of operations, on one device, by least squares of the logarithms: the line's
 * ends, the points furthest from it, and sums of squares; none for fewer than five models.
 */
function trendOf(view, device, points) {
  const own = points.filter(({ mode }) => mode === view.state.candidate);
  if (new Set(own.map(({ row }) => view.rows.text("model", row))).size < 5) return [];
  const [xs, ys] = [own.map((point) => Math.log(operationsOf(view, point))), own.map(({ throughput }) => Math.log(throughput))];
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x0, y0] = [mean(xs), mean(ys)];
  const spreadOfX = xs.reduce((sum, x) => sum + (x - x0) ** 2, 0);
  if (!spreadOfX) return [];
  const slope = xs.reduce((sum, x, i) => sum + (x - x0) * (ys[i] - y0), 0) / spreadOfX;
  const off = own.map((point, i) => ({ point, off: ys[i] - y0 - slope * (xs[i] - x0), x: Math.exp(xs[i]), y: Math.exp(ys[i]) }));
  const sorted = off.toSorted((a, b) => a.off - b.off);
  const named = [...new Map([sorted[0], sorted.at(-1)].map((one) => [one.point, one])).values()];
  return [
    {
      device,
      ends: extent(xs).map((x) => ({ device, x: Math.exp(x), y: Math.exp(y0 + slope * (x - x0)) })),
      outliers: named.map(({ point, off: by, x, y }) => ({ device, x, y, by, name: chartText(view.rows.text("model", point.row)) })),
      residual: off.reduce((sum, { off: by }) => sum + by ** 2, 0),
      total: ys.reduce((sum, y) => sum + (y - y0) ** 2, 0),
    },
  ];
}

/** How much of the throughput the trends explain, and what is furthest from them. */
function flopsFinding(trends, points) {
  if (!trends.length) return `Throughput from ${extent(points.map(({ throughput }) => throughput)).map(rate).join(" to ")}`;
  const [residual, total] = ["residual", "total"].map((name) => trends.reduce((sum, trend) => sum + trend[name], 0));
  const below = trends.flatMap(({ outliers }) => outliers).reduce((a, b) => (b.by < a.by ? b : a));
  const explained = total ? 100 * (1 - residual / total) : 0;
  return `Operations explain ${percent(explained)} % of the throughput (R² of the logarithms); ${below.name} is furthest below the trend, at ${percent(100 * Math.exp(below.by))} % of it`;
}

/** Operations of one image, 1e9; "≥" where how often a loop runs is not known. */
function operations(view, row) {
  const atLeast = view.rows.number("macs_at_least")[row] ? "≥ " : "";
  return `${atLeast}${short((2 * view.rows.number("macs")[row]) / 1e9)}`;
}

function flopsTip(view, { row, mode, throughput }) {
  const n = (name) => view.rows.number(name)[row];
  const sides =
    view.rows.text("candidate", row) === mode
      ? ["throughput_low", "throughput_high"]
      : ["baseline_throughput_low", "baseline_throughput_high"];
  const [low, high] = sides.map(n);
  return [
    rowName(view, row),
    `${mode}: ${rate(throughput)}${view.doubt(row)}${present(low) ? ` (95 % ${short(low)}–${short(high)})` : ""}`,
    `${operations(view, row)} GFLOPs per image, ${short(n("params") / 1e6)} M parameters`,
  ];
}

function flopsTable(view) {
  const { known } = flopsPoints(view);
  const n = (name, row) => view.rows.number(name)[row];
  return {
    caption: "Throughput and operations",
    head: ["Trial", "Mode", "Images per second", "GFLOPs per image", "M parameters"],
    numeric: [2, 3, 4],
    total: known.length,
    rows: known
      .slice(0, 200)
      .map(({ row, mode, throughput }) => [
        rowName(view, row),
        mode,
        short(throughput),
        operations(view, row),
        short(n("params", row) / 1e6),
      ]),
  };
}
