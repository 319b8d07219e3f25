/** "Is it just FLOPs?": throughput of the candidate over multiply-accumulates on logarithmic axes, at one resolution
 * and batch size, with the trend of all models on each device. */

import { allOf, extent, percent, plural, present, range, rate, short } from "./numbers.js";
import { byId, dotted, el, fill, phrase, plainTable } from "./dom.js";
import { chartText, daysOf, devicePanels, doubtLegend, hollowIf, logScale, rowName, shortDevice, shortMode, someOf } from "./marks.js";
import { addPanel, chart, sampled, sampleNote } from "./panels.js";
import { placeOf, placePicker } from "./fastest.js";

const FLOPS_POINTS = 700;
const FLOPS_NAMED = 12;

export function flopsSection() {
  const picker = el("span");
  const question = el("p.note", "Few operations in many kernels: how far below the trend are the MobileNets? Search for them above.");
  const look = { worth: (view) => flopsOf(view).devices.length > 0, follows: ["place"] };
  byId("flops-charts").append(picker, question, chart("flops", { build: flopsScatter, table: flopsTable, ...look }));
  addPanel(question, (view) => fill(picker, placePicker(view, "flops-place")), look);
}

/** Models of every name at the chosen place whose operations are known, by device: three numbers of them at least. @param {View} view */
function flopsOf(view) {
  const place = placeOf(view);
  return view.once(`flops ${place.key}`, () => {
    const rows = place.rows
      .map((row) => {
        const { device, model: name, throughput_samples_per_s: throughput, macs, params } = view.at(row);
        return { row, device, name, throughput, flops: (2 * macs) / 1e9, params: params || 0, doubt: view.doubt(row) };
      })
      .filter(({ throughput }) => throughput > 0);
    const points = rows.filter(({ flops }) => flops > 0);
    const on = (name) => points.filter(({ device }) => device === name);
    const devices = view.distinct("device").map((name) => ({ name, points: on(name), trend: trendOf(on(name)) }));
    const differ = ({ points: own }) => new Set(own.map(({ flops }) => flops)).size > 2;
    return { place, unknown: rows.length - points.length, devices: devices.filter(differ) };
  });
}

/** Throughput as a power of operations, by least squares of the logarithms; null for fewer than five models. */
function trendOf(points) {
  const own = points.map(({ flops, throughput }) => ({ x: Math.log(flops), y: Math.log(throughput) }));
  const mean = (of) => own.reduce((sum, point) => sum + of(point), 0) / own.length;
  const [x0, y0] = [mean(({ x }) => x), mean(({ y }) => y)];
  const width = mean(({ x }) => (x - x0) ** 2);
  if (new Set(points.map(({ name }) => name)).size < 5 || !width) return null;
  const slope = mean(({ x, y }) => (x - x0) * (y - y0)) / width;
  const expected = (flops) => Math.exp(y0 + slope * (Math.log(flops) - x0));
  return {
    expected,
    residual: points.reduce((sum, { flops, throughput }) => sum + Math.log(throughput / expected(flops)) ** 2, 0),
    total: own.reduce((sum, { y }) => sum + (y - y0) ** 2, 0),
  };
}

/** Of the points those of a device to name: of the chosen name, or the furthest from the trend. @param {View} view */
function namedOf(view, { points, trend }) {
  const off = ({ flops, throughput }) => throughput / trend.expected(flops);
  const some = (test) => points.filter(test).map((point) => ({ ...point, part: trend && off(point) }));
  if (view.state.model) return some(({ row }) => view.isNamed(row));
  const all = trend ? some(() => true).sort((a, b) => a.part - b.part) : [];
  return all.length ? [all[0], all.at(-1)] : [];
}

