/**
 * Every pair from the fastest to the slowest: named bars, or, if there are many, columns with names at both ends.
 * A series is `{count, value, low, high, verdict, doubt, name, key}`: functions of the place in the order.
 */

const PAIRS_NAMED = 120;
const COLUMNS_MOST = 600;
const LETTER = 6.3; // pixels, about

/** The chart of all pairs. */
const sortedChart = () =>
  chart({ name: "pairs", build: sortedPairs, table: pairsTable, worth: (view) => view.overview.compared > 0 });

function sortedPairs(view, theme, width) {
  const rows = view.sorted("speedup").toReversed();
  const [speedup, low, high] = view.rows.numbers("speedup", "speedup_low", "speedup_high");
  const verdict = view.rows.column("verdict");
  const o = view.overview;
  const series = {
    count: rows.length,
    value: (i) => speedup[rows[i]],
    low: (i) => low[rows[i]],
    high: (i) => high[rows[i]],
    verdict: (i) => verdict.values[verdict.data[rows[i]]],
    doubt: (i) => view.doubt(rows[i]),
    name: (i) => rowLabel(view, rows[i]),
    key: (i) => rows[i],
  };
  const [candidate, baseline] = [shortMode(view.state.candidate), shortMode(view.state.baseline)];
  const models = view.distinct("model");
  const named = (row) => `${models.length > 1 ? `${view.rows.text("model", row)} ` : ""}${speedupOf(view, row)}`;
  const of = models.length > 1 ? "" : ` for ${models[0]}`;
  const faster = `${count(o.faster)} of ${plural(o.pairs, "configuration")}`;
  const axis = `speedup of ${candidate} over ${baseline}`;
  return {
    ...sortedBars(series, { theme, width, floor: floorOf(view), failed: o.failed, axis }),
    finding:
      rows.length > 1
        ? `${candidate} is faster than ${baseline}${of} in ${faster}: from ${named(rows[0])} to ${named(rows.at(-1))}`
        : `${candidate} over ${baseline}${of}: ${named(rows[0])}`,
    tip: (item) => tipOf(item, "measurement", (row) => pairTip(view, row)),
    click: ({ key }) => view.state.set({ model: view.rows.text("model", key) }),
  };
}

/** Bars of a series from 1×, sorted. */
function sortedBars(series, look) {
  const items = buckets(series, Math.min(series.count, series.count > PAIRS_NAMED ? COLUMNS_MOST : Infinity));
  const built = series.count > PAIRS_NAMED ? columns(series, items, look) : namedBars(series, items, look);
  return { ...built, legend: verdictLegend(look.theme, items) };
}

const isBounded = ({ low, high }) => present(low) && present(high);

/** Few: a line each, with name, whisker and figure. */
function namedBars(series, items, { theme, width, floor, failed, axis }) {
  const longest = Math.max(...items.map(({ at }) => series.name(at).length));
  const left = Math.min(12 + longest * LETTER, 560, width * 0.45);
  const name = (i) => chartText(cutMiddle(series.name(i), Math.floor((left - 8) / LETTER)));
  const whole = items.flatMap(({ value, low, high }) => [value, low, high]);
  const x = speedupScale(axis, whole, { wanted: width / 120 });
  return {
    how: "Bars start at 1×; whiskers are 95 % intervals; differences within the shaded band do not count.",
    note: failed ? `${plural(failed, "configuration")} failed and ${failed === 1 ? "has" : "have"} no bar.` : "",
    plot: {
      height: 64 + items.length * 18,
      marginLeft: left,
      marginRight: 84,
      marginTop: 34,
      marginBottom: 30,
      x: { ...x, axis: items.length > 12 ? "both" : "bottom", grid: true },
      y: { domain: items.map(({ at }) => at), label: null, tickSize: 0, tickFormat: name, padding: 0.25 },
      marks: [
        ...unityMarks(theme, floor, "x"),
        Plot.barX(items, { x1: 1, x2: "value", y: "at", ...hollowIf(theme, verdictColour(theme)) }),
        Plot.ruleY(items.filter(isBounded), { x1: "low", x2: "high", y: "at", stroke: theme.text }),
        Plot.text(items, {
          x: ({ value, high }) => Math.max(1, value, present(high) ? high : 0),
          y: "at",
          text: ({ verdict, value, doubt }) => `${VERDICTS[verdict]?.symbol ?? ""} ${times(value)}${doubt}`,
          textAnchor: "start",
          dx: 5,
        }),
        Plot.dot(items, Plot.pointerY({ x: "value", y: "at", r: 5, stroke: theme.text })),
      ],
    },
  };
}

