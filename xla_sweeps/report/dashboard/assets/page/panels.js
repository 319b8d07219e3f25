/** Panels: parts of the page that are drawn only near the viewport; charts with their text and table; and pictures of
 * these, with title, subject, legend and source, so that they can leave the page. */

import { count } from "./numbers.js";
import { announce, applyTheme, button, byId, copyText, csvCell, download, el, emptyState, fill, folded, phrase, svgElement, there, wholeTable } from "./dom.js";
import { chartText, colours, legendOf, sourceOf, subjectOf } from "./marks.js";
import { PAIR } from "./state.js";

/** @type {Panel[]} */
const PANELS = [];
const MARGIN = 250; // pixels outside the viewport in which panels are drawn too
export let currentView = /** @type {View} */ (/** @type {unknown} */ (null)); // until the page is built

const sight = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries)
      PANELS.find(({ element }) => element === target).near = isIntersecting;
    drawNear();
    document.documentElement.dataset.ready = "true";
  },
  { rootMargin: `${MARGIN}px 0px` },
);

/**
 * Registers a part of the page. @param {HTMLElement} element @param {(view: View) => void} draw called when the view has
 * changed and the element is near the viewport. @param {PanelLook} [more] `follows`: parts of the state that it shows
 *   beside the view: `sort`, `tab`; `worth`: whether the view gives it something to say; if not, it is hidden.
 */
export function addPanel(element, draw, { follows = [], worth = () => true } = {}) {
  const panel = { element, draw, follows, worth, near: false, stale: true };
  PANELS.push(panel);
  sight.observe(element);
  return panel;
}

/**
 * A new view or theme: everything is drawn again, now or when it comes near the viewport.
 * @param {string[]|null} [names] the only parts of the state that changed; then only panels that follow them are drawn.
 */
export function refreshPanels(view = currentView, names = null) {
  currentView = view;
  document.documentElement.style.setProperty("--pairs", String(view.pairs.length)); // room for charts that are not drawn yet
  if (!names) showWorthy();
  for (const panel of PANELS) if (!names || panel.follows.some((name) => names.includes(name))) panel.stale = true;
  drawNear();
}

/** Hides the panels without something to say, and the sections that are left empty with the links to them. */
function showWorthy() {
  for (const { element, worth } of PANELS) element.hidden = !worth(currentView);
  for (const section of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("main section"))) {
    const own = PANELS.filter(({ element }) => section.contains(element));
    if (!own.length) continue;
    section.hidden = own.every(({ element }) => element.hidden);
    document.querySelector(`nav a[data-to="${section.id}"]`).parentElement.hidden = section.hidden;
  }
}

const isWaiting = ({ near, stale, element }) => near && stale && !element.hidden;

/** Whether everything near the viewport is drawn. */
export const allDrawn = () => !PANELS.some(isWaiting);

/** Whether a panel is at most so many pixels outside the viewport. */
function isWithin({ element }, margin) {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom >= -margin && top <= innerHeight + margin;
}

/** Draws visible panels at once, from the top, since each moves those below; those near afterwards, one at a time. */
function drawNear() {
  for (const panel of PANELS) if (isWaiting(panel) && isWithin(panel, 0)) drawPanel(panel);
  if (!allDrawn()) setTimeout(drawNext);
}

function drawNext() {
  const waiting = PANELS.filter(isWaiting);
  const next = waiting.find((panel) => isWithin(panel, MARGIN + 1));
  if (next) {
    drawPanel(next);
    setTimeout(drawNext);
  } else waiting.forEach(lookAgain);
}

/** Asks whether a panel is near that was moved away: one that is moved back before the next frame is not reported. */
function lookAgain(panel) {
  panel.near = false;
  sight.unobserve(panel.element);
  sight.observe(panel.element);
}

let isPrinting = false;

/** Draws everything, for printing. */
export function drawAll() {
  isPrinting = true;
  for (const panel of PANELS) panel.stale = true;
  PANELS.filter(({ element }) => element.checkVisibility()).forEach(drawPanel);
  isPrinting = false;
}

function drawPanel(panel) {
  if (!panel.stale || !currentView) return;
  panel.stale = false;
  const { element } = panel;
  const focused = element.contains(document.activeElement) && document.activeElement.textContent;
  try {
    panel.draw(currentView);
    if (focused && !element.contains(document.activeElement)) focusAgain(element, focused);
  } catch (problem) {
    reportErrorOnPage(problem);
    fill(panel.element, emptyState("This part could not be drawn; the rest of the page still works."));
  }
}

/** Focuses the control with the text of one that is gone, else the section's heading. @param {string} text */
function focusAgain(element, text) {
  const alike = [...element.querySelectorAll("button, a, select")].find((control) => control.textContent === text);
  (alike ?? element.closest("section").querySelector("h2")).focus({ preventScroll: true });
}

/** Marks the page as faulty, for tests, and logs the problem. */
export function reportErrorOnPage(problem) {
  document.documentElement.dataset.error = String(problem?.message ?? problem);
  console.error(problem);
}

