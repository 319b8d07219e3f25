/**
 * Scales: colours of the theme, and axes. A logarithmic axis here is a linear one of logarithms whose ticks are chosen
 * for the range, because ECharts' own has ticks at powers only, too few for 0.9× to 1.4×.
 */

/** The theme's colours, from the style sheet. */
function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    text: of("text"),
    quiet: of("quiet"),
    line: of("line"),
    panel: of("panel"),
    band: of("band"),
    accent: of("accent"),
    faster: of("faster"),
    slower: of("slower"),
    equivalent: of("equivalent"),
    ambiguous: of("ambiguous"),
    failed: of("failed"),
    middle: of("middle"),
  };
}

/** A mode's marker. */
const modeShape = (label) => MODE_SHAPES[modeOf(label)] ?? "diamond";
const MODE_SHAPES = { __proto__: null, eager: "circle", graph: "rect", xla: "triangle" };

/** Marker symbols as text, for legends outside a canvas. */
const SHAPE_TEXT = { circle: "●", rect: "■", triangle: "▲", diamond: "◆" };

/** A colour between two `#rrggbb`. */
function mixed(from, to, part) {
  const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const [a, b] = [channels(from), channels(to)];
  return `#${a
    .map((value, i) =>
      Math.round(value + (b[i] - value) * part)
        .toString(16)
        .padStart(2, "0"),
    )
    .join("")}`;
}

/** The more readable of black and white on a colour. */
function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#101418" : "#ffffff";
}

/** A speedup's colour: slower – middle – faster, full at twice. */
function speedupColour(theme, speedup) {
  const part = Math.max(-1, Math.min(1, Math.log2(speedup)));
  return mixed(theme.middle, part < 0 ? theme.slower : theme.faster, Math.abs(part) ** 0.8);
}

/** Lowest and highest finite value, or null. */
function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** About `wanted` round numbers between two positive ones, evenly on a logarithmic scale. */
function logTicks(low, high, wanted = 6) {
  const decades = Math.log10(high / low);
  const steps =
    decades > wanted
      ? null
      : decades > wanted / 2.2
        ? [1, 3]
        : decades > wanted / 3.5
          ? [1, 2, 5]
          : [1, 1.5, 2, 3, 5, 7];
  const ticks = [];
  const every = steps ? 1 : Math.ceil(decades / wanted);
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    if (power % every) continue;
    for (const step of steps ?? [1]) ticks.push(step * 10 ** power);
  }
  const inside = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  return inside.length >= 2 ? inside : linearTicks(low, high, 4).filter((tick) => tick > 0);
}

/** Round numbers between two. */
function linearTicks(low, high, wanted = 5) {
  if (!(high > low)) return [low];
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step / 1e6; tick += step)
    ticks.push(Number(tick.toPrecision(12)));
  return ticks;
}

const steps = (from, to, size) =>
  Array.from({ length: Math.round((to - from) / size) + 1 }, (_, i) => Number((from + i * size).toFixed(4)));
const TAILS = [
  [1 / 32, 1 / 16, 1 / 8, 0.25],
  [3, 4, 6, 8, 16, 32],
];
/** Ticks for speedups, the finest first; each set spans its whole range. */
const SPEEDUP_TICKS = [
  steps(0.9, 1.1, 0.005),
  steps(0.8, 1.2, 0.01),
  steps(0.5, 2, 0.02),
  steps(0.5, 2, 0.05),
  [...TAILS[0], 0.4, ...steps(0.5, 1.5, 0.1), 1.75, 2, 2.5, ...TAILS[1]],
  [...TAILS[0], 0.35, 0.5, 0.7, 0.85, 1, 1.2, 1.4, 1.7, 2, 2.5, ...TAILS[1]],
  [...TAILS[0], 0.35, 0.5, 0.7, 1, 1.4, 2, ...TAILS[1]],
  [...TAILS[0], 0.5, 1, 2, 4, 8, 16, 32],
  [1 / 64, 1 / 16, 0.25, 1, 4, 16, 64],
];

/** The common look of an axis. */
function axisBase(theme, name) {
  return {
    type: "value",
    name,
    nameLocation: "middle",
    nameGap: 30,
    nameTextStyle: { color: theme.quiet, fontSize: 12 },
    axisLine: { show: true, lineStyle: { color: theme.line } },
    axisLabel: { color: theme.quiet, fontSize: 11, hideOverlap: true },
    splitLine: { show: true, lineStyle: { color: theme.line, opacity: 0.6 } },
    axisTick: { show: false },
  };
}

/** An axis with ticks at these places, formatted by `write`. */
function ticked(axis, [low, high], places, write) {
  const axisAt = { customValues: places };
  return {
    ...axis,
    min: low,
    max: high,
    axisLabel: { ...axis.axisLabel, ...axisAt, formatter: write },
    axisTick: { ...axis.axisTick, ...axisAt },
    splitLine: { ...axis.splitLine, ...axisAt },
  };
}

/** An axis of positive values, whose data are given as log10. */
function logAxis(theme, name, values, write = short, { pad = 0.03, wanted = 6 } = {}) {
  const [low, high] = extent(values) ?? [1, 10];
  const [from, to] = low === high ? [low / 1.5, high * 1.5] : [low, high];
  const margin = Math.log10(to / from) * pad;
  const ends = [Math.log10(from) - margin, Math.log10(to) + margin];
  const places = logTicks(10 ** ends[0], 10 ** ends[1], wanted).map(Math.log10);
  return ticked(axisBase(theme, name), ends, places, (place) => write(Number((10 ** place).toPrecision(6))));
}

/** An axis of speedups around 1×, whose data are given as log2. */
function speedupAxis(theme, name, values, { pad = 0.04, wanted = 8 } = {}) {
  const [low, high] = extent(values) ?? [0.5, 2];
  const [from, to] = [Math.log2(Math.min(low, 1 / 1.03)), Math.log2(Math.max(high, 1.03))];
  const margin = (to - from) * pad;
  const ends = [from - margin, to + margin];
  const reaches = (ticks) =>
    Math.log2(ticks[0]) <= ends[0] + 0.1 * (to - from) && Math.log2(ticks.at(-1)) >= ends[1] - 0.1 * (to - from);
  const inside = SPEEDUP_TICKS.filter(reaches).map((ticks) =>
    ticks.map(Math.log2).filter((place) => place >= ends[0] && place <= ends[1]),
  );
  const places = inside.find((ticks) => ticks.length <= wanted) ?? [0];
  return ticked(axisBase(theme, name), ends, places, (place) => `${digits(Number((2 ** place).toPrecision(4)), 3)}×`);
}

/** An axis of names. */
function nameAxis(theme, names, extra = {}) {
  return {
    type: "category",
    data: names.map(chartText),
    axisLine: { lineStyle: { color: theme.line } },
    axisTick: { show: false },
    axisLabel: { color: theme.text, fontSize: 11, interval: 0, ...extra.axisLabel },
    splitLine: { show: false },
    ...Object.fromEntries(Object.entries(extra).filter(([key]) => key !== "axisLabel")),
  };
}

/**
 * Untrusted text for a canvas: on one line, and without what rich text would read as a style (`{name|…}`).
 */
function chartText(text) {
  return String(text ?? "")
    .replace(/[\u0000-\u001f\u007f\u2028\u2029]+/g, " ")
    .replaceAll("__proto__", "__\u200bproto__") // ECharts keeps widths under the text itself
    .replaceAll("{", "{\u200b")
    .replaceAll("|", "\u200b|");
}

/** Text cut to a length. */
const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
