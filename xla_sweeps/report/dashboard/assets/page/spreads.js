/**
 * Spreads: medians and quantiles of throughput or memory by family and by resolution, a marker per device.
 */

/** Quantiles of a column by group and device. */
function spreadBy(view, groupName, read) {
  return view.once(`spread ${groupName} ${read.name}`, () => {
    const group = view.index.facets.get(groupName) ?? view.rows.category(groupName);
    const device = view.index.facets.get("device");
    const lists = new Map();
    for (const row of view.pairs) {
      const value = read(view, row);
      if (!(value > 0) || !Number.isFinite(value)) continue;
      const key = group.data[row] * 65536 + device.data[row];
      if (!lists.has(key)) lists.set(key, []);
      lists.get(key).push(value);
    }
    return [...lists].map(([key, list]) => {
      const sorted = Float64Array.from(list).sort();
      return {
        group: group.values[Math.floor(key / 65536)],
        device: device.values[key % 65536],
        n: sorted.length,
        quantiles: [0.1, 0.25, 0.5, 0.75, 0.9].map((level) => quantile(sorted, level)),
      };
    });
  });
}

const throughputOf = function throughput(view, row) {
  return view.rows.number("throughput_samples_per_s")[row];
};

const throughputByFamily = (view, theme, width) =>
  rangesByFamily(view, theme, width, {
    read: throughputOf,
    empty: "No throughput in this selection.",
    label: "throughput",
    write: rate,
    scale: Math.log10,
    axis: (values) => logAxis(theme, "images per second", values),
  });

/** Median and 10–90 % by family, a marker per device. */
function rangesByFamily(view, theme, width, { read, empty, label, write, scale, axis, marks = {} }) {
  const spreads = spreadBy(view, "family", read);
  if (!spreads.length) return { empty };
  const devices = view.distinct("device");
  const facets = devices.length <= 6 ? devices : [];
  const middles = new Map();
  for (const { group, quantiles } of spreads) middles.set(group, [...(middles.get(group) ?? []), quantiles[2]]);
  const families = [...middles]
    .map(([name, values]) => [name, Math.max(...values)])
    .sort((a, b) => b[1] - a[1])
    .map(([name]) => name);
  const step = Math.max(22, facets.length * 7 + 6);
  const left = Math.min(170, width * 0.34);
  const items = spreads.map((spread) => {
    const { colour, shape } = deviceMark(theme, devices, spread.device);
    const place = Math.max(0, facets.indexOf(spread.device));
    return {
      y: families.indexOf(spread.group),
      offset: facets.length > 1 ? (place - (facets.length - 1) / 2) * 7 : 0,
      value: spread.quantiles[2],
      low: spread.quantiles[0],
      high: spread.quantiles[4],
      colour,
      shape,
      data: { spread },
    };
  });
  return {
    height: Math.max(300, 54 + families.length * step),
    legend:
      facets.length > 1
        ? legendOf(facets.map((device) => ({ ...deviceMark(theme, devices, device), text: device })))
        : [],
    label: `Median ${label} by family: highest ${families[0]}, lowest ${families.at(-1)}.`,
    option: {
      grid: { left, right: 16, top: 6, bottom: 44 },
      tooltip: {
        trigger: "item",
        formatter: ({ data: { spread } }) =>
          tip(
            `${spread.group} · ${spread.device}`,
            `median ${write(spread.quantiles[2])}, 10–90 % ${write(spread.quantiles[0])} to ${write(spread.quantiles[4])}`,
            plural(spread.n, "pair"),
          ),
      },
      xAxis: axis(spreads.flatMap(({ quantiles }) => [quantiles[0], quantiles[4]])),
      yAxis: nameAxis(theme, families, {
        inverse: true,
        axisLabel: { width: left - 12, overflow: "truncate" },
        splitLine: { show: true, lineStyle: { color: theme.line, opacity: 0.4 } },
      }),
      series: [{ ...dotsAndRanges(items, scale, theme), ...marks }],
    },
  };
}

