/**
 * Every pair from the fastest to the slowest: named bars, or, if there are many, columns with names at both ends.
 * A series is `{count, value, low, high, verdict, doubt, name, key}`: functions of the place in the order.
 */

const PAIRS_NAMED = 120;
const COLUMNS_MOST = 600;
const LETTER = 6.3; // pixels, about

/** The chart of all pairs. */
const sortedChart = () =>
  chart({
    name: "pairs",
    build: sortedPairs,
    table: pairsTable,
    worth: (view) => view.overview.compared > 0,
  });

function sortedPairs(view, theme, width) {
  const rows = view.sorted("speedup").toReversed();
  const [speedup, low, high] = ["speedup", "speedup_low", "speedup_high"].map((name) => view.rows.number(name));
  const verdict = view.rows.category("verdict");
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
  const words = [shortMode(view.state.candidate), shortMode(view.state.baseline)];
  const models = view.distinct("model");
  const named = (i) => (models.length > 1 ? `${view.rows.text("model", rows[i])} ` : "");
  const ends = [0, rows.length - 1].map((i) => `${named(i)}${times(series.value(i))}${series.doubt(i)}`);
  const of = models.length > 1 ? "" : ` for ${models[0]}`;
  return {
    ...sortedBars(series, { theme, width, floor: floorOf(view), failed: o.failed, axis: `speedup of ${words[0]} over ${words[1]}` }),
    finding:
      rows.length > 1
        ? `${words[0]} is faster than ${words[1]}${of} in ${count(o.faster)} of ${plural(o.pairs, "configuration")}: from ${ends.join(" to ")}`
        : `${words[0]} over ${words[1]}${of}: ${ends[0]}`,
    tip: (item) => tipOf(item, "pair", (row) => pairTip(view, row)),
    click: ({ key }) => view.state.set({ model: view.rows.text("model", key) }),
  };
}

/** Bars of a series from 1×, sorted. */
function sortedBars(series, look) {
  const all = Array.from({ length: series.count }, (_, i) => i);
  const built = series.count <= PAIRS_NAMED ? namedBars(series, look) : columns(series, look);
  return { ...built, legend: verdictLegend(look.theme, all.map(series.verdict), all.map(series.doubt)) };
}

