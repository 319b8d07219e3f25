/** Filters: "For [model] on [device] at [px], batch [n], in [scenario] [pair]" in one line, the rest folded, and the tokens
 * of the active filters. Their places do not depend on what is chosen, so that nothing moves under a mouse. */

import { count, plural } from "./numbers.js";
import { FACETS, VERDICTS } from "./state.js";
import { button, byId, copyLink, el, fill, phrase, selectOf, typedInput, verdictMark } from "./dom.js";
import { naturally, pairFor, pairsOf, scenariosOf } from "./data.js";
import { wordOf } from "./view.js";
import { cut, pairWords } from "./marks.js";

/** Builds the bar; it then follows the state. @param {Index} index @param {State} state */
export function filterBar(index, state) {
  const model = modelControl(index, state);
  const facets = FACETS.map((facet) => ({ ...facet, ...facetControl(index, state, facet) }));
  const choices = [scenarioChoice, pairChoice, originChoice].map((make) => make(index, state));
  const rest = facets.filter(({ before }) => !before);
  const emptied = () => {
    state.reset();
    model.input.focus(); // the button is off now
  };
  const reset = button({ class: "small", id: "reset" }, emptied, "Reset");
  const tokens = el("div", { id: "tokens" });
  const word = (text, { element }) => el("span.choice", el("span", text), element);
  const more = el("details.more", el("summary", "More"));
  const pickers = [
    word("For", model),
    ...facets.filter(({ before }) => before).map((facet) => word(facet.before, facet)),
    ...choices.map(({ element }) => element),
    more,
    el("span.right", reset, copyLink({ class: "small", id: "copy-link" })),
  ];
  const others = el("div.controls", rest.map(({ element }) => element));
  fill(byId("filters"), el("div.pickers", pickers), others, tokens);
  closeOnEscape();
  keepBelow(byId("filters"));
  const controls = [model, ...choices, ...facets];
  return (view) => {
    for (const control of controls) control.update(view);
    more.hidden = rest.every(({ element }) => element.hidden);
    reset.disabled = !state.filtering;
    fill(tokens, activeTokens(view, state));
  };
}

/** Keeps what a link leads to below the bar, where the bar stays in view. */
function keepBelow(bar) {
  const measure = () => {
    const height = getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0;
    document.documentElement.style.scrollPaddingTop = `${height + 8}px`;
  };
  new ResizeObserver(measure).observe(bar);
}

/** What a call does, one at a time: no figure is of several; the pair follows. @param {Index} index @param {State} state */
function scenarioChoice(index, state) {
  const names = () => scenariosOf(index.rows).map(({ name }) => name);
  const change = (scenario) => ({ scenario, ...pairFor(index.rows, scenario, state.origin) });
  return choice(state, "scenario", "in", names, String, change);
}

/** What is compared: the pairs that were measured. @param {Index} index @param {State} state */
function pairChoice(index, state) {
  const pairs = () => new Map(pairsOf(index.rows, state.scenario, state.origin).map((pair) => [spell(pair), pair]));
  const write = (name) => pairWords(pairs().get(name));
  return choice(state, "pair", "comparing", () => [...pairs().keys()], write, (name) => pairs().get(name), () => spell(state));
}

const spell = (/** @type {Sides} */ { baseline, candidate }) => `${candidate}/${baseline}`;

const ORIGINS = { __proto__: null, measured: "measured", imported: "published", all: "both" };

/** Measured, published, or both; the pair follows. @param {Index} index @param {State} state */
function originChoice(index, state) {
  const values = () => (index.origins.has("imported") ? Object.keys(ORIGINS) : []);
  const change = (origin) => ({ origin, ...pairFor(index.rows, state.scenario, origin) });
  return choice(state, "origin", "Figures", values, (name) => ORIGINS[name], change);
}

/** A button for each verdict that there is, with its count, which filters; and how many are shown. @param {State} state */
export function verdictChips(state) {
  const box = el("span", { id: "verdicts", class: "chips", role: "group", "aria-label": "Filter by verdict" });
  const chips = Object.keys(VERDICTS).map((verdict) => {
    const number = el("b");
    const toggle = () => state.toggle("verdict", verdict);
    return { verdict, number, chip: button({ class: "chip", data: { verdict } }, toggle, verdictMark(verdict), " ", number) };
  });
  const shown = el("span", { id: "shown", role: "status" });
  fill(box, chips.map(({ chip }) => chip), shown);
  const update = (/** @type {View} */ view) => {
    const { data, values } = view.rows.column("verdict");
    const counts = new Uint32Array(values.length);
    for (const row of [...view.counted, ...view.unmeasured]) counts[data[row]] += 1;
    for (const { verdict, number, chip } of chips) {
      const n = counts[values.indexOf(verdict)] ?? 0;
      number.textContent = count(n);
      chip.hidden = !n && !state.verdict.has(verdict);
      chip.setAttribute("aria-pressed", String(state.verdict.has(verdict)));
    }
    const isMissing = view.rows.is("verdict", "not_measured");
    const again = view.pairs.filter((row) => !isMissing(row)).length - view.shown.length;
    const shownText = `${count(view.shown.length)} of ${plural(view.study.length, "configuration")}`;
    shown.textContent = phrase([shownText, again > 0 && `${count(again)} measured again`], ", ");
  };
  return { element: box, update };
}

