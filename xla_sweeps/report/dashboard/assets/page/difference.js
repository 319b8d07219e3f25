/**
 * "What changed?": two results folders side by side, on a page that compares them.
 */

function differenceSection(comparison) {
  const section = byId("difference");
  section.hidden = !comparison;
  if (!comparison) return;
  const { title_a: a, title_b: b, counts = {}, environment = [], only_a: onlyA = [], only_b: onlyB = [] } = comparison;
  byId("difference-sub").textContent = `${b} against ${a}: above 1×, ${b} is faster.`;
  fill(
    byId("difference-chips"),
    ["faster", "equivalent", "ambiguous", "slower"].map((verdict) =>
      el("span", { class: "chip still" }, verdictMark(verdict), " ", el("b", { text: count(counts[verdict] ?? 0) })),
    ),
  );
  const preliminary = comparison.rows.filter((row) => row.preliminary).length;
  const contaminated = comparison.rows.filter((row) => row.contaminated).length;
  byId("difference-charts").append(
    chart({
      title: `${b} over ${a}`,
      wide: true,
      how: "Ratio with its 95 % interval, sorted; the line at 1× means no change.",
      build: (view, theme, width) => differenceChart(comparison, theme, width),
      table: () => differenceTable(comparison),
      worth: () => bySize(comparison).length > 0,
    }),
    el(
      "div",
      { class: "chart wide" },
      preliminary
        ? el("p", {
            class: "note",
            text: `${count(preliminary)} of ${plural(comparison.rows.length, "comparison")} have fewer than three replicates: preliminary.`,
          })
        : null,
      contaminated
        ? el("p", {
            class: "note",
            text: `${count(contaminated)} of ${plural(comparison.rows.length, "comparison")} are contaminated by other load on the machine: ambiguous.`,
          })
        : null,
      el("h3", { text: "Machines and versions" }),
      environment.length
        ? plainTable({
            caption: "Machines and versions",
            head: ["Property", a, b],
            rows: environment.map((entry) => [entry.what, mark(entry, "a"), mark(entry, "b")]),
          })
        : emptyState("Machines and versions are not recorded."),
      onlyList(`Only in ${a}`, onlyA),
      onlyList(`Only in ${b}`, onlyB),
    ),
  );
}

const mark = (entry, side) => (entry.a === entry.b ? entry[side] : el("b", { text: entry[side] }));

function onlyList(title, items) {
  if (!items.length) return null;
  return el(
    "details",
    { class: "twin" },
    el("summary", { text: `${title}: ${count(items.length)}` }),
    el(
      "ul",
      {},
      items.slice(0, 500).map((item) => el("li", { text: item })),
    ),
  );
}

const bySize = ({ rows }) => rows.filter((row) => present(row.ratio)).toSorted((a, b) => b.ratio - a.ratio);

function differenceChart(comparison, theme, width) {
  const rows = bySize(comparison);
  const items = rows.map((row) => ({
    value: row.ratio,
    low: row.low,
    high: row.high,
    verdict: row.verdict,
    doubt: doubtOf(row),
  }));
  const extremes = items.flatMap(({ value, low, high }) => [value, low ?? value, high ?? value]);
  const label = `${plural(rows.length, "comparison")} from ${times(rows[0].ratio)} to ${times(rows.at(-1).ratio)}.`;
  const tooltip = { trigger: "item", formatter: ({ dataIndex }) => differenceTip(rows[dataIndex]) };
  const legend = verdictLegend(Object.keys(VERDICTS).filter((verdict) => rows.some((row) => row.verdict === verdict)));
  if (rows.length <= 60) {
    const room = Math.min(380, width * 0.45);
    return {
      label,
      legend,
      height: 56 + rows.length * 22,
      option: {
        grid: { left: room, right: 76, top: 6, bottom: 44 },
        tooltip,
        xAxis: speedupAxis(theme, "ratio", extremes),
        yAxis: nameAxis(
          theme,
          rows.map((row) => `${row.name} · ${row.quantity}`),
          { inverse: true, axisLabel: { width: room - 12, overflow: "truncate" } },
        ),
        series: [{ ...pairsAlong(theme, items), ...unityMarks(theme, 0, true) }],
      },
    };
  }
  return {
    label,
    legend,
    height: 340,
    option: {
      grid: { left: 56, right: 12, top: 10, bottom: 32 },
      tooltip,
      xAxis: {
        ...axisBase(theme, `${plural(rows.length, "comparison")}, sorted`),
        min: -0.5,
        max: rows.length - 0.5,
        nameGap: 12,
        axisLabel: { show: false },
        splitLine: { show: false },
      },
      yAxis: { ...speedupAxis(theme, "ratio", extremes), nameGap: 40 },
      series: [
        {
          type: "custom",
          encode: { x: 0, y: [1, 2, 3] },
          ...unityMarks(theme, 0),
          data: items.map((item, i) => [
            i,
            Math.log2(item.value),
            Math.log2(item.low ?? NaN),
            Math.log2(item.high ?? NaN),
          ]),
          renderItem: (params, api) => {
            const item = items[params.dataIndex];
            const [x, y] = api.coord([params.dataIndex, Math.log2(item.value)]);
            const colour = theme[item.verdict] ?? theme.quiet;
            const children = [
              markerShape(VERDICT_SHAPES[item.verdict] ?? "rect", x, y, 3.5, colour, item.doubt && theme.panel),
            ];
            if (present(item.low))
              children.unshift({
                type: "line",
                shape: {
                  x1: x,
                  x2: x,
                  y1: api.coord([0, Math.log2(item.low)])[1],
                  y2: api.coord([0, Math.log2(item.high)])[1],
                },
                style: { stroke: colour, lineWidth: 1, opacity: 0.7 },
              });
            return { type: "group", children };
          },
        },
      ],
    },
  };
}

const doubtOf = (row) => `${row.preliminary ? "*" : ""}${row.contaminated ? "~" : ""}`;

const differenceTip = (row) =>
  tip(
    `${row.name} · ${row.device}`,
    row.quantity,
    `${VERDICTS[row.verdict]?.symbol ?? ""} ${times(row.ratio)}${doubtOf(row)} (95 % ${range(row.low, row.high)})`,
    present(row.p_value) ? `p ${digits(row.p_value, 2)}, q ${digits(row.q_value, 2)}` : "",
    [row.preliminary ? "preliminary" : "", row.contaminated ? "contaminated" : ""].filter(Boolean).join(", "),
  );

function differenceTable(comparison) {
  const rows = [...bySize(comparison), ...comparison.rows.filter((row) => !present(row.ratio))];
  return {
    caption: `${comparison.title_b} over ${comparison.title_a}`,
    head: ["Trial", "Device", "Quantity", "Ratio", "95 % interval", "p", "q", "Verdict"],
    numeric: [3, 4, 5, 6],
    total: rows.length,
    rows: rows
      .slice(0, 500)
      .map((row) => [
        row.name,
        row.device,
        row.quantity,
        `${times(row.ratio)}${doubtOf(row)}`,
        range(row.low, row.high),
        digits(row.p_value, 2),
        digits(row.q_value, 2),
        verdictMark(row.verdict),
      ]),
  };
}
