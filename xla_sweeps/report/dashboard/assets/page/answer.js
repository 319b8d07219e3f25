/**
 * "Should I turn XLA on?": the answer in a sentence, and the figures behind it.
 */

const SHORT_MODES = { __proto__: null, xla: "XLA", default: "the default", autocluster: "auto-clustering" };

/** A mode label in a few letters. */
const shortMode = (label) => SHORT_MODES[label] ?? label;

/** The whole section. */
function answerSection() {
  const [sentence, sub, behind, terms] = ["sentence", "sub", "rows", "words"].map((name) => byId(`answer-${name}`));
  addPanel(byId("answer-head"), (view) => {
    const { yes, text, more, command } = answerTo(view);
    fill(sentence, el("b", { text: `${yes} ` }), text);
    const run = command && el("p", {}, "Run: ", el("code", { text: command }));
    fill(sub, more ? el("p", { text: more }) : null, run);
    fill(behind, isOneModel(view) ? configurationCards(view) : deviceTable(view));
    terms.textContent = view.overview.pairs ? termsOf(view) : "";
  });
  byId("answer-charts").append(sortedChart());
  addPanel(byId("published"), published, { worth: (view) => view.alone.length > 0 });
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
  const models = view.distinct("model");
  const what = models.length === 1 ? `${models[0]}: ` : "";
  return {
    yes: every ? `${overallWord(o).slice(0, -1)}, but every figure is contaminated.` : overallWord(o),
    text: o.compared
      ? `${what}${typically(o, candidate, baseline)}.${costs(view)}`
      : `${what}${candidate} failed in ${count(o.failed)} of ${plural(o.pairs, "configuration")}.`,
    more: caveatsOfMany(view, contaminated, every),
  };
}

/** "XLA is typically 1.17× as fast as graph; 8 of 10 configurations lie between 0.83× and 1.70×". */
function typically({ geomean, spread_low: low, spread_high: high }, candidate, baseline) {
  const spread = present(low) ? `; 8 of 10 configurations lie between ${times(low)} and ${times(high)}` : "";
  return `${candidate} is typically ${times(geomean)} as fast as ${baseline}${spread}`;
}

/** " Compiling takes 12 s longer; half earn it back within 143 k images, 40 never do.", as far as it is known. */
function costs(view) {
  const { median_extra_compile_s: extra, never } = view.overview;
  const middle = breakEvenMedian(view);
  if (!present(extra) || middle === null) return "";
  if (extra <= 0) return " Compiling takes no longer.";
  const half = `half earn it back within ${images(middle)}${never ? `, ${count(never)} never do` : ""}`;
  return ` Compiling takes ${seconds(extra)} longer; ${middle === Infinity ? "most never earn it back" : half}.`;
}

/** What limits an answer over several configurations. */
function caveatsOfMany(view, contaminated, every) {
  const { overview: o, state } = view;
  const preliminary = countWhere(view, "preliminary");
  const published = countOf(view, "origin", "imported");
  const saved = state.baseline === "eager" ? countWhere(view, "eager_is_graph") : 0;
  const tested = trustOf(view);
  return phrase([
    every && "Every measurement here is contaminated by other load on the machine: measure again.",
    tested && tested.p < 0.01 && trustSentence(tested),
    preliminary && `${preliminary === o.pairs ? "All" : count(preliminary)} have fewer than three replicates: preliminary.`,
    contaminated && !every && `${count(contaminated)} ${contaminated === 1 ? "is" : "are"} contaminated by other load on the machine.`,
    published && `${count(published)} are published single measurements without an interval, hence “ambiguous”.`,
    saved && `In ${count(saved)} the model is a saved graph, whose eager calls run that graph.`,
    o.failed === o.pairs
      ? "See “What broke” below for the reasons and what to do."
      : !isOneModel(view) && "Choose your model and device above for your own answer.",
  ]);
}

/** How a mode is turned on; undefined for one that is not known. */
const switchOf = ({ meta }, label) => ofFolder(meta.switches, modeOf(label));

/** The words of the first screen, explained. */
function termsOf(view) {
  const { rows, state } = view;
  const modes = [state.candidate, state.baseline]
    .filter((label) => switchOf(rows, label))
    .map((label) => `${shortMode(label)} is ${switchOf(rows, label)}`);
  return phrase([
    modes.length && `${modes.join(", ")}.`,
    `Faster and slower: by more than ±${percent(100 * floorOf(view))} % with 95 % confidence; equivalent: less; ambiguous: not known.`,
    "A configuration is one model at one resolution, batch size and precision on one device; measured again, it still counts once.",
    "Typical is the geometric mean, in which each model counts once; “usually” means at least 60 %.",
  ]);
}

/** The answer if all figures are published: their direction, without knowledge of their noise. */
function answerAsPublished(view, candidate, baseline) {
  const { pairs, faster, compared } = view.overview;
  const speedup = view.rows.number("speedup");
  const above = view.counted.filter((row) => speedup[row] > 1).length;
  const word = above / compared >= 0.6 ? "Usually yes" : above / compared <= 0.4 ? "Usually no" : "It depends";
  return {
    yes: `${word}, as published.`,
    text: `${candidate} is above ${baseline} in ${count(above)} of ${plural(compared, "published figure")}; ${typically(view.overview, candidate, baseline)}.`,
    more: `Shown to be faster in ${count(faster)} of ${count(pairs)}: others measured these once, without an interval, hence “ambiguous”.`,
  };
}

