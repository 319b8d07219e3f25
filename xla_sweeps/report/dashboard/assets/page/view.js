/**
 * View: the rows that match the filters, and their summary. One pass over typed arrays; no object per row.
 */

const IN_FACETS = 1; // device, resolution, …, model
const IN_BRUSH = 2; // the ranges set on the parallel axes
const IN_ORIGIN = 4; // measured here, published; and in the scenario
const IN_PAIRS = 8; // baseline and candidate
const IN_VERDICT = 16;
const IN_ALL = 31;

const CONFIGURATION = [
  ...["model", "source", "scenario", "resolution_px", "batch_size", "precision", "runtime"],
  ...["batches", "keras", "optimizer"],
];
const SIDES = ["device", "origin", "candidate", "baseline"];
const QUESTION = [...CONFIGURATION, ...SIDES];

/** Columns and tables that every view needs, computed once. */
class Index {
  constructor(rows) {
    this.rows = rows;
    this.facets = new Map(FACETS.map(({ column }) => [column, facetOf(rows, column)]));
    /** One number for each trial. */
    [this.trial, this.trials] = combined(rows, ["trial_id", "results"]);
    /** One number for each thing that was run, on whichever device and in whichever modes. */
    [this.configuration, this.configurations] = combined(rows, CONFIGURATION);
    /** One number for each thing that was asked, however often it was measured. */
    [this.question, this.questions] = combined(rows, SIDES, [this.configuration, this.configurations]);
    this.origins = new Set(rows.column("origin").values);
    this.#modes();
    /** Rows with a figure of only one mode, published or measured here. */
    this.alone = aloneIn(rows);
  }

  /** The candidates of each baseline in each scenario, and which rows compare a mode with its copy. */
  #modes() {
    const [scenario, baseline, candidate] = ["scenario", "baseline", "candidate"].map((name) => this.rows.column(name));
    const wide = candidate.values.length;
    const seen = scenario.values.map(() => new Uint8Array(baseline.values.length * wide));
    const twins = Uint8Array.from({ length: baseline.values.length * wide }, (_, place) => {
      const [one, other] = [baseline.values[Math.floor(place / wide)], candidate.values[place % wide]];
      return Number(one !== other && modeOf(one) === modeOf(other));
    });
    this.isTwin = new Uint8Array(this.rows.count);
    for (let row = 0; row < this.rows.count; row++) {
      const place = baseline.data[row] * wide + candidate.data[row];
      seen[scenario.data[row]][place] = 1;
      this.isTwin[row] = twins[place];
    }
    this.pairs = new Map(scenario.values.map((name) => [name, new Map()])); // baseline -> its candidates; "": alone
    scenario.values.forEach((of, known) =>
      baseline.values.forEach((name, code) => {
        const is = (place) => seen[known][place] && !twins[place];
        const found = candidate.values.filter((_, other) => is(code * wide + other));
        if (name && found.length) this.pairs.get(of).set(name, new Set(found));
      }),
    );
  }

  /** The text of a facet's value in a row. */
  facetText(column, row) {
    const { data, values } = this.facets.get(column);
    return values[data[row]];
  }

  /** What tells a row from others of the same name: "" if there are none. */
  suffix(row) {
    this.namesakes ??= new Namesakes(this.rows);
    return this.namesakes.suffix(row);
  }

  /** Default scenario, baseline, candidate and origin. */
  get defaults() {
    const only = this.origins.size < 2 ? [...this.origins][0] : "";
    const origin = only === "imported" ? only : !only && !this.origins.has("measured") ? "all" : "measured";
    const scenario = scenariosOf(this.rows)[0].name;
    return { scenario, origin, ...pairFor(this, scenario, "all") };
  }
}

function aloneIn(rows) {
  const [origin, baseline] = ["origin", "baseline"].map((name) => rows.column(name));
  const [speedup, throughput] = rows.numbers("speedup", "throughput_samples_per_s");
  const [imported, nothing] = [origin.values.indexOf("imported"), baseline.values.indexOf("")];
  const found = [];
  for (let row = 0; row < rows.count; row++)
    if ((origin.data[row] === imported || baseline.data[row] === nothing) && !present(speedup[row]) && present(throughput[row]))
      found.push(row);
  return found;
}

