/**
 * "Should I turn XLA on?": the answer in a sentence, the verdicts, the key figures and all pairs by speedup.
 */

const SHORT_MODES = { xla: "XLA", eager: "eager", graph: "graph", default: "the default", autocluster: "auto-clustering" };

/** A mode label in a few letters. */
const shortMode = (label) => SHORT_MODES[label] ?? label;

/** The whole section. */
function answerSection() {
  const [sentence, sub, strip, chips, keys] = ["sentence", "sub", "strip", "chips", "keys"].map((name) => byId(`answer-${name}`));
  addPanel(byId("answer-head"), (view) => {
    const { yes, text, more, command } = answerTo(view);
    fill(sentence, el("b", { text: `${yes} ` }), text);
    fill(sub, more ? el("p", { text: more }) : null, command ? el("p", {}, "Run: ", el("code", { text: command })) : null);
    verdictStrip(view, strip, chips);
    fill(keys, keyFigures(view).map(([name, value, about]) => el("div", {}, el("dt", { text: name }), el("dd", {}, el("b", { text: value }), about ? el("span", { text: about }) : null))));
  });
  byId("answer-charts").append(chart({
    title: "Every pair, by speedup", how: "Bars start at 1× on a logarithmic scale; whiskers, or the band where there are many, are 95 % intervals; the shaded band counts as no difference.",
    build: sortedPairs, table: pairsTable, wide: true,
    click: (event, view) => event.data?.row !== undefined && view.state.set({ model: view.rows.text("model", event.data.row) }),
  }));
  addPanel(byId("published"), published);
}

/** The answer: a word, a sentence, and what to know besides. */
function answerTo(view) {
  const { overview: o, state, pairs } = view;
  const [candidate, baseline] = [shortMode(state.candidate), shortMode(state.baseline)];
  if (!o.pairs) return { yes: "No matching pair was measured.", text: "", more: "Nothing compares the two modes in this selection.", command: measureCommand(state) };
  if (o.pairs === 1) return answerToOne(view, pairs[0], candidate, baseline);
  const importedOnly = countOf(view, "origin", "imported") === o.pairs;
  if (importedOnly && o.compared) return answerAsPublished(view, candidate, baseline);
  if (importedOnly) return { yes: "Published, not compared.", text: `${plural(o.pairs, "figure")} of one mode alone.`, more: "Without the other mode there is no speedup." };
  const models = view.distinct("model");
  const devices = view.distinct("device");
  const what = models.length === 1 ? `${models[0]}${devices.length === 1 ? ` on ${devices[0]}` : ""}: ` : "";
  if (o.failed === o.pairs) return { yes: "No.", text: `${what}${candidate} against ${baseline} failed in all ${plural(o.pairs, "pair")}.`, more: "“What broke” below has the reasons and what to do." };
  const counts = [`${candidate} is faster than ${baseline} in ${count(o.faster)} of ${plural(o.pairs, "pair")} (${share(o.faster, o.pairs)})`];
  if (o.slower) counts.push(`slower in ${count(o.slower)}`);
  if (o.failed) counts.push(`failed in ${count(o.failed)}`);
  const typical = present(o.geomean) ? ` Typically ${times(o.geomean)}${present(o.geomean_low) ? ` (geometric mean, 95 % ${range(o.geomean_low, o.geomean_high)})` : " (geometric mean)"}${paysBack(view)}` : "";
  const preliminary = countWhere(view, "preliminary");
  const more = [
    preliminary ? `${preliminary === o.pairs ? "All" : count(preliminary)} of these rest on fewer than three processes: preliminary.` : "",
    view.state.origin !== "measured" && countOf(view, "origin", "imported") ? `${count(countOf(view, "origin", "imported"))} are published single measurements without an interval, hence “unsure”.` : "",
    "Filter to your model and device for an answer of your own.",
  ].filter(Boolean).join(" ");
  return { yes: overallWord(o), text: `${what}${counts.join(", ")}.${typical}`, more };
}

