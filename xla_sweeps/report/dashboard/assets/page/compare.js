/**
 * "How do devices, resolutions and batch sizes compare?": slopes over devices and lines over resolution and batch size.
 */

const SLOPES = 60;

function compareSection() {
  byId("compare-charts").append(
    chart({
      title: "Speedup across devices",
      wide: true,
      how: "A line per model (or per family if there are many): the geometric mean over the same configurations on each device.",
      build: slopeChart,
      table: slopeTable,
    }),
    ...[
      ["resolution_px", "resolution (px)"],
      ["batch_size", "batch size"],
    ].flatMap(([column, name]) => [
      chart({
        title: `Speedup over ${name}`,
        how: "Geometric mean; band: its 95 % interval over models. Points may stand for different models; the table counts them.",
        build: (view, theme) => lineOver(view, theme, column, name, "speedup"),
        table: (view) => lineTable(view, column, name),
      }),
      chart({
        title: `Throughput over ${name}`,
        how: "Geometric mean of the candidate’s images per second; band: its 95 % interval over models.",
        build: (view, theme) => lineOver(view, theme, column, name, "throughput_samples_per_s"),
        table: (view) => lineTable(view, column, name),
      }),
    ]),
  );
}

/** Lines over devices, from configurations that were compared on more than one. */
function slopes(view) {
  return view.once("slopes", () => {
    const devices = view.distinct("device");
    const device = view.index.facets.get("device");
    const places = device.values.map((name) => devices.indexOf(name));
    const columns = ["model", "precision", "source"].map((name) => view.rows.category(name).data);
    const [resolution, batch, speedup] = ["resolution_px", "batch_size", "speedup"].map((name) =>
      view.rows.number(name),
    );
    const configurations = new Map();
    for (const row of view.pairs) {
      if (speedup[row] !== speedup[row]) continue;
      const key = `${columns.map((data) => data[row]).join(" ")} ${resolution[row]} ${batch[row]}`;
      let found = configurations.get(key);
      if (!found) configurations.set(key, (found = { row, speedups: new Array(devices.length).fill(NaN) }));
      found.speedups[places[device.data[row]]] = speedup[row];
    }
    const everywhere = [...configurations.values()].filter(({ speedups }) => speedups.every(present));
    const twice = [...configurations.values()].filter(({ speedups }) => speedups.filter(present).length > 1);
    const complete = everywhere.length >= twice.length / 4;
    const shared = complete ? everywhere : twice;
    const model = columns[0];
    const names = new Set(shared.map(({ row }) => columns[0][row]));
    const by = names.size > SLOPES ? "family" : "model";
    const groups = new Map();
    for (const { row, speedups } of shared) {
      const name = view.rows.text(by, row);
      if (!groups.has(name))
        groups.set(
          name,
          devices.map(() => new GeometricMean()),
        );
      speedups.forEach((value, place) => present(value) && groups.get(name)[place].add(value, model[row]));
    }
    return {
      devices,
      by,
      complete,
      configurations: shared.length,
      lines: [...groups].map(([name, means]) => ({ name, means })),
    };
  });
}

