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
    this.trial = combined(rows, ["trial_id", "results"]);
    this.trials = this.trial.reduce((most, key) => Math.max(most, key + 1), 0);
    this.facets = new Map(FACETS.map(({ column }) => [column, facetOf(rows, column)]));
    /** One number for each thing that was run, on whichever device and in whichever modes. */
    this.configuration = combined(rows, CONFIGURATION);
    /** One number for each thing that was asked, however often it was measured. */
    this.question = combined(rows, QUESTION);
    const [baseline, candidate] = [rows.category("baseline"), rows.category("candidate")];
    const twins = candidate.values.map((label) =>
      baseline.values.map((other) => label !== other && modeOf(label) === modeOf(other)),
    );
    this.isTwin = Uint8Array.from({ length: rows.count }, (_, row) =>
      Number(twins[candidate.data[row]][baseline.data[row]]),
    );
    this.pairs = new Map(); // baseline -> its candidates
    for (let row = 0; row < rows.count; row++) {
      const name = baseline.values[baseline.data[row]];
      if (this.isTwin[row] || !name) continue; // "": measured alone
      if (!this.pairs.has(name)) this.pairs.set(name, new Set());
      this.pairs.get(name).add(candidate.values[candidate.data[row]]);
    }
    this.origins = new Set(rows.category("origin").values);
  }

  /** What tells a row from others of the same name: "" if there are none. */
  suffix(row) {
    this.suffixes ??= suffixesOf(this.rows);
    return this.suffixes.get(row) ?? "";
  }

  /** The first baseline that has pairs of this origin, graph before eager. */
  baselineFor(origin) {
    const [origins, baselines] = ["origin", "baseline"].map((name) => this.rows.category(name));
    const known = new Set();
    for (let row = 0; row < this.rows.count; row++)
      if (origin === "all" || origins.values[origins.data[row]] === origin)
        known.add(baselines.values[baselines.data[row]]);
    return ["graph", "eager", ...known].find((name) => name && known.has(name));
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

/** A column as codes into its values, which are text. */
function codesOf(rows, name) {
  const column = rows.columns.get(name) ?? rows.blank;
  if (column.kind !== "number") return column;
  const [data] = renumbered(column.data);
  const values = [];
  data.forEach((code, row) => {
    if (code === values.length) values.push(present(column.data[row]) ? String(column.data[row]) : "");
  });
  return { data, values };
}

/** A column with few values: codes, values, and their natural order. */
function facetOf(rows, name) {
  const { data, values } = codesOf(rows, name);
  const sorted = values.map((_, code) => code).sort((a, b) => naturally(values[a], values[b]));
  return { data, values, sorted, ranks: Uint16Array.from(values, (_, code) => sorted.indexOf(code)) };
}

const CONFIGURATION = ["model", "source", "scenario", "resolution_px", "batch_size", "precision", "runtime"];
const QUESTION = [...CONFIGURATION, "device", "origin", "candidate", "baseline"];

/** For each row a number, the same for rows that agree in all these columns. */
function combined(rows, names) {
  let [keys, size] = [new Float64Array(rows.count), 1];
  for (const name of names) {
    const { data, values } = codesOf(rows, name);
    if (size * values.length > Number.MAX_SAFE_INTEGER) [keys, size] = renumbered(keys);
    for (let row = 0; row < keys.length; row++) keys[row] = keys[row] * values.length + data[row];
    size *= values.length;
  }
  return renumbered(keys)[0];
}

/** Keys as numbers from 0 by first appearance, and how many. */
function renumbered(keys) {
  const known = new Map();
  const numbers = Uint32Array.from(keys, (key) => {
    const number = known.get(key);
    if (number !== undefined) return number;
    known.set(key, known.size);
    return known.size - 1;
  });
  return [numbers, known.size];
}

const NAMED_BY = ["model", "resolution_px", "batch_size", "precision", "device", "candidate", "baseline"];
/** What tells trials of one name apart, the plainest first. */
const TOLD_APART_BY = [
  ...["results", "origin", "source", "scenario", "runtime", "effort", "modes", "software", "driver"],
  "environment_flags",
  ...["environment_id", "host", "measured_at", "trial_id"],
];

/** For each row that shares its name with others, as much as it takes to tell them apart. */
function suffixesOf(rows) {
  const groups = new Map();
  combined(rows, NAMED_BY).forEach((key, row) =>
    groups.has(key) ? groups.get(key).push(row) : groups.set(key, [row]),
  );
  const written = { measured_at: date, trial_id: (text) => text.slice(0, 8) };
  const suffixes = new Map();
  for (const group of groups.values()) {
    if (group.length < 2) continue;
    let told = group.map(() => "");
    for (const name of TOLD_APART_BY) {
      const texts = group.map((row) => (written[name] ?? String)(rows.text(name, row)));
      const alike = new Map();
      told.forEach((text, i) => alike.set(text, (alike.get(text) ?? new Set()).add(texts[i])));
      told = told.map((text, i) => (alike.get(text).size > 1 && texts[i] ? `${text} · ${texts[i]}` : text));
    }
    group.forEach((row, i) => told[i] && suffixes.set(row, told[i]));
  }
  return suffixes;
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
    /** Rows of every baseline and candidate. */
    this.base = this.#where(IN_FACETS | IN_BRUSH | IN_ORIGIN);
    /** Rows of every baseline, candidate and origin, without the ranges. */
    this.anyOrigin = this.#where(IN_FACETS);
    /** One row of each question: with the most replicates, then the newest. Sums count only these. */
    this.best = bestOf(this.index, this.anyVerdict);
    this.counted = this.pairs.filter((row) => this.best[row]);
    this.overview = overviewOf(this.rows, this.counted);
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
    this.misses = new Uint8Array(this.mask.length); // how many of model and facets exclude a row
    for (let row = 0; row < this.mask.length; row++) {
      let misses = models === null || models[model[row]] || variants[variant[row]] ? 0 : 255;
      for (let place = 0; misses < 255 && place < tests.length; place++)
        misses += 1 - tests[place][1][tests[place][0][row]];
      this.misses[row] = misses;
      this.mask[row] = misses ? 0 : IN_FACETS;
    }
  }

  /** How many pairs each value of a facet would show, given all other filters; by code. */
  countsOf(name) {
    const { data, values } = this.index.facets.get(name);
    const wanted = this.state[name];
    const chosen = Uint8Array.from(values, (value) => Number(!wanted.size || wanted.has(value)));
    const counts = new Uint32Array(values.length);
    const seen = new Set();
    const rest = IN_ALL & ~IN_FACETS;
    for (let row = 0; row < this.mask.length; row++) {
      const code = data[row];
      if ((this.mask[row] & rest) !== rest || this.misses[row] > 1 - chosen[code]) continue;
      const key = this.index.question[row] * values.length + code;
      if (seen.has(key)) continue;
      seen.add(key);
      counts[code] += 1;
    }
    return counts;
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

  /** The marks of doubt of a row's figures, as the terminal has them: `*` preliminary, `~` contaminated. */
  doubt(row) {
    const contaminated = this.rows.text("status", row) === "contaminated";
    return `${this.rows.number("preliminary")[row] === 1 ? "*" : ""}${contaminated ? "~" : ""}`;
  }

  /** The marks that all these rows share. */
  doubtOfAll(rows) {
    return ["*", "~"].filter((mark) => rows.length && rows.every((row) => this.doubt(row).includes(mark))).join("");
  }

  /** How many pairs there are of this baseline, candidate and origin, whatever the other filters. */
  get everyPair() {
    return new Set(this.#where(IN_PAIRS | IN_ORIGIN).map((row) => this.index.question[row])).size;
  }

  /** Images until compilation pays back; infinite if it never does, NaN if that is unknown (ambiguous). */
  breakEven(row) {
    return this.rows.number("break_even_images")[row];
  }
}

/** Which rows answer their question: 1 for one row of each, with the most replicates, then the newest. */
function bestOf({ rows, question }, among) {
  const replicates = rows.number("replicates");
  const text = (name, row) => rows.text(name, row);
  const better = (a, b) =>
    replicates[a] !== replicates[b]
      ? replicates[a] > replicates[b]
      : text("measured_at", a) !== text("measured_at", b)
        ? text("measured_at", a) > text("measured_at", b)
        : text("trial_id", a) > text("trial_id", b);
  const found = new Map();
  for (const row of among) {
    const known = found.get(question[row]);
    if (known === undefined || better(row, known)) found.set(question[row], row);
  }
  const best = new Uint8Array(rows.count);
  for (const row of found.values()) best[row] = 1;
  return best;
}

/** The summary of the pairs: the same figures as `overview` in the metadata. */
function overviewOf(rows, pairs) {
  const [speedup, extra, calls] = ["speedup", "compile_s_extra", "break_even_calls"].map((name) => rows.number(name));
  const [verdict, family, model] = ["verdict", "family", "model"].map((name) => rows.category(name));
  const verdicts = new Uint32Array(verdict.values.length);
  const whole = new GeometricMean();
  const groups = family.values.map(() => ({ mean: new GeometricMean(), slower: 0, failed: 0, any: false, rows: [] }));
  const [slower, failed, ambiguous] = ["slower", "failed", "ambiguous"].map((word) => verdict.values.indexOf(word));
  const [speedups, extras, breaks] = [[], [], []];
  for (const row of pairs) {
    const group = groups[family.data[row]];
    group.any = true;
    verdicts[verdict.data[row]] += 1;
    if (verdict.data[row] === failed) group.failed += 1;
    const value = speedup[row];
    if (value !== value) continue;
    speedups.push(value);
    whole.add(value, model.data[row]);
    group.rows.push(row);
    group.mean.add(value, model.data[row]);
    if (verdict.data[row] === slower) group.slower += 1;
    if (extra[row] !== extra[row]) continue;
    extras.push(extra[row]);
    if (verdict.data[row] === ambiguous) continue;
    breaks.push(calls[row] === calls[row] ? calls[row] : Infinity);
  }
  const middle = median(breaks);
  const [spread_low, spread_high] = tenths(speedups, whole.models);
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
    spread_low,
    spread_high,
    median_extra_compile_s: extras.length ? median(extras) : null,
    priced: breaks.length,
    median_break_even_calls: Number.isFinite(middle) ? middle : null,
    never: breaks.reduce((n, value) => n + (value === Infinity), 0),
    with_compile: extras.length,
    families: family.values
      .map((name, code) => ({ name, ...groups[code] }))
      .filter((group) => group.any)
      .map(({ name, mean, slower: n, failed: lost, rows: own }) => ({
        family: name,
        rows: own,
        n: mean.n,
        models: mean.models,
        failed: lost,
        geomean: mean.value,
        low: mean.interval[0],
        high: mean.interval[1],
        spread: tenths(own.map((row) => speedup[row]), mean.models),
        share_slower: mean.n ? n / mean.n : 0,
      }))
      .sort((a, b) => naturally(a.family, b.family)),
  };
}
