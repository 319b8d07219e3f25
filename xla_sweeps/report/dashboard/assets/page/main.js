/**
 * Main: unpacks the data, builds the sections, and updates them when the state changes.
 */

/** Badges, what was compared and how, at the top; the title follows the view. */
function pageHeader(index) {
  const { meta } = index.rows;
  fill(byId("badges"), badgesOf(index));
  fill(
    byId("facts"),
    factsOf(meta).map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))),
  );
  const problems = meta.problems ?? [];
  const lines = problems.slice(0, 200).map((problem) => el("li", { text: problem }));
  const title = `${plural(problems.length, "problem")} while reading`;
  if (lines.length)
    byId("measured").after(el("details", { class: "problems" }, el("summary", { text: title }), el("ul", {}, lines)));
  const { rows } = index;
  const inScenario = (scenario) => oneOrMany(rows.values("model", { scenario }).filter(Boolean), "model");
  const models = new Map(scenariosOf(rows).map(({ name }) => [name, inScenario(name)]));
  const where = oneOrMany((meta.devices ?? []).map((device) => device.name), "device");
  return (view) => {
    const { scenario, candidate, baseline } = view.state;
    const told = scenario === "call" && models.size < 2 ? "" : ` in ${scenario}`;
    const what = models.get(scenario) ?? plural(0, "model");
    byId("title").textContent = `${shortMode(candidate)} against ${shortMode(baseline)}${told}: ${what} on ${where}`;
    const facts = [meta.title, listed(meta.software, 2), days(meta), plural(view.everyPair, "configuration")];
    byId("study").textContent = phrase(facts, " · ");
  };
}

const oneOrMany = (names, noun) => (names.length === 1 ? names[0] : plural(names.length, noun));

/** Labels of a study that is not complete, published by others, or preliminary. */
function badgesOf(index) {
  const { meta, count: all } = index.rows;
  const badge = (text, about) => el("span", { class: "badge", title: about }, text);
  const partial = present(meta.planned) && meta.trials < meta.planned;
  const preliminary = index.rows.number("preliminary").reduce((n, value) => n + (value === 1), 0);
  return [
    partial &&
      badge(`PARTIAL ${share(meta.trials, meta.planned)}`, `${count(meta.trials)} of ${count(meta.planned)} planned trials.`),
    index.origins.has("imported") && badge("IMPORTED", "Some figures were published by others, not measured here."),
    preliminary > 0 &&
      badge(
        preliminary === all ? "PRELIMINARY" : "PARTLY PRELIMINARY",
        `${count(preliminary)} of ${count(all)} comparisons have fewer than three replicates.`,
      ),
  ];
}

/** "a; b; c and 4 more" */
const listed = (values, most = 3) => someOf((values ?? []).filter(Boolean).map(String), most, "; ");

/** "1–5 Nov 2026": the days of the first and the last measurement. */
function days({ first, last }) {
  const form = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
  const [from, to] = [first, last].map((text) => new Date(text ?? NaN));
  return Number.isNaN(+from) || Number.isNaN(+to) ? "" : form.formatRange(from, to).replace(/\s–\s/, "–");
}

/** Records, machines and versions: name and value. */
function factsOf(meta) {
  const planned = present(meta.planned) ? `, ${share(meta.trials, meta.planned)} of ${count(meta.planned)} planned` : "";
  return [
    ["Records", `${count(meta.records)} in ${plural(meta.trials, "trial")}${planned}`],
    ["Devices", listed((meta.devices ?? []).map((device) => device.name))],
    ["Software", listed(meta.software)],
    ["Driver", listed(meta.drivers)],
    ["Environment", listed(meta.environment_flags)],
    ["Hosts", listed(meta.hosts)],
    ["Created", `${date(meta.generated_at)} by xla_sweeps ${meta.version ?? ""}`],
  ].filter(([, value]) => value);
}