/** The mode behind a label: `graph_2` is `graph`. */
const modeOf = (label) => label.replace(/_\d+$/, "");

/** A column with few values: codes, values, and their natural order. */
function facetOf(rows, name) {
  const { data, values } = rows.codes(name);
  const sorted = values.map((_, code) => code).sort((a, b) => naturally(values[a], values[b]));
  const ranks = new Uint16Array(values.length);
  sorted.forEach((code, rank) => (ranks[code] = rank));
  return { data, values, sorted, ranks };
}

const TABLE_MOST = 2 ** 22;

/**
 * For each row a number from 0, the same for rows that agree in all these columns and in numbers that are known; and how
 * many there are.
 */
function combined(rows, names, [known, knownSize] = [rows.count, 1]) {
  let [keys, size] = [new Float64Array(known), knownSize];
  for (const name of names) {
    const { data, values } = rows.codes(name);
    if (values.length < 2) continue;
    if (size * values.length > TABLE_MOST) {
      const [numbers, found] = renumbered(keys, size);
      [keys, size] = [Float64Array.from(numbers), found];
    }
    for (let row = 0; row < keys.length; row++) keys[row] = keys[row] * values.length + data[row];
    size *= values.length;
  }
  return renumbered(keys, size);
}

/** Whole numbers below `size` as numbers from 0 by first appearance, and how many. */
function renumbered(keys, size) {
  const numbers = new Uint32Array(keys.length);
  let found = 0;
  if (size <= TABLE_MOST) {
    const known = new Uint32Array(size); // number + 1
    for (let row = 0; row < keys.length; row++) numbers[row] = (known[keys[row]] ||= ++found) - 1;
    return [numbers, found];
  }
  const known = new Map();
  for (let row = 0; row < keys.length; row++) {
    if (!known.has(keys[row])) known.set(keys[row], found++);
    numbers[row] = known.get(keys[row]);
  }
  return [numbers, found];
}

const NAMED_BY = ["model", "resolution_px", "batch_size", "precision", "device", "candidate", "baseline"];
/** What tells trials of one name apart, the plainest first. */
const TOLD_APART_BY = [
  ...["results", "origin", "source", "scenario", "batches", "keras", "optimizer", "runtime", "effort", "modes"],
  ...["software", "driver", "environment_flags", "host", "measured_at", "trial_id"],
];

/** Rows that share their names, and what tells each from the others. */
class Namesakes {
  #rows;
  #names;
  #starts;
  #members;
  #told = new Map();