const spreadRows = (view, group, read, write) =>
  spreadBy(view, group, read)
    .toSorted((a, b) => naturally(a.group, b.group) || naturally(a.device, b.device))
    .map(({ group: name, device, n, quantiles }) => [name, device, n, ...quantiles.map(write)]);
const throughputFamilyTable = (view) => ({
  caption: "Throughput by family, images per second",
  head: ["Family", "Device", "Pairs", "10 %", "25 %", "Median", "75 %", "90 %"],
  numeric: [2, 3, 4, 5, 6, 7],
  rows: spreadRows(view, "family", throughputOf, short),
});
const throughputResolutionTable = (view) => ({
  caption: "Throughput by resolution, images per second",
  head: ["Resolution (px)", "Device", "Pairs", "10 %", "25 %", "Median", "75 %", "90 %"],
  numeric: [2, 3, 4, 5, 6, 7],
  rows: spreadRows(view, "resolution_px", throughputOf, short),
});

/** The height of a chart beside one of families: similar, within limits. */
function besideFamilies(view, least) {
  const devices = view.distinct("device").length;
  return Math.max(
    least,
    Math.min(620, 54 + view.distinct("family").length * Math.max(22, (devices <= 6 ? devices : 0) * 7 + 6)),
  );
}

function throughputByResolution(view, theme) {
  const spreads = spreadBy(view, "resolution_px", throughputOf);
  if (!spreads.length) return { empty: "No throughput in this selection." };
  const resolutions = [...new Set(spreads.map((spread) => spread.group))].sort(naturally);
  const all = view.distinct("device");
  const devices = all.slice(0, 6);
  const series = devices.map((device) => {
    const { colour } = deviceMark(theme, all, device);
    return {
      type: "boxplot",
      name: chartText(device),
      boxWidth: [4, 26],
      itemStyle: { color: mixed(theme.panel, colour, 0.35), borderColor: colour, borderWidth: 1.4 },
      data: resolutions.map((resolution) => {
        const found = spreads.find((spread) => spread.group === resolution && spread.device === device);
        return found ? { value: found.quantiles.map(Math.log10), spread: found } : { value: [] };
      }),
    };
  });
  const models = view.distinct("model").length;
  const fewest = spreads.reduce((a, b) => (b.n < a.n ? b : a));
  return {
    height: besideFamilies(view, 360),
    label: `Throughput over ${plural(resolutions.length, "resolution")} on ${plural(all.length, "device")}, ${plural(models, "model")}.`,
    note: `Fewest at ${fewest.group} px on ${fewest.device}: ${plural(fewest.n, "pair")}.${all.length > devices.length ? ` The first ${devices.length} of ${all.length} devices.` : ""}`,
    legend: legendOf(
      devices.map((device) => ({ colour: deviceMark(theme, all, device).colour, shape: "rect", text: device })),
    ),
    option: {
      grid: { left: 62, right: 12, top: 10, bottom: 44 },
      tooltip: {
        trigger: "item",
        formatter: ({ data: { spread } }) =>
          spread &&
          tip(
            `${spread.group} px · ${spread.device}`,
            `median ${rate(spread.quantiles[2])}`,
            `10–90 % ${short(spread.quantiles[0])}–${short(spread.quantiles[4])}`,
            plural(spread.n, "pair"),
          ),
      },
      xAxis: {
        ...nameAxis(
          theme,
          resolutions.map((value) => `${value}`),
          { axisLabel: { interval: "auto" } },
        ),
        name: "resolution (px)",
        nameLocation: "middle",
        nameGap: 28,
        nameTextStyle: { color: theme.quiet },
      },
      yAxis: {
        ...logAxis(
          theme,
          "images per second",
          spreads.flatMap(({ quantiles }) => [quantiles[0], quantiles[4]]),
        ),
        nameGap: 46,
      },
      series,
    },
  };
}
