/** "Where does it help?": the heat map of families with what ran, and families by geometric mean (never by the best
 * variant). */

import { count, countedOf, digits, extent, GeometricMean, getOrMake, NONE, percent, present, range, reach, share, SPREAD_MODELS, times } from "./numbers.js";
import { byId, dotted, el, fill, linkButton, phrase, plainTable, strip } from "./dom.js";
import { naturally } from "./data.js";
import { chartText, cutMiddle, doubtLegend, inkOn, margins, shortDevice, speedupColours, WORDS } from "./marks.js";
import { addPanel, chart } from "./panels.js";

export function whereSection() {
  const map = chart("where", { build: heatMap, table: heatTable, worth: (view) => view.counted.length > 1 && view.overview.compared + view.overview.failed > 0 });
  byId("where-charts").append(map, familyList());
}

const CELL_MOST = 120; // pixels

/** Cells of the map: groups down, devices and resolutions across; or only devices, merged over resolutions. @param {View} view */
function heatCells(view, merged = false) {
  return view.once(`heat ${merged}`, () => {
    const name = view.distinct("family").length <= 2 && view.distinct("model").length <= 60 ? "model" : "family";
    const [group, model] = [name, "model"].map((one) => view.rows.column(one));
    const [device, resolution] = ["device", "resolution_px"].map((facet) => view.index.facets.get(facet));
    const speedup = view.rows.number("speedup");
    const [isFailed, isSkipped] = [view.rows.is("verdict", "failed"), view.rows.is("status", "skipped")];
    const [columns, lines] = [new Map(), new Map()];
    for (const row of view.counted) {
      const [one, px] = [device, resolution].map(({ data }) => data[row]);
      const place = device.ranks[one] * 65536 + (merged ? 0 : resolution.ranks[px]);
      const column = () => ({ place, device: device.values[one], resolution: merged ? "all" : resolution.values[px] });
      getOrMake(columns, place, column);
      const code = group.data[row];
      const newLine = () => ({ name: group.values[code], mean: new GeometricMean(), cells: new Map() });
      const line = getOrMake(lines, code, newLine);
      const empty = () => ({ mean: new GeometricMean(), rows: [], failed: 0, skipped: 0 });
      const cell = getOrMake(line.cells, place, empty);
      if (present(speedup[row])) {
        cell.rows.push(row);
        for (const { mean } of [cell, line]) mean.add(speedup[row], model.data[row]);
      } else if (isFailed(row)) cell[isSkipped(row) ? "skipped" : "failed"] += 1;
    }
    return {
      name,
      columns: [...columns.values()].sort((a, b) => a.place - b.place),
      lines: [...lines.values()].sort((a, b) => (b.mean.value ?? 0) - (a.mean.value ?? 0)),
      devices: view.distinct("device"),
      resolutions: [...new Set(Array.from(columns.values(), (column) => column.resolution))].sort(naturally),
    };
  });
}

