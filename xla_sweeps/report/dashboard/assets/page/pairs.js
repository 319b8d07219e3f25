/**
 * All pairs from the fastest to the slowest. Depending on their number: named bars, bars with whiskers or a band, or a
 * line with a band.
 */

const PAIRS_NAMED = 36;
const PAIRS_WITH_WHISKERS = 300;
const PAIRS_AS_BARS = 2000;

/** The chart of all pairs. */
function sortedPairs(view, theme, width) {
  const rows = view.sorted("speedup").toReversed();
  const [speedup, low, high] = ["speedup", "speedup_low", "speedup_high"].map((name) => view.rows.number(name));
  const o = view.overview;
  const label = `${plural(rows.length, "pair")} from ${times(speedup[rows[0]])} to ${times(speedup[rows.at(-1)])}, ${count(o.faster)} faster, ${count(o.slower)} slower; ${count(o.failed)} failed.`;
  const extremes =
    rows.length > PAIRS_AS_BARS
      ? [speedup[rows[0]], speedup[rows.at(-1)]]
      : Array.from(rows).flatMap((row) => [speedup[row], low[row], high[row]]);
  if (rows.length <= PAIRS_NAMED) return { ...namedPairs(view, theme, width, rows, extremes), label };
  const tail = o.failed ? Math.min(Math.max(o.failed, rows.length * 0.06), rows.length * 0.25) : 0;
  const marks = unityMarks(theme, floorOf(view));
  if (tail)
    marks.markArea.data.push([
      {
        xAxis: rows.length * 1.01,
        itemStyle: { color: theme.failed, opacity: 0.18 },
        name: `✕ ${count(o.failed)} failed`,
        label: { color: theme.text, fontSize: 11, position: "insideTopRight" },
      },
      { xAxis: rows.length * 1.01 + tail },
    ]);
  const series =
    rows.length > PAIRS_AS_BARS
      ? pairsLine(view, theme, rows, width)
      : rows.length > PAIRS_WITH_WHISKERS
        ? [pairsPointed(view, rows), pairsOutline(view, theme, rows), pairsBand(view, theme, rows)]
        : [pairsBars(view, theme, rows)];
  Object.assign(series[0], marks);
  return {
    label,
    height: 340,
    note:
      rows.length > PAIRS_AS_BARS
        ? "Each point of the line is the geometric mean of neighbouring pairs; the band shows the mean ends of their intervals."
        : "",
    legend: verdictLegend(
      theme,
      rows.length > PAIRS_AS_BARS ? [] : Object.keys(VERDICTS).filter((verdict) => o[verdict] && verdict !== "failed"),
    ),
    option: {
      grid: { left: 52, right: 16, top: 12, bottom: 34 },
      tooltip: {
        trigger: rows.length > PAIRS_WITH_WHISKERS ? "axis" : "item",
        axisPointer: { type: "line" },
        formatter: (event) => pairTip(view, [event].flat().find((one) => one.data?.row !== undefined)?.data.row),
      },
      xAxis: {
        ...axisBase(theme, `${plural(rows.length, "pair")}, sorted by speedup`),
        min: 0,
        max: rows.length * (tail ? 1.01 : 1) + tail,
        nameGap: 12,
        axisLabel: { show: false },
        splitLine: { show: false },
      },
      yAxis: { ...speedupAxis(theme, `speedup over ${shortMode(view.state.baseline)}`, extremes), nameGap: 38 },
      series,
    },
  };
}

const verdictLegend = (theme, verdicts) =>
  verdicts.map((verdict) => el("span", { class: "entry" }, verdictMark(verdict)));

/** An invisible line for the pointer, because bars drawn as one path have no tooltips. */
function pairsPointed(view, rows) {
  const speedup = view.rows.number("speedup");
  return {
    type: "line",
    silent: true,
    showSymbol: false,
    lineStyle: { width: 0 },
    data: Array.from(rows, (row, i) => ({ row, value: [i + 0.5, Math.log2(speedup[row])] })),
  };
}

/** Many bars as one path per verdict, ten times as fast as one element per bar. */
function pairsOutline(view, theme, rows) {
  const [speedup, verdict] = [view.rows.number("speedup"), view.rows.category("verdict")];
  return {
    type: "custom",
    silent: true,
    data: [0],
    renderItem: (params, api) => {
      const [[left, zero], [right]] = [api.coord([0, 0]), api.coord([1, 0])];
      const [step, unit] = [right - left, api.coord([0, 1])[1] - zero];
      const paths = verdict.values.map(() => []);
      rows.forEach((row, i) =>
        paths[verdict.data[row]].push(
          `M${(left + i * step).toFixed(2)} ${zero}h${(step * 0.9).toFixed(2)}V${(zero + unit * Math.log2(speedup[row])).toFixed(1)}h${(-step * 0.9).toFixed(2)}z`,
        ),
      );
      return {
        type: "group",
        children: paths
          .map((path, code) => ({
            type: "path",
            silent: true,
            shape: { pathData: path.join("") },
            style: { fill: theme[verdict.values[code]] ?? theme.quiet },
          }))
          .filter((_, code) => paths[code].length),
      };
    },
  };
}

