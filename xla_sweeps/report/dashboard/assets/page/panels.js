/**
 * Panels: parts of the page that are drawn only near the viewport, and charts with their text and table.
 */

const PANELS = [];
let currentView = null;

const sight = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      const panel = PANELS.find((candidate) => candidate.element === target);
      panel.near = isIntersecting;
    }
    drawNear();
    document.documentElement.dataset.ready = "true";
  },
  { rootMargin: "250px 0px" },
);

/**
 * Registers a part of the page.
 * @param {HTMLElement} element
 * @param {(view: View) => void} draw called when the view has changed and the element is near the viewport.
 * @param {object} [more]
 * @param {string[]} [more.follows] parts of the state that it shows beside the view: `sort`, `tab`, `images`.
 * @param {(view: View) => boolean} [more.worth] whether the view gives it something to say; if not, it is not shown.
 */
function addPanel(element, draw, { follows = [], worth = () => true } = {}) {
  const panel = { element, draw, follows, worth, near: false, stale: true };
  PANELS.push(panel);
  return panel;
}

/** Watches all panels; the page is ready when the visible ones are drawn. */
function startPanels(view) {
  currentView = view;
  showWorthy();
  PANELS.forEach((panel) => sight.observe(panel.element));
}

/**
 * A new view or theme: everything is drawn again, now or when it comes near the viewport.
 * @param {string[]|null} [names] the only parts of the state that changed; then only panels that follow them are drawn.
 */
function refreshPanels(view = currentView, names = null) {
  currentView = view;
  if (!names) showWorthy();
  for (const panel of PANELS) if (!names || panel.follows.some((name) => names.includes(name))) panel.stale = true;
  drawNear();
}

/** Hides the panels without something to say, and the sections that are left empty with the links to them. */
function showWorthy() {
  for (const { element, worth } of PANELS) element.hidden = !worth(currentView);
  for (const section of document.querySelectorAll("main section")) {
    const own = PANELS.filter(({ element }) => section.contains(element));
    if (!own.length) continue;
    section.hidden = own.every(({ element }) => element.hidden);
    document.querySelector(`nav a[data-to="${section.id}"]`).parentElement.hidden = section.hidden;
  }
}

/** Draws visible panels at once, and panels near the viewport afterwards, one at a time. */
function drawNear() {
  const waiting = PANELS.filter((panel) => panel.near && panel.stale);
  const inSight = waiting.filter(({ element }) => {
    const { top, bottom } = element.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  });
  inSight.forEach(drawPanel);
  if (waiting.length > inSight.length) setTimeout(drawNext);
}

/** Whether everything near the viewport is drawn. */
const allDrawn = () => !PANELS.some(({ near, stale, element }) => near && stale && !element.hidden);

/** Draws everything, for printing. */
function drawAll() {
  PANELS.filter(({ element }) => element.checkVisibility()).forEach(drawPanel);
}

function drawNext() {
  const next = PANELS.find((panel) => panel.near && panel.stale);
  if (!next) return;
  drawPanel(next);
  setTimeout(drawNext);
}

function drawPanel(panel) {
  if (!panel.stale || !currentView) return;
  panel.stale = false;
  try {
    panel.draw(currentView);
  } catch (problem) {
    reportErrorOnPage(problem);
    fill(panel.element, emptyState("This part could not be drawn; the rest of the page still works."));
  }
}

/** Marks the page as faulty, for tests, and logs the problem. */
function reportErrorOnPage(problem) {
  document.documentElement.dataset.error = String(problem?.message ?? problem);
  console.error(problem);
}

/**
 * A chart with its text and table.
 * @param {object} spec
 * @param {string} spec.title
 * @param {string} spec.how how to read it.
 * @param {(view: View, theme: object, width: number) => object} spec.build returns
 *   `{option, height, label, note?}`: label is the result in words.
 * @param {(view: View) => object} spec.table contents for `plainTable`.
 * @param {(event: object, view: View) => void} [spec.click]
 * @param {(view: View) => string} [spec.key] while it stays the same, the chart is not drawn again.
 * @param {(instance: object, view: View, redrawn: boolean) => void} [spec.after] called with the ECharts instance after each drawing.
 * @param {string[]} [spec.follows] as for `addPanel`.
 * @param {(view: View) => boolean} [spec.worth] as for `addPanel`; default: there is a pair.
 * @param {boolean} [spec.wide]
 * @returns {HTMLElement} the figure.
 */
