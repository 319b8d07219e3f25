/**
 * "Can I trust it?": spread within and between replicates, A/A pairs, flags, clocks and temperature.
 */

function trustSection() {
  byId("trust-charts").append(
    chart({
      title: "Noise of each trial",
      how: "Coefficient of variation of the candidate’s uncontaminated blocks in the noisiest replicate, percent.",
      build: noiseHistogram,
      table: noiseTable,
    }),
    chart({
      title: "The same mode against itself",
      how: "A/A pairs: graph against a second copy of graph in the same replicate. Their true ratio is 1×, so about 95 % of the intervals should contain it.",
      build: twinPlot,
      table: twinTable,
    }),
    chart({
      title: "Within and between replicates",
      how: "Right: noisier within a replicate; up: replicates differ more. Above the diagonal, more replicates help more than more rounds.",
      build: varianceScatter,
      table: varianceTable,
    }),
    chart({
      title: "Clock and temperature",
      how: "The lowest SM clock of each trial over its highest temperature; clocks that fall to the right show throttling.",
      build: clockScatter,
      table: clockTable,
    }),
    trustFacts(),
  );
}

function noiseBins(view) {
  return view.once("noise", () => {
    const cv = view.rows.number("cv_percent");
    const values = Array.from(view.pairs, (row) => cv[row]).filter((value) => value > 0);
    if (!values.length) return { values, bins: [], step: 0.2 };
    const step = 0.2; // decades: five bins each
    const [low, high] = extent(values).map((value) => Math.floor(Math.log10(value) / step));
    const bins = Array.from({ length: high - low + 1 }, (_, i) => ({
      from: 10 ** ((low + i) * step),
      to: 10 ** ((low + i + 1) * step),
      n: 0,
    }));
    for (const value of values) bins[Math.floor(Math.log10(value) / step) - low].n += 1;
    return { values, bins, step };
  });
}

const binName = ({ from, to }) => `${digits(from, 2)}–${digits(to, 2)} %`;

function noiseHistogram(view, theme) {
  const { values, bins } = noiseBins(view);
  if (!values.length) return { empty: "This selection has no record of noise." };
  const middle = median(values);
  const loud = values.filter((value) => value > 5).length;
  return {
    height: 280,
    label: `Median coefficient of variation ${digits(middle, 2)} %; ${plural(loud, "pair")} above 5 %.`,
    note: `Median ${digits(middle, 2)} %; ${plural(loud, "pair")} above 5 %.`,
    option: {
      grid: { left: 56, right: 12, top: 10, bottom: 46 },
      tooltip: {
        trigger: "item",
        formatter: ({ dataIndex }) => tip(binName(bins[dataIndex]), plural(bins[dataIndex].n, "pair")),
      },
      xAxis: {
        ...nameAxis(
          theme,
          bins.map((bin) => digits(bin.from, 2)),
          { axisLabel: { interval: "auto", color: theme.quiet } },
        ),
        name: "coefficient of variation (%), from",
        nameLocation: "middle",
        nameGap: 28,
        nameTextStyle: { color: theme.quiet },
      },
      yAxis: {
        ...linearAxis(
          theme,
          "pairs",
          bins.map((bin) => bin.n),
          short,
          { zero: true },
        ),
        nameGap: 40,
      },
      series: [
        { type: "bar", data: bins.map((bin) => bin.n), itemStyle: { color: theme.accent }, barCategoryGap: "8%" },
      ],
    },
  };
}

const noiseTable = (view) => ({
  caption: "Coefficient of variation",
  head: ["Range", "Pairs"],
  numeric: [1],
  rows: noiseBins(view).bins.map((bin) => [binName(bin), bin.n]),
});

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