/** Where all figures are published ones: which way they point, and that nothing is known of their noise. */
function answerAsPublished(view, candidate, baseline) {
  const { compared, geomean, geomean_low: low, geomean_high: high } = view.overview;
  const speedup = view.rows.number("speedup");
  const above = view.pairs.reduce((n, row) => n + (speedup[row] > 1), 0);
  const word = above / compared >= 0.6 ? "Usually yes, as published." : above / compared <= 0.4 ? "Usually no, as published." : "It depends, as published.";
  const interval = present(low) ? `, 95 % ${range(low, high)} over figures` : "";
  return {
    yes: word, text: `${candidate} is above ${baseline} in ${count(above)} of ${plural(compared, "published figure")}. Typically ${times(geomean)} (geometric mean${interval}).`,
    more: "These are single measurements of others, without an interval of their own, hence “unsure”.",
  };
}

/** "Usually yes", and the like: what share of all pairs, failures among them. */
function overallWord({ pairs, faster, slower, equivalent, failed, geomean_low: low, geomean_high: high }) {
  if (faster === pairs) return "Yes.";
  if (slower === pairs) return "No.";
  if (faster / pairs >= 0.6 && (low === null || low > 1)) return "Usually yes.";
  if (slower / pairs >= 0.6 && (high === null || high < 1)) return "Usually no.";
  if (equivalent / pairs >= 0.6) return "It hardly matters.";
  if (failed / pairs >= 0.6) return "Mostly it fails.";
  return "It depends.";
}

function answerToOne(view, row, candidate, baseline) {
  const { rows } = view;
  const numbers = (name) => rows.number(name)[row];
  const verdict = rows.text("verdict", row);
  const where = `${rows.text("model", row)} ${numbers("resolution_px")} px, batch ${numbers("batch_size")}, on ${rows.text("device", row)}`;
  const interval = present(numbers("speedup_low")) ? `95 % ${range(numbers("speedup_low"), numbers("speedup_high"))}` : "a single measurement, no interval";
  const figure = `${where}: ${candidate} ${times(numbers("speedup"))} ${baseline} (${interval})`;
  const more = numbers("preliminary") ? `From ${plural(numbers("replicates"), "process", "processes")}: preliminary.` : "";
  const command = rows.text("command", row);
  if (verdict === "failed") {
    const said = rows.text("failure_message", row) || view.rows.meta.status_texts?.[rows.text("status", row)] || rows.text("status", row);
    const lost = shortMode(rows.text("failed_mode", row) || candidate);
    return { yes: lost === baseline ? "No answer." : "No.", text: `${where}: ${lost} failed: ${cut(said, 200)}`, more: rows.text("failure_hint", row), command };
  }
  if (!present(numbers("speedup"))) return { yes: "Published, not compared.", text: `${where}: ${rate(numbers("throughput_samples_per_s"))} with ${candidate}.`, more: rows.text("note", row) };
  const images_ = view.breakEven(row);
  const pays = !Number.isNaN(images_) ? (images_ === Infinity ? "; it never pays its compiling back" : images_ < 1 ? "; getting ready costs no more time" : `; pays back after ${images(images_)}`) : "";
  const words = { faster: "Yes.", slower: "No.", equivalent: "No difference.", ambiguous: "Unsure." };
  if (rows.text("origin", row) === "imported") return { yes: numbers("speedup") >= 1 ? "Yes, as published." : "No, as published.", text: `${figure}.`, more: rows.text("note", row) };
  const text = `${figure}${verdict === "faster" ? pays : ""}.`;
  return verdict === "ambiguous" ? { yes: words[verdict], text, more: `${more} Its interval crosses the band of ±${percent(100 * numbers("floor"))} % that counts as no difference; more processes narrow it.`.trim(), command } : { yes: words[verdict] ?? "", text, more };
}

/** Half of the pairs pay back within …; pairs that never do count. */
function paysBack(view) {
  const middle = breakEvenMedian(view);
  if (middle === null) return ".";
  return middle === Infinity ? "; most never pay their compiling back." : `; half pay back within ${images(middle)}.`;
}

/** The median of images to break even over pairs with a compile time; infinite: most never do; null: unknown. */
function breakEvenMedian(view) {
  return view.once("break-even median", () => {
    const values = Array.from(view.pairs, (row) => view.breakEven(row)).filter((value) => !Number.isNaN(value));
    return values.length ? median(values) : null;
  });
}

/** The command that would measure what is filtered for. */
function measureCommand(state) {
  const one = (name, key) => (state[name].size === 1 ? [`${key}=${[...state[name]][0]}`] : []);
  const parts = [state.model ? `model=${/^[\w.-]+$/.test(state.model) ? state.model : "NAME"}` : "model=NAME", ...one("resolution_px", "resolution"), ...one("batch_size", "batch_size"), ...one("precision", "precision"), ...one("source", "source")];
  return `xla-sweeps ${parts.join(" ")}`;
}

