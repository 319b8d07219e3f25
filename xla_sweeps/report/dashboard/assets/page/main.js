/**
 * Main: unpacks the data, builds the sections, and updates them when the state changes.
 */

/** Badges, facts and versions at the top. */
function pageHeader(index) {
  const { meta } = index.rows;
  byId("title").textContent = meta.title || document.title;
  const badge = (text, about) => el("span", { class: "badge", title: about }, text);
  const partial = present(meta.planned) && meta.trials < meta.planned;
  const preliminary = index.rows.number("preliminary").reduce((n, value) => n + (value === 1), 0);
  fill(
    byId("badges"),
    meta.synthetic ? badge("SYNTHETIC", "Synthetic data: nothing here was measured.") : null,
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
  );
  const list = (values, most = 3) => {
    const all = (values ?? []).filter(Boolean).map(String);
    return all.length
      ? all.slice(0, most).join("; ") + (all.length > most ? ` and ${all.length - most} more` : "")
      : NONE;
  };
  const dates = [meta.first, meta.last].map((text) => (text ? text.slice(0, 10) : "")).filter(Boolean);
  const facts = [
    ["Measured", dates.length ? [...new Set(dates)].join(" to ") : NONE],
    [
      "Records",
      `${count(meta.records)} in ${plural(meta.trials, "trial")}${present(meta.planned) ? `, ${share(meta.trials, meta.planned)} of ${count(meta.planned)} planned` : ""}`,
    ],
    ["Devices", list((meta.devices ?? []).map((device) => device.name))],
    ["Software", list(meta.software)],
    ["Driver", list(meta.drivers)],
    ["Environment", list(meta.environment_flags)],
    ["Hosts", list(meta.hosts)],
    ["Created", `${date(meta.generated_at)} by xla_sweeps ${meta.version ?? ""}`],
  ].filter(([, value]) => value !== NONE && value !== "");
  fill(
    byId("facts"),
    facts.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))),
  );
  const problems = meta.problems ?? [];
  if (problems.length)
    byId("facts").after(
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
  if (/^[a-z]+$/.test(section) && byId(section)) requestAnimationFrame(() => goTo(section));
}

function goTo(id) {
  const target = byId(id);
  target.scrollIntoView({
    behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
    block: "start",
  });
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
  pageHeader(index);
  const updateFilters = filterBar(index, state);
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
    updateFilters(view);
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
  updateFilters(view);
  window.xlaSweeps = {
    version: rows.meta.version ?? "",
    rows: () => view.pairs.length,
    filtered: () => Array.from(view.pairs),
    overview: () => view.overview,
    trust: () => trustOf(view),
    state,
  };
  ownLinks();
  startPanels(view);
}

start().catch((problem) => {
  reportErrorOnPage(problem);
  const box = byId("answer-head");
  if (box) fill(box, emptyState(`This page could not be shown: ${problem?.message ?? problem}`));
  document.documentElement.dataset.ready = "true";
});
