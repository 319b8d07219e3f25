/**
 * "What does XLA cost?": extra compile time against images to break even, how many pairs pay back within a given number
 * of images, and memory.
 */

const COST_POINTS = 1500;
const IMAGES_FROM = 2; // decades on the slider
const IMAGES_TO = 10;

const priced = (view) => view.overview.priced > 1;

function costSection(state) {
  byId("cost-charts").append(
    budget(state),
    chart({
      title: "Extra compile time and break-even",
      how: "Each point is a pair. Points in the strip at the top never pay back (they are spread to be visible); points at the bottom edge pay back at once. The dashed line is your number of images.",
      wide: true,
      build: costScatter,
      table: costTable,
      follows: ["images"],
      worth: priced,
    }),
  );
}

/** The slider: "I will run N images". */
function budget(state) {
  const slider = el("input", {
    type: "range",
    id: "images",
    min: IMAGES_FROM,
    max: IMAGES_TO,
    step: "0.1",
    on: { input: () => state.set({ images: slider.value }, { replace: true }) },
  });
  const said = el("output", { for: "images" });
  const outcome = el("p", { class: "outcome", role: "status" });
  const box = el(
    "div",
    { class: "chart wide budget" },
    el("label", { for: "images" }, "I will run ", said),
    slider,
    outcome,
  );
  addPanel(
    box,
    (view) => {
      const wanted = imagesWanted(view.state);
      slider.value = String(Math.log10(wanted));
      const text = images(wanted);
      said.textContent = text;
      slider.setAttribute("aria-valuetext", text);
      let [all, paid] = [0, 0];
      for (const row of view.counted) {
        const needed = view.breakEven(row);
        if (Number.isNaN(needed)) continue;
        all += 1;
        if (needed <= wanted) paid += 1;
      }
      outcome.textContent = `Compilation with ${shortMode(view.state.candidate)} pays back within ${text} for ${count(paid)} of ${plural(all, "pair")} (${share(paid, all)}).`;
    },
    { follows: ["images"], worth: priced },
  );
  return box;
}

/** The slider's number of images, rounded. */
function imagesWanted(state) {
  const place = Number(state.images) || 6;
  return Number((10 ** Math.max(IMAGES_FROM, Math.min(IMAGES_TO, place))).toPrecision(2));
}

function costPairs(view) {
  return view.once("cost", () => {
    const extra = view.rows.number("compile_s_extra");
    return Array.from(
      view.counted.filter((row) => !Number.isNaN(view.breakEven(row))),
      (row) => ({ row, extra: extra[row], images: view.breakEven(row) }),
    );
  });
}

function costScatter(view, theme, width) {
  const pairs = costPairs(view);
  const never = pairs.filter((pair) => pair.images === Infinity).length;
  const seconds_ = pairs.map((pair) => pair.extra).filter((value) => value > 0);
  const xs = extent(seconds_) ?? [0.1, 10];
  const ys = extent(pairs.map((pair) => pair.images).filter((value) => value >= 1 && value < Infinity)) ?? [1e3, 1e6];
  const wanted = imagesWanted(view.state);
  const yAxis = { ...logAxis(theme, "images to break even", [...ys, wanted], short, { wanted: 9 }), nameGap: 50 };
  const top = yAxis.max;
  const rail = top + (top - yAxis.min) * 0.08;
  const edge = rail + (rail - top) / 2;
  const panels = devicePanels(
    theme,
    view.distinct("device"),
    width,
    { ...logAxis(theme, "extra compile time", xs, seconds, { wanted: 5 }), nameGap: 26 },
    withNever(yAxis, rail, edge),
  );
  const drawn = sampled(pairs, COST_POINTS);
  const quiet = { color: theme.quiet, fontSize: 11 };
  const series = panels.shown.map((device, place) => ({
    type: "scatter",
    xAxisIndex: place,
    yAxisIndex: place,
    symbolSize: drawn.length > 700 ? 5 : 8,
    data: drawn
      .filter(({ row }) => view.rows.text("device", row) === device)
      .map(({ row, extra, images: n }) => ({
        row,
        value: [
          Math.log10(Math.max(extra, xs[0])),
          n === Infinity
            ? rail + ((((row * 7919) % 100) - 50) / 100) * 0.7 * (rail - top)
            : Math.log10(Math.max(n, ys[0] / 1.5)),
        ],
        ...verdictSymbol(theme, view, row),
      })),
    markLine: {
      silent: true,
      symbol: "none",
      label: { ...quiet, position: "insideStartTop", formatter: () => images(wanted) },
      lineStyle: { color: theme.quiet, type: "dashed" },
      data: [{ yAxis: Math.log10(wanted) }],
    },
    markArea: {
      silent: true,
      itemStyle: { color: theme.band },
      data: [[{ yAxis: (top + rail) / 2 }, { yAxis: edge }]],
    },
  }));
  const known = pairs.filter((pair) => pair.images < Infinity).length;
  const verdicts = Object.keys(VERDICTS).filter((verdict) =>
    pairs.some(({ row }) => view.rows.text("verdict", row) === verdict),
  );
  return {
    height: panels.height,
    legend: [
      ...verdictLegend(verdicts),
      ...doubtLegend(
        view,
        drawn.map(({ row }) => row),
      ),
    ],
    label: `Compilation pays back in ${count(known)} of ${plural(pairs.length, "pair")}, never in ${count(never)}; median ${images(breakEvenMedian(view))}.`,
    note: [
      `${plural(never, "pair")} never pay${never === 1 ? "s" : ""} back.`,
      sampleNote(drawn.length, pairs.length),
      panels.note,
    ]
      .filter(Boolean)
      .join(" "),
    option: {
      ...panels.axes,
      series: [...series, ...panels.heads],
      tooltip: { trigger: "item", formatter: ({ data }) => pairTip(view, data.row) },
    },
  };
}

/** The axis with one more tick, for the strip of pairs that never pay back. */
function withNever(axis, rail, max) {
  const written = axis.axisLabel.formatter;
  const customValues = [...axis.axisLabel.customValues, rail];
  return {
    ...axis,
    max,
    axisLabel: { ...axis.axisLabel, customValues, formatter: (place) => (place === rail ? "never" : written(place)) },
  };
}

function costTable(view) {
  const pairs = costPairs(view).toSorted((a, b) => a.images - b.images || a.extra - b.extra);
  return {
    caption: "Extra compile time and break-even",
    head: ["Pair", "Extra compile time", "Images to break even", "Speedup"],
    numeric: [1, 2, 3],
    total: pairs.length,
    rows: pairs
      .slice(0, 200)
      .map(({ row, extra, images: n }) => [
        rowName(view, row),
        seconds(extra),
        images(n),
        `${times(view.rows.number("speedup")[row])}${view.doubt(row)}`,
      ]),
  };
}
