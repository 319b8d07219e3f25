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
      name: "difference",
      build: (view, theme, width) => differenceChart(view, comparison, theme, width),
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

function differenceChart(view, comparison, theme, width) {
  const rows = bySize(comparison);
  const [a, b] = [comparison.title_a, comparison.title_b].map(chartText);
  const devices = [...new Set(rows.map(({ device }) => device))];
  const { meta } = view.rows;
  const series = {
    count: rows.length,
    value: (i) => rows[i].ratio,
    low: (i) => rows[i].low ?? NaN,
    high: (i) => rows[i].high ?? NaN,
    verdict: (i) => rows[i].verdict,
    doubt: (i) => doubtOf(rows[i]),
    name: (i) => `${rows[i].name} · ${rows[i].quantity}`,
    key: (i) => rows[i],
  };
  return {
    ...sortedBars(series, { theme, width, floor: 0, failed: 0, axis: `${b} over ${a}` }),
    finding: `${b} is faster than ${a} in ${count(comparison.counts?.faster ?? 0)} of ${plural(rows.length, "comparison")}, slower in ${count(comparison.counts?.slower ?? 0)}`,
    subject: [`${b} over ${a}`, someOf(devices, 3), plural(rows.length, "comparison"), daysOf([meta.first, meta.last])]
      .filter(Boolean)
      .join(" · "),
    tip: (item) => tipOf(item, "comparison", differenceTip),
  };
}

const doubtOf = (row) => `${row.preliminary ? "*" : ""}${row.contaminated ? "~" : ""}`;

const differenceTip = (row) => [
  `${row.name} · ${row.device}`,
  row.quantity,
  `${VERDICTS[row.verdict]?.symbol ?? ""} ${times(row.ratio)}${doubtOf(row)} (95 % ${range(row.low, row.high)})`,
  present(row.p_value) ? `p ${digits(row.p_value, 2)}, q ${digits(row.q_value, 2)}` : "",
  [row.preliminary ? "preliminary" : "", row.contaminated ? "contaminated" : ""].filter(Boolean).join(", "),
];

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
