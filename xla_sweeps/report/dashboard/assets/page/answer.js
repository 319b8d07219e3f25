/**
 * "Should I turn XLA on?": the answer in a sentence, the verdicts, the key figures and all pairs by speedup.
 */

const SHORT_MODES = {
  __proto__: null,
  xla: "XLA",
  eager: "eager",
  graph: "graph",
  default: "the default",
  autocluster: "auto-clustering",
};

/** A mode label in a few letters. */
const shortMode = (label) => SHORT_MODES[label] ?? label;

/** The whole section. */
function answerSection() {
  const [sentence, sub, strip, chips, keys] = ["sentence", "sub", "strip", "chips", "keys"].map((name) =>
    byId(`answer-${name}`),
  );
  addPanel(byId("answer-head"), (view) => {
    const { yes, text, more, command } = answerTo(view);
    fill(sentence, el("b", { text: `${yes} ` }), text);
    fill(
      sub,
      more ? el("p", { text: more }) : null,
      command ? el("p", {}, "Run: ", el("code", { text: command })) : null,
    );
    verdictStrip(view, strip, chips);
    fill(
      keys,
      keyFigures(view).map(([name, value, about]) =>
        el(
          "div",
          {},
          el("dt", { text: name }),
          el("dd", {}, el("b", { text: value }), about ? el("span", { text: about }) : null),
        ),
      ),
    );
  });
  byId("answer-charts").append(
    chart({
      title: "Every pair, by speedup",
      how: "Bars start at 1× on a logarithmic scale; whiskers (a band if there are many pairs) are 95 % intervals; differences within the shaded band do not count.",
      build: sortedPairs,
      table: pairsTable,
      wide: true,
      worth: (view) => view.overview.compared > 0,
      click: (event, view) =>
        event.data?.row !== undefined && view.state.set({ model: view.rows.text("model", event.data.row) }),
    }),
  );
  addPanel(byId("published"), published, { worth: (view) => alone(view).length > 0 });
}

/** The answer: a word, a sentence, and caveats. */
function answerTo(view) {
  const { overview: o, state } = view;
  const [candidate, baseline] = [shortMode(state.candidate), shortMode(state.baseline)];
  if (!o.pairs)
    return {
      yes: "No matching pair was measured.",
      text: "",
      more: "This selection has no comparison of the two modes.",
      command: measureCommand(state),
    };
  if (o.pairs === 1) return answerToOne(view, view.counted[0], candidate, baseline);
  const importedOnly = countOf(view, "origin", "imported") === o.pairs;
  if (importedOnly && o.compared) return answerAsPublished(view, candidate, baseline);
  if (importedOnly)
    return {
      yes: "Published, not compared.",
      text: `${plural(o.pairs, "figure")} of only one mode.`,
      more: "Without the other mode there is no speedup.",
    };
  const models = view.distinct("model");
  const devices = view.distinct("device");
  const what = models.length === 1 ? `${models[0]}${devices.length === 1 ? ` on ${devices[0]}` : ""}: ` : "";
  const counts = [
    `${candidate} is faster than ${baseline} in ${count(o.faster)} of ${plural(o.pairs, "pair")} (${share(o.faster, o.pairs)})`,
  ];
  if (o.slower) counts.push(`slower in ${count(o.slower)}`);
  if (o.failed) counts.push(`failed in ${count(o.failed)}`);
  const typical = present(o.geomean) ? ` Typically ${times(o.geomean)} (${geometricMean(o)})${paysBack(view)}` : "";
  const preliminary = countWhere(view, "preliminary");
  const contaminated = countOf(view, "status", "contaminated");
  const tested = trustOf(view);
  const more = [
    tested && tested.p < 0.01 ? trustSentence(tested) : "",
    preliminary
      ? `${preliminary === o.pairs ? "All" : count(preliminary)} of these have fewer than three replicates: preliminary.`
      : "",
    contaminated
      ? `${contaminated === o.pairs ? "All" : count(contaminated)} ${contaminated === 1 ? "is" : "are"} contaminated by other load on the machine.`
      : "",
    view.state.origin !== "measured" && countOf(view, "origin", "imported")
      ? `${count(countOf(view, "origin", "imported"))} are published single measurements without an interval, hence “ambiguous”.`
      : "",
    view.state.baseline === "eager" && countWhere(view, "eager_is_graph")
      ? `In ${count(countWhere(view, "eager_is_graph"))} the model is a saved graph, whose eager calls run that graph.`
      : "",
    o.failed === o.pairs
      ? "See “What broke” below for the reasons and what to do."
      : "Filter by your model and device for your own answer.",
  ]
    .filter(Boolean)
    .join(" ");
  return { yes: overallWord(o), text: `${what}${counts.join(", ")}.${typical}`, more };
}

