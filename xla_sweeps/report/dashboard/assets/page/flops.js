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
  byId("flops-charts").append(
    el(
      "p",
      { class: "tools" },
      preset,
      el("span", {
        class: "note",
        text: "Few operations in many kernels: how far below the trend are the MobileNets?",
      }),
    ),
    chart({
      title: "Throughput over operations per image",
      wide: true,
      how: "Shape: mode; size: parameters. One multiply-accumulate counts as two FLOPs. If only FLOPs mattered, all points of a mode would lie on one falling line.",
      build: flopsScatter,
      table: flopsTable,
      worth: differInOperations,
    }),
  );
  addPanel(
    preset.parentElement,
    (view) => preset.setAttribute("aria-pressed", String(view.state.model === "mobilenet")),
    { worth: differInOperations },
  );
}

/** Whether at least three numbers of operations were measured: fewer show no trend. */
function differInOperations(view) {
  return view.once("operations", () => {
    const macs = view.rows.number("macs");
    const found = new Set();
    return view.pairs.some((row) => macs[row] > 0 && found.add(macs[row]).size > 2);
  });
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
  const devices = view.distinct("device").filter((device) => byDevice.has(device));
  const [macs, params] = [view.rows.number("macs"), view.rows.number("params")];
  const gigaflops = (point) => (2 * macs[point.row]) / 1e9;
  const rates = known.map((point) => point.throughput);
  const panels = devicePanels(
    theme,
    devices,
    width,
    { ...logAxis(theme, "GFLOPs per image", known.map(gigaflops), short, { wanted: 5 }), nameGap: 26 },
    { ...logAxis(theme, "images per second", rates), nameGap: 44 },
  );
  const modes = [...new Set(known.map((point) => point.mode))].sort(
    (a, b) => ["eager", "graph", "xla"].indexOf(a) - ["eager", "graph", "xla"].indexOf(b),
  );
  const most = Math.max(1, ...sampled(known, 5000).map((point) => params[point.row] || 0));
  const size = (point) => 5 + 11 * Math.sqrt((params[point.row] || 0) / most);
  const drawn = panels.shown.map((device) => sampled(byDevice.get(device), FLOPS_POINTS));
  const all = drawn.flat();
  const series = panels.shown.flatMap((device, place) =>
    modes.map((mode) => ({
      type: "scatter",
      name: mode,
      xAxisIndex: place,
      yAxisIndex: place,
      symbol: modeShape(mode),
      data: drawn[place]
        .filter((point) => point.mode === mode)
        .map((point) => ({
          value: [Math.log10(gigaflops(point)), Math.log10(point.throughput)],
          symbolSize: size(point),
          itemStyle: hollowIf(view.doubt(point.row), theme, theme.quiet, all.length > 400 ? 0.5 : 0.75),
          point,
        })),
    })),
  );
  const [least, greatest] = extent(rates);
  return {
    option: {
      ...panels.axes,
      series: [...series, ...panels.heads],
      tooltip: { trigger: "item", formatter: ({ data }) => flopsTip(view, data.point) },
    },
    height: panels.height,
    legend: [
      ...legendOf(modes.map((mode) => ({ colour: theme.quiet, shape: modeShape(mode), text: mode }))),
      ...doubtLegend(
        view,
        all.map((point) => point.row),
      ),
    ],
    label: `${plural(known.length, "measured mode")} on ${plural(devices.length, "device")}; throughput from ${rate(least)} to ${rate(greatest)}.`,
    note: [
      unknown ? `${plural(unknown, "mode")} without a count of operations left out.` : "",
      sampleNote(
        all.length,
        panels.shown.reduce((n, device) => n + byDevice.get(device).length, 0),
      ),
      panels.note,
    ]
      .filter(Boolean)
      .join(" "),
  };
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
  return tip(
    rowName(view, row),
    `${mode}: ${rate(throughput)}${view.doubt(row)}${present(low) ? ` (95 % ${short(low)}–${short(high)})` : ""}`,
    `${operations(view, row)} GFLOPs per image, ${short(n("params") / 1e6)} M parameters`,
  );
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
