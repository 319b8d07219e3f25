/**
 * "Can I trust it?": A/A pairs, flags, noise, clocks.
 */

const TWINS_DRAWN = 400;

function trustSection() {
  byId("trust-charts").append(
    chart({ name: "twins", build: twinPlot, table: twinTable, worth: (view) => view.base.some(isTwinOf(view)) }),
    trustFacts(),
  );
}

/** Whether a row is an A/A pair with a ratio. */
function isTwinOf({ rows, index }) {
  const speedup = rows.number("speedup");
  return (row) => index.isTwin[row] === 1 && speedup[row] === speedup[row];
}

/** A/A rows of the selection, by ascending ratio. */
function twins(view) {
  return view.once("twins", () => {
    const speedup = view.rows.number("speedup");
    return Array.from(view.base.filter(isTwinOf(view))).sort((a, b) => speedup[a] - speedup[b]);
  });
}

/** The A/A pairs called different, as `analysis.trust` counts and tests them; null without pairs. */
function trustOf(view) {
  return view.once("trust", () => {
    const { rows } = view;
    const kinds = { within: [0, 0], across: [0, 0] };
    for (const row of view.base.filter((each) => view.index.isTwin[each])) {
      if (rows.text("status", row) !== "ok" || rows.text("origin", row) !== "measured") continue;
      const [p, low, high, floor] = rows.at(row, "p_value", "aa_across_low", "aa_across_high", "floor_across");
      if (present(p)) {
        kinds.within[1] += 1;
        kinds.within[0] += ["faster", "slower"].includes(rows.text("verdict", row));
      }
      if (present(low)) {
        kinds.across[1] += 1;
        kinds.across[0] += Math.log(low) > Math.log1p(floor) || -Math.log(high) > Math.log1p(floor);
      }
    }
    const [wrong, pairs] = [0, 1].map((place) => kinds.within[place] + kinds.across[place]);
    return pairs ? { ...kinds, wrong, pairs, p: binomialTail(wrong, pairs, 0.05) } : null;
  });
}

/** The probability of at least so many of n, each with probability p. */
function binomialTail(wrong, n, p) {
  let [log, tail] = [n * Math.log(1 - p), 0];
  for (let k = 0; k <= n; k += 1) {
    if (k >= wrong) tail += Math.exp(log);
    log += Math.log(((n - k) / (k + 1)) * (p / (1 - p)));
  }
  return Math.min(1, tail);
}

function trustSentence(found) {
  const [within, across] = [found.within, found.across].map(([wrong, pairs]) => `${count(wrong)} of ${count(pairs)}`);
  const text = `${count(found.wrong)} of ${count(found.pairs)} A/A pairs are called different (${within} in the same processes, ${across} across processes); 5 % are expected`;
  if (found.p >= 0.01) return `${text}.`;
  return `Untrusted: ${text} (p = ${digits(found.p, 1)}). Do not rely on these verdicts: this machine makes equal modes look different.`;
}

/** "graph_2 over graph". */
const sidesOf = ({ rows }, row) => `${rows.text("candidate", row)} over ${rows.text("baseline", row)}`;

function twinPlot(view, theme, width) {
  const found = twins(view);
  const [speedup, low, high, floor] = view.rows.numbers("speedup", "speedup_low", "speedup_high", "floor");
  const bounded = found.filter((row) => present(low[row]) && present(high[row]));
  const containing = bounded.filter((row) => low[row] <= 1 && high[row] >= 1).length;
  const tested = trustOf(view);
  const band = Math.max(...found.map((row) => floor[row]).filter(present), 0.001);
  const items = sampled(found, TWINS_DRAWN).map((row, at) => ({
    row,
    at,
    value: speedup[row],
    low: low[row],
    high: high[row],
    doubt: view.doubt(row),
    off: low[row] > 1 || high[row] < 1,
  }));
  const colour = ({ off }) => (off ? theme.text : theme.quiet);
  const some = (textOf) => someOf([...new Set(found.map(textOf))], 3);
  const subject = [
    some((row) => sidesOf(view, row)),
    some((row) => view.rows.text("device", row)),
    plural(found.length, "A/A pair"),
    daysOf(found.map((row) => view.rows.text("measured_at", row))),
  ];
  const dots = { symbol: ({ off }) => (off ? "diamond" : "circle"), ...hollowIf(theme, colour) };
  return {
    finding: `The same mode against itself: ${count(containing)} of ${plural(bounded.length, "interval")} contain${bounded.length === 1 ? "s" : ""} 1× (${share(containing, bounded.length)})`,
    subject: phrase(subject, " · "),
    how: "A/A pairs: a mode against a second copy of it in the same replicate. Their true ratio is 1×, so about 95 % of the intervals should contain it.",
    note: [tested && trustSentence(tested), sampleNote(items.length, found.length)],
    legend: [
      { mark: "●", colour: theme.quiet, text: "contains 1×" },
      { mark: "◆", colour: theme.text, text: "does not" },
      ...doubtLegend(items),
    ],
    plot: {
      height: width < 600 ? 200 : 280,
      marginLeft: 50,
      marginBottom: 20,
      x: { domain: [-1, items.length], axis: null },
      y: { ...speedupScale("ratio", items.flatMap((item) => [item.value, item.low, item.high])), grid: true },
      marks: [
        ...unityMarks(theme, band, "y"),
        Plot.ruleX(items.filter(isBounded), { x: "at", y1: "low", y2: "high", stroke: colour }),
        Plot.dot(items, { x: "at", y: "value", r: 3, ...dots }),
        Plot.dot(items, Plot.pointer({ x: "at", y: "value", r: 6, stroke: theme.text })),
      ],
    },
    tip: ({ row }) => [
      rowName(view, row),
      `${sidesOf(view, row)}: ${speedupOf(view, row)} (95 % ${intervalOf(view, row)})`,
    ],
  };
}

