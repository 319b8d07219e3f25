/** State: the reader's choices, kept in the URL's fragment, so that a link shows the same page and back and forward
 * work. */

export const VERDICTS = /** @type {Record<string, { symbol: string, word: string }>} */ ({
  __proto__: null, // names come from the URL too
  ...Object.fromEntries(
    ["faster", "equivalent", "ambiguous", "slower", "failed", "not_measured"].map((verdict) => [
      verdict,
      { symbol: PACKAGE.symbols[verdict], word: verdict.replace("_", " ") },
    ]),
  ),
});

/** Facets that can have several values at once: those at the front with the word before them and the word for any
 * value, the other columns of the question, and the rest. */
export const FACETS = /** @type {Facet[]} */ ([
  { column: "device", before: "on", any: "any device" },
  { column: "resolution_px", unit: " px", before: "at", any: "any" },
  { column: "batch_size", before: "batch", any: "any" },
  ...PACKAGE.question,
  { column: "effort", title: "Effort" },
  { column: "modes", title: "Modes" },
  { column: "software", title: "Software" },
  { column: "family", title: "Family" },
  { column: "results", title: "Results" },
]
  .map((/** @type {any} */ facet) => ({ ...PACKAGE.question.find(({ column }) => column === facet.column), ...facet }))
  .filter(({ column, title }, at, all) => title && all.findIndex((facet) => facet.column === column) === at));

/** Filters of several values. */
const MULTIPLE = [...FACETS.map(({ column }) => column), "verdict", "price"];

/** Filters of one value; the data say which they have at first. */
const SINGLE = { model: "", scenario: "", baseline: "", candidate: "", origin: "" };

/** What a link always has. */
export const PAIR = ["scenario", "baseline", "candidate"];

/** Choices that filter nothing, and what they are at first. */
export const LOOKS = { sort: "-speedup", tab: "throughput", place: "", columns: "main", at: "" };

export class State {
  #listeners = [];

  #sidesOf;

  /** `defaults` of the single values, from the data; `sidesOf` scenario, origin and given sides: both sides. */
  constructor(defaults, sidesOf) {
    this.defaults = { ...SINGLE, ...LOOKS, ...defaults };
    this.#sidesOf = sidesOf;
    this.read();
    const navigated = () => {
      const before = this.query();
      this.read();
      if (this.query() !== before) this.#tell();
    };
    addEventListener("popstate", navigated);
    addEventListener("hashchange", navigated);
  }

  /** Calls the listener after each change, with the names of what changed. */
  listen(listener) {
    this.#listeners.push(listener);
  }

  /** Reads all choices from the URL. */
  read() {
    const params = new URLSearchParams(location.hash.slice(1));
    for (const name of MULTIPLE) this[name] = new Set(params.getAll(name));
    for (const name in this.defaults) this[name] = params.get(name) ?? this.defaults[name];
    const [scenario, baseline, candidate] = PAIR.map((name) => params.get(name));
    if (scenario ?? baseline ?? candidate ?? params.get("origin")) Object.assign(this, this.#sidesOf(this["scenario"], this["origin"], { baseline, candidate }));
  }

  /** Scenario and sides, and the choices that differ from the defaults, as a URL's query; "" for the defaults. */
  query() {
    const params = new URLSearchParams();
    for (const name of MULTIPLE) for (const value of this[name]) params.append(name, value);
    for (const name in this.defaults) if (this[name] !== this.defaults[name]) params.set(name, this[name]);
    // The defaults depend on what the file holds, and a link must mean the same in a later one.
    if (params.size) for (const name of PAIR) params.set(name, this[name]);
    return params.toString();
  }

  /** Changes values. @param {object} change new values by name. @param {{replace?: boolean}} [options] replace: add no entry to the history (typing). */
  set(change, { replace = false } = {}) {
    Object.assign(this, change);
    const address = `${location.href.split("#")[0]}#${this.query()}`;
    if (address !== location.href) history[replace ? "replaceState" : "pushState"](null, "", address);
    this.#tell(Object.keys(change));
  }

  /** Adds a value to a facet, or removes it. */
  toggle(name, value) {
    const values = new Set(this[name]);
    if (!values.delete(value)) values.add(value);
    this.set({ [name]: values });
  }

  /** Shows only this value of a facet, or all again if it was the only one. */
  only(name, value) {
    const alone = this[name].size === 1 && this[name].has(value);
    this.set({ [name]: new Set(alone ? [] : [value]) });
  }

  /** Removes all filters; order and tab stay. */
  reset() {
    const change = {};
    for (const name of MULTIPLE) change[name] = new Set();
    for (const name in SINGLE) change[name] = this.defaults[name];
    this.set(change);
  }

  /** Whether any filter is on. */
  get filtering() {
    return (
      MULTIPLE.some((name) => this[name].size > 0) ||
      Object.keys(SINGLE).some((name) => this[name] !== this.defaults[name])
    );
  }

  #tell(names = null) {
    for (const listener of this.#listeners) listener(names);
  }
}
