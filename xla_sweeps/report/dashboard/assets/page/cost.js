/** "What does XLA cost?": extra compile time against images to break even, and how many configurations pay back
 * within a given number of images. */

import { count, extent, images, median, plural, present, range, seconds, share, short } from "./numbers.js";
import { byId, el, fill, folded, phrase, plainTable, typedInput } from "./dom.js";
import { devicePanels, logScale, markOf, measuredOr, pairTip, rowName, shortMode, someOf, speedupOf, subjectOf, verdictDots, verdictLegend, versus } from "./marks.js";
import { addPanel, chart, sampled, sampleNote } from "./panels.js";

const COST_POINTS = 1500;
const IMAGES_FROM = 2; // decades on the slider
const IMAGES_TO = 10;

export function costSection(/** @type {State} */ state) {
  const worth = (view) => view.overview.priced > 1;
  const scatter = chart("cost", { build: costScatter, table: costTable, follows: ["images"], worth });
  byId("cost-charts").append(el("div.chart.wide", pricePanel(state), budget(state, worth)), scatter);
}

/** The price of an hour, and what a million samples then cost; and joules of a sample where they were measured. @param {State} state */
function pricePanel(state) {
  const props = { type: "number", id: "price", min: 0, step: "any", placeholder: "price" };
  const { input, update } = typedInput(state, "price", props);
  const label = el("label", { for: "price" }, "Price per hour ", input);
  const said = el("p.note", { id: "price-lines", role: "status" });
  const table = el("div", { id: "price-table" });
  const twin = folded("Show as table", table);
  const box = el("div.budget", label, said, twin);
  const draw = (view) => {
    update();
    said.textContent = phrase(priceLines(view));
    twin.hidden = !view.distinct("energy").some(Boolean) && !present(view.rows.price);
    fill(table, priceTable(view));
  };
  addPanel(box, draw, { worth: (view) => view.counted.length > 0 });
  return box;
}

/** The prices and the joules that there are, and why others are missing, a sentence each. @param {View} view */
function priceLines(view) {
  const mode = shortMode(view.state.candidate);
  const [prices, joules] = view.rows.numbers("cost_per_million", "joules_per_sample").map((data) => Array.from(view.counted, (row) => data[row]).filter(present));
  const said = (values, unit) => (values.length > 1 ? `${extent(values).map(short).join(" to ")}${unit}, median ` : "") + short(median(values)) + unit;
  const isReason = (text) => text.startsWith(PACKAGE.not_available);
  const [missing, energy] = [view.counted.length - joules.length, view.distinct("energy").filter(Boolean)];
  const reason = someOf(energy.filter(isReason).map((text) => text.slice(PACKAGE.not_available.length)), 2, "; ");
  return [
    view.state.price !== "" && !present(view.rows.price) && "A price is a number above 0, such as 2.5.",
    prices.length && `A million samples with ${mode}: ${said(prices, "")}.`,
    prices.length && view.distinct("device").length > 1 && "A price holds for one machine: choose its device above.",
    joules.length && `A sample with ${mode}: ${said(joules, " J")}, counted by ${someOf(energy.filter((text) => !isReason(text)), 3)}.`,
    missing && `Joules of a sample: not available${joules.length || reason ? ` for ${plural(missing, "configuration")}` : ""}${reason && ` (${reason})`}.`,
  ];
}

/** The configurations by price, the cheapest first. @param {View} view */
function priceTable(view) {
  const rates = view.rows.number("throughput_samples_per_s");
  const sorted = Array.from(view.counted).filter((row) => rates[row] > 0).sort((a, b) => rates[b] - rates[a]);
  const bounded = (name) => (row) => {
    const [value, low, high] = [name, `${name}_low`, `${name}_high`].map((column) => view.at(row)[column]);
    return `${measuredOr(value)}${present(low) ? ` (${range(low, high, short)})` : ""}`;
  };
  return plainTable("The cheapest first", sorted, [
    ["Configuration", (row) => rowName(view, row)],
    ["Price of a million samples (95 %)", bounded("cost_per_million")],
    ["Joules of a sample (95 %)", bounded("joules_per_sample")],
    [`Joules with ${shortMode(view.state.baseline)}`, (row) => measuredOr(view.at(row).baseline_joules_per_sample)],
    ["Idle power (W)", (row) => measuredOr(view.at(row).idle_watts)],
  ], { most: 50 });
}

