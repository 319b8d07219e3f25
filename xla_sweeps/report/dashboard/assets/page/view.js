/** View: the rows that match the filters, and their summary. One pass over typed arrays; no object per row. */

import { extent, geometricMean, getOrMake, median, present } from "./numbers.js";
import { FACETS, VERDICTS } from "./state.js";
import { naturally, naturalOrder, pairFor, scenariosOf } from "./data.js";

const IN_FACETS = 1; // device, resolution, …
const IN_ORIGIN = 4; // measured here, published; and in the scenario
const IN_PAIRS = 8; // baseline and candidate
const IN_OUTCOME = 16; // verdict: no answer may follow from it
const IN_MODEL = 32; // the name
const IN_ALL = 61;
export const ANY_OUTCOME = IN_ALL & ~IN_OUTCOME;

/** What every view needs, computed once. */
export class Index {
  /** @param {Rows} rows */
  constructor(rows) {
    this.rows = rows;
    /** @type {Map<string, Codes & { sorted: number[], ranks: Uint32Array }>} */
    this.facets = new Map(FACETS.map(({ column }) => [column, { ...rows.codes(column), ...naturalOrder(rows.codes(column).values) }]));
    this.origins = new Set(rows.column("origin").values);
    /** Rows with a figure of only one mode, published or measured here. */
    const [speedup, throughput] = rows.numbers("speedup", "throughput_samples_per_s");
    const single = ({ origin, baseline }) => origin === "imported" || !baseline;
    this.alone = rows.where((row) => !present(speedup[row]) && present(throughput[row]) && single(rows.at(row)));
  }

  /** The text of a facet's value in a row. */
  facetText(column, row) {
    const { data, values } = this.facets.get(column);
    return values[data[row]];
  }

  /** Default scenario, baseline, candidate and origin. */
  get defaults() {
    const only = this.origins.size < 2 ? [...this.origins][0] : "";
    const origin = only === "imported" ? only : !only && !this.origins.has("measured") ? "all" : "measured";
    const scenario = scenariosOf(this.rows)[0].name;
    return { scenario, origin, ...pairFor(this.rows, scenario, origin) };
  }
}

/** For each code of a column's values 1 or 0. */
const flagsOf = (values, inside) => Uint8Array.from(values, (value) => Number(inside(value)));

/** The rows that match a state. */
export class View {
  #memory = new Map();
  #mask; // of each row the filters that let it through
  #contaminated;

  /** @param {Index} index @param {State} state */
  constructor(index, state) {
    this.index = index;
    this.rows = index.rows;
    this.state = state;
    this.#contaminated = this.rows.is("status", "contaminated");
    this.#mask = new Uint8Array(this.rows.count).fill(IN_ALL);
    this.#facets(this.#mask);
    this.#model(this.#mask);
    const { scenario, baseline, candidate, origin, verdict } = state;
    this.#keep(this.#mask, IN_ORIGIN, "scenario", (value) => value === scenario);
    this.#keep(this.#mask, IN_ORIGIN, "origin", (value) => origin === "all" || value === origin || value === "");
    this.#keep(this.#mask, IN_PAIRS, "baseline", (value) => value === baseline);
    this.#keep(this.#mask, IN_PAIRS, "candidate", (value) => value === candidate);
    this.#keep(this.#mask, IN_OUTCOME, "verdict", (value) => !verdict.size || verdict.has(value));
    /** Rows of the chosen comparison. */
    this.pairs = this.#where(IN_ALL);
    /** Rows of every baseline and candidate. */
    this.base = this.#where(IN_FACETS | IN_MODEL | IN_ORIGIN);
    /** One row of each question: with the most replicates, then the newest. Sums count only these. */
    const anyModel = this.#where(ANY_OUTCOME & ~IN_MODEL);
    this.best = bestOf(this.rows, anyModel);
    const isBest = (row) => this.best[row];
    /** The rows that answer, whatever their verdict and figures; of every name, which ranks need; and those shown. */
    const answering = this.#where(ANY_OUTCOME).filter(isBest);
    const isMissing = this.rows.is("verdict", "not_measured");
    const isFailed = this.rows.is("verdict", "failed");
    this.counted = answering.filter((row) => !isMissing(row));
    /** Questions of which nothing is known: outside every answer and sum. */
    this.unmeasured = answering.filter(isMissing);
    this.ranked = anyModel.filter((row) => isBest(row) && !isMissing(row) && !isFailed(row));
    this.shown = this.pairs.filter((row) => isBest(row) && !isMissing(row));
    this.overview = sumsOf(this.rows, this.counted);
    this.rows.setPrices((device) => (Number(this.priceOf(device)) > 0 ? Number(this.priceOf(device)) : NaN));
  }

