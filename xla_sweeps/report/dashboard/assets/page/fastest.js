/** "Which model is fastest?": three podiums with shared ranks. */

import { count, digits, getOrMake, NONE, range, rate, short, signed } from "./numbers.js";
import { byId, el, emptyState, fill, linkButton, phrase, plainTable, selectOf, strip } from "./dom.js";
import { naturally } from "./data.js";
import { rowSettings, shortMode, versus } from "./marks.js";
import { addPanel } from "./panels.js";
import { isBounded } from "./pairs.js";

/** A row's figures and intervals: throughput, speedup, images per second more, percent more. @param {Row} row */
const ratesOf = (row) => [row.throughput_samples_per_s, row.throughput_low, row.throughput_high];
const ratios = ({ speedup, speedup_low: low, speedup_high: high }) => [speedup, low, high];
const gainsOf = (row) => ratios(row).map((ratio) => row.baseline_throughput_samples_per_s * (ratio - 1));
const percentsOf = (row) => ratios(row).map((ratio) => 100 * (ratio - 1));

/** Each podium: how its figure is written, and the figure of a row with its interval. */
const PODIUMS = {
  __proto__: null,
  throughput: { title: "Throughput", unit: "img/s", write: rate, of: ratesOf },
  absolute: { title: "Absolute speedup", unit: "img/s more", write: (value) => `${signed(value)} img/s`, of: gainsOf },
  percent: { title: "Speedup percent", unit: "%", write: (value) => `${signed(value, digits)} %`, of: percentsOf },
};

const PODIUM_PLACES = 10;
const PODIUM_DEVICES = 6;

/** The podiums, ranked by one of these figures. @param {State} state */
export function fastestSection(state) {
  const names = Object.keys(PODIUMS);
  const by = selectOf({ id: "podium-by" }, names, (name) => PODIUMS[name].title, (tab) => state.set({ tab }, { replace: true }));
  fill(byId("podium-by-label"), el("label", { for: "podium-by", text: "Ranked by " }), by);
  const panel = byId("podium");
  const draw = (view) => {
    by.value = PODIUMS[view.state.tab] ? view.state.tab : names[0];
    drawPodium(view, panel, PODIUMS[by.value]);
  };
  const worth = (view) => view.ranked.length > 1 && placeOf(view).named > 0;
  addPanel(panel.parentElement, draw, { follows: ["tab", "place"], worth });
}

/** The public study's questions, as the package answers them for the whole file, of the chosen scenario. */
export function studySection({ study = [] }) {
  const partOf = ({ key, title, finding, columns, lines, note }) => {
    const cells = columns.map((name, place) => [name, (line) => line[place]]);
    const text = `${note} Of the whole file, whatever the filters.`;
    const props = { open: ["fastest", "inversions"].includes(key) };
    const table = lines.length > 0 && plainTable("", lines, cells);
    return el("details", props, el("summary", title), el("p", finding), table, el("p.note", text));
  };
  const box = el("div.card", { id: "study-tables" });
  const own = ({ state }) => study.filter(({ scenario }) => scenario === state.scenario);
  byId("podium").parentElement.after(box);
  addPanel(box, (view) => fill(box, own(view).map(partOf)), { worth: (view) => own(view).length > 0 });
}

/** The best pairs of each device, at one resolution, batch size and precision: by default at the commonest. @param {View} view */
function drawPodium(view, panel, podium) {
  const devices = view.distinct("device");
  const shown = devices.slice(0, PODIUM_DEVICES);
  const place = placeOf(view);
  const rankedText = podium === PODIUMS.throughput ? shortMode(view.state.candidate) : versus(view);
  const lists = shown.map((device) => podiumList(view, place.rows, device, podium)).filter(Boolean);
  const note = phrase([
    `${podium.title} of ${rankedText} at ${place.text}.`,
    view.overview.failed && `${count(view.overview.failed)} that failed are not ranked.`,
    "Configurations whose intervals overlap the leader’s share its rank.",
    devices.length > shown.length && `The first ${shown.length} of ${devices.length} devices.`,
  ]);
  const empty = `Nothing in this selection has a ${podium.title.toLowerCase()}.`;
  const podiums = lists.length ? el("div.podiums", lists) : emptyState(empty);
  fill(panel, placePicker(view, "place"), el("p.note", note), podiums);
}

