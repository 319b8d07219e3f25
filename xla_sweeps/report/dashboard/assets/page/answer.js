/** "Should I turn XLA on?": the answer in a sentence, and the figures behind it. */

const SHORT_MODES = { __proto__: null, xla: "XLA", default: "the default", autocluster: "auto-clustering" };

/** A mode label in a few letters. */
const shortMode = (label) => SHORT_MODES[label] ?? label;

/** The whole section. */
function answerSection() {
  const [sentence, sub, behind, terms] = ["sentence", "sub", "rows", "words"].map((name) => byId(`answer-${name}`));
  addPanel(byId("answer-head"), (view) => {
    const { yes, text, more, command } = answerTo(view);
    fill(sentence, el("b", `${yes} `), text);
    fill(sub, more && el("p", more), command && el("p", "Run: ", el("code", command)));
    fill(behind, isOneModel(view) ? configurationCards(view) : deviceTable(view));
    terms.textContent = view.overview.pairs ? termsOf(view) : "";
  });
  byId("answer-charts").append(sortedChart());
  addPanel(byId("published"), published, { worth: (view) => view.alone.length > 0 });
}

/** Whether all that is shown is of one model on one device. */
const isOneModel = (view) =>
  view.counted.length > 0 && ["model", "device"].every((name) => view.distinct(name).length === 1);

/** The answer: a word, a sentence, caveats, and what to run. */
function answerTo(view) {
  const { overview: o, state } = view;
  const [candidate, baseline] = [state.candidate, state.baseline].map(shortMode);
  if (!o.pairs)
    return {
      yes: "No matching configuration was measured.",
      text: "",
      more: "This selection has no comparison of the two modes.",
      command: measureCommand(state),
    };
  if (o.pairs === 1) return answerToOne(view, view.counted[0], candidate, baseline);
  const counts = countsIn(view);
  if (counts.published === o.pairs)
    return o.compared
      ? answerAsPublished(view, candidate, baseline)
      : {
          yes: "Published, not compared.",
          text: `${plural(o.pairs, "figure")} of only one mode.`,
          more: "Without the other mode there is no speedup.",
        };
  const every = o.compared > 0 && counts.contaminated === o.compared;
  const models = view.distinct("model");
  const what = models.length === 1 ? `${models[0]}: ` : "";
  return {
    yes: every ? `${overallWord(o).slice(0, -1)}, but every figure is contaminated.` : overallWord(o),
    text: o.compared
      ? `${what}${typically(o, candidate, baseline)}.${costs(view)}`
      : `${what}${candidate} failed in ${count(o.failed)} of ${plural(o.pairs, "configuration")}.`,
    more: caveatsOfMany(view, counts, every),
  };
}

