/** Scenarios: those of a file, and the pair of modes that each begins with. */

import { ownOf } from "./dom.js";

/** The scenarios of the file, those that were measured most first: name, the pair that each is about, and its candidates by baseline. @param {Rows} rows */
export const scenariosOf = ({ meta }) =>
  (meta.scenarios.length ? meta.scenarios : [["call", []]]).map(([name, pairs]) => {
    const [baseline, candidate] = ownOf(PACKAGE.headlines, name) ?? PACKAGE.headlines.call;
    return { name, baseline, candidate, pairs: new Map(pairs) };
  });

export const scenarioOf = (rows, scenario) => scenariosOf(rows).find(({ name }) => name === scenario) ?? scenariosOf(rows)[0];

/** The baselines of a scenario, each with its candidates. @param {Rows} rows @returns {Map<string, string[]>} */
export const pairsOf = (rows, scenario) => scenariosOf(rows).find(({ name }) => name === scenario)?.pairs ?? new Map();

/** A candidate of a baseline: the scenario's own where it was measured. @param {Rows} rows */
export function candidateFor(rows, scenario, baseline) {
  const candidates = pairsOf(rows, scenario).get(baseline) ?? [];
  const usual = scenarioOf(rows, scenario).candidate;
  return candidates.includes(usual) || !candidates.length ? usual : candidates[0];
}

/** The pair to begin with: the scenario's own baseline, else eager, else the first of this scenario and origin. @param {Rows} rows */
export function pairFor(rows, scenario, origin) {
  const isOf = origin === "all" ? () => true : rows.is("origin", origin);
  const baselines = rows.textsOf("baseline", rows.where(rows.is("scenario", scenario)).filter(isOf));
  const usual = scenarioOf(rows, scenario).baseline;
  const compared = (name) => baselines.includes(name) && pairsOf(rows, scenario).has(name);
  const baseline = [usual, "eager", ...baselines].find(compared) ?? usual;
  return { baseline, candidate: candidateFor(rows, scenario, baseline) };
}

/** The mode behind a label: `graph_2` is `graph`. @param {string} label */
export const modeOf = (label) => label.replace(/_\d+$/, "");

/** What compiles and runs a label's mode; undefined for a mode of another version. @param {string} label */
export const executionOf = (label) => ownOf(PACKAGE.executions, modeOf(label));
