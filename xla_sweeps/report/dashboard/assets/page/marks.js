/**
 * Marks and words that several charts share: what is drawn, markers of verdicts and modes, doubt, panels of devices.
 */

/** What over what, where, when and how many: what a picture of the chart must still say. */
function subjectOf(view, what = `Speedup of ${versus(view)}`) {
  return view.once(`subject ${what}`, () => {
    return [
      what,
      someOf(view.distinct("device"), 3),
      ...nameParts(view).shared.filter((part) => !view.distinct("device").includes(part)),
      `${plural(view.overview.pairs, "configuration")} of ${plural(view.distinct("model").length, "model")}`,
      daysOf(view.distinct("measured_at")),
    ]
      .filter(Boolean)
      .join(" · ");
  });
}

/** "2026-11-01 to 2026-11-05": the days between which something was measured, of dates as text; "" without any. */
function daysOf(texts) {
  const known = texts.filter(Boolean);
  if (!known.length) return "";
  const ends = [(a, b) => (b < a ? b : a), (a, b) => (b > a ? b : a)].map((better) => known.reduce(better).slice(0, 10));
  return [...new Set(ends)].join(" to ");
}

/** "XLA over graph". */
const versus = ({ state }) => `${shortMode(state.candidate)} over ${shortMode(state.baseline)}`;

/** Who measured with what. */
function sourceOf(view) {
  return view.once("source", () => {
    const { version } = view.rows.meta;
    const published = view.distinct("origin").every((origin) => origin === "imported");
    return [
      `${published ? "Published by others; collected" : "Measured"} with xla_sweeps ${version ?? ""}`.trim(),
      someOf(view.distinct("software").filter(Boolean), 2, "; "),
      someOf(view.distinct("driver").filter(Boolean), 2),
    ]
      .filter(Boolean)
      .join(" · ");
  });
}

/** "A, B and 3 more". */
const someOf = (names, most, between = ", ") =>
  names.slice(0, most).join(between) + (names.length > most ? ` and ${names.length - most} more` : "");

/** "NVIDIA A100-SXM4-80GB" as "A100-SXM4-80GB". */
const shortDevice = (device) =>
  cut(device.replace(/^(NVIDIA|AMD|Intel\(R\)|Tesla|GeForce)\s+/i, "").replace(/\s+(CPU|Processor).*$/i, ""), 18);

/** Resolution, batch, precision and device of a row, and what else tells it apart. */
function rowSettings(view, row, { device = true } = {}) {
  const { rows } = view;
  const parts = [
    `${rows.number("resolution_px")[row]} px`,
    `batch ${rows.number("batch_size")[row]}`,
    rows.text("precision", row),
    ...(device ? [rows.text("device", row)] : []),
  ];
  return `${parts.join(" · ")}${view.index.suffix(row)}`;
}

/** A row's whole name, which no other has: for tooltips and tables. */
const rowName = (view, row) => `${view.rows.text("model", row)} · ${rowSettings(view, row)}`;

/** The parts of a row's name in which the pairs differ, and those that all share. */
function nameParts(view) {
  return view.once("name parts", () => {
    const parts = [
      ["resolution_px", " px", ""],
      ["batch_size", "", "batch "],
      ["precision", "", ""],
      ["device", "", ""],
    ];
    const [shared, differing] = [[], []];
    for (const [column, after, before] of parts) {
      const values = view.distinct(column);
      if (values.length > 1) differing.push([column, after, before]);
      else if (values[0]) shared.push(`${before}${values[0]}${after}`);
    }
    const options = view.distinct("runtime");
    if (options.length === 1 && options[0]) shared.push(options[0]);
    return { shared, differing };
  });
}

/** A row's name without what all pairs share; or the part of it that rows share which differ in one column only. */
function rowLabel(view, row, { without = "" } = {}) {
  const facets = view.index.facets;
  const value = (column) => facets.get(column).values[facets.get(column).data[row]];
  const written = ([column, after, before]) =>
    `${before}${column === "device" ? shortDevice(value(column)) : value(column)}${after}`;
  const settings = nameParts(view).differing.filter(([column]) => column !== without);
  const name = [view.rows.text("model", row), ...settings.map(written)].join(" · ");
  return without ? name : name + view.index.suffix(row);
}

/** The widest band of no difference among rows. */
function floorOf(view) {
  return view.once("floor", () => {
    const floor = view.rows.number("floor");
    let most = 0;
    for (const row of view.pairs) if (floor[row] > most) most = floor[row];
    return most || 0.01;
  });
}

/** The 1× line and the band of no difference, of speedups along `x` or `y`. */
function unityMarks(theme, floor, along) {
  const ends = { [`${along}1`]: 1 / (1 + floor), [`${along}2`]: 1 + floor };
  const rule = along === "x" ? Plot.ruleX : Plot.ruleY;
  return [floor ? Plot.rect([0], { ...ends, fill: theme.band }) : null, rule([1], { stroke: theme.quiet })];
}

const PANELS_MOST = 6;