/** How many of the configurations are contaminated, published, preliminary, or of a saved graph. */
function countsIn({ counted, rows }) {
  const those = (name, value) => counted.filter(rows.is(name, value)).length;
  return {
    contaminated: those("status", "contaminated"),
    published: those("origin", "imported"),
    preliminary: those("preliminary", 1),
    saved: those("eager_is_graph", 1),
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
function caveatsOfMany(view, { preliminary, contaminated, published: others, saved }, every) {
  const { pairs, failed } = view.overview;
  const tested = trustOf(view);
  const are = contaminated === 1 ? "is" : "are";
  return phrase([
    every && "Every measurement here is contaminated by other load on the machine: measure again.",
    tested && tested.p < 0.01 && trustSentence(tested),
    preliminary && `${preliminary === pairs ? "All" : count(preliminary)} have fewer than three replicates: preliminary.`,
    contaminated && !every && `${count(contaminated)} ${are} contaminated by other load on the machine.`,
    others && `${count(others)} are published single measurements without an interval, hence “ambiguous”.`,
    view.state.baseline === "eager" && saved && `In ${count(saved)} the model is a saved graph, whose eager calls run that graph.`,
    failed === pairs
      ? "See “What broke” below for the reasons and what to do."
      : !isOneModel(view) && "Choose your model and device above for your own answer.",
  ]);
}

/** How a mode is turned on; undefined for one that is not known. */
const switchOf = ({ meta }, label) => ownOf(meta.switches, modeOf(label));

/** The words of the first screen, explained. */
function termsOf(view) {
  const { rows, state } = view;
  const known = [state.candidate, state.baseline].filter((label) => switchOf(rows, label));
  const modes = known.map((label) => `${shortMode(label)} is ${switchOf(rows, label)}`);
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
  const of = `${count(above)} of ${plural(compared, "published figure")}`;
  return {
    yes: `${word}, as published.`,
    text: `${candidate} is above ${baseline} in ${of}; ${typically(view.overview, candidate, baseline)}.`,
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
function answerToOne(view, place, candidate, baseline) {
  const row = view.at(place);
  const { verdict, speedup, note } = row;
  const options = row.runtime && ` with ${row.runtime}`;
  const size = row.task === "example" ? `size ${row.resolution_px}` : `${row.resolution_px} px`;
  const where = `${row.model} ${size}, batch ${row.batch_size}, on ${row.device}${options}`;
  if (verdict === "failed") return failedAnswer(row, where, candidate, baseline);
  if (!present(speedup)) {
    const text = `${where}: ${rate(row.throughput_samples_per_s)} with ${candidate}.`;
    return { yes: "Published, not compared.", text, more: note };
  }
  const known = present(row.speedup_low);
  const interval = known ? `95 % ${intervalOf(view, place)}` : "a single measurement, no interval";
  const figure = `${where}: ${candidate} ${times(speedup)} ${baseline} (${interval})`;
  if (row.origin === "imported")
    return { yes: `${speedup >= 1 ? "Yes" : "No"}, as published.`, text: `${figure}.`, more: note };
  const contaminated = row.status === "contaminated";
  return {
    yes: `${YES[verdict] ?? ""}${contaminated ? ", but contaminated" : ""}.`,
    text: `${figure}${verdict === "faster" ? paysBackOne(row) : ""}.`,
    more: phrase([
      contaminated && "Repeat the measurement before you rely on it.",
      adviceOn(view, row)[verdict],
      ...caveats(view, row),
    ]),
  };
}

/** What follows from each verdict, as the terminal says it. */
const adviceOn = ({ rows, state: { baseline } }, { floor }) => ({
  __proto__: null,
  slower: `Keep ${switchOf(rows, baseline) ?? shortMode(baseline)} for this model on this device.`,
  equivalent: "Choose by compile time and memory, not by speed.",
  ambiguous: `The interval crosses the band of ±${percent(100 * floor)} % in which differences do not count; more replicates narrow it.`,
});

function failedAnswer(row, where, candidate, baseline) {
  const lost = shortMode(row.failed_mode || candidate);
  const said = cut(row.failure_message || statusWords(row.status), 200);
  return { yes: lost === baseline ? "No answer." : "No.", text: `${where}: ${lost} failed: ${said}`, more: row.failure_hint };
}

function paysBackOne(row) {
  const needed = row.break_even_images;
  if (Number.isNaN(needed)) return "";
  if (needed === Infinity) return "; compilation never pays back";
  if (needed < 1) return "; preparation takes no longer";
  return `; pays back after ${images(needed)}${breakEvenRange(row)}`;
}

/** " (140 k to 150 k)": images to break even, at the ends of its interval. */
function breakEvenRange(row) {
  const [low, high] = [row.break_even_low, row.break_even_high].map((calls) => calls * row.samples);
  return present(low) && present(high) ? ` (${short(low)} to ${short(high)})` : "";
}

/** The caveats of a pair's figures. */
function caveats({ rows }, row) {
  const flags = row.flags.split(" ").filter(Boolean);
  const share = row.input_share;
  return [
    present(share) && `The input pipeline alone takes ${percent(100 * share)} % of an epoch's time.`,
    row.preliminary && `From ${plural(row.replicates, "replicate")}: preliminary${withinOneProcess(row)}.`,
    flags.length && `Note: ${flags.map((flag) => flagMeaning(rows, flag)).join("; ")}.`,
  ];
}

/** The median number of images to break even; infinite if most pairs never do, null if unknown. */
const breakEvenMedian = (view) =>
  view.once("break-even median", () => {
    const needed = view.rows.number("break_even_images");
    const known = view.counted.filter((row) => needed[row] === needed[row]);
    return known.length ? median(Array.from(known, (row) => needed[row])) : null;
  });

/** The command that measures the selection. Values come from the address: only plain words go into a command. */
function measureCommand(state) {
  const part = (key, value) => (/^[\w.-]+$/.test(value) ? `${key}=${value}` : "");
  const one = (name, key = name) => state[name].size === 1 && part(key, [...state[name]][0]);
  const settings = [one("resolution_px", "resolution"), one("batch_size"), one("precision"), one("source")];
  const scenario = state.scenario !== "call" && part("scenario", state.scenario);
  return phrase(["python -m xla_sweeps", part("model", state.model) || "model=NAME", scenario, ...settings]);
}

/** Lists figures of only one mode apart, without a comparison. */
function published(view) {
  const { rows } = view;
  const found = Array.from(view.alone, (row) => rows.at(row));
  const table = plainTable("Figures without a baseline", found, [
    ["Model", ({ model }) => model],
    ["Resolution", (row) => `${row.resolution_px} px`],
    ["Batch", (row) => row.batch_size],
    ["Device", ({ device }) => device],
    ["Mode", ({ candidate }) => candidate],
    ["Throughput", (row) => rate(row.throughput_samples_per_s)],
    ["Origin", ({ origin }) => origin],
    ["Note", ({ note }) => note],
  ]);
  fill(
    byId("published"),
    el("h3", `Not compared: ${plural(found.length, "figure")}`),
    el("p.note", "Only one mode of these was measured or published, so there is no speedup."),
    folded("Show as table", table),
  );
}