function slopeChart(view, theme, width) {
  const { devices, by, complete, configurations, lines } = slopes(view);
  if (devices.length < 2)
    return {
      empty: devices.length ? `Only one device in this selection: ${devices[0]}.` : "No matching pair was measured.",
    };
  if (!lines.length) return { empty: "No model was compared on more than one of these devices." };
  const values = lines.flatMap(({ means }) => means.map((mean) => mean.value)).filter(present);
  const last = devices.length - 1;
  const sorted = lines.toSorted((a, b) => (b.means[last].value ?? 0) - (a.means[last].value ?? 0));
  const rises = ({ means }) => (means[last].value ?? 0) > (means[0].value ?? 0);
  const series = sorted.map((line) => ({
    type: "line",
    name: chartText(line.name),
    symbol: rises(line) ? "triangle" : "circle",
    symbolSize: 7,
    data: line.means.map((mean) => ({ value: present(mean.value) ? Math.log2(mean.value) : null, mean, line })),
    lineStyle: { width: 1.6, opacity: 0.75, color: rises(line) ? theme.faster : theme.slower },
    itemStyle: { color: rises(line) ? theme.faster : theme.slower },
    connectNulls: true,
    emphasis: { focus: "series", lineStyle: { width: 3 } },
  }));
  Object.assign(series[0], unityMarks(theme, floorOf(view)));
  series.push(endLabels(theme, sorted, last));
  const means = devices.map(
    (device, place) => `${device} ${times(median(lines.map((line) => line.means[place].value).filter(present)))}`,
  );
  const label = `Median speedup of ${plural(lines.length, by === "model" ? "model" : "family", by === "model" ? "models" : "families")}: ${means.join(", ")}.`;
  return {
    label,
    note: `${label} Over ${plural(configurations, "configuration")} compared on ${complete ? "all" : "two or more"} of these devices.`,
    height: Math.max(320, Math.min(620, sorted.length * 15 + 80)),
    legend: legendOf([
      { colour: theme.faster, shape: "triangle", text: `more on ${devices[last]}` },
      { colour: theme.slower, shape: "circle", text: `less on ${devices[last]}` },
    ]),
    option: {
      grid: { left: 56, right: Math.min(180, width * 0.38), top: 12, bottom: 44 },
      tooltip: {
        trigger: "item",
        formatter: ({ data, dataIndex }) =>
          data.mean &&
          tip(
            `${data.line.name} on ${devices[dataIndex]}`,
            `${times(data.mean.value)} over ${pairsOf(data.mean)}`,
          ),
      },
      xAxis: {
        ...nameAxis(
          theme,
          devices.map((device) => cut(shortDevice(device), width < 600 ? 9 : 18)),
        ),
        boundaryGap: false,
        axisLabel: { color: theme.text, fontSize: 12, interval: 0 },
      },
      yAxis: { ...speedupAxis(theme, "speedup", values), nameGap: 40 },
      series,
    },
  };
}

/** The lines' names at their right ends, moved apart so that they do not overlap. */
function endLabels(theme, lines, last) {
  const gap = 13;
  return {
    type: "custom",
    silent: true,
    clip: false,
    data: [[last, 0]],
    renderItem: ({ coordSys }, api) => {
      const labels = lines
        .filter(({ means }) => present(means[last].value))
        .map(({ name, means }) => {
          const [x, y] = api.coord([last, Math.log2(means[last].value)]);
          return { name, x, y, at: y };
        })
        .sort((a, b) => a.y - b.y);
      labels.forEach((label, i) => {
        if (i) label.at = Math.max(label.y, labels[i - 1].at + gap);
      });
      let floor = coordSys.y + coordSys.height + 10;
      for (const label of labels.toReversed()) {
        label.at = Math.min(label.at, floor);
        floor = label.at - gap;
      }
      return {
        type: "group",
        children: labels.flatMap(({ name, x, y, at }) => [
          {
            type: "line",
            shape: { x1: x + 6, y1: y, x2: x + 20, y2: at },
            style: { stroke: theme.quiet, lineWidth: 0.6 },
          },
          {
            type: "text",
            style: {
              text: chartText(cut(name, 26)),
              x: x + 23,
              y: at,
              verticalAlign: "middle",
              fontSize: 11,
              fill: theme.text,
            },
          },
        ]),
      };
    },
  };
}

function slopeTable(view) {
  const { devices, by, lines } = slopes(view);
  return {
    caption: "Geometric mean speedup across devices",
    head: [by === "model" ? "Model" : "Family", ...devices],
    numeric: devices.map((_, i) => i + 1),
    total: lines.length,
    rows: lines
      .slice(0, 200)
      .map(({ name, means }) => [name, ...means.map((mean) => (mean.n ? `${times(mean.value)} (${mean.n})` : NONE))]),
  };
}

/** Geometric means of a figure over the values of a column, by device. */
function meansOver(view, column, figure) {
  return view.once(`means ${column} ${figure}`, () => {
    const [facet, device] = [view.index.facets.get(column), view.index.facets.get("device")];
    const values = view.rows.number(figure);
    const model = view.rows.category("model").data;
    const means = new Map();
    for (const row of view.pairs) {
      if (!(values[row] > 0)) continue;
      const key = facet.data[row] * 65536 + device.data[row];
      if (!means.has(key)) means.set(key, new GeometricMean());
      means.get(key).add(values[row], model[row]);
    }
    return [...means].map(([key, mean]) => ({
      value: facet.values[Math.floor(key / 65536)],
      device: device.values[key % 65536],
      mean,
    }));
  });
}

