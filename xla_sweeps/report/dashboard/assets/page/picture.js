/** Pictures: a chart as a file of its own, with title, subject, legend and source, so that it can leave the page. */

import { announce, button, download, el } from "./dom.js";
import { chartText } from "./scales.js";

/** The buttons of a chart. */
export function pictureButtons(name, picture) {
  const take = (text, label, click) => button({ class: "small", "aria-label": label }, click, text);
  const save = () => download(`${name}.svg`, picture().text, "image/svg+xml");
  return el(
    "span.take",
    take("Copy image", `Copy the image of the chart ${name}`, () => copyImage(name, picture())),
    take("SVG", `Save the chart ${name} as SVG`, save),
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
export const PICTURE_WIDTH = 960;

/** The whole figure as one SVG, in these colours: `{text, width, height}`. */
export function pictureOf({ finding, subject, legend, chart, how, source }, theme) {
  const [width, height] = ["width", "height"].map((name) => Number(chart.getAttribute(name)));
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
  for (const [name, value] of Object.entries({ x: PAD, y, overflow: "visible" })) chart.setAttribute(name, value);
  y += height;
  write(how, 11, theme.quiet);
  write(source, 11, theme.quiet);
  const [wide, high] = [width + 2 * PAD, Math.ceil(y + PAD)];
  const whole = svgElement(
    "svg",
    { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, color: theme.text, "font-family": font },
    svgElement("rect", { width: "100%", height: "100%", fill: theme.panel }),
    ...lines,
    chart,
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

function svgElement(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
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
