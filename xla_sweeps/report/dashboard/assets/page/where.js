/** "Where does it help?": a line for each family, a column for each device, the range of the speedups in each. */

import { count, extent, getOrMake, NONE, plural, present, range, times } from "./numbers.js";
import { byId, dotted, linkButton, phrase, plainTable } from "./dom.js";
import { naturally } from "./data.js";
import { chartText, cutMiddle, floorOf, margins, shortDevice, speedupScale, subjectOf, unityMarks, WORDS } from "./marks.js";
import { chart } from "./panels.js";

const DEVICES_DRAWN = 6;

export function whereSection() {
  const worth = (view) => view.counted.length > 1 && view.overview.compared + view.overview.failed > 0;
  byId("where-charts").append(chart("where", { build: mapDrawing, table: mapTable, worth }));
}

/** Lines of groups, with a cell for each device: its rows with a speedup, their range, and what is lost. @param {View} view */
function mapOf(view) {
  return view.once("map", () => {
    const name = view.distinct("family").length <= 2 && view.distinct("model").length <= 60 ? "model" : "family";
    const speedup = view.rows.number("speedup");
    const lines = new Map();
    for (const row of view.counted) {
      const { device, verdict, status, [name]: title } = view.at(row);
      const line = getOrMake(lines, title, () => ({ name: title, cells: new Map() }));
      const cell = getOrMake(line.cells, device, () => ({ device, title, rows: [], failed: 0, skipped: 0 }));
      if (present(speedup[row])) cell.rows.push(row);
      else if (verdict === "failed") cell[status === "skipped" ? "skipped" : "failed"] += 1;
    }
    for (const cell of [...lines.values()].flatMap(({ cells }) => [...cells.values()])) {
      const ends = extent(cell.rows.map((row) => speedup[row]));
      Object.assign(cell, { low: ends?.[0], high: ends?.[1], doubt: view.doubtOfAll(cell.rows) });
    }
    return { name, devices: view.distinct("device"), lines: [...lines.values()].sort((a, b) => naturally(a.name, b.name)) };
  });
}

const sideOf = ({ low, high }, floor) => (low > 1 + floor ? "faster" : high < 1 / (1 + floor) ? "slower" : "equivalent");
/** The map as a chart. @param {View} view @param {Theme} theme @param {number} width */
function mapDrawing(view, theme, width) {
  const { name, devices, lines } = mapOf(view);
  const shown = devices.slice(0, DEVICES_DRAWN);
  const floor = floorOf(view);
  const items = lines.flatMap((line, y) =>
    [...line.cells.values()].filter(({ device }) => shown.includes(device)).map((cell) => ({ ...cell, y, n: cell.rows.length })),
  );
  const [ran, dead] = [items.filter(({ n }) => n), items.filter(({ n }) => !n)];
  const left = Math.min(150, width * 0.3);
  const letters = Math.max(8, Math.floor((width - left) / shown.length / 7));
  const colour = (cell) => theme[sideOf(cell, floor)];
  const at = { fx: "device", y: "y" };
  const lost = ({ failed, skipped }) => phrase([failed && `✕ ${failed}`, skipped && `– ${skipped}`]);
  return {
    finding: mapFinding(view, shown),
    subject: subjectOf(view),
    how: `From the lowest to the highest speedup of a ${name} on a device, with how many configurations; blue: all faster, orange: all slower, grey: both or neither; ✕ failed, – skipped. Click to filter.`,
    note: shown.length < devices.length && `The first ${shown.length} of ${devices.length} devices.`,
    plot: {
      height: lines.length * 23 + 84,
      ...margins(30, 34, 40, left),
      fx: { axis: "top", label: null, padding: 0.06, domain: shown, tickFormat: (device) => chartText(cutMiddle(shortDevice(view, device), letters)) },
      x: speedupScale("speedup", ran.flatMap(({ low, high }) => [low, high]), { wanted: Math.max(2, width / shown.length / 90) }),
      y: { ...WORDS, type: "point", domain: [...lines.keys()], padding: 0.2, tickFormat: (y) => chartText(cutMiddle(lines[y].name, Math.floor(left / 6.6))) },
      marks: [
        ...unityMarks(theme, floor, "x"),
        Plot.ruleY(lines.keys(), { y: (y) => y, stroke: theme.line }),
        Plot.ruleY(ran, { ...at, x1: "low", x2: "high", stroke: colour, strokeWidth: 5, strokeOpacity: ({ doubt }) => (doubt ? 0.35 : 1) }),
        Plot.dot(ran.flatMap((cell) => [cell.low, cell.high].map((x) => ({ ...cell, x }))), { ...at, x: "x", r: 3.5, fill: colour }),
        Plot.text(ran, { ...at, x: "high", dx: 7, textAnchor: "start", text: (cell) => phrase([`${cell.n}${cell.doubt}`, lost(cell)]), fill: theme.quiet }),
        Plot.text(dead, { ...at, x: 1, text: lost, fill: theme.failed }),
        Plot.dot(items, Plot.pointerY({ ...at, x: ({ high }) => high ?? 1, r: 8, stroke: theme.text })),
      ],
    },
    tip: (cell) => [dotted(cell.title, cell.device), cell.n && `${cellWords(cell)} over ${plural(cell.n, "configuration")}`, lost(cell)],
    click: ({ title, device }) => view.state.set({ device: new Set([device]), ...(name === "family" ? { family: new Set([title]) } : { model: title }) }),
  };
}

const cellWords = ({ low, high, doubt }) => `${low === high ? times(low) : `${range(low, high)}×`}${doubt}`;

/** Of each device how many groups are faster throughout, and how many slower. @param {View} view */
function mapFinding(view, devices) {
  const { name, lines } = mapOf(view);
  const floor = floorOf(view);
  const said = devices.flatMap((device) => {
    const cells = lines.map(({ cells: own }) => own.get(device)).filter((cell) => cell?.rows.length);
    const [up, down] = ["faster", "slower"].map((side) => cells.filter((cell) => sideOf(cell, floor) === side).length);
    return cells.length ? [`${shortDevice(view, device)}: ${count(up)} of ${plural(cells.length, name, name === "family" ? "families" : "models")} faster throughout, ${count(down)} slower`] : [];
  });
  return said.join("; ") || "Nothing here ran with both modes";
}

/** The map in figures, with names that filter. */
function mapTable(/** @type {View} */ view) {
  const { name, devices, lines } = mapOf(view);
  const written = (cell) => {
    const lost = cell && phrase([cell.failed && `${count(cell.failed)} failed`, cell.skipped && `${count(cell.skipped)} skipped`], ", ");
    if (!cell?.rows.length) return lost ?? "";
    return `${cellWords(cell)} (${phrase([cell.rows.length, lost], ", ")})`;
  };
  const choose = (title) => () => (name === "family" ? view.state.only("family", title) : view.state.set({ model: title }));
  return plainTable("Lowest to highest speedup", lines, [
    [name, (line) => linkButton(line.name || NONE, choose(line.name))],
    ...devices.map((device) => /** @type {TableColumn<any>} */ ([device, ({ cells }) => written(cells.get(device))])),
  ], { most: Infinity });
}
