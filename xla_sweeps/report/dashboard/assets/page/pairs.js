/**
 * All pairs from the fastest to the slowest: named bars, or, if there are many, columns with a band.
 */

const PAIRS_NAMED = 60;

/** The chart of all pairs. */
function sortedPairs(view, theme, width) {
  const rows = view.sorted("speedup").toReversed();
  const [speedup, low, high] = ["speedup", "speedup_low", "speedup_high"].map((name) => view.rows.number(name));
  const o = view.overview;
  const label = `${plural(o.compared, "pair")} from ${times(speedup[rows[0]])} to ${times(speedup[rows.at(-1)])}, ${count(o.faster)} faster, ${count(o.slower)} slower; ${count(o.failed)} failed.`;
  const named = rows.length <= PAIRS_NAMED;
  const built = named ? namedPairs(view, theme, width, rows) : pairColumns(view, theme, width, rows);
  const shown = Object.keys(VERDICTS).filter((verdict) => o[verdict] && verdict !== "failed");
  return { ...built, label, legend: [...verdictLegend(shown), ...doubtLegend(view, Array.from(rows))] };
}

const verdictLegend = (verdicts) => verdicts.map((verdict) => el("span", { class: "entry" }, verdictMark(verdict)));

/** Many pairs: a column each, or for each pixel the geometric mean of neighbours. */
function pairColumns(view, theme, width, rows) {
  const { failed } = view.overview;
  const columns = pairBuckets(view, rows, Math.max(100, Math.floor(width - 80)));
  const tail = failed ? (columns.length * failed) / rows.length : 0;
  const marks = unityMarks(theme, floorOf(view));
  if (tail)
    marks.markArea.data.push([
      {
        xAxis: columns.length * 1.01,
        itemStyle: { color: theme.failed, opacity: 0.18 },
        name: `✕ ${count(failed)} failed`,
        label: { color: theme.text, fontSize: 11, position: "insideTopRight" },
      },
      { xAxis: columns.length * 1.01 + tail },
    ]);
  const pointed = {
    type: "line",
    silent: true,
    showSymbol: false,
    lineStyle: { width: 0 },
    data: columns.map(({ row, value }, i) => ({ row, value: [i + 0.5, Math.log2(value)] })),
    ...marks,
  };
  return {
    height: 340,
    note:
      columns.length < rows.length
        ? "A column is the geometric mean of neighbouring pairs, grey where their verdicts differ; the band shows the mean ends of their intervals."
        : "",
    option: {
      grid: { left: 52, right: 16, top: 12, bottom: 34 },
      tooltip: {
        trigger: "axis",
        axisPointer: { type: "line" },
        formatter: (event) => pairTip(view, [event].flat().find((one) => one.data?.row !== undefined)?.data.row),
      },
      xAxis: {
        ...axisBase(theme, `${plural(rows.length, "measured pair")}, sorted by speedup`),
        min: 0,
        max: columns.length * (tail ? 1.01 : 1) + tail,
        nameGap: 12,
        axisLabel: { show: false },
        splitLine: { show: false },
      },
      yAxis: {
        ...speedupAxis(
          theme,
          `speedup over ${shortMode(view.state.baseline)}`,
          columns.flatMap(({ value, low, high }) => [value, low, high]),
        ),
        nameGap: 38,
      },
      series: [pointed, pairsOutline(theme, columns), pairsBand(theme, columns)],
    },
  };
}

/** Neighbouring rows as at most so many columns: means on the logarithmic scale, and the verdict and doubt of all. */
function pairBuckets(view, rows, most) {
  const columns = ["speedup", "speedup_low", "speedup_high"].map((name) => view.rows.number(name));
  const verdict = view.rows.category("verdict");
  const buckets = Math.min(rows.length, most);
  return Array.from({ length: buckets }, (_, bucket) => {
    const from = Math.floor((bucket * rows.length) / buckets);
    const own = Array.from(rows.subarray(from, Math.floor(((bucket + 1) * rows.length) / buckets)));
    const [value, low, high] = columns.map((column) => {
      const logs = own.map((row) => Math.log2(column[row])).filter((log) => log === log);
      return logs.length ? 2 ** (logs.reduce((sum, log) => sum + log, 0) / logs.length) : NaN;
    });
    const code = verdict.data[own[0]];
    const same = own.every((row) => verdict.data[row] === code);
    return {
      row: own[own.length >> 1],
      value,
      low,
      high,
      verdict: same ? verdict.values[code] : "",
      hollow: view.doubtOfAll(own),
    };
  });
}

/** Columns as one path for each look, ten times as fast as one element each. */
function pairsOutline(theme, columns) {
  return {
    type: "custom",
    silent: true,
    data: [0],
    renderItem: (params, api) => {
      const [[left, zero], [right]] = [api.coord([0, 0]), api.coord([1, 0])];
      const [step, unit] = [right - left, api.coord([0, 1])[1] - zero];
      const looks = new Map();
      columns.forEach(({ value, verdict, hollow }, i) => {
        const look = `${verdict} ${hollow ? "hollow" : "full"}`;
        if (!looks.has(look)) looks.set(look, { colour: theme[verdict] ?? theme.quiet, hollow, paths: [] });
        const [x, y] = [left + i * step, zero + unit * Math.log2(value)];
        looks
          .get(look)
          .paths.push(
            `M${x.toFixed(2)} ${zero}h${(step * 0.9).toFixed(2)}V${y.toFixed(1)}h${(-step * 0.9).toFixed(2)}z`,
          );
      });
      return {
        type: "group",
        children: [...looks.values()].map(({ colour, hollow, paths }) => ({
          type: "path",
          silent: true,
          shape: { pathData: paths.join("") },
          style: hollow
            ? { fill: mixed(theme.panel, colour, 0.25), stroke: colour, lineWidth: step >= 4 ? 1 : 0 }
            : { fill: colour },
        })),
      };
    },
  };
}

