/** Main: unpacks the data, builds the sections, and updates them when the state changes. */

import { count, date, plural, present, share } from "./numbers.js";
import { LOOKS, State } from "./state.js";
import { applyTheme, byId, dotted, el, emptyState, fill, phrase } from "./dom.js";
import { pairFor, scenariosOf, unpacked } from "./data.js";
import { Index, View } from "./view.js";
import { pairWords, someOf } from "./marks.js";
import { allDrawn, drawAll, refreshPanels, reportErrorOnPage } from "./panels.js";
import { filterBar } from "./filters.js";
import { brokeSection } from "./broke.js";
import { answerSection } from "./answer.js";
import { whereSection } from "./where.js";
import { fastestSection, studySection } from "./fastest.js";
import { flopsSection } from "./flops.js";
import { costSection } from "./cost.js";
import { seriesSection } from "./series.js";
import { trustSection } from "./trust.js";
import { gridPanel } from "./everything.js";
import { differenceSection } from "./difference.js";

/** Badges, what was compared and how, at the top; the title follows the view. @param {Index} index */
function pageHeader(index) {
  const { rows } = index;
  const { meta } = rows;
  fill(byId("badges"), badgesOf(index));
  const fact = (/** @type {any[]} */ [name, value]) => el("div", el("dt", name), el("dd", value));
  const plannedText = present(meta.planned) && `${share(meta.trials, meta.planned)} planned`;
  const records = phrase([`${count(meta.records)} in ${plural(meta.trials, "trial")}`, plannedText], ", ");
  const created = `${date(meta.generated_at)} by xla_sweeps ${meta.version}`;
  const facts = [["Records", records], ...meta.facts, ["Created", created]].filter(([, value]) => value);
  fill(byId("facts"), facts.map(fact));
  const { problems } = meta;
  const lines = problems.slice(0, 200).map((problem) => el("li", problem));
  const summary = el("summary", `${plural(problems.length, "problem")} while reading`);
  if (lines.length) byId("measured").after(el("details.problems", summary, el("ul", lines)));
  const scenarios = scenariosOf(rows).length;
  return ({ state, study }) => {
    const { scenario } = state;
    const scenarioSuffix = scenario === "call" && scenarios < 2 ? "" : ` in ${scenario}`;
    const [models, where] = /** @type {const} */ (["model", "device"]).map((name) => oneOrMany(rows.textsOf(name, study), name));
    byId("title").textContent = `${pairWords(state)}${scenarioSuffix}: ${models} on ${where}`;
    const software = rows.textsOf("software", study).filter(Boolean);
    byId("study").textContent = dotted(meta.title, someOf(software, 2, "; "), meta.when, plural(study.length, "configuration"));
  };
}

const oneOrMany = (names, noun) => (names.length === 1 ? names[0] : plural(names.length, noun));

/** Labels of a study that is not complete, or published by others. */
function badgesOf({ rows, origins }) {
  const { trials, planned } = rows.meta;
  const badge = (text, title) => el("span.badge", { title }, text);
  const partial = present(planned) && trials < planned;
  return [
    partial && badge(`PARTIAL ${share(trials, planned)}`, `${count(trials)} of ${count(planned)} planned trials.`),
    origins.has("imported") && badge("PUBLISHED", "Some figures were published by others, not measured here."),
  ];
}

/** Links within the page scroll; their place is part of the state, which the URL's fragment holds. */
function ownLinks(/** @type {State} */ state) {
  /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("a[data-to]")).forEach((link) =>
    link.addEventListener("click", (event) => {
      event.preventDefault();
      state.set({ at: link.dataset.to });
    }),
  );
  const section = location.hash.slice(1);
  goTo(/^[a-z]+$/.test(section) ? section : state["at"]);
}

let jumping = false;

/** Jumps to a section or a chart, and again as long as what is drawn on the way moves it, unless the reader scrolls. */
function goTo(id) {
  const target = byId(id) ?? [...document.querySelectorAll("figure")].find(({ dataset }) => dataset.chart === id);
  if (!id || !target) return;
  const stop = new AbortController();
  for (const name of ["wheel", "touchstart", "keydown", "pointerdown"])
    addEventListener(name, () => stop.abort(), { signal: stop.signal, passive: true });
  stop.signal.addEventListener("abort", () => (jumping = false));
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
  target.closest("section")?.querySelector("h2").focus({ preventScroll: true });
}

async function start() {
  const rows = unpacked(await xlaSweeps.data);
  const index = new Index(rows);
  const state = /** @type {any} */ (new State(index.defaults, (scenario, origin, sides) => pairFor(rows, scenario, origin, sides)));
  const headers = [pageHeader(index), filterBar(index, state)];
  answerSection(state);
  differenceSection(rows.meta.comparison);
  whereSection();
  fastestSection(state);
  studySection(rows.meta);
  flopsSection();
  costSection(index, state);
  seriesSection();
  brokeSection();
  trustSection();
  byId("everything-charts").append(gridPanel(state));
  if (!rows.meta.comparison) document.querySelector('a[data-to="difference"]').parentElement.hidden = true;
  let view = new View(index, state);
  const update = () => headers.forEach((follow) => follow(view));
  state.listen((names) => {
    const local = names?.every((name) => name in LOOKS);
    if (!local) view = new View(index, state);
    update();
    refreshPanels(view, local ? names : null);
    if (!names || names.includes("at")) goTo(state.at);
  });
  addEventListener("beforeprint", () => {
    applyTheme("light"); // paper is white
    drawAll();
  });
  addEventListener("afterprint", () => {
    applyTheme("");
    refreshPanels();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => refreshPanels());
  update();
  window.xlaSweeps = {
    rows: () => view.pairs.length,
    filtered: () => Array.from(view.pairs),
    overview: () => view.overview,
    settled: () => allDrawn() && !jumping,
    state,
  };
  refreshPanels(view);
  ownLinks(state);
}

start().catch((problem) => {
  reportErrorOnPage(problem);
  fill(byId("answer-head"), emptyState(`This page could not be shown: ${problem?.message ?? problem}`));
  document.documentElement.dataset.ready = "true";
});