/** The slider: "I will run N images". @param {State} state */
function budget(state, worth) {
  const input = () => state.set({ images: slider.value }, { replace: true });
  const slider = el("input", { type: "range", id: "images", min: IMAGES_FROM, max: IMAGES_TO, step: "0.1", on: { input } });
  const said = el("output", { for: "images" });
  const outcome = el("p.outcome", { role: "status" });
  const label = el("label", { for: "images" }, "I will run ", said);
  const box = el("div.budget", label, slider, outcome);
  const draw = (view) => {
    const wanted = imagesWanted(view.state);
    slider.value = String(Math.log10(wanted));
    said.textContent = images(wanted);
    slider.setAttribute("aria-valuetext", images(wanted));
    const configurations = costPairs(view);
    const paid = configurations.filter((pair) => pair.images <= wanted).length;
    const paidText = `${count(paid)} of ${plural(configurations.length, "configuration")} (${share(paid, configurations.length)})`;
    outcome.textContent = `Compilation with ${shortMode(view.state.candidate)} pays back within ${images(wanted)} for ${paidText}.`;
  };
  addPanel(box, draw, { follows: ["images"], worth });
  return box;
}

/** The slider's number of images, rounded. @param {State} state */
function imagesWanted(state) {
  const place = Number(state.images) || 6;
  return Number((10 ** Math.max(IMAGES_FROM, Math.min(IMAGES_TO, place))).toPrecision(2));
}

/** The configurations whose break-even is known, which may be never. @param {View} view */
function costPairs(view) {
  return view.once("cost", () => {
    const [extra, needed] = view.rows.numbers("compile_s_extra", "break_even_images");
    const rowsWithBreakEven = view.counted.filter((row) => needed[row] === needed[row]);
    return Array.from(rowsWithBreakEven, (row) => ({ row, extra: extra[row], images: needed[row] }));
  });
}

function costScatter(/** @type {View} */ view, /** @type {Theme} */ theme, /** @type {number} */ width) {
  const pairs = costPairs(view);
  const panels = devicePanels(view.distinct("device"), width);
  const wanted = imagesWanted(view.state);
  const payingBack = pairs.filter((pair) => pair.images < Infinity);
  const shown = payingBack.map((pair) => pair.images).filter((n) => n >= 1);
  const y = logScale("images to break even", [...shown, wanted], { wanted: 7 });
  const [bottom, top] = y.domain;
  const [rail, edge] = [(top / bottom) ** 0.06, (top / bottom) ** 0.1].map((factor) => top * factor);
  const extras = pairs.map(({ extra }) => extra).filter((extra) => extra > 0);
  const x = logScale("extra compile time", extras, { write: seconds, wanted: 5 });
  const drawn = sampled(pairs, COST_POINTS).map(({ row, extra, images: n }) => ({
    ...markOf(view, row),
    x: Math.max(extra, x.domain[0]),
    y: n === Infinity ? rail : Math.max(n, bottom),
  }));
  const never = pairs.length - payingBack.length;
  const middle = median(pairs.map((pair) => pair.images));
  const half = present(middle) ? `; half of all within ${images(middle)}` : "";
  const place = { ...panels.facet, x: "x", y: "y" };
  const said = { y: [wanted], frameAnchor: "left", textAnchor: "start", dx: 6, dy: -7, fill: theme.quiet };
  const tickFormat = (tick) => (tick === rail ? "never" : short(tick));
  return {
    finding: `Compiling pays back in ${count(payingBack.length)} of ${plural(pairs.length, "configuration")}${half}`,
    subject: subjectOf(view, `Extra compile time of ${versus(view)}`),
    how: "Each point is a configuration. Those at the top never pay back; those at the bottom edge pay back at once. The dashed line is your number of images.",
    note: [
      `${plural(never, "configuration")} never pay${never === 1 ? "s" : ""} back.`,
      sampleNote(drawn.length, pairs.length),
      panels.note,
    ],
    legend: verdictLegend(theme, drawn),
    plot: {
      ...panels.plot,
      x,
      y: { ...y, domain: [bottom, edge], ticks: [...y.ticks, rail], tickFormat },
      marks: [
        Plot.frame({ stroke: theme.line }),
        Plot.rect([0], { y1: top, y2: edge, fill: theme.band }),
        Plot.ruleY([wanted], { stroke: theme.quiet, strokeDasharray: "5 4" }),
        Plot.text([images(wanted)], said),
        Plot.dot(drawn, { ...place, r: drawn.length > 700 ? 2.5 : 4, ...verdictDots(theme) }),
        panels.heads,
        Plot.dot(drawn, Plot.pointer({ ...place, r: 7, stroke: theme.text })),
      ],
    },
    tip: ({ row }) => pairTip(view, row),
  };
}

function costTable(/** @type {View} */ view) {
  const sorted = costPairs(view).toSorted((a, b) => a.images - b.images || a.extra - b.extra);
  return plainTable("Extra compile time and break-even", sorted, [
    ["Configuration", ({ row }) => rowName(view, row)],
    ["Extra compile time", ({ extra }) => seconds(extra)],
    ["Images to break even", (pair) => images(pair.images)],
    ["Speedup", ({ row }) => speedupOf(view, row)],
  ]);
}