/** Many: a column each, or the geometric mean of neighbours; names of the ends above; what failed as a tail. */
function columns(series, items, { theme, width, floor, failed = 0, axis }) {
  const end = items.length * (1 + failed / series.count);
  const narrow = width < 600; // the ends are named below one another, not side by side
  const [each, wide] = narrow ? [3, width - 70] : [8, width / 2 - 40];
  const room = (narrow ? 2 * each : each) * 14;
  const lineOf = (i) =>
    `${chartText(cutMiddle(series.name(i), Math.floor(wide / 6.5) - 8))}  ${times(series.value(i))}${series.doubt(i)}`;
  const namesFrom = (start) => [Array.from({ length: each }, (_, i) => lineOf(start + i)).join("\n")];
  const heads = { lineHeight: 1.2, fontSize: 11, lineAnchor: "bottom" };
  const colour = verdictColour(theme);
  const middle = ({ at }) => at + 0.45;
  const tail = !failed
    ? null
    : [
        Plot.rect([0], { x1: items.length, x2: end, fill: theme.failed, fillOpacity: 0.25 }),
        Plot.text([`✕ ${count(failed)} failed`], { frameAnchor: "bottom-right", dy: 16, fill: theme.text }),
      ];
  return {
    how: `${items.length < series.count ? "A column is the geometric mean of neighbours, grey where their verdicts differ" : "A column each, from 1×"}; the dark band is the 95 % interval; differences within the shaded band do not count.`,
    note: failed ? `Failed: the tail of ${count(failed)} at the right.` : "",
    plot: {
      height: (narrow ? 220 : 330) + room,
      marginTop: 16 + room,
      marginLeft: 46,
      marginBottom: 28,
      x: { domain: [0, end], axis: null },
      y: { ...speedupScale(axis, items.flatMap(({ value, low, high }) => [value, low, high])), grid: true },
      marks: [
        ...unityMarks(theme, floor, "y"),
        Plot.rect(items, {
          x1: "at",
          x2: ({ at }) => at + 0.9,
          y1: 1,
          y2: "value",
          fill: (item) => (item.doubt ? mixed(theme.panel, colour(item), 0.25) : colour(item)),
          stroke: (item) => (item.doubt ? colour(item) : "none"),
          strokeWidth: 0.6,
        }),
        Plot.areaY(items.filter(isBounded), { x: middle, y1: "low", y2: "high", fill: theme.text, fillOpacity: 0.3 }),
        tail,
        Plot.text(namesFrom(0), { ...heads, frameAnchor: "top-left", textAnchor: "start", dy: narrow ? -8 - room / 2 : -8 }),
        Plot.text(namesFrom(series.count - each), { ...heads, frameAnchor: "top-right", textAnchor: "end", dy: -8 }),
        Plot.ruleX(items, Plot.pointerX({ x: middle, stroke: theme.text, strokeOpacity: 0.5 })),
      ],
    },
  };
}

/** Neighbours as so many items: means on the logarithmic scale, and the verdict and doubt that all share. */
function buckets(series, wanted) {
  return Array.from({ length: wanted }, (_, at) => {
    const start = Math.floor((at * series.count) / wanted);
    const stop = Math.floor(((at + 1) * series.count) / wanted);
    return {
      key: series.key(start + ((stop - start) >> 1)),
      of: stop - start,
      ends: [start, stop - 1].map(series.value),
      at,
      value: meanOf(series.value, start, stop),
      low: meanOf(series.low, start, stop),
      high: meanOf(series.high, start, stop),
      verdict: sharedWord(series.verdict, start, stop),
      doubt: sharedWord(series.doubt, start, stop),
    };
  });
}

/** The geometric mean of the figures of some places that have one. */
function meanOf(figure, start, stop) {
  if (stop - start === 1) return figure(start);
  let [sum, n] = [0, 0];
  for (let place = start; place < stop; place++) {
    const log = Math.log(figure(place));
    if (log !== log) continue;
    sum += log;
    n += 1;
  }
  return Math.exp(sum / n);
}

/** The word that some places share: "" if they differ. */
function sharedWord(word, start, stop) {
  const first = word(start);
  for (let place = start + 1; place < stop; place++) if (word(place) !== first) return "";
  return first;
}

/** What a mouse over an item says; over a column of several, how many, their range, and which is the middle one. */
function tipOf({ key, of, ends }, noun, tip) {
  if (of === 1) return tip(key);
  const [name, ...rest] = tip(key);
  return [`${plural(of, noun)}, ${ends.map(times).join(" to ")}`, `In the middle: ${name}`, ...rest];
}

const pairsTable = (view) =>
  itemsTable("Measurements by speedup", view.sorted("speedup").toReversed(), {
    Measurement: (row) => rowName(view, row),
    Speedup: (row) => speedupOf(view, row),
    "95 % interval": (row) => intervalOf(view, row),
    Verdict: (row) => verdictMark(view.rows.text("verdict", row)),
  });