/** Open lists close on Escape and on a click elsewhere. */
function closeOnEscape() {
  const open = () => /** @type {NodeListOf<HTMLDetailsElement>} */ (document.querySelectorAll("#filters details.facet[open]"));
  addEventListener("keydown", ({ key }) => {
    for (const list of key === "Escape" ? open() : []) {
      list.open = false;
      list.querySelector("summary").focus();
    }
  });
  addEventListener("click", ({ target }) => {
    for (const list of open()) if (!list.contains(/** @type {Node} */ (target))) list.open = false;
  });
}

/** A list of check boxes that opens below its title. @param {Index} index @param {State} state */
function facetControl(index, state, facet) {
  const { column, title, any = "", blank } = facet;
  const { sorted, values } = index.facets.get(column);
  const items = sorted
    .filter((code) => values[code] || blank)
    .map((code) => {
      const value = values[code];
      const change = () => state.toggle(column, value);
      const box = el("input", { type: "checkbox", name: `f-${column}`, value, on: { change } });
      const number = el("span.count");
      const label = el("label", box, el("span.value", wordOf(facet, value)), number);
      return { code, value, box, number, label };
    });
  const summary = el("summary");
  const all = button({ class: "small" }, () => state.set({ [column]: new Set() }), "All");
  const labels = items.map(({ label }) => label);
  const list = el("div.options", { role: "group", "aria-label": title }, items.length > 8 && all, labels);
  const hidden = any ? !items.length : items.length < 2 && !state[column].size;
  const element = el("details.facet", { hidden }, summary, list);
  let shown = null;
  const recount = () => {
    if (!element.open || !shown) return;
    const counts = shown.countsOf(column);
    for (const { code, number, label } of items) {
      number.textContent = count(counts[code]);
      label.classList.toggle("none", counts[code] === 0);
    }
  };
  element.addEventListener("toggle", recount);
  const update = (view) => {
    shown = view;
    recount();
    for (const { value, box } of items) box.checked = state[column].has(value);
    const single = any && items.length === 1 ? [items[0].value] : [];
    const [only] = [...state[column], ...single];
    const one = only === undefined ? any || "all" : wordOf(facet, only);
    const said = state[column].size > 1 ? `${state[column].size} of ${items.length}` : one;
    fill(summary, any ? "" : `${title} `, el("b", said));
    summary.title = `${title}: ${said}`;
    element.classList.toggle("on", state[column].size > 0);
  };
  return { element, update };
}

/** The search for models, with suggestions. @param {Index} index @param {State} state */
function modelControl(index, state) {
  const models = index.rows.column("model").values.filter(Boolean).toSorted(naturally);
  const props = { type: "search", list: "models", placeholder: "any model", autocomplete: "off", spellcheck: "false" };
  const { input, update } = typedInput(state, "model", { ...props, "aria-label": "Model name contains" });
  const names = el("datalist", { id: "models" }, models.map((value) => el("option", { value })));
  return { element: el("span.model", input, names), input, update };
}

/** A choice of one value; hidden if there is only one. @param {State} state */
function choice(state, name, title, values, write, change, read = () => state[name]) {
  const chosen = (value) => state.set(change(value));
  const element = el("label.choice");
  const update = () => {
    const now = values();
    element.hidden = !now.length || (now.length < 2 && now.includes(read()));
    if (element.dataset.values !== now.join()) {
      const select = selectOf({ name: `f-${name}`, "aria-label": title }, now, write, chosen);
      fill(element, el("span", title), select);
      element.dataset.values = now.join();
    }
    element.querySelector("select").value = read();
  };
  return { element, update };
}

/** The active filters, each with a button that removes it; `picked` is one that a picker of the first line shows. @param {View} view @param {State} state */
function activeTokens(view, state) {
  const chosen = (column, write, before = "") =>
    Array.from(state[column], (value) => [write(cut(value, 40)), () => state.toggle(column, value), before && state[column].size < 2]);
  const filters = [
    ...FACETS.flatMap((facet) => chosen(facet.column, (value) => wordOf(facet, value), facet.before)),
    ...chosen("verdict", (verdict) => VERDICTS[verdict]?.word ?? verdict),
    state.model !== "" && [`“${cut(state.model, 40)}”`, () => state.set({ model: "" }), true],
  ];
  return filters.filter(Boolean).map(([text, off, isPicked]) => {
    const cross = el("span", { "aria-hidden": "true", text: " ✕" });
    return button({ class: isPicked ? "token picked" : "token", "aria-label": `Remove filter ${text}` }, off, text, cross);
  });
}
