/**
 * Parallel coordinates: all settings and figures at once; a range on an axis filters the whole page.
 */

const PARALLEL_LINES = 400;

const AXES = [
  { name: "device", title: "device", facet: true },
  { name: "precision", title: "precision", facet: true },
  { name: "source", title: "source", facet: true },
  { name: "runtime", title: "options", facet: true, blank: "defaults", many: "sets of options" },
  { name: "resolution_px", title: "resolution", facet: true, unit: " px" },
  { name: "batch_size", title: "batch", facet: true, many: "batch sizes" },
  { name: "macs", title: "GMACs", write: (value) => short(value / 1e9) },
  { name: "params", title: "parameters", write: short },
  { name: "compile_s_extra", title: "extra compile", write: seconds },
  { name: "peak_memory_ratio", title: "peak memory", write: times },
  { name: "throughput_samples_per_s", title: "img/s", write: short },
  { name: "speedup", title: "speedup", write: times },
];
const AXIS_CACHE = new Map();

/** One axis: a row's place on it, and how a place is written. Facets are evenly spaced, the rest is logarithmic. */
function parallelAxis(index, name) {
  if (!AXIS_CACHE.has(name)) {
    const spec = AXES.find((axis) => axis.name === name);
    AXIS_CACHE.set(name, spec ? (spec.facet ? facetAxis(index, spec) : numberAxis(index, spec)) : null);
  }
  return AXIS_CACHE.get(name);
}

function facetAxis(index, { name, title, unit = "", blank = "", many }) {
  const { data, ranks, sorted, values } = index.facets.get(name);
  const word = (place) => `${values[sorted[place]] || blank}${unit}`;
  const between = (low, high) => {
    const inside = sorted
      .map((_, place) => place)
      .filter((place) => place >= low && place <= high)
      .map(word);
    return inside.length > 3 ? `${inside[0]} to ${inside.at(-1)}` : inside.join(", ") || "none";
  };
  return { name, title, many, facet: true, place: (row) => ranks[data[row]], word, between };
}

function numberAxis(index, { name, title, write }) {
  const values = index.rows.number(name);
  const between = (low, high) => `${write(10 ** low)}–${write(10 ** high)}`;
  return {
    name,
    title,
    facet: false,
    place: (row) => Math.log10(values[row]),
    word: (place) => write(Number((10 ** place).toPrecision(6))),
    between,
  };
}

/** The axes on which the rows differ, with the range of each. */
function usefulAxes(view) {
  return view.once("axes", () =>
    AXES.map((spec) => {
      const axis = parallelAxis(view.index, spec.name);
      let [low, high] = [Infinity, -Infinity];
      for (const row of view.pairs) {
        const place = axis.place(row);
        if (place < low && place > -Infinity) low = place;
        if (place > high && place < Infinity) high = place;
      }
      return { axis, low, high };
    }).filter(({ low, high }) => low < high),
  );
}

/** The folded chart; drawn on opening. */
function parallelPanel(state) {
  const figure = chart({ name: "settings", build: parallelChart, table: rangesTable });
  figure.append(rangeForm(state));
  const summary = el("summary", { text: "All settings at once" });
  const folded = el("details", { class: "chart wide fold-chart" }, summary, figure);
  addPanel(folded, () => {}, { worth: (view) => usefulAxes(view).length > 1 });
  return folded;
}

const rangesTable = (view) => ({
  caption: "Range of each axis",
  head: ["Axis", "Lowest", "Highest", "Filtered to"],
  rows: usefulAxes(view).map(({ axis, low, high }) => [
    axis.title,
    axis.word(low),
    axis.word(high),
    view.state.brush.has(axis.name) ? axis.between(...view.state.brush.get(axis.name)) : "all",
  ]),
});

