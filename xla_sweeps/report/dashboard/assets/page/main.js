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
  if (problems.length)
    byId("measured").after(
      el(
        "details",
        { class: "problems" },
        el("summary", { text: `${plural(problems.length, "problem")} while reading` }),
        el(
          "ul",
          {},
          problems.slice(0, 200).map((problem) => el("li", { text: problem })),
        ),
      ),
    );
  const models = index.rows.category("model").values.filter(Boolean);
  const devices = (meta.devices ?? []).map((device) => device.name);
  const what = models.length === 1 ? models[0] : plural(models.length, "model");
  const where = devices.length === 1 ? devices[0] : plural(devices.length, "device");
  return (view) => {
    const { candidate, baseline } = view.state;
    byId("title").textContent = `${shortMode(candidate)} against ${shortMode(baseline)}: ${what} on ${where}`;
    const facts = [meta.title, listed(meta.software, 2), days(meta), plural(view.everyPair, "configuration")];
    byId("study").textContent = facts.filter((fact) => fact && fact !== NONE).join(" · ");
  };
}

/** Labels of a study that is not complete, published by others, or preliminary. */
function badgesOf(index) {
  const { meta } = index.rows;
  const badge = (text, about) => el("span", { class: "badge", title: about }, text);
  const partial = present(meta.planned) && meta.trials < meta.planned;
  const preliminary = index.rows.number("preliminary").reduce((n, value) => n + (value === 1), 0);
  return [
    partial
      ? badge(
          `PARTIAL ${share(meta.trials, meta.planned)}`,
          `${count(meta.trials)} of ${count(meta.planned)} planned trials.`,
        )
      : null,
    index.origins.has("imported")
      ? badge("IMPORTED", "Some figures were published by others, not measured here.")
      : null,
    preliminary
      ? badge(
          preliminary === index.rows.count ? "PRELIMINARY" : "PARTLY PRELIMINARY",
          `${count(preliminary)} of ${count(index.rows.count)} comparisons have fewer than three replicates.`,
        )
      : null,
  ];
}

/** "a; b; c and 4 more" */
function listed(values, most = 3) {
  const all = (values ?? []).filter(Boolean).map(String);
  return all.length
    ? all.slice(0, most).join("; ") + (all.length > most ? ` and ${all.length - most} more` : "")
    : NONE;
}

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
  ].filter(([, value]) => value !== NONE && value !== "");
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
  const events = ["wheel", "touchstart", "keydown", "pointerdown"];
  const stop = new AbortController();
  events.forEach((name) => addEventListener(name, () => stop.abort(), { signal: stop.signal, passive: true }));
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
  const [extra, calls, batch, speedup] = ["compile_s_extra", "break_even_calls", "batch_size", "speedup"].map((name) =>
    rows.number(name),
  );
  const verdict = rows.category("verdict");
  const ambiguous = verdict.values.indexOf("ambiguous");
  const data = Float32Array.from(calls, (value, row) =>
    speedup[row] !== speedup[row] || extra[row] !== extra[row] || verdict.data[row] === ambiguous
      ? NaN
      : value === value
        ? value * batch[row]
        : Infinity,
  );
  rows.columns.set("break_even_images", { kind: "number", data, values: [] });
}

async function start() {
  const rows = await unpacked(byId("data").textContent);
  byId("data").remove();
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
  state.listen((names) => {
    if (!names || names.includes("theme")) applyTheme(state.theme);
    const local = names?.every((name) => ["sort", "tab", "place", "images"].includes(name));
    if (!local && !(names?.length === 1 && names[0] === "theme")) view = new View(index, state);
    follow.forEach((update) => update(view));
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
  follow.forEach((update) => update(view));
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
  const box = byId("answer-head");
  if (box) fill(box, emptyState(`This page could not be shown: ${problem?.message ?? problem}`));
  document.documentElement.dataset.ready = "true";
});
