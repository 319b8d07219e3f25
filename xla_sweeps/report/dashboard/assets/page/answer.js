/**
 * "Should I turn XLA on?": the answer in a sentence, and the figures behind it.
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
  const [sentence, sub, behind, words] = ["sentence", "sub", "rows", "words"].map((name) => byId(`answer-${name}`));
  addPanel(byId("answer-head"), (view) => {
    const { yes, text, more, command } = answerTo(view);
    fill(sentence, el("b", { text: `${yes} ` }), text);
    fill(
      sub,
      more ? el("p", { text: more }) : null,
      command ? el("p", {}, "Run: ", el("code", { text: command })) : null,
    );
    fill(behind, isOneModel(view) ? configurationCards(view) : deviceTable(view));
    words.textContent = view.overview.pairs ? wordsOf(view) : "";
  });
  byId("answer-charts").append(sortedChart());
  addPanel(byId("published"), published, { worth: (view) => alone(view).length > 0 });
}

/** Whether all that is shown is of one model on one device. */
const isOneModel = (view) =>
  view.counted.length > 0 && view.distinct("model").length === 1 && view.distinct("device").length === 1;

/** The answer: a word, a sentence, and caveats. */
function answerTo(view) {
  const { overview: o, state } = view;
  const [candidate, baseline] = [shortMode(state.candidate), shortMode(state.baseline)];
  if (!o.pairs)
    return {
      yes: "No matching configuration was measured.",
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
  const contaminated = countOf(view, "status", "contaminated");
  const every = o.compared > 0 && contaminated === o.compared;
  const what = view.distinct("model").length === 1 ? `${view.distinct("model")[0]}: ` : "";
  return {
    yes: every ? `${overallWord(o).slice(0, -1)}, but every figure is contaminated.` : overallWord(o),
    text: o.compared
      ? `${what}${typically(o, candidate, baseline)}.${costs(view)}`
      : `${what}${candidate} failed in ${count(o.failed)} of ${plural(o.pairs, "configuration")}.`,
    more: caveatsOfMany(view, contaminated, every).filter(Boolean).join(" "),
  };
}

/** "XLA is typically 1.17× as fast as graph; 8 of 10 configurations lie between 0.83× and 1.70×". */
function typically({ geomean, spread_low: low, spread_high: high }, candidate, baseline) {
  const spread = present(low) ? `; 8 of 10 configurations lie between ${times(low)} and ${times(high)}` : "";
  return `${candidate} is typically ${times(geomean)} as fast as ${baseline}${spread}`;
}

/** " Compiling takes 12 s longer; half earn it back within 143 k images, 40 never do.", as far as it is known. */
function costs(view) {
  const o = view.overview;
  const middle = breakEvenMedian(view);
  if (!present(o.median_extra_compile_s) || middle === null) return "";
  const earned =
    middle === Infinity
      ? "most never earn it back"
      : `half earn it back within ${images(middle)}${o.never ? `, ${count(o.never)} never do` : ""}`;
  return o.median_extra_compile_s > 0
    ? ` Compiling takes ${seconds(o.median_extra_compile_s)} longer; ${earned}.`
    : " Compiling takes no longer.";
}

/** What limits an answer over several configurations. */
function caveatsOfMany(view, contaminated, every) {
  const { overview: o, state } = view;
  const preliminary = countWhere(view, "preliminary");
  const published = countOf(view, "origin", "imported");
  const saved = state.baseline === "eager" ? countWhere(view, "eager_is_graph") : 0;
  const tested = trustOf(view);
  return [
    every ? "Every measurement here is contaminated by other load on the machine: measure again." : "",
    tested && tested.p < 0.01 ? trustSentence(tested) : "",
    preliminary
      ? `${preliminary === o.pairs ? "All" : count(preliminary)} have fewer than three replicates: preliminary.`
      : "",
    contaminated && !every
      ? `${count(contaminated)} ${contaminated === 1 ? "is" : "are"} contaminated by other load on the machine.`
      : "",
    published
      ? `${count(published)} are published single measurements without an interval, hence “ambiguous”.`
      : "",
    saved ? `In ${count(saved)} the model is a saved graph, whose eager calls run that graph.` : "",
    o.failed === o.pairs
      ? "See “What broke” below for the reasons and what to do."
      : isOneModel(view)
        ? ""
        : "Choose your model and device above for your own answer.",
  ];
}

/** The words of the first screen, explained. */
function wordsOf(view) {
  const { candidate, baseline } = view.state;
  const switches = view.rows.meta.switches ?? {};
  const modes = [candidate, baseline]
    .filter((label) => Object.hasOwn(switches, modeOf(label)))
    .map((label) => `${shortMode(label)} is ${switches[modeOf(label)]}`);
  return [
    modes.length ? `${modes.join(", ")}.` : "",
    `Faster and slower: by more than ±${percent(100 * floorOf(view))} % with 95 % confidence; equivalent: less; ambiguous: not known.`,
    "A configuration is one model at one resolution, batch size and precision on one device; a pair is one measurement of it in both modes.",
    "Typical is the geometric mean, in which each model counts once; “usually” means at least 60 %.",
  ]
    .filter(Boolean)
    .join(" ");
}

/** The answer if all figures are published: their direction, without knowledge of their noise. */
function answerAsPublished(view, candidate, baseline) {
  const { pairs, faster, compared } = view.overview;
  const speedup = view.rows.number("speedup");
  const above = view.counted.reduce((n, row) => n + (speedup[row] > 1), 0);
  const word = above / compared >= 0.6 ? "Usually yes" : above / compared <= 0.4 ? "Usually no" : "It depends";
  return {
    yes: `${word}, as published.`,
    text: `${candidate} is above ${baseline} in ${count(above)} of ${plural(compared, "published figure")}; ${typically(view.overview, candidate, baseline)}.`,
    more: `Shown to be faster in ${count(faster)} of ${count(pairs)}: others measured these once, without an interval, hence “ambiguous”.`,
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
  const options = rows.text("runtime", row);
  const where = `${rows.text("model", row)} ${numbers("resolution_px")} px, batch ${numbers("batch_size")}, on ${rows.text("device", row)}${options && ` with ${options}`}`;
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
  const words = { faster: "Yes", slower: "No", equivalent: "No difference", ambiguous: "Ambiguous" };
  const contaminated = rows.text("status", row) === "contaminated";
  return {
    yes: `${words[verdict] ?? ""}${contaminated ? ", but contaminated" : ""}.`,
    text: `${figure}${verdict === "faster" ? paysBackOne(view, row) : ""}.`,
    more: [contaminated ? "Repeat the measurement before you rely on it." : "", ...adviceOn(view, row, baseline)]
      .concat(caveats(view, row))
      .filter(Boolean)
      .join(" "),
  };
}

/** What follows from a verdict, as the terminal says it. */
function adviceOn({ rows, state }, row, baseline) {
  const switches = rows.meta.switches ?? {};
  const verdict = rows.text("verdict", row);
  const keep = Object.hasOwn(switches, modeOf(state.baseline)) ? switches[modeOf(state.baseline)] : baseline;
  const floor = percent(100 * rows.number("floor")[row]);
  return [
    verdict === "slower" ? `Keep ${keep} for this model on this device.` : "",
    verdict === "equivalent" ? "Choose by compile time and memory, not by speed." : "",
    verdict === "ambiguous"
      ? `The interval crosses the band of ±${floor} % in which differences do not count; more replicates narrow it.`
      : "",
  ];
}

function failedAnswer({ rows }, row, where, candidate, baseline) {
  const status = rows.text("status", row);
  const said = rows.text("failure_message", row) || status.replaceAll("_", " ");
  const lost = shortMode(rows.text("failed_mode", row) || candidate);
  return {
    yes: lost === baseline ? "No answer." : "No.",
    text: `${where}: ${lost} failed: ${cut(said, 200)}`,
    more: rows.text("failure_hint", row),
  };
}

function paysBackOne(view, row) {
  const needed = view.breakEven(row);
  if (Number.isNaN(needed)) return "";
  if (needed === Infinity) return "; compilation never pays back";
  return needed < 1
    ? "; preparation takes no longer"
    : `; pays back after ${images(needed)}${breakEvenRange(view, row)}`;
}

/** " (140 k to 150 k)": images to break even, at the ends of its interval. */
function breakEvenRange({ rows }, row) {
  const [low, high, batch] = ["break_even_low", "break_even_high", "batch_size"].map((name) => rows.number(name)[row]);
  return present(low) && present(high) ? ` (${short(low * batch)} to ${short(high * batch)})` : "";
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

/** The median number of images to break even; infinite if most pairs never do, null if unknown. */
function breakEvenMedian(view) {
  return view.once("break-even median", () => {
    const values = Array.from(view.counted, (row) => view.breakEven(row)).filter((value) => !Number.isNaN(value));
    return values.length ? median(values) : null;
  });
}

/** The command that measures the selection. Values come from the address: only plain words go into a command. */
function measureCommand(state) {
  const part = (key, value) => (/^[\w.-]+$/.test(value) ? [`${key}=${value}`] : []);
  const one = (name, key) => (state[name].size === 1 ? part(key, [...state[name]][0]) : []);
  const parts = [
    part("model", state.model)[0] ?? "model=NAME",
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
