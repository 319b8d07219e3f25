/** Data: the packed columns as typed arrays. Numbers are Float32Arrays (NaN: none), text stays codes into a column's
 * values; there is no object per row. */

import { getOrMake, present } from "./numbers.js";
import { ownOf } from "./dom.js";

/** Text in which marks that reverse the direction of writing are spelled out, so that no name reads as another. @param {string} text */
const visible = (text) =>
  text.replace(
    /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (mark) => `[U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`,
  );

/** All columns and the page's metadata (build.py describes the layout) from gunzipped bytes. */
export function unpacked(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const { rows, columns, meta, numbers, ...facts } = JSON.parse(visible(new TextDecoder().decode(new Uint8Array(buffer, 4, length))));
  const next = ((offset) => () => (offset += 4 * rows) - 4 * rows)(4 + length);
  const packed = new Map();
  for (const { name, values } of columns) {
    const place = next();
    const texts = () => values.map((value) => String(value ?? ""));
    packed.set(name, () =>
      values ? { data: new Uint32Array(buffer, place, rows), values: texts() } : { data: new Float32Array(buffer, place, rows) },
    );
  }
  const numbered = Object.fromEntries(numbers.map((name) => [name, new Uint32Array(buffer, next(), rows)]));
  return new Rows(rows, packed, { ...meta, ...facts }, numbered);
}

