/**
 * The figures behind the answer: a row for each device; or, of one model on one device, each configuration with its
 * modes, costs and command.
 */

const SPREAD_BINS = 28;
const CARDS_SHOWN = 4;

/** A row for each device: typical, shares of the verdicts, best, worst, spread. */
function deviceTable(view) {
  if (!view.overview.pairs) return null;
  const { rows } = view;
  const speedup = rows.number("speedup");
  const known = view.sorted("speedup").filter((row) => view.best[row]);
  const ends = known.length ? [speedup[known[0]], speedup[known.at(-1)]].map(Math.log2) : [0, 0];
  const device = rows.column("device");
  return plainTable({
    head: ["Device", "Typical", "Verdicts", "Best", "Worst", `Spread, ${times(2 ** ends[0])} to ${times(2 ** ends[1])}`],
    rows: view.distinct("device").map((name) => {
      const code = device.values.indexOf(name);
      const sorted = known.filter((row) => device.data[row] === code);
      const sums = overviewOf(rows, view.counted.filter((row) => device.data[row] === code));
      return [
        name,
        el("b", { text: times(sums.geomean) }),
        verdictShares(sums),
        ...[sorted.at(-1), sorted[0]].map((row) => (row === undefined ? NONE : extremeOf(view, row))),
        sorted.length ? spreadOf(sorted, (row) => Math.log2(speedup[row]), ends) : NONE,
      ];
    }),
  });
}

/** The share of each verdict as a bar, and in words below it. */
function verdictShares(sums) {
  const found = Object.keys(VERDICTS).filter((verdict) => sums[verdict]);
  const parts = found.map((verdict) => el("span", { class: `part ${verdict}`, style: { flexGrow: sums[verdict] } }));
  const said = (verdict) => ` ${share(sums[verdict], sums.pairs)} ${VERDICTS[verdict].word}`;
  return el(
    "div",
    { class: "shares" },
    el("div", { class: "strip", "aria-hidden": "true" }, parts),
    el("div", { class: "legend" }, found.map((verdict) => el("span", { class: "entry" }, symbolOf(verdict), said(verdict)))),
  );
}

/** A model at an end of the order, and its speedup; a click shows only this model. */
function extremeOf(view, row) {
  const model = view.rows.text("model", row);
  const link = linkButton(cut(model, 40), () => view.state.set({ model }), { title: rowName(view, row) });
  return el("span", {}, link, ` ${speedupOf(view, row)}`);
}

/** How many configurations lie where between two ends, on a logarithmic scale, and where 1× is. */
function spreadOf(rows, logOf, [low, high]) {
  const width = (high - low) / SPREAD_BINS || 1;
  const place = (log) => Math.min(SPREAD_BINS - 1, Math.max(0, Math.floor((log - low) / width)));
  const bins = new Uint32Array(SPREAD_BINS);
  for (const row of rows) bins[place(logOf(row))] += 1;
  const most = Math.max(...bins);
  const columns = Array.from(bins, (n, bin) =>
    el(
      "span",
      { class: low < 0 && high > 0 && bin === place(0) ? "unity" : null },
      el("span", { style: { height: `${n ? Math.max(8, (100 * n) / most) : 0}%` } }),
    ),
  );
  return el("span", { class: "spread", "aria-hidden": "true" }, columns);
}

/** Each configuration of one model on one device. */
function configurationCards(view) {
  const [px, batch] = view.rows.numbers("resolution_px", "batch_size");
  const rows = Array.from(view.counted).sort((a, b) => px[a] - px[b] || batch[a] - batch[b]);
  const more = rows.length - CARDS_SHOWN;
  const differing = FACETS.filter(({ column }) => QUESTION.includes(column) && view.distinct(column).length > 1);
  const choose = allOf(differing.map(({ title }) => title.toLowerCase()));
  return [
    ...rows.slice(0, CARDS_SHOWN).map((row) => configurationCard(view, row, rows.length > 1)),
    more > 0 && el("p", { class: "note", text: `${plural(more, "more configuration")}: choose ${choose} above.` }),
  ];
}