/**
 * A chart: its finding as the title, what it shows under that, the drawing, its source, and its table.
 * @param {string} name of the chart, for files and tests. @param {Chart} spec as for `addPanel`; default `worth`: there
 *   is a pair. `build` returns the finding, which is the result in words; options of `Plot.plot`; `tip` and `click`,
 *   which take what lies under the mouse. `table` has the same in figures. `chips` stand for the legend's verdicts.
 */
export function chart(name, { build, table, follows, chips, worth = (view) => view.pairs.length > 0 }) {
  const parts = {
    finding: el("h3", name), // until it is drawn
    subject: el("p.subject"),
    legend: el("div.legend"),
    canvas: el("div.canvas", { role: "group", "aria-label": `Chart ${name}` }),
  };
  const onPaper = () => {
    applyTheme("light");
    const theme = colours();
    const built = build(currentView, theme, PICTURE_WIDTH);
    const { finding, subject = subjectOf(currentView), legend = [], how, note, ...drawn } = built;
    const words = { finding, subject, below: phrase([how, note].flat()) };
    const picture = { ...words, source: sourceOf(currentView), legend: el("div", legendOf(legend)) };
    applyTheme("");
    return pictureOf({ ...picture, drawn: drawing(finding, drawn, PICTURE_WIDTH) }, theme);
  };
  const caption = el("figcaption");
  const twin = folded("Show as table");
  const figure = el(
    "figure.chart.wide",
    { data: { chart: name } },
    el("div.heading", parts.finding, takeButtons(name, onPaper, () => table(currentView))),
    ...[parts.subject, parts.legend, parts.canvas, caption, twin],
  );
  let twinStale = true;
  const drawTwin = () => {
    if (!twin.open || !twinStale) return;
    twinStale = false;
    fill(twin, twin.firstElementChild, table(currentView));
  };
  twin.addEventListener("toggle", drawTwin);
  let drawnWidth = 0;
  const draw = (view) => {
    const { canvas } = parts;
    drawnWidth = figure.clientWidth;
    const width = canvas.clientWidth;
    const { finding, subject = subjectOf(view), legend = [], how, note, plot, sheets, ...drawn } = build(view, colours(), width);
    parts.finding.textContent = finding;
    parts.subject.textContent = subject;
    caption.textContent = phrase([how, note].flat());
    fill(parts.legend, chips, legendOf(legend.filter(({ isVerdict }) => !chips || !isVerdict)));
    fill(canvas, ((isPrinting && sheets?.()) || [plot]).map((part) => drawing(finding, { ...drawn, plot: part }, width)));
    const scrolls = canvas.scrollHeight > canvas.clientHeight + 1 || canvas.scrollWidth > canvas.clientWidth + 1;
    canvas.tabIndex = scrolls ? 0 : -1;
    twinStale = true;
    drawTwin();
  };
  const panel = addPanel(figure, draw, { follows, worth });
  new ResizeObserver(() => {
    if (!drawnWidth || Math.abs(figure.clientWidth - drawnWidth) < 2) return;
    panel.stale = true;
    clearTimeout(panel.timer);
    panel.timer = setTimeout(() => panel.near && drawPanel(panel), 60);
  }).observe(figure);
  return figure;
}

/** The SVG of a chart. Plot's own style sheet is left out, which the page's policy forbids: page.css has it. */
function drawing(finding, /** @type {Drawing} */ { plot, tip, click }, width) {
  const svg = Plot.plot({ width, className: "plot", marginRight: 16, ...plot });
  svg.querySelector("style").remove();
  for (const mark of svg.querySelectorAll("[aria-label]")) {
    mark.dataset.mark = mark.getAttribute("aria-label"); // an image is read as a whole
    mark.removeAttribute("aria-label");
  }
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", chartText(finding));
  svg.setAttribute("font-size", "11");
  if (plot.width > width) svg.style.maxWidth = "none"; // the box around it scrolls
  if (click) svg.classList.add("clicks");
  svg.addEventListener("pointerdown", (event) => event.stopImmediatePropagation(), true); // would pin the mark
  const box = byId("tip");
  const hide = () => (box.hidden = true);
  hide();
  svg.addEventListener("input", () => {
    box.hidden = !there(svg.value);
    if (!box.hidden) box.textContent = phrase(tip(svg.value), "\n");
  });
  svg.addEventListener("pointermove", ({ clientX, clientY }) => {
    const { offsetWidth, offsetHeight } = box;
    const left = clientX + 16 + offsetWidth > innerWidth ? clientX - 16 - offsetWidth : clientX + 16;
    box.style.left = `${Math.max(4, left)}px`;
    box.style.top = `${Math.max(4, Math.min(clientY + 12, innerHeight - offsetHeight - 4))}px`;
  });
  svg.addEventListener("pointerleave", hide);
  if (click) svg.addEventListener("click", () => svg.value && click(svg.value));
  return svg;
}