  constructor(rows) {
    const [names, size] = combined(rows, NAMED_BY);
    [this.#rows, this.#names, this.#starts] = [rows, names, new Uint32Array(size + 1)];
    for (const name of names) this.#starts[name + 1] += 1;
    for (let name = 0; name < size; name++) this.#starts[name + 1] += this.#starts[name];
    const next = this.#starts.slice();
    this.#members = new Uint32Array(names.length);
    for (let row = 0; row < names.length; row++) this.#members[next[names[row]]++] = row;
  }

  /** As much as it takes to tell a row from those of the same name: "" if there are none. */
  suffix(row) {
    const name = this.#names[row];
    if (!this.#told.has(name)) this.#told.set(name, this.#tell(name));
    return this.#told.get(name).get(row);
  }

  #tell(name) {
    const group = Array.from(this.#members.subarray(this.#starts[name], this.#starts[name + 1]));
    const batches = (text) => text && `${text} batches a call`;
    const written = { batches, measured_at: date, trial_id: (text) => text.slice(0, 8) };
    let told = group.map(() => "");
    for (const column of group.length > 1 ? TOLD_APART_BY : []) {
      const { data, values } = this.#rows.codes(column);
      const texts = group.map((row) => (written[column] ?? String)(values[data[row]]));
      const alike = new Map();
      told.forEach((text, i) => alike.set(text, (alike.get(text) ?? new Set()).add(texts[i])));
      told = told.map((text, i) => (alike.get(text).size > 1 && texts[i] ? `${text} · ${texts[i]}` : text));
    }
    return new Map(group.map((row, i) => [row, told[i]]));
  }
}

/** For each code of a column's values 1 or 0. */
const flagsOf = (values, inside) => Uint8Array.from(values, (value) => Number(inside(value)));

const DOUBTS = ["", "*", "~", "*~"];

/** The rows that match a state. */
class View {
  constructor(index, state) {
    this.index = index;
    this.rows = index.rows;
    this.state = state;
    this.mask = new Uint8Array(this.rows.count).fill(IN_BRUSH);
    this.memory = new Map();
    const { data: status, values } = this.rows.column("status");
    const contaminated = values.indexOf("contaminated");
    this.doubts = { preliminary: this.rows.number("preliminary"), status, contaminated };
    this.#facets();
    this.#brush();
    this.#pairs();
    /** Rows of the chosen comparison. */
    this.pairs = this.#where(IN_ALL);
    /** The same without the verdict filter. */
    this.anyVerdict = this.#where(IN_ALL & ~IN_VERDICT);
    /** Rows of every baseline and candidate. */
    this.base = this.#where(IN_FACETS | IN_BRUSH | IN_ORIGIN);
    /** One row of each question: with the most replicates, then the newest. Sums count only these. */
    this.best = bestOf(this.index, this.anyVerdict);
    this.counted = this.pairs.filter((row) => this.best[row]);
    this.overview = overviewOf(this.rows, this.counted);
  }

  /** Computes something once per view. */
  once(name, compute) {
    if (!this.memory.has(name)) this.memory.set(name, compute());
    return this.memory.get(name);
  }

  #facets() {
    const tests = [];
    for (const [name, { data, values }] of this.index.facets)
      if (this.state[name].size) tests.push([data, flagsOf(values, (value) => this.state[name].has(value))]);
    const [models, variants] = this.#named();
    const [model, variant] = [this.rows.column("model").data, this.rows.column("variant").data];
    this.misses = new Uint8Array(this.mask.length); // how many of model and facets exclude a row
    if (models)
      for (let row = 0; row < this.mask.length; row++)
        if (!models[model[row]] && !variants[variant[row]]) this.misses[row] = 128;
    for (const [data, inside] of tests)
      for (let row = 0; row < this.mask.length; row++) this.misses[row] += 1 - inside[data[row]];
    for (let row = 0; row < this.mask.length; row++) if (!this.misses[row]) this.mask[row] |= IN_FACETS;
  }

  /** How many pairs each value of a facet would show, given all other filters; by code. */
  countsOf(name) {
    const { data, values } = this.index.facets.get(name);
    const chosen = flagsOf(values, (value) => !this.state[name].size || this.state[name].has(value));
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

  /** Which models and variants match the search text: one exactly, or all that contain it; nulls for any. */
  #named() {
    const sought = this.state.model.trim().toLowerCase();
    if (!sought) return [null, null];
    const lower = ["model", "variant"].map((name) =>
      this.rows.column(name).values.map((value) => value.toLowerCase()),
    );
    const exact = lower[0].includes(sought);
    return lower.map((values, place) =>
      flagsOf(values, (value) => (exact ? place === 0 && value === sought : value.includes(sought))),
    );
  }

  #brush() {
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
    const { scenario, baseline, candidate, origin, verdict } = this.state;
    const [scenarios, baselines, candidates, origins, verdicts] = ["scenario", "baseline", "candidate", "origin", "verdict"].map(
      (name) => this.rows.column(name),
    );
    const isScenario = flagsOf(scenarios.values, (value) => value === scenario);
    const isBaseline = flagsOf(baselines.values, (value) => value === baseline);
    const isCandidate = flagsOf(candidates.values, (value) => value === candidate);
    const isOrigin = flagsOf(origins.values, (value) => origin === "all" || value === origin || value === "");
    const isVerdict = flagsOf(verdicts.values, (value) => !verdict.size || verdict.has(value));
    for (let row = 0; row < this.mask.length; row++) {
      if (isBaseline[baselines.data[row]] && isCandidate[candidates.data[row]]) this.mask[row] |= IN_PAIRS;
      if (isOrigin[origins.data[row]] && isScenario[scenarios.data[row]]) this.mask[row] |= IN_ORIGIN;
      if (isVerdict[verdicts.data[row]]) this.mask[row] |= IN_VERDICT;
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
      const values = this.rows.number(name);
      return this.rows.order(name).filter((row) => this.mask[row] === IN_ALL && values[row] === values[row]);
    });
  }

  /** The distinct values of a category column among the pairs. */
  distinct(name) {
    return this.once(`distinct ${name}`, () => {
      const column = this.index.facets.get(name) ?? this.rows.column(name);
      const seen = new Uint8Array(column.values.length);
      for (const row of this.pairs) seen[column.data[row]] = 1;
      const codes = column.sorted ?? column.values.map((_, code) => code);
      return codes.filter((code) => seen[code]).map((code) => column.values[code]);
    });
  }

  /** Figures of only one mode, of whichever pair of modes is chosen. */
  get alone() {
    const here = (row) => this.rows.text("scenario", row) === this.state.scenario;
    return this.index.alone.filter((row) => this.mask[row] & IN_FACETS && here(row));
  }

  /** The marks of doubt of a row's figures, as the terminal has them: `*` preliminary, `~` contaminated. */
  doubt(row) {
    const { preliminary, status, contaminated } = this.doubts;
    return DOUBTS[Number(preliminary[row] === 1) + 2 * Number(status[row] === contaminated)];
  }

  /** The marks that all these rows share. */
  doubtOfAll(rows) {
    return ["*", "~"].filter((mark) => rows.length && rows.every((row) => this.doubt(row).includes(mark))).join("");
  }

  /** How many pairs there are of this baseline, candidate and origin, whatever the other filters. */
  get everyPair() {
    return this.once("every pair", () => {
      const seen = new Uint8Array(this.index.questions);
      let n = 0;
      for (const row of this.#where(IN_PAIRS | IN_ORIGIN)) {
        n += 1 - seen[this.index.question[row]];
        seen[this.index.question[row]] = 1;
      }
      return n;
    });
  }

  /** Images until compilation pays back; infinite if it never does, NaN if that is unknown (ambiguous). */
  breakEven(row) {
    return this.rows.number("break_even_images")[row];
  }
}

