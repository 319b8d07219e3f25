"""Size of the page, and its time to load and to change, in headless Chromium or Firefox.

Made-up rows (`tests/support/synthetic_rows.py`). `load` is the time from the start of navigation
until everything in view is drawn, the first chart among it; the others are times from a choice
until the next frame has been painted, with the top of the page in view, or the table of all rows.
Each in a new page; medians of: milliseconds on the clock, in brackets CPU milliseconds of the whole
browser, and after a slash the clock's time of a fixed loop in the same page (`CALIBRATION`), which
shows how much of the machine was free.

    python benchmarks/dashboard.py [--rows 5000 100000] [--repetitions 7]
        [--browser chromium] [--write]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from browser import Browser, find, started
from dashboard_page import write_study

RESULTS = Path(__file__).resolve().parent / "results"
READY = """new MutationObserver((_, observer) => {
  if (document.documentElement?.dataset.ready !== 'true') return;
  globalThis.readyAt = performance.now();
  observer.disconnect();
}).observe(document, {attributes: true, subtree: true, attributeFilter: ['data-ready']});"""
CALIBRATION = """(() => {
  const started = performance.now();
  let state = 1;
  for (let i = 0; i < 2e7; i++) state = (Math.imul(state, 1664525) + 1013904223) | 0;
  return state === 0 ? NaN : performance.now() - started;
})()"""
FRAME = "await new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
LOOK = f"""(async () => {{{{
  document.querySelector("a[data-to='{{}}']").click(); {FRAME};
  while (!xlaSweeps.settled()) {FRAME};
  await new Promise((done) => setTimeout(done, 500)); }}}})()"""
CHANGE = f"""(async () => {{{{ const started = performance.now(); {{}}; {FRAME};
  return performance.now() - started; }}}})()"""
FACET = """document.querySelector('[name="f-{}"]').click()"""
PAIR = """(() => {{ const select = document.querySelector('[name="f-pair"]');
  select.value = 'xla/{}'; select.dispatchEvent(new Event('change')); }})()"""
FIGURES = {
    "load": ("", "", ""),
    "filter by device": ("answer", FACET.format("device"), FACET.format("device")),
    "filter by family": ("answer", FACET.format("family"), FACET.format("family")),
    "filter by device, at the table": (
        "everything",
        FACET.format("device"),
        FACET.format("device"),
    ),
    "baseline switched": ("answer", PAIR.format("eager"), PAIR.format("graph")),
}
"""The part in view, an action, and the action that undoes it."""


def machine(browser: str) -> str:
    """The machine that the figures were measured on."""
    cpu = "an unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    version = subprocess.run(
        [find(browser) or browser, "--version"], capture_output=True, text=True, check=True
    )
    return (
        f"{os.cpu_count()} cores of {cpu}, no GPU; {platform.platform()}; "
        f"{version.stdout.strip()}; load average before: {load}"
    )


def measured(browser: Browser, uri: str) -> dict[str, list[float]]:
    """Each figure once, in a new page: milliseconds on the clock, of CPU, of the calibration."""
    times = {}
    for name, (section, action, undo) in FIGURES.items():
        if section:
            browser.evaluate(LOOK.format(section))
        else:
            browser.open("about:blank")
        before = cpu_ms()
        if section:
            clock = browser.evaluate(CHANGE.format(action))
        else:
            browser.open(uri, before=READY, fresh=True)
            clock = browser.wait("globalThis.readyAt")
        times[name] = [clock, cpu_ms() - before, browser.evaluate(CALIBRATION)]
        if undo:
            browser.evaluate(CHANGE.format(undo))
    if browser.complaints:
        raise SystemExit(f"the page complains: {browser.complaints}")
    return times


def cpu_ms() -> float:
    """CPU milliseconds of all processes that this one has started, except Playwright's own."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(stat.parent.name))
    waiting, total_ns = [*parents.get(os.getpid(), [])], 0
    while waiting:
        process = waiting.pop()
        waiting += parents.get(process, [])
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/comm").read_text().startswith("node"):
                continue
            for task in Path(f"/proc/{process}/task").glob("*/schedstat"):
                total_ns += int(task.read_text().split()[0])
    return total_ns / 1e6


def shown(runs: Sequence[dict[str, list[float]]], name: str) -> str:
    """Medians of a figure."""
    clock, cpu, loop = (statistics.median(run[name][place] for run in runs) for place in range(3))
    return f"{clock:.0f} ({cpu:.0f}) / {loop:.0f}"


def main() -> None:
    """Make the pages, open each several times, print the medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[5000, 100_000])
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--browser", choices=["chromium", "firefox"], default="chromium")
    parser.add_argument(
        "--write", action="store_true", help="save the figures in benchmarks/results/"
    )
    arguments = parser.parse_args()
    where = machine(arguments.browser)
    lines = [f"| rows | MB | {' | '.join(FIGURES)} |", f"|---|---|{'---|' * len(FIGURES)}"]
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, started(arguments.browser) as browser:
        for rows in arguments.rows:
            study = write_study(Path(folder) / f"{rows}.html", rows)
            size, count = study.path.stat().st_size, len(study.rows)
            runs = [measured(browser, study.uri) for _ in range(arguments.repetitions)]
            medians = [shown(runs, name) for name in FIGURES]
            lines.append(f"| {count:,} | {size / 1e6:.2f} | {' | '.join(medians)} |")
            figures.append({"rows": count, "bytes": size, "runs": runs})
            print(lines[-1], flush=True)
    table = "\n".join(lines)
    print(f"\n{where}\nmedian of {arguments.repetitions}\n\n{table}")
    if arguments.write:
        RESULTS.mkdir(exist_ok=True)
        stem = RESULTS / f"dashboard_{arguments.browser}"
        title = f"# The page in {arguments.browser}"
        units = "milliseconds (of CPU) / of the calibration loop"
        source = f"{where}. Medians of {arguments.repetitions}: {units}."
        stem.with_suffix(".md").write_text(f"{title}\n\n{source}\n\n{table}\n")
        document = {"machine": where, "repetitions": arguments.repetitions, "figures": figures}
        stem.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