/** "geometric mean over 12 models, 95 % 0.25–0.50", as the terminal says it. */
function geometricMean({ models, geomean_low: low, geomean_high: high }) {
  const over = models > 1 ? ` over ${count(models)} models` : "";
  return `geometric mean${over}${present(low) ? `, 95 % ${range(low, high)}` : ""}`;
}

/** The answer if all figures are published: their direction, without knowledge of their noise. */
function answerAsPublished(view, candidate, baseline) {
  const { pairs, faster, compared, geomean } = view.overview;
  const speedup = view.rows.number("speedup");
  const above = view.counted.reduce((n, row) => n + (speedup[row] > 1), 0);
  const word =
    above / compared >= 0.6
      ? "Usually yes, as published."
      : above / compared <= 0.4
        ? "Usually no, as published."
        : "It depends, as published.";
  return {
    yes: word,
    text: `${candidate} is above ${baseline} in ${count(above)} of ${plural(compared, "published figure")}. Typically ${times(geomean)} (${geometricMean(view.overview)}).`,
    more: `Shown to be faster than ${baseline} in ${count(faster)} of ${plural(pairs, "pair")}: others measured these once, without an interval, hence “ambiguous”.`,
  };
}

/** "Usually yes", and the like: by the share of all pairs, including failures. */
function overallWord({ pairs, faster, slower, equivalent, failed, geomean, geomean_low, geomean_high }) {
  const [low, high] = [geomean_low ?? geomean, geomean_high ?? geomean];
  if (faster === pairs) return "Yes.";
  if (slower === pairs || failed === pairs) return "No.";
  if (faster / pairs >= 0.6 && (low === null || low > 1)) return "Usually yes.";
  if (slower / pairs >= 0.6 && (high === null || high < 1)) return "Usually no.";
  if (equivalent / pairs >= 0.6) return "It hardly matters.";
  if (failed / pairs >= 0.6) return "Mostly it fails.";
  return "It depends.";
}

/** The answer about a single pair, with caveats. */
function answerToOne(view, row, candidate, baseline) {
  const { rows } = view;
  const numbers = (name) => rows.number(name)[row];
  const verdict = rows.text("verdict", row);
  const where = `${rows.text("model", row)} ${numbers("resolution_px")} px, batch ${numbers("batch_size")}, on ${rows.text("device", row)}`;
  if (verdict === "failed") return failedAnswer(view, row, where, candidate, baseline);
  const note = rows.text("note", row);
  if (!present(numbers("speedup"))) {
    const text = `${where}: ${rate(numbers("throughput_samples_per_s"))} with ${candidate}.`;
    return { yes: "Published, not compared.", text, more: note };
  }
  const interval = present(numbers("speedup_low"))
    ? `95 % ${range(numbers("speedup_low"), numbers("speedup_high"))}`
    : "a single measurement, no interval";
  const figure = `${where}: ${candidate} ${times(numbers("speedup"))} ${baseline} (${interval})`;
  if (rows.text("origin", row) === "imported") {
    return {
      yes: numbers("speedup") >= 1 ? "Yes, as published." : "No, as published.",
      text: `${figure}.`,
      more: note,
    };
  }
  const words = { faster: "Yes.", slower: "No.", equivalent: "No difference.", ambiguous: "Ambiguous." };
  const ambiguous = `The interval crosses the band of ±${percent(100 * numbers("floor"))} % in which differences do not count; more replicates narrow it.`;
  return {
    yes: words[verdict] ?? "",
    text: `${figure}${verdict === "faster" ? paysBackOne(view, row) : ""}.`,
    more: [verdict === "ambiguous" ? ambiguous : "", ...caveats(view, row)].filter(Boolean).join(" "),
    command: verdict === "ambiguous" ? rows.text("command", row) : "",
  };
}

