/**
 * "Which model is fastest?": three podiums with shared ranks.
 */

/** Each podium: how its figure is written, and the figure with its interval. */
const PODIUMS = {
  __proto__: null,
  throughput: {
    title: "Throughput",
    unit: "img/s",
    write: rate,
    of: ({ rows }, row) => rows.at(row, "throughput_samples_per_s", "throughput_low", "throughput_high"),
  },
  absolute: {
    title: "Absolute speedup",
    unit: "img/s more",
    write: (value) => `${signed(value)} img/s`,
    of: (view, row) => {
      const baseline = view.rows.number("baseline_throughput_samples_per_s")[row];
      const [value, ...ends] = ratios(view, row).map((ratio) => baseline * (ratio - 1));
      const gained = view.rows.number("throughput_samples_per_s")[row] - baseline;
      return [Number.isNaN(value) ? NaN : gained, ...ends];
    },
  },
  percent: {
    title: "Speedup percent",
    unit: "%",
    write: (value) => `${signed(value, percent)} %`,
    of: (view, row) => ratios(view, row).map((ratio) => 100 * (ratio - 1)),
  },
};

/** A row's speedup and interval; one that does not cover how processes differ gives no rank. */
function ratios({ rows }, row) {
  const found = rows.at(row, "speedup", "speedup_low", "speedup_high");
  return present(rows.number("freedom")[row]) ? found : [found[0], NaN, NaN];
}

const PODIUM_PLACES = 10;
const PODIUM_DEVICES = 6;