/** Links within the page scroll, because the URL's fragment holds the state. */
function ownLinks() {
  document.querySelectorAll("a[data-to]").forEach((link) =>
    link.addEventListener("click", (event) => {
      event.preventDefault();
      goTo(link.dataset.to);
    }),
  );
  const section = location.hash.slice(1);
  if (/^[a-z]+$/.test(section) && byId(section)) goTo(section);
}

let jumping = false;

/** Jumps to a section, and again as long as what is drawn on the way moves it, unless the reader scrolls. */
function goTo(id) {
  const target = byId(id);
  const stop = new AbortController();
  for (const name of ["wheel", "touchstart", "keydown", "pointerdown"])
    addEventListener(name, () => stop.abort(), { signal: stop.signal, passive: true });
  stop.signal.addEventListener("abort", () => {
    jumping = false;
  });
  jumping = true;
  let quiet = 0;
  const jump = () => {
    if (stop.signal.aborted) return;
    const before = scrollY;
    target.scrollIntoView({ behavior: "instant", block: "start" });
    quiet = scrollY === before && allDrawn() ? quiet + 1 : 0;
    if (quiet < 10) requestAnimationFrame(jump);
    else stop.abort();
  };
  jump();
  target.querySelector("h2")?.focus({ preventScroll: true });
}

/** The chosen theme, or the system's. */
function applyTheme(theme) {
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

/** Adds the column of images to break even, so that the table can sort by it. */
function addBreakEven(rows) {
  rows.add("break_even_images", () => {
    const [extra, calls, speedup] = rows.numbers("compile_s_extra", "break_even_calls", "speedup");
    const [batch, batches] = rows.numbers("batch_size", "batches");
    const { data, values } = rows.column("verdict");
    const ambiguous = values.indexOf("ambiguous");
    return Float32Array.from(calls, (value, row) =>
      speedup[row] !== speedup[row] || extra[row] !== extra[row] || data[row] === ambiguous
        ? NaN
        : value === value
          ? value * batch[row] * (batches[row] || 1)
          : Infinity,
    );
  });
}

async function start() {
  const rows = unpacked(new Uint8Array(await xlaSweeps.data));
  addBreakEven(rows);
  const index = new Index(rows);
  const state = new State(index.defaults);
  applyTheme(state.theme);
  const follow = [pageHeader(index), filterBar(index, state)];
  answerSection();
  differenceSection(rows.meta.comparison);
  whereSection();
  fastestSection(state);
  flopsSection(state);
  costSection(state);
  compareSection();
  brokeSection();
  trustSection();
  byId("everything-charts").append(parallelPanel(state), gridPanel(state));
  if (!rows.meta.comparison) document.querySelector('a[data-to="difference"]').parentElement.hidden = true;
  let view = new View(index, state);
  const update = () => follow.forEach((one) => one(view));
  state.listen((names) => {
    if (!names || names.includes("theme")) applyTheme(state.theme);
    const local = names?.every((name) => ["sort", "tab", "place", "images"].includes(name));
    if (!local && names?.join() !== "theme") view = new View(index, state);
    update();
    refreshPanels(view, local ? names : null);
  });
  addEventListener("beforeprint", () => {
    applyTheme("light"); // paper is white
    refreshPanels();
    drawAll();
  });
  addEventListener("afterprint", () => {
    applyTheme(state.theme);
    refreshPanels();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => refreshPanels());
  update();
  window.xlaSweeps = {
    version: rows.meta.version ?? "",
    rows: () => view.pairs.length,
    filtered: () => Array.from(view.pairs),
    overview: () => view.overview,
    trust: () => trustOf(view),
    settled: () => allDrawn() && !jumping,
    state,
  };
  startPanels(view);
  ownLinks();
}

start().catch((problem) => {
  reportErrorOnPage(problem);
  fill(byId("answer-head"), emptyState(`This page could not be shown: ${problem?.message ?? problem}`));
  document.documentElement.dataset.ready = "true";
});
