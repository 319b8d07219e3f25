/**
 * Filters: "For [model] on [device] at [px], batch [n], against [baseline]", the rest folded, the verdicts, and the
 * tokens of the active filters. Their places do not depend on what is chosen, so that nothing moves under a mouse.
 */

const PICKED = { __proto__: null, device: "on", resolution_px: "at", batch_size: "batch" };

/** Builds the bar; it then follows the state. */
function filterBar(index, state) {
  const facets = new Map(FACETS.map((facet) => [facet.column, facetControl(index, state, facet)]));
  const model = modelControl(index, state);
  const baseline = choice(
    state,
    "baseline",
    "against",
    () => [...index.pairs.keys()].sort((a, b) => (a === "graph" ? -1 : b === "graph" ? 1 : naturally(a, b))),
    shortMode,
    (chosen) => {
      const candidates = index.pairs.get(chosen) ?? new Set();
      return candidates.has(state.candidate)
        ? { baseline: chosen }
        : { baseline: chosen, candidate: index.candidateFor(chosen) };
    },
  );
  const rest = [
    ...FACETS.filter(({ column }) => !PICKED[column]).map(({ column }) => facets.get(column)),
    choice(state, "candidate", "Candidate", () => [...(index.pairs.get(state.baseline) ?? [])], shortMode),
  ];
  const origin = index.origins.has("imported") ? originChoice(index, state) : null;
  const verdicts = verdictChips(state);
  const theme = themeControl(state);
  byId("theme").replaceWith(theme.element);
  const [reset, link] = barButtons(state);
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
      baseline.element,
      origin?.element,
      more,
      el("span", { class: "right" }, reset, link),
    ),
    el(
      "div",
      { class: "controls" },
      rest.map((control) => control.element),
    ),
    el("div", { class: "under" }, verdicts.element, shown, tokens),
  );
  closeOnEscape();
  keepBelow(byId("filters"));
  const controls = [model, baseline, ...(origin ? [origin] : []), verdicts, theme, ...facets.values(), ...rest];
  return (view) => {
    for (const control of controls) control.update(view);
    more.hidden = rest.every((control) => control.element.hidden);
    reset.disabled = !state.filtering;
    const again = view.pairs.length - view.counted.length;
    shown.textContent = `${count(view.counted.length)} of ${plural(view.everyPair, "configuration")}${again ? `, ${count(again)} measured again` : ""}`;
    fill(tokens, activeTokens(view, state));
  };
}

/** "Reset" and "Copy link". */
function barButtons(state) {
  const copied = () => copy(location.href, "Link copied");
  return [
    el("button", { type: "button", class: "small", id: "reset", on: { click: () => state.reset() } }, "Reset"),
    el("button", { type: "button", class: "small", id: "copy-link", on: { click: copied } }, "Copy link"),
  ];
}

/** Keeps what a link leads to below the bar, where the bar stays in view. */
function keepBelow(bar) {
  const measure = () => {
    const height = getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0;
    document.documentElement.style.scrollPaddingTop = `${height + 8}px`;
  };
  new ResizeObserver(measure).observe(bar);
}

/** Measured, published, or both. */
function originChoice(index, state) {
  return choice(
    state,
    "origin",
    "Figures",
    () => ["measured", "imported", "all"],
    (name) => ({ measured: "measured", imported: "published", all: "both" })[name],
    (origin) => {
      const baseline = index.baselineFor(origin);
      return { origin, baseline, candidate: index.candidateFor(baseline) };
    },
  );
}

/** A button for each verdict with its count, which filters. */
function verdictChips(state) {
  const numbers = new Map();
  const chips = Object.keys(VERDICTS).map((verdict) => {
    numbers.set(verdict, el("b"));
    const click = () => state.toggle("verdict", verdict);
    return el(
      "button",
      { type: "button", class: "chip", data: { verdict }, on: { click } },
      verdictMark(verdict),
      " ",
      numbers.get(verdict),
    );
  });
  return {
    element: el("span", { id: "verdicts", class: "chips", role: "group", "aria-label": "Filter by verdict" }, chips),
    update: (view) => {
      const { data, values } = view.rows.category("verdict");
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
function facetControl(index, state, { column, title, unit = "", any = "", blank = "" }) {
  const facet = index.facets.get(column);
  const word = (value) => `${value || blank}${unit}`;
  const values = facet.sorted.map((code) => facet.values[code]).filter((value) => value || blank);
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
    return el("label", {}, box, el("span", { class: "value", text: word(value) }), numbers.get(value));
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
  const hidden = any ? !values.length : values.length < 2 && !state[column].size;
  const element = el("details", { class: "facet", hidden }, summary, list);
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
    const only = chosen[0] ?? values[0];
    const said =
      chosen.length > 1
        ? `${chosen.length} of ${values.length}`
        : chosen.length || (any && values.length === 1)
          ? word(only)
          : any || "all";
    fill(summary, any ? "" : `${title} `, el("b", { text: said }));
    summary.title = `${title}: ${said}`;
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
    placeholder: "any model",
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
  for (const { column, unit = "", blank = "" } of FACETS)
    for (const value of state[column])
      tokens.push(token(`${cut(value, 40) || blank}${unit}`, () => state.toggle(column, value)));
  for (const verdict of state.verdict)
    tokens.push(token(VERDICTS[verdict]?.word ?? cut(verdict, 40), () => state.toggle("verdict", verdict)));
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