function twinPlot(view, theme) {
  const found = twins(view);
  if (!found.length) return { empty: "There are no A/A pairs. Measure one with modes=[graph,graph,xla]" };
  const [speedup, low, high, floor] = ["speedup", "speedup_low", "speedup_high", "floor"].map((name) =>
    view.rows.number(name),
  );
  const bounded = found.filter((row) => present(low[row]) && present(high[row]));
  const containing = bounded.filter((row) => low[row] <= 1 && high[row] >= 1).length;
  const tested = trustOf(view);
  const drawn = sampled(found, 400);
  const band = Math.max(...found.map((row) => floor[row]).filter(present), 0.001);
  const data = drawn.map((row, i) => ({
    row,
    value: [i, Math.log2(speedup[row]), Math.log2(low[row]), Math.log2(high[row])],
  }));
  const said = `${count(containing)} of ${plural(bounded.length, "interval")} contain 1× (${share(containing, bounded.length)}). ${tested ? trustSentence(tested) : ""}`;
  return {
    height: 280,
    label: said,
    note: `${said} ${sampleNote(drawn.length, found.length)}`,
    option: {
      grid: { left: 62, right: 12, top: 10, bottom: 32 },
      tooltip: {
        trigger: "item",
        formatter: ({ data: { row } }) =>
          tip(
            rowName(view, row),
            `${view.rows.text("candidate", row)} / ${view.rows.text("baseline", row)}: ${times(speedup[row])} (95 % ${range(low[row], high[row])})`,
          ),
      },
      xAxis: {
        ...axisBase(theme, `${plural(found.length, "A/A pair")}, sorted`),
        min: -0.5,
        max: drawn.length - 0.5,
        nameGap: 12,
        axisLabel: { show: false },
        splitLine: { show: false },
      },
      yAxis: {
        ...speedupAxis(
          theme,
          "ratio",
          drawn.flatMap((row) => [speedup[row], low[row], high[row]]),
        ),
        nameGap: 46,
      },
      series: [
        {
          type: "custom",
          data,
          encode: { x: 0, y: [1, 2, 3] },
          ...unityMarks(theme, band),
          renderItem: (params, api) => {
            const { row } = data[params.dataIndex];
            const [x, y] = api.coord([api.value(0), api.value(1)]);
            const off = present(low[row]) && (low[row] > 1 || high[row] < 1);
            const colour = off ? theme.slower : theme.accent;
            const children = [markerShape(off ? "diamond" : "circle", x, y, off ? 4 : 3, colour)];
            if (present(low[row]))
              children.unshift({
                type: "line",
                shape: { x1: x, x2: x, y1: api.coord([0, api.value(2)])[1], y2: api.coord([0, api.value(3)])[1] },
                style: { stroke: colour, lineWidth: 1.2, opacity: 0.8 },
              });
            return { type: "group", children };
          },
        },
      ],
    },
    legend: legendOf([
      { colour: theme.accent, shape: "circle", text: "contains 1×" },
      { colour: theme.slower, shape: "diamond", text: "does not" },
    ]),
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
        times(n("speedup", row)),
        range(n("speedup_low", row), n("speedup_high", row)),
      ]),
  };
}

/** Pairs with two positive columns. */
function both(view, first, second) {
  return view.once(`both ${first} ${second}`, () => {
    const [a, b] = [view.rows.number(first), view.rows.number(second)];
    return view.pairs.filter((row) => a[row] > 0 && b[row] > 0);
  });
}

function varianceScatter(view, theme) {
  const rows = both(view, "within_percent", "between_percent");
  if (!rows.length) return { empty: "No pair has more than one replicate." };
  const [within, between] = [view.rows.number("within_percent"), view.rows.number("between_percent")];
  const drawn = sampled(rows, 1000);
  const above = rows.reduce((n, row) => n + (between[row] > within[row]), 0);
  const values = drawn.flatMap((row) => [within[row], between[row]]);
  const [xAxis, yAxis] = ["within a replicate: standard error (%)", "between replicates: standard deviation (%)"].map(
    (name) => logAxis(theme, name, values, (value) => digits(value, 2), { wanted: 5 }),
  );
  const said = `In ${count(above)} of ${plural(rows.length, "pair")} (${share(above, rows.length)}) replicates differ by more than the error within one.`;
  return {
    height: 320,
    label: said,
    note: `${said} ${sampleNote(drawn.length, rows.length)}`,
    option: {
      grid: { left: 62, right: 14, top: 10, bottom: 46 },
      tooltip: {
        trigger: "item",
        formatter: ({ data: { row } }) =>
          tip(rowName(view, row), `within ${digits(within[row], 2)} %, between ${digits(between[row], 2)} %`),
      },
      xAxis,
      yAxis: { ...yAxis, nameGap: 44 },
      series: [
        {
          type: "scatter",
          symbolSize: drawn.length > 800 ? 4 : 7,
          itemStyle: { color: theme.accent, opacity: drawn.length > 800 ? 0.4 : 0.7 },
          data: drawn.map((row) => ({ row, value: [Math.log10(within[row]), Math.log10(between[row])] })),
          markLine: {
            silent: true,
            symbol: "none",
            label: { show: false },
            lineStyle: { color: theme.quiet, type: "dashed" },
            data: [[{ coord: [xAxis.min, xAxis.min] }, { coord: [xAxis.max, xAxis.max] }]],
          },
        },
      ],
    },
  };
}

