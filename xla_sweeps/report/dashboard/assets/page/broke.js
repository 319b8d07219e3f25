/**
 * "What broke?": failures by status, mode and device, then one by one with what to do.
 */

const FAILURES_SHOWN = 25;

function brokeSection() {
  const local = { kind: null, shown: FAILURES_SHOWN };
  const counts = byId("broke-counts");
  const list = byId("broke-list");
  const draw = () => drawFailures(currentView, counts, list, local, draw);
  const worth = (view) => failures(view).length > 0;
  addPanel(
    counts,
    () => {
      local.shown = FAILURES_SHOWN;
      draw();
    },
    { worth },
  );
  addPanel(list, () => {}, { worth });
}

/** Each failure once, whatever its baseline. */
function failures(view) {
  return view.once("failures", () => {
    const { rows, index, state } = view;
    if (state.verdict.size && !state.verdict.has("failed")) return [];
    const verdict = rows.category("verdict");
    const failed = verdict.values.indexOf("failed");
    const [mode, status] = [rows.category("failed_mode"), rows.category("status")];
    const seen = new Set();
    const found = [];
    for (const row of view.base) {
      if (verdict.data[row] !== failed) continue;
      const key = (index.trial[row] * mode.values.length + mode.data[row]) * status.values.length + status.data[row];
      if (seen.has(key)) continue;
      seen.add(key);
      found.push(row);
    }
    return found;
  });
}

const statusWords = (status) => status.replaceAll("_", " ");

function drawFailures(view, counts, list, local, redraw) {
  const found = failures(view);
  const kinds = failureKinds(view, found);
  if (!kinds.some((kind) => kind.key === local.kind)) local.kind = null;
  fill(
    counts,
    el("h3", { text: `${plural(found.length, "failure")} of ${plural(kinds.length, "kind")}` }),
    countsTable(kinds, local, redraw),
  );
  const chosen = kinds.find((kind) => kind.key === local.kind);
  const rows = chosen ? chosen.rows : found;
  const more = el(
    "button",
    {
      type: "button",
      on: {
        click: () => {
          local.shown += 4 * FAILURES_SHOWN;
          redraw();
        },
      },
    },
    `Show ${count(Math.min(4 * FAILURES_SHOWN, rows.length - local.shown))} more of ${count(rows.length)}`,
  );
  fill(
    list,
    el("h3", { text: chosen ? `${statusWords(chosen.status)}, in ${chosen.mode || "no mode"}` : "One by one" }),
    scrollBox(failureTable(view, rows.slice(0, local.shown)), "Failures, one by one"),
    rows.length > local.shown ? more : null,
  );
}

/** Failures grouped by status and mode, the most frequent first. */
function failureKinds(view, found) {
  const kinds = new Map();
  for (const row of found) {
    const [status, mode] = [view.rows.text("status", row), view.rows.text("failed_mode", row)];
    const key = `${status} ${mode}`;
    if (!kinds.has(key)) kinds.set(key, { key, status, mode, rows: [], devices: new Map() });
    const kind = kinds.get(key);
    kind.rows.push(row);
    const device = view.rows.text("device", row);
    kind.devices.set(device, (kind.devices.get(device) ?? 0) + 1);
  }
  return [...kinds.values()].sort((a, b) => b.rows.length - a.rows.length);
}

function countsTable(kinds, local, redraw) {
  const devices = [...new Set(kinds.flatMap((kind) => [...kind.devices.keys()]))].sort(naturally);
  const pick = (kind) =>
    el(
      "button",
      {
        type: "button",
        class: "link",
        "aria-pressed": String(local.kind === kind.key),
        data: { kind: kind.key },
        on: {
          click: () => {
            Object.assign(local, { kind: local.kind === kind.key ? null : kind.key, shown: FAILURES_SHOWN });
            redraw();
            [...byId("broke-counts").querySelectorAll("[data-kind]")]
              .find((button) => button.dataset.kind === kind.key)
              ?.focus();
          },
        },
      },
      statusWords(kind.status),
    );
  return plainTable({
    caption: "Failures by status, mode and device; choose one to list only its failures",
    head: ["Status", "Mode", ...devices, "All"],
    numeric: devices.map((_, i) => i + 2).concat(devices.length + 2),
    rows: kinds.map((kind) => [
      pick(kind),
      kind.mode || NONE,
      ...devices.map((device) => kind.devices.get(device) ?? ""),
      kind.rows.length,
    ]),
  });
}

function failureTable(view, rows) {
  const text = (name, row) => view.rows.text(name, row);
  const head = ["Model", "Mode", "Status", "Message", "Log", "Command"];
  return el(
    "table",
    { class: "failures" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        head.map((name) => el("th", { scope: "col", text: name })),
      ),
    ),
    el(
      "tbody",
      {},
      rows.map((row) =>
        el(
          "tr",
          {},
          el(
            "th",
            { scope: "row" },
            text("model", row),
            el("span", {
              class: "note",
              text: rowSettings(view, row),
            }),
          ),
          el("td", { text: text("failed_mode", row) || NONE }),
          el("td", { text: statusWords(text("status", row)) }),
          el(
            "td",
            { class: "message" },
            messageOf(text("failure_message", row)),
            text("failure_hint", row) ? el("span", { class: "note", text: `→ ${text("failure_hint", row)}` }) : null,
          ),
          el("td", { class: "path", text: text("log", row) || NONE }),
          el("td", {}, copyButton(text("command", row), text("model", row))),
        ),
      ),
    ),
  );
}

/** A message; a long one is folded after its beginning. */
function messageOf(message) {
  if (!message) return NONE;
  const head = cut(message.split("\n", 1)[0], 160);
  return head === message
    ? el("code", { text: message })
    : el("details", {}, el("summary", {}, el("code", { text: head })), el("pre", { text: message }));
}
