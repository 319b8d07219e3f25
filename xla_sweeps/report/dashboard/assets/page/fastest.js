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
    { follows: ["tab"], worth: (view) => view.pairs.length > 1 },
  );
}

/** The best pairs of each device. */
function drawPodium(view, panel, podium) {
  const devices = view.distinct("device");
  const resolutions = view.distinct("resolution_px");
  const shown = devices.slice(0, PODIUM_DEVICES);
  const mixed_ = resolutions.length > 1 || view.distinct("batch_size").length > 1;
  const pick = resolutions.length > 1 || view.state.resolution_px.size === 1 ? resolutionPicker(view) : null;
  const lists = shown.map((device) => podiumList(view, device, podium)).filter(Boolean);
  const absent = view.overview.failed ? `${count(view.overview.failed)} failed pairs are not ranked. ` : "";
  fill(
    panel,
    pick,
    el("p", {
      class: "note",
      text: `${podium.title} of ${shortMode(view.state.candidate)}${podium === PODIUMS.throughput ? "" : ` over ${shortMode(view.state.baseline)}`}. ${absent}Pairs whose intervals overlap the leader’s share its rank.${mixed_ ? " Resolutions or batch sizes are mixed: choose one above." : ""}${devices.length > shown.length ? ` The first ${shown.length} of ${devices.length} devices.` : ""}`,
    }),
    lists.length
      ? el("div", { class: "podiums" }, lists)
      : emptyState(`No pair in this selection has a ${podium.title.toLowerCase()}.`),
  );
}

/** Buttons that set the resolution filter. */
function resolutionPicker(view) {
  const facet = view.index.facets.get("resolution_px");
  const values = facet.sorted.map((code) => facet.values[code]).filter(Boolean);
  if (values.length > 14) return null;
  return el(
    "div",
    { class: "picker", role: "group", "aria-label": "Resolution" },
    el("span", { text: "At " }),
    values.map((value) =>
      el(
        "button",
        {
          type: "button",
          class: "small",
          "aria-pressed": String(view.state.resolution_px.has(value)),
          on: { click: () => view.state.only("resolution_px", value) },
        },
        `${value} px`,
      ),
    ),
  );
}

/** Rows of one device by a podium's figure, best first, with ranks. */
function ranked(view, device, podium) {
  const column = view.rows.category("device");
  const code = column.values.indexOf(device);
  const entries = [];
  for (const row of view.pairs) {
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

function podiumList(view, device, podium) {
  const { total, entries } = ranked(view, device, podium);
  if (!entries.length) return null;
  const best = entries.slice(0, PODIUM_PLACES);
  const most = Math.max(...best.map((entry) => Math.abs(entry.value)));
  const body = best.map(({ row, rank, value, low, high }) => {
    const bar = el("span", { class: `bar${value < 0 ? " negative" : ""}`, "aria-hidden": "true" });
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
          text: `${view.rows.number("resolution_px")[row]} px · batch ${view.rows.number("batch_size")[row]} · ${view.rows.text("precision", row)}`,
        }),
      ),
      el(
        "td",
        { class: "number" },
        el("b", { text: podium.write(value) }),
        el("span", { class: "note", text: bounds }),
        el("span", { class: "track", "aria-hidden": "true" }, bar),
      ),
    );
  });
  const few =
    total < PODIUM_PLACES
      ? `Only ${plural(total, "pair")} in this selection.`
      : `The best ${PODIUM_PLACES} of ${count(total)}.`;
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
