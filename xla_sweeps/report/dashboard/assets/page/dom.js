/**
 * The document: all elements are created here. Text becomes text nodes, never markup, because names and error messages
 * are untrusted.
 */

const there = (child) => child !== null && child !== undefined && child !== false;

/**
 * An element.
 * @param {string} tag
 * @param {object} [props] `class`, `on` ({event: listener}), `data` (dataset), `style` (by property), `text`; any other
 *   name is an attribute, omitted if its value is null or false.
 * @param {...(Node|string|null|undefined|false)} children
 */
function el(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (!there(value)) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter(there));
  return element;
}

const byId = (id) => document.getElementById(id);

/** A button. */
const button = (props, click, ...content) => el("button", { type: "button", ...props, on: { click } }, ...content);

/** A button that looks like a link. */
const linkButton = (text, click, props = {}) => button({ class: "link", ...props }, click, text);

/** Details that are closed at first. */
const folded = (title, ...content) => el("details", { class: "twin" }, el("summary", { text: title }), ...content);

/** A choice of one of these values. */
function selectOf(props, values, write, change) {
  const options = values.map((value) => el("option", { value, text: write(value) }));
  return el("select", { ...props, on: { change: ({ target }) => change(target.value) } }, options);
}

/** The parts that there are, joined. */
const phrase = (parts, between = " ") => parts.filter(Boolean).join(between);

/** Replaces all children. */
const fill = (element, ...children) => element.replaceChildren(...children.flat().filter(there));

/** Shows a message for a moment, also to screen readers. */
function announce(text) {
  const box = byId("toast");
  box.textContent = text;
  box.classList.add("shown");
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => box.classList.remove("shown"), 2500);
}

/** Copies text; if the browser refuses (a page from disk may not be a secure context), through a selection. */
async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", { class: "offscreen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce(said);
}

/** A button that copies the address, which holds the reader's choices. */
const copyLink = (props = {}) => button(props, () => copy(location.href, "Link copied"), "Copy link");

/** A button that copies the command that measures a row again. */
function copyButton({ rows }, row) {
  const command = rows.text("command", row);
  if (!command) return el("span", { class: "none", text: NONE });
  const label = `Copy the command that measures ${rows.text("model", row)} again`;
  const copied = () => copy(command, "Command copied");
  return button({ class: "small", title: command, "aria-label": label }, copied, "Copy command");
}

/** Saves a text as a file. */
function download(name, content, type) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const FIGURE = /^([+−±]?\d|≥|–|never$|no images$|<)/;
const isFigure = (cell) => typeof cell === "number" || cell === "" || (typeof cell === "string" && FIGURE.test(cell));

/**
 * A plain table, its columns of figures aligned right.
 * @param {{head: string[], rows: Array<Array<*>>, total?: number, caption?: string, titled?: number}} content cells may
 *   be text or nodes; `titled`: the place of the cell that is the title of its row.
 */
function plainTable({ head, rows, total = rows.length, caption = "", titled = 0, ...props }) {
  const right = head.map((_, place) => place !== titled && rows.every((row) => isFigure(row[place])));
  const numeric = (place) => (right[place] ? "number" : null);
  const cellOf = (cell, place) =>
    el(
      place === titled ? "th" : "td",
      { class: numeric(place), scope: place === titled ? "row" : null },
      cell instanceof Node || Array.isArray(cell) ? cell : String(cell ?? NONE),
    );
  const table = el(
    "table",
    props,
    caption ? el("caption", { text: caption }) : null,
    el("thead", {}, el("tr", {}, head.map((text, place) => el("th", { scope: "col", class: numeric(place), text })))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cellOf)))),
  );
  const box = scrollBox(table, caption || head.join(", "));
  if (total <= rows.length) return box;
  const rest = `The first ${count(rows.length)} of ${count(total)}; the CSV file in “Everything” has all.`;
  return el("div", {}, box, el("p", { class: "note", text: rest }));
}

/** A box with its own scroll bar, usable by keyboard. */
const scrollBox = (content, label) =>
  el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, content);

/** A symbol in its verdict's colour. */
const symbolOf = (verdict) =>
  el("span", { class: `symbol ${verdict}`, "aria-hidden": "true", text: VERDICTS[verdict]?.symbol ?? "○" });

/** A verdict as symbol and word, so that it does not depend on colour. */
const verdictMark = (verdict) =>
  el("span", { class: "verdict" }, symbolOf(verdict), ` ${VERDICTS[verdict]?.word ?? verdict}`);

/** A message in place of a chart that has nothing to show. */
const emptyState = (text) => el("div", { class: "empty" }, el("p", { text }));

/** A flag's meaning, with the mode or reason after its colon. */
function flagMeaning(rows, flag) {
  const texts = rows.meta.flag_texts ?? {};
  const [word, ...rest] = flag.split(":");
  const about = rest.length ? ` (${rest.join(":")})` : "";
  return Object.hasOwn(texts, word) ? `${texts[word]}${about}` : `${word.replaceAll("_", " ")}${about}`;
}

/** What metadata by results folder say of a row's folder; undefined if they lack it. */
const ofFolder = (known = {}, results) => (Object.hasOwn(known, results) ? known[results] : undefined);

/** A link to a row's log, beside the page; its path is untrusted, and may lead nowhere else. */
function logLink({ rows }, row) {
  const log = rows.text("log", row);
  const folder = ofFolder(rows.meta.folders, rows.text("results", row));
  const plain = /^\w[\w.\/-]*$/.test(log) && !log.includes("..");
  if (!plain || folder === undefined) return log || NONE;
  const path = [...folder.split("/"), ...log.split("/")].map(encodeURIComponent).join("/");
  return el("a", { href: `./${path}`, title: log, text: "log" });
}

/** A link to a row's run in W&B; its address is untrusted, and nothing but https is a link. */
function runLink({ rows }, row) {
  const runs = ofFolder(rows.meta.runs, rows.text("results", row)) ?? {};
  const trial = rows.text("trial_id", row);
  const address = Object.hasOwn(runs, trial) ? String(runs[trial]) : "";
  const plain = /^https:\/\/[\w.-]+(:\d+)?\/[\w.\/%~-]*$/.test(address);
  return plain ? el("a", { href: address, rel: "noreferrer", title: address, text: "W&B run" }) : address || NONE;
}

/** The links that a row has. */
const linksOf = (view, row) =>
  [logLink(view, row), runLink(view, row)].filter((link) => link !== NONE).flatMap((link) => [link, " "]);