const countWhere = (view, name) => view.once(`count ${name}`, () => view.pairs.reduce((n, row) => n + (view.rows.number(name)[row] === 1), 0));
const countOf = (view, name, value) => view.once(`count ${name} ${value}`, () => {
  const column = view.rows.category(name);
  const code = column.values.indexOf(value);
  return view.pairs.reduce((n, row) => n + (column.data[row] === code), 0);
});

/** The bar of verdicts and the chips below it, which filter. */
function verdictStrip(view, strip, chips) {
  const column = view.rows.category("verdict");
  const counts = new Map();
  for (const row of view.anyVerdict) counts.set(column.data[row], (counts.get(column.data[row]) ?? 0) + 1);
  const all = view.anyVerdict.length;
  const entries = Object.keys(VERDICTS).map((verdict) => [verdict, counts.get(column.values.indexOf(verdict)) ?? 0]);
  fill(strip, entries.filter(([, n]) => n).map(([verdict, n]) => {
    const part = el("span", { class: `part ${verdict}` });
    part.style.flexGrow = String(n);
    return part;
  }));
  const chosen = view.state.verdict;
  const focused = document.activeElement?.dataset?.verdict;
  fill(chips, entries.map(([verdict, n]) => el("button", {
    type: "button", class: "chip", "aria-pressed": String(chosen.has(verdict)), data: { verdict }, on: { click: () => view.state.toggle("verdict", verdict) },
  }, verdictMark(verdict), " ", el("b", { text: count(n) }), all ? ` (${share(n, all)})` : "")));
  if (focused) chips.querySelector(`[data-verdict="${focused}"]`)?.focus();
}

/** Name, value and a word on each key figure. */
function keyFigures(view) {
  const o = view.overview;
  const middle = breakEvenMedian(view);
  return [
    ["Geometric mean", times(o.geomean), present(o.geomean_low) ? `95 % ${range(o.geomean_low, o.geomean_high)}` : ""],
    ["Compared pairs", count(o.compared), `of ${count(o.pairs)}`],
    ["Median extra compile", seconds(o.median_extra_compile_s), o.with_compile ? `${plural(o.with_compile, "pair")} with a compile time` : ""],
    ["Median break-even", middle === null ? NONE : images(middle), middle === null ? "" : `${count(o.never)} never`],
    ["Failed", count(o.failed), share(o.failed, o.pairs)],
    ["Discoveries", count(o.discoveries), "at 5 % false discoveries"],
  ];
}

const PAIRS_NAMED = 36;
const PAIRS_WITH_WHISKERS = 300;
const PAIRS_AS_BARS = 2000;

