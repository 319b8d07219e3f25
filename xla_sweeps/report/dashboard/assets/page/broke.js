/** "What broke?": what failed or was not measured, by status, mode and device, then one by one with what to do. */

import { count, getOrMake, NONE, plural } from "./numbers.js";
import { byId, copyButton, el, fill, linksOf, phrase, plainTable } from "./dom.js";
import { naturally } from "./data.js";
import { cut, rowSettings } from "./marks.js";
import { addPanel } from "./panels.js";

const FAILURES_SHOWN = 100;

export function brokeSection() {
  const worth = (view) => failedRows(view).length > 0;
  addPanel(byId("broke-counts"), drawFailures, { worth });
  addPanel(byId("broke-list"), () => {}, { worth });
}

/** The rows that failed, then those that were not measured, of every pair of modes. @param {View} view */
const failedRows = ({ base, rows, state: { verdict } }) => {
  const kinds = ["failed", "not_measured"].filter((kind) => !verdict.size || verdict.has(kind));
  return kinds.flatMap((kind) => [...base.filter(rows.is("verdict", kind))]);
};

export const statusWords = (status) => status.replaceAll("_", " ");

/** The failures, each once whatever its baseline, by status and mode, the most frequent kind first. @param {View} view */
function failureKinds(view) {
  return view.once("failure kinds", () => {
    const { trial } = view.rows.numbered;
    const [kinds, seen] = [new Map(), new Set()];
    for (const row of failedRows(view)) {
      const { status, failed_mode: mode } = view.at(row);
      const key = `${status} ${mode}`;
      const failure = `${trial[row]} ${key}`;
      if (seen.has(failure)) continue;
      seen.add(failure);
      getOrMake(kinds, key, () => ({ key, status, mode, rows: [] })).rows.push(row);
    }
    return [...kinds.values()].sort((a, b) => b.rows.length - a.rows.length);
  });
}

function drawFailures(/** @type {View} */ view) {
  const kinds = failureKinds(view);
  const rows = kinds.flatMap((kind) => kind.rows);
  const isMissing = view.rows.is("verdict", "not_measured");
  const failed = kinds.map((kind) => kind.rows.filter((row) => !isMissing(row)).length).filter(Boolean);
  const failures = failed.reduce((sum, each) => sum + each, 0);
  const missing = rows.length - failures;
  const words = failures && `${plural(failures, "failure")} of ${plural(failed.length, "kind")}`;
  const title = phrase([words, missing && `${count(missing)} not measured`], ", ");
  fill(byId("broke-counts"), el("h3", title), countsTable(view, rows, kinds));
  fill(byId("broke-list"), el("h3", "One by one, the commonest kind first"), failureTable(view, rows));
}

/** @param {View} view */
function countsTable({ rows }, all, kinds) {
  const devices = rows.textsOf("device", all).sort(naturally);
  return plainTable("By status, mode and device", kinds, [
    ["Status", ({ status }) => statusWords(status)],
    ["Mode", ({ mode }) => mode || NONE],
    ...devices.map((name) => /** @type {TableColumn<any>} */ ([name, (kind) => kind.rows.filter(rows.is("device", name)).length || ""])),
    ["All", (kind) => kind.rows.length],
  ]);
}

function failureTable(/** @type {View} */ view, failures) {
  const note = (text) => el("span.note", text);
  const cellOf = (/** @type {(row: Row, place: number) => Child} */ cell) => (/** @type {number} */ place) => cell(view.at(place), place);
  const messages = (row) => el("div.message", messageOf(row.failure_message), row.failure_hint && note(`→ ${row.failure_hint}`));
  const columns = /** @type {TableColumn<number>[]} */ ([
    ["Model", cellOf(({ model }, place) => [model, note(rowSettings(view, place))])],
    ["Mode", cellOf((row) => row.failed_mode || NONE)],
    ["Status", cellOf(({ status }) => statusWords(status))],
    ["Message", cellOf(messages)],
    ["Log", (place) => linksOf(view, place)],
    ["Command", (place) => copyButton(view, place)],
  ]);
  return plainTable("One by one", failures, columns, { most: FAILURES_SHOWN, class: "failures" });
}

/** A message; a long one is folded after its beginning. */
function messageOf(message) {
  if (!message) return NONE;
  const head = cut(message.split("\n", 1)[0], 160);
  return head === message ? el("code", message) : el("details", el("summary", el("code", head)), el("pre", message));
}
