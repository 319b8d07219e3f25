/**
 * "What broke?": failures by status, mode and device, then one by one with what to do; and which trials were run.
 */

const FAILURES_SHOWN = 25;

function brokeSection() {
  const local = { kind: null, shown: FAILURES_SHOWN };
  const counts = byId("broke-counts");
  const list = byId("broke-list");
  const draw = () => drawFailures(currentView, counts, list, local, draw);
  addPanel(counts, () => {
    local.shown = FAILURES_SHOWN;
    draw();
  });
  byId("broke-charts").append(
    chart({
      title: "Coverage",
      wide: true,
      how: "Each cell counts the trials that ran; ✕ failed, – skipped; blank: not run.",
      build: coverageMap,
      table: coverageTable,
    }),
  );
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

const statusWords = (view, status) => view.rows.meta.status_texts?.[status] ?? status.replaceAll("_", " ");

function drawFailures(view, counts, list, local, redraw) {
  const found = failures(view);
  if (!found.length) {
    const hidden = view.state.verdict.size && !view.state.verdict.has("failed");
    fill(
      counts,
      emptyState(hidden ? "The verdict filter excludes failures." : "Nothing failed in this selection."),
    );
    return fill(list);
  }
  const kinds = failureKinds(view, found);
  if (!kinds.some((kind) => kind.key === local.kind)) local.kind = null;
  fill(
    counts,
    el("h3", { text: `${plural(found.length, "failure")} of ${plural(kinds.length, "kind")}` }),
    countsTable(view, kinds, local, redraw),
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
    el("h3", { text: chosen ? `${statusWords(view, chosen.status)}, in ${chosen.mode || "no mode"}` : "One by one" }),
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

function countsTable(view, kinds, local, redraw) {
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
      statusWords(view, kind.status),
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
              text: `${view.rows.number("resolution_px")[row]} px · batch ${view.rows.number("batch_size")[row]} · ${text("precision", row)} · ${text("device", row)}`,
            }),
          ),
          el("td", { text: text("failed_mode", row) || NONE }),
          el("td", { text: statusWords(view, text("status", row)) }),
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

/** Trials by family, device and resolution (or by device alone): how many ran, failed and were skipped. */
function coverage(view, merged = false) {
  return view.once(`coverage ${merged}`, () => {
    const { rows, index } = view;
    const [family, device, resolution] = [
      rows.category("family"),
      index.facets.get("device"),
      index.facets.get("resolution_px"),
    ];
    const [verdict, status] = [rows.category("verdict"), rows.category("status")];
    const [failed, skipped] = [verdict.values.indexOf("failed"), status.values.indexOf("skipped")];
    const worst = new Uint8Array(index.trials); // 1 ran, 2 skipped, 3 failed
    const at = new Uint32Array(index.trials);
    for (const row of view.base) {
      const now = verdict.data[row] !== failed ? 1 : status.data[row] === skipped ? 2 : 3;
      const trial = index.trial[row];
      at[trial] = row;
      if (now > worst[trial]) worst[trial] = now;
    }
    const cells = new Map();
    for (let trial = 0; trial < index.trials; trial++) {
      if (!worst[trial]) continue;
      const row = at[trial];
      const place = device.ranks[device.data[row]] * 65536 + (merged ? 0 : resolution.ranks[resolution.data[row]]);
      const key = family.data[row] * 2 ** 32 + place;
      if (!cells.has(key))
        cells.set(key, {
          family: family.values[family.data[row]],
          place,
          device: device.values[device.data[row]],
          resolution: merged ? "all" : resolution.values[resolution.data[row]],
          counts: [0, 0, 0, 0],
        });
      cells.get(key).counts[worst[trial]] += 1;
    }
    const all = [...cells.values()];
    const columns = [...new Map(all.map((cell) => [cell.place, cell])).values()].sort((a, b) => a.place - b.place);
    return { all, columns, families: [...new Set(all.map((cell) => cell.family))].sort(naturally) };
  });
}

const coverageText = ([, ran, skipped, failed], gap = " ") =>
  [ran ? count(ran) : "", failed ? `✕${count(failed)}` : "", skipped ? `–${count(skipped)}` : ""]
    .filter(Boolean)
    .join(gap);

function coverageMap(view, theme, width) {
  const left = Math.min(190, width * 0.34);
  const merged = (width - left - 12) / coverage(view).columns.length < 24;
  const { all, columns, families } = coverage(view, merged);
  if (!all.length) return { empty: "No trial of this selection was run." };
  const cellWidth = Math.min(120, (width - left - 12) / columns.length);
  const across = new Map(columns.map((column, x) => [column.place, x]));
  const sums = all.reduce((sum, { counts }) => sum.map((value, i) => value + counts[i]), [0, 0, 0, 0]);
  const planned = view.rows.meta.planned;
  const data = all.map((cell) => ({ cell, value: [across.get(cell.place), families.indexOf(cell.family)] }));
  return {
    height: families.length * 24 + 72,
    label: `${plural(sums[1], "trial")} ran, ${count(sums[3])} had a failure, ${count(sums[2])} were skipped.`,
    note: present(planned)
      ? `${count(view.rows.meta.trials)} of ${count(planned)} planned trials are in this file (${share(view.rows.meta.trials, planned)}).`
      : "",
    option: {
      grid: { left, width: cellWidth * columns.length, top: 24, bottom: 46 },
      tooltip: {
        trigger: "item",
        formatter: ({ data: { cell } }) =>
          tip(
            `${cell.family} · ${cell.device} · ${cell.resolution} px`,
            `${plural(cell.counts[1], "trial")} ran`,
            cell.counts[3] ? `✕ ${count(cell.counts[3])} with a failure` : "",
            cell.counts[2] ? `– ${count(cell.counts[2])} skipped` : "",
          ),
      },
      xAxis: resolutionAxis(theme, columns, cellWidth),
      yAxis: nameAxis(theme, families, { inverse: true, axisLabel: { width: left - 12, overflow: "truncate" } }),
      series: [
        {
          type: "custom",
          encode: { x: 0, y: 1 },
          data,
          renderItem: (params, api) => coverageCell(theme, data[params.dataIndex], api),
        },
        deviceHeads(theme, columns),
      ],
    },
  };
}

function coverageCell(theme, { cell: { counts }, value }, api) {
  const [x, y] = api.coord(value);
  const [w, h] = api.size([1, 1]).map((size) => Math.max(1, size - 1.5));
  const ran = counts[1] / (counts[1] + counts[2] + counts[3]);
  const fill = counts[3] && !counts[1] ? theme.panel : mixed(theme.panel, theme.faster, 0.12 + 0.38 * ran);
  const text = coverageText(counts);
  const room = w > text.length * 6.2;
  return {
    type: "group",
    children: [
      {
        type: "rect",
        shape: { x: x - w / 2, y: y - h / 2, width: w, height: h, r: 2 },
        style: { fill, stroke: counts[3] ? theme.failed : "transparent", lineWidth: counts[3] ? 1.4 : 0 },
      },
      {
        type: "text",
        silent: true,
        style: {
          text: room ? text : counts[3] && w > 9 ? "✕" : w > 20 ? short(counts[1]) : "",
          x,
          y,
          align: "center",
          verticalAlign: "middle",
          fontSize: 10.5,
          fill: theme.text,
        },
      },
    ],
  };
}

function coverageTable(view) {
  const { all, columns, families } = coverage(view);
  const cells = new Map(all.map((cell) => [`${cell.family} ${cell.place}`, cell]));
  return {
    caption: "Trials that ran, ✕ failed, – skipped",
    head: ["Family", ...columns.map((column) => `${column.device} ${column.resolution} px`)],
    numeric: columns.map((_, i) => i + 1),
    rows: families.map((family) => [
      family,
      ...columns.map(
        (column) => coverageText(cells.get(`${family} ${column.place}`)?.counts ?? [0, 0, 0, 0]) || "not run",
      ),
    ]),
  };
}
