/**
 * Marks that several charts share: headings of maps, dots with ranges, markers of devices and modes.
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

/**
 * Dots with ranges along lines of names.
 * @param {Array<{y: number, value: number, low?: number, high?: number, colour: string, shape: string, text?: string, offset?: number, data?: object}>} items
 * @param {(value: number) => number} scale
 */
function dotsAndRanges(items, scale, theme) {
  return {
    type: "custom",
    encode: { x: [0, 2, 3], y: 1 },
    data: items.map((item) => ({
      ...item.data,
      value: [scale(item.value), item.y, scale(item.low ?? item.value), scale(item.high ?? item.value)],
    })),
    renderItem: (params, api) => {
      const item = items[params.dataIndex];
      const [x, middle] = api.coord([api.value(0), item.y]);
      const y = middle + (item.offset ?? 0);
      const [from, to] = [api.coord([api.value(2), item.y])[0], api.coord([api.value(3), item.y])[0]];
      const children = [
        {
          type: "line",
          shape: { x1: from, x2: to, y1: y, y2: y },
          style: { stroke: item.colour, lineWidth: 2, opacity: 0.7 },
        },
        markerShape(item.shape, x, y, 4.5, item.colour),
      ];
      if (item.text)
        children.push({
          type: "text",
          style: {
            text: item.text,
            x: Math.max(to, x + 5) + 5,
            y,
            verticalAlign: "middle",
            fontSize: 11,
            fill: theme.text,
          },
        });
      return { type: "group", children };
    },
  };
}

/** A marker of a device or mode as a graphic. */
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
