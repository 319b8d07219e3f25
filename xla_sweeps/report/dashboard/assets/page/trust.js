/**
 * "Can I trust it?": A/A pairs, flags, noise, clocks.
 */

const TWINS_DRAWN = 400;

function trustSection() {
  byId("trust-charts").append(
    chart({
      name: "twins",
      build: twinPlot,
      table: twinTable,
      worth: (view) => twins(view).length > 0,
    }),
    trustFacts(),
  );
}

/** A/A rows of the selection, by ascending speedup. */
function twins(view) {
  return view.once("twins", () => {
    const speedup = view.rows.number("speedup");
    return Array.from(view.base.filter((row) => view.index.isTwin[row] && speedup[row] === speedup[row])).sort(
      (a, b) => speedup[a] - speedup[b],
    );
  });
}

/** The A/A pairs called different, as `analysis.trust` counts and tests them; null without pairs. */
function trustOf(view) {
  return view.once("trust", () => {
    const { rows } = view;
    const n = (name, row) => rows.number(name)[row];
    const kinds = { within: [0, 0], across: [0, 0] };
    for (const row of view.base.filter((each) => view.index.isTwin[each])) {
      if (rows.text("status", row) !== "ok" || rows.text("origin", row) !== "measured") continue;
      if (present(n("p_value", row))) {
        kinds.within[1] += 1;
        kinds.within[0] += ["faster", "slower"].includes(rows.text("verdict", row));
      }
      if (present(n("aa_across_low", row))) {
        const bound = Math.log1p(n("floor_across", row));
        kinds.across[1] += 1;
        kinds.across[0] += Math.log(n("aa_across_low", row)) > bound || -Math.log(n("aa_across_high", row)) > bound;
      }
    }
    const [wrong, pairs] = [kinds.within[0] + kinds.across[0], kinds.within[1] + kinds.across[1]];
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

function twinPlot(view, theme, width) {
  const found = twins(view);
  const [speedup, low, high, floor] = ["speedup", "speedup_low", "speedup_high", "floor"].map((name) =>
    view.rows.number(name),
  );
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
  return {
    finding: `The same mode against itself: ${count(containing)} of ${plural(bounded.length, "interval")} contain${bounded.length === 1 ? "s" : ""} 1× (${share(containing, bounded.length)})`,
    subject: [
      `${someOf([...new Set(found.map((row) => `${view.rows.text("candidate", row)} over ${view.rows.text("baseline", row)}`))], 3)}`,
      someOf([...new Set(found.map((row) => view.rows.text("device", row)))], 3),
      plural(found.length, "A/A pair"),
      daysOf(found.map((row) => view.rows.text("measured_at", row))),
    ]
      .filter(Boolean)
      .join(" · "),
    how: "A/A pairs: graph against a second copy of graph in the same replicate. Their true ratio is 1×, so about 95 % of the intervals should contain it.",
    note: `${tested ? trustSentence(tested) : ""} ${sampleNote(items.length, found.length)}`,
    legend: [
      { mark: "●", colour: theme.quiet, text: "contains 1×" },
      { mark: "◆", colour: theme.text, text: "does not" },
      ...doubtLegend(items.map(({ doubt }) => doubt)),
    ],
    plot: {
      height: width < 600 ? 200 : 280,
      marginLeft: 50,
      marginBottom: 20,
      x: { domain: [-1, items.length], axis: null },
      y: { ...speedupScale("ratio", items.flatMap((item) => [item.value, item.low, item.high])), grid: true },
      marks: [
        ...unityMarks(theme, band, "y"),
        Plot.ruleX(items.filter((item) => present(item.low)), { x: "at", y1: "low", y2: "high", stroke: colour }),
        Plot.dot(items, {
          x: "at",
          y: "value",
          r: 3,
          symbol: ({ off }) => (off ? "diamond" : "circle"),
          ...hollowIf(theme, colour),
        }),
        Plot.dot(items, Plot.pointer({ x: "at", y: "value", r: 6, stroke: theme.text })),
      ],
    },
    tip: ({ row }) => [
      rowName(view, row),
      `${view.rows.text("candidate", row)} / ${view.rows.text("baseline", row)}: ${times(speedup[row])}${view.doubt(row)} (95 % ${range(low[row], high[row])})`,
    ],
  };
}

function twinTable(view) {
  const found = twins(view);
  const n = (name, row) => view.rows.number(name)[row];
  return {
    caption: "A/A pairs",
    head: ["Pair", "Modes", "Ratio", "95 % interval"],
    numeric: [2, 3],
    total: found.length,
    rows: found
      .slice(0, 200)
      .map((row) => [
        rowName(view, row),
        `${view.rows.text("candidate", row)} / ${view.rows.text("baseline", row)}`,
        `${times(n("speedup", row))}${view.doubt(row)}`,
        range(n("speedup_low", row), n("speedup_high", row)),
      ]),
  };
}

/** The positive values of columns, of the pairs that have them all. */
function knownOf(view, ...names) {
  const columns = names.map((name) => view.rows.number(name));
  return Array.from(view.pairs.filter((row) => columns.every((column) => column[row] > 0))).map((row) =>
    columns.map((column) => column[row]),
  );
}

function noiseLine(view) {
  const values = knownOf(view, "cv_percent").map(([cv]) => cv);
  const loud = values.filter((value) => value > 5).length;
  return values.length
    ? `Blocks of calls vary by ${digits(median(values), 2)} % (median coefficient of variation, the noisiest replicate of each pair); by more than 5 % in ${count(loud)} of ${plural(values.length, "pair")}.`
    : "";
}

function replicatesLine(view) {
  const known = knownOf(view, "within_percent", "between_percent");
  const above = known.filter(([within, between]) => between > within).length;
  return known.length
    ? `In ${count(above)} of ${plural(known.length, "pair")} (${share(above, known.length)}) replicates differ by more than the error within one: there more replicates help more than more rounds.`
    : "";
}

function clockLine(view) {
  const known = knownOf(view, "sm_clock_mhz_low", "temperature_high");
  const [clocks, heats] = [0, 1].map((place) => extent(known.map((pair) => pair[place])));
  return known.length
    ? `The GPU’s lowest clocks were ${count(clocks[0])} to ${count(clocks[1])} MHz, its highest temperatures ${count(heats[0])} to ${count(heats[1])} °C.`
    : "";
}

/** Flags of the selection, and each device's no-difference band. */
function trustFacts() {
  const box = el("div", { class: "chart wide" });
  const draw = (view) => {
    const { rows } = view;
    const [flags, foreign, status] = [rows.category("flags"), rows.number("foreign_cores"), rows.category("status")];
    const codes = new Map();
    let busy = 0;
    let contaminated = 0;
    const code = status.values.indexOf("contaminated");
    for (const row of view.pairs) {
      codes.set(flags.data[row], (codes.get(flags.data[row]) ?? 0) + 1);
      if (foreign[row] >= 0.5) busy += 1;
      if (code >= 0 && status.data[row] === code) contaminated += 1;
    }
    const counts = new Map();
    for (const [code, n] of codes)
      for (const flag of flags.values[code].split(" ").filter(Boolean)) counts.set(flag, (counts.get(flag) ?? 0) + n);
    const listed = [...counts]
      .sort((a, b) => b[1] - a[1])
      .map(([flag, n]) => [flag, flagMeaning(rows, flag), n, share(n, view.pairs.length)]);
    const devices = (rows.meta.devices ?? []).map((device) => [
      device.name,
      count(device.trials),
      present(device.floor) ? `±${percent(100 * device.floor)} %` : NONE,
      count(device.aa_pairs),
    ]);
    fill(
      box,
      el("h3", { text: "Flags and no-difference bands" }),
      el(
        "ul",
        { id: "trust-lines" },
        [
          `${count(contaminated)} of ${plural(view.pairs.length, "pair")} are contaminated: other load affected more than a fifth of their rounds. In ${count(busy)}, other processes used half a core or more.`,
          noiseLine(view),
          replicatesLine(view),
          clockLine(view),
        ]
          .filter(Boolean)
          .map((text) => el("li", { text })),
      ),
      listed.length
        ? plainTable({
            caption: "Flags in this selection",
            head: ["Flag", "Meaning", "Pairs", "Share"],
            numeric: [2, 3],
            rows: listed,
          })
        : null,
      devices.length
        ? plainTable({
            caption: "Devices: the no-difference band comes from the A/A pairs",
            head: ["Device", "Trials", "No-difference band", "A/A pairs"],
            numeric: [1, 2, 3],
            rows: devices,
          })
        : null,
    );
  };
  addPanel(box, draw, { worth: (view) => view.pairs.length > 0 });
  return box;
}