/** The rows of every name by their place, where the chosen names are among them. @param {View} view */
function podiumPlaces(view) {
  return view.once("podium places", () => {
    const places = new Map();
    for (const row of view.ranked) {
      const { ranked_at: key } = view.at(row);
      const place = getOrMake(places, key, () => ({ key, text: key, rows: [], named: 0 }));
      place.rows.push(row);
      place.named += view.isNamed(row);
    }
    return new Map([...places].filter(([, { named }]) => named).sort(([a], [b]) => naturally(a, b)));
  });
}

/** The chosen resolution, batch size and precision, by default the commonest. @param {View} view */
export function placeOf(view) {
  const [places, none] = [podiumPlaces(view), { key: "", text: "", rows: [], named: 0 }];
  const commonest = [...places.values()].reduce((a, b) => (b.named > a.named ? b : a), none);
  return places.get(view.state.place) ?? commonest;
}

/** A choice of resolution and batch size for the sections that compare models; nothing if there is one. @param {View} view */
export function placePicker(view, id) {
  const places = podiumPlaces(view);
  if (places.size < 2) return null;
  const write = (key) => `${places.get(key).text} (${count(places.get(key).rows.length)})`;
  const change = (place) => view.state.set({ place }, { replace: true });
  const select = selectOf({ id }, [...places.keys()], write, change);
  select.value = placeOf(view).key;
  return el("p.picker", el("label", { for: id, text: "At" }), select);
}

/** Rows of one device by a podium's figure, best first; those whose intervals overlap their leader's share its rank. @param {View} view */
function ranked(view, places, device, podium) {
  const figures = places.filter(view.rows.is("device", device)).map((place) => {
    const [value, low, high] = podium.of(view.at(place));
    return { place, value, low, high, rank: null };
  });
  const sorted = figures.filter(({ value }) => !Number.isNaN(value)).sort((a, b) => b.value - a.value);
  let leader = null;
  sorted.forEach((entry, before) => {
    if (!isBounded(entry)) return;
    const follows = leader && entry.high >= leader.low;
    entry.rank = follows ? leader.rank : before + 1;
    if (!follows) leader = entry;
  });
  return sorted;
}

function podiumList(/** @type {View} */ view, rows, device, podium) {
  const entries = ranked(view, rows, device, podium);
  const named = view.state.model ? entries.filter(({ place }) => view.isNamed(place)) : [];
  if (!entries.length || (view.state.model && !named.length)) return null;
  const best = entries.filter((entry, place) => place < PODIUM_PLACES || named.slice(0, PODIUM_PLACES).includes(entry));
  const most = Math.max(...best.map(({ value }) => Math.abs(value))) || 1;
  const nameOf = (entry) => {
    const { model } = view.at(entry.place);
    const link = linkButton(model, () => view.state.set({ model }), { title: "Show only this model" });
    const place = named.includes(entry) && el("b.note", `rank ${entry.rank ?? NONE} of ${count(entries.length)}`);
    return el("span", link, el("span.note", rowSettings(view, entry.place, { device: false })), place);
  };
  const figureOf = (entry) => {
    const { place, value, low, high } = entry;
    const verdict = podium === PODIUMS.throughput ? "" : view.at(place).verdict;
    const doubt = view.doubt(place);
    return el(
      "span",
      el("b", `${podium.write(value)}${doubt}`),
      el("span.note", isBounded(entry) ? range(low, high, short) : "no interval"),
      strip("track", [[`bar ${verdict}${doubt ? " hollow" : ""}`, 0, (100 * Math.abs(value)) / most]]),
    );
  };
  const columns = /** @type {TableColumn<any>[]} */ ([
    ["Rank", ({ rank }) => rank ?? NONE],
    ["Model", nameOf],
    [`${podium.title} (${podium.unit})`, figureOf],
  ]);
  const few = entries.length < PODIUM_PLACES;
  const text = few ? `Only ${entries.length} here.` : `The best ${PODIUM_PLACES} of ${count(entries.length)}.`;
  const table = plainTable(`${podium.title} on ${device}`, best, columns, { titled: 1 });
  return el("div.podium", el("h3", device), table, el("p.note", text));
}