/** The intervals of many bars as one band. */
function pairsBand(view, theme, rows) {
  const [low, high] = ["speedup_low", "speedup_high"].map((name) => view.rows.number(name));
  const bounded = Array.from(rows, (row, i) => [i + 0.5, low[row], high[row]]).filter(
    ([, from, to]) => present(from) && present(to),
  );
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

/** Bars with whiskers. */
function pairsBars(view, theme, rows) {
  const [speedup, low, high] = ["speedup", "speedup_low", "speedup_high"].map((name) => view.rows.number(name));
  const verdict = view.rows.category("verdict");
  return {
    type: "custom",
    encode: { x: 0, y: [1, 2, 3] },
    clip: true,
    data: Array.from(rows, (row, i) => ({
      row,
      value: [i, Math.log2(speedup[row]), Math.log2(low[row]), Math.log2(high[row])],
    })),
    renderItem: (params, api) => {
      const i = api.value(0);
      const row = rows[i];
      const [x, y] = api.coord([i, api.value(1)]);
      const [right, zero] = api.coord([i + 1, 0]);
      const width = right - x;
      const name = verdict.values[verdict.data[row]];
      const children = [
        {
          type: "rect",
          shape: {
            x: x + width * 0.1,
            y: Math.min(y, zero),
            width: Math.max(width * 0.8, 0.6),
            height: Math.max(1, Math.abs(y - zero)),
          },
          style: { fill: theme[name] ?? theme.quiet },
        },
      ];
      if (low[row] === low[row]) {
        const [top, bottom, middle] = [api.coord([i, api.value(3)])[1], api.coord([i, api.value(2)])[1], x + width / 2];
        children.push({
          type: "line",
          shape: { x1: middle, x2: middle, y1: top, y2: bottom },
          style: { stroke: theme.text, lineWidth: 1, opacity: 0.75 },
        });
        if (width >= 9)
          children.push({
            type: "text",
            style: {
              text: VERDICTS[name]?.symbol ?? "",
              x: middle,
              y: y < zero ? top - 8 : bottom + 8,
              align: "center",
              verticalAlign: "middle",
              fontSize: 9,
              fill: theme[name] ?? theme.quiet,
            },
          });
      }
      return { type: "group", children };
    },
  };
}

/** A line of means over neighbouring pairs, with the band of their intervals. */
function pairsLine(view, theme, rows, width) {
  const columns = ["speedup", "speedup_low", "speedup_high"].map((name) => view.rows.number(name));
  const buckets = Math.min(rows.length, Math.max(100, Math.floor(width)));
  const points = Array.from({ length: buckets }, (_, bucket) => {
    const [from, to] = [
      Math.floor((bucket * rows.length) / buckets),
      Math.floor(((bucket + 1) * rows.length) / buckets),
    ];
    const means = columns.map((column) => {
      let [sum, n] = [0, 0];
      for (let i = from; i < to; i++) {
        const value = column[rows[i]];
        if (value === value) {
          sum += Math.log2(value);
          n += 1;
        }
      }
      return n ? sum / n : NaN;
    });
    return { row: rows[(from + to) >> 1], value: [(from + to) / 2, ...means] };
  });
  const line = (place, style, extra = {}) => ({
    type: "line",
    showSymbol: false,
    silent: true,
    data: points.map(({ row, value }) => ({ row, value: [value[0], value[place]] })),
    lineStyle: style,
    ...extra,
  });
  return [
    line(1, { color: theme.faster, width: 2 }, { z: 3 }),
    {
      type: "custom",
      silent: true,
      z: 2,
      data: [0],
      renderItem: (params, api) => ({
        type: "polygon",
        silent: true,
        style: { fill: theme.faster, opacity: 0.25 },
        shape: {
          points: [
            ...points.filter(({ value }) => value[3] === value[3]).map(({ value }) => api.coord([value[0], value[3]])),
            ...points
              .toReversed()
              .filter(({ value }) => value[2] === value[2])
              .map(({ value }) => api.coord([value[0], value[2]])),
          ],
        },
      }),
    },
  ];
}

/** Few pairs: one line each, with name and figures. */
function namedPairs(view, theme, width, rows, extremes) {
  const [speedup, low, high] = ["speedup", "speedup_low", "speedup_high"].map((name) => view.rows.number(name));
  const verdict = view.rows.category("verdict");
  const room = Math.min(330, width * 0.42);
  const shared = nameParts(view).shared;
  const series = pairsAlong(
    theme,
    Array.from(rows, (row) => ({
      row,
      value: speedup[row],
      low: low[row],
      high: high[row],
      verdict: verdict.values[verdict.data[row]],
    })),
  );
  Object.assign(series, unityMarks(theme, floorOf(view), true));
  return {
    height: 56 + rows.length * 24,
    legend: verdictLegend(
      theme,
      Object.keys(VERDICTS).filter((name) => view.overview[name] && name !== "failed"),
    ),
    note: [
      shared.length ? `All: ${shared.join(", ")}.` : "",
      view.overview.failed
        ? `${plural(view.overview.failed, "pair")} failed and ${view.overview.failed === 1 ? "has" : "have"} no bar; see “What broke”.`
        : "",
    ]
      .filter(Boolean)
      .join(" "),
    option: {
      grid: { left: room, right: 70, top: 6, bottom: 44 },
      tooltip: { trigger: "item", formatter: (event) => pairTip(view, event.data?.row) },
      xAxis: speedupAxis(theme, `speedup over ${shortMode(view.state.baseline)}`, extremes),
      yAxis: nameAxis(
        theme,
        rowLabels(view, rows),
        { inverse: true, axisLabel: { width: room - 12, overflow: "truncate" } },
      ),
      series: [series],
    },
  };
}

/** Horizontal bars from 1× with whiskers, a symbol and the figure. */
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
          style: { fill: colour },
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
          text: `${VERDICTS[item.verdict]?.symbol ?? ""} ${times(item.value)}`,
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
    `${verdict?.symbol ?? ""} ${verdict?.word ?? ""} · ${times(n("speedup"))} (95 % ${range(n("speedup_low"), n("speedup_high"))})`,
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
      times(n("speedup", row)),
      range(n("speedup_low", row), n("speedup_high", row)),
      verdictMark(view.rows.text("verdict", row)),
    ]),
  };
}
