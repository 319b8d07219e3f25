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
    chart({ name: "cost", build: costScatter, table: costTable, follows: ["images"], worth: priced }),
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
      outcome.textContent = `Compilation with ${shortMode(view.state.candidate)} pays back within ${text} for ${count(paid)} of ${plural(all, "configuration")} (${share(paid, all)}).`;
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
  const panels = devicePanels(view.distinct("device"), width);
  const wanted = imagesWanted(view.state);
  const known = pairs.filter((pair) => pair.images < Infinity);
  const y = logScale("images to break even", [...known.map(({ images: n }) => n).filter((n) => n >= 1), wanted], { wanted: 7 });
  const [bottom, top] = y.domain;
  const [rail, edge] = [(top / bottom) ** 0.06, (top / bottom) ** 0.1].map((factor) => top * factor);
  const x = logScale("extra compile time", pairs.map(({ extra }) => extra).filter((extra) => extra > 0), { write: seconds, wanted: 5 });
  const drawn = sampled(pairs, COST_POINTS).map(({ row, extra, images: n }) => ({
    row,
    x: Math.max(extra, x.domain[0]),
    y: n === Infinity ? rail : Math.max(n, bottom),
    device: view.rows.text("device", row),
    verdict: view.rows.text("verdict", row),
    doubt: view.doubt(row),
  }));
  const facet = { [panels.channel]: "device" };
  const never = pairs.length - known.length;
  const middle = breakEvenMedian(view);
  const half = Number.isFinite(middle) ? `; half of all within ${images(middle)}` : "";
  return {
    finding: `Compiling pays back in ${count(known.length)} of ${plural(pairs.length, "configuration")}${half}`,
    subject: subjectOf(view, `Extra compile time of ${versus(view)}`),
    how: "Each point is a configuration. Those at the top never pay back; those at the bottom edge pay back at once. The dashed line is your number of images.",
    note: [`${plural(never, "configuration")} never pay${never === 1 ? "s" : ""} back.`, sampleNote(drawn.length, pairs.length), panels.note]
      .filter(Boolean)
      .join(" "),
    legend: verdictLegend(theme, drawn.map(({ verdict }) => verdict), drawn.map(({ doubt }) => doubt)),
    plot: {
      height: panels.height,
      marginTop: 30,
      marginLeft: 52,
      marginBottom: 40,
      ...panels.facets,
      x: { ...x, grid: true },
      y: {
        ...y,
        domain: [bottom, edge],
        ticks: [...y.ticks, rail],
        tickFormat: (tick) => (tick === rail ? "never" : short(tick)),
        grid: true,
      },
      marks: [
        Plot.frame({ stroke: theme.line }),
        Plot.rect([0], { y1: top, y2: edge, fill: theme.band }),
        Plot.ruleY([wanted], { stroke: theme.quiet, strokeDasharray: "5 4" }),
        Plot.text([images(wanted)], { y: [wanted], frameAnchor: "left", textAnchor: "start", dx: 6, dy: -7, fill: theme.quiet }),
        Plot.dot(drawn, { ...facet, x: "x", y: "y", r: drawn.length > 700 ? 2.5 : 4, ...verdictDots(theme) }),
        panels.heads,
        Plot.dot(drawn, Plot.pointer({ ...facet, x: "x", y: "y", r: 7, stroke: theme.text })),
      ],
    },
    tip: ({ row }) => pairTip(view, row),
  };
}

function costTable(view) {
  const pairs = costPairs(view).toSorted((a, b) => a.images - b.images || a.extra - b.extra);
  return {
    caption: "Extra compile time and break-even",
    head: ["Configuration", "Extra compile time", "Images to break even", "Speedup"],
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