/** All pairs from the fastest to the slowest: named bars, bars, or a line with a band, by their number. */
function sortedPairs(view, theme, width) {
  const rows = view.sorted("speedup").toReversed();
  if (!rows.length && view.pairs.length) return { empty: view.overview.failed ? `XLA or its baseline failed in ${plural(view.overview.failed, "pair")}; see “What broke”.` : "These figures have no counterpart to compare with." };
  if (!rows.length) return { empty: "No matching pair was measured.", command: measureCommand(view.state) };
  const [speedup, low, high] = ["speedup", "speedup_low", "speedup_high"].map((name) => view.rows.number(name));
  const o = view.overview;
  const label = `${plural(rows.length, "pair")} from ${times(speedup[rows[0]])} to ${times(speedup[rows.at(-1)])}, ${count(o.faster)} faster, ${count(o.slower)} slower; ${count(o.failed)} failed.`;
  const extremes = rows.length > PAIRS_AS_BARS ? [speedup[rows[0]], speedup[rows.at(-1)]] : Array.from(rows).flatMap((row) => [speedup[row], low[row], high[row]]);
  if (rows.length <= PAIRS_NAMED) return { ...namedPairs(view, theme, width, rows, extremes), label };
  const tail = o.failed ? Math.min(Math.max(o.failed, rows.length * 0.06), rows.length * 0.25) : 0;
  const marks = unityMarks(theme, floorOf(view));
  if (tail) marks.markArea.data.push([{ xAxis: rows.length * 1.01, itemStyle: { color: theme.failed, opacity: 0.18 }, name: `✕ ${count(o.failed)} failed`, label: { color: theme.text, fontSize: 11, position: "insideTopRight" } }, { xAxis: rows.length * 1.01 + tail }]);
  const series = rows.length > PAIRS_AS_BARS ? pairsLine(view, theme, rows, width) : rows.length > PAIRS_WITH_WHISKERS ? [pairsPointed(view, rows), pairsOutline(view, theme, rows), pairsBand(view, theme, rows)] : [pairsBars(view, theme, rows)];
  Object.assign(series[0], marks);
  return {
    label, height: 340, note: rows.length > PAIRS_AS_BARS ? "Each point of the line is the geometric mean of neighbouring pairs, the band that of their interval ends." : "",
    legend: verdictLegend(theme, rows.length > PAIRS_AS_BARS ? [] : Object.keys(VERDICTS).filter((verdict) => o[verdict] && verdict !== "failed")),
    option: {
      grid: { left: 52, right: 16, top: 12, bottom: 34 },
      tooltip: { trigger: rows.length > PAIRS_WITH_WHISKERS ? "axis" : "item", axisPointer: { type: "line" }, formatter: (event) => pairTip(view, [event].flat().find((one) => one.data?.row !== undefined)?.data.row) },
      xAxis: { ...axisBase(theme, `${plural(rows.length, "pair")}, sorted by speedup`), min: 0, max: rows.length * (tail ? 1.01 : 1) + tail, nameGap: 12, axisLabel: { show: false }, splitLine: { show: false } },
      yAxis: { ...speedupAxis(theme, `speedup over ${shortMode(view.state.baseline)}`, extremes), nameGap: 38 },
      series,
    },
  };
}

const verdictLegend = (theme, verdicts) => verdicts.map((verdict) => el("span", { class: "entry" }, verdictMark(verdict)));

/** Nothing to see: what the pointer meets where bars are drawn together. */
function pairsPointed(view, rows) {
  const speedup = view.rows.number("speedup");
  return { type: "line", silent: true, showSymbol: false, lineStyle: { width: 0 }, data: Array.from(rows, (row, i) => ({ row, value: [i + 0.5, Math.log2(speedup[row])] })) };
}

/** Many bars as one path per verdict: a tenth of the time of an element each. */
function pairsOutline(view, theme, rows) {
  const [speedup, verdict] = [view.rows.number("speedup"), view.rows.category("verdict")];
  return { type: "custom", silent: true, data: [0], renderItem: (params, api) => {
    const [[left, zero], [right]] = [api.coord([0, 0]), api.coord([1, 0])];
    const [step, unit] = [right - left, api.coord([0, 1])[1] - zero];
    const paths = verdict.values.map(() => []);
    rows.forEach((row, i) => paths[verdict.data[row]].push(`M${(left + i * step).toFixed(2)} ${zero}h${(step * 0.9).toFixed(2)}V${(zero + unit * Math.log2(speedup[row])).toFixed(1)}h${(-step * 0.9).toFixed(2)}z`));
    return { type: "group", children: paths.map((path, code) => ({ type: "path", silent: true, shape: { pathData: path.join("") }, style: { fill: theme[verdict.values[code]] ?? theme.quiet } })).filter((_, code) => paths[code].length) };
  } };
}

/** The intervals of many bars as one band. */
function pairsBand(view, theme, rows) {
  const [low, high] = ["speedup_low", "speedup_high"].map((name) => view.rows.number(name));
  const bounded = Array.from(rows, (row, i) => [i + 0.5, low[row], high[row]]).filter(([, from, to]) => present(from) && present(to));
  return { type: "custom", silent: true, z: 3, data: [0], renderItem: (params, api) => ({
    type: "polygon", silent: true, style: { fill: theme.text, opacity: 0.22 },
    shape: { points: [...bounded.map(([x, , to]) => api.coord([x, Math.log2(to)])), ...bounded.toReversed().map(([x, from]) => api.coord([x, Math.log2(from)]))] },
  }) };
}

