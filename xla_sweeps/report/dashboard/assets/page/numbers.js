/**
 * Numbers: how figures are written, and the few aggregates that the page computes. Intervals of single comparisons,
 * p-values and verdicts come with the rows.
 */

const NONE = "–";
const COUNT = new Intl.NumberFormat("en");
const LIST = new Intl.ListFormat("en-GB");
const present = (value) => value !== null && value !== undefined && Number.isFinite(value);

/** A whole number with separators. */
const count = (value) => (present(value) ? COUNT.format(value) : NONE);

/** "1 pair", "2,000 pairs". */
const plural = (value, noun, many = `${noun}s`) => `${count(value)} ${value === 1 ? noun : many}`;

/** "a, b and c". */
const allOf = (words) => LIST.format(words);

/** Three significant digits with k, M, G for large numbers. */
function short(value) {
  if (!present(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 1e15) return value.toExponential(1);
  for (const [scale, mark] of [
    [1e12, " T"],
    [1e9, " G"],
    [1e6, " M"],
    [1e3, " k"],
  ]) {
    if (size >= scale * 0.9995) return `${digits(value / scale, 3)}${mark}`;
  }
  return digits(value, 3);
}

/** A number with some significant digits, without an exponent or trailing zeros after the point. */
function digits(value, significant) {
  if (!present(value)) return NONE;
  if (value === 0) return "0";
  const places = Math.max(0, Math.min(8, significant - 1 - Math.floor(Math.log10(Math.abs(value) * (1 + 1e-9)))));
  const text = value.toFixed(places);
  return places ? text.replace(/\.?0+$/, "") : text;
}

/** A speedup: 1.32×; more places near 1, where they matter. */
function times(value) {
  if (!present(value)) return NONE;
  if (value >= 99.95) return `${value.toFixed(0)}×`;
  if (value >= 9.995) return `${value.toFixed(1)}×`;
  return `${value.toFixed(Math.abs(value - 1) < 0.0495 && Math.abs(value - 1) >= 0.0005 ? 3 : 2)}×`;
}

/** "1.30–1.34", with the same number of places on both sides. */
function range(low, high, write = null) {
  if (!write) {
    const places = Math.max(Math.abs(low - 1), Math.abs(high - 1)) < 0.0995 ? 3 : high >= 9.995 ? 1 : 2;
    write = (value) => value.toFixed(places);
  }
  return present(low) && present(high) ? `${write(low)}–${write(high)}` : NONE;
}

/** Seconds as 0.4 s, 19 s, 3 min, 2.1 h. */
function seconds(value) {
  if (!present(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 5400) return `${digits(value / 3600, 2)} h`;
  if (size >= 180) return `${digits(value / 60, 2)} min`;
  return size >= 0.1 ? `${digits(value, 2)} s` : `${digits(value * 1000, 2)} ms`;
}

const images = (value) => (present(value) ? (value < 1 ? "no images" : `${short(value)} images`) : "never");
const rate = (value) => (present(value) ? `${short(value)} img/s` : NONE);
const share = (part, whole) => (whole ? `${percent((100 * part) / whole)} %` : NONE);
const percent = (value) => digits(value, 2);
const signed = (value, write = short) =>
  present(value) ? `${value > 0 ? "+" : value < 0 ? "−" : "±"}${write(Math.abs(value))}` : NONE;
const date = (text) => (text ? text.slice(0, 16).replace("T", " ") : NONE);

/** The median; infinite values count, NaN must be left out by the caller. */
function median(values) {
  if (!values.length) return NaN;
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const SPREAD_MODELS = 8; // fewer say nothing of where most lie

/** Between which values 8 of 10 lie: the 10th and the 90th percentile, interpolated. */
function tenths(values) {
  const sorted = Float64Array.from(values).sort();
  return [0.1, 0.9].map((part) => {
    const place = part * (sorted.length - 1);
    const below = Math.floor(place);
    const above = Math.min(below + 1, sorted.length - 1);
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
  });
}

/** Where 8 of 10 values of so many models lie, of few models the lowest and the highest. */
const reach = (values, models) =>
  models < SPREAD_MODELS ? (extent(values) ?? [null, null]) : tenths(values);

/** A geometric mean. Its unit is the model: each counts once, with its own geometric mean. */
class GeometricMean {
  n = 0;
  #units = new Map();

  add(value, model) {
    let unit = this.#units.get(model);
    if (!unit) this.#units.set(model, (unit = { n: 0, sum: 0 }));
    unit.n += 1;
    unit.sum += Math.log(value);
    this.n += 1;
  }

  get models() {
    return this.#units.size;
  }

  get value() {
    if (!this.n) return null;
    let total = 0;
    for (const { n, sum } of this.#units.values()) total += sum / n;
    return Math.exp(total / this.models);
  }
}

/** "12 configurations of 4 models". */
const countedOf = ({ n, models }) => `${plural(n, "configuration")} of ${plural(models, "model")}`;

