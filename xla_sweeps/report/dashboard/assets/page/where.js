/**
 * "Where does it help?": the heat map of families with what ran, and families by geometric mean (never by the best variant).
 */

function whereSection() {
  byId("where-charts").append(
    chart({
      title: "Geometric mean speedup",
      wide: true,
      how: "Each cell is the geometric mean over its models; hatched: fewer than three; ✕: failed; –: skipped; blank: not run. Click a cell to filter.",
      build: heatMap,
      table: heatTable,
      click: heatClick,
      worth: (view) => view.pairs.length > 1,
    }),
    familyList(),
  );
}

/** Cells of the map: groups down, devices and resolutions across; or only devices, merged over resolutions. */
function heatCells(view, merged = false) {
  return view.once(`heat ${merged}`, () => {
    const families = view.distinct("family");
    const models = view.distinct("model");
    const name = families.length <= 2 && models.length <= 60 ? "model" : "family";
    const group = view.rows.category(name);
    const [device, resolution] = [view.index.facets.get("device"), view.index.facets.get("resolution_px")];
    const [speedup, verdict] = [view.rows.number("speedup"), view.rows.category("verdict")];
    const model = view.rows.category("model");
    const failed = verdict.values.indexOf("failed");
    const status = view.rows.category("status");
    const skipped = status.values.indexOf("skipped");
    const across = new Map();
    const down = new Map();
    const cells = new Map();
    for (const row of view.counted) {
      const place = device.ranks[device.data[row]] * 65536 + (merged ? 0 : resolution.ranks[resolution.data[row]]);
      const key = group.data[row] * 2 ** 32 + place;
      let cell = cells.get(key);
      if (!cell) {
        cell = { group: group.data[row], place, mean: new GeometricMean(), rows: [], failed: 0, skipped: 0 };
        cells.set(key, cell);
        if (!across.has(place))
          across.set(place, {
            place,
            device: device.values[device.data[row]],
            resolution: merged ? "all" : resolution.values[resolution.data[row]],
          });
        if (!down.has(cell.group)) down.set(cell.group, new GeometricMean());
      }
      if (speedup[row] === speedup[row]) {
        cell.rows.push(row);
        cell.mean.add(speedup[row], model.data[row]);
        down.get(cell.group).add(speedup[row], model.data[row]);
      } else if (verdict.data[row] === failed) cell[status.data[row] === skipped ? "skipped" : "failed"] += 1;
    }
    const columns = [...across.values()].sort((a, b) => a.place - b.place);
    const lines = [...down]
      .map(([code, mean]) => ({ code, name: group.values[code], mean }))
      .sort((a, b) => (b.mean.value ?? 0) - (a.mean.value ?? 0));
    return { name, columns, lines, cells };
  });
}