function lineOver(view, theme, column, name, figure) {
  const means = meansOver(view, column, figure);
  const values = [...new Set(means.map((point) => point.value))].sort(naturally);
  if (values.length < 2)
    return {
      empty: values.length
        ? `Only one ${name.replace(" (px)", "")} in this selection: ${values[0]}.`
        : "No matching pair was measured.",
    };
  const all = view.distinct("device");
  const devices = all.slice(0, 6);
  const scale = figure === "speedup" ? Math.log2 : Math.log10;
  const write = figure === "speedup" ? times : rate;
  const bounds = means.flatMap(({ mean }) => [mean.value, ...mean.interval]).filter(present);
  const series = devices.flatMap((device) => {
    const { colour, shape } = deviceMark(theme, all, device);
    const points = values.map((value) => means.find((point) => point.value === value && point.device === device));
    const banded = points.map((point, x) => ({ point, x })).filter(({ point }) => present(point?.mean.interval[0]));
    return [
      {
        type: "line",
        symbol: shape,
        symbolSize: 8,
        itemStyle: { color: colour },
        lineStyle: { color: colour, width: 2 },
        connectNulls: true,
        z: 3,
        data: points.map((point) => ({ value: point ? scale(point.mean.value) : null, point })),
      },
      {
        type: "custom",
        silent: true,
        z: 2,
        data: banded.length > 1 ? [0] : [],
        renderItem: (params, api) => ({
          type: "polygon",
          silent: true,
          style: { fill: colour, opacity: 0.15 },
          shape: {
            points: [
              ...banded.map(({ point, x }) => api.coord([x, scale(point.mean.interval[1])])),
              ...banded.toReversed().map(({ point, x }) => api.coord([x, scale(point.mean.interval[0])])),
            ],
          },
        }),
      },
    ];
  });
  if (figure === "speedup") Object.assign(series[0], unityMarks(theme, floorOf(view)));
  const ends = devices
    .map((device) =>
      [values[0], values.at(-1)].map(
        (value) => means.find((point) => point.value === value && point.device === device)?.mean.value,
      ),
    )
    .map(([from, to], i) => `${devices[i]} ${write(from)} at ${values[0]}, ${write(to)} at ${values.at(-1)}`);
  return {
    height: 300,
    label: `By ${name}: ${ends.join("; ")}.`,
    note: all.length > devices.length ? `The first ${devices.length} of ${all.length} devices.` : "",
    legend: legendOf(devices.map((device) => ({ ...deviceMark(theme, all, device), text: device }))),
    option: {
      grid: { left: 62, right: 16, top: 10, bottom: 44 },
      tooltip: {
        trigger: "item",
        formatter: ({ data: { point } }) =>
          point &&
          tip(
            `${point.device} · ${point.value}${column === "resolution_px" ? " px" : " images per batch"}`,
            `${write(point.mean.value)} (95 % ${range(...point.mean.interval, figure === "speedup" ? undefined : short)})`,
            pairsOf(point.mean),
          ),
      },
      xAxis: {
        ...nameAxis(theme, values, { axisLabel: { interval: "auto" } }),
        name,
        nameLocation: "middle",
        nameGap: 28,
        nameTextStyle: { color: theme.quiet },
      },
      yAxis: {
        ...(figure === "speedup"
          ? speedupAxis(theme, "speedup", bounds)
          : logAxis(theme, "images per second", bounds, short, { wanted: 5 })),
        nameGap: 46,
      },
      series,
    },
  };
}

function lineTable(view, column, name) {
  const [speedups, rates] = ["speedup", "throughput_samples_per_s"].map((figure) => meansOver(view, column, figure));
  const rows = rates
    .toSorted((a, b) => naturally(a.device, b.device) || naturally(a.value, b.value))
    .map(({ value, device, mean }) => {
      const speedup = speedups.find((point) => point.value === value && point.device === device)?.mean;
      return [
        device,
        value,
        times(speedup?.value),
        speedup ? range(...speedup.interval) : NONE,
        speedup?.n ?? 0,
        speedup?.models ?? 0,
        short(mean.value),
      ];
    });
  return {
    caption: `Geometric means by ${name}`,
    head: ["Device", name, "Speedup", "95 % interval", "Pairs", "Models", "Images per second"],
    numeric: [1, 2, 3, 4, 5, 6],
    rows,
  };
}
