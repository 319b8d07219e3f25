/**
 * Filters: the bar that stays visible, and the tokens of the active filters.
 */

/** Builds the bar; it then follows the state. */
function filterBar(index, state) {
  const controls = [
    ...FACETS.map((facet) => facetControl(index, state, facet)),
    modelControl(index, state),
    choice(
      state,
      "baseline",
      "Baseline",
      () => [...index.pairs.keys()].sort((a, b) => (a === "graph" ? -1 : b === "graph" ? 1 : naturally(a, b))),
      shortMode,
      (baseline) => {
        const candidates = index.pairs.get(baseline) ?? new Set();
        return candidates.has(state.candidate) ? { baseline } : { baseline, candidate: index.candidateFor(baseline) };
      },
    ),
    choice(state, "candidate", "Candidate", () => [...(index.pairs.get(state.baseline) ?? [])], shortMode),
    index.origins.has("imported")
      ? choice(
          state,
          "origin",
          "Figures",
          () => ["measured", "imported", "all"],
          (name) => ({ measured: "measured", imported: "published", all: "both" })[name],
          (origin) => {
            const baseline = index.baselineFor(origin);
            return { origin, baseline, candidate: index.candidateFor(baseline) };
          },
        )
      : null,
  ].filter(Boolean);
  const reset = el(
    "button",
    { type: "button", class: "small", id: "reset", on: { click: () => state.reset() } },
    "Reset",
  );
  const link = el(
    "button",
    { type: "button", class: "small", id: "copy-link", on: { click: () => copy(location.href, "Link copied") } },
    "Copy link",
  );
  const shown = el("span", { id: "shown", role: "status" });
  const tokens = el("div", { id: "tokens" });
  const theme = themeControl(state);
  byId("theme").replaceWith(theme.element);
  const folded = el("details", { class: "fold" }, el("summary", { text: "Filters" }));
  fill(
    byId("filters"),
    folded,
    el(
      "div",
      { class: "controls" },
      controls.map((control) => control.element),
    ),
    el("div", { class: "under" }, shown, tokens, el("span", { class: "right" }, reset, link)),
  );
  const narrow = matchMedia("(max-width: 720px)");
  const refold = () => {
    folded.open = !narrow.matches;
  };
  narrow.addEventListener("change", refold);
  refold();
  closeOnEscape();
  new ResizeObserver(([bar]) => {
    document.documentElement.style.scrollPaddingTop = `${bar.target.offsetHeight + 8}px`;
  }).observe(byId("filters"));
  return (view) => {
    for (const control of controls) control.update(view);
    theme.update();
    reset.disabled = !state.filtering;
    const again = view.pairs.length - view.counted.length;
    shown.textContent = `${count(view.counted.length)} of ${plural(view.everyPair, "pair")}${again ? `, ${count(again)} measured again` : ""}`;
    fill(tokens, activeTokens(view, state));
    folded.firstElementChild.textContent = `Filters${state.filtering ? " (on)" : ""}`;
  };
}

/** Open lists close on Escape and on a click elsewhere. */
function closeOnEscape() {
  const close = (but = null) =>
    document.querySelectorAll("#filters details.facet[open]").forEach((open) => {
      if (open !== but) open.open = false;
    });
  addEventListener("keydown", (event) => {
    const open = event.key === "Escape" && document.querySelector("#filters details.facet[open]");
    if (!open) return;
    close();
    open.querySelector("summary").focus();
  });
  addEventListener("click", (event) => close(event.target.closest?.("details.facet")));
}