/** Few: a line each, with name, whisker and figure. */
function namedBars(series, { theme, width, floor, failed, axis }) {
  const items = Array.from({ length: series.count }, (_, i) => ({
    key: series.key(i),
    at: i,
    value: series.value(i),
    low: series.low(i),
    high: series.high(i),
    verdict: series.verdict(i),
    doubt: series.doubt(i),
  }));
  const longest = Math.max(...items.map(({ at }) => series.name(at).length));
  const left = Math.min(12 + longest * LETTER, 560, width * 0.45);
  const name = (i) => chartText(cutMiddle(series.name(i), Math.floor((left - 8) / LETTER)));
  const colour = ({ verdict }) => theme[verdict] ?? theme.quiet;
  const end = ({ value, high }) => Math.max(1, value, present(high) ? high : 0);
  const whole = items.flatMap(({ value, low, high }) => [value, low, high]);
  return {
    how: "Bars start at 1×; whiskers are 95 % intervals; differences within the shaded band do not count.",
    note: failed ? `${plural(failed, "configuration")} failed and ${failed === 1 ? "has" : "have"} no bar.` : "",
    plot: {
      height: 64 + items.length * 18,
      marginLeft: left,
      marginRight: 84,
      marginTop: 34,
      marginBottom: 30,
      x: { ...speedupScale(axis, whole, { wanted: width / 120 }), axis: items.length > 12 ? "both" : "bottom", grid: true },
      y: { domain: items.map(({ at }) => at), label: null, tickSize: 0, tickFormat: name, padding: 0.25 },
      marks: [
        ...unityMarks(theme, floor, "x"),
        Plot.barX(items, { x1: 1, x2: "value", y: "at", ...hollowIf(theme, colour) }),
        Plot.ruleY(
          items.filter(({ low, high }) => present(low) && present(high)),
          { x1: "low", x2: "high", y: "at", stroke: theme.text },
        ),
        Plot.text(items, {
          x: end,
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
function columns(series, { theme, width, floor, failed = 0, axis }) {
  const items = buckets(series, Math.min(series.count, COLUMNS_MOST));
  const end = items.length * (1 + failed / series.count);
  const narrow = width < 600; // the ends are named below one another, not side by side
  const [each, wide] = narrow ? [3, width - 70] : [8, width / 2 - 40];
  const room = (narrow ? 2 * each : each) * 14;
  const first = Array.from({ length: each }, (_, i) => i);
  const named = (places) =>
    places
      .map((i) => `${chartText(cutMiddle(series.name(i), Math.floor(wide / 6.5) - 8))}  ${times(series.value(i))}${series.doubt(i)}`)
      .join("\n");
  const heads = { lineHeight: 1.2, fontSize: 11, lineAnchor: "bottom", dy: -8 };
  const colour = ({ verdict }) => theme[verdict] ?? theme.quiet;
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
          x1: "from",
          x2: (item) => item.from + 0.9,
          y1: 1,
          y2: "value",
          fill: (item) => (item.doubt ? mixed(theme.panel, colour(item), 0.25) : colour(item)),
          stroke: (item) => (item.doubt ? colour(item) : "none"),
          strokeWidth: 0.6,
        }),
        Plot.areaY(
          items.filter(({ low, high }) => present(low) && present(high)),
          { x: (item) => item.from + 0.45, y1: "low", y2: "high", fill: theme.text, fillOpacity: 0.3 },
        ),
        failed ? Plot.rect([0], { x1: items.length, x2: end, fill: theme.failed, fillOpacity: 0.25 }) : null,
        failed
          ? Plot.text([`✕ ${count(failed)} failed`], { frameAnchor: "bottom-right", dy: 16, fill: theme.text })
          : null,
        Plot.text([named(first)], { ...heads, frameAnchor: "top-left", textAnchor: "start", dy: narrow ? -8 - room / 2 : -8 }),
        Plot.text([named(first.map((i) => series.count - each + i))], { ...heads, frameAnchor: "top-right", textAnchor: "end" }),
        Plot.ruleX(items, Plot.pointerX({ x: (item) => item.from + 0.45, stroke: theme.text, strokeOpacity: 0.5 })),
      ],
    },
  };
}

/** Neighbours as so many columns: means on the logarithmic scale, and the verdict and doubt that all share. */
function buckets(series, wanted) {
  return Array.from({ length: wanted }, (_, bucket) => {
    const start = Math.floor((bucket * series.count) / wanted);
    const stop = Math.floor(((bucket + 1) * series.count) / wanted);
    const own = Array.from({ length: stop - start }, (_each, i) => start + i);
    const mean = (figure) => {
      const logs = own.map((i) => Math.log(figure(i))).filter((log) => log === log);
      return logs.length ? Math.exp(logs.reduce((sum, log) => sum + log, 0) / logs.length) : NaN;
    };
    const verdict = series.verdict(start);
    return {
      key: series.key(start + (own.length >> 1)),
      of: own.length,
      ends: [start, stop - 1].map(series.value),
      from: bucket,
      value: mean(series.value),
      low: mean(series.low),
      high: mean(series.high),
      verdict: own.every((i) => series.verdict(i) === verdict) ? verdict : "",
      doubt: own.every((i) => series.doubt(i)) ? series.doubt(start) : "",
    };
  });
}

/** What a mouse over an item says; over a column of several, how many, their range, and which is the middle one. */
function tipOf({ key, of = 1, ends }, noun, tip) {
  if (of === 1) return tip(key);
  const [name, ...rest] = tip(key);
  return [`${plural(of, noun)}, ${ends.map(times).join(" to ")}`, `In the middle: ${name}`, ...rest];
}

function pairsTable(view) {
  const rows = view.sorted("speedup").toReversed();
  const n = (name, row) => view.rows.number(name)[row];
  return {
    caption: "Pairs by speedup",
    total: rows.length,
    numeric: [1, 2],
    head: ["Pair", "Speedup", "95 % interval", "Verdict"],
    rows: Array.from(rows.subarray(0, 200), (row) => [
      rowName(view, row),
      `${times(n("speedup", row))}${view.doubt(row)}`,
      range(n("speedup_low", row), n("speedup_high", row)),
      verdictMark(view.rows.text("verdict", row)),
    ]),
  };
}
