/**
 * The figures behind the answer: a row for each device; or, of one model on one device, each configuration with its
 * modes, costs and command.
 */

const SPREAD_BINS = 28;
const CARDS_SHOWN = 4;

/** A row for each device: typical, shares of the verdicts, best, worst, spread. */
function deviceTable(view) {
  const { rows } = view;
  const speedup = rows.number("speedup");
  const known = view.sorted("speedup").filter((row) => view.best[row]);
  if (!view.overview.pairs) return null;
  const ends = known.length ? [speedup[known[0]], speedup[known.at(-1)]].map(Math.log2) : [0, 0];
  const device = rows.category("device");
  const lines = view.distinct("device").map((name) => {
    const own = (row) => device.values[device.data[row]] === name;
    const sorted = known.filter(own);
    const sums = overviewOf(rows, view.counted.filter(own));
    return [
      name,
      el("b", { text: times(sums.geomean) }),
      verdictShares(sums),
      ...[sorted.at(-1), sorted[0]].map((row) => (row === undefined ? NONE : extremeOf(view, row))),
      sorted.length ? spreadOf(Array.from(sorted, (row) => Math.log2(speedup[row])), ends) : NONE,
    ];
  });
  return plainTable({
    head: ["Device", "Typical", "Verdicts", "Best", "Worst", `Spread, ${times(2 ** ends[0])} to ${times(2 ** ends[1])}`],
    rows: lines,
    caption: "",
  });
}

/** The share of each verdict as a bar, and in words below it. */
function verdictShares(sums) {
  const found = Object.keys(VERDICTS).filter((verdict) => sums[verdict]);
  const parts = found.map((verdict) => {
    const part = el("span", { class: `part ${verdict}` });
    part.style.flexGrow = String(sums[verdict]);
    return part;
  });
  const words = found.map((verdict) =>
    el(
      "span",
      { class: "entry" },
      el("span", { class: `symbol ${verdict}`, "aria-hidden": "true", text: VERDICTS[verdict].symbol }),
      ` ${share(sums[verdict], sums.pairs)} ${VERDICTS[verdict].word}`,
    ),
  );
  return el(
    "div",
    { class: "shares" },
    el("div", { class: "strip", "aria-hidden": "true" }, parts),
    el("div", { class: "legend" }, words),
  );
}

/** A model at an end of the order, and its speedup; a click shows only this model. */
function extremeOf(view, row) {
  const model = view.rows.text("model", row);
  return el(
    "span",
    {},
    el("button", {
      type: "button",
      class: "link",
      title: rowName(view, row),
      text: cut(model, 40),
      on: { click: () => view.state.set({ model }) },
    }),
    ` ${times(view.rows.number("speedup")[row])}${view.doubt(row)}`,
  );
}

/** How many configurations lie where between two ends, on a logarithmic scale, and where 1× is. */
function spreadOf(logs, [low, high]) {
  const width = (high - low) / SPREAD_BINS || 1;
  const place = (log) => Math.min(SPREAD_BINS - 1, Math.max(0, Math.floor((log - low) / width)));
  const bins = new Uint32Array(SPREAD_BINS);
  for (const log of logs) bins[place(log)] += 1;
  const most = Math.max(...bins);
  const columns = Array.from(bins, (n, bin) => {
    const column = el("span", { class: low < 0 && high > 0 && bin === place(0) ? "unity" : null }, el("span"));
    column.firstElementChild.style.height = `${n ? Math.max(8, (100 * n) / most) : 0}%`;
    return column;
  });
  return el("span", { class: "spread", "aria-hidden": "true" }, columns);
}

/** Each configuration of one model on one device. */
function configurationCards(view) {
  const order = ["resolution_px", "batch_size"].map((name) => view.rows.number(name));
  const rows = Array.from(view.counted).sort((a, b) => order[0][a] - order[0][b] || order[1][a] - order[1][b]);
  const more = rows.length - CARDS_SHOWN;
  const differing = FACETS.filter(({ column }) => QUESTION.includes(column) && view.distinct(column).length > 1);
  return [
    ...rows.slice(0, CARDS_SHOWN).map((row) => configurationCard(view, row, rows.length > 1)),
    more > 0
      ? el("p", { class: "note", text: `${plural(more, "more configuration")}: choose ${allOf(differing.map(({ title }) => title.toLowerCase()))} above.` })
      : null,
  ];
}