function parallelChart(view, theme, width) {
  const axes = usefulAxes(view);
  const drawn = sampled(view.pairs, PARALLEL_LINES);
  const part = ({ axis, low, high }, place) => (axis.facet ? (place + 0.5 - low) / (high - low + 1) : (place - low) / (high - low));
  const points = drawn.flatMap((row) => {
    const verdict = view.rows.text("verdict", row);
    const line = { row, stroke: theme[verdict] ?? theme.quiet, doubt: view.doubt(row) };
    return axes
      .map((one, at) => ({ ...line, at, part: part(one, one.axis.place(row)) }))
      .filter((point) => Number.isFinite(point.part));
  });
  const letters = Math.floor((Math.max(width, axes.length * 92) - 130) / axes.length / 7);
  const ticks = axes.flatMap((one, at) =>
    placesOf(one).map((place) => ({ at, part: part(one, place), text: chartText(cutMiddle(one.axis.word(place), letters)) })),
  );
  const lines = (doubt) =>
    Plot.line(points.filter((point) => Boolean(point.doubt) === doubt), {
      x: "at",
      y: "part",
      z: "row",
      stroke: "stroke",
      strokeWidth: 1.1,
      strokeOpacity: drawn.length > 200 ? 0.3 : 0.6,
      strokeDasharray: doubt ? "4 3" : undefined,
    });
  return {
    finding: rangesFinding(view, axes),
    how: "A line per pair, coloured by verdict, dashed where others are hollow; axes with a single value are left out.",
    note:
      drawn.length < view.pairs.length
        ? `${count(drawn.length)} of ${count(view.pairs.length)} pairs are drawn, evenly sampled; filters apply to all.`
        : "",
    legend: verdictLegend(theme, Object.keys(VERDICTS).filter((name) => view.overview[name])),
    plot: {
      width: Math.max(width, axes.length * 92),
      height: 380,
      marginLeft: 50,
      marginRight: 80,
      marginTop: 30,
      x: { type: "point", domain: axes.map((_, at) => at), axis: "top", label: null, tickSize: 0, tickFormat: (at) => axes[at].axis.title },
      y: { domain: [0, 1], axis: null },
      marks: [
        lines(false),
        lines(true),
        Plot.ruleX(axes, { x: (_, at) => at, stroke: theme.quiet }),
        Plot.text(ticks, { x: "at", y: "part", text: "text", dx: 5, textAnchor: "start", stroke: theme.panel, fill: theme.text }),
        Plot.dot(points, Plot.pointer({ x: "at", y: "part", r: 4, stroke: theme.text })),
      ],
    },
    tip: ({ row }) => pairTip(view, row),
  };
}

/** "Speedup from 0.62× to 3.10× over 4 devices and 3 batch sizes". */
function rangesFinding(view, axes) {
  const kinds = axes.flatMap(({ axis: { name, facet, title, many } }) =>
    facet ? plural(view.distinct(name).length, title, many) : [],
  );
  const speedup = axes.find(({ axis }) => axis.name === "speedup");
  const said = speedup
    ? `Speedup from ${speedup.axis.word(speedup.low)} to ${speedup.axis.word(speedup.high)}`
    : "No two speedups";
  return kinds.length ? `${said} over ${allOf(kinds)}` : said;
}

/** Where an axis has its words: at most twelve places of a facet, round numbers of the rest. */
function placesOf({ axis, low, high }) {
  if (!axis.facet) return logTicks(10 ** low, 10 ** high, 5).map(Math.log10);
  const step = Math.ceil((high - low + 1) / 12);
  return Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, i) => low + i * step);
}

/** Filters the page by a range: an axis and two numbers. */
function rangeForm(state) {
  const numbers = AXES.filter((axis) => !axis.facet);
  const axis = el(
    "select",
    { "aria-label": "Axis" },
    numbers.map(({ name, title }) => el("option", { value: name, text: title })),
  );
  const [low, high] = ["from", "to"].map((name) =>
    el("input", { type: "number", step: "any", min: "0", placeholder: name, "aria-label": name }),
  );
  const apply = (event) => {
    event.preventDefault();
    const scale = axis.value === "macs" ? 1e9 : 1;
    const ends = [
      Number(low.value) > 0 ? Math.log10(Number(low.value) * scale) : -99,
      Number(high.value) > 0 ? Math.log10(Number(high.value) * scale) : 99,
    ];
    state.set({ brush: new Map([...state.brush, [axis.value, ends]]) });
  };
  return el(
    "details",
    { class: "twin" },
    el("summary", { text: "Set a range by numbers" }),
    el("form", { class: "tools", on: { submit: apply } }, axis, low, high, el("button", { type: "submit" }, "Filter")),
  );
}
