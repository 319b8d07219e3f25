/**
 * "Which model is fastest?": three podiums with shared ranks.
 */

const PODIUMS = {
  __proto__: null,
  throughput: {
    title: "Throughput",
    unit: "img/s",
    write: rate,
    of: (view, row) =>
      ["throughput_samples_per_s", "throughput_low", "throughput_high"].map((name) => view.rows.number(name)[row]),
  },
  absolute: {
    title: "Absolute speedup",
    unit: "img/s more",
    write: (value) => `${signed(value)} img/s`,
    of: (view, row) => {
      const [candidate, baseline, low, high] = [
        "throughput_samples_per_s",
        "baseline_throughput_samples_per_s",
        "speedup_low",
        "speedup_high",
      ].map((name) => view.rows.number(name)[row]);
      const value = present(view.rows.number("speedup")[row]) ? candidate - baseline : NaN;
      return coversProcesses(view, row) ? [value, baseline * (low - 1), baseline * (high - 1)] : [value, NaN, NaN];
    },
  },
  percent: {
    title: "Speedup percent",
    unit: "%",
    write: (value) => `${signed(value, percent)} %`,
    of: (view, row) => {
      const found = ["speedup", "speedup_low", "speedup_high"].map((name) => 100 * (view.rows.number(name)[row] - 1));
      return coversProcesses(view, row) ? found : [found[0], NaN, NaN];
    },
  },
};

/** Whether the interval covers how processes differ; one that does not gives no rank. */
const coversProcesses = (view, row) => present(view.rows.number("freedom")[row]);

const PODIUM_PLACES = 10;
const PODIUM_DEVICES = 6;

function fastestSection(state) {
  podiumTabs(state);
}