function heatMap(view, theme, width) {
  const left = Math.min(190, width * 0.34);
  const merged = (width - left - 12) / heatCells(view).columns.length < 24;
  const { name, columns, lines, cells } = heatCells(view, merged);
  const devices = new Set(columns.map((column) => column.device));
  const cellWidth = Math.min(220, (width - left - 12) / columns.length);
  const data = [];
  lines.forEach((line, y) =>
    columns.forEach((column, x) => {
      const cell = cells.get(line.code * 2 ** 32 + column.place);
      if (cell) data.push({ cell, line, column, value: [x, y] });
    }),
  );
  const best = lines[0];
  const { planned, trials } = view.rows.meta;
  return {
    note: [
      merged ? "Resolutions are merged to fit the width; the table separates them." : "",
      present(planned)
        ? `${count(trials)} of ${count(planned)} planned trials are in this file (${share(trials, planned)}).`
        : "",
    ]
      .filter(Boolean)
      .join(" "),
    height: lines.length * 24 + 72,
    legend: [...heatLegend(theme), ...doubtLegend(view, Array.from(view.counted))],
    label: `${plural(lines.length, name === "model" ? "model" : "family", name === "model" ? "models" : "families")} on ${plural(devices.size, "device")}: most for ${best.name} (${times(best.mean.value)}), least for ${lines.at(-1).name} (${times(lines.at(-1).mean.value)}).`,
    option: {
      grid: { left, width: cellWidth * columns.length, top: 24, bottom: 46 },
      tooltip: {
        trigger: "item",
        formatter: ({ dataIndex }) => {
          const { cell, line, column } = data[dataIndex];
          return tip(
            `${line.name} · ${column.device} · ${column.resolution} px`,
            cell.mean.n
              ? `${times(cell.mean.value)}${view.doubtOfAll(cell.rows)} over ${pairsOf(cell.mean)}${cell.mean.models > 2 ? ` (95 % ${range(...cell.mean.interval)})` : ""}`
              : "",
            cell.failed ? `✕ ${count(cell.failed)} failed` : "",
            cell.skipped ? `– ${count(cell.skipped)} skipped` : "",
          );
        },
      },
      xAxis: resolutionAxis(theme, columns, cellWidth),
      yAxis: nameAxis(
        theme,
        lines.map((line) => line.name),
        { inverse: true, axisLabel: { width: left - 12, overflow: "truncate" } },
      ),
      series: [
        {
          type: "custom",
          data: data.map(({ value, line, column }) => ({ value, line: { name: line.name }, column })),
          encode: { x: 0, y: 1 },
          renderItem: (params, api) => heatCell(view, theme, data[params.dataIndex], api),
        },
        deviceHeads(theme, columns),
      ],
    },
  };
}

/** "✕ 2 – 1": how many of a cell failed and were skipped. */
const lostOf = ({ failed, skipped }) =>
  [failed ? `✕${count(failed)}` : "", skipped ? `–${count(skipped)}` : ""].filter(Boolean).join(" ");

/** One cell: colour, figure and what is lost; hatched for fewer than three models. */
function heatCell(view, theme, { cell, value }, api) {
  const [x, y] = api.coord(value);
  const [w, h] = api.size([1, 1]).map((size) => Math.max(1, size - 1.5));
  const [left, top] = [x - w / 2, y - h / 2];
  const dead = !cell.mean.n;
  const colour = dead ? theme.failed : speedupColour(theme, cell.mean.value);
  const hollow = dead || view.doubtOfAll(cell.rows) !== "";
  const fill = hollow ? theme.panel : colour;
  const children = [
    {
      type: "rect",
      shape: { x: left + 1, y: top + 1, width: w - 2, height: h - 2, r: 2 },
      style: hollow ? { fill, stroke: colour, lineWidth: dead ? 1 : 2.5 } : { fill },
    },
  ];
  const ink = dead ? theme.failed : inkOn(fill);
  if (!hollow && cell.mean.models < 3) {
    for (let start = -h; start < w; start += 7) {
      const [from, to] = [Math.max(0, start), Math.min(w, start + h)];
      children.push({
        type: "line",
        silent: true,
        shape: { x1: left + from, y1: top + h - (from - start), x2: left + to, y2: top + h - (to - start) },
        style: { stroke: ink, lineWidth: 1, opacity: 0.28 },
      });
    }
  }
  if (w >= 24)
    children.push({
      type: "text",
      silent: true,
      style: {
        text: cellText(cell, w, view.doubtOfAll(cell.rows)),
        x,
        y,
        align: "center",
        verticalAlign: "middle",
        fontSize: w < 34 ? 9.5 : 11,
        fill: ink,
      },
    });
  return { type: "group", children };
}

/** What fits in a cell: the mean, and what is lost. */
function cellText(cell, width, doubt) {
  const lost = lostOf(cell);
  if (!cell.mean.n) return width < 8 * lost.length ? lost[0] : lost;
  const mean = `${width < 34 ? digits(cell.mean.value, 2) : cell.mean.value.toFixed(2)}${doubt}`;
  return lost && width >= 7 * (lost.length + 5) ? `${mean}, ${lost}` : mean;
}

