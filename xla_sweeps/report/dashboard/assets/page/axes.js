/** Axes of the parallel coordinates: a place for each row, by which the page filters too. */

import { present, seconds, short, times } from "./numbers.js";
import { FACETS } from "./state.js";

/** How a facet's value is written. */
export const wordOf = ({ unit = "", blank = "" }, value) => `${value || blank}${unit}`;

/** Facets are evenly spaced in their order, the rest is logarithmic and has a `write`. */
export const AXES = /** @type {Axis[]} */ ([
  ...["device", "precision", "source", "runtime", "resolution_px", "batch_size"].map((name) => {
    const facet = FACETS.filter(({ column }) => column === name)[0];
    return { ...facet, name, title: facet.title.toLowerCase() };
  }),
  { name: "macs", title: "GMACs", write: (value) => short(value / 1e9) },
  { name: "params", title: "parameters", write: short },
  { name: "compile_s_extra", title: "extra compile", write: seconds, outcome: true },
  { name: "peak_memory_ratio", title: "peak memory", write: times, outcome: true },
  { name: "throughput_samples_per_s", title: "img/s", write: short, outcome: true },
  { name: "speedup", title: "speedup", write: times, outcome: true },
  { name: "joules_per_sample", title: "joules a sample", write: short, outcome: true },
  { name: "cost_per_million", title: "price of a million", write: short, outcome: true },
]);

/** One axis: a row's place on it, and how a place and a range are written; undefined for a name that is none. @param {Index} index */
export function parallelAxis(index, name) {
  const isUnpriced = PACKAGE.costs.includes(name) && !present(index.rows.price);
  const spec = AXES.find((axis) => axis.name === name && !isUnpriced);
  return spec && { ...spec, ...(spec.write ? numberAxis : facetAxis)(index, spec) };
}

function facetAxis(/** @type {Index} */ index, /** @type {Axis} */ spec) {
  const { data, ranks, sorted, values } = index.facets.get(spec.name);
  const word = (place) => wordOf(spec, values[sorted[place]]);
  const between = (low, high) => {
    const inside = [...sorted.keys()].filter((place) => place >= low && place <= high);
    if (inside.length > 3) return `${word(inside[0])} to ${word(inside.at(-1))}`;
    return inside.map(word).join(", ") || "none";
  };
  return { facet: true, place: (row) => ranks[data[row]], word, between };
}

function numberAxis(/** @type {Index} */ index, /** @type {Axis} */ { name, write }) {
  const values = index.rows.number(name);
  const word = (place) => write(Number((10 ** place).toPrecision(6)));
  const between = (low, high) => `${write(10 ** low)}–${write(10 ** high)}`;
  return { facet: false, place: (row) => Math.log10(values[row]), word, between };
}
