/**
 * "How do devices, resolutions and batch sizes compare?": a line per model over devices; of one model, over resolution
 * and batch size.
 */

const COMPARED_LINES = 12;

function compareSection() {
  byId("compare-charts").append(
    chart({
      title: "Speedup across devices",
      wide: true,
      how: "A line per model: the geometric mean over the same configurations on each device.",
      build: slopeChart,
      table: slopeTable,
      worth: (view) => slopes(view).lines.length > 0,
    }),
    ...[
      ["resolution_px", "resolution (px)"],
      ["batch_size", "batch size"],
    ].map(([column, name]) =>
      chart({
        title: `Speedup over ${name}`,
        wide: true,
        how: "A line per setting of the chosen model; colour and shape: verdict.",
        build: (view, theme, width) => lineOver(view, theme, width, column, name),
        table: (view) => lineTable(view, column, name),
        worth: (view) => linesOver(view, column).length > 0,
      }),
    ),
  );
}

/** Lines over devices, from configurations that were compared on more than one; those that differ most first. */
function slopes(view) {
  return view.once("slopes", () => {
    const devices = view.distinct("device");
    if (devices.length < 2) return { devices, complete: true, configurations: 0, lines: [] };
    const device = view.index.facets.get("device");
    const places = device.values.map((name) => devices.indexOf(name));
    const speedup = view.rows.number("speedup");
    const asked = view.index.configuration;
    const configurations = new Map();
    for (const row of view.counted) {
      if (speedup[row] !== speedup[row]) continue;
      let found = configurations.get(asked[row]);
      if (!found) configurations.set(asked[row], (found = { row, rows: [], speedups: devices.map(() => NaN) }));
      found.speedups[places[device.data[row]]] = speedup[row];
      found.rows[places[device.data[row]]] = row;
    }
    const everywhere = [...configurations.values()].filter(({ speedups }) => speedups.every(present));
    const twice = [...configurations.values()].filter(({ speedups }) => speedups.filter(present).length > 1);
    const complete = everywhere.length >= twice.length / 4;
    const shared = complete ? everywhere : twice;
    const groups = new Map();
    for (const { row, rows, speedups } of shared) {
      const name = view.rows.text("model", row);
      if (!groups.has(name))
        groups.set(name, { means: devices.map(() => new GeometricMean()), rows: devices.map(() => []) });
      const group = groups.get(name);
      speedups.forEach((value, place) => {
        if (!present(value)) return;
        group.means[place].add(value, name);
        group.rows[place].push(rows[place]);
      });
    }
    const lines = [...groups].map(([name, { means, rows }]) => {
      const [low, high] = extent(means.map((mean) => mean.value));
      return { name, means, doubts: rows.map((own) => view.doubtOfAll(own)), spread: high / low };
    });
    return {
      devices,
      complete,
      configurations: shared.length,
      lines: lines.sort((a, b) => b.spread - a.spread),
    };
  });
}

