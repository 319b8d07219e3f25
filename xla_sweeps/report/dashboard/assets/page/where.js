/**
 * "Where does it help?": the heat map of families with what ran, and families by geometric mean (never by the best variant).
 */

function whereSection() {
  byId("where-charts").append(
    chart({ name: "where", build: heatMap, table: heatTable, worth: (view) => view.pairs.length > 1 }),
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

/** The map as a chart. */
function heatMap(view, theme, width) {
  const left = Math.min(190, width * 0.34);
  const places = (cells) => new Set(cells.columns.map(({ resolution }) => resolution)).size;
  const devices = new Set(heatCells(view).columns.map(({ device }) => device));
  const merged = (width - left) / (places(heatCells(view)) * devices.size) < 26;
  const { name, columns, lines, cells } = heatCells(view, merged);
  const items = [];
  lines.forEach((line, y) =>
    columns.forEach((column) => {
      const cell = cells.get(line.code * 2 ** 32 + column.place);
      if (cell) items.push({ cell, line, y, column, dead: !cell.mean.n, doubt: view.doubtOfAll(cell.rows) });
    }),
  );
  const cellWidth = (width - left) / (devices.size * new Set(columns.map(({ resolution }) => resolution)).size);
  return {
    finding: gains(lines, (line) => times(line.mean.value)),
    how: "A cell is the geometric mean over its models; small: fewer than three; ✕: failed; –: skipped; blank: not run. Click a cell to filter.",
    note: [
      merged && places(heatCells(view)) > 1 ? "Resolutions are merged to fit the width; the table separates them." : "",
      plannedNote(view.rows.meta),
    ]
      .filter(Boolean)
      .join(" "),
    legend: [
      ...[0.5, 0.7, 1, 1.4, 2].map((speedup) => ({
        mark: "■",
        colour: speedupColour(theme, speedup),
        text: { 0.5: "0.5× or less", 1: "1×", 2: "2× or more" }[speedup] ?? "",
      })),
      ...doubtLegend(items.map(({ doubt }) => doubt)),
    ],
    plot: {
      height: lines.length * 23 + 84,
      marginLeft: left,
      marginTop: 30,
      marginBottom: 40,
      fx: { axis: "top", label: null, padding: 0.02, tickFormat: (device) => chartText(cutMiddle(device, Math.max(9, Math.floor((width - left) / devices.size / 7)))) },
      x: {
        label: merged ? null : "resolution (px)",
        domain: [...new Set(columns.map(({ resolution }) => resolution))].sort(naturally),
        padding: 0,
        tickSize: 0,
        tickFormat: (resolution) => (merged ? "" : resolution),
        tickRotate: cellWidth < 34 ? -60 : 0,
      },
      y: {
        label: null,
        domain: lines.map((_, y) => y),
        padding: 0,
        tickSize: 0,
        tickFormat: (y) => chartText(cutMiddle(lines[y].name, Math.floor(left / 6.4))),
      },
      marks: heatMarks(items, theme, cellWidth),
    },
    tip: (item) => cellTip(view, item),
    click: ({ line, column }) =>
      view.state.set({
        device: new Set([column.device]),
        ...(column.resolution === "all" ? {} : { resolution_px: new Set([column.resolution]) }),
        ...(name === "family" ? { family: new Set([line.name]) } : { model: line.name }),
      }),
  };
}

/** Squares, small for few models and hollow for doubt, and what is written in them. */
function heatMarks(items, theme, cellWidth) {
  const colour = ({ cell, dead }) => (dead ? theme.failed : speedupColour(theme, cell.mean.value));
  const hollow = ({ dead, doubt }) => dead || doubt !== "";
  const at = { fx: (item) => item.column.device, x: (item) => item.column.resolution, y: "y" };
  const square = (few) =>
    Plot.cell(
      items.filter(({ cell }) => (cell.mean.models < 3 && cell.mean.n > 0) === few),
      {
        ...at,
        inset: few ? 3 : 0.5,
        fill: (item) => (hollow(item) ? theme.panel : colour(item)),
        stroke: (item) => (hollow(item) ? colour(item) : "none"),
        strokeWidth: 1.5,
      },
    );
  return [
    square(false),
    square(true),
    Plot.text(items, {
      ...at,
      text: (item) => cellText(item.cell, cellWidth, item.doubt),
      fill: (item) => (item.dead ? theme.failed : hollow(item) ? theme.text : inkOn(colour(item))),
      fontSize: cellWidth < 34 ? 9.5 : 11,
    }),
    Plot.cell(items, Plot.pointer({ ...at, stroke: theme.text, fill: "none", maxRadius: 200 })),
  ];
}

/** What a mouse over a cell says. */
function cellTip(view, { cell: { mean, rows, failed, skipped }, line, column, doubt }) {
  const speedup = view.rows.number("speedup");
  const [low, high] = tenths(rows.map((row) => speedup[row]), mean.models);
  const between = present(low) ? `; 8 of 10 between ${range(low, high)}` : "";
  return [
    `${line.name} · ${column.device}${column.resolution === "all" ? "" : ` · ${column.resolution} px`}`,
    mean.n ? `${times(mean.value)}${doubt} over ${countedOf(mean)}${between}` : "",
    failed ? `✕ ${count(failed)} failed` : "",
    skipped ? `– ${count(skipped)} skipped` : "",
  ];
}

/** "ResNetV2 gains most, 1.71×; HGNetV2 loses most, 0.88×", of lines in descending order. */
function gains(lines, write) {
  const known = lines.filter(({ mean }) => mean.n);
  if (!known.length) return "Nothing here ran with both modes";
  const [best, worst] = [known[0], known.at(-1)];
  const [up, down] = [best.mean.value >= 1 ? "gains most" : "loses least", worst.mean.value < 1 ? "loses most" : "gains least"];
  const first = `${best.name || NONE} ${up}, ${write(best)}`;
  return best === worst ? `${best.name || NONE}: ${write(best)}` : `${first}; ${worst.name || NONE} ${down}, ${write(worst)}`;
}

const plannedNote = ({ planned, trials }) =>
  present(planned) ? `${count(trials)} of ${count(planned)} planned trials are in this file (${share(trials, planned)}).` : "";

/** "✕ 2 – 1": how many of a cell failed and were skipped. */
const lostOf = ({ failed, skipped }) =>
  [failed ? `✕${count(failed)}` : "", skipped ? `–${count(skipped)}` : ""].filter(Boolean).join(" ");

/** What fits in a cell: the mean, and what is lost. */
function cellText(cell, width, doubt) {
  const lost = lostOf(cell);
  if (!cell.mean.n) return width < 8 * lost.length ? lost[0] : lost;
  const mean = `${width < 34 ? digits(cell.mean.value, 2) : cell.mean.value.toFixed(2)}${doubt}`;
  return lost && width >= 7 * (lost.length + 5) ? `${mean}, ${lost}` : mean;
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

/** The families, best first: figures, where 8 of 10 lie drawn to scale, names that filter. */
function familyList() {
  const box = el("div", { class: "chart wide", id: "family-list" });
  const worth = (view) => view.overview.families.length > 1;
  const draw = (view) => {
    const families = byGeomean(view);
    const ends = extent(families.flatMap(({ geomean, spread }) => [1, geomean, ...spread]));
    const place = (value) => (100 * Math.log(value / ends[0])) / (Math.log(ends[1] / ends[0]) || 1);
    fill(
      box,
      el("h3", { text: "Families" }),
      plainTable({
        caption: "Geometric mean over models, never the best variant. Click a family to filter.",
        head: ["Family", "Geometric mean", "8 of 10 between", "Around 1×", "Configurations", "Models", "Slower", "Failed"],
        numeric: [1, 2, 4, 5, 6, 7],
        rows: families.map((family) => [
          el(
            "button",
            { type: "button", class: "link", on: { click: () => view.state.only("family", family.family) } },
            family.family || NONE,
          ),
          `${times(family.geomean)}${view.doubtOfAll(family.rows)}`,
          range(...family.spread),
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

/** Where 8 of 10 lie as a line, the geometric mean as a dot and 1× as a tick, placed in percent of the cell's width. */
function intervalStrip({ geomean, spread: [low, high] }, place) {
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