/** A panel for each device, side by side where they have room: `{shown, channel, facets, heads, height, note}`. */
function devicePanels(devices, width) {
  const shown = devices.slice(0, PANELS_MOST);
  const across = shown.length * 270 <= width;
  const channel = across ? "fx" : "fy";
  const name = { [channel]: (device) => device, text: (device) => chartText(cutMiddle(device, 40)) };
  return {
    shown,
    channel,
    facets: { [channel]: { domain: shown, axis: null, padding: across ? 0.08 : 0.2 } },
    heads: Plot.text(shown, { ...name, frameAnchor: "top-left", dy: -14, fontWeight: "bold", fontSize: 12 }),
    height: across ? 340 : 60 + (width < 600 ? 120 : 240) * shown.length,
    note: devices.length > shown.length ? `The first ${shown.length} of ${devices.length} devices.` : "",
  };
}

/** Full, or hollow if there is doubt: the colours of a mark, for items with a `doubt`. */
const hollowIf = (theme, colour) => ({
  fill: (item) => (item.doubt ? theme.panel : colour(item)),
  stroke: colour,
  strokeWidth: 1.3,
});

const VERDICT_SHAPES = {
  __proto__: null,
  faster: { symbol: "triangle" },
  slower: { symbol: "triangle", rotate: 180 },
  equivalent: { symbol: "square" },
  ambiguous: { symbol: "diamond" },
};

/** Channels of a dot for items with a `verdict` and a `doubt`. */
const verdictDots = (theme) => ({
  symbol: ({ verdict }) => VERDICT_SHAPES[verdict]?.symbol ?? "circle",
  rotate: ({ verdict }) => VERDICT_SHAPES[verdict]?.rotate ?? 0,
  ...hollowIf(theme, ({ verdict }) => theme[verdict] ?? theme.quiet),
});

const MODE_SHAPES = { __proto__: null, eager: ["circle", "●"], graph: ["square", "■"], xla: ["triangle", "▲"] };

/** A mode's marker, as a symbol of Plot and as text. */
const modeShape = (label) => MODE_SHAPES[modeOf(label)] ?? ["diamond", "◆"];

/** Legend entries: a marker in its colour and a word each. */
function legendOf(entries) {
  return entries.map(({ mark = "", colour = "", text }) => {
    const symbol = mark && el("span", { "aria-hidden": "true", data: { colour }, text: mark });
    if (symbol) symbol.style.color = colour;
    return el("span", { class: mark ? "entry" : "entry wrap" }, symbol, ` ${text}`);
  });
}

/** The verdicts among the items, and what hollow means if any is. */
function verdictLegend(theme, verdicts, doubts = []) {
  const present = new Set(verdicts);
  const known = Object.entries(VERDICTS).filter(([verdict]) => present.has(verdict) && verdict !== "failed");
  return [...known.map(([verdict, { symbol, word }]) => ({ mark: symbol, colour: theme[verdict], text: word })), ...doubtLegend(doubts)];
}

/** What hollow means, if any of the marks of doubt is there. */
function doubtLegend(doubts) {
  const all = doubts.join("");
  const meanings = [
    all.includes("*") ? "* fewer than 3 replicates: preliminary" : "",
    all.includes("~") ? "~ contaminated by other load on the machine" : "",
  ].filter(Boolean);
  return meanings.length ? [{ text: `hollow: ${meanings.join("; ")}` }] : [];
}

/**
 * The values of `{at, value}`, those of the same place moved apart, so that labels `gap` pixels high do not overlap on a
 * logarithmic scale of this domain and height.
 */
function spread(points, [low, high], height, gap = 13) {
  const labels = points.map(({ at, value }) => ({ at, y: (height * Math.log(value / low)) / Math.log(high / low) }));
  for (const place of new Set(points.map(({ at }) => at))) {
    const own = labels.filter(({ at }) => at === place).sort((a, b) => a.y - b.y);
    own.forEach((label, n) => {
      if (n) label.y = Math.max(label.y, own[n - 1].y + gap);
    });
    let top = height;
    for (const label of own.toReversed()) {
      label.y = Math.min(label.y, top);
      top = label.y - gap;
    }
  }
  return labels.map(({ y }) => low * (high / low) ** (y / height));
}

/** What a mouse over a pair says. */
function pairTip(view, row) {
  const { rows } = view;
  const n = (name) => rows.number(name)[row];
  const verdict = VERDICTS[rows.text("verdict", row)];
  const paid = view.breakEven(row);
  const back = Number.isNaN(paid)
    ? "unknown whether it pays back"
    : paid === Infinity
      ? "never pays back"
      : `pays back after ${images(paid)}`;
  return [
    rowName(view, row),
    `${verdict?.symbol ?? ""} ${verdict?.word ?? ""} · ${times(n("speedup"))}${view.doubt(row)} (95 % ${range(n("speedup_low"), n("speedup_high"))})`,
    `${rows.text("candidate", row)} ${rate(n("throughput_samples_per_s"))}, ${rows.text("baseline", row)} ${rate(n("baseline_throughput_samples_per_s"))}`,
    present(n("compile_s_extra")) ? `extra compile time ${seconds(n("compile_s_extra"))}, ${back}` : "",
    `${plural(n("replicates"), "replicate")}${n("preliminary") ? `, preliminary${withinOneProcess(rows, row)}` : ""}${rows.text("status", row) === "contaminated" ? ", contaminated" : ""}`,
  ];
}
