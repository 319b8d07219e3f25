/**
 * "What broke?": failures by status, mode and device, then one by one with what to do.
 */

const FAILURES_SHOWN = 25;

function brokeSection() {
  const local = { kind: null, shown: FAILURES_SHOWN };
  const worth = (view) => failedRows(view).next().value !== undefined;
  const draw = () => drawFailures(currentView, local, draw);
  const redraw = () => {
    local.shown = FAILURES_SHOWN;
    draw();
  };
  addPanel(byId("broke-counts"), redraw, { worth });
  addPanel(byId("broke-list"), () => {}, { worth });
}

/** The rows that failed, of every pair of modes. */
function* failedRows({ base, rows, state }) {
  if (state.verdict.size && !state.verdict.has("failed")) return;
  const { data, values } = rows.column("verdict");
  const failed = values.indexOf("failed");
  for (const row of base) if (data[row] === failed) yield row;
}

const statusWords = (status) => status.replaceAll("_", " ");

/** The failures, each once whatever its baseline, by status and mode, the most frequent kind first. */
function failureKinds(view) {
  return view.once("failure kinds", () => {
    const [kinds, seen] = [new Map(), new Set()];
    for (const row of failedRows(view)) {
      const [status, mode] = [view.rows.text("status", row), view.rows.text("failed_mode", row)];
      const key = `${status} ${mode}`;
      const failure = `${view.index.trial[row]} ${key}`;
      if (seen.has(failure)) continue;
      seen.add(failure);
      if (!kinds.has(key)) kinds.set(key, { key, status, mode, rows: [] });
      kinds.get(key).rows.push(row);
    }
    return [...kinds.values()].sort((a, b) => b.rows.length - a.rows.length);
  });
}

function drawFailures(view, local, redraw) {
  const kinds = failureKinds(view);
  const all = kinds.flatMap(({ rows }) => rows).sort((a, b) => a - b);
  const chosen = kinds.find(({ key }) => key === local.kind);
  const rows = chosen ? chosen.rows : all;
  const choose = (kind) => {
    Object.assign(local, { kind: kind === chosen ? null : kind.key, shown: FAILURES_SHOWN });
    redraw();
    const buttons = byId("broke-counts").querySelectorAll("button");
    buttons[kinds.indexOf(kind)].focus();
  };
  const title = `${plural(all.length, "failure")} of ${plural(kinds.length, "kind")}`;
  fill(byId("broke-counts"), el("h3", { text: title }), countsTable(view, kinds, chosen, choose));
  const next = Math.min(4 * FAILURES_SHOWN, rows.length - local.shown);
  const more = () => {
    local.shown += next;
    redraw();
  };
  fill(
    byId("broke-list"),
    el("h3", { text: chosen ? `${statusWords(chosen.status)}, in ${chosen.mode || "no mode"}` : "One by one" }),
    failureTable(view, rows.slice(0, local.shown)),
    next > 0 && button({}, more, `Show ${count(next)} more of ${count(rows.length)}`),
  );
}

function countsTable(view, kinds, chosen, choose) {
  const rows = kinds.flatMap((kind) => kind.rows);
  const names = [...new Set(rows.map((row) => view.rows.text("device", row)))].sort(naturally);
  const on = (own, name) => own.filter((row) => view.rows.text("device", row) === name).length || "";
  const pick = (kind) =>
    linkButton(statusWords(kind.status), () => choose(kind), { "aria-pressed": String(kind === chosen) });
  return plainTable({
    caption: "Failures by status, mode and device; choose one to list only its failures",
    head: ["Status", "Mode", ...names, "All"],
    rows: kinds.map((kind) => [
      pick(kind),
      kind.mode || NONE,
      ...names.map((name) => on(kind.rows, name)),
      kind.rows.length,
    ]),
  });
}

function failureTable(view, rows) {
  const text = (name, row) => view.rows.text(name, row);
  const note = (words) => el("span", { class: "note", text: words });
  const columns = {
    Model: (row) => [text("model", row), note(rowSettings(view, row))],
    Mode: (row) => text("failed_mode", row) || NONE,
    Status: (row) => statusWords(text("status", row)),
    Message: (row) => {
      const hint = text("failure_hint", row);
      return [el("div", { class: "message" }, messageOf(text("failure_message", row)), hint && note(`→ ${hint}`))];
    },
    Log: (row) => linksOf(view, row),
    Command: (row) => copyButton(view, row),
  };
  return plainTable({ ...itemsTable("Failures, one by one", rows, columns, Infinity), class: "failures" });
}

/** A message; a long one is folded after its beginning. */
function messageOf(message) {
  if (!message) return NONE;
  const head = cut(message.split("\n", 1)[0], 160);
  return head === message
    ? el("code", { text: message })
    : el("details", {}, el("summary", {}, el("code", { text: head })), el("pre", { text: message }));
}