/** The intervals of the columns as one band. */
function pairsBand(theme, columns) {
  const bounded = columns
    .map(({ low, high }, i) => [i + 0.5, low, high])
    .filter(([, low, high]) => present(low) && present(high));
  return {
    type: "custom",
    silent: true,
    z: 3,
    data: [0],
    renderItem: (params, api) => ({
      type: "polygon",
      silent: true,
      style: { fill: theme.text, opacity: 0.22 },
      shape: {
        points: [
          ...bounded.map(([x, , to]) => api.coord([x, Math.log2(to)])),
          ...bounded.toReversed().map(([x, from]) => api.coord([x, Math.log2(from)])),
        ],
      },
    }),
  };
}

/** Few pairs: one line each, with name and figures. */
function namedPairs(view, theme, width, rows) {
  const [speedup, low, high] = ["speedup", "speedup_low", "speedup_high"].map((name) => view.rows.number(name));
  const room = Math.min(420, width * 0.45);
  const { shared } = nameParts(view);
  const { failed } = view.overview;
  const items = Array.from(rows, (row) => ({
    row,
    value: speedup[row],
    low: low[row],
    high: high[row],
    verdict: view.rows.text("verdict", row),
    doubt: view.doubt(row),
  }));
  return {
    height: 56 + rows.length * (rows.length > 36 ? 19 : 24),
    note: [
      shared.length ? `All: ${shared.join(", ")}.` : "",
      failed ? `${plural(failed, "pair")} failed and ${failed === 1 ? "has" : "have"} no bar; see “What broke”.` : "",
    ]
      .filter(Boolean)
      .join(" "),
    option: {
      grid: { left: room, right: 76, top: 6, bottom: 44 },
      tooltip: { trigger: "item", formatter: (event) => pairTip(view, event.data?.row) },
      xAxis: speedupAxis(
        theme,
        `speedup over ${shortMode(view.state.baseline)}`,
        items.flatMap((item) => [item.value, item.low, item.high]),
      ),
      yAxis: nameAxis(
        theme,
        items.map(({ row }) => rowLabel(view, row)),
        { inverse: true, axisLabel: { width: room - 12, overflow: "truncate" } },
      ),
      series: [{ ...pairsAlong(theme, items), ...unityMarks(theme, floorOf(view), true) }],
    },
  };
}

/** Horizontal bars from 1× with whiskers, a symbol and the figure; hollow and marked if there is doubt. */
function pairsAlong(theme, items) {
  return {
    type: "custom",
    encode: { x: [0, 2, 3], y: 1 },
    data: items.map((item, i) => ({
      row: item.row,
      value: [Math.log2(item.value), i, Math.log2(item.low), Math.log2(item.high)],
    })),
    renderItem: (params, api) => {
      const item = items[params.dataIndex];
      const [x, y] = api.coord([api.value(0), params.dataIndex]);
      const [zero] = api.coord([0, params.dataIndex]);
      const colour = theme[item.verdict] ?? theme.quiet;
      const children = [
        {
          type: "rect",
          shape: { x: Math.min(x, zero), y: y - 6, width: Math.max(1, Math.abs(x - zero)), height: 12 },
          style: item.doubt ? { fill: theme.panel, stroke: colour, lineWidth: 1.5 } : { fill: colour },
        },
      ];
      let end = Math.max(x, zero);
      if (present(item.low)) {
        const [from, to] = [
          api.coord([api.value(2), params.dataIndex])[0],
          api.coord([api.value(3), params.dataIndex])[0],
        ];
        end = Math.max(end, to);
        for (const [x1, y1, x2, y2] of [
          [from, y, to, y],
          [from, y - 4, from, y + 4],
          [to, y - 4, to, y + 4],
        ])
          children.push({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: theme.text, lineWidth: 1.2 } });
      }
      children.push({
        type: "text",
        style: {
          text: `${VERDICTS[item.verdict]?.symbol ?? ""} ${times(item.value)}${item.doubt ?? ""}`,
          x: end + 6,
          y,
          verticalAlign: "middle",
          fontSize: 11,
          fill: theme.text,
        },
      });
      return { type: "group", children };
    },
  };
}

/** A pair's tooltip. */
function pairTip(view, row) {
  if (row === undefined) return "";
  const { rows } = view;
  const n = (name) => rows.number(name)[row];
  const verdict = VERDICTS[rows.text("verdict", row)];
  return tip(
    rowName(view, row),
    `${verdict?.symbol ?? ""} ${verdict?.word ?? ""} · ${times(n("speedup"))}${view.doubt(row)} (95 % ${range(n("speedup_low"), n("speedup_high"))})`,
    `${rows.text("candidate", row)} ${rate(n("throughput_samples_per_s"))}, ${rows.text("baseline", row)} ${rate(n("baseline_throughput_samples_per_s"))}`,
    present(n("compile_s_extra"))
      ? `extra compile time ${seconds(n("compile_s_extra"))}, ${Number.isNaN(view.breakEven(row)) ? "unknown whether it pays back" : view.breakEven(row) === Infinity ? "never pays back" : `pays back after ${images(view.breakEven(row))}`}`
      : "",
    `${plural(n("replicates"), "replicate")}${n("preliminary") ? `, preliminary${withinOneProcess(rows, row)}` : ""}${rows.text("status", row) === "contaminated" ? ", contaminated" : ""}`,
  );
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