/** Bars, with whiskers where they are few. */
function pairsBars(view, theme, rows) {
  const [speedup, low, high] = ["speedup", "speedup_low", "speedup_high"].map((name) => view.rows.number(name));
  const verdict = view.rows.category("verdict");
  return {
    type: "custom", encode: { x: 0, y: [1, 2, 3] }, clip: true,
    data: Array.from(rows, (row, i) => ({ row, value: [i, Math.log2(speedup[row]), Math.log2(low[row]), Math.log2(high[row])] })),
    renderItem: (params, api) => {
      const i = api.value(0);
      const row = rows[i];
      const [x, y] = api.coord([i, api.value(1)]);
      const [right, zero] = api.coord([i + 1, 0]);
      const width = right - x;
      const name = verdict.values[verdict.data[row]];
      const children = [{ type: "rect", shape: { x: x + width * 0.1, y: Math.min(y, zero), width: Math.max(width * 0.8, 0.6), height: Math.max(1, Math.abs(y - zero)) }, style: { fill: theme[name] ?? theme.quiet } }];
      if (low[row] === low[row]) {
        const [top, bottom, middle] = [api.coord([i, api.value(3)])[1], api.coord([i, api.value(2)])[1], x + width / 2];
        children.push({ type: "line", shape: { x1: middle, x2: middle, y1: top, y2: bottom }, style: { stroke: theme.text, lineWidth: 1, opacity: 0.75 } });
        if (width >= 9) children.push({ type: "text", style: { text: VERDICTS[name]?.symbol ?? "", x: middle, y: y < zero ? top - 8 : bottom + 8, align: "center", verticalAlign: "middle", fontSize: 9, fill: theme[name] ?? theme.quiet } });
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
    const [from, to] = [Math.floor((bucket * rows.length) / buckets), Math.floor(((bucket + 1) * rows.length) / buckets)];
    const means = columns.map((column) => {
      let [sum, n] = [0, 0];
      for (let i = from; i < to; i++) {
        const value = column[rows[i]];
        if (value === value) { sum += Math.log2(value); n += 1; }
      }
      return n ? sum / n : NaN;
    });
    return { row: rows[(from + to) >> 1], value: [(from + to) / 2, ...means] };
  });
  const line = (place, style, extra = {}) => ({ type: "line", showSymbol: false, silent: true, data: points.map(({ row, value }) => ({ row, value: [value[0], value[place]] })), lineStyle: style, ...extra });
  return [
    line(1, { color: theme.faster, width: 2 }, { z: 3 }),
    { type: "custom", silent: true, z: 2, data: [0], renderItem: (params, api) => ({
      type: "polygon", silent: true, style: { fill: theme.faster, opacity: 0.25 },
      shape: { points: [...points.filter(({ value }) => value[3] === value[3]).map(({ value }) => api.coord([value[0], value[3]])), ...points.toReversed().filter(({ value }) => value[2] === value[2]).map(({ value }) => api.coord([value[0], value[2]]))] },
    }) },
  ];
}

/** Few pairs: a line each, with name and figures. */
function namedPairs(view, theme, width, rows, extremes) {
  const [speedup, low, high] = ["speedup", "speedup_low", "speedup_high"].map((name) => view.rows.number(name));
  const verdict = view.rows.category("verdict");
  const room = Math.min(330, width * 0.42);
  const shared = nameParts(view).shared;
  const series = pairsAlong(theme, Array.from(rows, (row) => ({ row, value: speedup[row], low: low[row], high: high[row], verdict: verdict.values[verdict.data[row]] })));
  Object.assign(series, unityMarks(theme, floorOf(view), true));
  return {
    height: 56 + rows.length * 24, legend: verdictLegend(theme, Object.keys(VERDICTS).filter((name) => view.overview[name] && name !== "failed")),
    note: [shared.length ? `All: ${shared.join(", ")}.` : "", view.overview.failed ? `${plural(view.overview.failed, "pair")} failed and ${view.overview.failed === 1 ? "has" : "have"} no bar; see “What broke”.` : ""].filter(Boolean).join(" "),
    option: {
      grid: { left: room, right: 70, top: 6, bottom: 44 },
      tooltip: { trigger: "item", formatter: (event) => pairTip(view, event.data?.row) },
      xAxis: speedupAxis(theme, `speedup over ${shortMode(view.state.baseline)}`, extremes),
      yAxis: nameAxis(theme, Array.from(rows, (row) => rowLabel(view, row)), { inverse: true, axisLabel: { width: room - 12, overflow: "truncate" } }),
      series: [series],
    },
  };
}

/** Horizontal bars from 1× with whiskers, a symbol and the figure. */
function pairsAlong(theme, items) {
  return {
    type: "custom", encode: { x: [0, 2, 3], y: 1 }, data: items.map((item, i) => ({ row: item.row, value: [Math.log2(item.value), i, Math.log2(item.low), Math.log2(item.high)] })),
    renderItem: (params, api) => {
      const item = items[params.dataIndex];
      const [x, y] = api.coord([api.value(0), params.dataIndex]);
      const [zero] = api.coord([0, params.dataIndex]);
      const colour = theme[item.verdict] ?? theme.quiet;
      const children = [{ type: "rect", shape: { x: Math.min(x, zero), y: y - 6, width: Math.max(1, Math.abs(x - zero)), height: 12 }, style: { fill: colour } }];
      let end = Math.max(x, zero);
      if (present(item.low)) {
        const [from, to] = [api.coord([api.value(2), params.dataIndex])[0], api.coord([api.value(3), params.dataIndex])[0]];
        end = Math.max(end, to);
        for (const [x1, y1, x2, y2] of [[from, y, to, y], [from, y - 4, from, y + 4], [to, y - 4, to, y + 4]]) children.push({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: theme.text, lineWidth: 1.2 } });
      }
      children.push({ type: "text", style: { text: `${VERDICTS[item.verdict]?.symbol ?? ""} ${times(item.value)}`, x: end + 6, y, verticalAlign: "middle", fontSize: 11, fill: theme.text } });
      return { type: "group", children };
    },
  };
}

