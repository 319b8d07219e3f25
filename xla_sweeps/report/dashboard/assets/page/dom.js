/**
 * The document: all elements are created here. Text becomes text nodes, never markup, because names and error messages
 * are untrusted.
 */

/**
 * An element.
 * @param {string} tag
 * @param {object} [props] `class`, `on` ({event: listener}), `data` (dataset), `text`; any other name is an attribute,
 *   omitted if its value is null or false.
 * @param {...(Node|string|null|undefined|false)} children
 */
function el(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const byId = (id) => document.getElementById(id);

/** Replaces all children. */
function fill(element, ...children) {
  element.replaceChildren(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== false),
  );
}

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

/** A button that copies the command that repeats a measurement. */
function copyButton(command, about) {
  if (!command) return el("span", { class: "none", text: NONE });
  const copied = () => copy(command, "Command copied");
  const label = `Copy the command that measures ${about} again`;
  return el(
    "button",
    { type: "button", class: "small", title: command, "aria-label": label, on: { click: copied } },
    "Copy command",
  );
}

/** Saves a text as a file. */
function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/**
 * A plain table.
 * @param {{head: string[], rows: Array<Array<*>>, total?: number, caption?: string, numeric?: number[]}} content cells
 *   may be text or nodes; `numeric` lists the columns to align right.
 */
function plainTable({ head, rows, total = rows.length, caption = "", numeric = [] }) {
  const right = new Set(numeric);
  const cells = (row, tag) =>
    row.map((cell, place) =>
      el(
        place === 0 && tag === "td" ? "th" : tag,
        {
          class: right.has(place) ? "number" : null,
          scope: tag === "th" ? "col" : place === 0 ? "row" : null,
        },
        cell instanceof Node ? cell : String(cell ?? NONE),
      ),
    );
  const table = el(
    "table",
    {},
    caption ? el("caption", { text: caption }) : null,
    el("thead", {}, el("tr", {}, cells(head, "th"))),
    el(
      "tbody",
      {},
      rows.map((row) => el("tr", {}, cells(row, "td"))),
    ),
  );
  const box = scrollBox(table, caption || head.join(", "));
  if (total > rows.length) {
    const rest = `The first ${count(rows.length)} of ${count(total)}; the CSV file in “Everything” has all.`;
    return el("div", {}, box, el("p", { class: "note", text: rest }));
  }
  return box;
}

/** A box with its own scroll bar, usable by keyboard. */
function scrollBox(content, label) {
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, content);
}

/** A verdict as symbol and word, so that it does not depend on colour. */
function verdictMark(verdict) {
  const { symbol, word } = VERDICTS[verdict] ?? { symbol: "○", word: verdict };
  return el(
    "span",
    { class: "verdict" },
    el("span", { class: `symbol ${verdict}`, "aria-hidden": "true", text: symbol }),
    ` ${word}`,
  );
}

/** A message in place of a chart that has nothing to show. */
const emptyState = (text) => el("div", { class: "empty" }, el("p", { text }));

/** A flag's meaning, with the mode or reason after its colon. */
function flagMeaning(rows, flag) {
  const texts = rows.meta.flag_texts ?? {};
  const [word, ...rest] = flag.split(":");
  const about = rest.length ? ` (${rest.join(":")})` : "";
  return Object.hasOwn(texts, word) ? `${texts[word]}${about}` : `${word.replaceAll("_", " ")}${about}`;
}

/** A link to a row's log, beside the page; its path is untrusted, and may lead nowhere else. */
function logLink({ rows }, row) {
  const log = rows.text("log", row);
  const folders = rows.meta.folders ?? {};
  const results = rows.text("results", row);
  const plain = /^\w[\w.\/-]*$/.test(log) && !log.includes("..");
  if (!plain || !Object.hasOwn(folders, results)) return log || NONE;
  const path = [...folders[results].split("/"), ...log.split("/")].map(encodeURIComponent).join("/");
  return el("a", { href: `./${path}`, title: log, text: "log" });
}
