/**
 * View: the rows that match the filters, and their summary. One pass over typed arrays; no object per row.
 */

const IN_FACETS = 1; // device, resolution, …, model
const IN_BRUSH = 2; // the ranges dragged on the parallel axes
const IN_ORIGIN = 4; // measured here, published
const IN_PAIRS = 8; // baseline and candidate
const IN_VERDICT = 16;
const IN_ALL = 31;

/** Columns and tables that every view needs, computed once. */
class Index {
  constructor(rows) {
    this.rows = rows;
    this.facets = new Map(FACETS.map(({ column }) => [column, facetOf(rows, column)]));
    this.trial = trialKeys(rows);
    this.trials = this.trial.reduce((most, key) => Math.max(most, key + 1), 0);
    const [baseline, candidate] = [rows.category("baseline"), rows.category("candidate")];
    const twins = candidate.values.map((label) =>
      baseline.values.map((other) => label !== other && modeOf(label) === modeOf(other)),
    );
    this.isTwin = Uint8Array.from({ length: rows.count }, (_, row) =>
      Number(twins[candidate.data[row]][baseline.data[row]]),
    );
    this.pairs = new Map(); // baseline -> its candidates
    for (let row = 0; row < rows.count; row++) {
      if (this.isTwin[row]) continue;
      const name = baseline.values[baseline.data[row]];
      if (!this.pairs.has(name)) this.pairs.set(name, new Set());
      this.pairs.get(name).add(candidate.values[candidate.data[row]]);
    }
    this.origins = new Set(rows.category("origin").values);
  }

  /** Default baseline, candidate and origin. */
  get defaults() {
    const origin =
      this.origins.size < 2 || this.origins.has("measured")
        ? this.origins.has("imported") && this.origins.size < 2
          ? "imported"
          : "measured"
        : "all";
    const baselines = [...this.pairs.keys()];
    const baseline = ["graph", "eager"].find((name) => this.pairs.has(name)) ?? baselines[0] ?? "graph";
    return { baseline, candidate: this.candidateFor(baseline), origin };
  }

  candidateFor(baseline) {
    const candidates = this.pairs.get(baseline) ?? new Set();
    return candidates.has("xla") || !candidates.size ? "xla" : [...candidates][0];
  }
}

/** The mode behind a label: `graph_2` is `graph`. */
const modeOf = (label) => label.replace(/_\d+$/, "");

/** A column with few values: codes, values in natural order, and the number of rows of each. */
function facetOf(rows, name) {
  const column = rows.columns.get(name) ?? rows.blank;
  let { data, values } = column;
  if (column.kind === "number") {
    const codes = new Map();
    data = Uint16Array.from(column.data, (value) => {
      const known = codes.get(value);
      if (known !== undefined) return known;
      codes.set(value, codes.size);
      return codes.size - 1;
    });
    values = [...codes.keys()].map((value) => (present(value) ? String(value) : ""));
  }
  const counts = new Uint32Array(values.length);
  for (let row = 0; row < rows.count; row++) counts[data[row]] += 1;
  const sorted = values.map((_, code) => code).sort((a, b) => naturally(values[a], values[b]));
  return { data, values, counts, sorted, ranks: Uint16Array.from(values, (_, code) => sorted.indexOf(code)) };
}

/** One number per trial and results folder. */
function trialKeys(rows) {
  const [trial, results] = [rows.category("trial_id"), rows.category("results")];
  if (results.values.length < 2) return trial.data;
  const keys = new Map();
  return Uint32Array.from({ length: rows.count }, (_, row) => {
    const key = trial.data[row] * results.values.length + results.data[row];
    if (!keys.has(key)) keys.set(key, keys.size);
    return keys.get(key);
  });
}

/** The rows that match a state. */
class View {
  constructor(index, state) {
    this.index = index;
    this.rows = index.rows;
    this.state = state;
    this.mask = new Uint8Array(this.rows.count);
    this.#facets();
    this.#brush();
    this.#pairs();
    /** Rows of the chosen comparison. */
    this.pairs = this.#where(IN_ALL);
    /** The same without the verdict filter. */
    this.anyVerdict = this.#where(IN_ALL & ~IN_VERDICT);
    /** The same without the ranges of the parallel axes. */
    this.unbrushed = this.#where(IN_ALL & ~IN_BRUSH);
    /** Rows of every baseline and candidate. */
    this.base = this.#where(IN_FACETS | IN_BRUSH | IN_ORIGIN);
    /** Rows of every baseline, candidate and origin, without the ranges. */
    this.anyOrigin = this.#where(IN_FACETS);
    this.overview = overviewOf(this.rows, this.pairs);
    this.memory = new Map();
  }

  /** Computes something once per view. */
  once(name, compute) {
    if (!this.memory.has(name)) this.memory.set(name, compute());
    return this.memory.get(name);
  }