/** Which rows answer their question: 1 for one row of each, with the most replicates, then the newest. */
function bestOf({ rows, question, questions }, among) {
  const replicates = rows.number("replicates");
  const better = (a, b) =>
    replicates[a] !== replicates[b]
      ? replicates[a] > replicates[b]
      : rows.text("measured_at", a) !== rows.text("measured_at", b)
        ? rows.text("measured_at", a) > rows.text("measured_at", b)
        : rows.text("trial_id", a) > rows.text("trial_id", b);
  const found = new Int32Array(questions).fill(-1);
  for (const row of among) {
    const known = found[question[row]];
    if (known < 0 || better(row, known)) found[question[row]] = row;
  }
  const best = new Uint8Array(rows.count);
  for (const row of found) if (row >= 0) best[row] = 1;
  return best;
}

/** The summary of the pairs: the same figures as `analysis.overview`. */
function overviewOf(rows, pairs) {
  const [speedup, extra, calls] = rows.numbers("speedup", "compile_s_extra", "break_even_calls");
  const [verdict, family, model] = ["verdict", "family", "model"].map((name) => rows.column(name));
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
  const [spread_low, spread_high] = whole.models < SPREAD_MODELS ? [null, null] : tenths(speedups);
  const of = (name) => verdicts[verdict.values.indexOf(name)] ?? 0;
  return {
    pairs: pairs.length,
    ...Object.fromEntries(Object.keys(VERDICTS).map((name) => [name, of(name)])),
    compared: whole.n,
    models: whole.models,
    geomean: whole.value,
    spread_low,
    spread_high,
    median_extra_compile_s: extras.length ? median(extras) : null,
    priced: breaks.length,
    median_break_even_calls: Number.isFinite(middle) ? middle : null,
    never: breaks.filter((value) => value === Infinity).length,
    families: groups
      .map(({ any, mean, slower: n, failed: lost, rows: own }, code) => {
        if (!any) return null;
        const [low, high] = reach(own.map((row) => speedup[row]), mean.models);
        return {
          family: family.values[code],
          rows: own,
          n: mean.n,
          models: mean.models,
          failed: lost,
          geomean: mean.value,
          low,
          high,
          share_slower: mean.n ? n / mean.n : 0,
        };
      })
      .filter(Boolean)
      .sort((a, b) => naturally(a.family, b.family)),
  };
}