function pairOfColumns(view, caption, columns, write) {
  const rows = both(view, ...columns.map(([name]) => name));
  return {
    caption,
    head: ["Pair", ...columns.map(([, title]) => title)],
    numeric: [1, 2],
    total: rows.length,
    rows: Array.from(rows.subarray(0, 200), (row) => [
      rowName(view, row),
      ...columns.map(([name]) => write(view.rows.number(name)[row])),
    ]),
  };
}

const varianceTable = (view) =>
  pairOfColumns(
    view,
    "Variation within and between replicates",
    [
      ["within_percent", "Within (%)"],
      ["between_percent", "Between (%)"],
    ],
    (value) => digits(value, 3),
  );
const clockTable = (view) =>
  pairOfColumns(
    view,
    "Clock and temperature",
    [
      ["sm_clock_mhz_low", "Lowest clock (MHz)"],
      ["temperature_high", "Highest temperature (°C)"],
    ],
    (value) => digits(value, 4),
  );

function clockScatter(view, theme) {
  const rows = both(view, "sm_clock_mhz_low", "temperature_high");
  if (!rows.length) return { empty: "No clocks and temperatures were recorded; they are known for GPUs only." };
  const [clock, heat] = [view.rows.number("sm_clock_mhz_low"), view.rows.number("temperature_high")];
  const drawn = sampled(rows, 1000);
  const all = view.distinct("device");
  const device = view.rows.category("device");
  const [clocks, heats] = [clock, heat].map((values) => extent(Array.from(rows, (row) => values[row])));
  return {
    height: 320,
    label: `Lowest clocks ${count(clocks[0])} to ${count(clocks[1])} MHz at ${count(heats[0])} to ${count(heats[1])} °C.`,
    note: sampleNote(drawn.length, rows.length),
    legend: legendOf(all.slice(0, 6).map((name) => ({ ...deviceMark(theme, all, name), text: name }))),
    option: {
      grid: { left: 62, right: 14, top: 10, bottom: 46 },
      tooltip: {
        trigger: "item",
        formatter: ({ data: { row } }) =>
          tip(rowName(view, row), `${count(clock[row])} MHz at up to ${count(heat[row])} °C`),
      },
      xAxis: linearAxis(theme, "highest temperature (°C)", heats),
      yAxis: { ...linearAxis(theme, "lowest SM clock (MHz)", clocks, count), nameGap: 46 },
      series: all.map((name) => {
        const { colour, shape } = deviceMark(theme, all, name);
        return {
          type: "scatter",
          symbol: shape,
          symbolSize: 6,
          itemStyle: { color: colour, opacity: 0.6 },
          data: drawn
            .filter((row) => device.values[device.data[row]] === name)
            .map((row) => ({ row, value: [heat[row], clock[row]] })),
        };
      }),
    },
  };
}

/** Flags of the selection, and each device's no-difference band. */
function trustFacts() {
  const box = el("div", { class: "chart wide" });
  addPanel(box, (view) => {
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
      device.kind,
      count(device.trials),
      present(device.floor) ? `±${percent(100 * device.floor)} %` : NONE,
      count(device.aa_pairs),
    ]);
    fill(
      box,
      el("h3", { text: "Flags and no-difference bands" }),
      el("p", {
        text: `${count(contaminated)} of ${plural(view.pairs.length, "pair")} are contaminated: other load affected more than a fifth of their rounds. In ${count(busy)}, other processes used half a core or more.`,
      }),
      listed.length
        ? plainTable({
            caption: "Flags in this selection",
            head: ["Flag", "Meaning", "Pairs", "Share"],
            numeric: [2, 3],
            rows: listed,
          })
        : emptyState("No pair in this selection has a flag."),
      devices.length
        ? plainTable({
            caption: "Devices: the no-difference band comes from the A/A pairs",
            head: ["Device", "Kind", "Trials", "No-difference band", "A/A pairs"],
            numeric: [2, 3, 4],
            rows: devices,
          })
        : null,
    );
  });
  return box;
}
