/**
 * Data: the packed columns as typed arrays, each unpacked when it is first asked for. Numbers stay Float32Arrays, text
 * stays dictionary codes; there is no object per row.
 */

/**
 * One column of all rows.
 * @typedef {object} Column
 * @property {"number"|"category"} kind
 * @property {Float32Array|Uint8Array|Uint16Array|Uint32Array} data numbers (NaN: none) or codes into `values`.
 * @property {string[]} values of a category; empty for numbers.
 */

/** Text in which marks that reverse the direction of writing are spelled out, so that no name reads as another. */
const visible = (text) =>
  text.replace(
    /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (mark) => `[U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`,
  );

/** All columns and the page's metadata (pack.py describes the layout) from gunzipped bytes. */
function unpacked(raw) {
  const length = new DataView(raw.buffer, raw.byteOffset).getUint32(0, true);
  const header = JSON.parse(visible(new TextDecoder().decode(raw.subarray(4, 4 + length))));
  const columns = new Map();
  let offset = 4 + length;
  for (const { name, kind, bytes, values } of header.columns) {
    const planes = raw.subarray(offset, offset + bytes * header.rows);
    offset += planes.length;
    columns.set(name, () =>
      kind === "number"
        ? { kind, data: numbersFrom(planes, header.rows), values: [] }
        : { kind, data: codesFrom(planes, header.rows, bytes), values: values.map((value) => String(value ?? "")) },
    );
  }
  return new Rows(header.rows, columns, header.meta);
}

/** Three upper byte planes as 32-bit floats. */
function numbersFrom(planes, count) {
  const bits = new Uint32Array(count);
  for (let i = 0; i < count; i++) {
    bits[i] = (planes[i] << 8) | (planes[count + i] << 16) | (planes[2 * count + i] << 24);
  }
  return new Float32Array(bits.buffer);
}

/** Byte planes as unsigned codes. */
function codesFrom(planes, count, width) {
  if (width === 1) return planes;
  const codes = width === 2 ? new Uint16Array(count) : new Uint32Array(count);
  for (let plane = 0; plane < width; plane++) {
    for (let i = 0; i < count; i++) codes[i] |= planes[plane * count + i] << (8 * plane);
  }
  return codes;
}

/** All rows, by column. */
class Rows {
  #packed;
  #columns = new Map();
  #codes = new Map();
  #orders = new Map();

  /** @param {Map<string, () => Column>} packed what unpacks each column. */
  constructor(count, packed, meta) {
    this.count = count;
    this.meta = meta;
    this.#packed = packed;
  }

  /** The names of all columns. */
  get names() {
    return [...this.#packed.keys()];
  }

  /** Adds a column of numbers. */
  add(name, compute) {
    this.#packed.set(name, () => ({ kind: "number", data: compute(), values: [] }));
  }

  /** A column; undefined if there is none of this name, which an address may ask for. */
  column(name) {
    let column = this.#columns.get(name);
    if (!column) this.#columns.set(name, (column = this.#packed.get(name)?.()));
    return column;
  }

  /** Numbers of a column. */
  number(name) {
    return this.column(name).data;
  }

  /** Numbers of several columns. */
  numbers(...names) {
    return names.map((name) => this.number(name));
  }

  /** Numbers of several columns in one row. */
  at(row, ...names) {
    return names.map((name) => this.number(name)[row]);
  }

  /** The text of one cell. */
  text(name, row) {
    const column = this.column(name);
    return column.values[column.data[row]];
  }

  /** The texts of a column in the rows where others have these texts. */
  values(name, where) {
    const tests = Object.entries(where).map(([other, text]) => {
      const { data, values } = this.column(other);
      return { data, code: values.indexOf(text) };
    });
    const { data, values } = this.column(name);
    const seen = new Uint8Array(values.length);
    for (let row = 0; row < this.count; row++)
      if (tests.every((test) => test.data[row] === test.code)) seen[data[row]] = 1;
    return values.filter((_, code) => seen[code]);
  }

  /** A column as codes into its values, which are text. */
  codes(name) {
    if (!this.#codes.has(name)) this.#codes.set(name, this.#coded(this.column(name)));
    return this.#codes.get(name);
  }

  #coded({ kind, data, values }) {
    if (kind !== "number") return { data, values };
    const known = new Map();
    const codes = Uint32Array.from(data, (value) => {
      if (!known.has(value)) known.set(value, known.size);
      return known.get(value);
    });
    return { data: codes, values: [...known.keys()].map((value) => (present(value) ? String(value) : "")) };
  }

  /**
   * Row indices by ascending value of a column, those without a value last; cached.
   * Keys are packed into doubles (32 bits of order, 21 bits of index), which sort ten times as fast as by a comparator.
   */
  order(name) {
    if (!this.#orders.has(name)) {
      const column = this.column(name);
      this.#orders.set(name, argsort(column.kind === "number" ? floatOrder(column.data) : textOrder(column)));
    }
    return this.#orders.get(name);
  }
}

/** For each float an unsigned integer with the same order; NaN is last. */
function floatOrder(numbers) {
  const bits = new Uint32Array(numbers.buffer, numbers.byteOffset, numbers.length);
  const keys = new Uint32Array(numbers.length);
  for (let i = 0; i < keys.length; i++) {
    const value = bits[i];
    keys[i] = numbers[i] !== numbers[i] ? 0xffffffff : value & 0x80000000 ? ~value : value | 0x80000000;
  }
  return keys;
}

/** For each row the alphabetic rank of its text. */
function textOrder({ data, values }) {
  const sorted = values.map((_, code) => code).sort((a, b) => naturally(values[a], values[b]));
  const ranks = new Uint32Array(values.length);
  sorted.forEach((code, rank) => {
    ranks[code] = values[code] === "" ? 0xffffffff : rank;
  });
  return Uint32Array.from(data, (code) => ranks[code]);
}

/** Indices by ascending key. */
function argsort(keys) {
  const packed = new Float64Array(keys.length);
  for (let i = 0; i < keys.length; i++) packed[i] = keys[i] * 2097152 + i;
  packed.sort();
  return Uint32Array.from(packed, (value) => value % 2097152);
}

const COLLATOR = new Intl.Collator("en", { numeric: true });

/** Order of two texts; numbers in them are compared by value. */
const naturally = (a, b) => COLLATOR.compare(a, b);
