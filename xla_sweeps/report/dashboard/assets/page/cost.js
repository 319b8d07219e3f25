/** "What does XLA cost?": the price of a million samples, and extra compile time against images to break even. */

import { count, extent, images, plural, present, seconds, short, trimmed } from "./numbers.js";
import { byId, el, linkButton, phrase, plainTable, typedInput } from "./dom.js";
import { devicePanels, logScale, markOf, pairTip, rowName, shortDevice, shortMode, someOf, speedupOf, subjectOf, verdictDots, verdictLegend, versus } from "./marks.js";
import { addPanel, chart, sampled, sampleNote } from "./panels.js";
import { naturally } from "./data.js";
import { splitPrice } from "./view.js";

const COST_POINTS = 1500;

export function costSection(/** @type {Index} */ index, /** @type {State} */ state) {
  const worth = (view) => view.overview.priced > 1;
  const scatter = chart("cost", { build: costScatter, table: costTable, worth });
  byId("cost-charts").append(el("div.chart.wide", pricePanel(index, state)), scatter);
}

/** The price of an hour of each device, and what a million samples then cost; and joules of a sample where they were measured. @param {Index} index @param {State} state */
function pricePanel(index, state) {
  const devices = index.rows.column("device").values.toSorted(naturally);
  const prices = devices.map((device, place) => priceControl(state, device, place ? `price-${place}` : "price", devices.length === 1));
  const said = el("p.note", { id: "price-lines", role: "status" });
  const more = linkButton("Each configuration’s price and energy are in the table below", () => state.set({ columns: "cost", sort: "cost_per_million", at: "everything" }));
  const box = el("div.budget", prices.map(({ element }) => element), said, more);
  const draw = (view) => {
    for (const { update } of prices) update(view);
    said.textContent = phrase(priceLines(view));
    more.hidden = !view.distinct("energy").some(Boolean) && !view.rows.isPriced;
  };
  addPanel(box, draw, { worth: (view) => view.counted.length > 0 });
  return box;
}

/** The price of an hour of a device; the address names the device unless the file has no other. @param {State} state */
function priceControl(state, device, id, isOnly) {
  let shown = null;
  const props = { type: "number", id, min: 0, step: "any", placeholder: "price" };
  const change = (text) => {
    const others = [...state.price].filter((price) => ![device, ""].includes(splitPrice(price).device));
    return new Set(text ? [...others, phrase([text, !isOnly && device])] : others);
  };
  const { input, update } = typedInput(state, "price", props, () => shown.priceOf(device), change);
  const title = el("span");
  const element = el("label", { for: id }, title, input);
  return {
    element,
    update: (/** @type {View} */ view) => {
      shown = view;
      update();
      const several = view.distinct("device");
      element.hidden = !several.includes(device);
      title.textContent = several.length > 1 ? `Price per hour of ${shortDevice(view, device)} ` : "Price per hour ";
    },
  };
}

/** The prices and the joules that there are, and why others are missing, a sentence each. @param {View} view */
function priceLines(view) {
  const mode = shortMode(view.state.candidate);
  const devices = view.distinct("device");
  const isFailed = view.rows.is("verdict", "failed");
  const working = Array.from(view.counted).filter((row) => !isFailed(row));
  const figuresOf = (/** @type {NumberColumn} */ name, device) =>
    working.filter(view.rows.is("device", device)).map((row) => view.at(row)[name]).filter(present);
  const said = (values, unit) => [...new Set(extent(values).map(short))].join(" to ") + unit;
  if (devices.some((device) => view.priceOf(device) && !(Number(view.priceOf(device)) > 0))) return ["A price is a number above 0, such as 2.5."];
  const lines = devices.map((device) => {
    const prices = figuresOf("cost_per_million", device);
    const on = devices.length > 1 ? ` on ${shortDevice(view, device)}` : "";
    return prices.length && `A million samples with ${mode}${on}: ${said(prices, "")}.`;
  });
  const isBare = [...view.state.price].some((price) => !splitPrice(price).device);
  if (devices.length > 1) return [...lines, isBare && "A price holds for one device: give it beside its name."];
  const isReason = (text) => text.startsWith(PACKAGE.not_available);
  const joules = figuresOf("joules_per_sample", devices[0]);
  const [missing, energy] = [working.length - joules.length, view.distinct("energy").filter(Boolean)];
  const reason = someOf(energy.filter(isReason).map((text) => text.slice(PACKAGE.not_available.length)), 2, "; ");
  return [
    ...lines,
    joules.length && `A sample with ${mode}: ${said(joules, " J")}, counted by ${someOf(energy.filter((text) => !isReason(text)), 3)}.`,
    missing && `Joules of a sample: not available${joules.length || reason ? ` for ${plural(missing, "configuration")}` : ""}${reason && ` (${reason})`}.`,
  ];
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
  const payingBack = pairs.filter((pair) => pair.images < Infinity);
  const shown = payingBack.map((pair) => pair.images).filter((n) => n >= 1);
  const y = logScale("images to break even", shown, { wanted: 7 });
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
  const place = { ...panels.facet, x: "x", y: "y" };
  const tickFormat = (tick) => (tick === rail ? "never" : trimmed(short(tick)));
  return {
    finding: `Compiling pays back in ${count(payingBack.length)} of ${plural(pairs.length, "configuration")}`,
    subject: subjectOf(view, `Extra compile time of ${versus(view)}`, pairs.map(({ row }) => row)),
    how: "Each point is a configuration. Those at the top never pay back; those at the bottom edge pay back at once.",
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