function heatLegend(theme) {
  return [
    [0.5, "0.5×"],
    [0.75, ""],
    [1, "1×"],
    [1.4, ""],
    [2, "2×"],
  ].map(([speedup, text]) => {
    const patch = el("span", { class: "patch", "aria-hidden": "true" });
    patch.style.backgroundColor = speedupColour(theme, speedup);
    return el("span", { class: "entry" }, patch, text ? ` ${text}` : "");
  });
}

function heatClick({ data }, view) {
  if (!data.column) return;
  const { name } = heatCells(view);
  view.state.set({
    device: new Set([data.column.device]),
    ...(data.column.resolution === "all" ? {} : { resolution_px: new Set([data.column.resolution]) }),
    ...(name === "family" ? { family: new Set([data.line.name]) } : { model: data.line.name }),
  });
}

function heatTable(view) {
  const { name, columns, lines, cells } = heatCells(view);
  return {
    caption: "Geometric mean speedup",
    head: [name, ...columns.map((column) => `${column.device} ${column.resolution} px`)],
    numeric: columns.map((_, i) => i + 1),
    rows: lines.map((line) => [
      line.name,
      ...columns.map((column) => {
        const cell = cells.get(line.code * 2 ** 32 + column.place);
        return !cell
          ? ""
          : cell.mean.n
            ? `${times(cell.mean.value)}${view.doubtOfAll(cell.rows)} (${[cell.mean.n, lostOf(cell)].filter(Boolean).join(", ")})`
            : lostOf(cell);
      }),
    ]),
  };
}

const byGeomean = (view) => view.overview.families.toSorted((a, b) => (b.geomean ?? 0) - (a.geomean ?? 0));

/** The families, best first: figures, the interval drawn to scale, names that filter. */
function familyList() {
  const box = el("div", { class: "chart wide", id: "family-list" });
  const worth = (view) => view.overview.families.length > 1;
  const draw = (view) => {
    const families = byGeomean(view);
    const ends = extent(families.flatMap(({ geomean, low, high }) => [1, geomean, low ?? geomean, high ?? geomean]));
    const place = (value) => (100 * Math.log(value / ends[0])) / (Math.log(ends[1] / ends[0]) || 1);
    fill(
      box,
      el("h3", { text: "Families" }),
      plainTable({
        caption: "Geometric mean over models with its 95 % interval, never the best variant. Click a family to filter.",
        head: ["Family", "Geometric mean", "95 % interval", "Around 1×", "Pairs", "Models", "Slower", "Failed"],
        numeric: [1, 2, 4, 5, 6, 7],
        rows: families.map((family) => [
          el(
            "button",
            { type: "button", class: "link", on: { click: () => view.state.only("family", family.family) } },
            family.family || NONE,
          ),
          `${times(family.geomean)}${view.doubtOfAll(family.rows)}`,
          range(family.low, family.high),
          family.n ? intervalStrip(family, place) : "",
          family.n,
          family.models,
          family.n ? `${percent(100 * family.share_slower)} %` : NONE,
          family.failed,
        ]),
      }),
    );
  };
  addPanel(box, draw, { worth });
  return box;
}

/** A figure's interval as a line, the figure as a dot and 1× as a tick, placed in percent of the cell's width. */
function intervalStrip({ geomean, low, high }, place) {
  const part = (name, from, to = from) => {
    const mark = el("span", { class: name });
    mark.style.left = `${place(from)}%`;
    if (to !== from) mark.style.width = `${place(to) - place(from)}%`;
    return mark;
  };
  return el(
    "span",
    { class: "interval", "aria-hidden": "true" },
    part("unity", 1),
    present(low) ? part("reach", low, high) : null,
    part("dot", geomean),
  );
}
