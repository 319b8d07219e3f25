/**
 * Parallel coordinates: all settings and figures at once; ranges dragged on an axis filter the whole page.
 */

const PARALLEL_LINES = 2000;

const AXES = [
  { name: "device", title: "device", facet: true },
  { name: "precision", title: "precision", facet: true },
  { name: "source", title: "source", facet: true },
  { name: "resolution_px", title: "resolution", facet: true, unit: " px" },
  { name: "batch_size", title: "batch", facet: true },
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

function facetAxis(index, { name, title, unit = "" }) {
  const { data, ranks, sorted, values } = index.facets.get(name);
  const word = (place) => `${values[sorted[place]] ?? ""}${unit}`;
  const between = (low, high) => {
    const inside = sorted
      .map((_, place) => place)
      .filter((place) => place >= low && place <= high)
      .map(word);
    return inside.length > 3 ? `${inside[0]} to ${inside.at(-1)}` : inside.join(", ") || "none";
  };
  return { name, title, facet: true, place: (row) => ranks[data[row]], word, between };
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
      for (const row of view.unbrushed) {
        const place = axis.place(row);
        if (place < low && place > -Infinity) low = place;
        if (place > high && place < Infinity) high = place;
      }
      return { axis, low, high };
    }).filter(({ low, high }) => low < high),
  );
}

function parallelPanel(state) {
  const marked = new Map();
  let restoring = false;
  let listening = null;
  const brushed = ({ parallelAxisId: name, intervals }) => {
    if (restoring) return;
    const brush = new Map(state.brush);
    if (intervals?.length)
      brush.set(name, marked.set(name, [Math.min(...intervals.flat()), Math.max(...intervals.flat())]).get(name));
    else if (!brush.delete(name) | !marked.delete(name)) return;
    setTimeout(() => state.set({ brush }));
  };
  const figure = chart({
    title: "All settings at once",
    wide: true,
    how: "A line per pair, coloured by verdict, dashed where others are hollow; axes with a single value are left out. Drag along an axis to filter the whole page; click it to clear the filter.",
    build: parallelChart,
    key: (view) =>
      [
        view.state.theme,
        view.unbrushed.length,
        view.unbrushed[0],
        view.unbrushed.at(-1),
        [
          ...FACETS.map(({ column }) => [...view.state[column]].join()),
          view.state.model,
          view.state.baseline,
          view.state.candidate,
          view.state.origin,
          [...view.state.verdict].join(),
        ].join("|"),
      ].join("|"),
    after: (instance, view, redrawn) => {
      if (listening !== instance) instance.on("axisareaselected", brushed);
      listening = instance;
      if (redrawn) marked.clear();
      restoring = true;
      for (const {
        axis: { name },
      } of usefulAxes(view)) {
        const wanted = state.brush.get(name);
        if (marked.get(name)?.join() === wanted?.join()) continue; // each action paints the chart once
        instance.dispatchAction({ type: "axisAreaSelect", parallelAxisId: name, intervals: wanted ? [wanted] : [] });
        if (wanted) marked.set(name, wanted);
        else marked.delete(name);
      }
      restoring = false;
    },
    table: (view) => ({
      caption: "Range of each axis",
      head: ["Axis", "Lowest", "Highest", "Filtered to"],
      rows: usefulAxes(view).map(({ axis, low, high }) => [
        axis.title,
        axis.word(low),
        axis.word(high),
        state.brush.has(axis.name) ? axis.between(...state.brush.get(axis.name)) : "all",
      ]),
    }),
  });
  figure.append(rangeForm(state));
  const folded = el(
    "details",
    { class: "chart wide fold-chart" },
    el("summary", { text: "All settings at once" }),
    figure,
  );
  addPanel(folded, () => {}, { worth: (view) => usefulAxes(view).length > 1 });
  return folded;
}

function parallelChart(view, theme, width) {
  const axes = usefulAxes(view);
  const drawn = sampled(view.unbrushed, PARALLEL_LINES);
  const verdict = view.rows.category("verdict");
  const opacity = drawn.length > 800 ? 0.16 : drawn.length > 200 ? 0.3 : 0.6;
  const narrow = width < 720;
  return {
    height: narrow ? 90 + axes.length * 64 : 380,
    label: `${plural(drawn.length, "pair")} over ${axes.length} axes: ${axes.map(({ axis }) => axis.title).join(", ")}.`,
    note:
      drawn.length < view.unbrushed.length
        ? `${count(drawn.length)} of ${count(view.unbrushed.length)} pairs are drawn, evenly sampled; filters apply to all.`
        : "",
    legend: verdictLegend(Object.keys(VERDICTS).filter((name) => view.overview[name])),
    option: {
      tooltip: { show: false },
      parallel: {
        left: narrow ? 16 : 64,
        right: narrow ? 104 : 64,
        top: narrow ? 40 : 34,
        bottom: 22,
        layout: narrow ? "vertical" : "horizontal",
      },
      parallelAxis: axes.map(({ axis, low, high }, dim) => {
        const pad = axis.facet ? 0.4 : (high - low) * 0.03;
        const places = axis.facet
          ? axisPlaces(low, high)
          : logTicks(10 ** (low - pad), 10 ** (high + pad), 5).map(Math.log10);
        const base = ticked(axisBase(theme, axis.title), [low - pad, high + pad], places, (place) =>
          chartText(cut(axis.word(place), 20)),
        );
        return {
          ...base,
          dim,
          id: axis.name,
          nameLocation: "end",
          nameGap: 14,
          nameTextStyle: { color: theme.text, fontSize: narrow ? 11 : 12, fontWeight: "bold" },
          realtime: false,
          axisLine: { lineStyle: { color: theme.quiet } },
          axisLabel: { ...base.axisLabel, color: theme.text, textBorderColor: theme.panel, textBorderWidth: 3 },
          areaSelectStyle: { width: 18, color: theme.accent, borderColor: theme.accent, opacity: 0.25 },
        };
      }),
      series: [
        {
          type: "parallel",
          inactiveOpacity: 0.03,
          activeOpacity: opacity,
          lineStyle: { width: 1.1, opacity },
          silent: true,
          data: drawn.map((row) => ({
            value: axes.map(({ axis }) => {
              const place = axis.place(row);
              return Number.isFinite(place) ? place : "-";
            }),
            lineStyle: {
              color: theme[verdict.values[verdict.data[row]]] ?? theme.quiet,
              type: view.doubt(row) ? "dashed" : "solid",
            },
          })),
        },
      ],
    },
  };
}

/** At most twelve places of a facet. */
function axisPlaces(low, high) {
  const step = Math.ceil((high - low + 1) / 12);
  return Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, i) => low + i * step);
}

/** The same filter for the keyboard: an axis and two numbers. */
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