/** Tabs by the ARIA pattern: arrows move, one tab is in the tab order. */
function fastestSection(state) {
  const names = Object.keys(PODIUMS);
  const choose = (place) => {
    state.set({ tab: names[place] }, { replace: true });
    tabs[place].focus();
  };
  const moved = (place, key) =>
    ({ ArrowRight: (place + 1) % names.length, ArrowLeft: (place || names.length) - 1, Home: 0, End: names.length - 1 })[key];
  const tabs = names.map((name, place) => {
    const tab = button(
      { role: "tab", id: `tab-${name}`, "aria-controls": "podium", data: { tab: name } },
      () => choose(place),
      PODIUMS[name].title,
    );
    tab.addEventListener("keydown", (event) => {
      const next = moved(place, event.key);
      if (next === undefined) return;
      event.preventDefault();
      choose(next);
    });
    return tab;
  });
  const panel = byId("podium");
  fill(byId("podium-tabs"), tabs);
  const draw = (view) => {
    const chosen = PODIUMS[view.state.tab] ? view.state.tab : "throughput";
    tabs.forEach((tab, place) => {
      tab.setAttribute("aria-selected", String(names[place] === chosen));
      tab.tabIndex = names[place] === chosen ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", `tab-${chosen}`);
    drawPodium(view, panel, PODIUMS[chosen]);
  };
  addPanel(panel.parentElement, draw, { follows: ["tab", "place"], worth: (view) => view.pairs.length > 1 });
}

/** The best pairs of each device, at one resolution and batch size: by default at the commonest. */
function drawPodium(view, panel, podium) {
  const devices = view.distinct("device");
  const shown = devices.slice(0, PODIUM_DEVICES);
  const places = podiumPlaces(view);
  const commonest = [...places.values()].reduce((a, b) => (b.rows.length > a.rows.length ? b : a));
  const place = places.get(view.state.place) ?? commonest;
  const what = podium === PODIUMS.throughput ? shortMode(view.state.candidate) : versus(view);
  const lists = shown.map((device) => podiumList(view, place.rows, device, podium)).filter(Boolean);
  const note = phrase([
    `${podium.title} of ${what} at ${place.text}.`,
    view.overview.failed && `${count(view.overview.failed)} that failed are not ranked.`,
    "Configurations whose intervals overlap the leader’s share its rank.",
    devices.length > shown.length && `The first ${shown.length} of ${devices.length} devices.`,
  ]);
  fill(
    panel,
    places.size > 1 && placePicker(view, places, place),
    el("p", { class: "note", text: note }),
    lists.length
      ? el("div", { class: "podiums" }, lists)
      : emptyState(`Nothing in this selection has a ${podium.title.toLowerCase()}.`),
  );
}

/** The selection's rows by resolution and batch size, under "224x8". */
function podiumPlaces(view) {
  return view.once("podium places", () => {
    const [resolution, batch] = view.rows.numbers("resolution_px", "batch_size");
    const places = new Map();
    for (const row of view.pairs) {
      const key = `${resolution[row]}x${batch[row]}`;
      if (!places.has(key)) places.set(key, { key, text: `${resolution[row]} px, batch ${batch[row]}`, rows: [] });
      places.get(key).rows.push(row);
    }
    return new Map([...places].sort(([a], [b]) => naturally(a, b)));
  });
}

/** A choice of resolution and batch size for the podiums alone. */
function placePicker(view, places, chosen) {
  const write = (key) => `${places.get(key).text} (${count(places.get(key).rows.length)})`;
  const select = selectOf({ id: "place" }, [...places.keys()], write, (place) =>
    view.state.set({ place }, { replace: true }),
  );
  select.value = chosen.key;
  return el("p", { class: "picker" }, el("label", { for: "place", text: "At" }), select);
}

/** Rows of one device by a podium's figure, best first, with ranks. */
function ranked(view, rows, device, podium) {
  const { data, values } = view.rows.column("device");
  const code = values.indexOf(device);
  const entries = rows
    .filter((row) => data[row] === code)
    .map((row) => {
      const [value, low, high] = podium.of(view, row);
      return { row, value, low, high };
    });
  return shareRanks(entries.filter(({ value }) => value === value).sort((a, b) => b.value - a.value));
}

/** Entries whose intervals overlap their leader's share its rank; the next rank counts all before it. */
function shareRanks(entries) {
  let leader = null;
  let rank = 0;
  return entries.map((entry, place) => {
    if (!isBounded(entry)) return { ...entry, rank: null };
    if (!leader || entry.high < leader.low) [leader, rank] = [entry, place + 1];
    return { ...entry, rank };
  });
}

function podiumList(view, rows, device, podium) {
  const entries = ranked(view, rows, device, podium);
  if (!entries.length) return null;
  const best = entries.slice(0, PODIUM_PLACES);
  const most = Math.max(...best.map((entry) => Math.abs(entry.value))) || 1;
  const nameOf = ({ row }) => {
    const model = view.rows.text("model", row);
    const link = linkButton(model, () => view.state.set({ model }), { title: "Show only this model" });
    return el("span", {}, link, el("span", { class: "note", text: rowSettings(view, row, { device: false }) }));
  };
  const figureOf = ({ row, value, low, high }) => {
    const verdict = podium === PODIUMS.throughput ? "" : view.rows.text("verdict", row);
    const kind = `bar ${verdict}${view.doubt(row) ? " hollow" : ""}`;
    const bar = el("span", { class: kind, style: { width: `${(100 * Math.abs(value)) / most}%` } });
    return el(
      "span",
      {},
      el("b", { text: `${podium.write(value)}${view.doubt(row)}` }),
      el("span", { class: "note", text: isBounded({ low, high }) ? range(low, high, short) : "no interval" }),
      el("span", { class: "track", "aria-hidden": "true" }, bar),
    );
  };
  const few = entries.length < PODIUM_PLACES;
  return el(
    "div",
    { class: "podium" },
    el("h3", { text: device }),
    plainTable({
      caption: `${podium.title} on ${device}`,
      head: ["Rank", "Model", `${podium.title} (${podium.unit})`],
      titled: 1,
      rows: best.map((entry) => [entry.rank ?? NONE, nameOf(entry), figureOf(entry)]),
    }),
    el("p", { class: "note", text: few ? `Only ${entries.length} here.` : `The best ${PODIUM_PLACES} of ${count(entries.length)}.` }),
  );
}