/** The map as a chart. @param {View} view @param {Theme} theme @param {number} width */
function heatMap(view, theme, width) {
  const left = Math.min(190, width * 0.34);
  const across = ({ devices, resolutions }) => (width - left) / (devices.length * resolutions.length);
  const whole = heatCells(view);
  const isSized = ({ cells: own }) => new Set(Array.from(own.keys(), (place) => place >> 16)).size < own.size;
  const merged = across(whole) < 26 || !whole.lines.some(isSized);
  const cells = merged ? heatCells(view, true) : whole;
  const { name, columns, lines, devices, resolutions } = cells;
  const wide = Math.min(width, left + 16 + CELL_MOST * devices.length * resolutions.length);
  const cellWidth = Math.min(CELL_MOST, across(cells));
  const items = lines.flatMap((line, y) =>
    columns.flatMap((column) => {
      const cell = line.cells.get(column.place);
      return cell ? { cell, line, y, column, dead: !cell.mean.n, doubt: view.doubtOfAll(cell.rows) } : [];
    }),
  );
  const letters = Math.max(9, Math.floor((wide - left) / devices.length / 7));
  const title = (y) => chartText(cutMiddle(lines[y].name, Math.floor(left / 6.4)));
  const colourOf = speedupColours(theme);
  return {
    finding: gains(lines),
    how: "A cell is the geometric mean over its models; small: fewer than three; blank: not run. Click a cell to filter.",
    note: [
      merged && whole.resolutions.length > 1 && "Resolutions are merged to fit the width; the table separates them.",
      plannedNote(view.rows.meta),
    ],
    legend: [
      ...[0.5, 0.7, 1, 1.4, 2].map((speedup) => ({
        mark: "■",
        colour: colourOf(speedup),
        text: { 0.5: "0.5× or less", 2: "2× or more" }[speedup] ?? `${speedup}×`,
      })),
      ...doubtLegend(items),
    ],
    plot: {
      width: wide,
      height: lines.length * 23 + 84,
      ...margins(30, 16, 40, left),
      fx: { axis: "top", label: null, padding: 0.02, tickFormat: (device) => chartText(cutMiddle(shortDevice(view, device), letters)) },
      x: {
        ...WORDS,
        domain: resolutions,
        padding: 0,
        ...(merged ? { ticks: [] } : { label: "resolution (px)", tickRotate: cellWidth < 34 ? -60 : 0 }),
      },
      y: { ...WORDS, domain: [...lines.keys()], padding: 0, tickFormat: title },
      marks: heatMarks(items, colourOf, theme, cellWidth),
    },
    tip: (item) => cellTip(view, item),
    click: ({ line, column }) =>
      view.state.set({
        device: new Set([column.device]),
        ...(merged ? {} : { resolution_px: new Set([column.resolution]) }),
        ...(name === "family" ? { family: new Set([line.name]) } : { model: line.name }),
      }),
  };
}

/** Squares, small for few models and hollow for doubt, and what is written in them. @param {Theme} theme */
function heatMarks(items, colourOf, theme, cellWidth) {
  const colour = ({ cell, dead }) => (dead ? theme.failed : colourOf(cell.mean.value));
  const hollow = ({ dead, doubt }) => dead || doubt !== "";
  const isFew = ({ cell, dead }) => !dead && cell.mean.models < 3;
  const at = { fx: (item) => item.column.device, x: (item) => item.column.resolution, y: "y" };
  const squares = (inset, own) =>
    Plot.cell(own, {
      ...at,
      inset,
      fill: (item) => (hollow(item) ? theme.panel : colour(item)),
      stroke: (item) => (hollow(item) ? colour(item) : "none"),
      strokeWidth: 1.5,
    });
  return [
    squares(0.5, items.filter((item) => !isFew(item))),
    squares(3, items.filter(isFew)),
    Plot.text(items, {
      ...at,
      text: (item) => cellText(item.cell, cellWidth, item.doubt),
      fill: (item) => (item.dead ? theme.failed : hollow(item) ? theme.text : inkOn(colour(item))),
      fontSize: cellWidth < 34 ? 9.5 : 11,
    }),
    Plot.cell(items, Plot.pointer({ ...at, stroke: theme.text, fill: "none", maxRadius: 200 })),
  ];
}

/** What a mouse over a cell says. @param {View} view */
function cellTip({ rows }, { cell, line, column, doubt }) {
  const { mean, failed, skipped } = cell;
  const speedup = rows.number("speedup");
  const ends = reach(cell.rows.map((row) => speedup[row]), mean.models);
  const most = mean.models < SPREAD_MODELS ? "all" : "8 of 10";
  const between = mean.n > 1 ? `; ${most} between ${range(ends[0], ends[1])}` : "";
  return [
    dotted(line.name, column.device, column.resolution !== "all" && `${column.resolution} px`),
    mean.n && `${times(mean.value)}${doubt} over ${countedOf(mean)}${between}`,
    failed && `✕ ${count(failed)} failed`,
    skipped && `– ${count(skipped)} skipped`,
  ];
}