const twinTable = (view) =>
  itemsTable("A/A pairs", twins(view), {
    Measurement: (row) => rowName(view, row),
    Modes: (row) => sidesOf(view, row),
    Ratio: (row) => speedupOf(view, row),
    "95 % interval": (row) => intervalOf(view, row),
  });

/** Noise, replicates and clocks of the selection, a sentence each. */
function trustLines(view) {
  const { rows, pairs } = view;
  const known = (...names) =>
    Array.from(pairs, (row) => rows.at(row, ...names)).filter((figures) => figures.every((figure) => figure > 0));
  const contaminated = pairs.filter((row) => rows.text("status", row) === "contaminated").length;
  const busy = pairs.filter((row) => rows.number("foreign_cores")[row] >= 0.5).length;
  const noise = known("cv_percent").map(([cv]) => cv);
  const loud = noise.filter((cv) => cv > 5).length;
  const spreads = known("within_percent", "between_percent");
  const above = spreads.filter(([within, between]) => between > within).length;
  const clocks = known("sm_clock_mhz_low", "temperature_high");
  const [mhz, heat] = [0, 1].map((place) => extent(clocks.map((pair) => pair[place]))?.map(count).join(" to "));
  return [
    `${count(contaminated)} of ${plural(pairs.length, "measurement")} are contaminated: other load affected more than a fifth of their rounds. In ${count(busy)}, other processes used half a core or more.`,
    noise.length &&
      `Blocks of calls vary by ${digits(median(noise), 2)} % (median coefficient of variation, the noisiest replicate of each measurement); by more than 5 % in ${count(loud)} of ${plural(noise.length, "measurement")}.`,
    spreads.length &&
      `In ${count(above)} of ${plural(spreads.length, "measurement")} (${share(above, spreads.length)}) replicates differ by more than the error within one: there more replicates help more than more rounds.`,
    mhz && `The GPU’s lowest clocks were ${mhz} MHz, its highest temperatures ${heat} °C.`,
  ].filter(Boolean);
}

/** Flags of the selection and how many pairs have each, the most frequent first. */
function flagCounts({ rows, pairs }) {
  const { data, values } = rows.column("flags");
  const counts = new Map();
  for (const row of pairs)
    for (const flag of values[data[row]].split(" ").filter(Boolean)) counts.set(flag, (counts.get(flag) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]);
}

/** Flags of the selection, and each device's no-difference band. */
function trustFacts() {
  const box = el("div", { class: "chart wide" });
  const draw = (view) => {
    const flags = itemsTable("Flags in this selection", flagCounts(view), {
      Flag: ([flag]) => flag,
      Meaning: ([flag]) => flagMeaning(view.rows, flag),
      Measurements: ([, n]) => n,
      Share: ([, n]) => share(n, view.pairs.length),
    });
    const bands = "Devices: the no-difference band comes from the A/A pairs";
    const inScenario = ({ name, scenarios }) => ({ name, ...scenarios?.[view.state.scenario] });
    const devices = itemsTable(bands, (view.rows.meta.devices ?? []).map(inScenario).filter(({ trials }) => trials), {
      Device: ({ name }) => name,
      Trials: ({ trials }) => count(trials),
      "No-difference band": ({ floor }) => (present(floor) ? `±${percent(100 * floor)} %` : NONE),
      "A/A pairs": (device) => count(device.aa_pairs),
    });
    fill(
      box,
      el("h3", { text: "Flags and no-difference bands" }),
      el("ul", { id: "trust-lines" }, trustLines(view).map((text) => el("li", { text }))),
      [flags, devices].filter(({ total }) => total).map(plainTable),
    );
  };
  addPanel(box, draw, { worth: (view) => view.pairs.length > 0 });
  return box;
}