/** An even sample of the items, with at most `most` of them. */
export function sampled(items, most) {
  if (items.length <= most) return Array.from(items);
  return Array.from({ length: most }, (_, i) => items[Math.floor((i * (items.length - 1)) / (most - 1))]);
}

/** A sentence if not all points are drawn, else "". */
export const sampleNote = (drawn, all) => (drawn < all ? `${count(drawn)} of ${count(all)} points, evenly sampled.` : "");

/** The buttons of a chart: its link, its figures, its picture. @param {string} name @param {() => Node} table */
function takeButtons(name, picture, table) {
  const take = (text, label, click) => button({ class: "small", "aria-label": `${label} the chart ${name}` }, click, text);
  const address = () => {
    const query = new URLSearchParams(location.hash.slice(1));
    query.set("at", name);
    for (const side of PAIR) query.set(side, currentView.state[side]);
    return `${location.href.split("#")[0]}#${query}`;
  };
  const lines = () => {
    const made = /** @type {Element} */ (wholeTable(() => /** @type {any} */ (table())));
    return Array.from(made.querySelectorAll("tr"), (line) => Array.from(line.cells, (cell) => csvCell(cell.textContent.trim())).join(","));
  };
  return el(
    "span.take",
    take("Link", "Copy the link of", () => copyText(address(), "Link copied")),
    take("CSV", "Save the figures of", () => download(`${name}.csv`, `${lines().join("\r\n")}\r\n`, "text/csv;charset=utf-8")),
    take("PNG", "Copy the image of", () => copyImage(name, picture())),
    take("SVG", "Save the picture of", () => download(`${name}.svg`, picture().text, "image/svg+xml")),
  );
}

/** Puts the picture on the clipboard; saves it if the browser refuses. */
async function copyImage(name, picture) {
  const image = pngOf(picture);
  try {
    await navigator.clipboard.write([new ClipboardItem({ "image/png": image })]);
    announce("Image copied");
  } catch {
    download(`${name}.png`, await image, "image/png");
    announce("Image saved");
  }
}

/** A picture as PNG, twice as fine as on the screen. */
async function pngOf({ text, width, height }) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = el("canvas", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

const PAD = 16;
const PICTURE_WIDTH = 960;

/** The whole figure as one SVG, in these colours: `{text, width, height}`. */
function pictureOf({ finding, subject, legend, drawn, below, source }, theme) {
  const [width, height] = ["width", "height"].map((name) => Number(drawn.getAttribute(name)));
  const font = getComputedStyle(document.body).fontFamily;
  const lines = [];
  let y = PAD;
  const write = (text, size, colour, weight = "normal") => {
    for (const line of wrapped(text, `${weight} ${size}px ${font}`, width)) {
      y += size * 1.35;
      lines.push(svgElement("text", { x: PAD, y, fill: colour, "font-size": size, "font-weight": weight }, line));
    }
  };
  write(finding, 16, theme.text, "bold");
  write(subject, 12, theme.quiet);
  if (legend.children.length) y += 4;
  for (const spans of legendLines(legend, `12px ${font}`, width, theme))
    lines.push(svgElement("text", { x: PAD, y: (y += 18), fill: theme.text, "font-size": 12 }, ...spans));
  y += 8;
  for (const [name, value] of Object.entries({ x: PAD, y, overflow: "visible" })) drawn.setAttribute(name, value);
  y += height;
  write(below, 11, theme.quiet);
  write(source, 11, theme.quiet);
  const [wide, high] = [width + 2 * PAD, Math.ceil(y + PAD)];
  const whole = svgElement(
    "svg",
    { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, color: theme.text, "font-family": font },
    svgElement("rect", { width: "100%", height: "100%", fill: theme.panel }),
    ...lines,
    drawn,
  );
  return { text: new XMLSerializer().serializeToString(whole), width: wide, height: high };
}

/** The legend's entries in lines of at most this width, their marks in their colours: a list of spans for each line. @param {number} width @param {Theme} theme */
function legendLines(legend, font, width, theme) {
  const lines = [];
  let room = 0;
  for (const entry of legend.children) {
    const mark = entry.querySelector("[data-colour]");
    wrapped(entry.textContent.trim(), font, width).forEach((text, part) => {
      const needed = widthOf(`${text}\u2003`, font);
      if (part || needed > room) {
        lines.push([]);
        room = width;
      }
      room -= needed;
      const marked = mark && !part ? mark.textContent : "";
      const symbol = svgElement("tspan", { fill: mark?.dataset.colour ?? theme.text }, marked);
      lines.at(-1).push(symbol, svgElement("tspan", {}, `${text.slice(marked.length)}\u2003`));
    });
  }
  return lines;
}

/** Text as lines that are at most so wide. @param {string} text @param {number} width */
function wrapped(text, font, width) {
  const lines = [];
  for (const word of text ? chartText(text).split(" ") : []) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && widthOf(longer, font) <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

const RULER = document.createElement("canvas").getContext("2d");

/** How many pixels wide a text is. @param {string} text */
function widthOf(text, font) {
  RULER.font = font;
  return RULER.measureText(text).width;
}
