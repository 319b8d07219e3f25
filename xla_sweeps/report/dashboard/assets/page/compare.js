/** "How do devices, resolutions and batch sizes compare?": a line per model over devices; of one model, over
 * resolution and batch size. */

import { countedOf, extent, GeometricMean, getOrMake, median, NONE, plural, present, short, times } from "./numbers.js";
import { byId, dotted, plainTable } from "./dom.js";
import { NAMED_BY, QUESTION } from "./view.js";
import { chartText, cutMiddle, figured, floorOf, hollowIf, margins, markOf, pairTip, rowLabel, shortDevice, speedupScale, unityMarks, verdictColour, verdictLegend, WORDS } from "./marks.js";
import { chart } from "./panels.js";
import { LETTER } from "./pairs.js";

const COMPARED_LINES = 12;

const LINES_OVER = { resolution_px: "resolution (px)", batch_size: "batch size" };

export function compareSection() {
  const devices = chart("devices", {
    build: slopeChart,
    table: slopeTable,
    worth: (view) => severalTimes(view).length > 0,
  });
  const over = Object.entries(LINES_OVER).map(([column, title]) =>
    chart(column, {
      build: (view, theme, width) => lineOver(view, theme, width, column, title),
      table: (view) => lineTable(view, column, title),
      worth: (view) => linesOver(view, column).length > 0,
    }),
  );
  byId("compare-charts").append(devices, ...over);
}

/** The rows of each configuration that was compared on more than one device: one of each device. @param {View} view */
function severalTimes(view) {
  return view.once("several times", () => {
    if (view.distinct("device").length < 2) return [];
    const { configuration } = view.rows.numbered;
    const speedup = view.rows.number("speedup");
    const groups = new Map();
    for (const row of view.counted)
      if (!Number.isNaN(speedup[row])) getOrMake(groups, configuration[row], () => []).push(row);
    return [...groups.values()].filter((rows) => rows.length > 1);
  });
}

/** Lines over devices, from configurations that were compared on more than one; those that differ most first. @param {View} view */
function slopes(view) {
  return view.once("slopes", () => {
    const devices = view.distinct("device");
    const speedup = view.rows.number("speedup");
    const twice = severalTimes(view);
    const everywhere = twice.filter((rows) => rows.length === devices.length);
    const complete = everywhere.length >= twice.length / 4;
    const shared = complete ? everywhere : twice;
    const lines = new Map();
    for (const row of shared.flat()) {
      const { model: name, device } = view.at(row);
      const empty = () => ({ name, at: devices.map(() => ({ mean: new GeometricMean(), rows: [] })) });
      const own = getOrMake(lines, name, empty).at[devices.indexOf(device)];
      own.mean.add(speedup[row], name);
      own.rows.push(row);
    }
    const spreadOver = ({ at }) => {
      const [low, high] = extent(at.map(({ mean }) => mean.value));
      return high / low;
    };
    const sorted = [...lines.values()].sort((a, b) => spreadOver(b) - spreadOver(a));
    return { devices, complete, configurations: shared.length, lines: sorted };
  });
}

function slopeChart(/** @type {View} */ view, /** @type {Theme} */ theme, /** @type {number} */ width) {
  const { devices, complete, configurations, lines } = slopes(view);
  const drawn = lines.slice(0, COMPARED_LINES).map(({ name, at }) => ({
    name,
    points: at
      .map(({ mean, rows }, place) => ({ at: place, mean, value: mean.value, doubt: view.doubtOfAll(rows), name }))
      .filter(({ value }) => present(value)),
  }));
  const ends = drawn[0].points.toSorted((a, b) => b.value - a.value);
  const title = (place) => shortDevice(view, devices[place]);
  const said = ({ value, at }) => `${times(value)} on ${title(at)}`;
  const middle = (place) => median(lines.map(({ at }) => at[place].mean.value).filter(present));
  const medians = devices.map((_, place) => `${title(place)} ${times(middle(place))}`);
  return {
    ...dotsChart(drawn, { theme, width, floor: floorOf(view), title, places: [...devices.keys()] }),
    finding: `${drawn[0].name} depends most on the device: ${said(ends[0])}, ${said(ends.at(-1))}`,
    how: "A line per model: the geometric mean over the same configurations on each device, a shape each.",
    note: [
      `Median of ${plural(lines.length, "model")}: ${medians.join(", ")}.`,
      `Over ${plural(configurations, "configuration")} compared on ${complete ? "all" : "two or more"} of these devices.`,
      drawn.length < lines.length && `Drawn: the ${drawn.length} models that the device changes most.`,
    ],
    tip: ({ name, mean, doubt, at }) => [name, `${times(mean.value)}${doubt} over ${countedOf(mean)}`, devices[at]],
  };
}

/** Symbols of Plot for places, and as text. */
const PLACE_SHAPES = Object.entries({ circle: "●", square: "■", triangle: "▲", diamond: "◆", star: "★", cross: "✚", wye: "Y" });

const placeShape = (place) => PLACE_SHAPES[place % PLACE_SHAPES.length];