/** One configuration: bars of its modes, what it costs, and the command. */
function configurationCard(view, row, titled) {
  const { rows } = view;
  const command = rows.text("command", row);
  return el(
    "div",
    { class: "configuration" },
    titled
      ? el(
          "h3",
          {},
          verdictMark(rows.text("verdict", row)),
          ` ${times(rows.number("speedup")[row])}${view.doubt(row)} at ${rowSettings(view, row, { device: false })}`,
        )
      : null,
    modeBars(view, row),
    el(
      "dl",
      { class: "keys" },
      costsOf(view, row).map(([name, value, about]) =>
        el("div", {}, el("dt", { text: name }), el("dd", {}, el("b", { text: value }), el("span", { text: about }))),
      ),
    ),
    command ? el("p", { class: "run" }, "Measure again: ", el("code", { text: command }), " ", copyButton(command, rows.text("model", row))) : null,
  );
}

/** The throughput of each mode of a row's trial, by label: value, bounds, and whether it failed. */
function modesOf({ rows, index }, row) {
  const modes = new Map();
  const sides = [
    ["candidate", ""],
    ["baseline", "baseline_"],
  ].map(([side, prefix]) => [
    side,
    ...["throughput_samples_per_s", "throughput_low", "throughput_high"].map((name) => rows.number(`${prefix}${name}`)),
  ]);
  for (let other = 0; other < rows.count; other++) {
    if (index.trial[other] !== index.trial[row]) continue;
    for (const [side, value, low, high] of sides) {
      const label = rows.text(side, other);
      if (label && (!modes.has(label) || present(value[other])))
        modes.set(label, { value: value[other], low: low[other], high: high[other] });
    }
  }
  const order = ["eager", "default", "graph", "autocluster", "xla"];
  const rank = (label) => order.indexOf(modeOf(label));
  return [...modes].sort(([a], [b]) => rank(a) - rank(b) || naturally(a, b));
}

/** A bar for each mode, from zero, with its interval. */
function modeBars(view, row) {
  const modes = modesOf(view, row);
  const most = Math.max(...modes.map(([, { value, high }]) => (present(high) ? high : present(value) ? value : 0))) || 1;
  const verdict = view.rows.text("verdict", row);
  const lines = modes.map(([label, { value, low, high }]) => {
    const chosen = label === view.rows.text("candidate", row);
    const bar = el("span", { class: `bar ${chosen ? verdict : ""}${view.doubt(row) ? " hollow" : ""}` });
    bar.style.width = `${present(value) ? (100 * value) / most : 0}%`;
    const track = el("span", { class: "mode-track", "aria-hidden": "true" }, bar);
    if (present(low) && present(high)) {
      const whisker = el("span", { class: "whisker" });
      whisker.style.left = `${(100 * low) / most}%`;
      whisker.style.width = `${(100 * (high - low)) / most}%`;
      track.append(whisker);
    }
    const interval = present(low) && present(high) ? ` (${range(low, high, short)})` : "";
    return [shortMode(label), track, present(value) ? `${rate(value)}${interval}` : "failed"];
  });
  return el(
    "table",
    { class: "modes" },
    el(
      "tbody",
      {},
      lines.map(([name, track, text]) =>
        el("tr", {}, el("th", { scope: "row", text: name }), el("td", {}, track), el("td", { class: "number", text })),
      ),
    ),
  );
}

/** Compile time, break-even, memory and replicates: name, value and explanation. */
function costsOf(view, row) {
  const number = (name) => view.rows.number(name)[row];
  const needed = view.breakEven(row);
  const over = `over ${shortMode(view.rows.text("baseline", row))}`;
  return [
    ["Compile time", signed(number("compile_s_extra"), seconds), over],
    [
      "Break-even",
      Number.isNaN(needed) ? NONE : images(needed),
      Number.isFinite(needed) ? breakEvenRange(view, row).trim() : "",
    ],
    ["Peak memory", times(number("peak_memory_ratio")), `of ${shortMode(view.rows.text("baseline", row))}’s`],
    ["Replicates", count(number("replicates")), number("preliminary") ? "preliminary: fewer than three" : ""],
  ].filter(([, value]) => value !== NONE);
}
