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
    itemStyle: { color: theme[verdict] ?? theme.quiet },
  };
}

/** A marker as a graphic. */
function markerShape(shape, x, y, r, fill) {
  const polygon = (...points) => ({
    type: "polygon",
    shape: { points: points.map(([dx, dy]) => [x + dx * r, y + dy * r]) },
    style: { fill },
  });
  if (shape === "rect")
    return {
      type: "rect",
      shape: { x: x - r * 0.9, y: y - r * 0.9, width: r * 1.8, height: r * 1.8 },
      style: { fill },
    };
  if (shape === "triangle") return polygon([0, -1.15], [1.1, 0.9], [-1.1, 0.9]);
  if (shape === "diamond") return polygon([0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]);
  if (shape === "pin") return polygon([0, 1.15], [1.1, -0.9], [-1.1, -0.9]);
  if (shape === "arrow") return polygon([1.2, 0], [-0.9, -1.1], [-0.3, 0], [-0.9, 1.1]);
  return { type: "circle", shape: { cx: x, cy: y, r }, style: { fill } };
}
