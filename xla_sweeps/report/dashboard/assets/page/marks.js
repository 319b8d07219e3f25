/**
 * Marks that several charts share: headings of maps, markers of devices and modes.
 */

/** The resolutions below a map's columns. */
function resolutionAxis(theme, columns, cellWidth) {
  const axisLabel = {
    rotate: cellWidth < 26 ? 60 : 0,
    color: theme.quiet,
    interval: cellWidth < 11 ? "auto" : 0,
    fontSize: 10.5,
  };
  return {
    ...nameAxis(
      theme,
      columns.map((column) => column.resolution),
      { axisLabel },
    ),
    name: "resolution (px)",
    nameLocation: "middle",
    nameGap: 28,
    nameTextStyle: { color: theme.quiet },
  };
}

/** The devices above a map's columns, each over its resolutions. */
function deviceHeads(theme, columns) {
  const groups = [];
  columns.forEach(({ device }, x) =>
    groups.at(-1)?.device === device ? (groups.at(-1).to = x) : groups.push({ device, from: x, to: x }),
  );
  return {
    type: "custom",
    silent: true,
    clip: false,
    data: [[0, 0]],
    renderItem: ({ coordSys }, api) => ({
      type: "group",
      children: groups.flatMap(({ device, from, to }) => {
        const [half, left, right] = [api.size([1, 0])[0] / 2, api.coord([from, 0])[0], api.coord([to, 0])[0]];
        const head = {
          type: "text",
          style: {
            text: chartText(right - left + 2 * half < 130 ? shortDevice(device) : device),
            x: (left + right) / 2,
            y: coordSys.y - 12,
            align: "center",
            verticalAlign: "middle",
            fontSize: 12,
            fontWeight: "bold",
            fill: theme.text,
            width: right - left + 2 * half - 6,
            overflow: "truncate",
          },
        };
        const rule = {
          type: "line",
          shape: { x1: left - half, x2: left - half, y1: coordSys.y - 18, y2: coordSys.y + coordSys.height },
          style: { stroke: theme.quiet, lineWidth: 1.5 },
        };
        return from ? [head, rule] : [head];
      }),
    }),
  };
}

/** "NVIDIA A100-SXM4-80GB" as "A100-SXM4-80GB". */
const shortDevice = (device) =>
  cut(device.replace(/^(NVIDIA|AMD|Intel\(R\)|Tesla|GeForce)\s+/i, "").replace(/\s+(CPU|Processor).*$/i, ""), 18);

const PANELS_MOST = 6;

/** A panel per device, side by side: grids and axes for `option`, and the devices' names above them. */
function devicePanels(theme, devices, width, xAxis, yAxis) {
  const shown = devices.slice(0, PANELS_MOST);
  const columns = Math.max(1, Math.min(shown.length, Math.floor(width / 300), 3));
  const [wide, high] = [(width - 8) / columns, 330];
  const places = shown.map((_, place) => [place % columns, Math.floor(place / columns)]);
  const heads = shown.map((device, place) => ({
    type: "custom",
    silent: true,
    xAxisIndex: place,
    yAxisIndex: place,
    data: [0],
    renderItem: ({ coordSys }) => ({
      type: "text",
      style: {
        text: chartText(cut(device, 40)),
        x: coordSys.x,
        y: coordSys.y - 14,
        fontSize: 12,
        fontWeight: "bold",
        fill: theme.text,
      },
    }),
  }));
  return {
    shown,
    heads,
    height: Math.ceil(shown.length / columns) * high,
    note: devices.length > shown.length ? `The first ${shown.length} of ${devices.length} devices.` : "",
    axes: {
      grid: places.map(([column, line]) => ({
        left: column * wide + 62,
        top: line * high + 28,
        width: wide - 76,
        height: high - 78,
      })),
      xAxis: places.map((_, place) => ({ ...xAxis, gridIndex: place })),
      yAxis: places.map(([column], place) => ({ ...yAxis, gridIndex: place, name: column ? "" : yAxis.name })),
    },
  };
}

/** A symbol's style: full, or hollow if there is doubt. */
const hollowIf = (doubt, theme, colour, opacity = 1) =>
  doubt
    ? { color: theme.panel, borderColor: colour, borderWidth: 1.5, opacity }
    : { color: colour, borderColor: colour, borderWidth: 0, opacity };

/** What hollow means, if any of the rows is. */
function doubtLegend(view, rows = view.pairs) {
  const [preliminary, contaminated] = ["*", "~"].map((mark) => rows.some((row) => view.doubt(row).includes(mark)));
  const meanings = [
    preliminary ? "* fewer than 3 replicates: preliminary" : "",
    contaminated ? "~ contaminated by other load on the machine" : "",
  ].filter(Boolean);
  return meanings.length ? [el("span", { class: "entry wrap", text: `hollow: ${meanings.join("; ")}` })] : [];
}

const VERDICT_SHAPES = {
  __proto__: null,
  faster: "triangle",
  slower: "pin",
  equivalent: "rect",
  ambiguous: "diamond",
};

/** A row's marker in a series: shape and colour of its verdict. */
function verdictSymbol(theme, view, row) {
  const verdict = view.rows.text("verdict", row);
  const shape = VERDICT_SHAPES[verdict] ?? "circle";
  return {
    ...(shape === "pin" ? { symbol: "triangle", symbolRotate: 180 } : { symbol: shape }),
    itemStyle: hollowIf(view.doubt(row), theme, theme[verdict] ?? theme.quiet),
  };
}

/** A marker as a graphic; hollow if it has an `inside` colour. */
function markerShape(shape, x, y, r, colour, inside = "") {
  const style = inside ? { fill: inside, stroke: colour, lineWidth: 1.5 } : { fill: colour };
  const polygon = (...points) => ({
    type: "polygon",
    shape: { points: points.map(([dx, dy]) => [x + dx * r, y + dy * r]) },
    style,
  });
  if (shape === "rect") return polygon([-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]);
  if (shape === "triangle") return polygon([0, -1.15], [1.1, 0.9], [-1.1, 0.9]);
  if (shape === "diamond") return polygon([0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]);
  if (shape === "pin") return polygon([0, 1.15], [1.1, -0.9], [-1.1, -0.9]);
  return { type: "circle", shape: { cx: x, cy: y, r }, style };
}