function failedAnswer({ rows }, row, where, candidate, baseline) {
  const status = rows.text("status", row);
  const said = rows.text("failure_message", row) || rows.meta.status_texts?.[status] || status;
  const lost = shortMode(rows.text("failed_mode", row) || candidate);
  return {
    yes: lost === baseline ? "No answer." : "No.",
    text: `${where}: ${lost} failed: ${cut(said, 200)}`,
    more: rows.text("failure_hint", row),
    command: rows.text("command", row),
  };
}

function paysBackOne(view, row) {
  const needed = view.breakEven(row);
  if (Number.isNaN(needed)) return "";
  if (needed === Infinity) return "; compilation never pays back";
  const [low, high, batch] = ["break_even_low", "break_even_high", "batch_size"].map(
    (name) => view.rows.number(name)[row],
  );
  const interval = present(low) && present(high) ? ` (${short(low * batch)} to ${short(high * batch)})` : "";
  return needed < 1 ? "; preparation takes no longer" : `; pays back after ${images(needed)}${interval}`;
}

/** ", its interval holds within one process", where nothing is known of how processes differ. */
const withinOneProcess = (rows, row) =>
  present(rows.number("speedup")[row]) && !present(rows.number("freedom")[row])
    ? ", its interval holds within one process"
    : "";

/** The caveats of a pair's figures. */
function caveats({ rows }, row) {
  const replicates = plural(rows.number("replicates")[row], "replicate");
  const flags = rows.text("flags", row).split(" ").filter(Boolean);
  return [
    rows.number("preliminary")[row] ? `From ${replicates}: preliminary${withinOneProcess(rows, row)}.` : "",
    flags.length ? `Note: ${flags.map((flag) => flagMeaning(rows, flag)).join("; ")}.` : "",
  ];
}

/** "Half pay back within …", over all pairs, including those that never do. */
function paysBack(view) {
  const middle = breakEvenMedian(view);
  if (middle === null) return ".";
  return middle === Infinity ? "; compilation mostly never pays back." : `; half pay back within ${images(middle)}.`;
}

/** The median number of images to break even; infinite if most pairs never do, null if unknown. */
function breakEvenMedian(view) {
  return view.once("break-even median", () => {
    const values = Array.from(view.counted, (row) => view.breakEven(row)).filter((value) => !Number.isNaN(value));
    return values.length ? median(values) : null;
  });
}

/** The command that measures the selection. */
function measureCommand(state) {
  const one = (name, key) => (state[name].size === 1 ? [`${key}=${[...state[name]][0]}`] : []);
  const parts = [
    state.model ? `model=${/^[\w.-]+$/.test(state.model) ? state.model : "NAME"}` : "model=NAME",
    ...one("resolution_px", "resolution"),
    ...one("batch_size", "batch_size"),
    ...one("precision", "precision"),
    ...one("source", "source"),
  ];
  return `python -m xla_sweeps ${parts.join(" ")}`;
}

const countWhere = (view, name) =>
  view.once(`count ${name}`, () => view.counted.reduce((n, row) => n + (view.rows.number(name)[row] === 1), 0));
const countOf = (view, name, value) =>
  view.once(`count ${name} ${value}`, () => {
    const column = view.rows.category(name);
    const code = column.values.indexOf(value);
    return view.counted.reduce((n, row) => n + (column.data[row] === code), 0);
  });

