"""Size of the page, and its time to load and to filter, in headless Chromium or Firefox.

Made-up rows (`tests/support/synthetic_rows.py`). `load` is the time from the start of navigation
until everything in view is drawn; `filter` that from a click on a filter until the next frame has
been painted, with the top of the page in view, or the table of all pairs. Medians over
repetitions, each in a new page.

    python benchmarks/dashboard.py [--rows 5000 100000] [--repetitions 7]
        [--browser chromium] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
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
CLICK = """(async () => {{
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  document.getElementById('{section}').scrollIntoView({{behavior: 'instant'}});
  await frame();
  await new Promise((done) => setTimeout(done, 300));
  const box = document.querySelector('[name="f-{column}"]');
  const started = performance.now();
  box.click();
  await frame();
  const seconds = performance.now() - started;
  box.click();
  await frame();
  return seconds;
}})()"""
FIGURES = {
    "load ms": "",
    "filter by device ms": CLICK.format(section="top", column="device"),
    "filter by family ms": CLICK.format(section="top", column="family"),
    "filter by device, at the table, ms": CLICK.format(section="everything", column="device"),
    "filter by family, at the table, ms": CLICK.format(section="everything", column="family"),
}


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


def measured(browser: Browser, uri: str) -> dict[str, float]:
    """Each figure once, in a new page."""
    browser.open(uri, before=READY)
    found = {"load ms": browser.wait("globalThis.readyAt")}
    for name, expression in FIGURES.items():
        if expression:
            found[name] = browser.evaluate(expression)
    if browser.complaints:
        raise SystemExit(f"the page complains: {browser.complaints}")
    return found


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
            medians = [f"{statistics.median(run[name] for run in runs):.0f}" for name in FIGURES]
            lines.append(f"| {count:,} | {size / 1e6:.2f} | {' | '.join(medians)} |")
            figures.append({"rows": count, "bytes": size, "runs": runs})
            print(lines[-1], flush=True)
    table = "\n".join(lines)
    print(f"\n{where}\nmedian of {arguments.repetitions}\n\n{table}")
    if arguments.write:
        RESULTS.mkdir(exist_ok=True)
        stem = RESULTS / f"dashboard_{arguments.browser}"
        title = f"# The page in {arguments.browser}"
        source = f"{where}. Median of {arguments.repetitions}."
        stem.with_suffix(".md").write_text(f"{title}\n\n{source}\n\n{table}\n")
        document = {"machine": where, "repetitions": arguments.repetitions, "figures": figures}
        stem.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