/** What a pair's tooltip says. */
function pairTip(view, row) {
  if (row === undefined) return "";
  const { rows } = view;
  const n = (name) => rows.number(name)[row];
  const verdict = VERDICTS[rows.text("verdict", row)];
  return tip(
    rowName(view, row),
    `${verdict?.symbol ?? ""} ${verdict?.word ?? ""} · ${times(n("speedup"))} (95 % ${range(n("speedup_low"), n("speedup_high"))})`,
    `${rows.text("candidate", row)} ${rate(n("throughput_samples_per_s"))}, ${rows.text("baseline", row)} ${rate(n("baseline_throughput_samples_per_s"))}`,
    present(n("compile_s_extra")) ? `extra compile ${seconds(n("compile_s_extra"))}, pays back after ${images(view.breakEven(row))}` : "",
    `${plural(n("replicates"), "process", "processes")}${n("preliminary") ? ", preliminary" : ""}`,
  );
}

function pairsTable(view) {
  const rows = view.sorted("speedup").toReversed();
  const n = (name, row) => view.rows.number(name)[row];
  return {
    caption: "Pairs by speedup", total: rows.length, numeric: [1, 2],
    head: ["Pair", "Speedup", "95 % interval", "Verdict"],
    rows: Array.from(rows.subarray(0, 200), (row) => [rowName(view, row), times(n("speedup", row)), range(n("speedup_low", row), n("speedup_high", row)), verdictMark(view.rows.text("verdict", row))]),
  };
}

/** Imported figures of one mode alone: listed apart, compared with nothing. */
function published(view) {
  const box = byId("published");
  const { rows } = view;
  const [origin, speedup, throughput] = [rows.category("origin"), rows.number("speedup"), rows.number("throughput_samples_per_s")];
  const imported = origin.values.indexOf("imported");
  const found = imported < 0 ? [] : view.anyOrigin.filter((row) => origin.data[row] === imported && speedup[row] !== speedup[row] && throughput[row] === throughput[row]);
  box.hidden = !found.length;
  if (!found.length) return fill(box);
  fill(box, el("h3", { text: `Published, not compared: ${plural(found.length, "figure")}` }),
    el("p", { class: "note", text: "Of these only one mode is published, so there is no speedup." }),
    el("details", { class: "twin" }, el("summary", { text: "Show as table" }), plainTable({
      head: ["Model", "Resolution", "Batch", "Device", "Mode", "Throughput", "Note"], total: found.length, numeric: [1, 2, 5], caption: "Published figures without a counterpart",
      rows: Array.from(found.subarray(0, 200), (row) => [rows.text("model", row), `${rows.number("resolution_px")[row]} px`, rows.number("batch_size")[row], rows.text("device", row), rows.text("candidate", row), rate(throughput[row]), rows.text("note", row)]),
    })));
}