function flopsScatter(/** @type {View} */ view, /** @type {Theme} */ theme, /** @type {number} */ width) {
  const { place, unknown, devices } = flopsOf(view);
  const panels = devicePanels(devices.map(({ name }) => name), width);
  const own = devices.slice(0, panels.shown.length);
  const all = own.flatMap(({ points }) => points);
  const most = Math.max(1, ...all.map(({ params }) => params));
  const size = ({ params }) => 2.5 + 5 * Math.sqrt(params / most);
  const points = own.flatMap((each) => sampled(each.points, FLOPS_POINTS));
  const named = own.flatMap((each) => namedOf(view, each).slice(0, FLOPS_NAMED));
  const ends = own.flatMap(({ name, points: each, trend }) =>
    trend ? extent(each.map(({ flops }) => flops)).map((x) => ({ device: name, x, y: trend.expected(x) })) : [],
  );
  const channels = { ...panels.facet, x: "flops", y: "throughput" };
  const dots = { ...channels, r: size, fillOpacity: all.length > 400 ? 0.35 : 0.6, strokeWidth: 0.8 };
  const label = { ...channels, text: ({ name }) => chartText(name), dy: -10, stroke: theme.panel, fill: theme.text };
  const where = someOf(own.map(({ name }) => shortDevice(view, name)), 3);
  const drawn = `${plural(all.length, "configuration")} of ${plural(new Set(all.map(({ name }) => name)).size, "model")}`;
  return {
    finding: flopsFinding(view, own),
    subject: dotted(`Throughput of ${shortMode(view.state.candidate)} at ${place.text}`, where, drawn, daysOf(all.map(({ row }) => view.at(row).measured_at))),
    how: "Size: parameters; one multiply-accumulate counts as two FLOPs. If only FLOPs mattered, all points would lie on one falling line. Dashed: the trend of all models; dark: those that are named.",
    note: [
      unknown && `${plural(unknown, "model")} without a count of operations left out.`,
      sampleNote(points.length, all.length),
      panels.note,
    ],
    legend: doubtLegend(points),
    plot: {
      ...panels.plot,
      r: { type: "identity" },
      x: logScale("GFLOPs per image", all.map(({ flops }) => flops), { wanted: 5 }),
      y: logScale("images per second", all.map(({ throughput }) => throughput)),
      marks: [
        Plot.frame({ stroke: theme.line }),
        Plot.dot(points, { ...dots, ...hollowIf(theme, () => theme.quiet) }),
        Plot.dot(named, { ...dots, ...hollowIf(theme, () => theme.text) }),
        Plot.line(ends, { ...panels.facet, x: "x", y: "y", z: "device", stroke: theme.text, strokeDasharray: "5 4" }),
        Plot.text(named, label),
        panels.heads,
        Plot.dot(points, Plot.pointer({ ...channels, r: 9, stroke: theme.text })),
      ],
    },
    tip: (point) => flopsTip(view, point),
  };
}

/** How much of the throughput the trends explain, and how far from them what is named lies. @param {View} view */
function flopsFinding(view, devices) {
  const trends = devices.filter(({ trend }) => trend);
  const rates = extent(devices.flatMap(({ points }) => points.map(({ throughput }) => throughput)));
  if (!trends.length) return `Throughput from ${rates.map(rate).join(" to ")}`;
  const explained = ({ trend }) => percent(trend.total ? 100 * (1 - trend.residual / trend.total) : 0);
  const named = trends.flatMap((each) => namedOf(view, each)).sort((a, b) => a.part - b.part);
  const shown = view.state.model ? someOf(named.map(partOf), 4) : named.length && `${partOf(named[0])}, the lowest`;
  const each = trends.map((own) => `${explained(own)} %${trends.length > 1 ? ` on ${shortDevice(view, own.name)}` : ""}`);
  const said = `Operations explain ${allOf(each)} of the throughput (R² of the logarithms)`;
  return phrase([said, shown && `of the trend: ${shown}`], "; ");
}

/** "mobilenet_v2 24 %": how much of the trend's throughput a model has. */
const partOf = ({ name, part }) => `${name} ${percent(100 * part)} %`;

/** Operations of one image, 1e9; "≥" where how often a loop runs is not known. @param {View} view */
const operations = (view, { row, flops }) => `${view.at(row).macs_at_least ? "≥ " : ""}${short(flops)}`;

function flopsTip(/** @type {View} */ view, point) {
  const { throughput_low: low, throughput_high: high } = view.at(point.row);
  return [
    rowName(view, point.row),
    `${rate(point.throughput)}${point.doubt}${present(low) ? ` (95 % ${range(low, high, short)})` : ""}`,
    `${operations(view, point)} GFLOPs per image, ${short(point.params / 1e6)} M parameters`,
  ];
}

const flopsTable = (/** @type {View} */ view) =>
  plainTable("Throughput and operations", flopsOf(view).devices.flatMap(({ points }) => points), [
    ["Trial", ({ row }) => rowName(view, row)],
    ["Images per second", ({ throughput }) => short(throughput)],
    ["GFLOPs per image", (point) => operations(view, point)],
    ["M parameters", ({ params }) => short(params / 1e6)],
  ]);