function slopeChart(view, theme, width) {
  const { devices, complete, configurations, lines } = slopes(view);
  const drawn = lines.slice(0, COMPARED_LINES);
  const values = drawn.flatMap(({ means }) => means.map((mean) => mean.value)).filter(present);
  const series = drawn.map((line) => ({
    type: "line",
    name: chartText(line.name),
    symbol: "circle",
    symbolSize: 7,
    data: line.means.map((mean, place) => ({
      value: present(mean.value) ? Math.log2(mean.value) : null,
      tip: [line.name, `${times(mean.value)}${line.doubts[place]} over ${pairsOf(mean)}`],
      itemStyle: hollowIf(line.doubts[place], theme, theme.quiet),
    })),
    lineStyle: { width: 1.6, color: theme.quiet },
    connectNulls: true,
    emphasis: { focus: "series", lineStyle: { width: 3, color: theme.text } },
  }));
  Object.assign(series[0], unityMarks(theme, floorOf(view)));
  const ends = drawn.map(({ name, means }) => {
    const x = means.findLastIndex((mean) => present(mean.value));
    return { name, x, value: means[x].value };
  });
  const means = devices.map(
    (device, place) => `${device} ${times(median(lines.map((line) => line.means[place].value).filter(present)))}`,
  );
  const label = `Median speedup of ${plural(lines.length, "model")}: ${means.join(", ")}.`;
  return {
    label,
    note: [
      label,
      `Over ${plural(configurations, "configuration")} compared on ${complete ? "all" : "two or more"} of these devices.`,
      drawn.length < lines.length ? `Drawn: the ${drawn.length} models that the device changes most.` : "",
    ].join(" "),
    height: 340,
    option: {
      grid: { left: 56, right: Math.min(180, width * 0.38), top: 12, bottom: 44 },
      tooltip: {
        trigger: "item",
        formatter: ({ data, dataIndex }) => data && tip(...data.tip, devices[dataIndex]),
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
      series: [...series, endLabels(theme, ends)],
    },
  };
}

/** The lines' names at their right ends, moved apart so that they do not overlap. */
function endLabels(theme, ends) {
  const gap = 13;
  return {
    type: "custom",
    silent: true,
    clip: false,
    data: [[0, 0]],
    renderItem: ({ coordSys }, api) => {
      const labels = ends
        .map(({ name, x: place, value }) => {
          const [x, y] = api.coord([place, Math.log2(value)]);
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
  const { devices, lines } = slopes(view);
  return {
    caption: "Geometric mean speedup across devices",
    head: ["Model", ...devices],
    numeric: devices.map((_, i) => i + 1),
    total: lines.length,
    rows: lines
      .slice(0, 200)
      .map(({ name, means, doubts }) => [
        name,
        ...means.map((mean, place) => (mean.n ? `${times(mean.value)}${doubts[place]} (${mean.n})` : NONE)),
      ]),
  };
}

/**
 * Lines over a column: rows of one model that differ in nothing else, at least two of each; only if the selection has
 * one model, because a line through several would show how models differ.
 */
function linesOver(view, column) {
  return view.once(`lines ${column}`, () => {
    if (view.distinct("model").length !== 1 || view.distinct(column).length < 2) return [];
    const [values, speedup] = [view.rows.number(column), view.rows.number("speedup")];
    const lines = new Map();
    const kinds = ["source", "scenario"].filter((kind) => view.distinct(kind).length > 1);
    for (const row of view.counted) {
      if (speedup[row] !== speedup[row]) continue;
      const name = [rowLabel(view, row, { without: column }), ...kinds.map((kind) => view.rows.text(kind, row))].join(
        " · ",
      );
      if (!lines.has(name)) lines.set(name, { name, rows: [] });
      lines.get(name).rows.push(row);
    }
    return [...lines.values()]
      .filter(({ rows }) => rows.length > 1)
      .map(({ name, rows }) => ({ name, rows: rows.sort((a, b) => values[a] - values[b]) }));
  });
}

function lineOver(view, theme, width, column, name) {
  const lines = linesOver(view, column);
  const drawn = lines.slice(0, COMPARED_LINES);
  const speedup = view.rows.number("speedup");
  const values = view.rows.number(column);
  const places = [...new Set(drawn.flatMap(({ rows }) => rows.map((row) => values[row])))].sort((a, b) => a - b);
  const series = drawn.map(({ rows }) => ({
    type: "line",
    symbolSize: 9,
    lineStyle: { width: 1.4, color: theme.quiet },
    data: rows.map((row) => ({
      row,
      value: [places.indexOf(values[row]), Math.log2(speedup[row])],
      ...verdictSymbol(theme, view, row),
    })),
  }));
  Object.assign(series[0], unityMarks(theme, floorOf(view)));
  const ends = drawn.map(({ name: text, rows }) => ({
    name: text,
    x: places.indexOf(values[rows.at(-1)]),
    value: speedup[rows.at(-1)],
  }));
  const said = drawn.map(
    ({ name: text, rows }) =>
      `${text}: ${times(speedup[rows[0]])} at ${values[rows[0]]}, ${times(speedup[rows.at(-1)])} at ${values[rows.at(-1)]}`,
  );
  return {
    height: 320,
    label: `By ${name}: ${said.join("; ")}.`,
    note: drawn.length < lines.length ? `The first ${drawn.length} of ${lines.length} lines.` : "",
    option: {
      grid: { left: 62, right: Math.min(220, width * 0.4), top: 10, bottom: 44 },
      tooltip: { trigger: "item", formatter: ({ data }) => pairTip(view, data?.row) },
      xAxis: {
        ...nameAxis(theme, places),
        name,
        nameLocation: "middle",
        nameGap: 28,
        nameTextStyle: { color: theme.quiet },
      },
      yAxis: {
        ...speedupAxis(
          theme,
          "speedup",
          drawn.flatMap(({ rows }) => rows.map((row) => speedup[row])),
        ),
        nameGap: 46,
      },
      series: [...series, endLabels(theme, ends)],
    },
  };
}

function lineTable(view, column, name) {
  const n = (figure, row) => view.rows.number(figure)[row];
  return {
    caption: `Speedup over ${name}`,
    head: ["Line", name, "Speedup", "95 % interval", "Images per second"],
    numeric: [1, 2, 3, 4],
    rows: linesOver(view, column).flatMap(({ name: text, rows }) =>
      rows.map((row) => [
        text,
        n(column, row),
        `${times(n("speedup", row))}${view.doubt(row)}`,
        range(n("speedup_low", row), n("speedup_high", row)),
        short(n("throughput_samples_per_s", row)),
      ]),
    ),
  };
}
