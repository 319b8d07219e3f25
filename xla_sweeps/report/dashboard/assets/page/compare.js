/**
 * "How do devices, resolutions and batch sizes compare?": a line per model over devices; of one model, over resolution
 * and batch size.
 */

const COMPARED_LINES = 12;

function compareSection() {
  byId("compare-charts").append(
    chart({ name: "devices", build: slopeChart, table: slopeTable, worth: (view) => slopes(view).lines.length > 0 }),
    ...[
      ["resolution_px", "resolution (px)"],
      ["batch_size", "batch size"],
    ].map(([column, title]) =>
      chart({
        name: column,
        build: (view, theme, width) => lineOver(view, theme, width, column, title),
        table: (view) => lineTable(view, column, title),
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
  const drawn = lines.slice(0, COMPARED_LINES).map(({ name, means, doubts }) => ({
    name,
    points: devices
      .map((device, place) => ({ at: place, mean: means[place], value: means[place].value, doubt: doubts[place], verdict: "", name, device }))
      .filter(({ value }) => present(value)),
  }));
  const [first] = drawn;
  const ends = first.points.toSorted((a, b) => b.value - a.value);
  const medians = devices.map(
    (device, place) => `${device} ${times(median(lines.map((line) => line.means[place].value).filter(present)))}`,
  );
  return {
    ...linesChart(drawn, { theme, width, floor: floorOf(view), label: null, title: (place) => cutMiddle(shortDevice(devices[place]), width < 600 ? 9 : 18), places: devices.map((_, i) => i) }),
    finding: `${first.name} depends most on the device: ${times(ends[0].value)} on ${shortDevice(ends[0].device)}, ${times(ends.at(-1).value)} on ${shortDevice(ends.at(-1).device)}`,
    how: "A line per model: the geometric mean over the same configurations on each device.",
    note: [
      `Median of ${plural(lines.length, "model")}: ${medians.join(", ")}.`,
      `Over ${plural(configurations, "configuration")} compared on ${complete ? "all" : "two or more"} of these devices.`,
      drawn.length < lines.length ? `Drawn: the ${drawn.length} models that the device changes most.` : "",
    ].join(" "),
    tip: ({ name, mean, doubt, device }) => [name, `${times(mean.value)}${doubt} over ${countedOf(mean)}`, device],
  };
}

/** Lines `{name, points: [{at, value, verdict, doubt}]}` of speedups over places, named at their right ends. */
function linesChart(lines, { theme, width, floor, label, title, places }) {
  const points = lines.flatMap((line) => line.points.map((point) => ({ ...point, line: line.name })));
  const right = Math.min(240, width * 0.4);
  const [height, marginTop, marginBottom] = [Math.max(width < 600 ? 240 : 300, 80 + lines.length * 14), 16, 42];
  const y = speedupScale("speedup", points.map(({ value }) => value));
  const last = lines.map((line) => line.points.at(-1));
  const moved = spread(last, y.domain, height - marginTop - marginBottom);
  return {
    legend: verdictLegend(theme, points.map(({ verdict }) => verdict), points.map(({ doubt }) => doubt)),
    plot: {
      height,
      marginTop,
      marginBottom,
      marginLeft: 48,
      marginRight: right,
      x: { type: "point", domain: places, label, tickFormat: (place) => chartText(title(place)), padding: 0.1 },
      y: { ...y, grid: true },
      marks: [
        ...unityMarks(theme, floor, "y"),
        Plot.line(points, { x: "at", y: "value", z: "line", stroke: theme.quiet }),
        Plot.dot(points, { x: "at", y: "value", r: 4, ...verdictDots(theme) }),
        Plot.link(last, { x1: "at", x2: "at", y1: "value", y2: (_, i) => moved[i], dx: 12, stroke: theme.line }),
        Plot.text(lines, {
          x: (_, i) => last[i].at,
          y: (_, i) => moved[i],
          text: ({ name }) => chartText(cutMiddle(name, Math.floor(right / 6.4))),
          textAnchor: "start",
          dx: 14,
          stroke: theme.panel,
          fill: theme.text,
        }),
        Plot.dot(points, Plot.pointer({ x: "at", y: "value", r: 7, stroke: theme.text })),
      ],
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
    const kinds = QUESTION.filter((kind) => !NAMED_BY.includes(kind) && view.distinct(kind).length > 1);
    for (const row of view.counted) {
      if (speedup[row] !== speedup[row]) continue;
      const parts = [rowLabel(view, row, { without: column }), ...kinds.map((kind) => view.rows.text(kind, row))];
      const name = parts.filter(Boolean).join(" · ");
      if (!lines.has(name)) lines.set(name, { name, rows: [] });
      lines.get(name).rows.push(row);
    }
    return [...lines.values()]
      .filter(({ rows }) => rows.length > 1)
      .map(({ name, rows }) => ({ name, rows: rows.sort((a, b) => values[a] - values[b]) }));
  });
}

function lineOver(view, theme, width, column, title) {
  const all = linesOver(view, column);
  const [speedup, values] = [view.rows.number("speedup"), view.rows.number(column)];
  const lines = all.slice(0, COMPARED_LINES).map(({ name, rows }) => ({
    name,
    points: rows.map((row) => ({
      row,
      at: values[row],
      value: speedup[row],
      verdict: view.rows.text("verdict", row),
      doubt: view.doubt(row),
    })),
  }));
  const places = [...new Set(lines.flatMap(({ points }) => points.map(({ at }) => at)))].sort((a, b) => a - b);
  const unit = column === "resolution_px" ? " px" : "";
  const said = lines.slice(0, 2).map(({ name, points }) => {
    const [first, last] = [points[0], points.at(-1)].map(({ at, value }) => `${times(value)} at ${at}${unit}`);
    return `${name}: ${first}, ${last}`;
  });
  return {
    ...linesChart(lines, { theme, width, floor: floorOf(view), label: title, title: String, places }),
    finding: `By ${title.replace(" (px)", "")}: ${said.join("; ")}`,
    how: "A line per setting of the chosen model; colour and shape: verdict.",
    note: lines.length < all.length ? `The first ${lines.length} of ${all.length} lines.` : "",
    tip: ({ row }) => pairTip(view, row),
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
