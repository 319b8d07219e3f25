/** The document: all elements are created here. Text becomes text nodes, never markup, because names and error
 * messages are untrusted. */

import { count, NONE } from "./numbers.js";
import { VERDICTS } from "./state.js";

export const there = (child) => child !== null && child !== undefined && child !== false;

/**
 * An element. @template {string} N @param {N} name the tag, and classes after dots. @returns {Tagged<N>}
 * @param {...any} rest children (`Child`), before them perhaps a plain object: `on` ({event: listener}), `data` (dataset),
 *   `style` (by property), `text`; any other name is an attribute, omitted if its value is null or false.
 */
export function el(name, ...rest) {
  const [tag, ...classes] = name.split(".");
  const element = /** @type {any} */ (document.createElement(tag));
  if (classes.length) element.className = classes.join(" ");
  const props = rest[0]?.constructor === Object ? rest.shift() : {};
  for (const [key, value] of Object.entries(props)) {
    if (!there(value)) continue;
    if (key === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key === "style") Object.assign(element.style, value);
    else if (key === "text") element.textContent = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...rest.flat().filter(there));
  return element;
}

/** An element that the page has. @param {string} id */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** A button. */
export const button = (props, click, ...content) => el("button", { type: "button", ...props, on: { click } }, ...content);

/** A button that looks like a link. @param {string} text */
export const linkButton = (text, click, props = {}) => button({ class: "link", ...props }, click, text);

/** Details that are closed at first. */
export const folded = (title, ...content) => el("details.twin", el("summary", title), ...content);

/** A choice of one of these values. */
export function selectOf(props, values, write, change) {
  const options = values.map((value) => el("option", { value, text: write(value) }));
  return el("select", { ...props, on: { change: ({ target }) => change(target.value) } }, options);
}

/** An input of one choice, with one entry of the history for all that is typed, not for each letter. @param {State} state */
export function typedInput(state, name, props, read = () => state[name], change = (/** @type {any} */ text) => text) {
  let [timer, typing, known] = [0, false, ""];
  const set = () => {
    known = input.value;
    state.set({ [name]: change(known) }, { replace: typing });
    typing = true;
  };
  const typed = (wait) => () => {
    clearTimeout(timer);
    timer = setTimeout(set, wait);
  };
  const input = el("input", { name: `f-${name}`, ...props, on: { input: typed(150), change: typed(0), blur: () => (typing = false) } });
  const update = () => read() !== known && (input.value = known = read()); // or typing goes on
  return { input, update };
}

/** The parts that there are, joined. */
export const phrase = (parts, between = " ") => parts.filter(Boolean).join(between);
export const dotted = (...parts) => phrase(parts, " · ");

/** Replaces all children. */
export const fill = (element, ...children) => element.replaceChildren(...children.flat().filter(there));

let hiding = 0;

/** Shows a message for a moment, also to screen readers. @param {string} text */
export function announce(text) {
  const box = byId("toast");
  box.textContent = text;
  box.classList.add("shown");
  clearTimeout(hiding);
  hiding = setTimeout(() => box.classList.remove("shown"), 2500);
}

/** Copies text; if the browser refuses (a page from disk may not be a secure context), through a selection. @param {string} text */
export async function copyText(text, said) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea.offscreen", { "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce(said);
}

/** A button that copies the address, which holds the reader's choices. */
export const copyLink = (props = {}) => button(props, () => copyText(location.href, "Link copied"), "Copy link");

/** A button that copies the command that measures a row again. @param {View} view @param {number} row */
export function copyButton(view, row) {
  const { command, model } = view.at(row);
  if (!command) return el("span.none", NONE);
  const label = `Copy the command that measures ${model} again`;
  const copied = () => copyText(command, "Command copied");
  return button({ class: "small", title: command, "aria-label": label }, copied, "Copy command");
}

/** Saves a text as a file. */
export function download(name, content, type) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const FIGURE = /^([+−±]?\d|≥|–|never$|no images$|<)/;
const isFigure = (cell) => typeof cell === "number" || cell === "" || (typeof cell === "string" && FIGURE.test(cell));

const TABLE_ROWS = 200;
let rowsMost = TABLE_ROWS;

/** A table without a limit of its rows. @param {() => HTMLElement} make */
export function wholeTable(make) {
  rowsMost = Infinity;
  try {
    return make();
  } finally {
    rowsMost = TABLE_ROWS;
  }
}