  /** What an hour of a device costs, as it was typed: "2.5 NVIDIA H100" is of that device, "2.5" of the only one. @param {string} device */
  priceOf(device) {
    const prices = Array.from(this.state.price, splitPrice);
    const isOnly = this.distinct("device").length === 1;
    return prices.find((price) => price.device === device || (isOnly && !price.device))?.text ?? "";
  }

  /** Computes something once per view. @template T @param {string} name @param {() => T} compute @returns {T} */
  once(name, compute) {
    return getOrMake(this.#memory, name, compute);
  }

  /** One row, whose columns are its properties. @param {number} row */
  at(row) {
    return this.rows.at(row);
  }

  /** Clears a bit in the rows whose value of a column is not inside. */
  #keep(mask, bit, name, inside) {
    const { data, values } = this.rows.codes(name);
    const flags = flagsOf(values, inside);
    for (let row = 0; row < mask.length; row++) if (!flags[data[row]]) mask[row] &= ~bit;
  }

  /** Facets, but for one of these. */
  #facets(mask, except = "") {
    for (const name of this.index.facets.keys()) {
      const chosen = this.state[name];
      if (name !== except && chosen.size) this.#keep(mask, IN_FACETS, name, (value) => chosen.has(value));
    }
  }

  #model(mask) {
    const sought = this.state.model.trim().toLowerCase();
    if (!sought) return;
    const [model, variant] = ["model", "variant"].map((name) => this.rows.column(name));
    const isExactly = (value) => value.toLowerCase() === sought;
    const contains = (value) => value.toLowerCase().includes(sought);
    const exact = model.values.some(isExactly);
    const models = flagsOf(model.values, exact ? isExactly : contains);
    const variants = flagsOf(variant.values, (value) => !exact && contains(value));
    for (let row = 0; row < mask.length; row++)
      if (!models[model.data[row]] && !variants[variant.data[row]]) mask[row] &= ~IN_MODEL;
  }

  #where(bits) {
    return this.rows.where((row) => (this.#mask[row] & bits) === bits);
  }

  /** How many pairs each value of a facet would show, given all other filters; by code. */
  countsOf(name) {
    const { data, values } = this.index.facets.get(name);
    const { question } = this.rows.numbered;
    const mask = this.#mask.map((bits) => bits | IN_FACETS);
    this.#facets(mask, name);
    const counts = new Uint32Array(values.length);
    const seen = new Set();
    mask.forEach((bits, row) => {
      const key = question[row] * values.length + data[row];
      if (bits !== IN_ALL || seen.has(key)) return;
      seen.add(key);
      counts[data[row]] += 1;
    });
    return counts;
  }

  /** The rows of `pairs` by ascending value of a column, those without one last. */
  ordered(name, bits = IN_ALL) {
    return this.rows.order(name).filter((row) => (this.#mask[row] & bits) === bits);
  }

  /** The rows that count, by ascending speedup: those shown, or with these bits. */
  sorted(bits = IN_ALL) {
    const values = this.rows.number("speedup");
    const isCompared = (row) => this.best[row] && values[row] === values[row];
    return this.once(`sorted ${bits}`, () => this.ordered("speedup", bits).filter(isCompared));
  }

  /** Whether a row has the chosen name, rather than another. */
  isNamed(row) {
    return Boolean(this.#mask[row] & IN_MODEL);
  }

  /** The distinct texts of a column among the rows that count, those of a facet in their order. @param {TextColumn | NumberColumn} name */
  distinct(name) {
    return this.once(`distinct ${name}`, () => {
      const texts = this.rows.textsOf(name, this.counted);
      return this.index.facets.has(name) ? texts.sort(naturally) : texts;
    });
  }

  /** Figures of only one mode, of whichever pair of modes is chosen. */
  get alone() {
    const here = this.rows.is("scenario", this.state.scenario);
    const wanted = IN_FACETS | IN_MODEL;
    return this.index.alone.filter((row) => (this.#mask[row] & wanted) === wanted && here(row));
  }

  /** The mark of a row's figures, as the terminal has it: `~` contaminated. */
  doubt(row) {
    return this.#contaminated(row) ? "~" : "";
  }

  /** The mark that all these rows share. */
  doubtOfAll(rows) {
    return rows.length && rows.every(this.#contaminated) ? "~" : "";
  }

  /** One row for each question of this scenario, baseline, candidate and origin, whatever the other filters. */
  get study() {
    const { question } = this.rows.numbered;
    return this.once("study", () => [...new Map(Array.from(this.#where(IN_PAIRS | IN_ORIGIN), (row) => [question[row], row])).values()]);
  }
}

/** Price and device: "2.5 NVIDIA H100". @param {string} price */
export const splitPrice = (price) => ({ text: price.split(" ", 1)[0], device: price.split(" ").slice(1).join(" ") });

/** Which rows answer their question: 1 for the preferred row of each. @param {Rows} rows @param {Uint32Array} among */
function bestOf({ count, numbered: { question, preference } }, among) {
  const bestRows = new Map();
  for (const row of among) if (!(preference[row] < preference[bestRows.get(question[row])])) bestRows.set(question[row], row);
  const best = new Uint8Array(count);
  for (const row of bestRows.values()) best[row] = 1;
  return best;
}

/** Sums over rows: how many have each verdict, and the range of the speedups; a geometric mean only of like settings. @param {Rows} rows */
export function sumsOf(rows, places) {
  const { data, values } = rows.column("verdict");
  const [speedup, model] = [rows.number("speedup"), rows.column("model").data];
  const counts = new Uint32Array(values.length);
  const [compared, settings] = [[], new Set()];
  for (const row of places) {
    counts[data[row]] += 1;
    if (speedup[row] !== speedup[row]) continue; // none
    settings.add(rows.numbered.like[row]);
    compared.push(row);
  }
  const verdicts = Object.keys(VERDICTS).map((word) => [word, counts[values.indexOf(word)] ?? 0]);
  const [figures, models] = [speedup, model].map((column) => compared.map((row) => column[row]));
  const [low, high] = extent(figures) ?? [null, null];
  const isAlike = settings.size < 2;
  return {
    pairs: places.length,
    ...Object.fromEntries(verdicts),
    rows: compared,
    compared: compared.length,
    models: new Set(models).size,
    settings: settings.size,
    low,
    high,
    geomean: isAlike ? geometricMean(figures, models) : null,
    ...pricesOf(rows, compared, isAlike),
  };
}

/** What compiling costs, and after how many calls it pays back: medians only of like settings. @param {Rows} rows */
function pricesOf(rows, compared, isAlike) {
  const [extra, calls] = rows.numbers("compile_s_extra", "break_even_calls");
  const isAmbiguous = rows.is("verdict", "ambiguous");
  const priced = compared.filter((row) => extra[row] === extra[row]);
  const judged = priced.filter((row) => !isAmbiguous(row));
  const breaks = judged.map((row) => (calls[row] === calls[row] ? calls[row] : Infinity));
  const middle = median(breaks);
  const extras = priced.map((row) => extra[row]);
  return {
    extras: extent(extras),
    median_extra_compile_s: isAlike && priced.length ? median(extras) : null,
    priced: breaks.length,
    median_break_even_calls: isAlike && present(middle) ? middle : null,
    never: breaks.filter((value) => value === Infinity).length,
  };
}

/** How a facet's value is written; of a switch what is on or off. @param {Partial<Facet>} facet */
export const wordOf = ({ unit = "", blank = "", words = "", isSwitch = false }, value) =>
  isSwitch ? `${value === "1" ? "" : "no "}${words}` : `${value || blank}${unit}`;

/** Sums in which published figures, of which no interval is known, count by their direction. @param {View} view */
export function asPublished(view, sums, rows) {
  if (!rows.length || !rows.every(view.rows.is("origin", "imported"))) return sums;
  const speedup = view.rows.number("speedup");
  const compared = rows.filter((row) => present(speedup[row]));
  const faster = compared.filter((row) => speedup[row] > 1).length;
  return { ...sums, pairs: compared.length, faster, slower: compared.length - faster, ambiguous: 0 };
}