/** One configuration: bars of its modes, what it costs, the command, the log and the run in W&B. */
function configurationCard(view, row, titled) {
  const { rows } = view;
  const command = rows.text("command", row);
  const title = ` ${speedupOf(view, row)} at ${rowSettings(view, row, { device: false })}`;
  const costs = costsOf(view, row).map(([name, value, about]) =>
    el("div", {}, el("dt", { text: name }), el("dd", {}, el("b", { text: value }), el("span", { text: about }))),
  );
  const links = linksOf(view, row);
  return el(
    "div",
    { class: "configuration" },
    titled && el("h3", {}, verdictMark(rows.text("verdict", row)), title),
    modeBars(view, row),
    el("dl", { class: "keys" }, costs),
    command && el("p", { class: "run" }, "Measure again: ", el("code", { text: command }), " ", copyButton(view, row)),
    links.length > 0 && el("p", { class: "run" }, links),
  );
}

/** The throughput of each mode of a row's trial, by label: value, bounds, and whether it failed. */
function modesOf({ rows, index }, row) {
  const modes = new Map();
  for (let other = 0; other < rows.count; other++) {
    if (index.trial[other] !== index.trial[row]) continue;
    for (const side of ["candidate", "baseline"]) {
      const prefix = side === "baseline" ? "baseline_" : "";
      const names = ["throughput_samples_per_s", "throughput_low", "throughput_high"];
      const jit = rows.text(`${prefix}jit_compile`, other);
      const [value, low, high] = rows.at(other, ...names.map((name) => prefix + name));
      const label = rows.text(side, other);
      if (label && (!modes.has(label) || present(value))) modes.set(label, { value, low, high, jit });
    }
  }
  const order = Object.keys(rows.meta.switches ?? {});
  const rank = (label) => order.indexOf(modeOf(label));
  return [...modes].sort(([a], [b]) => rank(a) - rank(b) || naturally(a, b));
}

/** What Keras made of a mode that leaves it the choice: ", with XLA", or "". */
const chosenBy = (label, jit) =>
  jit && !/xla|graph|eager|host/.test(label) ? `, ${jit === "true" ? "with" : "without"} XLA` : "";

/** A bar for each mode, from zero, with its interval. */
function modeBars(view, row) {
  const modes = modesOf(view, row);
  const most = Math.max(...modes.map(([, { value, high }]) => [high, value, 0].find(present))) || 1;
  const percentOf = (value) => `${(100 * value) / most}%`;
  const lines = modes.map(([label, { value, low, high, jit }]) => {
    const chosen = label === view.rows.text("candidate", row) ? view.rows.text("verdict", row) : "";
    const bounded = present(low) && present(high);
    const bar = el("span", {
      class: `bar ${chosen}${view.doubt(row) ? " hollow" : ""}`,
      style: { width: percentOf(present(value) ? value : 0) },
    });
    const place = bounded && { left: percentOf(low), width: percentOf(high - low) };
    const whisker = bounded && el("span", { class: "whisker", style: place });
    const text = `${rate(value)}${bounded ? ` (${range(low, high, short)})` : ""}`;
    return el(
      "tr",
      {},
      el("th", { scope: "row", text: `${shortMode(label)}${chosenBy(label, jit)}` }),
      el("td", {}, el("span", { class: "mode-track", "aria-hidden": "true" }, bar, whisker)),
      el("td", { class: "number", text: present(value) ? text : "failed" }),
    );
  });
  return el("table", { class: "modes" }, el("tbody", {}, lines));
}

/** Compile time, break-even, memory and replicates: name, value and explanation. */
function costsOf(view, row) {
  const number = (name) => view.rows.number(name)[row];
  const needed = view.breakEven(row);
  const baseline = shortMode(view.rows.text("baseline", row));
  return [
    ["Compile time", signed(number("compile_s_extra"), seconds), `over ${baseline}`],
    ["Break-even", Number.isNaN(needed) ? NONE : images(needed), Number.isFinite(needed) ? breakEvenRange(view, row).trim() : ""],
    ["Peak memory", times(number("peak_memory_ratio")), `of ${baseline}’s`],
    ["Replicates", count(number("replicates")), number("preliminary") ? "preliminary: fewer than three" : ""],
  ].filter(([, value]) => value !== NONE);
}