  #facets() {
    const tests = [];
    for (const [name, facet] of this.index.facets) {
      const wanted = this.state[name];
      if (wanted.size) tests.push([facet.data, Uint8Array.from(facet.values, (value) => Number(wanted.has(value)))]);
    }
    const [models, variants] = this.#named();
    const [model, variant] = [this.rows.category("model").data, this.rows.category("variant").data];
    for (let row = 0; row < this.mask.length; row++) {
      let inside = models === null || models[model[row]] || variants[variant[row]] ? 1 : 0;
      for (let place = 0; inside && place < tests.length; place++) inside = tests[place][1][tests[place][0][row]];
      this.mask[row] = inside;
    }
  }

  /** The models and variants that match the search text: one exactly, or all that contain it. */
  #named() {
    const sought = this.state.model.trim().toLowerCase();
    if (!sought) return [null, null];
    const lower = ["model", "variant"].map((name) =>
      this.rows.category(name).values.map((value) => value.toLowerCase()),
    );
    const exact = lower[0].includes(sought);
    return lower.map((values, place) =>
      values.map((value) => (exact ? place === 0 && value === sought : value.includes(sought))),
    );
  }

  #brush() {
    for (let row = 0; row < this.mask.length; row++) this.mask[row] |= IN_BRUSH;
    for (const [name, [low, high]] of this.state.brush) {
      const axis = parallelAxis(this.index, name);
      if (!axis) continue;
      for (let row = 0; row < this.mask.length; row++) {
        const place = axis.place(row);
        if (!(place >= low && place <= high)) this.mask[row] &= ~IN_BRUSH;
      }
    }
  }

  #pairs() {
    const { baseline, candidate, origin, verdict } = this.state;
    const codes = (name, inside) => {
      const column = this.rows.category(name);
      return [column.data, Uint8Array.from(column.values, (value) => Number(inside(value)))];
    };
    const [baselines, isBaseline] = codes("baseline", (value) => value === baseline);
    const [candidates, isCandidate] = codes("candidate", (value) => value === candidate);
    const [origins, isOrigin] = codes("origin", (value) => origin === "all" || value === origin || value === "");
    const [verdicts, isVerdict] = codes("verdict", (value) => !verdict.size || verdict.has(value));
    for (let row = 0; row < this.mask.length; row++) {
      if (isBaseline[baselines[row]] && isCandidate[candidates[row]]) this.mask[row] |= IN_PAIRS;
      if (isOrigin[origins[row]]) this.mask[row] |= IN_ORIGIN;
      if (isVerdict[verdicts[row]]) this.mask[row] |= IN_VERDICT;
    }
  }

  #where(bits) {
    const found = new Uint32Array(this.mask.length);
    let n = 0;
    for (let row = 0; row < this.mask.length; row++) if ((this.mask[row] & bits) === bits) found[n++] = row;
    return found.subarray(0, n);
  }

  /** The rows of `pairs` by ascending value of a column, without those that have none. */
  sorted(name) {
    return this.once(`sorted ${name}`, () => {
      const [order, bits] = [this.rows.order(name), IN_ALL];
      const values = this.rows.number(name);
      return order.filter((row) => (this.mask[row] & bits) === bits && values[row] === values[row]);
    });
  }

  /** The distinct values of a category column among the pairs. */
  distinct(name) {
    return this.once(`distinct ${name}`, () => {
      const column = this.index.facets.get(name) ?? this.rows.category(name);
      const seen = new Uint8Array(column.values.length);
      for (const row of this.pairs) seen[column.data[row]] = 1;
      const codes = column.sorted ?? column.values.map((_, code) => code);
      return codes.filter((code) => seen[code]).map((code) => column.values[code]);
    });
  }

  /** Images until compilation pays back; infinite if it never does, NaN if that is unknown (ambiguous). */
  breakEven(row) {
    return this.rows.number("break_even_images")[row];
  }
}

/** The summary of the pairs: the same figures as `overview` in the metadata. */
function overviewOf(rows, pairs) {
  const [speedup, extra, calls, p] = ["speedup", "compile_s_extra", "break_even_calls", "p_value"].map((name) =>
    rows.number(name),
  );
  const [verdict, family, model] = ["verdict", "family", "model"].map((name) => rows.category(name));
  const verdicts = new Uint32Array(verdict.values.length);
  const whole = new GeometricMean();
  const groups = family.values.map(() => ({ mean: new GeometricMean(), slower: 0, failed: 0, any: false }));
  const [slower, failed, ambiguous] = ["slower", "failed", "ambiguous"].map((word) => verdict.values.indexOf(word));
  const [extras, breaks, pValues] = [[], [], []];
  for (const row of pairs) {
    const group = groups[family.data[row]];
    group.any = true;
    verdicts[verdict.data[row]] += 1;
    if (verdict.data[row] === failed) group.failed += 1;
    const value = speedup[row];
    if (value !== value) continue;
    whole.add(value, model.data[row]);
    group.mean.add(value, model.data[row]);
    if (verdict.data[row] === slower) group.slower += 1;
    if (p[row] === p[row]) pValues.push(p[row]);
    if (extra[row] !== extra[row]) continue;
    extras.push(extra[row]);
    if (verdict.data[row] === ambiguous) continue;
    breaks.push(calls[row] === calls[row] ? calls[row] : Infinity);
  }
  const middle = median(breaks);
  const of = (name) => verdicts[verdict.values.indexOf(name)] ?? 0;
  return {
    pairs: pairs.length,
    faster: of("faster"),
    slower: of("slower"),
    equivalent: of("equivalent"),
    ambiguous: of("ambiguous"),
    failed: of("failed"),
    compared: whole.n,
    models: whole.models,
    geomean: whole.value,
    geomean_low: whole.interval[0],
    geomean_high: whole.interval[1],
    discoveries: discoveries(pValues),
    median_extra_compile_s: extras.length ? median(extras) : null,
    priced: breaks.length,
    median_break_even_calls: Number.isFinite(middle) ? middle : null,
    never: breaks.reduce((n, value) => n + (value === Infinity), 0),
    with_compile: extras.length,
    families: family.values
      .map((name, code) => ({ name, ...groups[code] }))
      .filter((group) => group.any)
      .map(({ name, mean, slower: n, failed: lost }) => ({
        family: name,
        n: mean.n,
        models: mean.models,
        failed: lost,
        geomean: mean.value,
        low: mean.interval[0],
        high: mean.interval[1],
        share_slower: mean.n ? n / mean.n : 0,
      }))
      .sort((a, b) => naturally(a.family, b.family)),
  };
}