/** Lines `{name, points: [{at, value, verdict, doubt}]}` down, speedups across, a shape for each place. */
function dotsChart(lines, { theme, width, floor, title, places }) {
  const points = lines.flatMap(({ name, points: own }) => own.map((point) => ({ ...point, line: name })));
  const ranges = lines.map(({ name, points: own }) => [name, extent(own.map(({ value }) => value))]);
  const left = Math.min(12 + LETTER * Math.max(...lines.map(({ name }) => name.length)), width * 0.45);
  const tickFormat = (name) => chartText(cutMiddle(name, Math.floor((left - 8) / LETTER)));
  return {
    legend: [
      ...places.map((place, i) => ({ mark: placeShape(i)[1], colour: theme.quiet, text: title(place) })),
      ...verdictLegend(theme, points),
    ],
    plot: {
      height: 64 + lines.length * 22,
      ...margins(16, 30, 34, left),
      x: speedupScale("speedup", points.map(({ value }) => value), { wanted: width / 120 }),
      y: { ...WORDS, domain: lines.map(({ name }) => name), tickFormat, padding: 0.25 },
      marks: [
        ...unityMarks(theme, floor, "x"),
        Plot.ruleY(ranges, { x1: ([, [low]]) => low, x2: ([, [, high]]) => high, y: ([name]) => name, stroke: theme.line }),
        Plot.dot(points, {
          x: "value",
          y: "line",
          r: 5,
          symbol: ({ at }) => placeShape(places.indexOf(at))[0],
          ...hollowIf(theme, verdictColour(theme)),
        }),
        Plot.dot(points, Plot.pointer({ x: "value", y: "line", r: 8, stroke: theme.text })),
      ],
    },
  };
}

function slopeTable(/** @type {View} */ view) {
  const { devices, lines } = slopes(view);
  const written = ({ mean, rows }) => (mean.n ? `${times(mean.value)}${view.doubtOfAll(rows)} (${mean.n})` : NONE);
  return plainTable("Geometric mean speedup across devices", lines, [
    ["Model", ({ name }) => name],
    ...devices.map((device, place) => /** @type {TableColumn<any>} */ ([device, ({ at }) => written(at[place])])),
  ]);
}

/**
 * Lines over a column: rows of one model that differ in nothing else, at least two of each; only if the selection has
 * one model, because a line through several would show how models differ.
 * @param {View} view
 */
function linesOver(view, column) {
  return view.once(`lines ${column}`, () => {
    if (view.distinct("model").length !== 1 || view.distinct(column).length < 2) return [];
    const [values, speedup] = view.rows.numbers(column, "speedup");
    const lines = new Map();
    const kinds = QUESTION.filter((kind) => !NAMED_BY.includes(kind) && view.distinct(kind).length > 1);
    for (const row of view.counted) {
      if (Number.isNaN(speedup[row])) continue;
      const name = dotted(rowLabel(view, row, { without: column }), ...kinds.map((kind) => view.at(row)[kind]));
      getOrMake(lines, name, () => ({ name, rows: [] })).rows.push(row);
    }
    const longLines = [...lines.values()].filter(({ rows }) => rows.length > 1);
    for (const { rows } of longLines) rows.sort((a, b) => values[a] - values[b]);
    return longLines;
  });
}

function lineOver(/** @type {View} */ view, /** @type {Theme} */ theme, /** @type {number} */ width, column, title) {
  const all = linesOver(view, column);
  const values = view.rows.number(column);
  const pointOf = (row) => ({ ...markOf(view, row), at: values[row] });
  const lines = all.slice(0, COMPARED_LINES).map(({ name, rows }) => ({ name, points: rows.map(pointOf) }));
  const places = [...new Set(lines.flatMap(({ points }) => points.map(({ at }) => at)))].sort((a, b) => a - b);
  const unit = column === "resolution_px" ? " px" : "";
  const said = lines.slice(0, 2).map(({ name, points }) => {
    const ends = [points[0], points.at(-1)].map(({ at, value }) => `${times(value)} at ${at}${unit}`);
    return `${name}: ${ends.join(", ")}`;
  });
  return {
    ...dotsChart(lines, { theme, width, floor: floorOf(view), title: (place) => (unit ? `${place}${unit}` : `batch ${place}`), places }),
    finding: `By ${title.replace(" (px)", "")}: ${said.join("; ")}`,
    how: "A line per setting of the chosen model; shape: its value, colour: verdict.",
    note: lines.length < all.length && `The first ${lines.length} of ${all.length} lines.`,
    tip: ({ row }) => pairTip(view, row),
  };
}

function lineTable(/** @type {View} */ view, column, title) {
  const lines = linesOver(view, column);
  const names = new Map(lines.flatMap(({ name, rows }) => rows.map((row) => [row, name])));
  return plainTable(`Speedup over ${title}`, [...names.keys()], [
    ["Line", (row) => names.get(row)],
    [title, (row) => view.rows.number(column)[row]],
    ...figured(view),
    ["Images per second", (row) => short(view.at(row).throughput_samples_per_s)],
  ]);
}