/** "ResNetV2 gains most, 1.71×; HGNetV2 loses most, 0.88×", of lines in descending order. */
function gains(lines) {
  const measured = lines.filter(({ mean }) => mean.n);
  if (!measured.length) return "Nothing here ran with both modes";
  const [best, worst] = [measured[0], measured.at(-1)];
  const [first, last] = [best, worst].map(({ name, mean }) => [name || NONE, times(mean.value)]);
  if (best === worst) return first.join(": ");
  const up = best.mean.value >= 1 ? "gains most" : "loses least";
  const down = worst.mean.value < 1 ? "loses most" : "gains least";
  return `${first.join(` ${up}, `)}; ${last.join(` ${down}, `)}`;
}

const plannedNote = ({ planned, trials }) =>
  present(planned) && `${count(trials)} of ${count(planned)} planned trials are in this file (${share(trials, planned)}).`;

/** "2 failed, 1 skipped". */
const lostOf = ({ failed, skipped }) =>
  phrase([failed && `${count(failed)} failed`, skipped && `${count(skipped)} skipped`], ", ");

/** What fits in a cell: the mean, and what is lost. @param {number} width */
function cellText(cell, width, doubt) {
  const lost = lostOf(cell);
  if (!cell.mean.n) return width < 6.5 * lost.length ? "✕" : lost;
  const mean = `${width < 34 ? digits(cell.mean.value, 2) : cell.mean.value.toFixed(2)}${doubt}`;
  return lost && width >= 6.5 * (lost.length + 5) ? `${mean}, ${lost}` : mean;
}

function heatTable(/** @type {View} */ view) {
  const { name, columns, lines } = heatCells(view);
  const written = (cell) => {
    if (!cell?.mean.n) return cell ? lostOf(cell) : "";
    return `${times(cell.mean.value)}${view.doubtOfAll(cell.rows)} (${phrase([cell.mean.n, lostOf(cell)], ", ")})`;
  };
  const cells = columns.map(({ device, resolution, place }) =>
    /** @type {TableColumn<any>} */ ([`${device} ${resolution} px`, (line) => written(line.cells.get(place))]),
  );
  return plainTable("Geometric mean speedup", lines, [[name, (line) => line.name], ...cells], { most: Infinity });
}

/** The families, best first: figures, their range drawn to scale, names that filter. */
function familyList() {
  const box = el("div.chart.wide", { id: "family-list" });
  const caption = `Geometric mean over models, never the best variant. Range: where 8 of 10 configurations lie, or all of fewer than ${SPREAD_MODELS} models. Click a family to filter.`;
  const draw = (view) => {
    const families = view.overview.families.toSorted((a, b) => (b.geomean ?? 0) - (a.geomean ?? 0));
    const ends = extent(families.flatMap(({ geomean, low, high }) => [1, geomean, low, high]));
    const place = (value) => (100 * Math.log(value / ends[0])) / (Math.log(ends[1] / ends[0]) || 1);
    const marksOf = ({ geomean, low, high }) =>
      [["unity", 1, 1], ["reach", low, high], ["dot", geomean, geomean]].map(([name, from, to]) => [name, place(from), place(to)]);
    const table = plainTable(caption, families, [
      ["Family", ({ family }) => linkButton(family || NONE, () => view.state.only("family", family))],
      ["Geometric mean", ({ geomean, rows }) => `${times(geomean)}${view.doubtOfAll(rows)}`],
      ["Range", ({ n, low, high }) => (n > 1 ? range(low, high) : NONE)],
      ["Around 1×", (family) => (family.n ? strip("interval", marksOf(family)) : "")],
      ["Configurations", ({ n }) => n],
      ["Models", ({ models }) => models],
      ["Slower", ({ n, share_slower: slower }) => (n ? `${percent(100 * slower)} %` : NONE)],
      ["Failed", ({ failed }) => failed],
    ]);
    fill(box, el("h3", "Families"), table);
  };
  addPanel(box, draw, { worth: (view) => view.overview.families.length > 1 && view.overview.compared > 0 });
  return box;
}