/** Tabs by the ARIA pattern: arrows move, one tab is in the tab order. */
function podiumTabs(state) {
  const names = Object.keys(PODIUMS);
  const tabs = names.map((name) =>
    el(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${name}`,
        "aria-controls": "podium",
        data: { tab: name },
        on: {
          click: () => state.set({ tab: name }, { replace: true }),
          keydown: (event) => {
            const step = { ArrowRight: 1, ArrowLeft: -1, Home: -names.length, End: names.length }[event.key];
            if (!step) return;
            event.preventDefault();
            const place =
              Math.abs(step) === 1
                ? (names.indexOf(name) + step + names.length) % names.length
                : step < 0
                  ? 0
                  : names.length - 1;
            state.set({ tab: names[place] }, { replace: true });
            tabs[place].focus();
          },
        },
      },
      PODIUMS[name].title,
    ),
  );
  const [list, panel] = [byId("podium-tabs"), byId("podium")];
  fill(list, tabs);
  addPanel(
    panel.parentElement,
    (view) => {
      const chosen = PODIUMS[view.state.tab] ? view.state.tab : "throughput";
      tabs.forEach((tab, place) => {
        tab.setAttribute("aria-selected", String(names[place] === chosen));
        tab.tabIndex = names[place] === chosen ? 0 : -1;
      });
      panel.setAttribute("aria-labelledby", `tab-${chosen}`);
      drawPodium(view, panel, PODIUMS[chosen]);
    },
    { follows: ["tab", "place"], worth: (view) => view.pairs.length > 1 },
  );
}

/** The best pairs of each device, at one resolution and batch size: by default at the commonest. */
function drawPodium(view, panel, podium) {
  const devices = view.distinct("device");
  const shown = devices.slice(0, PODIUM_DEVICES);
  const places = podiumPlaces(view);
  const place =
    places.get(view.state.place) ?? [...places.values()].reduce((a, b) => (b.rows.length > a.rows.length ? b : a));
  const lists = shown.map((device) => podiumList(view, place.rows, device, podium)).filter(Boolean);
  const absent = view.overview.failed ? `${count(view.overview.failed)} failed pairs are not ranked. ` : "";
  fill(
    panel,
    places.size > 1 ? placePicker(view, places, place) : null,
    el("p", {
      class: "note",
      text: `${podium.title} of ${shortMode(view.state.candidate)}${podium === PODIUMS.throughput ? "" : ` over ${shortMode(view.state.baseline)}`} at ${place.text}. ${absent}Pairs whose intervals overlap the leader’s share its rank.${devices.length > shown.length ? ` The first ${shown.length} of ${devices.length} devices.` : ""}`,
    }),
    lists.length
      ? el("div", { class: "podiums" }, lists)
      : emptyState(`No pair in this selection has a ${podium.title.toLowerCase()}.`),
  );
}

/** The selection's rows by resolution and batch size, under "224x8". */
function podiumPlaces(view) {
  return view.once("podium places", () => {
    const [resolution, batch] = ["resolution_px", "batch_size"].map((name) => view.rows.number(name));
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
  const select = el(
    "select",
    { id: "place", on: { change: () => view.state.set({ place: select.value }, { replace: true }) } },
    [...places.values()].map(({ key, text, rows }) =>
      el("option", { value: key, text: `${text} (${count(rows.length)})` }),
    ),
  );
  select.value = chosen.key;
  return el("p", { class: "picker" }, el("label", { for: "place", text: "At" }), select);
}

/** Rows of one device by a podium's figure, best first, with ranks. */
function ranked(view, rows, device, podium) {
  const column = view.rows.category("device");
  const code = column.values.indexOf(device);
  const entries = [];
  for (const row of rows) {
    if (column.data[row] !== code) continue;
    const [value, low, high] = podium.of(view, row);
    if (value === value) entries.push({ row, value, low, high });
  }
  const total = entries.length;
  return { total, entries: shareRanks(entries.sort((a, b) => b.value - a.value)) };
}

/** Pairs whose intervals overlap their leader's share its rank; the next rank counts all before it. */
function shareRanks(entries) {
  let leader = null;
  let rank = 0;
  entries.forEach((entry, place) => {
    if (!present(entry.low) || !present(entry.high)) entry.rank = null;
    else {
      if (!leader || entry.high < leader.low) [leader, rank] = [entry, place + 1];
      entry.rank = rank;
    }
  });
  return entries;
}

function podiumList(view, rows, device, podium) {
  const { total, entries } = ranked(view, rows, device, podium);
  if (!entries.length) return null;
  const best = entries.slice(0, PODIUM_PLACES);
  const most = Math.max(...best.map((entry) => Math.abs(entry.value)));
  const body = best.map(({ row, rank, value, low, high }) => {
    const verdict = podium === PODIUMS.throughput ? "" : view.rows.text("verdict", row);
    const bar = el("span", { class: `bar ${verdict}${view.doubt(row) ? " hollow" : ""}`, "aria-hidden": "true" });
    bar.style.width = `${(100 * Math.abs(value)) / (most || 1)}%`;
    const bounds = present(low) && present(high) ? `${short(low)}–${short(high)}` : "no interval";
    return el(
      "tr",
      {},
      el("td", { class: "rank", text: rank ?? NONE }),
      el(
        "th",
        { scope: "row" },
        el(
          "button",
          {
            type: "button",
            class: "link",
            title: "Show only this model",
            on: { click: () => view.state.set({ model: view.rows.text("model", row) }) },
          },
          view.rows.text("model", row),
        ),
        el("span", {
          class: "note",
          text: rowSettings(view, row, { device: false }),
        }),
      ),
      el(
        "td",
        { class: "number" },
        el("b", { text: `${podium.write(value)}${view.doubt(row)}` }),
        el("span", { class: "note", text: bounds }),
        el("span", { class: "track", "aria-hidden": "true" }, bar),
      ),
    );
  });
  const few =
    total < PODIUM_PLACES ? `Only ${plural(total, "pair")} here.` : `The best ${PODIUM_PLACES} of ${count(total)}.`;
  return el(
    "div",
    { class: "podium" },
    el("h3", { text: device }),
    scrollBox(
      el(
        "table",
        {},
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col", text: "Rank" }),
            el("th", { scope: "col", text: "Model" }),
            el("th", { scope: "col", class: "number", text: `${podium.title} (${podium.unit})` }),
          ),
        ),
        el("tbody", {}, body),
      ),
      `${podium.title} on ${device}`,
    ),
    el("p", { class: "note", text: few }),
  );
}