function chart(spec) {
  const host = el("div", { class: "canvas", role: "img", "aria-label": spec.title });
  const note = el("span");
  const twin = el("details", { class: "twin" }, el("summary", { text: "Show as table" }));
  const legend = el("div", { class: "legend" });
  const caption = el("figcaption", {}, spec.how, " ", note);
  const figure = el(
    "figure",
    { class: `chart${spec.wide ? " wide" : ""}` },
    el("h3", { text: spec.title }),
    legend,
    host,
    caption,
    twin,
  );
  let instance = null;
  let drawnWidth = 0;
  let drawnKey = null;
  let twinStale = true;

  const drawTwin = () => {
    if (!twin.open || !twinStale) return;
    twinStale = false;
    twin.replaceChildren(twin.firstElementChild, plainTable(spec.table(currentView)));
  };
  twin.addEventListener("toggle", drawTwin);

  const draw = (view) => {
    twinStale = true;
    const width = figure.clientWidth;
    drawnWidth = width;
    const theme = colours();
    const key = spec.key && `${spec.key(view)} ${width} ${theme.panel}`;
    if (key && key === drawnKey) {
      spec.after?.(instance, view, false);
      return drawTwin();
    }
    drawnKey = null;
    const built = spec.build(view, theme, width);
    fill(legend, built.legend ?? []);
    note.textContent = built.note ?? "";
    host.setAttribute("aria-label", built.label);
    const height = Math.round(built.height ?? 320);
    if (host.clientHeight !== height) host.style.height = `${height}px`;
    if (!instance) {
      instance = echarts.init(host, null, { renderer: "canvas" });
      if (spec.click) instance.on("click", (event) => spec.click(event, currentView));
    } else if (instance.getWidth() !== host.clientWidth || instance.getHeight() !== height) {
      instance.clear(); // otherwise the old chart would be drawn once more
      instance.resize();
    }
    instance.setOption(framed(theme, built.option), { notMerge: true });
    drawnKey = key;
    spec.after?.(instance, view, true);
    drawTwin();
  };
  const panel = addPanel(figure, draw, {
    follows: spec.follows,
    worth: spec.worth ?? ((view) => view.pairs.length > 0),
  });
  new ResizeObserver(() => {
    if (!drawnWidth || Math.abs(figure.clientWidth - drawnWidth) < 2) return;
    panel.stale = true;
    clearTimeout(panel.timer);
    panel.timer = setTimeout(() => panel.near && drawPanel(panel), 60);
  }).observe(figure);
  return figure;
}

/** Options that all charts share. */
function framed(theme, option) {
  return {
    animation: false,
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: theme.text },
    ...option,
    tooltip: {
      renderMode: "richText",
      confine: true,
      backgroundColor: theme.panel,
      borderColor: theme.line,
      padding: 8,
      textStyle: { color: theme.text, fontSize: 12, lineHeight: 17 },
      ...option.tooltip,
    },
  };
}

/** Tooltip text from lines; untrusted text is escaped. */
const tip = (...lines) => lines.filter(Boolean).map(chartText).join("\n");

/** Legend entries outside the canvas: a marker and a word each. */
function legendOf(entries) {
  return entries.map(({ colour, shape, text }) => {
    const mark = el("span", { class: "mark", "aria-hidden": "true", text: SHAPE_TEXT[shape] ?? "●" });
    mark.style.color = colour;
    return el("span", { class: "entry" }, mark, ` ${text}`);
  });
}

/** An even sample of the items, with at most `most` of them. */
function sampled(items, most) {
  if (items.length <= most) return Array.from(items);
  return Array.from({ length: most }, (_, i) => items[Math.floor((i * (items.length - 1)) / (most - 1))]);
}

/** A sentence if not all points are drawn, else "". */
const sampleNote = (drawn, all) => (drawn < all ? `${count(drawn)} of ${count(all)} points, evenly sampled.` : "");

/** Resolution, batch, precision and device of a row, and what else tells it apart. */
function rowSettings(view, row, { device = true } = {}) {
  const { rows } = view;
  const parts = [
    `${rows.number("resolution_px")[row]} px`,
    `batch ${rows.number("batch_size")[row]}`,
    rows.text("precision", row),
    ...(device ? [rows.text("device", row)] : []),
  ];
  return `${parts.join(" · ")}${view.index.suffix(row)}`;
}

/** A row's whole name, which no other has: for tooltips and tables. */
const rowName = (view, row) => `${view.rows.text("model", row)} · ${rowSettings(view, row)}`;

/** The parts of a row's name in which the pairs differ, and those that all share. */
function nameParts(view) {
  return view.once("name parts", () => {
    const parts = [
      ["resolution_px", " px", ""],
      ["batch_size", "", "batch "],
      ["precision", "", ""],
      ["device", "", ""],
    ];
    const [shared, differing] = [[], []];
    for (const [column, after, before] of parts) {
      const values = view.distinct(column);
      if (values.length > 1) differing.push([column, after, before]);
      else if (values[0]) shared.push(`${before}${values[0]}${after}`);
    }
    return { shared, differing };
  });
}

/** A row's name without what all pairs share; or the part of it that rows share which differ in one column only. */
function rowLabel(view, row, { without = "" } = {}) {
  const facets = view.index.facets;
  const value = (column) => facets.get(column).values[facets.get(column).data[row]];
  return (
    [
      view.rows.text("model", row),
      ...nameParts(view)
        .differing.filter(([column]) => column !== without)
        .map(
          ([column, after, before]) =>
            `${before}${column === "device" ? shortDevice(value(column)) : value(column)}${after}`,
        ),
    ].join(" · ") + (without ? "" : view.index.suffix(row))
  );
}

/** The 1× line and the band of no difference, for an axis of log2 speedups. */
function unityMarks(theme, floor, vertical = false) {
  const axis = vertical ? "xAxis" : "yAxis";
  const half = Math.log2(1 + floor);
  return {
    markLine: {
      silent: true,
      symbol: "none",
      animation: false,
      label: { show: false },
      lineStyle: { color: theme.quiet, type: "solid", width: 1 },
      data: [{ [axis]: 0 }],
    },
    markArea: { silent: true, itemStyle: { color: theme.band }, data: [[{ [axis]: -half }, { [axis]: half }]] },
  };
}

/** The widest band of no difference among rows. */
function floorOf(view) {
  return view.once("floor", () => {
    const floor = view.rows.number("floor");
    let most = 0;
    for (const row of view.pairs) if (floor[row] > most) most = floor[row];
    return most || 0.01;
  });
}