/** All rows, by column. */
export class Rows {
  #packed;
  /** @type {Map<string, Column>} */
  #columns = new Map();
  #codes = new Map();
  #orders = new Map();
  #Row = class {
    constructor(place) {
      this.place = place;
    }
  };

  /** @param {number} count @param {Map<string, () => Column>} packed what unpacks each column; numbers have no `values`. */
  constructor(count, packed, meta, numbered) {
    this.count = count;
    this.meta = meta;
    /** For each row whole numbers: of its question, like settings and trial; its preference; 1 for an A/A pair. @type {Record<"question" | "like" | "trial" | "preference" | "twin", Uint32Array>} */
    this.numbered = numbered;
    this.#packed = packed;
    this.names = [...packed.keys()];
    for (const name of this.names) this.#named(name);
  }

  #named(name) {
    const unpack = () => this.column(name);
    let column = null;
    Object.defineProperty(this.#Row.prototype, name, {
      get() {
        const { data, values } = (column ??= unpack());
        return values ? values[data[this.place]] : data[this.place];
      },
    });
  }

  /** Sets what an hour of each device costs: the columns of the price, which come for 1, follow; NaN without one. @param {(device: string) => number} priceOf */
  setPrices(priceOf) {
    const { data: codes, values } = this.column("device");
    const prices = values.map(priceOf);
    this.isPriced = prices.some(present);
    for (const name of PACKAGE.costs) {
      const { data } = /** @type {{ data: Float32Array }} */ (this.#packed.get(name)());
      this.column(name).data = data.map((cost, row) => cost * prices[codes[row]]);
      this.#orders.delete(name);
    }
  }

  /** A column; undefined if there is none of this name, which an address may ask for. @param {string} name @returns {Column} */
  column(name) {
    return this.#columns.get(name) ?? getOrMake(this.#columns, name, () => this.#packed.get(name)?.());
  }

  /** Numbers of a column. @param {NumberColumn} name @returns {Float32Array} */
  number(name) {
    return /** @type {any} */ (this.column(name).data);
  }

  /** Numbers of several columns. @param {NumberColumn[]} names */
  numbers(...names) {
    return names.map((name) => this.number(name));
  }

  /** One row, whose columns are its properties: numbers and text. @returns {Row} */
  at(row) {
    return /** @type {any} */ (new this.#Row(row));
  }

  /** A test of rows: whether a column has this value, which is text or a number. @param {TextColumn | NumberColumn} name @returns {(row: number) => boolean} */
  is(name, value) {
    const { data, values } = this.column(name);
    const wanted = values ? values.indexOf(value) : value;
    return (row) => data[row] === wanted;
  }

  /** The indices of the rows that pass a test. @param {(row: number) => boolean} test */
  where(test) {
    const passing = new Uint32Array(this.count);
    let n = 0;
    for (let row = 0; row < this.count; row++) if (test(row)) passing[n++] = row;
    return passing.subarray(0, n);
  }

  /** The texts of a column in some rows. @param {TextColumn | NumberColumn} name @param {Iterable<number>} rows */
  textsOf(name, rows) {
    const { data, values } = this.codes(name);
    const seen = new Uint8Array(values.length);
    for (const row of rows) seen[data[row]] = 1;
    return values.filter((_, code) => seen[code]);
  }

  /** A column as codes into its values, which are text. @param {TextColumn | NumberColumn} name @returns {Codes} */
  codes(name) {
    const { data, values } = this.column(name);
    return getOrMake(this.#codes, name, () => (values ? { data, values } : coded(data)));
  }

  /** Row indices by ascending value of a column, those without a value last. @returns {Uint32Array} */
  order(name) {
    return getOrMake(this.#orders, name, () => {
      const { data, values } = this.column(name);
      const ranks = values && naturalOrder(values).ranks;
      const keys = data.map((value) => (ranks ? (values[value] === "" ? values.length : ranks[value]) : value));
      const after = (a, b) => keys[a] - keys[b] || Number(Number.isNaN(keys[a])) - Number(Number.isNaN(keys[b]));
      return Uint32Array.from(keys.keys()).sort(after);
    });
  }
}

/** Numbers as codes into their texts. */
function coded(numbers) {
  const codes = new Map();
  const data = Uint32Array.from(numbers, (number) => getOrMake(codes, number, () => codes.size));
  return { data, values: Array.from(codes.keys(), (value) => (present(value) ? String(value) : "")) };
}

/** The codes of values in their natural order, and the rank of each code. */
export function naturalOrder(values) {
  const sorted = values.map((_, code) => code).sort((a, b) => naturally(values[a], values[b]));
  const ranks = new Uint32Array(values.length);
  sorted.forEach((code, rank) => (ranks[code] = rank));
  return { sorted, ranks };
}

const COLLATOR = new Intl.Collator("en", { numeric: true });

/** Order of two texts; numbers in them are compared by value. */
export const naturally = (a, b) => COLLATOR.compare(a, b);

/** The scenarios of the file, those that were measured most first: name and pairs, its own first. @param {Rows} rows */
export const scenariosOf = ({ meta }) =>
  (meta.scenarios.length ? meta.scenarios : [["call", []]]).map(([name, pairs]) => ({
    name,
    pairs: pairs.map(([baseline, candidate, origins]) => ({ baseline, candidate, origins })),
  }));

/** The pairs of a scenario that have this origin, each as a change of the state. @param {Rows} rows @returns {Sides[]} */
export const pairsOf = (rows, scenario, origin) =>
  (scenariosOf(rows).find(({ name }) => name === scenario)?.pairs ?? [])
    .filter(({ origins }) => origin === "all" || origins.includes(origin))
    .map(({ baseline, candidate }) => ({ baseline, candidate }));

/** The first pair of this scenario and origin, and of these sides, as far as they are given. @param {Rows} rows @param {Partial<Sides>} sides @returns {Sides} */
export function pairFor(rows, scenario, origin, sides = {}) {
  const given = Object.entries(sides).filter(([, label]) => label);
  const [baseline, candidate] = ownOf(PACKAGE.headlines, scenario) ?? PACKAGE.headlines.call;
  const pair = pairsOf(rows, scenario, origin).find((each) => given.every(([side, label]) => each[side] === label));
  return pair ?? { baseline, candidate, ...Object.fromEntries(given) };
}

/** The mode behind a label: `graph_2` is `graph`. @param {string} label */
export const modeOf = (label) => label.replace(/_\d+$/, "");

/** What compiles and runs a label's mode; undefined for a mode of another version. @param {string} label */
export const executionOf = (label) => ownOf(PACKAGE.executions, modeOf(label));