/** The bar of verdicts and the chips below it, which filter. */
function verdictStrip(view, strip, chips) {
  const column = view.rows.category("verdict");
  const counts = new Map();
  const all = view.best.reduce((n, one) => n + one, 0);
  for (const row of view.anyVerdict)
    if (view.best[row]) counts.set(column.data[row], (counts.get(column.data[row]) ?? 0) + 1);
  const entries = Object.keys(VERDICTS).map((verdict) => [verdict, counts.get(column.values.indexOf(verdict)) ?? 0]);
  fill(
    strip,
    entries
      .filter(([, n]) => n)
      .map(([verdict, n]) => {
        const part = el("span", { class: `part ${verdict}` });
        part.style.flexGrow = String(n);
        return part;
      }),
  );
  const chosen = view.state.verdict;
  const focused = document.activeElement?.dataset?.verdict;
  fill(
    chips,
    entries.map(([verdict, n]) =>
      el(
        "button",
        {
          type: "button",
          class: "chip",
          "aria-pressed": String(chosen.has(verdict)),
          data: { verdict },
          on: { click: () => view.state.toggle("verdict", verdict) },
        },
        verdictMark(verdict),
        " ",
        el("b", { text: count(n) }),
        all ? ` (${share(n, all)})` : "",
      ),
    ),
  );
  if (focused) chips.querySelector(`[data-verdict="${focused}"]`)?.focus();
}

/** Name, value and explanation of each key figure. */
function keyFigures(view) {
  const o = view.overview;
  const middle = breakEvenMedian(view);
  return [
    ["Geometric mean", times(o.geomean), present(o.geomean_low) ? `95 % ${range(o.geomean_low, o.geomean_high)}` : ""],
    ["Compared pairs", count(o.compared), `of ${count(o.pairs)}, ${plural(o.models, "model")}`],
    [
      "Median extra compile",
      seconds(o.median_extra_compile_s),
      o.with_compile ? `${plural(o.with_compile, "pair")} with a compile time` : "",
    ],
    ["Median break-even", middle === null ? NONE : images(middle), middle === null ? "" : `${count(o.never)} never`],
    ["Failed", count(o.failed), share(o.failed, o.pairs)],
    ["Significant", count(o.discoveries), "at 5 % false discoveries"],
  ];
}

/** Figures of only one mode, published or measured here, of whichever pair of modes is chosen. */
function alone(view) {
  return view.once("alone", () => {
    const { rows } = view;
    const origin = rows.category("origin");
    const [speedup, throughput] = ["speedup", "throughput_samples_per_s"].map((name) => rows.number(name));
    const imported = origin.values.indexOf("imported");
    return view.anyOrigin.filter(
      (row) =>
        (origin.data[row] === imported || rows.text("baseline", row) === "") &&
        !present(speedup[row]) &&
        present(throughput[row]),
    );
  });
}

/** Lists them apart, without a comparison. */
function published(view) {
  const { rows } = view;
  const found = alone(view);
  fill(
    byId("published"),
    el("h3", { text: `Not compared: ${plural(found.length, "figure")}` }),
    el("p", { class: "note", text: "Only one mode of these was measured or published, so there is no speedup." }),
    el(
      "details",
      { class: "twin" },
      el("summary", { text: "Show as table" }),
      plainTable({
        head: ["Model", "Resolution", "Batch", "Device", "Mode", "Throughput", "Origin", "Note"],
        total: found.length,
        numeric: [1, 2, 5],
        caption: "Figures without a baseline",
        rows: Array.from(found.subarray(0, 200), (row) => [
          rows.text("model", row),
          `${rows.number("resolution_px")[row]} px`,
          rows.number("batch_size")[row],
          rows.text("device", row),
          rows.text("candidate", row),
          rate(rows.number("throughput_samples_per_s")[row]),
          rows.text("origin", row),
          rows.text("note", row),
        ]),
      }),
    ),
  );
}
