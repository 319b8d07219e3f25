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

/** Between which values 8 of 10 lie: the 10th and the 90th percentile, interpolated; nulls for too few models. */
function tenths(values, models) {
  if (models < SPREAD_MODELS) return [null, null];
  const sorted = Float64Array.from(values).sort();
  return [0.1, 0.9].map((part) => {
    const place = part * (sorted.length - 1);
    const below = Math.floor(place);
    return sorted[below] + (place - below) * (sorted[Math.min(below + 1, sorted.length - 1)] - sorted[below]);
  });
}

/** A geometric mean and its 95 % interval. Its unit is the model: each counts once, with its own geometric mean. */
class GeometricMean {
  n = 0;
  #units = new Map();
  #logs = null;

  add(value, model) {
    const log = Math.log(value);
    this.n += 1;
    this.#logs = null;
    const unit = this.#units.get(model);
    if (!unit) this.#units.set(model, { n: 1, sum: log });
    else {
      unit.n += 1;
      unit.sum += log;
    }
  }

  get models() {
    return this.#units.size;
  }

  get value() {
    return this.n ? Math.exp(this.#over().mean) : null;
  }

  /** The t interval over models; nulls for fewer than three. */
  get interval() {
    if (this.models < 3) return [null, null];
    const { mean, squares } = this.#over();
    const half = tQuantile(this.models - 1) * Math.sqrt(squares / (this.models - 1) / this.models);
    return [Math.exp(mean - half), Math.exp(mean + half)];
  }

  /** Mean and sum of squares of the models' logs. */
  #over() {
    if (!this.#logs) {
      const logs = [...this.#units.values()].map(({ n, sum }) => sum / n);
      const mean = logs.reduce((total, log) => total + log, 0) / logs.length;
      this.#logs = { mean, squares: logs.reduce((total, log) => total + (log - mean) ** 2, 0) };
    }
    return this.#logs;
  }
}

/** "12 configurations of 4 models". */
const countedOf = ({ n, models }) => `${plural(n, "configuration")} of ${plural(models, "model")}`;

const T_QUANTILES = new Map();

/** The 97.5 % quantile of Student's t: bisected for few degrees of freedom, by expansion for many. */
function tQuantile(freedom) {
  if (!T_QUANTILES.has(freedom)) T_QUANTILES.set(freedom, freedom > 200 ? tExpanded(freedom) : tBisected(freedom));
  return T_QUANTILES.get(freedom);
}

function tExpanded(freedom) {
  const z = 1.959963984540054;
  const terms = [
    (z ** 3 + z) / 4,
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384,
  ];
  return terms.reduce((sum, term, power) => sum + term / freedom ** (power + 1), z);
}

function tBisected(freedom) {
  let [low, high] = [1.9, 13];
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (incompleteBeta(freedom / (freedom + middle * middle), freedom / 2, 0.5) > 0.05) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

function logGamma(x) {
  const terms = [
    76.18009172947146, -86.50532032941677, 24.01409824083091, -1.231739572450155, 0.1208650973866179e-2,
    -0.5395239384953e-5,
  ];
  const shifted = x + 5.5 - (x + 0.5) * Math.log(x + 5.5);
  const series = terms.reduce((sum, term, place) => sum + term / (x + place + 1), 1.000000000190015);
  return -shifted + Math.log((2.5066282746310005 * series) / x);
}

/** The regularized incomplete beta function, by its continued fraction. */
function incompleteBeta(x, a, b) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(1 - x));
  return x < (a + 1) / (a + b + 2) ? (front * betaFraction(x, a, b)) / a : 1 - (front * betaFraction(1 - x, b, a)) / b;
}

function betaFraction(x, a, b) {
  const tiny = 1e-300;
  const guarded = (value) => (Math.abs(value) < tiny ? tiny : value);
  let c = 1;
  let d = 1 / guarded(1 - ((a + b) * x) / (a + 1));
  let result = d;
  for (let m = 1; m <= 300; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guarded(1 + even * d);
    c = guarded(1 + even / c);
    result *= d * c;
    d = 1 / guarded(1 + odd * d);
    c = guarded(1 + odd / c);
    result *= d * c;
    if (Math.abs(d * c - 1) < 1e-14) break;
  }
  return result;
}
