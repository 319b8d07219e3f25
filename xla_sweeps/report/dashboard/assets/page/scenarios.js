/** Scenarios: those of a file, and the pair of modes that each begins with. */

import { ownOf } from "./dom.js";

const SCENARIOS = Object.keys(PACKAGE.headlines);

/** The scenarios of the file, those that were measured most first: name, and the pair that each is about. */
export function scenariosOf(rows) {
  return (rows.scenarios ??= scenariosIn(rows).map((name) => {
    const [baseline, candidate] = ownOf(PACKAGE.headlines, name) ?? PACKAGE.headlines.call;
    return { name, baseline, candidate };
  }));
}

function scenariosIn(/** @type {Rows} */ rows) {
  const { data, values } = rows.codes("scenario");
  const isMeasured = rows.is("origin", "measured");
  const placeOf = (name) => (SCENARIOS.includes(name) ? SCENARIOS.indexOf(name) : SCENARIOS.length);
  const found = values.map((name) => ({ name, measured: 0, all: 0, place: placeOf(name) }));
  data.forEach((code, row) => {
    found[code].all += 1;
    found[code].measured += Number(isMeasured(row));
  });
  const first = (a, b) => b.measured - a.measured || b.all - a.all || a.place - b.place;
  return found.length ? found.toSorted(first).map(({ name }) => name) : ["call"];
}

export const scenarioOf = (rows, scenario) => scenariosOf(rows).find(({ name }) => name === scenario) ?? scenariosOf(rows)[0];

export const candidatesOf = ({ pairs }, { scenario, baseline }) => pairs.get(scenario)?.get(baseline) ?? new Set();

/** A candidate of a baseline: the scenario's own where it was measured. @param {Index} index */
export function candidateFor(index, scenario, baseline) {
  const candidates = candidatesOf(index, { scenario, baseline });
  const usual = scenarioOf(index.rows, scenario).candidate;
  return candidates.has(usual) || !candidates.size ? usual : [...candidates][0];
}

/** The pair to begin with: the scenario's own baseline, else eager, else the first of this scenario and origin. @param {Index} index */
export function pairFor(index, scenario, origin) {
  const { rows, pairs } = index;
  const isOf = origin === "all" ? () => true : rows.is("origin", origin);
  const baselines = rows.textsOf("baseline", rows.where(rows.is("scenario", scenario)).filter(isOf));
  const usual = scenarioOf(rows, scenario).baseline;
  const compared = (name) => baselines.includes(name) && pairs.get(scenario)?.has(name);
  const baseline = [usual, "eager", ...baselines].find(compared) ?? usual;
  return { baseline, candidate: candidateFor(index, scenario, baseline) };
}

/** The mode behind a label: `graph_2` is `graph`. @param {string} label */
export const modeOf = (label) => label.replace(/_\d+$/, "");

/** What compiles and runs a label's mode; undefined for a mode of another version. @param {string} label */
export const executionOf = (label) => ownOf(PACKAGE.executions, modeOf(label));