/** "Usually yes", and the like: by the share of all pairs, including failures. */
function overallWord({ pairs, faster, slower, equivalent, failed, geomean }) {
  if (faster === pairs) return "Yes.";
  if (slower === pairs || failed === pairs) return "No.";
  if (faster / pairs >= 0.6 && geomean > 1) return "Usually yes.";
  if (slower / pairs >= 0.6 && geomean < 1) return "Usually no.";
  if (equivalent / pairs >= 0.6) return "It hardly matters.";
  return failed / pairs >= 0.6 ? "Mostly it fails." : "It depends.";
}

const YES = { __proto__: null, faster: "Yes", slower: "No", equivalent: "No difference", ambiguous: "Ambiguous" };

/** The answer about a single pair, with caveats. */
function answerToOne(view, row, candidate, baseline) {
  const { rows } = view;
  const number = (name) => rows.number(name)[row];
  const verdict = rows.text("verdict", row);
  const options = rows.text("runtime", row);
  const pixels = number("resolution_px");
  const size = rows.text("task", row) === "example" ? `size ${pixels}` : `${pixels} px`;
  const where = `${rows.text("model", row)} ${size}, batch ${number("batch_size")}, on ${rows.text("device", row)}${options && ` with ${options}`}`;
  if (verdict === "failed") return failedAnswer(view, row, where, candidate, baseline);
  const note = rows.text("note", row);
  if (!present(number("speedup"))) {
    const text = `${where}: ${rate(number("throughput_samples_per_s"))} with ${candidate}.`;
    return { yes: "Published, not compared.", text, more: note };
  }
  const interval = present(number("speedup_low"))
    ? `95 % ${intervalOf(view, row)}`
    : "a single measurement, no interval";
  const figure = `${where}: ${candidate} ${times(number("speedup"))} ${baseline} (${interval})`;
  if (rows.text("origin", row) === "imported")
    return { yes: number("speedup") >= 1 ? "Yes, as published." : "No, as published.", text: `${figure}.`, more: note };
  const contaminated = rows.text("status", row) === "contaminated";
  const advice = adviceOn(view, row, baseline)[verdict];
  return {
    yes: `${YES[verdict] ?? ""}${contaminated ? ", but contaminated" : ""}.`,
    text: `${figure}${verdict === "faster" ? paysBackOne(view, row) : ""}.`,
    more: phrase([contaminated && "Repeat the measurement before you rely on it.", advice, ...caveats(view, row)]),
  };
}

/** What follows from each verdict, as the terminal says it. */
function adviceOn({ rows, state }, row, baseline) {
  const floor = percent(100 * rows.number("floor")[row]);
  return {
    __proto__: null,
    slower: `Keep ${switchOf(rows, state.baseline) ?? baseline} for this model on this device.`,
    equivalent: "Choose by compile time and memory, not by speed.",
    ambiguous: `The interval crosses the band of ±${floor} % in which differences do not count; more replicates narrow it.`,
  };
}

function failedAnswer({ rows }, row, where, candidate, baseline) {
  const said = rows.text("failure_message", row) || statusWords(rows.text("status", row));
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
  const [size, batches, ...ends] = rows.at(row, "batch_size", "batches", "break_even_low", "break_even_high");
  const [low, high] = ends.map((calls) => calls * size * (batches || 1));
  return present(low) && present(high) ? ` (${short(low)} to ${short(high)})` : "";
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
    rows.number("preliminary")[row] && `From ${replicates}: preliminary${withinOneProcess(rows, row)}.`,
    flags.length && `Note: ${flags.map((flag) => flagMeaning(rows, flag)).join("; ")}.`,
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
  const part = (key, value) => (/^[\w.-]+$/.test(value) ? `${key}=${value}` : "");
  const one = (name, key = name) => state[name].size === 1 && part(key, [...state[name]][0]);
  const settings = [one("resolution_px", "resolution"), one("batch_size"), one("precision"), one("source")];
  const scenario = state.scenario !== "call" && part("scenario", state.scenario);
  return phrase(["python -m xla_sweeps", part("model", state.model) || "model=NAME", scenario, ...settings]);
}

const countWhere = (view, name) => view.counted.filter((row) => view.rows.number(name)[row] === 1).length;

function countOf(view, name, value) {
  const { data, values } = view.rows.column(name);
  const code = values.indexOf(value);
  return view.counted.filter((row) => data[row] === code).length;
}

/** Lists figures of only one mode apart, without a comparison. */
function published(view) {
  const { rows } = view;
  const found = view.alone;
  const text = (name) => (row) => rows.text(name, row);
  const table = itemsTable("Figures without a baseline", found, {
    Model: text("model"),
    Resolution: (row) => `${rows.number("resolution_px")[row]} px`,
    Batch: (row) => rows.number("batch_size")[row],
    Device: text("device"),
    Mode: text("candidate"),
    Throughput: (row) => rate(rows.number("throughput_samples_per_s")[row]),
    Origin: text("origin"),
    Note: text("note"),
  });
  fill(
    byId("published"),
    el("h3", { text: `Not compared: ${plural(found.length, "figure")}` }),
    el("p", { class: "note", text: "Only one mode of these was measured or published, so there is no speedup." }),
    folded("Show as table", plainTable(table)),
  );
}