/**
 * A plain table, its columns of figures aligned right. @template T @param {string} caption
 * @param {ArrayLike<T>} items a line each; the first `most` are shown. @param {TableColumn<T>[]} columns
 * @param {{titled?: number, most?: number, [name: string]: any}} [more] `titled`: the place of the cell that is the
 *   title of its row; other names are attributes.
 */
export function plainTable(caption, items, columns, { most = rowsMost, titled = 0, ...props } = {}) {
  const lines = Array.from(items).slice(0, most).map((item) => columns.map(([, cell]) => cell(item)));
  const right = columns.map((_, place) => place !== titled && lines.every((line) => isFigure(line[place])));
  const cellOf = (cell, place) =>
    el(
      place === titled ? "th" : "td",
      { class: right[place] && "number", scope: place === titled && "row" },
      cell instanceof Node || Array.isArray(cell) ? cell : String(cell ?? NONE),
    );
  const heads = columns.map(([text], place) => el("th", { scope: "col", class: right[place] && "number", text }));
  const title = caption ? el("caption", caption) : null;
  const body = el("tbody", lines.map((line) => el("tr", line.map(cellOf))));
  const table = el("table", props, title, el("thead", el("tr", heads)), body);
  const box = scrollBox(table, caption || columns.map(([text]) => text).join(", "));
  if (items.length <= most) return box;
  const rest = `The first ${count(most)} of ${count(items.length)}; the CSV file in “Everything” has all.`;
  return el("div", box, el("p.note", rest));
}

/** A box with its own scroll bar, usable by keyboard. @param {string} label */
export const scrollBox = (content, label) =>
  el("div.scroll", { tabindex: "0", role: "group", "aria-label": label }, content);

/** A symbol in its verdict's colour. @param {string} verdict */
export const symbolOf = (verdict) =>
  el("span", { class: `symbol ${verdict}`, "aria-hidden": "true", text: VERDICTS[verdict]?.symbol ?? "○" });

/** A verdict as symbol and word, so that it does not depend on colour. @param {string} verdict */
export const verdictMark = (verdict) =>
  el("span.verdict", symbolOf(verdict), ` ${VERDICTS[verdict]?.word ?? verdict}`);

export function svgElement(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A small chart without words, of marks in percent of its width and height. @param {string} kind @param {any[][]} marks each: class, left, right, top */
export function strip(kind, marks) {
  const rects = marks.map(([name, from, to, top = 0]) =>
    svgElement("rect", { class: name, x: `${from}%`, width: `${to - from}%`, y: `${top}%`, height: `${100 - top}%` }),
  );
  return svgElement("svg", { class: `strip ${kind}`, "aria-hidden": "true" }, ...rects);
}

/** A message in place of a chart that has nothing to show. @param {string} text */
export const emptyState = (text) => el("div.empty", el("p", text));

/** A property of its own, of an object that may be missing; names are untrusted. */
export const ownOf = (object, name) => (object && Object.hasOwn(object, name) ? object[name] : undefined);

/** A flag's meaning, with the mode or reason after its colon. */
export function flagMeaning(flag) {
  const [word, ...rest] = flag.split(":");
  const meaning = ownOf(PACKAGE.flags, word) ?? word.replaceAll("_", " ");
  return rest.length ? `${meaning} (${rest.join(":")})` : meaning;
}

/** A cell of a CSV file. Text that a spreadsheet would read as a formula gets a leading apostrophe. @param {string} text */
export function csvCell(text) {
  const safe = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(text) ? `'${text}` : text;
  return /["\r\n,;]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Links to a row's log, beside the page, and to its run in W&B, where their untrusted addresses lead nowhere else. @param {View} view @param {number} row */
export function linksOf(view, row) {
  const { log, results, trial_id: trial } = view.at(row);
  const { folders, runs } = view.rows.meta;
  const folder = ownOf(folders, results);
  const run = String(ownOf(ownOf(runs, results), trial) ?? "");
  const isBeside = folder !== undefined && /^\w[\w.\/-]*$/.test(log) && !log.includes("..");
  const path = isBeside && `${folder}/${log}`.split("/").map(encodeURIComponent).join("/");
  const isSafe = /^https:\/\/[\w.-]+(:\d+)?\/[\w.\/%~-]*$/.test(run);
  const links = [
    isBeside ? el("a", { href: `./${path}`, title: log, text: "log" }) : log,
    isSafe ? el("a", { href: run, rel: "noreferrer", title: run, text: "W&B run" }) : run,
  ];
  return links.filter(Boolean).flatMap((link) => [link, " "]);
}

/** A theme for paper and pictures; the style sheet follows the system's where it is "". */
export const applyTheme = (theme) => (document.documentElement.dataset.theme = theme);
