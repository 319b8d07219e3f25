/**
 * Filters: "For [model] on [device] at [px], batch [n], against [baseline]", the rest folded, the verdicts, and the
 * tokens of the active filters. Their places do not depend on what is chosen, so that nothing moves under a mouse.
 */

const PICKED = { __proto__: null, device: "on", resolution_px: "at", batch_size: "batch" };

/** Builds the bar; it then follows the state. */
function filterBar(index, state) {
  const facets = new Map(FACETS.map((facet) => [facet.column, facetControl(index, state, facet)]));
  const model = modelControl(index, state);
  const scenario = scenarioChoice(index, state);
  const baseline = baselineChoice(index, state);
  const origin = originChoice(index, state);
  const rest = [
    ...FACETS.filter(({ column }) => !PICKED[column]).map(({ column }) => facets.get(column)),
    choice(state, "candidate", "Candidate", () => [...(baselinesOf(index, state).get(state.baseline) ?? [])], shortMode),
  ];
  const verdicts = verdictChips(state);
  const theme = themeControl(state);
  byId("theme").replaceWith(theme.element);
  const reset = button({ class: "small", id: "reset" }, () => state.reset(), "Reset");
  const shown = el("span", { id: "shown", role: "status" });
  const tokens = el("div", { id: "tokens" });
  const word = (text, element) => el("span", { class: "choice" }, el("span", { text }), element);
  const more = el("details", { class: "more" }, el("summary", {}, "More filters"));
  fill(
    byId("filters"),
    el(
      "div",
      { class: "pickers" },
      word("For", model.element),
      Object.entries(PICKED).map(([column, before]) => word(before, facets.get(column).element)),
      scenario.element,
      baseline.element,
      origin.element,
      more,
      el("span", { class: "right" }, reset, copyLink({ class: "small", id: "copy-link" })),
    ),
    el("div", { class: "controls" }, rest.map((control) => control.element)),
    el("div", { class: "under" }, verdicts.element, shown, tokens),
  );
  closeOnEscape();
  keepBelow(byId("filters"));
  const controls = [model, scenario, baseline, origin, verdicts, theme, ...facets.values(), rest.at(-1)];
  return (view) => {
    for (const control of controls) control.update(view);
    more.hidden = rest.every((control) => control.element.hidden);
    reset.disabled = !state.filtering;
    const again = view.pairs.length - view.counted.length;
    shown.textContent = `${count(view.counted.length)} of ${plural(view.everyPair, "configuration")}${again ? `, ${count(again)} measured again` : ""}`;
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

const NO_SCENARIO = [{ name: "call", baseline: "graph", candidate: "xla" }];

/** The scenarios of the file, the commonest first: name, and the pair that each is about. */
const scenariosOf = ({ meta }) => (meta.scenarios?.length ? meta.scenarios : NO_SCENARIO);

const scenarioOf = (rows, scenario) => scenariosOf(rows).find(({ name }) => name === scenario) ?? scenariosOf(rows)[0];

const baselinesOf = (index, state) => index.pairs.get(state.scenario) ?? new Map();

/** A candidate of a baseline: the scenario's own where it was measured. */
function candidateFor(index, scenario, baseline) {
  const candidates = index.pairs.get(scenario)?.get(baseline) ?? new Set();
  const usual = scenarioOf(index.rows, scenario).candidate;
  return candidates.has(usual) || !candidates.size ? usual : [...candidates][0];
}

/** The pair to begin with: the scenario's own baseline, else eager, else the first of this scenario and origin. */
function pairFor(index, scenario, origin) {
  const { rows } = index;
  const known = new Set(rows.values("baseline", origin === "all" ? { scenario } : { scenario, origin }));
  const usual = scenarioOf(rows, scenario).baseline;
  const compared = (name) => known.has(name) && index.pairs.get(scenario)?.has(name);
  const baseline = [usual, "eager", ...known].find(compared) ?? usual;
  return { baseline, candidate: candidateFor(index, scenario, baseline) };
}

/** What a call does, one at a time: no figure is of several; baseline and candidate follow. */
function scenarioChoice(index, state) {
  const names = () => scenariosOf(index.rows).map(({ name }) => name);
  const change = (scenario) => ({ scenario, ...pairFor(index, scenario, state.origin) });
  return choice(state, "scenario", "in", names, String, change);
}

/** What is compared with; the candidate follows to one that was. */
function baselineChoice(index, state) {
  const values = () => {
    const found = baselinesOf(index, state);
    const first = scenarioOf(index.rows, state.scenario).baseline;
    return [...new Set([first, ...[...found.keys()].sort(naturally)])].filter((name) => found.has(name));
  };
  return choice(state, "baseline", "against", values, shortMode, (baseline) => {
    const known = baselinesOf(index, state).get(baseline).has(state.candidate);
    return { baseline, candidate: known ? state.candidate : candidateFor(index, state.scenario, baseline) };
  });
}

const ORIGINS = { __proto__: null, measured: "measured", imported: "published", all: "both" };

/** Measured, published, or both; the baseline follows. */
function originChoice(index, state) {
  const values = () => (index.origins.has("imported") ? Object.keys(ORIGINS) : []);
  return choice(state, "origin", "Figures", values, (name) => ORIGINS[name], (origin) => {
    return { origin, ...pairFor(index, state.scenario, origin) };
  });
}

/** A button for each verdict with its count, which filters. */
function verdictChips(state) {
  const numbers = new Map(Object.keys(VERDICTS).map((verdict) => [verdict, el("b")]));
  const chips = [...numbers].map(([verdict, number]) =>
    button({ class: "chip", data: { verdict } }, () => state.toggle("verdict", verdict), verdictMark(verdict), " ", number),
  );
  return {
    element: el("span", { id: "verdicts", class: "chips", role: "group", "aria-label": "Filter by verdict" }, chips),
    update: (view) => {
      const { data, values } = view.rows.column("verdict");
      const counts = new Uint32Array(values.length);
      for (const row of view.anyVerdict) if (view.best[row]) counts[data[row]] += 1;
      for (const chip of chips) {
        const { verdict } = chip.dataset;
        numbers.get(verdict).textContent = count(counts[values.indexOf(verdict)] ?? 0);
        chip.setAttribute("aria-pressed", String(state.verdict.has(verdict)));
      }
    },
  };
}

/** Open lists close on Escape and on a click elsewhere. */
function closeOnEscape() {
  const open = () => document.querySelectorAll("#filters details.facet[open]");
  addEventListener("keydown", ({ key }) => {
    for (const list of key === "Escape" ? open() : []) {
      list.open = false;
      list.querySelector("summary").focus();
    }
  });
  addEventListener("click", ({ target }) => {
    for (const list of open()) if (!list.contains(target)) list.open = false;
  });
}

/** A list of check boxes that opens below its title. */
function facetControl(index, state, { column, title, unit = "", any = "", blank = "" }) {
  const facet = index.facets.get(column);
  const word = (value) => `${value || blank}${unit}`;
  const items = facet.sorted
    .map((code) => ({ code, value: facet.values[code] }))
    .filter(({ value }) => value || blank)
    .map(({ code, value }) => {
      const change = () => state.toggle(column, value);
      const box = el("input", { type: "checkbox", name: `f-${column}`, value, on: { change } });
      const number = el("span", { class: "count" });
      const label = el("label", {}, box, el("span", { class: "value", text: word(value) }), number);
      return { code, value, box, number, label };
    });
  const summary = el("summary");
  const all = button({ class: "small" }, () => state.set({ [column]: new Set() }), "All");
  const labels = items.map(({ label }) => label);
  const list = el("div", { class: "options", role: "group", "aria-label": title }, items.length > 8 && all, labels);
  const hidden = any ? !items.length : items.length < 2 && !state[column].size;
  const element = el("details", { class: "facet", hidden }, summary, list);
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
    const chosen = [...state[column]];
    for (const { value, box } of items) box.checked = state[column].has(value);
    const [only] = chosen.length || !any || items.length > 1 ? chosen : items.map(({ value }) => value);
    const one = only === undefined ? any || "all" : word(only);
    const said = chosen.length > 1 ? `${chosen.length} of ${items.length}` : one;
    fill(summary, any ? "" : `${title} `, el("b", { text: said }));
    summary.title = `${title}: ${said}`;
    element.classList.toggle("on", chosen.length > 0);
  };
  return { element, update };
}

/** The search for models, with suggestions. */
function modelControl(index, state) {
  const models = index.rows.column("model").values.filter(Boolean).toSorted(naturally);
  let timer = 0;
  const typed = (wait) => () => {
    clearTimeout(timer);
    timer = setTimeout(() => state.set({ model: input.value }, { replace: true }), wait);
  };
  const input = el("input", {
    type: "search",
    name: "f-model",
    list: "models",
    placeholder: "any model",
    autocomplete: "off",
    spellcheck: "false",
    "aria-label": "Model name contains",
    on: { input: typed(150), change: typed(0) },
  });
  const names = el("datalist", { id: "models" }, models.map((name) => el("option", { value: name })));
  const update = () => {
    if (input.value !== state.model && document.activeElement !== input) input.value = state.model;
  };
  return { element: el("span", { class: "model" }, input, names), update };
}

/** A choice of one value; hidden if there is only one. */
function choice(state, name, title, values, write, change = (value) => ({ [name]: value })) {
  const chosen = (value) => state.set(change(value));
  const element = el("label", { class: "choice" });
  const update = () => {
    const now = values();
    element.hidden = !now.length || (now.length < 2 && now.includes(state[name]));
    if (element.dataset.values === now.join()) element.lastChild.value = state[name];
    else {
      const select = selectOf({ name: `f-${name}`, "aria-label": title }, now, write, chosen);
      select.value = state[name];
      element.dataset.values = now.join();
      fill(element, el("span", { text: title }), select);
    }
  };
  return { element, update };
}

/** Light, dark, or the system's theme. */
function themeControl(state) {
  const chosen = (theme) => state.set({ theme }, { replace: true });
  const select = selectOf({ name: "theme", "aria-label": "Colours" }, ["auto", "light", "dark"], String, chosen);
  const update = () => {
    select.value = state.theme;
  };
  return { element: el("label", { class: "choice theme" }, el("span", { text: "Theme" }), select), update };
}

/** The active filters, each with a button that removes it. */
function activeTokens(view, state) {
  const token = (text, off) =>
    button({ class: "token", "aria-label": `Remove filter ${text}` }, off, text, el("span", { "aria-hidden": "true", text: " ✕" }));
  const facets = FACETS.flatMap(({ column, unit = "", blank = "" }) =>
    [...state[column]].map((value) => token(`${cut(value, 40) || blank}${unit}`, () => state.toggle(column, value))),
  );
  const verdicts = [...state.verdict].map((verdict) =>
    token(VERDICTS[verdict]?.word ?? cut(verdict, 40), () => state.toggle("verdict", verdict)),
  );
  const anyModel = () => {
    document.querySelector('[name="f-model"]').value = "";
    state.set({ model: "" });
  };
  const ranges = [...state.brush].map(([name, [low, high]]) => {
    const axis = parallelAxis(view.index, name);
    const off = () => state.set({ brush: new Map([...state.brush].filter(([other]) => other !== name)) });
    return axis && token(`${axis.title} ${axis.between(low, high)}`, off);
  });
  return [...facets, ...verdicts, state.model !== "" && token(`“${cut(state.model, 40)}”`, anyModel), ...ranges];
}