/** A list of check boxes that opens below its title. */
function facetControl(index, state, { column, title, unit = "" }) {
  const facet = index.facets.get(column);
  const values = facet.sorted.filter((code) => facet.values[code] !== "").map((code) => facet.values[code]);
  const boxes = new Map();
  const numbers = new Map();
  const items = values.map((value) => {
    const box = el("input", {
      type: "checkbox",
      name: `f-${column}`,
      value,
      on: { change: () => state.toggle(column, value) },
    });
    boxes.set(value, box);
    numbers.set(value, el("span", { class: "count" }));
    return el("label", {}, box, el("span", { class: "value", text: `${value}${unit}` }), numbers.get(value));
  });
  const summary = el("summary");
  const clear = el(
    "button",
    { type: "button", class: "small", on: { click: () => state.set({ [column]: new Set() }) } },
    "All",
  );
  const list = el(
    "div",
    { class: "options", role: "group", "aria-label": title },
    values.length > 8 ? clear : null,
    items,
  );
  const element = el("details", { class: "facet", hidden: values.length < 2 && !state[column].size }, summary, list);
  let shown = null;
  const recount = () => {
    if (!element.open || !shown) return;
    const counts = shown.countsOf(column);
    for (const [value, number] of numbers) {
      const n = counts[facet.values.indexOf(value)];
      number.textContent = count(n);
      number.parentElement.classList.toggle("none", n === 0);
    }
  };
  element.addEventListener("toggle", recount);
  const update = (view) => {
    shown = view;
    recount();
    const chosen = [...state[column]];
    for (const [value, box] of boxes) box.checked = state[column].has(value);
    const said = !chosen.length
      ? "all"
      : chosen.length === 1
        ? cut(`${chosen[0]}${unit}`, 22)
        : `${chosen.length} of ${values.length}`;
    fill(summary, `${title} `, el("b", { text: said }));
    element.classList.toggle("on", chosen.length > 0);
  };
  return { element, update };
}

/** The search for models, with suggestions. */
function modelControl(index, state) {
  const models = index.rows.category("model").values.filter(Boolean).toSorted(naturally);
  const typed = () => state.set({ model: input.value }, { replace: true });
  let timer = 0;
  const input = el("input", {
    type: "search",
    name: "f-model",
    list: "models",
    placeholder: "Model…",
    autocomplete: "off",
    spellcheck: "false",
    "aria-label": "Model name contains",
    on: {
      input: () => {
        clearTimeout(timer);
        timer = setTimeout(typed, 150);
      },
      change: () => {
        clearTimeout(timer);
        typed();
      },
    },
  });
  const element = el(
    "span",
    { class: "model" },
    input,
    el(
      "datalist",
      { id: "models" },
      models.map((name) => el("option", { value: name })),
    ),
  );
  return {
    element,
    update: () => {
      if (input.value !== state.model && document.activeElement !== input) input.value = state.model;
    },
  };
}

/** A choice of one value; hidden if there is only one. */
function choice(state, name, title, values, write, change = (value) => ({ [name]: value })) {
  const select = el("select", {
    name: `f-${name}`,
    "aria-label": title,
    on: { change: () => state.set(change(select.value)) },
  });
  const element = el("label", { class: "choice" }, el("span", { text: title }), select);
  let listed = "";
  const update = () => {
    const now = values();
    element.hidden = !now.length || (now.length < 2 && now.includes(state[name]));
    if (listed !== now.join())
      fill(
        select,
        now.map((value) => el("option", { value, text: write(value) })),
      );
    listed = now.join();
    select.value = state[name];
  };
  return { element, update };
}

/** Light, dark, or the system's theme. */
function themeControl(state) {
  const select = el(
    "select",
    {
      name: "theme",
      "aria-label": "Colours",
      on: { change: () => state.set({ theme: select.value }, { replace: true }) },
    },
    ["auto", "light", "dark"].map((value) => el("option", { value, text: value })),
  );
  const element = el("label", { class: "choice theme" }, el("span", { text: "Theme" }), select);
  return {
    element,
    update: () => {
      select.value = state.theme;
    },
  };
}

/** The active filters, each with a button that removes it. */
function activeTokens(view, state) {
  const token = (text, off) =>
    el(
      "button",
      { type: "button", class: "token", "aria-label": `Remove filter ${text}`, on: { click: off } },
      text,
      el("span", { "aria-hidden": "true", text: " ✕" }),
    );
  const tokens = [];
  for (const { column, unit = "" } of FACETS)
    for (const value of state[column])
      tokens.push(token(`${cut(value, 40)}${unit}`, () => state.toggle(column, value)));
  for (const verdict of state.verdict)
    tokens.push(token(VERDICTS[verdict]?.word ?? verdict, () => state.toggle("verdict", verdict)));
  if (state.model)
    tokens.push(
      token(`“${cut(state.model, 40)}”`, () => {
        document.querySelector('[name="f-model"]').value = "";
        state.set({ model: "" });
      }),
    );
  for (const [name, [low, high]] of state.brush) {
    const axis = parallelAxis(view.index, name);
    const off = () => state.set({ brush: new Map([...state.brush].filter(([other]) => other !== name)) });
    if (axis) tokens.push(token(`${axis.title} ${axis.between(low, high)}`, off));
  }
  return tokens;
}
